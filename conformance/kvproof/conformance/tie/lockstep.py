"""Both sides run every operation: do they allow the same ones, and is what they leave behind the same?"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import permutations
from random import Random

from kvproof.conformance.canonical import Canonicalizer
from kvproof.conformance.enabled import EnabledOperations
from kvproof.conformance.hybrid_proposals import proposer_for
from kvproof.conformance.operations import Append, Operation
from kvproof.conformance.preconditions import violations
from kvproof.conformance.scope import Scope
from kvproof.conformance.step_proposals import StepProposer
from kvproof.conformance.tie.abstraction import Universe, abstract, tabulate, universe_of
from kvproof.conformance.tie.comparison import differences
from kvproof.conformance.tie.folding import MACHINE, TRANSITIONS_OF, Machine, Refused, appended, copy_name, fold
from kvproof.conformance.tie.situations import SITUATIONS
from kvproof.conformance.undefined import undefined
from kvproof.conformance.walk import random_config
from kvproof.conformance.world import World
from kvproof.spec.errors import PoolError
from kvproof.spec.machine.theory import State
from kvproof.spec.vocabulary import CommitMode, HolderMode, PoolConfig


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An operation that the two sides see differently, and how."""

    operation: Operation
    reasons: tuple[str, ...]


@dataclass(slots=True)
class TieReport:
    """What was compared: states, operations of which some were allowed, and what the transitions met."""

    states: int = 0
    operations: int = 0
    allowed: int = 0
    seconds: float = 0.0
    met: Counter[str] = field(default_factory=Counter)
    disagreement: Disagreement | None = None

    def missing(self, transitions: Iterable[str]) -> list[str]:
        """The situations of these transitions that were never met."""
        return [
            f"{name}: {what}" for name in transitions for what in SITUATIONS[name] if f"{name}: {what}" not in self.met
        ]

    def add(self, other: TieReport) -> None:
        """Count what another comparison saw."""
        self.states += other.states
        self.operations += other.operations
        self.allowed += other.allowed
        self.seconds += other.seconds
        self.met += other.met
        self.disagreement = self.disagreement or other.disagreement


class Comparison:
    """One state of the reference, read as a state of the machine, against which operations are compared."""

    def __init__(self, world: World, universe: Universe, machine: Machine = MACHINE) -> None:
        self._world, self._universe, self._machine = world, universe, machine
        self._twin = world.clone()
        self._start = tabulate(abstract(world, universe), universe)
        _, opened = machine["begin_step"](universe.theory(), self._start)
        self._opened: State = tabulate(opened, universe)

    def compare(self, operation: Operation, report: TieReport) -> World | None:
        """Run an operation on both sides; the world after it, None if it is not allowed or they disagree."""
        report.operations += 1
        after, why_not = self._run_reference(operation)
        try:
            run = fold(operation, self._world, self._opened, self._start, self._universe, self._machine)
        except Refused as refused:
            if after is not None:
                report.disagreement = Disagreement(operation, (f"the machine refuses it: {refused}",))
            return None
        if after is None:
            report.disagreement = Disagreement(operation, (f"the machine allows it, the reference not: {why_not}",))
            return None
        report.allowed += 1
        report.met.update(run.met)
        if found := differences(run.state, abstract(after, self._universe), self._universe):
            report.disagreement = Disagreement(operation, tuple(found))
            return None
        return after

    def _run_reference(self, operation: Operation) -> tuple[World | None, str]:
        """The world after the operation; or none, and why it must not be run."""
        try:
            self._twin.apply(operation)
        except PoolError as error:  # which changes nothing (ERR-ATOMIC-1), so the twin serves again
            return None, f"{type(error).__name__}: {error}"
        after, self._twin = self._twin, self._world.clone()
        undefined_why = undefined(self._world, operation)
        return (None, undefined_why) if undefined_why else (after, "")


def _names_of_copies(config: PoolConfig) -> list[str]:
    """The holders that an operation may add."""
    if config.commit is CommitMode.IMMEDIATE:
        return []
    return [copy_name(src, dst) for src, dst in permutations(range(1, config.num_blocks), 2)]


def tie_scope(
    scope: Scope, machine: Machine = MACHINE, progress: Callable[[TieReport], None] = lambda report: None
) -> TieReport:
    """Compare every operation of the scope, allowed or not, in every reachable state, until the sides disagree."""
    report, start = TieReport(), time.perf_counter()
    canonical, operations = Canonicalizer(scope), EnabledOperations(scope)
    first = scope.start()
    seen, queue = {canonical.form(first)}, deque([first])
    while queue and report.disagreement is None:
        world = queue.popleft()
        world.drain()
        for after in _successors(world, operations, machine, report):
            form = canonical.form(after)
            if form not in seen:
                seen.add(form)
                queue.append(after)
        report.states, report.seconds = len(seen), time.perf_counter() - start
        progress(report)
    return report


def _successors(world: World, operations: EnabledOperations, machine: Machine, report: TieReport) -> Iterator[World]:
    """The states that the scope goes on from; operations beyond its limits are compared all the same."""
    comparison = Comparison(world, universe_of(world, more_holders=_names_of_copies(world.config)), machine)
    within = operations.of(world)
    for operation in dict.fromkeys([*operations.vocabulary(), *within]):
        after = comparison.compare(operation, report)
        if report.disagreement is not None:
            return
        if after is not None and operation in within:
            yield after


def tie_trace(config: PoolConfig, operations: Iterable[Operation], machine: Machine = MACHINE) -> TieReport:
    """Compare the operations of a trace, each of which must be allowed."""
    world, report, start = World(config), TieReport(states=1), time.perf_counter()
    for operation in operations:
        if not isinstance(operation, TRANSITIONS_OF):
            world.apply(operation)
            continue
        holders = (*_names_of_copies(config), *StepProposer.copies)
        after = Comparison(world, universe_of(world, more_holders=holders), machine).compare(operation, report)
        if after is None:
            report.disagreement = report.disagreement or Disagreement(operation, ("neither side allows it",))
            break
        world = after
        report.states += 1
    report.seconds = time.perf_counter() - start
    return report


LONGEST_TEXT = 6
"""Tokens of a request in a walk: the machine's quantifiers range over every prefix of every text."""


def _small_config(random: Random) -> PoolConfig:
    config = random_config(random)
    groups = tuple(
        replace(group, block_size=config.hash_block_size * random.randint(1, 3)) for group in config.groups[:2]
    )
    return replace(config, num_blocks=min(config.num_blocks, 5), groups=groups, holders=HolderMode.NAMED)


def tie_walk(seed: int, steps: int, machine: Machine = MACHINE) -> TieReport:
    """Compare the operations of a random walk through a larger pool, and as many that are not allowed there."""
    random = Random(seed)
    world = World(_small_config(random))
    report, start = TieReport(states=1), time.perf_counter()
    proposer = proposer_for(world, random)
    proposer.longest = LONGEST_TEXT
    while report.operations < steps and report.disagreement is None:
        operation = proposer.draw()
        if isinstance(operation, TRANSITIONS_OF):
            grown = [appended(world, operation.request, operation.tokens)] if isinstance(operation, Append) else []
            comparison = Comparison(
                world,
                universe_of(world, grown, (*_names_of_copies(world.config), "copy", *StepProposer.copies)),
                machine,
            )
            after = comparison.compare(operation, report)
            if after is not None:
                proposer.world = world = after
                report.states += 1
        elif operation is not None and not violations(world.situation, operation):
            world.apply(operation)
    report.seconds = time.perf_counter() - start
    return report
