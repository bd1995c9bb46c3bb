"""What an operation on a request will take, decided before anything changes (ADMIT-ATOMIC-1, ADVANCE-ATOMIC-1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kvproof.gpu_backend import _core
from kvproof.gpu_backend.hashing import make_key
from kvproof.gpu_backend.hybrid.geometry import Geometry
from kvproof.gpu_backend.hybrid.hits import NONE, Lookup, Match, Matrix, RowFinder, look_up, match
from kvproof.gpu_backend.hybrid.running import Running
from kvproof.gpu_backend.request import Request
from kvproof.spec.errors import NotReferenced, OutOfBlocks
from kvproof.spec.vocabulary import NULL_BLOCK, Holder, Key


class Shared(NamedTuple):
    """The blocks of others that an admission shares in a group, slot by slot, by these keys; those that are reserved
    are attached, the others touched."""

    group: int
    first_slot: int
    blocks: list[int]
    keys: list[Key]
    is_reserved: list[bool]


class Copied(NamedTuple):
    """The block whose rows or state an admission copies to a block of its own, for the last slot of a group."""

    group: int
    block: int
    key: Key


@dataclass(frozen=True, slots=True)
class Admission:
    """Where a request begins and what of others it begins with, groups ascending (ADMIT-SHARE-1, ADMIT-COPY-1)."""

    match: Match
    shared: list[Shared]
    copied: list[Copied]

    def sources(self) -> list[int]:
        """All blocks of others that it begins with."""
        return [block for shared in self.shared for block in shared.blocks] + [each.block for each in self.copied]


def plan_admission(pool: _core.Hand, geometry: Geometry, request: Request) -> Admission:
    """How the request would be admitted now. Raises InvalidArgument."""
    found = look_up(pool, geometry, request)
    at = match(geometry, found)
    groups = range(len(geometry.groups))
    return Admission(
        at,
        [_shared(geometry, found.now, request, group, at.hit) for group in groups],
        [_copied(geometry, found, request, group, at.hit) for group in groups if _begins_inside(geometry, group, at)],
    )


def _begins_inside(geometry: Geometry, group: int, found: Match) -> bool:
    return found.hit % geometry.groups[group].block_size != 0


def _shared(geometry: Geometry, now: Matrix, request: Request, group: int, hit: int) -> Shared:
    """The full slots below the hit that the group needs there; who serves them comes before who has them reserved
    (HIT-SOURCE-1)."""
    size, digest = geometry.groups[group].block_size, request.text.digest
    first, links = geometry.needed(group, hit).start, size // geometry.hash_block_size
    chosen = slice((first + 1) * links - 1, hit // size * links, links)
    serving, reserved = now.serving[group, chosen], now.reserved[group, chosen]
    is_reserved = serving == NONE
    suffix = make_key(group, b"")
    return Shared(
        group,
        first,
        np.where(is_reserved, reserved, serving).tolist(),
        [digest(link) + suffix for link in range(chosen.start, chosen.stop, links)],
        is_reserved.tolist(),
    )


def _copied(geometry: Geometry, found: Lookup, request: Request, group: int, hit: int) -> Copied:
    """What is copied for a hit inside a slot (HIT-SOURCE-1)."""
    finder = found.finders[group]
    link = finder.source(hit) if isinstance(finder, RowFinder) else hit // geometry.hash_block_size - 1
    return Copied(group, int(found.now.serving[group, link]), make_key(group, request.text.digest(link)))


@dataclass(frozen=True, slots=True)
class Chunk:
    """What going on to a chunk's end takes (ADVANCE-*).

    `let_go` are slots of each group, the last one first; below `kept_from` nothing is kept then. `moved` and `copied`
    are recurrent groups whose state is overwritten in place, and has a key, or other readers.
    """

    let_go: list[list[int]]
    kept_from: list[int]
    moved: list[int] = field(default_factory=list)
    copied: list[int] = field(default_factory=list)


def plan_chunk(pool: _core.Hand, geometry: Geometry, running: Running, end: int) -> Chunk:
    """What the request's next chunk takes, up to `end`."""
    kept_from = [_first_needed(geometry, running, group) for group in range(len(geometry.groups))]
    plan = Chunk([_not_needed(running, group, first) for group, first in enumerate(kept_from)], kept_from)
    for group, table in enumerate(running.tables):
        if not geometry.is_recurrent(group) or geometry.new_slots(group, running.computed, end):
            continue
        [state] = check_held(pool, running.request.request_id, [table[-1]])
        if state.read_to > 0:
            plan.copied.append(group)
        elif state.named_to > 0:
            plan.moved.append(group)
    return plan


def _first_needed(geometry: Geometry, running: Running, group: int) -> int:
    """The first slot that the request needs to go on from where it is settled (ADVANCE-LETGO-1)."""
    needed = geometry.needed(group, running.settled)
    return min(max(needed.start, running.kept_from[group]), len(running.tables[group]))


def _not_needed(running: Running, group: int, first: int) -> list[int]:
    """The slots below the first one that is needed whose blocks are still kept, last first (ADVANCE-LETGO-1)."""
    table = running.tables[group]
    return [slot for slot in reversed(range(running.kept_from[group], first)) if table[slot] != NULL_BLOCK]


def check_held(pool: _core.Hand, holder: Holder, blocks: Sequence[int]) -> list[_core.BlockUse]:
    """How blocks are used that the holder has to hold. Raises NotReferenced (GROUP-OWN-1)."""
    uses = pool.uses(blocks, holder)
    for block, use in zip(blocks, uses, strict=True):
        if not use.is_held:
            raise NotReferenced(
                f"the pool has taken block {block} from {holder!r}, which runs; only the cache frees its blocks"
            )
    return uses


def check_room(
    pool: _core.Hand, holder: Holder, wanted: int, coming: Sequence[int] = (), going: Sequence[int] = ()
) -> None:
    """Whether so many blocks can be allocated when free ones of `coming` are in use and `holder` has left `going`.

    Raises OutOfBlocks and NotReferenced.
    """
    used = sum(block.references == 0 for block in pool.uses(coming, holder))
    freed = sum(block.references == 1 for block in check_held(pool, holder, going))
    room = pool.num_free - used + freed
    if wanted > room:
        raise OutOfBlocks(f"{holder!r} takes {wanted:,} blocks, and there are {room:,}; release or preempt a request")
