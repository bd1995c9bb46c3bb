"""What a run measures: its parts, each done in a process of its own so that none is slowed down by what others left."""

from __future__ import annotations

import msgspec

from kvproof.conformance.terminal import counted
from kvproof.spec.vocabulary import HashAlgorithm

LARGE = 1_000_000
"""Blocks of the pools of which memory and the worst call are judged."""

ROUNDS = 5


class Batch(msgspec.Struct, frozen=True):
    """Calls with k blocks each, so many in a round."""

    k: int
    calls: int


class SpeedPart(msgspec.Struct, frozen=True, tag="speed"):
    """Every operation in a pool of so many blocks, events off and on."""

    num_blocks: int
    batches: tuple[Batch, ...]
    rounds: int = ROUNDS


class MemoryPart(msgspec.Struct, frozen=True, tag="memory"):
    """Memory, and what the garbage collector makes of it, with every block cached; one pool alone."""

    num_blocks: int
    algorithm: HashAlgorithm
    additional: int
    """Keys of each block beside its first."""


class CallsPart(msgspec.Struct, frozen=True, tag="calls"):
    """The slowest single calls."""

    num_blocks: int
    batches: tuple[Batch, ...]


class ReplayPart(msgspec.Struct, frozen=True, tag="replay"):
    """The first requests of a recorded workload, all for None."""

    workload: str
    num_blocks: int
    requests: int | None = None
    rounds: int = ROUNDS


class HybridPart(msgspec.Struct, frozen=True, tag="hybrid"):
    """Requests of these lengths over all groups of a model; of kvproof alone."""

    contexts: tuple[int, ...]
    rounds: int = ROUNDS


Part = SpeedPart | MemoryPart | CallsPart | ReplayPart | HybridPart


class Plan(msgspec.Struct, frozen=True):
    """The parts in the order in which they run."""

    parts: tuple[Part, ...]


def title(part: Part) -> str:
    """What a part does, for progress and errors."""
    match part:
        case SpeedPart():
            return f"operations, {part.num_blocks:,} blocks"
        case MemoryPart():
            return f"memory, {keys_of(part.num_blocks, part.algorithm, part.additional)}"
        case CallsPart():
            return f"slowest calls, {part.num_blocks:,} blocks"
        case HybridPart():
            return "requests over all groups of a model"
    return f"replay of {part.workload}, {part.num_blocks:,} blocks"


def keys_of(num_blocks: int, algorithm: HashAlgorithm, additional: int) -> str:
    """How many blocks a pool has, and which keys."""
    return f"{num_blocks:,} blocks, {algorithm.value}, {counted(additional, 'additional keys')}"


_BATCHES = (Batch(512, 100), Batch(16, 1_000), Batch(1, 4_000))

FULL = Plan(
    (
        *(SpeedPart(num_blocks, _BATCHES) for num_blocks in (1_000, 100_000, LARGE)),
        *(
            MemoryPart(LARGE, algorithm, additional)
            for algorithm in (HashAlgorithm.XXH3_128, HashAlgorithm.SHA256)
            for additional in (0, 1, 4)
        ),
        CallsPart(LARGE, (Batch(512, 4_000), Batch(16, 10_000), Batch(1, 20_000))),
        ReplayPart("mooncake_conversation", 16_000),
        ReplayPart("mooncake_synthetic", 16_000),
        ReplayPart("lmcache_miniswe", 4_000),
        ReplayPart("lmcache_taubench", 400),
        HybridPart((1_000, 10_000, 100_000)),
    )
)
"""What the goals are about."""

QUICK = Plan(
    (
        SpeedPart(1_000, (Batch(16, 10), Batch(1, 50)), rounds=3),
        MemoryPart(1_000, HashAlgorithm.XXH3_128, 1),
        CallsPart(1_000, (Batch(16, 10), Batch(1, 50))),
        ReplayPart("lmcache_taubench", 400, 50, rounds=3),
        HybridPart((1_000,), rounds=3),
    )
)
"""Some seconds, to see that everything works."""
