"""Sides for tests: the pool itself, and pools that say something else than it does."""

from __future__ import annotations

from collections.abc import Sequence

from kvproof.conformance.bench.sides import MakeSide
from kvproof.gpu_backend import Request
from kvproof.gpu_backend.bench import Side
from kvproof.spec.events import Event
from kvproof.spec.vocabulary import Key

OURS: MakeSide = Side


class Twin(Side):
    """The same under another name."""

    name = "twin"


class TakesFromTheWrongPlace(Twin):
    """Takes the first two blocks in the other order."""

    def allocate(self, calls: int, k: int) -> tuple[list[list[int]], list[list[Event]]]:
        self.pool.free(self.pool.allocate(2)[::-1])
        return super().allocate(calls, k)


class ForgetsAKey(Twin):
    """Never finds the last key that it is asked for."""

    def look_up(self, batches: Sequence[list[Key]]) -> list[list[int | None]]:
        return [[*found[:-1], None] for found in super().look_up(batches)]


class FindsWhatIsNotThere(Twin):
    """Answers a miss with block 1."""

    def look_up(self, batches: Sequence[list[Key]]) -> list[list[int | None]]:
        return [[block or 1 for block in found] for found in super().look_up(batches)]


class TellsTooLittle(Twin):
    """Keeps one event of each call to itself."""

    def cache(self, requests: Sequence[Request], tables: Sequence[list[int]], first: int = 0) -> list[list[Event]]:
        return [events[1:] for events in super().cache(requests, tables, first)]


class HitsTooShort(Twin):
    """Leaves out the last block of every hit."""

    def longest(self, keys: list[Key]) -> list[int]:
        return super().longest(keys)[:-1]


class FreesInAnotherOrder(Twin):
    """Frees the blocks of a table the first one first."""

    def free(self, tables: Sequence[list[int]]) -> None:
        super().free([table[::-1] for table in tables])
