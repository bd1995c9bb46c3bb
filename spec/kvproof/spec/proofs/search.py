"""Searches for states over small finite sorts: counterexamples, and witnesses that something can happen.

One solver keeps the axioms and the invariants, so that a question costs only what it adds: about a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache

import z3

from kvproof.spec.machine.system import System
from kvproof.spec.machine.systems import CHUNKS, HIT_LOOP, POOL, SYSTEMS
from kvproof.spec.machine.theory import Term
from kvproof.spec.machine.transitions import Transition
from kvproof.spec.proofs.finite import LADDER, SMALL, WINDOW, FiniteTheory, Sizes
from kvproof.spec.proofs.obligations import TIMEOUT_S, Machine, Obligation, in_words, milliseconds


@dataclass(frozen=True, slots=True)
class Found:
    """A model; or none, because there is none of this size, or for the reason that z3 gave up."""

    model: z3.ModelRef | None
    reason: str = ""


class Searcher(Machine):
    """Finds states of a machine over finite sorts in which all invariants hold."""

    theory: FiniteTheory

    def __init__(
        self,
        sizes: Sizes = SMALL,
        system: System = POOL,
        without: Collection[str] = (),
    ) -> None:
        theory = FiniteTheory(sizes, system.signature, WINDOWS.get(system.name, WINDOW))
        super().__init__(theory, system, system.transitions, without)
        self._solver = z3.SimpleSolver()
        self._solver.add(*self._axioms, *self._invariants, *self.theory.bounds(self.state))

    def find(
        self, terms: Collection[Term], timeout_s: float = TIMEOUT_S, preferred: Collection[Collection[Term]] = ()
    ) -> Found:
        """A state in which the terms hold, and with them the first of the preferred ones that can be had."""
        self._solver.set("timeout", milliseconds(timeout_s))
        self._solver.push()
        try:
            self._solver.add(*terms)
            for also in (*preferred, ()):
                answer = self._solver.check(*also)
                if answer == z3.sat:
                    return Found(self._solver.model())
            return Found(None, in_words(self._solver.reason_unknown()) if answer == z3.unknown else "")
        finally:
            self._solver.pop()

    def enabled(self, transition: str) -> tuple[Term, ...]:
        """What holds of the states in which a transition can happen; its integer arguments lie inside the window."""
        step, sorts = self.step(transition), self.transitions[transition].sorts
        numbers = [a for a, sort in zip(step.arguments, sorts, strict=True) if sort == "Int"]
        return (step.guard, *(z3.And(a >= 0, a <= self.theory.window) for a in numbers))

    def violation(self, obligation: Obligation) -> tuple[Term, ...]:
        """What holds of the counterexamples to an obligation about a transition."""
        return (*self.enabled(obligation.transition), z3.Not(self.claim(obligation)))


LADDERS: dict[str, tuple[Sizes, ...]] = {HIT_LOOP.name: ({"G": 2}, {"G": 3}), CHUNKS.name: ({},)}
"""The sizes that a search in other systems than the pool's tries in turn, and the integers that it looks at."""

WINDOWS = {HIT_LOOP.name: 5, CHUNKS.name: 12}


def searchers(
    without: tuple[str, ...] = (), transitions: Collection[Transition] | None = None, system: System = POOL
) -> Iterator[Searcher]:
    """Searchers of growing size; what they are made of is kept for the next search."""
    for sizes in range(len(LADDERS.get(system.name, LADDER))):
        yield _searcher(sizes, without, system.name).over(system.transitions if transitions is None else transitions)


@cache
def _searcher(rung: int, without: tuple[str, ...], name: str) -> Searcher:
    [system] = [system for system in SYSTEMS if system.name == name]
    return Searcher(LADDERS.get(name, LADDER)[rung], system, without)
