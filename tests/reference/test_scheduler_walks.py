"""Random runs of the scheduler: every request reaches its end, and no step holds more than it may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from kvproof.reference import BlockPool, EventMirror, Ghost, Request, check_invariants
from kvproof.reference.hybrid import HybridCache
from kvproof.reference.hybrid.policies import Limits, Pending, Policies, Rank
from kvproof.reference.hybrid.scheduler import Job, Schedule, Scheduler
from kvproof.spec.errors import OutOfBlocks, OutOfRange
from kvproof.spec.vocabulary import Holder
from tests.hybrid_scopes import random_config, random_prompt
from tests.hybrid_tables import wrong_slots

RUNS = 120

MOST_STEPS = 600
"""A run that takes more operations than this has a request that never gets its turn."""


class Run:
    """One pool, one scheduler, requests that arrive over time; some steps fail, some requests are aborted."""

    def __init__(self, seed: int, met: Counter[str]) -> None:
        self.random, self.met = random, met = Random(seed), met
        shared = [random.randint(0, 1) for _ in range(20)]
        prompts = [random_prompt(random, shared, 20) for _ in range(random.randint(2, 7))]
        self.arrivals = [(random.randint(0, 12), f"r{i}", prompt) for i, prompt in enumerate(prompts)]
        threshold = random.choice([0, 0, random.randint(1, 8)])
        self.limits = Limits(random.randint(1, 12), threshold, random.choice([2, 8]), random.randint(1, 4))
        policies = Policies(random.choice(list(Pending)), random.choice(list(Rank)))
        config = random_config(random, random.randint(8, 30))
        if random.random() < 0.4:  # as small as a pool can be that refuses none of them
            sizes = Scheduler(HybridCache(BlockPool(config)), self.limits, policies)
            config = replace(config, num_blocks=1 + max(sizes.blocks_for(len(prompt) + 5) for prompt in prompts))
        self.pool = BlockPool(config, Ghost())
        self.cache = HybridCache(self.pool)
        self.mirror = EventMirror(config, self.pool.hasher)
        self.scheduler = Scheduler(self.cache, self.limits, policies)
        self.in_flight = random.choice([1, 1, 2, 3])
        self.open: list[Schedule] = []
        self.requests: dict[Holder, Request] = {}
        self.most: dict[Holder, int] = {}

    def go(self) -> None:
        """Run until every request has reached its end."""
        for time in range(MOST_STEPS):
            self.arrive(time)
            if len(self.open) < self.in_flight and self.scheduler.jobs:
                self.schedule()
            elif self.open:
                self.close()
            elif not self.arrivals:
                break
            self.check()
        else:
            left = {name: self.cache.running.get(name) for name in self.scheduler.jobs}
            raise AssertionError(f"no progress: {left}")
        assert self.pool.num_free == self.pool.config.num_blocks - 1

    def arrive(self, time: int) -> None:
        for arrival in [arrival for arrival in self.arrivals if arrival[0] <= time]:
            self.arrivals.remove(arrival)
            _, name, prompt = arrival
            request, most = Request(name, prompt, self.pool.hasher), len(prompt) + self.random.randint(1, 5)
            try:
                self.scheduler.add(request, most, self.random.randint(0, 2))
            except (OutOfBlocks, OutOfRange):
                self.met["refused"] += 1
            else:
                self.requests[name], self.most[name] = request, most

    def schedule(self) -> None:
        before = dict(self.cache.running)
        starving = {job.name for job in self.scheduler.jobs.values() if job.empty >= self.limits.most_empty}
        schedule = self.scheduler.schedule()
        self.open.append(schedule)
        assert sum(end - start for start, end in schedule.chunks.values()) <= self.limits.token_budget
        for name, (start, end) in schedule.chunks.items():
            assert 0 < end - start <= self.scheduler.cap(name, start)
            began = name not in before
            self.met["hit"] += began and start > 0
            self.met["hit inside a block"] += began and any(start % g.block_size for g in self.pool.config.groups)
            self.met["chunk of a request that starved"] += name in starving
        self.met["chunk"] += len(schedule.chunks)
        self.met["junction"] += any(running.junction for running in self.cache.running.values())
        self.met["preempted"] += len(schedule.preempted)
        self.met["empty chunk"] += any(job.empty for job in self.scheduler.jobs.values())
        self.met["move"] += sum(not holder.startswith("copy:pool:") for _, _, _, holder in self.copies())
        self.met["copy"] += sum(holder.startswith("copy:pool:") for _, _, _, holder in self.copies())

    def copies(self) -> list[tuple[int, int, int, Holder]]:
        """The copies of the step that was just scheduled."""
        steps = self.pool.observe().steps
        return [copy for copy in steps.copies if copy[0] == steps.open]

    def close(self) -> None:
        """The oldest step is done, or it failed; whoever has computed everything gets a token, or is done."""
        step = self.open.pop(0).step
        if self.random.random() < 0.06:
            self.scheduler.fail(step)
            self.met["failed step"] += 1
        else:
            self.scheduler.commit(step)
        for name in list(self.scheduler.jobs):
            running, request = self.cache.running.get(name), self.requests[name]
            if running is None or running.unsettled or running.computed < request.num_tokens:
                continue
            if request.num_tokens == self.most[name]:
                self.scheduler.finish(name)
                self.met["done"] += 1
            else:
                self.scheduler.append(name, [self.random.randint(0, 3)])
        if self.scheduler.jobs and self.random.random() < 0.01:
            self.scheduler.finish(self.random.choice(list(self.scheduler.jobs)))
            self.met["aborted"] += 1

    def check(self) -> None:
        self.mirror.fold(self.pool.take_events())
        check_invariants(self.pool, list(self.requests.values()), self.mirror)
        assert wrong_slots(self.cache, self.requests) == []


EXPECTED = {
    "chunk": 2000,
    "done": 350,
    "hit": 150,
    "hit inside a block": 50,
    "junction": 40,
    "move": 30,
    "copy": 50,
    "preempted": 40,
    "empty chunk": 50,
    "chunk of a request that starved": 20,
    "failed step": 60,
    "aborted": 10,
    "refused": 30,
}
"""How often each of these has to happen in all runs together."""


def run(seeds: Iterable[int]) -> Counter[str]:
    """Run with each seed; what was met."""
    met: Counter[str] = Counter()
    for seed in seeds:
        try:
            Run(seed, met).go()
        except Exception as error:
            error.add_note(f"run of seed {seed}")
            raise
    return met


def test_every_request_reaches_its_end_whatever_happens_to_its_steps() -> None:
    met = run(range(RUNS))
    assert {what: met[what] for what, least in EXPECTED.items() if met[what] < least} == {}


def preempt_itself_at_last(self: Scheduler, job: Job) -> Job:
    running = [other for other in self.jobs.values() if other.name in self.cache.running]
    return max((other for other in running if other.rank >= job.rank), key=lambda other: other.rank)


def test_the_run_notices_a_step_that_holds_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Schedule, "num_tokens", 0)
    with pytest.raises(AssertionError):
        run(range(RUNS))


def test_the_run_notices_requests_that_throw_their_own_work_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a small pool and several steps in flight; a run of these has both, and ends as it should."""
    seeds = range(420, 430)
    run(seeds)
    monkeypatch.setattr(Scheduler, "_lowest_below", preempt_itself_at_last)
    with pytest.raises(AssertionError, match="no progress"):
        run(seeds)
