"""An engine that serves a workload: what it does with the pool, as operations.

What is kept of a workload: the order of arrival, which full blocks of which prompts are the same, and whether a
prompt ends inside a block. A block of the workload, of whatever size, becomes a block of `BLOCK_TOKENS` tokens, so
hashing is cheap; equal ids give equal tokens, different ids different ones. What is not kept: times, replies, and how
long a partial block is.

The engine decides by the state of the reference, so a generator of its operations must be run as it goes: each
operation is carried out on the reference before the next one is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    BeginStep,
    CacheFullBlocks,
    Commit,
    Free,
    KeyRef,
    Lookup,
    Operation,
    Touch,
    Write,
)
from kvproof.conformance.workloads.arrivals import Arrival, Workload
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import CommitMode, HolderMode

BLOCK_TOKENS = 2
"""Tokens of a block in the pool."""

MOST_RUNNING = 8
"""Requests that hold their blocks at the same time, unless the pool is too small for them."""

ADMITTED_IN_A_STEP = 4
"""Requests that share a step where keys are committed with their step; they do not see each other's keys."""

GROUP = 0


@dataclass(slots=True)
class Counts:
    """What was met on the way; lengths in tokens of the workload."""

    requests: int = 0
    left_out: int = 0
    """Requests that need more blocks than there are."""
    prompt_tokens: int = 0
    """Of the requests that were served."""
    hit_tokens: int = 0
    revived: int = 0
    """Hits on blocks that nobody held any more."""
    evicted: int = 0
    """Blocks that lost a key when they were allocated again."""
    full: int = 0
    """Requests for which others had to end first."""


@dataclass(slots=True)
class Running:
    """A request that holds its blocks; `step` is the one in which it was admitted, 0 without steps."""

    name: str
    holder: str | None
    step: int
    table: list[int] = field(default_factory=list)


class Engine:
    """Serves requests with one group of full attention; `world` is the reference that runs beside it."""

    def __init__(self, world: World, workload: Workload) -> None:
        self.world = world
        self.counts = Counts()
        self._workload = workload
        self._running: deque[Running] = deque()
        self._in_steps = world.config.commit is CommitMode.STEPS
        self._named = world.config.holders is HolderMode.NAMED
        self._step = 0
        self._admitted = 0
        self._cached: set[int] = set()
        """The blocks that have a key."""

    def serve(self, arrivals: Iterable[Arrival]) -> Iterator[Operation]:
        """The operations for these requests, up to the end of the last one."""
        for arrival in arrivals:
            yield from self._serve(arrival)
        yield from self._end_step()
        while self._running:
            yield from self._end_oldest()

    def _serve(self, arrival: Arrival) -> Iterator[Operation]:
        block = self._workload.block
        tokens, needed = tokens_of(arrival, block), -(-arrival.input_tokens // block)
        if needed > self.world.config.num_blocks - 1:
            self.counts.left_out += 1
            return
        self.counts.requests += 1
        self.counts.prompt_tokens += arrival.input_tokens
        name = f"r{self.counts.requests}"
        yield AddRequest(name, tokens)
        yield from self._begin_step()
        request = Running(name, name if self._named else None, self._step)
        keys = tuple([KeyRef(name, GROUP, end) for end in range(BLOCK_TOKENS, len(tokens) + 1, BLOCK_TOKENS)])
        yield Lookup(keys)
        hits = self._hits(keys[: (len(tokens) - 1) // BLOCK_TOKENS])
        self.counts.hit_tokens += len(hits) * block
        yield from self._make_room(hits, needed - len(hits), request)
        for hit, key in zip(hits, keys, strict=False):
            self.counts.revived += self.world.state.blocks[hit].ref_cnt == 0
            yield Touch(request.holder, hit, key)
        yield from self._compute(request, hits, needed, len(tokens))
        self._running.append(request)
        self._admitted += 1
        if self._admitted == ADMITTED_IN_A_STEP:
            yield from self._end_step()
        if len(self._running) > MOST_RUNNING:
            yield from self._end_oldest()

    def _hits(self, keys: Sequence[KeyRef]) -> list[int]:
        """The blocks of the longest run of cached blocks from the beginning; the last token is always computed."""
        found = self.world.pool.lookup([self.world.key(key) for key in keys])
        hits: list[int] = []
        for block_id in found:
            if block_id is None:
                break
            hits.append(block_id)
        return hits

    def _make_room(self, hits: Sequence[int], wanted: int, request: Running) -> Iterator[Operation]:
        """End the oldest requests until there are enough free blocks beside the hits."""
        self.counts.full += wanted > self._available(hits)
        while wanted > self._available(hits):
            if (
                self._step and self._running[0].step == self._step
            ):  # what it has registered in this step is not committed yet
                yield from self._end_step()
                yield from self._begin_step()
                request.step = self._step
            yield from self._end_oldest()

    def _available(self, hits: Sequence[int]) -> int:
        state = self.world.state
        return len(state.free_queue) - sum(state.blocks[hit].ref_cnt == 0 for hit in hits)

    def _compute(self, request: Running, hits: Sequence[int], needed: int, length: int) -> Iterator[Operation]:
        """Allocate what is missing, write it, and register the full blocks of it."""
        yield Allocate(request.holder, needed - len(hits))
        new = self.world.taken
        self.counts.evicted += len(self._cached.intersection(new))
        self._cached.difference_update(new)
        request.table = [*hits, *new]
        for slot in range(len(hits), needed):
            end = min((slot + 1) * BLOCK_TOKENS, length)
            yield Write(request.name, request.table[slot], end, GROUP)
        full = length // BLOCK_TOKENS
        yield CacheFullBlocks(request.name, tuple(request.table), len(hits), full, GROUP)
        self._cached.update(request.table[len(hits) : full])

    def _end_oldest(self) -> Iterator[Operation]:
        """The oldest request ends; its tail is the first to be evicted."""
        oldest = self._running.popleft()
        yield Free(oldest.holder, tuple(reversed(oldest.table)))

    def _begin_step(self) -> Iterator[Operation]:
        if self._in_steps and not self._step:
            yield BeginStep()
            self._step, self._admitted = self.world.begun, 0

    def _end_step(self) -> Iterator[Operation]:
        if self._step:
            yield Commit(self._step)
            self._step = 0


def tokens_of(arrival: Arrival, block: int) -> tuple[int, ...]:
    """The tokens of a prompt: two for each full block, one for what is left, which is never looked up."""
    full, rest = divmod(arrival.input_tokens, block)
    ids = arrival.blocks
    tokens = [token for found in ids[:full] for token in (2 * found, 2 * found + 1)]
    return (*tokens, *([2 * ids[full] if len(ids) > full else 0] if rest else []))
