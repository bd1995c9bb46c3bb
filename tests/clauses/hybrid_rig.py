"""A rig whose requests run over all groups of its pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from kvproof.reference import Request
from kvproof.reference.hybrid import HybridCache, Match
from kvproof.reference.hybrid.policies import Limits, Policies
from kvproof.reference.hybrid.scheduler import Scheduler
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, Holder, HybridConfig, Retention
from tests.clauses.rig import ATTENTION, RECURRENT, Rig
from tests.hybrid_tables import stuck, wrong_slots

FINE = HybridConfig()
COARSE = HybridConfig(fine_grained=False)

Place = tuple[int, int]
"""A group, and the position of a key in it."""


def full(block_size: int) -> GroupConfig:
    return GroupConfig(GroupKind.FULL_ATTENTION, block_size)


def window(block_size: int, rows: int) -> GroupConfig:
    return GroupConfig(GroupKind.SLIDING_WINDOW, block_size, rows)


def state(block_size: int) -> GroupConfig:
    return GroupConfig(GroupKind.RECURRENT, block_size)


def named(value: object) -> str | None:
    """What a parameter is called in the name of its test, and so in that of a vector; None for pytest's own way."""
    if isinstance(value, HybridConfig):
        return ", ".join(_settings(value))
    if isinstance(value, GroupConfig):
        if value.window is not None:
            return f"window {value.block_size} of {value.window} rows"
        return f"{value.kind.value.partition('_')[0]} {value.block_size}"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, list | tuple):
        groups = bool(value) and isinstance(value[0], GroupConfig)
        return (" + " if groups else " ").join(named(each) or str(each) for each in value) or "none"
    return None


def _settings(hybrid: HybridConfig) -> Iterator[str]:
    yield "fine" if hybrid.fine_grained else "coarse"
    yield from (f"drop {group}" for group in hybrid.drop)
    if hybrid.lookahead:
        yield f"lookahead {hybrid.lookahead}"
    if hybrid.retention is not Retention.JUNCTION:
        yield hybrid.retention.value + (f" {hybrid.interval}" if hybrid.interval else "")
    if hybrid.checkpoints:
        yield "checkpoints"


class HybridRig(Rig):
    """By default: blocks 1 to 39, h = 2, an attention group and a recurrent one with B = 4, fine-grained hits."""

    def __init__(self, *groups: GroupConfig, hybrid: HybridConfig = FINE, blocks: int = 40, h: int = 2) -> None:
        chosen = groups or (ATTENTION, RECURRENT)
        super().__init__(*chosen, blocks=blocks, h=h, commit=CommitMode.STEPS, hybrid=hybrid)
        self.cache = HybridCache(self.pool)

    def scheduler(self, limits: Limits, policies: Policies | None = None) -> Scheduler:
        return Scheduler(self.cache, limits, policies or Policies())

    # Keys that are simply there

    def publish(self, request: Request, *places: Place) -> list[int]:
        """A block for each place serves the request's key there; the blocks are free, and no step is open."""
        self.begin()
        blocks = self.reserve(request, *places)
        self.cache.commit(self.pool.current_step)
        self.free(request, *blocks)
        return blocks

    def reserve(self, request: Request, *places: Place) -> list[int]:
        """A block for each place has the request's key there reserved, in the open step."""
        blocks = self.take(request, len(places))
        for block, (group, position) in zip(blocks, places, strict=True):
            self.put(request, block, position, group)
        return blocks

    # Requests that run

    def admit(self, request: Request, end: int) -> Match:
        """Begin a step and admit the request in it."""
        self.begin()
        return self.cache.admit(request, end)

    def advance(self, request: Request, end: int) -> None:
        """Begin a step and go on in it."""
        self.begin()
        self.cache.advance(request, end)

    def settle_all(self) -> None:
        """Commit every open step."""
        while self.pool.last_committed_step < self.pool.current_step:
            self.cache.commit(self.pool.last_committed_step + 1)

    def run(self, request: Request, *ends: int) -> None:
        """The request's chunks, each committed before the next; without ends all tokens at once."""
        for end in ends or (request.num_tokens,):
            if request.request_id in self.cache.running:
                self.advance(request, end)
            else:
                self.admit(request, end)
            self.settle_all()

    def prefill(self, request: Request, cap: int = 100) -> list[int]:
        """Run the request to its end as the split has it, never more than cap tokens at once; where its chunks end."""
        ends: list[int] = []
        while not ends or ends[-1] < request.num_tokens:
            if self.runs(request):
                start, junction = ends[-1], self.cache.running[request.request_id].junction
            else:
                match = self.cache.match(request)
                start, junction = match.hit, match.junction
            ends.append(self.cache.split(request, start, min(cap, request.num_tokens - start), cap, junction))
            self.run(request, ends[-1])
        return ends

    def serve(self, name: str, tokens: Sequence[int], *ends: int) -> Request:
        """A request that ran through these chunks and is gone."""
        request = self.request(name, tokens)
        self.run(request, *ends)
        self.cache.release(name)
        return request

    def table(self, request: Request, group: int = 0) -> list[int]:
        return list(self.cache.running[request.request_id].tables[group])

    def far(self, request: Request) -> tuple[int, int]:
        """Where the request is computed, and where it is settled."""
        running = self.cache.running[request.request_id]
        return running.computed, running.settled

    def runs(self, request: Request) -> bool:
        return request.request_id in self.cache.running

    # What there is

    def copies(self) -> list[tuple[int, int]]:
        """Source and destination of every copy of an open step, in queued order."""
        return [(src, dst) for _, src, dst, _ in self.pool.observe().steps.copies]

    def positions(self, block: int) -> list[int]:
        """Where the block's keys stand, in registration order."""
        return [position for position, _, _ in self.entries(block)]

    def served_at(self, request: Request, group: int) -> list[int]:
        """The positions at which some block serves the request's key in the group."""
        h = self.config.hash_block_size
        return [n for n in range(h, request.hashed_length + 1, h) if self.found(request, n, group) is not None]

    def held_by(self, name: Holder) -> list[int]:
        return [number for number, block in enumerate(self.pool.observe().blocks) if name in dict(block.holders)]

    def snapshot(self) -> object:
        running = self.cache.clone(self.pool).running
        prompts = [request.num_prompt_tokens for request in self.requests]
        return super().snapshot(), running, prompts, self.pool.current_step

    def check(self) -> None:
        super().check()
        assert wrong_slots(self.cache, {request.request_id: request for request in self.requests}) == []
        assert stuck(self.cache) == []


MakeHybrid = Callable[..., HybridRig]
"""The fixture `hybrid`: it takes a hybrid rig's arguments."""
