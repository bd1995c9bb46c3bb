"""Random operations where requests run over all groups: admissions, chunks, preemption, truncation, a stranger too.

What is scheduled comes from `match` and `split` most of the time, as a scheduler would have it, and ends anywhere else
now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Advance,
    Append,
    Fail,
    Match,
    Operation,
    Release,
    Rollback,
    Split,
    Truncate,
)
from kvproof.conformance.proposals import EXTRAS, MAX_REQUESTS, Proposer
from kvproof.conformance.step_proposals import StepProposer
from kvproof.conformance.world import World
from kvproof.reference import Request
from kvproof.reference.observation import RunningState
from kvproof.spec.vocabulary import COPY_PREFIX, CommitMode, GroupKind

OUTSIDER = "r2"
"""A request that uses the pool's own operations, where there is one."""

Draw = Callable[[], Operation | None]


class HybridProposer(StepProposer):
    """Draws operations for a world with hybrid settings; what uses the pool directly are copies and one request."""

    def __init__(self, world: World, random: Random) -> None:
        self._apart = False
        self._outsiders = [OUTSIDER] if random.random() < 0.4 else []
        self._goes_back = all(group.kind is not GroupKind.RECURRENT for group in world.config.groups)
        super().__init__(world, random)

    def _sorts(self) -> dict[Draw, int]:
        direct = {self._aside(draw): weight // 2 for draw, weight in super()._sorts().items() if weight > 2}
        return direct | {
            self._add_request: 12,
            self._append: 12,
            self._truncate: 24 if self._goes_back else 8,
            self._begin_step: 24,
            self._commit: 20,
            self._rollback: 12 if self._goes_back else 4,
            self._match: 8,
            self._split: 16,
            self._admit: 130,
            self._advance: 200,
            self._release: 30,
            self._fail: 5,
            self._evict: 3,
        }

    def _aside(self, draw: Draw) -> Draw:
        """What one draws who does not run."""

        def drawn() -> Operation | None:
            self._apart = True
            try:
                return draw()
            finally:
                self._apart = False

        return drawn

    # Choices

    def _request(self) -> Request | None:
        if not self._apart:
            return super()._request()
        return next((self.world.requests[name] for name in self._outsiders if name in self.world.requests), None)

    def _holder(self) -> str | None:
        return self.random.choice([*self.copies, *(name for name in self._outsiders if name in self.world.requests)])

    def _running(self) -> RunningState | None:
        running = self.world.state.running
        return self.random.choice(running) if running else None

    def _of_one_that_runs(self) -> Request | None:
        """Most often a request that runs."""
        running = self._running()
        if running is None or self.random.random() < 0.2:
            return self._request()
        return self.world.requests[running.request]

    def _end(self, request: Request, start: int, junction: int) -> int | None:
        """Where a chunk from `start` on may end: where the split says, most often; None for not now."""
        left = request.num_tokens - start
        if left < 1:
            return None
        tokens = self.random.choice((left, self.random.randint(1, left)))
        if self.random.random() < 0.25:
            return start + tokens
        cap = self.random.choice((tokens, tokens, left, left + 3))
        assert self.world.cache is not None, "the world has hybrid settings"
        end = self.world.cache.split(request, start, tokens, max(cap, tokens), min(junction, request.num_tokens))
        return end if end > start else None

    # Requests that run

    def _match(self) -> Operation | None:
        request = self._request()
        return Match(request.request_id) if request else None

    def _admit(self) -> Operation | None:
        if self.random.random() < 0.05:  # it has to be refused
            request = self._request()
            return Admit(request.request_id, self.random.randint(0, request.num_tokens + 1)) if request else None
        barred = {*(each.request for each in self.world.state.running or ()), *self._outsiders}
        waiting = [name for name in self.world.requests if name not in barred and not name.startswith(COPY_PREFIX)]
        if not waiting:
            return None
        request = self.world.requests[self.random.choice(waiting)]
        assert self.world.cache is not None, "the world has hybrid settings"
        match = self.world.cache.match(request)
        end = self._end(request, match.hit, match.junction)
        return None if end is None else Admit(request.request_id, end)

    def _advance(self) -> Operation | None:
        running = self._running()
        if running is None or self.random.random() < 0.03:  # it has to be refused
            request = self._request()
            return Advance(request.request_id, self.random.randint(0, request.num_tokens + 1)) if request else None
        end = self._end(self.world.requests[running.request], running.computed, running.junction)
        return None if end is None else Advance(running.request, end)

    def _split(self) -> Operation | None:
        """Any start, any budget, any junction."""
        request = self._request()
        if request is None or not request.num_tokens:
            return None
        start = self.random.randrange(request.num_tokens)
        tokens = self.random.randint(1, request.num_tokens - start)
        junction = self.random.choice((0, self.random.randint(0, request.num_tokens)))
        return Split(request.request_id, start, tokens, tokens + self.random.choice((0, 0, 1, 2, 9)), junction)

    def _release(self) -> Operation | None:
        running = self._running()
        return Release(running.request) if running else None

    def _fail(self) -> Operation | None:
        """The oldest open step, most often."""
        oldest = self.world.begun - self.world.state.steps.open + 1
        return Fail(oldest + self.random.choice((0, 0, 0, 0, 0, 0, 0, 1, -1)))

    def _rollback(self) -> Operation | None:
        running = self._running()
        return Rollback((running.request,)) if running and self.random.random() < 0.7 else super()._rollback()

    # Their tokens

    def _add_request(self) -> Operation | None:
        """A request that shares most of another one's prompt, or all of it."""
        if len(self.world.requests) >= MAX_REQUESTS:
            return None
        other = self._request()
        prefix = () if other is None else tuple(other.tokens)
        kept = self.random.choice((len(prefix), len(prefix), self.random.randint(0, len(prefix))))
        extras = tuple(extra for extra in EXTRAS if self.random.random() < 0.02)
        tokens = (*prefix[:kept], *self._tokens(self.longest))[: self.longest]
        return AddRequest(f"r{len(self.world.requests) + 1}", tokens, extras)

    def _append(self) -> Operation | None:
        """What one that runs has sampled, or a whole turn."""
        request = self._of_one_that_runs()
        if request is None or request.num_tokens >= self.longest:
            return None
        return Append(
            request.request_id, self._tokens(self.random.choice((1, 1, 1, self.longest - request.num_tokens)))
        )

    def _truncate(self) -> Operation | None:
        request = self._of_one_that_runs()
        if request is None:
            return None
        near = max(0, request.num_tokens - self.random.randint(0, 4))
        return Truncate(request.request_id, self.random.choice((near, self.random.randint(0, request.num_tokens))))


def proposer_for(world: World, random: Random) -> Proposer:
    """The proposer that fits the world's pool."""
    if world.config.hybrid is not None:
        return HybridProposer(world, random)
    return (StepProposer if world.config.commit is CommitMode.STEPS else Proposer)(world, random)
