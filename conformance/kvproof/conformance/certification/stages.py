"""The stages that drive a backend beside the reference: each is a series of lockstep runs up to the first divergences.

Everything is decided by the seed. A stage goes on after a divergence, with a new pool, so that several faults are found
in one run; each divergence is reported once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from random import Random

from kvproof.conformance.backends.interface import AdapterError, Backend, Capabilities, Level
from kvproof.conformance.certification.lockstep import Divergence, Lockstep
from kvproof.conformance.certification.model import Model
from kvproof.conformance.certification.settings import hybrid_scopes, random_hybrid_pool, random_pool, scopes
from kvproof.conformance.certification.spoil import spoiled
from kvproof.conformance.certification.tour import Tour
from kvproof.conformance.hybrid_proposals import proposer_for
from kvproof.conformance.hybrid_scope import HybridScope
from kvproof.conformance.operations import AddRequest, Append, Hashes, Operation, Read, Truncate, name_of
from kvproof.conformance.preconditions import violations
from kvproof.conformance.scope import Scope
from kvproof.spec.vocabulary import PoolConfig


@dataclass(slots=True)
class Outcome:
    """What a stage did: how many pools it made, how often it ran each operation, and where the backend diverged.

    `tested` counts by clause, see `Tested`.
    """

    name: str
    pools: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    refusals: int = 0
    tested: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    divergences: list[Divergence] = field(default_factory=list)
    broke_off: bool = False
    """Whether it ended before all was done, as enough was found."""
    broken: AdapterError | None = None
    """What ended it before all was done, if the adapter broke; what was found until then is there."""
    started: float = field(default_factory=time.process_time, compare=False)
    noticed_after: float | None = field(default=None, compare=False)
    """CPU seconds up to the first divergence."""

    def add(self, lockstep: Lockstep) -> None:
        """Count what was run on one pool."""
        self.pools += 1
        self.operations.update(map(name_of, lockstep.operations))
        self.refusals += lockstep.refused
        self.tested.update(lockstep.tested.clauses)
        self.met += lockstep.model.met
        if lockstep.divergence is not None:
            self.note(lockstep.divergence)

    @contextmanager
    def until_it_breaks(self) -> Iterator[None]:
        """What is done inside ends where the adapter breaks."""
        try:
            yield
        except AdapterError as broken:
            self.broken = broken

    @contextmanager
    def counting(self, lockstep: Lockstep) -> Iterator[None]:
        """What is run inside counts up to where the adapter breaks."""
        try:
            yield
        finally:
            self.add(lockstep)

    def note(self, divergence: Divergence) -> None:
        """Take a divergence down, and when the first one came."""
        if self.noticed_after is None:
            self.noticed_after = time.process_time() - self.started
        self.divergences.append(divergence)


MOST_DIVERGENCES = 1000


def is_enough(done: Outcome) -> bool:
    """A backend that is wrong everywhere need not be shown everywhere."""
    return len(done.divergences) >= MOST_DIVERGENCES


UNWATCHED = 4
"""Of so many walks one is compared by answers alone."""

ATTEMPTS = 4
"""Spoiled operations for each one that is as it was drawn."""

Tell = Callable[[Outcome], None]
"""Hears how far a stage is."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The backend under test with what it claims, and when a stage has found enough."""

    backend: Backend
    capabilities: Capabilities
    is_enough: Callable[[Outcome], bool] = is_enough

    def beside_the_reference(self, config: PoolConfig, watch: bool = True) -> Lockstep:
        """A new pool of the backend, and one of the reference."""
        return Lockstep(self.backend, self.capabilities, config, watch)


def random_walks(subject: Subject, seed: int, walks: int, operations: int, tell: Tell, hybrid: int = 0) -> Outcome:
    """Random operations in random pools; some are illegal, as it happens. With level H `hybrid` walks more.

    In every fourth walk only answers are compared, so that events wait until they are taken.
    """
    done = Outcome("random")
    with done.until_it_breaks():
        for number, random, config in _pools(subject.capabilities, seed, walks, hybrid):
            lockstep = subject.beside_the_reference(config, watch=number % UNWATCHED != 0)
            _run(lockstep, islice(_draws(lockstep, random), operations), done)
            tell(done)
            if subject.is_enough(done):
                done.broke_off = True
                break
    return done


