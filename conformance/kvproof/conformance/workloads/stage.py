"""The fixed part of the workloads that a standard certification replays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kvproof.conformance.backends.interface import Backend, Capabilities
from kvproof.conformance.certification.lockstep import Divergence
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


@dataclass(slots=True)
class StageResult:
    """What was done, run by run; the last run is the one that diverged, if one did."""

    played: list[Played] = field(default_factory=list)

    @property
    def divergence(self) -> Divergence | None:
        """The first difference."""
        return self.played[-1].divergence if self.played else None


def replay_workloads(
    backend: Backend,
    capabilities: Capabilities,
    parts: tuple[Part, ...] = STANDARD,
    progress: Callable[[Played], None] = lambda so_far: None,
    is_enough: Callable[[], bool] = lambda: False,
) -> StageResult:
    """Replay the parts up to the first divergence; the modes that the backend offers take turns from run to run.

    Now and then it is asked whether what was done `is_enough`. Nothing is played on a backend without full attention.
    Raises `AdapterError`.
    """
    result = StageResult()
    for part in parts:
        workload = load(part.workload)
        for num_blocks in part.blocks:
            modes = configurations(capabilities, num_blocks)
            if not modes:
                return result
            config = modes[len(result.played) % len(modes)]
            result.played.append(play(backend, capabilities, config, workload, part.requests, progress, is_enough))
            if result.divergence is not None or is_enough():
                return result
    return result
