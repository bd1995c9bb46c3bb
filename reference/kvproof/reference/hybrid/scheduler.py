"""A small scheduler over the hybrid cache (clauses SCHED-*).

It exists to run requests through the cache the way engines do: budgets, chunks, several steps in flight, preemption.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kvproof.reference.hybrid.cache import HybridCache
from kvproof.reference.hybrid.groups import slots_up_to
from kvproof.reference.hybrid.policies import Limits, Pending, Policies, Rank
from kvproof.reference.request import Request
from kvproof.reference.validate import check_index, check_int, check_list, shown
from kvproof.spec.errors import AlreadyAdmitted, InvalidArgument, NotAdmitted, OutOfBlocks, OutOfRange
from kvproof.spec.vocabulary import GroupConfig, GroupKind, Holder


@dataclass(slots=True)
class Job:
    """A request on its way: how it ranks, and how many empty chunks it had in a row.

    `other_caps` are the answers of the limits' `other_cap`, if there is one, for every start below `most_tokens`.
    """

    request: Request
    rank: tuple[int, int]
    most_tokens: int
    other_caps: list[int] | None
    empty: int = 0

    @property
    def name(self) -> Holder:
        """The name of the request."""
        return self.request.request_id


@dataclass(slots=True)
class Schedule:
    """One step: request -> (start, end) of its chunk, in the order of scheduling, and who was preempted for it."""

    step: int
    chunks: dict[Holder, tuple[int, int]] = field(default_factory=dict)
    preempted: list[Holder] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        """How many tokens are computed in the step."""
        return sum(end - start for start, end in self.chunks.values())


class Scheduler:
    """Requests wait, run, are preempted and resumed; `jobs` are all that have not finished."""

    def __init__(self, cache: HybridCache, limits: Limits, policies: Policies) -> None:
        if not isinstance(cache, HybridCache):
            raise InvalidArgument(f"cache must be a HybridCache of the reference, not {shown(cache)}")
        if not isinstance(limits, Limits) or not (limits.other_cap is None or callable(limits.other_cap)):
            raise InvalidArgument(f"limits must be Limits, their other_cap a function or None, not {shown(limits)}")
        if not isinstance(policies, Policies) or not (
            isinstance(policies.pending, Pending) and isinstance(policies.rank, Rank)
        ):
            raise InvalidArgument(f"policies must be Policies of a Pending and a Rank, not {shown(policies)}")
        check_int("token_budget", limits.token_budget, 1)
        check_int("long_prefill_threshold", limits.long_prefill_threshold, 0)
        check_int("most_running", limits.most_running, 1)
        check_int("most_empty", limits.most_empty, 1)
        self.cache, self.limits, self.policies = cache, limits, policies
        self.jobs: dict[Holder, Job] = {}
        self._arrivals = 0

    def add(self, request: Request, most_tokens: int, priority: int = 0) -> None:
        """A request arrives that will have at most so many tokens (SCHED-REFUSE-1).

        Raises AlreadyAdmitted, InvalidArgument (no tokens, another contract, the name of a copy, a priority or a cap
        that is no integer), OutOfRange and OutOfBlocks.
        """
        self.cache.check_request(request)
        if request.request_id in self.jobs or request.request_id in self.cache.running:
            raise AlreadyAdmitted(f"there is a request {request.request_id!r} already")
        if request.num_tokens == 0:
            raise InvalidArgument(f"request {request.request_id!r} has no tokens; there is nothing to compute")
        check_int("most_tokens", most_tokens, request.num_tokens)
        check_index("priority", priority)
        needed, there_are = self.blocks_for(most_tokens), self.cache.pool.config.num_blocks - 1
        if needed > there_are:
            raise OutOfBlocks(f"request {request.request_id!r} may take {needed} blocks, and the pool has {there_are}")
        other_caps = self._other_caps(request, most_tokens)
        self._arrivals += 1
        rank = self.policies.rank.key(priority, self._arrivals)
        self.jobs[request.request_id] = Job(request, rank, most_tokens, other_caps)

    def cap(self, request_id: Holder, start: int) -> int:
        """The most tokens that the request could get at this start, below its tokens, in an empty step."""
        job = self._job(request_id)
        check_int("start", start, 0, job.request.num_tokens - 1)
        threshold = self.limits.long_prefill_threshold or self.limits.token_budget
        other = job.request.num_tokens - start if job.other_caps is None else job.other_caps[start]
        return min(self.limits.token_budget, threshold, other)

    def blocks_for(self, num_tokens: int) -> int:
        """How many blocks a request of so many tokens may take when it runs alone."""
        return sum(self._blocks_of_group(group, num_tokens) for group in self.cache.pool.config.groups)

    def schedule(self) -> Schedule:
        """Begin a step and fill it. Raises InvalidArgument if another request of the name of one of its own runs."""
        for name, job in self.jobs.items():
            if name in self.cache.running and self.cache.running[name].request is not job.request:
                raise InvalidArgument(f"another request {name!r} runs; release it, and this one has its turn")
        schedule = Schedule(self.cache.pool.begin_step())
        ranked = sorted(self.jobs.values(), key=lambda job: job.rank)
        starved = [job for job in ranked if job.empty >= self.limits.most_empty]
        running = [job for job in ranked if job.name in self.cache.running and job not in starved]
        for job in (*starved, *running):
            if job.name in self.cache.running:
                self._go_on(job, schedule)
            elif job in starved and job.name not in schedule.preempted:
                self._begin(job, schedule)
        for job in ranked:
            waits = job.name not in self.cache.running and job not in starved
            if waits and job.name not in schedule.preempted and not self._begin(job, schedule):
                break
        return schedule

    def commit(self, step: int) -> None:
        """The work of a step is done."""
        self.cache.commit(step)

    def fail(self, step: int) -> list[Holder]:
        """The oldest open step failed; who was rolled back (SCHED-FAIL-1)."""
        return self.cache.fail(step)

    def append(self, request_id: Holder, tokens: Sequence[int]) -> None:
        """A request got tokens, together no more than it was to have at most. Raises OutOfRange."""
        job = self._job(request_id)
        total = job.request.num_tokens + len(check_list("tokens", tokens))
        if total > job.most_tokens:
            raise OutOfRange(
                f"request {job.name!r} was to have at most {job.most_tokens} tokens, and would have {total}"
            )
        job.request.append(tokens)

    def finish(self, request_id: Holder) -> None:
        """The request is done, or aborted."""
        job = self._job(request_id)
        if job.name in self.cache.running:
            self.cache.release(job.name)
        del self.jobs[job.name]

    # One request's turn

    def _go_on(self, job: Job, schedule: Schedule) -> None:
        """The next chunk of a request that runs; others make room for it (SCHED-PREEMPT-1)."""
        running = self.cache.running[job.name]
        end = self._end_of_chunk(job, running.computed, running.junction, schedule)
        while end is not None and job.name in self.cache.running:
            start = running.computed
            try:
                self.cache.advance(job.request, end)
            except OutOfBlocks:
                lowest = self._lowest_below(job)
                if lowest is None:
                    return
                self._preempt(lowest, schedule)
            else:
                schedule.chunks[job.name] = (start, end)
                return

    def _begin(self, job: Job, schedule: Schedule) -> bool:
        """Admit a request that waits; whether those behind it have their turn."""
        if len(self.cache.running) >= self.limits.most_running or schedule.num_tokens >= self.limits.token_budget:
            return False
        match = self.cache.match(job.request)
        if self.policies.pending.holds_back(match):
            return True
        end = self._end_of_chunk(job, match.hit, match.junction, schedule)
        if end is None:
            return True
        try:
            self.cache.admit(job.request, end)
        except OutOfBlocks:
            return False
        schedule.chunks[job.name] = (match.hit, end)
        return True

    def _end_of_chunk(self, job: Job, start: int, junction: int, schedule: Schedule) -> int | None:
        """Where the chunk ends that the request is given now, None for nowhere (SCHED-BUDGET-1, SCHED-EMPTY-1)."""
        cap = self.cap(job.name, start) if start < job.request.num_tokens else 0
        tokens = min(job.request.num_tokens - start, cap, self.limits.token_budget - schedule.num_tokens)
        if tokens < 1:
            return None
        end = self.cache.split(job.request, start, tokens, cap, min(junction, job.request.num_tokens))
        job.empty = 0 if end > start else job.empty + 1
        return end if end > start else None

    def _other_caps(self, request: Request, most_tokens: int) -> list[int] | None:
        """What else limits a chunk at every start; nothing can fail for it later, in the middle of a step."""
        if self.limits.other_cap is None:
            return None
        caps = []
        for start in range(most_tokens):
            try:
                cap = self.limits.other_cap(request, start)
            except Exception as error:
                raise InvalidArgument(
                    f"other_cap of {request.request_id!r} at {start} fails: {shown(error)}"
                ) from error
            if check_index("the answer of other_cap", cap) < 1:
                raise OutOfRange(f"request {request.request_id!r} could get no token at {start}, however long it waits")
            caps.append(cap)
        return caps

    def _lowest_below(self, job: Job) -> Job | None:
        """Who is preempted for the request: the lowest that runs and ranks below it."""
        running = [other for other in self.jobs.values() if other.name in self.cache.running]
        return max((other for other in running if other.rank > job.rank), key=lambda other: other.rank, default=None)

    def _preempt(self, job: Job, schedule: Schedule) -> None:
        """The request, and those that are taken back with it, lose what they were given in this step."""
        for name in self.cache.release(job.name):
            schedule.chunks.pop(name, None)
            if name not in self.cache.running:
                schedule.preempted.append(name)

    def _blocks_of_group(self, group: GroupConfig, num_tokens: int) -> int:
        """All slots, or those that a window and a chunk span; two states; and one block that is copied from or to."""
        if group.kind is GroupKind.RECURRENT:
            return 3
        slots = slots_up_to(num_tokens, group.block_size)
        if group.window is not None:
            span = group.window - 1 + self.limits.token_budget
            slots = min(slots, slots_up_to(span, group.block_size) + 1)
        return slots + 1

    def _job(self, request_id: object) -> Job:
        job = self.jobs.get(request_id) if isinstance(request_id, str) else None
        if job is None:
            raise NotAdmitted(f"there is no request {shown(request_id)}; there are {_names(self.jobs) or 'none'}")
        return job


def _names(jobs: Iterable[Holder]) -> str:
    return ", ".join(jobs)
