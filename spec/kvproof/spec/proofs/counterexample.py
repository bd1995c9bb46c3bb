"""A counterexample as a person can read it: a table of the blocks before and after the transition.

A counterexample to induction is a state that satisfies every invariant and is left by the transition in one that does
not; it need not be reachable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import z3

from kvproof.spec.machine.theory import State, Term
from kvproof.spec.proofs.finite import FiniteTheory
from kvproof.spec.proofs.obligations import INITIAL, TIMEOUT_S, Obligation, Prover
from kvproof.spec.proofs.vacuity import window

COLUMNS = ("refs", "holders", "queue", "slot", "keys", "content")


@dataclass(frozen=True, slots=True)
class Row:
    """One block before and after; a cell is one of `COLUMNS`."""

    block: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def changed(self) -> tuple[bool, ...]:
        """Which cells differ."""
        return tuple(b != a for b, a in zip(self.before, self.after, strict=True))


@dataclass(frozen=True, slots=True)
class Counterexample:
    """What z3 found: the transition with its arguments, the blocks, and the rest of the state in words."""

    obligation: Obligation
    call: str
    rows: tuple[Row, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


def find(prover: Prover, obligation: Obligation, timeout_s: float = TIMEOUT_S) -> Counterexample | None:
    """A counterexample to an obligation over the finite theory, None if z3 finds none."""
    theory = prover.theory
    assert isinstance(theory, FiniteTheory), "only finite sorts have values that can be shown"
    solver, step = prover.question(obligation, timeout_s)
    if obligation.transition != INITIAL:
        solver.add(*window(prover, obligation.transition))
    plain = _plain(theory, prover.state)
    if solver.check(*plain) != z3.sat and solver.check() != z3.sat:
        return None
    reader = _Reader(theory, prover.state, solver.model())
    arguments = [reader.argument(a, sort) for a, sort in zip(step.arguments, _sorts(prover, obligation), strict=True)]
    before, after = reader.blocks(prover.state), reader.blocks(step.after)
    rows = tuple(Row(reader.block(b), before[i], after[i]) for i, b in enumerate(theory.values["B"]))
    return Counterexample(
        obligation,
        f"{obligation.transition}({', '.join(arguments)})",
        rows,
        reader.surroundings(prover.state),
        reader.surroundings(step.after),
    )


def _plain(theory: FiniteTheory, s: State) -> list[Term]:
    """What makes a counterexample easier to read, if it can be had."""
    (null, *_), (r, w, *_) = theory.values["B"], theory.values["R"]
    return [s.null() == null, s.is_request(r), s.is_request(w), s.text(r) != s.empty(), s.now() <= 2]


def _sorts(prover: Prover, obligation: Obligation) -> tuple[str, ...]:
    return () if obligation.transition == INITIAL else prover.transitions[obligation.transition].sorts


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
        """Steps, requests, dependencies and what the consumer believes."""
        lines = [f"step {self._value(s.now())} is built, {self._value(s.done())} committed"]
        for r in self._all("R"):
            lines.append(
                f"{self._request(r)}: text {self._prefix(s.text(r))}, {self._value(s.hashed(r))} tokens hashed"
            )
            for w in self._all("R"):
                if self._number(s.depends(r, w)) > self._number(s.done()):
                    lines.append(
                        f"{self._request(r)} depends on {self._request(w)}, step {self._value(s.depends(r, w))}"
                    )
        resident = [self._key(k) for k in self._all("K") if self._holds(s.resident(k))]
        return (*lines, f"resident for the consumer: {', '.join(resident) or 'nothing'}")

    def _cells(self, s: State, b: Term) -> tuple[str, ...]:
        holders = [self._holder(s, b, r) for r in self._all("R") if self._holds(s.holds(b, r))]
        keys = sorted(
            (self._number(s.rank(k, b)), self._entry(s, k, b)) for k in self._all("K") if self._holds(s.entry(k, b))
        )
        steps = range(self._number(s.done()), self._number(s.now()) + 1)
        content = [self._prefix(s.content(b, z3.IntVal(i))) for i in steps]
        return (
            str(self._value(s.ref_cnt(b))),
            " ".join(holders) or "-",
            f"place {self._value(s.place(b))}" if self._holds(s.is_free(b)) else "-",
            f"g{self._index('G', s.group(b))} from {self._value(s.start(b))}" if self._holds(s.placed(b)) else "-",
            " ".join(text for _, text in keys) or "-",
            content[0] if len(set(content)) == 1 else " > ".join(content),
        )

    def _holder(self, s: State, b: Term, r: Term) -> str:
        served = [self._prefix(p) for p in self._all("P") if self._holds(s.served(b, r, p))]
        role = " writes" if self._holds(s.writes(b, r)) else ""
        return self._request(r) + role + (f" reads {'/'.join(served)}" if served else "")

    def _entry(self, s: State, k: Term, b: Term) -> str:
        if self._holds(s.committed(k, b)):
            late = "" if self._number(s.ready(k, b)) <= self._number(s.done()) else f"@{self._value(s.ready(k, b))}"
            return self._key(k) + late
        return f"{self._key(k)}?{self._value(s.ready(k, b))}"

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
