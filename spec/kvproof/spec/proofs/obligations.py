"""The obligations: every invariant holds initially and survives every transition; every fact holds of its transition.

An obligation is proved only if z3 answers `unsat` to its negation. `unknown`, a time-out and a counterexample all count
as not proved.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import Self

import z3

from kvproof.spec.machine.system import System
from kvproof.spec.machine.systems import POOL, SYSTEMS
from kvproof.spec.machine.theory import State, Term
from kvproof.spec.machine.transitions import Transition
from kvproof.spec.proofs.solver import SolverTheory

MACHINE = POOL.transitions

INITIAL = POOL.initial_row
"""The name under which the pool's initial state stands among the transitions."""

TIMEOUT_S = 60.0
"""Seconds for one question, which is for busy machines: on an idle one the slowest takes a small fraction of one."""


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
    fact: bool = False

    def __str__(self) -> str:
        return f"{self.transition} / {self.theorem}" + " (fact)" * self.fact


@dataclass(frozen=True, slots=True)
class Row:
    """One block before and after; a cell is one of the columns."""

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


@dataclass(frozen=True, slots=True)
class Proof:
    """An obligation with its verdict, the seconds it took and, if it is not proved, why not."""

    obligation: Obligation
    verdict: Verdict
    seconds: float
    reason: str = ""
    counterexample: Counterexample | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One transition, taken symbolically: arguments, guard and the state after it."""

    arguments: tuple[Term, ...]
    guard: Term
    after: State


def obligations(systems: Collection[System] = SYSTEMS) -> list[Obligation]:
    """All obligations, system by system, invariants before facts, transition by transition."""
    return [obligation for system in systems for obligation in _of_system(system)]


def _of_system(system: System) -> list[Obligation]:
    rows = [system.initial_row, *(transition.name for transition in system.transitions if not transition.composed)]
    preserved = [
        Obligation(row, theorem)
        for row in rows
        for theorem in (*(system.inherited if row in system.own else ()), *system.invariants)
    ]
    return preserved + [Obligation(fact.transition, fact.theorem, fact=True) for fact in system.facts]


class Machine:
    """A machine over a theory: a state about which nothing is known, the axioms, the invariants and the transitions."""

    def __init__(
        self, theory: SolverTheory, system: System, transitions: Collection[Transition], without: Collection[str]
    ) -> None:
        self.theory, self.system = theory, system
        self.state = theory.state()
        self.transitions = {transition.name: transition for transition in transitions}
        self._axioms = [term for name, term in system.axioms(theory, self.state).items() if name not in without]
        self._known = {**system.inherited, **system.invariants}
        self._invariants = [invariant(theory, self.state) for invariant in self._known.values()]
        self._steps: dict[str, Step] = {}

    def over(self, transitions: Collection[Transition]) -> Self:
        """The same machine with other transitions; theory and state are shared, which saves most of the work."""
        twin = copy(self)
        twin.transitions = {transition.name: transition for transition in transitions}
        twin._steps = {}
        return twin

    def step(self, name: str) -> Step:
        """A transition from the state, with constants for its arguments."""
        if name not in self._steps:
            self._steps[name] = self._take(name)
        return self._steps[name]

    def claim(self, obligation: Obligation) -> Term:
        """What an obligation says of its step."""
        step = self.step(obligation.transition)
        if not obligation.fact:
            return self._known[obligation.theorem](self.theory, step.after)
        named = (obligation.transition, obligation.theorem)
        [statement] = [fact.statement for fact in self.system.facts if (fact.transition, fact.theorem) == named]
        return statement(self.theory, self.state, step.after, *step.arguments)

    def _take(self, name: str) -> Step:
        if name == self.system.initial_row:
            return Step((), self.system.initial(self.theory, self.state), self.state)
        transition = self.transitions[name]
        arguments = tuple(self.theory.constant(f"{sort}{i}", sort) for i, sort in enumerate(transition.sorts))
        guard, after = transition.run(self.theory, self.state, *arguments)
        return Step(arguments, guard, after)


class Prover(Machine):
    """Proves obligations for sorts of any size; `without` names axioms that are left out."""

    def __init__(
        self,
        transitions: Collection[Transition] | None = None,
        without: Collection[str] = (),
        system: System = POOL,
    ) -> None:
        taken = system.transitions if transitions is None else transitions
        super().__init__(SolverTheory(system.signature), system, taken, without)

    def check(self, obligation: Obligation, timeout_s: float = TIMEOUT_S) -> Proof:
        """Ask z3 for a counterexample to one obligation."""
        solver = self._question(obligation, timeout_s)
        start = time.perf_counter()
        answer = solver.check()
        seconds = time.perf_counter() - start
        if answer == z3.unsat:
            return Proof(obligation, Verdict.PROVED, seconds)
        if answer == z3.sat:
            return Proof(obligation, Verdict.REFUTED, seconds, "there is a counterexample")
        return Proof(obligation, Verdict.UNKNOWN, seconds, in_words(solver.reason_unknown()))

    def _question(self, obligation: Obligation, timeout_s: float) -> z3.Solver:
        """A solver that is satisfiable exactly by the counterexamples."""
        solver = z3.Solver()
        solver.set("timeout", milliseconds(timeout_s))
        solver.add(*self._axioms)
        if obligation.transition != self.system.initial_row:
            solver.add(*self._invariants)
        solver.add(self.step(obligation.transition).guard, z3.Not(self.claim(obligation)))
        return solver


def in_words(reason: str) -> str:
    """Why z3 did not answer; it calls a time-out by several names."""
    return "z3 ran into its time-out" if reason in {"timeout", "canceled"} else f"z3 gave up: {reason}"


def milliseconds(seconds: float) -> int:
    """A time-out as z3 takes it; it takes 0 for none."""
    return max(1, round(1000 * seconds))
