"""Planted faults in what runs requests over all groups: each is found, with a short trace, under a clause that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kvproof.conformance.backends.reference import CAPABILITIES, ReferenceBackend
from kvproof.conformance.certification.attribution import clauses_of
from kvproof.conformance.certification.lockstep import Divergence
from kvproof.conformance.certification.shrink import shrink
from kvproof.conformance.certification.stages import Subject, random_walks
from kvproof.conformance.certification.trace import read, trace_of, write
from kvproof.conformance.operations import describe
from kvproof.reference import BlockPool
from kvproof.reference.hybrid import HybridCache, Running
from kvproof.reference.hybrid.joint_hit import Chain, Match
from kvproof.reference.request import Request
from kvproof.spec.vocabulary import PoolConfig


class Faulty(HybridCache):
    """A cache with one thing wrong."""


class RemembersTheJunction(Faulty):
    """The junction of one request is kept for the next one."""

    latest = 0

    def match(self, request: Request) -> Match:
        found = super().match(request)
        RemembersTheJunction.latest = found.junction or RemembersTheJunction.latest
        return Match(found.hit, RemembersTheJunction.latest, found.pending)


class SplitsOnTheSmallestBlock(Faulty):
    """A chunk stops at multiples of the hash block."""

    def split(self, request: Request, start: int, tokens: int, cap: int, junction: int) -> int:
        end = super().split(request, start, tokens, cap, junction)
        return end if end > start else start + tokens // self.pool.config.hash_block_size


class SharesWhatItHasToCopy(Faulty):
    """A hit inside a block is written to in place."""

    def _uses(self, chain: Chain, hit: int) -> tuple[list[Any], list[Any]]:
        shared, copied = super()._uses(chain, hit)
        return shared + copied, []


class TakesBlocksFirst(Faulty):
    """Blocks are allocated before those that were hit are touched."""

    def _check_room(self, needed: int, hit_blocks: Iterable[int], freed: int = 0) -> None:
        super()._check_room(needed, (), freed)


class ForgetsToLetGo(Faulty):
    """What lies before the window stays."""

    def _let_go(self, name: str, running: Running, slots: dict[int, list[int]]) -> None:
        super()._let_go(name, running, {group: chosen[:-1] for group, chosen in slots.items()})


class OverwritesTheState(Faulty):
    """A state is overwritten under its key, which is dropped instead of moved."""

    def _kept_states(self, request: Request, running: Running, end: int) -> tuple[list[int], list[int]]:
        moved, copied = super()._kept_states(request, running, end)
        self.pool.evict([running.state_block(group) for group in moved])
        return [], copied


class NeverGoesBack(Faulty):
    """A request whose chunk failed goes on as if nothing had happened."""

    def _go_back(self, affected: Iterable[str]) -> None:
        for name in affected:
            if name in self.running:
                self.running[name].unsettled.clear()


class SettlesTooMuch(Faulty):
    """A commit settles all that is computed."""

    def commit(self, step: int) -> None:
        super().commit(step)
        for running in self.running.values():
            running.settled = running.computed


class LeavesMovedKeys(Faulty):
    """A failed step is rolled back and committed, as one might do without `fail`."""

    def fail(self, step: int) -> list[str]:
        self._moved.clear()
        return super().fail(step)


FAULTS: list[tuple[type[HybridCache], set[str]]] = [
    (RemembersTheJunction, {"HIT-JUNCTION-1", "ADMIT-JUNCTION-1"}),
    (SplitsOnTheSmallestBlock, {"SPLIT-ALIGN-1"}),
    (SharesWhatItHasToCopy, {"ADMIT-COPY-1", "ADMIT-ATOMIC-1", "ADMIT-SHARE-1", "ADMIT-RANGE-1"}),
    (TakesBlocksFirst, {"ADMIT-ATOMIC-1", "ERR-ATOMIC-1"}),
    (ForgetsToLetGo, {"ADVANCE-LETGO-1", "ADVANCE-ATOMIC-1", "BACK-SLOTS-1"}),
    (OverwritesTheState, {"ADVANCE-MOVE-1"}),
    (NeverGoesBack, {"BACK-ROLLBACK-1"}),
    (SettlesTooMuch, {"STEP-COMMIT-1"}),
    (LeavesMovedKeys, {"BACK-FAIL-3"}),
]

MOST_OPERATIONS = 12


class FaultyBackend(ReferenceBackend):
    """The reference with another cache over its pool."""

    def __init__(self, fault: Callable[[BlockPool], HybridCache]) -> None:
        self._fault = fault

    def start(self, config: PoolConfig) -> None:
        super().start(config)
        if config.hybrid is not None:
            self._world.cache = self._fault(self._world.pool)
            self._world.look_again()


def first_divergence(backend: FaultyBackend) -> Divergence:
    """Where a backend parts from the specification in the walks of hybrid pools, found early."""
    subject = Subject(backend, CAPABILITIES, lambda done: bool(done.divergences))
    done = random_walks(subject, 0, 0, 80, lambda so_far: None, hybrid=150)
    assert done.divergences
    return done.divergences[0]


@pytest.mark.parametrize(("fault", "clauses"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_a_planted_fault_is_found_with_a_short_trace_and_a_clause_that_fits(
    fault: type[HybridCache], clauses: set[str]
) -> None:
    backend = FaultyBackend(fault)
    small = shrink(backend, CAPABILITIES, first_divergence(backend))
    trace = [describe(operation) for operation in small.operations]
    assert clauses_of(small)[0] in clauses, (trace, small.differences)
    assert len(trace) <= MOST_OPERATIONS, trace
    assert read(write(trace_of(small.config, small.operations))) == trace_of(small.config, small.operations)
