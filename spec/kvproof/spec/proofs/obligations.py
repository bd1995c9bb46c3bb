"""The obligations: every invariant holds initially and survives every transition; every fact holds of its transition.

An obligation is proved only if z3 answers `unsat` to its negation. `unknown`, a time-out and a counterexample all count
as not proved.
"""

from __future__ import annotations

import time
from copy import copy
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

import z3

from kvproof.spec.machine.axioms import axioms
from kvproof.spec.machine.facts import FACTS
from kvproof.spec.machine.invariants import INVARIANTS, initial
from kvproof.spec.machine.theory import State, Term
from kvproof.spec.machine.transitions import TRANSITIONS, Transition
from kvproof.spec.proofs.solver import SolverTheory

INITIAL = "initial"
"""The name under which the initial state stands among the transitions."""

TIMEOUT_S = 10.0
"""Seconds for one obligation; the slowest one takes a small fraction of one."""


class Verdict(Enum):
    """What z3 said of an obligation."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Obligation:
    """One theorem about one transition; `fact` tells it from an invariant that the transition preserves."""

    transition: str
    theorem: str
    fact: bool


@dataclass(frozen=True, slots=True)
class Proof:
    """An obligation with its verdict, the seconds it took and, if it is not proved, z3's reason."""

    obligation: Obligation
    verdict: Verdict
    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One transition, taken symbolically: arguments, guard and the state after it."""

    arguments: tuple[Term, ...]
    guard: Term
    after: State


class Prover:
    """States and checks the obligations of a machine over a theory; `without` names axioms that are left out."""

    def __init__(
        self,
        theory: SolverTheory | None = None,
        transitions: Collection[Transition] = TRANSITIONS,
        without: Collection[str] = (),
    ) -> None:
        self.theory = theory or SolverTheory()
        self.state = self.theory.state()
        self.transitions = {transition.name: transition for transition in transitions}
        self._axioms = [term for name, term in axioms(self.theory, self.state).items() if name not in without]
        self._invariants = [state(self.theory, self.state) for state in INVARIANTS.values()]
        self._steps: dict[str, Step] = {}

    def over(self, transitions: Collection[Transition]) -> Prover:
        """A prover of other transitions over the same theory and state, whose terms it shares."""
        twin = copy(self)
        twin.transitions = {transition.name: transition for transition in transitions}
        twin._steps = {}
        return twin

    def obligations(self) -> list[Obligation]:
        """All obligations, transition by transition."""
        rows = [INITIAL, *self.transitions]
        found = [Obligation(row, theorem, fact=False) for row in rows for theorem in INVARIANTS]
        return found + [Obligation(fact.transition, fact.theorem, fact=True) for fact in FACTS]

    def prove(self, timeout_s: float = TIMEOUT_S) -> Iterator[Proof]:
        """Check all obligations in order."""
        for obligation in self.obligations():
            yield self.check(obligation, timeout_s)

    def check(self, obligation: Obligation, timeout_s: float = TIMEOUT_S) -> Proof:
        """Ask z3 for a counterexample to one obligation."""
        solver, _ = self.question(obligation, timeout_s)
        start = time.perf_counter()
        answer = solver.check()
        seconds = time.perf_counter() - start
        if answer == z3.unsat:
            return Proof(obligation, Verdict.PROVED, seconds)
        if answer == z3.sat:
            return Proof(obligation, Verdict.REFUTED, seconds, "z3 found a counterexample")
        return Proof(obligation, Verdict.UNKNOWN, seconds, f"z3 gave up: {solver.reason_unknown()}")

    def question(self, obligation: Obligation, timeout_s: float) -> tuple[z3.Solver, Step]:
        """A solver that is satisfiable exactly by the counterexamples, and the step that it speaks of."""
        step = self.step(obligation.transition)
        solver = self._solver(timeout_s)
        if obligation.transition != INITIAL:
            solver.add(*self._invariants)
        solver.add(step.guard, z3.Not(self._claim(obligation, step)))
        return solver, step

    def step(self, name: str) -> Step:
        """A transition from a state about which nothing is known, with constants for its arguments."""
        if name not in self._steps:
            self._steps[name] = self._take(name)
        return self._steps[name]

    def _take(self, name: str) -> Step:
        if name == INITIAL:
            return Step((), initial(self.theory, self.state), self.state)
        transition = self.transitions[name]
        arguments = tuple(self.theory.constant(f"{sort}{i}", sort) for i, sort in enumerate(transition.sorts))
        guard, after = transition.run(self.theory, self.state, *arguments)
        return Step(arguments, guard, after)

    def enabled(self, name: str, also: Collection[Term], timeout_s: float) -> z3.Solver:
        """A solver that is satisfiable exactly by the states of the invariants in which a transition can happen."""
        solver = self._solver(timeout_s)
        solver.add(*self._invariants, self.step(name).guard, *also)
        return solver

    def _solver(self, timeout_s: float) -> z3.Solver:
        solver = z3.Solver()
        solver.set("timeout", int(timeout_s * 1000))
        solver.add(*self._axioms, *self.theory.bounds(self.state))
        return solver

    def _claim(self, obligation: Obligation, step: Step) -> Term:
        if not obligation.fact:
            return INVARIANTS[obligation.theorem](self.theory, step.after)
        statements = [
            fact.statement
            for fact in FACTS
            if (fact.transition, fact.theorem) == (obligation.transition, obligation.theorem)
        ]
        return z3.And(*(statement(self.theory, self.state, step.after, *step.arguments) for statement in statements))
