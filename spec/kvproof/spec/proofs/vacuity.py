"""That the proofs say something: every transition can happen, also in rich states, and every axiom about hashes is used."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import z3

from kvproof.spec.machine.axioms import HASH_AXIOMS
from kvproof.spec.machine.theory import State, Term
from kvproof.spec.proofs.finite import WINDOW, FiniteTheory
from kvproof.spec.proofs.obligations import TIMEOUT_S, Obligation, Prover, Verdict


@dataclass(frozen=True, slots=True)
class Reached:
    """Whether a transition can happen in a kind of state."""

    transition: str
    situation: str
    verdict: Verdict
    seconds: float


def _anything(t: FiniteTheory, s: State) -> list[Term]:
    return []


def _shared_key(t: FiniteTheory, s: State) -> list[Term]:
    """Two blocks have one key, one of them a second key that is only reserved."""
    (a, b, *_), (k, j, *_) = t.values["B"], t.values["K"]
    return [s.entry(k, a), s.entry(k, b), s.committed(k, a), s.entry(j, a), z3.Not(s.committed(j, a))]


def _two_in_flight(t: FiniteTheory, s: State) -> list[Term]:
    """Two steps are in flight, and a reader depends on a writer in one of them."""
    (r, w, *_), (b, *_) = t.values["R"], t.values["B"]
    return [s.done() + 2 <= s.now(), s.depends(r, w) > s.done(), s.attached(b, r) > s.done(), s.writes(b, w)]


Situation = Callable[[FiniteTheory, State], list[Term]]

SITUATIONS: dict[str, tuple[Situation, frozenset[str]]] = {
    "any state": (_anything, frozenset()),
    "a shared key and a reserved one": (_shared_key, frozenset({"reset"})),
    "two steps in flight with a dependent reader": (_two_in_flight, frozenset({"reset"})),
}
"""Each situation with the transitions that it rules out: reset needs that nothing is referenced."""


def reachable(timeout_s: float = TIMEOUT_S) -> Iterator[Reached]:
    """Ask for a state of each situation in which each transition can happen."""
    prover = Prover(FiniteTheory())
    assert isinstance(prover.theory, FiniteTheory)
    for situation, (constraints, excluded) in SITUATIONS.items():
        for transition in prover.transitions.values():
            if transition.name in excluded:
                continue
            also = [*constraints(prover.theory, prover.state), *window(prover, transition.name)]
            solver = prover.enabled(transition.name, also, timeout_s)
            start = time.perf_counter()
            answer = solver.check()
            verdict = Verdict.PROVED if answer == z3.sat else Verdict.REFUTED if answer == z3.unsat else Verdict.UNKNOWN
            yield Reached(transition.name, situation, verdict, time.perf_counter() - start)


def window(prover: Prover, name: str) -> list[Term]:
    """The integer arguments of a transition lie inside the finite theory's window."""
    arguments = prover.step(name).arguments
    sorts = prover.transitions[name].sorts
    return [z3.And(a >= 0, a <= WINDOW) for a, sort in zip(arguments, sorts, strict=True) if sort == "Int"]


def broken_without(axiom: str, timeout_s: float = TIMEOUT_S) -> list[Obligation]:
    """The obligations that have a counterexample once an axiom about hashes is dropped."""
    if axiom not in HASH_AXIOMS:
        raise ValueError(f"no axiom about hashes is named {axiom!r}; there are {', '.join(HASH_AXIOMS)}")
    prover = Prover(FiniteTheory(), without=(axiom,))
    return [found.obligation for found in prover.prove(timeout_s) if found.verdict is not Verdict.PROVED]