def _pools(capabilities: Capabilities, seed: int, walks: int, hybrid: int) -> Iterator[tuple[int, Random, PoolConfig]]:
    """A pool for each walk; with level H there are more walks, in pools over which requests run."""
    for number in range(seed, seed + walks):
        random = Random(number)
        yield number, random, random_pool(capabilities, random)
    if Level.HYBRID in capabilities.levels:
        for number in range(seed, seed + hybrid):
            random = Random(f"hybrid {number}")
            yield number, random, random_hybrid_pool(capabilities, random)


def near_misses(subject: Subject, seed: int, walks: int, operations: int, tell: Tell, hybrid: int = 0) -> Outcome:
    """Random walks in which most operations must be refused: they are legal but for one field."""
    done = Outcome("illegal")
    refuses = Level.ROBUSTNESS in subject.capabilities.levels
    with done.until_it_breaks():
        for _, random, config in _pools(subject.capabilities, seed, walks * refuses, hybrid * refuses):
            lockstep = subject.beside_the_reference(config)
            _run(lockstep, islice(_spoiled(lockstep, random), operations), done)
            tell(done)
            if subject.is_enough(done):
                done.broke_off = True
                break
    return done


def exhaustive(subject: Subject, tell: Tell) -> Outcome:
    """Every operation in every state of some tiny pools, on as few paths as will do."""
    done = Outcome("exhaustive")
    chosen: list[Scope | HybridScope] = [*scopes(subject.capabilities), *hybrid_scopes(subject.capabilities)]
    with done.until_it_breaks():
        for scope in chosen:
            _visit(subject, scope, done, tell)
            if done.broke_off:
                break
    return done


def _visit(subject: Subject, scope: Scope | HybridScope, done: Outcome, tell: Tell) -> None:
    offered = Model(scope.config, subject.capabilities).is_run
    tour = Tour(scope, offered, Level.ROBUSTNESS in subject.capabilities.levels)
    while not tour.is_over:
        lockstep = subject.beside_the_reference(scope.config)
        with done.counting(lockstep):
            _walk(lockstep, scope, tour)
        tell(done)
        if subject.is_enough(done):
            done.broke_off = True
            return


def _walk(lockstep: Lockstep, scope: Scope | HybridScope, tour: Tour) -> None:
    """The next path of a tour; where the backend chooses blocks, it is planned beforehand, and followed."""
    if lockstep.model.in_order:
        lockstep.run(chain(scope.arrivals, tour.path(lockstep.model.world)), reads=True)
    else:
        lockstep.replay([*scope.arrivals, *_planned(scope, tour)], reads=True)
    if lockstep.divergence is not None:
        asked = [operation for operation in lockstep.operations if not isinstance(operation, Read)]
        tour.break_off(len(asked) - len(scope.arrivals))


def _planned(scope: Scope | HybridScope, tour: Tour) -> Iterator[Operation]:
    world = scope.start()
    for operation in tour.path(world):
        if not violations(world.situation, operation):
            world.apply(operation)
            world.drain()
        yield operation


def _run(lockstep: Lockstep, operations: Iterable[Operation], done: Outcome) -> None:
    with done.counting(lockstep):
        lockstep.run(operations, reads=True)


def _draws(lockstep: Lockstep, random: Random) -> Iterator[Operation]:
    """What is drawn for the state that the model is in by then, and can be run; what is illegal, to be refused."""
    model = lockstep.model
    proposer = proposer_for(model.world, random)
    while True:
        operation = proposer.draw()
        if operation is None or not model.is_run(operation):
            continue
        if model.refuses or not violations(model.world.situation, operation):
            yield operation
        if isinstance(operation, AddRequest | Append | Truncate):
            yield Hashes(operation.request)


def _spoiled(lockstep: Lockstep, random: Random) -> Iterator[Operation]:
    """What is drawn, after the same operation with something wrong in it."""
    for operation in _draws(lockstep, random):
        for _ in range(ATTEMPTS):
            yield spoiled(operation, random)
        yield operation
