"""The fixed part of the workloads that a standard certification replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvproof.conformance.backends.interface import Backend, Capabilities
from kvproof.conformance.workloads.arrivals import load
from kvproof.conformance.workloads.play import Played, configurations, play


@dataclass(frozen=True, slots=True)
class Part:
    """The first requests of a shipped workload, and the pools in which they are served."""

    workload: str
    requests: int
    blocks: tuple[int, ...]


STANDARD = (
    Part("mooncake_conversation", 600, (250, 1_000, 4_000)),
    Part("mooncake_synthetic", 600, (200, 1_000, 4_000)),
    Part("lmcache_miniswe", 50, (400, 1_000, 4_000)),
    Part("lmcache_taubench", 150, (64,)),
    Part("lmcache_taubench", 447, (100, 1_000)),
)
"""The first pool of each is so small that requests have to wait for others to end, or do not fit."""


def replay_workloads(
    backend: Backend,
    capabilities: Capabilities,
    parts: tuple[Part, ...] = STANDARD,
    progress: Callable[[Played], None] = lambda so_far: None,
    is_enough: Callable[[], bool] = lambda: False,
) -> Iterator[Played]:
    """Replay the parts up to the first divergence; the modes that the backend offers take turns from run to run.

    Now and then it is asked whether what was done `is_enough`. Nothing is played on a backend without full attention.
    Raises `AdapterError`.
    """
    number = 0
    for part in parts:
        workload = load(part.workload)
        for num_blocks in part.blocks:
            modes = configurations(capabilities, num_blocks)
            if not modes:
                return
            config = modes[number % len(modes)]
            played = play(backend, capabilities, config, workload, part.requests, progress, is_enough)
            yield played
            if played.divergence is not None or is_enough():
                return
            number += 1
