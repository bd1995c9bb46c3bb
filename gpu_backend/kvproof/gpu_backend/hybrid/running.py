"""A request that runs: its block tables, and how far it is (ADMIT-*, BACK-*)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kvproof.gpu_backend.hybrid.geometry import Geometry, slots_of
from kvproof.gpu_backend.request import Request
from kvproof.spec.vocabulary import NULL_BLOCK


class ChunkWrite(NamedTuple):
    """What the forward pass of a chunk leaves in one block: the rows of the tokens first .. end-1; in a recurrent group
    the state after `end` tokens."""

    group: int
    block: int
    first: int
    end: int


@dataclass(slots=True)
class Running:
    """A request that was admitted. `tables` has a block table for each group, 0 where nothing is kept.

    `computed` is where its last scheduled chunk ends; `settled` where a failed step takes it back to, 0 if there is
    nothing. `in_flight` says for open steps, ascending, where it is settled with their commit. `last_step` had its last
    chunk, whose forward pass leaves in its blocks what `writes` says, groups and slots ascending. `junction` is that of
    its admission. Below `kept_from`, a slot of each group, nothing is kept.
    """

    request: Request
    tables: list[list[int]]
    junction: int
    computed: int
    settled: int = 0
    in_flight: dict[int, int] = field(default_factory=dict)
    last_step: int = 0
    writes: list[ChunkWrite] = field(default_factory=list)
    kept_from: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kept_from = [0] * len(self.tables)

    @property
    def is_settled(self) -> bool:
        """Whether everything that it computed, and every copy that it goes on from, is committed."""
        return not self.in_flight

    def blocks(self) -> list[int]:
        """Its blocks, group by group, the last slot first (RELEASE-1)."""
        return [block for table in self.tables for block in reversed(table) if block != NULL_BLOCK]

    def can_go_on_from(self, n: int, geometry: Geometry) -> bool:
        """Whether it still has what it needs at n, which is not past where it is computed."""
        return all(table[slot] for group, table in enumerate(self.tables) for slot in geometry.needed(group, n))

    def settle(self, committed: int) -> None:
        """The steps up to `committed` are committed."""
        for step in [step for step in self.in_flight if step <= committed]:
            self.settled = self.in_flight.pop(step)

    def go_back(self, n: int, geometry: Geometry) -> list[list[int]]:
        """Forget what is past n; for each group the blocks that are to be freed, the last slot first (BACK-SLOTS-1)."""
        left = []
        for group, table in enumerate(self.tables):
            kept = slots_of(n, geometry.groups[group].block_size)
            left.append([block for block in reversed(table[kept:]) if block != NULL_BLOCK])
            del table[kept:]
            self.kept_from[group] = min(self.kept_from[group], kept)
        self.computed = n
        self.in_flight.clear()
        self.last_step = 0
        self.writes = []
        return left

    def add_chunk(self, step: int, end: int, geometry: Geometry) -> None:
        """In this step its chunk is computed, from where it was to `end` (ADVANCE-WRITE-1)."""
        self.writes = list(self._writes(self.computed, end, geometry))
        self.computed = self.in_flight[step] = end
        self.last_step = step

    def _writes(self, start: int, end: int, geometry: Geometry) -> Iterator[ChunkWrite]:
        for group, table in enumerate(self.tables):
            size = geometry.groups[group].block_size
            if geometry.is_recurrent(group):
                yield ChunkWrite(group, table[-1], start, end)
                continue
            for slot in range(start // size, slots_of(end, size)):
                yield ChunkWrite(group, table[slot], max(start, slot * size), min(end, (slot + 1) * size))
