"""Where a request can begin: one lookup of all its hashes in all groups, and a fixed point over it (HIT-*)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kvproof.gpu_backend import _core
from kvproof.gpu_backend.hybrid.geometry import Geometry, floor
from kvproof.gpu_backend.request import Request
from kvproof.spec.vocabulary import GroupKind

NONE = -1
"""How the core writes that no block has a key."""


@dataclass(frozen=True, slots=True)
class Match:
    """Where a request would begin, in tokens (HIT-JOINT-1, HIT-JUNCTION-1, HIT-PENDING-1).

    The prompt leaves what it shares at `junction`, 0 if that is not past the hit. `pending` would be the hit if
    everything reserved were committed.
    """

    hit: int
    junction: int
    pending: int

    @property
    def uncached(self) -> int:
        """How many tokens between hit and junction are computed again for want of a state."""
        return max(0, self.junction - self.hit)


Blocks = npt.NDArray[np.int32]
"""A block for each hash of a request, in order; NONE where there is none."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """For each group, for each hash of a request in order: the block that serves its key, and the block that has it
    reserved for readers of the batch."""

    serving: npt.NDArray[np.int32]
    reserved: npt.NDArray[np.int32]


class Finder(Protocol):
    """Says of one group where a request could begin."""

    def greatest(self, most: int) -> int:
        """The greatest boundary up to the boundary `most` at which the group is usable."""


class RowFinder:
    """An attention group: needs full slots, and a copy of rows where it begins inside a slot."""

    def __init__(self, geometry: Geometry, group: int, serving: Blocks, reserved: Blocks, total: int) -> None:
        self._geometry, self._group, self._serving = geometry, group, serving.data
        self._h, self._size = geometry.hash_block_size, geometry.groups[group].block_size
        self._drop = min(geometry.align, self._size) if group in geometry.hybrid.drop else 0
        self._limit = min(total - 1 + self._drop, len(serving) * self._h)
        links = self._size // self._h
        # What is reserved stands there for full attention only (STEP-LOOKUP-1).
        is_missing = (serving[links - 1 :: links] == NONE) & (reserved[links - 1 :: links] == NONE)
        slots = np.arange(len(is_missing))
        last_missing = np.maximum.accumulate(np.where(is_missing, slots, NONE))
        self._gap = np.concatenate(([NONE], last_missing)).data  # the last missing slot before each slot
        self._reach = total  # full attention needs all slots: nothing past the first missing one is worth asking
        if geometry.groups[group].kind is GroupKind.FULL_ATTENTION and is_missing.any():
            self._reach = (int(is_missing.argmax()) + 1) * self._size - 1

    def greatest(self, most: int) -> int:
        """See `Finder`."""
        n = floor(min(most, self._reach), self._geometry.align)
        while n > 0 and not self._is_usable(n):
            n = self._next(n)
        return n

    def source(self, n: int) -> int:
        """Which hash names the rows that are copied if a request begins at n, inside a slot: that of the least position
        that serves them; NONE if there is none (HIT-ATTENTION-1, HIT-SOURCE-1)."""
        end = min(floor(n, self._size) + self._size, self._limit)
        for link in range(n // self._h - 1, end // self._h):
            if self._serving[link] != NONE:
                return link
        return NONE

    def _is_usable(self, n: int) -> bool:
        """With a drop also the rows after n are needed, which are there but not kept (HIT-DROP-1)."""
        return self._has_rows(n) and (not self._drop or self._has_rows(n + self._drop))

    def _has_rows(self, n: int) -> bool:
        first, full = self._geometry.needed(self._group, n).start, n // self._size
        if first < full and (full >= len(self._gap) or self._gap[full] >= first):
            return False
        return n % self._size == 0 or self.source(n) != NONE

    def _next(self, n: int) -> int:
        """A boundary below n; those in between are not usable, as they need the slot that is missing at n."""
        align = self._geometry.align
        gap = self._gap[n // self._size]
        if gap < self._geometry.needed(self._group, n).start:
            return n - align
        return min(n - align, floor((gap + 1) * self._size - 1, align))


class StateFinder:
    """A recurrent group: needs the state at exactly the boundary (HIT-RECURRENT-1)."""

    def __init__(self, geometry: Geometry, serving: Blocks) -> None:
        self._h, self._align, self._serving = geometry.hash_block_size, geometry.align, serving.data

    def greatest(self, most: int) -> int:
        """See `Finder`."""
        n = most
        while n > 0 and self._serving[n // self._h - 1] == NONE:
            n -= self._align
        return n


def agree(finders: Sequence[Finder], most: int) -> int:
    """The greatest boundary up to `most` at which all of them are usable: ask round by round until nobody objects."""
    agreed = -1
    while agreed != most:
        agreed = most
        for finder in finders:
            most = finder.greatest(most)
    return agreed


def finders_of(geometry: Geometry, matrix: Matrix, total: int) -> list[Finder]:
    """A finder for each group, for a request of so many tokens."""
    return [
        StateFinder(geometry, matrix.serving[group])
        if geometry.is_recurrent(group)
        else RowFinder(geometry, group, matrix.serving[group], matrix.reserved[group], total)
        for group in range(len(geometry.groups))
    ]


@dataclass(frozen=True, slots=True)
class Lookup:
    """What there is of a request of `total` tokens: the matrix of now, a finder for each group over it, and the block
    that would serve each key if everything reserved were committed."""

    total: int
    now: Matrix
    finders: list[Finder]
    pending: npt.NDArray[np.int32]


def look_up(pool: _core.Hand, geometry: Geometry, request: Request) -> Lookup:
    """Look the request up as it is now, whoever changes it meanwhile. Raises InvalidArgument."""
    total = request.num_tokens
    words = np.frombuffer(pool.find_matrix(request), np.int32)
    serving, reserved, pending = words.reshape(3, len(geometry.groups), -1)
    hashed = serving.shape[1] * geometry.hash_block_size
    total = min(max(total, hashed), hashed + geometry.hash_block_size - 1)
    now = Matrix(serving, reserved)
    return Lookup(total, now, finders_of(geometry, now, total), pending)


def match(geometry: Geometry, found: Lookup) -> Match:
    """Where the request begins that was looked up (HIT-JOINT-1, HIT-JUNCTION-1, HIT-PENDING-1)."""
    most = floor(max(0, found.total - 1), geometry.align)
    hit = agree(found.finders, most)
    full = [found.finders[i] for i, group in enumerate(geometry.groups) if group.kind is GroupKind.FULL_ATTENTION]
    reach = agree(full, most) if full else 0
    pending = hit
    if not np.array_equal(found.now.serving, found.pending):
        later = Matrix(found.pending, np.full_like(found.pending, NONE))
        pending = agree(finders_of(geometry, later, found.total), most)
    return Match(hit, reach if reach > hit else 0, pending)
