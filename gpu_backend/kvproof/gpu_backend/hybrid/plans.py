"""What an operation on a request will take, decided before anything changes (ADMIT-ATOMIC-1, ADVANCE-ATOMIC-1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvproof.gpu_backend.hashing import make_key
from kvproof.gpu_backend.hybrid.geometry import Geometry
from kvproof.gpu_backend.hybrid.hits import NONE, Match, Matrix, RowFinder, look_up, match
from kvproof.gpu_backend.hybrid.running import Running
from kvproof.gpu_backend.pool import BlockPool
from kvproof.gpu_backend.request import Request
from kvproof.spec.errors import OutOfBlocks
from kvproof.spec.vocabulary import NULL_BLOCK, Holder, Key


class Source(NamedTuple):
    """A block that an admission shares or copies for one slot; `is_reserved`: it is to be attached, not touched."""

    group: int
    slot: int
    block: int
    key: Key
    is_reserved: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """Where a request begins and what of others it begins with, groups and slots ascending (ADMIT-SHARE-1, -COPY-1)."""

    match: Match
    shared: list[Source]
    copied: list[Source]

    @property
    def sources(self) -> list[Source]:
        """All blocks of others that it begins with."""
        return [*self.shared, *self.copied]


def plan_admission(pool: BlockPool, geometry: Geometry, request: Request) -> Admission:
    """How the request would be admitted now. Raises InvalidArgument."""
    now, later = look_up(pool, request)
    found = match(geometry, now, later, request.num_tokens)
    plan = Admission(found, [], [])
    for group, settings in enumerate(geometry.groups):
        for slot in geometry.needed(group, found.hit):
            if (slot + 1) * settings.block_size <= found.hit:
                link = (slot + 1) * settings.block_size // geometry.hash_block_size - 1
                plan.shared.append(_source(now, request, group, slot, link))
            else:
                link = _copied_link(geometry, now, request, group, found.hit)
                plan.copied.append(_source(now, request, group, slot, link))
    return plan


def _copied_link(geometry: Geometry, now: Matrix, request: Request, group: int, hit: int) -> int:
    """Which hash names what is copied for a hit inside a slot (HIT-SOURCE-1)."""
    if geometry.is_recurrent(group):
        return hit // geometry.hash_block_size - 1
    return RowFinder(geometry, group, now.serving[group], now.reserved[group], request.num_tokens).source(hit)


def _source(now: Matrix, request: Request, group: int, slot: int, link: int) -> Source:
    key = make_key(group, request.text.digest(link))
    block = now.serving[group][link]
    if block != NONE:
        return Source(group, slot, block, key)
    return Source(group, slot, now.reserved[group][link], key, is_reserved=True)


@dataclass(frozen=True, slots=True)
class Chunk:
    """What going on to a chunk's end takes (ADVANCE-*).

    `let_go` are slots of each group, the last one first; `moved` and `copied` are recurrent groups whose state is
    overwritten in place, and has a key, or other readers.
    """

    let_go: list[list[int]]
    moved: list[int] = field(default_factory=list)
    copied: list[int] = field(default_factory=list)


def plan_chunk(pool: BlockPool, geometry: Geometry, running: Running, end: int) -> Chunk:
    """What the request's next chunk takes, up to `end`."""
    plan = Chunk([_not_needed(geometry, running, group) for group in range(len(geometry.groups))])
    for group, table in enumerate(running.tables):
        if not geometry.is_recurrent(group) or geometry.new_slots(group, running.computed, end):
            continue
        [(_, _, named, read)] = pool.uses([table[-1]], running.request.request_id)
        if read:
            plan.copied.append(group)
        elif named:
            plan.moved.append(group)
    return plan


def _not_needed(geometry: Geometry, running: Running, group: int) -> list[int]:
    """The slots that are not needed to go on from where the request is settled, last first (ADVANCE-LETGO-1)."""
    table, needed = running.tables[group], geometry.needed(group, running.settled)
    return [slot for slot in reversed(range(min(needed.start, len(table)))) if table[slot] != NULL_BLOCK]


def check_room(
    pool: BlockPool, holder: Holder, wanted: int, coming: Sequence[int] = (), going: Sequence[int] = ()
) -> None:
    """Whether so many blocks can be allocated when free ones of `coming` are in use and `holder` has left `going`.

    Raises OutOfBlocks.
    """
    used = sum(references == 0 for references, *_ in pool.uses(coming, holder))
    freed = sum(references == 1 for references, *_ in pool.uses(going, holder))
    room = pool.num_free - used + freed
    if wanted > room:
        raise OutOfBlocks(f"{holder!r} takes {wanted:,} blocks, and there are {room:,}; release or preempt a request")
