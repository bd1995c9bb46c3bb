"""That the proofs say something.

Every transition can happen, in rich states too; every theorem is broken by a planted mutant; and that hashes are
injective is used where keys are registered, and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import z3

from kvproof.spec.machine.axioms import HASH_AXIOMS
from kvproof.spec.machine.immediate import IMMEDIATE, IN_IMMEDIATE_MODE
from kvproof.spec.machine.systems import CHUNKS, HIT_LOOP, POOL, SYSTEMS, TABLES, system_of
from kvproof.spec.machine.theory import State, Term
from kvproof.spec.proofs.catalogue import MACHINE_MUTANTS
from kvproof.spec.proofs.finite import FiniteTheory
from kvproof.spec.proofs.mutants import MachineMutant, mutated
from kvproof.spec.proofs.obligations import TIMEOUT_S, Obligation, Prover, Verdict, obligations
from kvproof.spec.proofs.search import searchers

# Guards


@dataclass(frozen=True, slots=True)
class Situation:
    """A kind of state, with the transitions that cannot happen in it for a good reason."""

    name: str
    constraints: Callable[[FiniteTheory, State], list[Term]]
    excluded: frozenset[str] = frozenset()
    system: str = POOL.name


@dataclass(frozen=True, slots=True)
class Witness:
    """Whether a state of a situation was found in which a transition can happen; `reason` why not."""

    transition: str
    situation: str
    found: bool
    seconds: float
    reason: str = ""


def _anything(t: FiniteTheory, s: State) -> list[Term]:
    return []


def _reserved_beside_shared(t: FiniteTheory, s: State) -> list[Term]:
    (a, b, *_), (k, j, *_) = t.values["B"], t.values["K"]
    return [s.entry(k, a), s.entry(k, b), s.committed(k, a), s.entry(j, a), z3.Not(s.committed(j, a))]


def _two_in_flight(t: FiniteTheory, s: State) -> list[Term]:
    (r, w, *_), (b, *_) = t.values["R"], t.values["B"]
    return [s.done() + 2 <= s.now(), s.depends(r, w) > s.done(), s.attached(b, r) > s.done(), s.writes(b, w)]


def _served_state(t: FiniteTheory, s: State) -> list[Term]:
    (g, *_), (k, *_), (b, *_), (r, *_), (p, *_) = (t.values[sort] for sort in "GKBRP")
    return [s.recurrent(g), s.committed(k, b), s.served(b, r, p)]


def _shared(t: FiniteTheory, s: State) -> list[Term]:
    (a, b, *_), (k, *_) = t.values["B"], t.values["K"]
    return [s.committed(k, a), s.committed(k, b)]


def _runs_ahead(t: FiniteTheory, s: State) -> list[Term]:
    (r, *_) = t.values["R"]
    return [s.runs(r), s.position(r, s.done()) > 0, s.position(r, s.done()) < s.position(r, s.now())]


def _runs_on_a_state(t: FiniteTheory, s: State) -> list[Term]:
    (g, *_), (r, *_) = (t.values[sort] for sort in "GR")
    n = s.position(r, s.done())
    return [s.recurrent(g), s.runs(r), n > 0, n == s.position(r, s.now()), s.since(r, g) <= s.done()]


_NOT_AHEAD = frozenset({"run reset"})  # a request that runs holds a block
_NOT_ON_A_STATE = frozenset({"run reset", "run attach", "run go_back"})  # without states only

_RESET = frozenset({"reset", IN_IMMEDIATE_MODE + "reset"})  # nothing is referenced
_IMMEDIATE = frozenset(operation.name for operation in IMMEDIATE)  # nothing is reserved

SITUATIONS = (
    Situation("any state", _anything),
    Situation("two blocks share a key", _shared),
    Situation("a key is reserved beside a shared one", _reserved_beside_shared, _RESET | _IMMEDIATE),
    Situation("a reader depends on a writer, two steps in flight", _two_in_flight, _RESET | _IMMEDIATE),
    Situation("a recurrent state is read", _served_state, _RESET | {"attach"}),
    Situation("a request runs, and is further than it is settled", _runs_ahead, _NOT_AHEAD, TABLES.name),
    Situation("a request runs on a recurrent state", _runs_on_a_state, _NOT_ON_A_STATE, TABLES.name),
    *(Situation(f"any state of {system.name}", _anything, system=system.name) for system in (HIT_LOOP, CHUNKS)),
)


def situations_of(transition: str) -> list[Situation]:
    """The situations in which a transition has to be possible."""
    system = system_of(transition).name
    return [s for s in SITUATIONS if s.system == system and transition not in s.excluded]


def witness(transition: str, situation: Situation, timeout_s: float = TIMEOUT_S) -> Witness:
    """Search for a state of a situation in which a transition can happen."""
    start, reasons = time.perf_counter(), []
    for searcher in searchers(system=system_of(transition)):
        terms = [*searcher.enabled(transition), *situation.constraints(searcher.theory, searcher.state)]
        found = searcher.find(terms, timeout_s)
        if found.model is not None:
            return Witness(transition, situation.name, True, time.perf_counter() - start)
        reasons.append(found.reason)
    reason = next(filter(None, reasons), "there is none of the sizes tried")
    return Witness(transition, situation.name, False, time.perf_counter() - start, reason)


# Mutants


@dataclass(frozen=True, slots=True)
class Refutation:
    """Whether a counterexample was found to what a mutant is to break; `reason` why not."""

    mutant: str
    obligation: Obligation
    found: bool
    seconds: float
    reason: str = ""


def refute(mutant: MachineMutant, timeout_s: float = TIMEOUT_S) -> Refutation:
    """Search for a counterexample to what a mutant is to break."""
    start, reasons = time.perf_counter(), []
    for searcher in searchers(transitions=mutated(mutant), system=system_of(mutant.transition)):
        found = searcher.find(searcher.violation(mutant.breaks), timeout_s)
        if found.model is not None:
            return Refutation(mutant.name, mutant.breaks, True, time.perf_counter() - start)
        reasons.append(found.reason)
    reason = next(filter(None, reasons), "there is no counterexample of the sizes tried")
    return Refutation(mutant.name, mutant.breaks, False, time.perf_counter() - start, reason)


def unbroken(mutants: tuple[MachineMutant, ...] = MACHINE_MUTANTS) -> list[str]:
    """The theorems that no mutant breaks: invariants by name, facts with their transition."""
    broken = {mutant.breaks for mutant in mutants}
    invariants = {(system_of(o.transition).name, o.theorem) for o in broken if not o.fact}
    facts = [
        Obligation(fact.transition, fact.theorem, fact=True)
        for system in SYSTEMS
        for fact in system.facts
        if fact.transition != system.initial_row
    ]
    return [
        *(name for system in SYSTEMS for name in system.invariants if (system.name, name) not in invariants),
        *(str(fact) for fact in facts if fact not in broken),
    ]


# Injectivity of the hash


REGISTERING = ("register", IN_IMMEDIATE_MODE + "register")
"""The transitions that turn a hash into a key."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """What became of an obligation without some axioms: still proved, refuted by a model, or z3 does not know."""

    obligation: Obligation
    without: tuple[str, ...]
    verdict: Verdict
    seconds: float
    reason: str = ""


def dependences(row: str, timeout_s: float = TIMEOUT_S) -> Iterator[Dependence]:
    """What becomes of a row's obligations without the injectivity of the hash.

    A row that registers loses one axiom at a time, so that each is seen to be needed; the others lose all at once.
    """
    for without in [(axiom,) for axiom in HASH_AXIOMS] if row in REGISTERING else [HASH_AXIOMS]:
        for obligation in obligations():
            if obligation.transition == row:
                yield _dependence(obligation, without, timeout_s)


QUICK_S = 0.5
"""z3 gets so long to prove what may have a counterexample, of which it would never say so by itself."""


def _dependence(obligation: Obligation, without: tuple[str, ...], timeout_s: float) -> Dependence:
    start = time.perf_counter()
    prover, may_break = _prover(without), obligation.transition in REGISTERING
    proof = prover.check(obligation, min(QUICK_S, timeout_s) if may_break else timeout_s)
    if proof.verdict is not Verdict.PROVED and may_break:
        for searcher in searchers(without):
            if searcher.find(searcher.violation(obligation), timeout_s).model is not None:
                return Dependence(obligation, without, Verdict.REFUTED, time.perf_counter() - start)
        proof = prover.check(obligation, timeout_s)
    return Dependence(obligation, without, proof.verdict, time.perf_counter() - start, proof.reason)


@cache
def _prover(without: tuple[str, ...]) -> Prover:
    return Prover(without=without)
