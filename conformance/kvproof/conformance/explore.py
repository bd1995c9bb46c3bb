"""Exhaustive exploration of a scope: every state that legal operations can reach, each checked completely."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from kvproof.conformance.canonical import Canonicalizer
from kvproof.conformance.enabled import EnabledOperations
from kvproof.conformance.findings import Violation, label, reason_of
from kvproof.conformance.hybrid_scope import HybridCanonicalizer, HybridOperations, HybridScope
from kvproof.conformance.operations import Operation
from kvproof.conformance.scope import Scope
from kvproof.conformance.world import World

REPORT_INTERVAL = 0.1
"""Seconds between two reports of progress, at least."""


@dataclass(slots=True)
class Exploration:
    """How far an exploration is, and what it found."""

    scope: Scope | HybridScope
    states: int = 0
    transitions: int = 0
    depth: int = 0
    frontier: int = 0
    seconds: float = 0.0
    complete: bool = False
    coverage: Counter[str] = field(default_factory=Counter)
    violation: Violation | None = None


def explore(
    scope: Scope | HybridScope, max_seconds: float | None = None, progress: Callable[[Exploration], None] | None = None
) -> Exploration:
    """Visit all states breadth first; stop at the first violation, which so has a shortest trace, or at the time limit.

    A violation is a state that breaks an invariant, events that mislead their consumer, or an operation that is refused
    although the preconditions allow it.
    """
    return _Explorer(scope, max_seconds, progress).run()


def ways_of(
    scope: Scope | HybridScope,
) -> tuple[EnabledOperations | HybridOperations, Canonicalizer | HybridCanonicalizer]:
    """What may be done in a scope, and when two of its states are the same."""
    if isinstance(scope, HybridScope):
        return HybridOperations(scope), HybridCanonicalizer()
    return EnabledOperations(scope), Canonicalizer(scope)


class _Explorer:
    def __init__(
        self, scope: Scope | HybridScope, max_seconds: float | None, progress: Callable[[Exploration], None] | None
    ) -> None:
        self.enabled, self.canonicalizer = ways_of(scope)
        self.found = Exploration(scope, coverage=Counter({label(known): 0 for known in self.enabled.vocabulary()}))
        self.seen: set[Hashable] = set()
        self.reached_by: list[tuple[int, Operation]] = []
        """For each state but the first (number 0): the number of the state before it, and the operation in between."""
        self.queue: deque[tuple[int, int, World]] = deque()
        """The states to visit: number, depth, world."""
        self.max_seconds = float("inf") if max_seconds is None else max_seconds
        self.progress = progress
        self.started = time.perf_counter()
        self.reported = 0.0

    def run(self) -> Exploration:
        found, start = self.found, self.found.scope.start()
        reason = self._arrive(start, 0)
        if reason is not None:
            found.violation = Violation(reason, found.scope.arrivals, start, start)
        while self.queue and not found.violation and self._in_time():
            self._visit(*self.queue.popleft())
        found.complete = not self.queue and not found.violation
        self._report()
        return found

    def _arrive(self, world: World, depth: int, way: tuple[int, Operation] | None = None) -> str | None:
        """If the state was not seen before, check it and visit it later; what is wrong with it."""
        try:
            form = self.canonicalizer.form(world)
            if form in self.seen:
                return None
            world.check()
        except Exception as error:  # a broken pool may fail in any way, and each is a finding
            return reason_of(error)
        self.seen.add(form)
        self.queue.append((self.found.states, depth, world))
        self.found.states += 1
        self.found.depth = depth
        if way is not None:
            self.reached_by.append(way)
        return None

    def _visit(self, number: int, depth: int, world: World) -> None:
        """Run all that is enabled in a state."""
        world.drain()
        for operation in self.enabled.of(world):
            after = world.clone()
            reason = self._step(after, operation, number, depth)
            if reason is not None:
                trace = (*self.found.scope.arrivals, *self._trace(number), operation)
                self.found.violation = Violation(reason, trace, world, after)
                return

    def _step(self, world: World, operation: Operation, number: int, depth: int) -> str | None:
        """Run one operation on a copy of state `number`; what is wrong with it or with the state after it."""
        self.found.transitions += 1
        self.found.coverage[label(operation)] += 1
        try:
            world.apply(operation)
        except Exception as error:
            return reason_of(error)
        return self._arrive(world, depth + 1, (number, operation))

    def _trace(self, number: int) -> list[Operation]:
        """A shortest way from the first state to state `number`."""
        trace: list[Operation] = []
        while number:
            number, operation = self.reached_by[number - 1]
            trace.append(operation)
        return trace[::-1]

    def _in_time(self) -> bool:
        self.found.seconds = time.perf_counter() - self.started
        if self.found.seconds - self.reported >= REPORT_INTERVAL:
            self._report()
        return self.found.seconds < self.max_seconds

    def _report(self) -> None:
        self.found.frontier = len(self.queue)
        self.found.seconds = self.reported = time.perf_counter() - self.started
        if self.progress is not None:
            self.progress(self.found)
