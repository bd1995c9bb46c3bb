"""The three requests of `docs/hybrid.md`, and every number that the page says of them."""

from __future__ import annotations

from kvproof.reference import BlockPool, Ghost, Request
from kvproof.reference.hybrid import HybridCache
from kvproof.reference.hybrid.policies import Limits, Policies
from kvproof.reference.hybrid.scheduler import Scheduler
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HybridConfig, PoolConfig

SHARED = tuple(range(100, 122))
STATES = 1


class Told:
    """A pool in which one request after the other runs to its end."""

    def __init__(self, hybrid: HybridConfig) -> None:
        groups = (GroupConfig(GroupKind.FULL_ATTENTION, 4), GroupConfig(GroupKind.RECURRENT, 8))
        self.pool = BlockPool(PoolConfig(64, 2, groups, commit=CommitMode.STEPS, hybrid=hybrid), Ghost())
        self.scheduler = Scheduler(HybridCache(self.pool), Limits(64), Policies())

    def run(self, name: str, num_tokens: int) -> tuple[int, int, list[int], list[int]]:
        """Hit, junction, where the chunks end, and where its prompt has states afterwards."""
        own = range(1000 * int(name[1:]), 1000 * int(name[1:]) + num_tokens - len(SHARED))
        request = Request(name, (*SHARED, *own), self.pool.hasher)
        match = self.scheduler.cache.match(request)
        self.scheduler.add(request, num_tokens)
        ends = []
        while (schedule := self.scheduler.schedule()).chunks:
            ends.append(schedule.chunks[name][1])
            self.scheduler.commit(schedule.step)
        self.scheduler.commit(schedule.step)
        self.scheduler.finish(name)
        keys = {n: request.key_at(STATES, n) for n in range(2, num_tokens + 1, 2)}
        states = [n for n, key in keys.items() if key is not None and self.pool.lookup([key]) != [None]]
        return match.hit, match.junction, ends, states


def test_the_second_request_keeps_a_state_at_the_junction_and_the_third_begins_there() -> None:
    told = Told(HybridConfig())
    assert told.run("r1", 30) == (0, 0, [24, 28, 30], [24, 28])
    assert told.run("r2", 28) == (0, 20, [16, 24, 26, 28], [16, 24, 26])
    assert told.run("r3", 32) == (16, 20, [24, 30, 32], [16, 24, 30])


def test_with_checkpoints_the_third_request_begins_at_the_junction_itself() -> None:
    told = Told(HybridConfig(checkpoints=True))
    told.run("r1", 30)
    assert told.run("r2", 28) == (0, 20, [20, 24, 26, 28], [20, 24, 26])
    assert told.run("r3", 32)[:2] == (20, 0)
