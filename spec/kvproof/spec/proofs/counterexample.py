"""A counterexample as a person can read it: a table of the blocks before and after the transition.

A counterexample to induction is a state that satisfies every invariant and is left by the transition in one that does
not; it need not be reachable.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection

import z3

from kvproof.spec.machine.systems import system_of
from kvproof.spec.machine.theory import State, Term
from kvproof.spec.machine.transitions import Transition
from kvproof.spec.proofs.finite import FiniteTheory
from kvproof.spec.proofs.obligations import TIMEOUT_S, Counterexample, Obligation, Row
from kvproof.spec.proofs.search import Searcher, searchers

COLUMNS = ("refs", "holders", "queue", "slot", "keys", "content")


def find(
    obligation: Obligation, transitions: Collection[Transition] | None = None, timeout_s: float = TIMEOUT_S
) -> Counterexample | None:
    """A small counterexample to an obligation about a transition, None if z3 finds none."""
    system = system_of(obligation.transition)
    has_blocks = "ref_cnt" in system.signature
    for searcher in searchers(transitions=transitions, system=system):
        preferred = _preferences(searcher.theory, searcher.state) if has_blocks else []
        found = searcher.find(searcher.violation(obligation), timeout_s, preferred)
        if found.model is not None:
            return _read(searcher, obligation, found.model)
    return None


def _read(searcher: Searcher, obligation: Obligation, model: z3.ModelRef) -> Counterexample:
    state, theory = searcher.state, searcher.theory
    if "ref_cnt" not in theory.signature:
        return _read_numbers(searcher, obligation, model)
    reader = _Reader(theory, state, model)
    step, sorts = searcher.step(obligation.transition), searcher.transitions[obligation.transition].sorts
    arguments = [reader.argument(a, sort) for a, sort in zip(step.arguments, sorts, strict=True)]
    before, after = reader.blocks(state), reader.blocks(step.after)
    return Counterexample(
        obligation,
        f"{obligation.transition}({', '.join(arguments)})",
        tuple(Row(reader.block(b), *cells) for b, *cells in zip(theory.values["B"], before, after, strict=True)),
        reader.surroundings(state),
        reader.surroundings(step.after),
    )


def _read_numbers(searcher: Searcher, obligation: Obligation, model: z3.ModelRef) -> Counterexample:
    """A counterexample of a machine without blocks: every value before and after; a relation by where it holds."""
    theory, step = searcher.theory, searcher.step(obligation.transition)

    def value(term: Term) -> str:
        return _plain(model.eval(term, model_completion=True) if z3.is_expr(term) else term)

    def lines(s: State) -> tuple[str, ...]:
        told = []
        for name, (arguments, sort) in theory.signature.items():
            function = getattr(s, name)
            if not arguments:
                told.append(f"{name}: {value(function())}")
            elif sort == "Bool":
                places = itertools.product(*(theory.values[argument] for argument in arguments))
                there = [" ".join(map(_plain, place)) for place in places if value(function(*place)) == "True"]
                told.append(f"{name} at: {', '.join(there) or 'nothing'}")
        return tuple(told)

    call = f"{obligation.transition}({', '.join(map(value, step.arguments))})"
    return Counterexample(obligation, call, (), lines(searcher.state), lines(step.after))


def _plain(value: Term) -> str:
    """A value without the number that tells the sorts of one search from those of another."""
    return str(value).partition("_")[0]


def _preferences(theory: FiniteTheory, s: State) -> list[list[Term]]:
    """What makes a counterexample easier to read, the best first."""
    blocks, keys, holders, prefixes = (theory.values[sort] for sort in "BKRP")
    (null, *_), (r, w, *_) = blocks, holders
    numbers = [s.next_rank(), s.clock(), s.front(), s.back()]
    numbers += [f(b) for f in (s.place, s.released_at) for b in blocks]
    numbers += [s.rank(k, b) for k in keys for b in blocks]
    reading = [(b, q, z3.Or(*(s.served(b, q, p) for p in prefixes))) for b in blocks for q in holders]
    settled = [z3.Implies(s.committed(k, b), s.ready(k, b) <= s.done()) for k in keys for b in blocks]
    settled += [s.content(b, s.now()) == s.content(b, s.done()) for b in blocks]
    plain = [
        s.null() == null,
        s.content(null, s.now()) == s.empty(),
        s.content(null, s.done()) == s.empty(),
        s.is_request(r),
        s.is_request(w),
        s.text(r) != s.empty(),
        s.now() <= 2,
        z3.Or(*(s.committed(k, b) for k in keys for b in blocks)),
        *(z3.And(n >= 0, n <= 9) for n in numbers),
        *(z3.Implies(s.attached(b, q) > 0, reads) for b, q, reads in reading),
        *(z3.Implies(s.served(b, q, p), s.is_prefix(p, s.text(q))) for b in blocks for q in holders for p in prefixes),
        *(s.depends(q, q) == 0 for q in holders),
    ]
    return [plain + settled, plain]


class _Reader:
    """Reads values out of a model and gives them names: a prefix is spelled in letters, a key by its prefix."""

    def __init__(self, theory: FiniteTheory, state: State, model: z3.ModelRef) -> None:
        self._theory, self._rigid, self._model = theory, state, model
        self._prefix_names = self._spell_prefixes()

    def blocks(self, s: State) -> list[tuple[str, ...]]:
        """The cells of every block in a state."""
        return [self._cells(s, b) for b in self._theory.values["B"]]

    def block(self, b: Term) -> str:
        """Name of a block."""
        index = self._index("B", b)
        return f"{index} (null)" if self._holds(b == self._rigid.null()) else str(index)

    def argument(self, value: Term, sort: str) -> str:
        """An argument of the transition."""
        if sort == "X":
            return "{" + ", ".join(self._request(r) for r in self._all("R") if self._holds(value(r))) + "}"
        named: dict[str, Callable[[Term], str]] = {
            "B": lambda v: f"block {self.block(v)}",
            "R": self._request,
            "K": self._key,
            "P": self._prefix,
            "G": lambda v: f"g{self._index('G', v)}",
        }
        return named[sort](value) if sort in named else str(self._value(value))

    def surroundings(self, s: State) -> tuple[str, ...]:
        """Steps, requests, dependencies, what the consumer believes, and what was done wrong, one a line."""
        flags = {
            "removed_absent": "a Removed event named a key that was not resident",
            "stored_resident": "a Stored event named a key that was resident",
            "stored_orphan": "a Stored event named a parent that was not resident",
            "refused": "a transition of the composition was refused",
        }
        return (
            f"step {self._value(s.now())} is built, {self._value(s.done())} committed",
            *(self._kind(g) for g in self._all("G")),
            *(self._described(s, r) for r in self._all("R")),
            f"resident for the consumer: {', '.join(self._residents(s)) or 'nothing'}",
            *(text for name, text in flags.items() if name in vars(s) and self._holds(vars(s)[name]())),
        )

    def _kind(self, g: Term) -> str:
        kinds = {"recurrent": self._rigid.recurrent(g), "full attention": self._rigid.full_attention(g)}
        kind = next((name for name, term in kinds.items() if self._holds(term)), "sliding window")
        return f"g{self._index('G', g)}: {kind}, blocks of {self._value(self._rigid.block_size(g))} tokens"

    def _described(self, s: State, r: Term) -> str:
        wrong = [n for n in range(1, self._number(s.hashed(r)) + 1) if not self._hashes_its_text(s, r, n)]
        said = [f"text {self._prefix(s.text(r))}, {self._value(s.hashed(r))} tokens hashed"]
        said += [f"the hash of {n} tokens is of another text" for n in wrong]
        if "runs" in vars(s):
            said += [self._run(s, r)]
        said += [
            f"depends on {self._request(w)} until step {self._value(s.depends(r, w))}"
            for w in self._all("R")
            if self._number(s.depends(r, w)) > self._number(s.done())
        ]
        return f"{self._request(r)}: {', '.join(said)}"

    def _run(self, s: State, r: Term) -> str:
        """Where a request is after each step, and its table: group, start of the slot, block."""
        steps = range(self._number(s.done()), self._number(s.now()) + 1)
        positions = [str(self._value(s.position(r, z3.IntVal(i)))) for i in steps]
        slots = [
            f"g{self._index('G', g)} from {x} block {self.block(b)}"
            for g in self._all("G")
            for x in range(self._theory.window + 1)
            for b in [s.table(r, g, z3.IntVal(x))]
            if not self._holds(b == self._rigid.null())
        ]
        where = f"computed up to {' > '.join(positions)}" if self._holds(s.runs(r)) else "does not run"
        return f"{where}, table: {'; '.join(slots) or 'empty'}"

    def _hashes_its_text(self, s: State, r: Term, n: int) -> bool:
        return self._holds(s.hash_at(r, z3.IntVal(n)) == s.digest(s.first(s.text(r), z3.IntVal(n))))

    def _residents(self, s: State) -> list[str]:
        return [
            f"{self._key(k)} on {self._value(s.believed_copies(k))}"
            for k in self._all("K")
            if self._holds(s.resident(k)) or self._number(s.believed_copies(k)) > 0
        ]

    def _cells(self, s: State, b: Term) -> tuple[str, ...]:
        holders = [self._holder(s, b, r) for r in self._all("R") if self._holds(s.holds(b, r))]
        keys = sorted((self._number(s.rank(k, b)), self._entry(s, k, b)) for k in self._all("K"))
        steps = range(self._number(s.done()), self._number(s.now()) + 1)
        content = [self._prefix(s.content(b, z3.IntVal(i))) for i in steps]
        return (
            str(self._value(s.ref_cnt(b))),
            "\n".join(holders) or "-",
            self._waiting(s, b) if self._holds(s.is_free(b)) else "-",
            self._slot(s, b) if self._holds(s.placed(b)) else "-",
            "\n".join(text for _, text in keys if text) or "-",
            content[0] if len(set(content)) == 1 else " > ".join(content),
        )

    def _waiting(self, s: State, b: Term) -> str:
        keys = "keyed" if self._holds(s.kept_keys(b)) else "bare"
        return f"place {self._value(s.place(b))}\n{keys} since {self._value(s.released_at(b))}"

    def _slot(self, s: State, b: Term) -> str:
        group = f"g{self._index('G', s.group(b))} " * (len(self._all("G")) > 1)
        return f"{group}from {self._value(s.start(b))}"

    def _holder(self, s: State, b: Term, r: Term) -> str:
        served = [self._prefix(p) for p in self._all("P") if self._holds(s.served(b, r, p))]
        role = " writes" if self._holds(s.writes(b, r)) else ""
        step = self._number(s.attached(b, r))
        attached = f"?{step}" if step > self._number(s.done()) else ""
        return self._request(r) + role + (f" reads {'/'.join(served)}" if served else "") + attached

    def _entry(self, s: State, k: Term, b: Term) -> str:
        """A key of the block: `#` its rank, `?` the step in which it is reserved, `@` that in which it gets ready."""
        there, listed = self._holds(s.entry(k, b)), self._holds(s.listed(b, k))
        ready, key = self._number(s.ready(k, b)), f"{self._key(k)}#{self._value(s.rank(k, b))}"
        if there and not self._holds(s.committed(k, b)):
            key += f"?{ready}"
        elif ready > self._number(s.done()):
            key += f"@{ready}"
        if there and not listed:
            return f"{key} (not in the reverse index)"
        if listed and not there:
            return f"{key} (in the reverse index only)"
        if self._holds(s.committed(k, b)) and not there:
            return f"{key} (committed, but no entry)"
        return key if there else ""

    def _key(self, k: Term) -> str:
        return f"H({self._prefix(self._rigid.key_prefix(k))})"

    def _request(self, r: Term) -> str:
        kind = "r" if self._holds(self._rigid.is_request(r)) else "copy"
        return f"{kind}{self._index('R', r)}"

    def _prefix(self, p: Term) -> str:
        return self._prefix_names[self._index("P", p)]

    def _spell_prefixes(self) -> list[str]:
        """Spell every prefix in letters: siblings get different ones, extensions begin alike."""
        values = self._all("P")
        order = sorted(range(len(values)), key=lambda i: self._number(self._rigid.length(values[i])))
        names: dict[int, str] = {}
        for i in order:
            parents = [j for j in names if self._holds(self._rigid.is_prefix(values[j], values[i]))]
            stem = max((names[j] for j in parents), key=len, default="")
            letter = next(c for c in "abcdefgh" if stem + c not in names.values())
            names[i] = stem + letter if self._number(self._rigid.length(values[i])) else ""
        return [names[i] or "nothing" for i in range(len(values))]

    def _all(self, sort: str) -> list[Term]:
        return self._theory.values[sort]

    def _index(self, sort: str, term: Term) -> int:
        value = self._value(term)
        return next(i for i, known in enumerate(self._all(sort)) if value.eq(known))

    def _value(self, term: Term) -> Term:
        return self._model.eval(term, model_completion=True) if z3.is_expr(term) else term

    def _number(self, term: Term) -> int:
        value = self._value(term)
        return int(value.as_long()) if z3.is_expr(value) else int(value)

    def _holds(self, term: Term) -> bool:
        return bool(z3.is_true(self._value(term)))
