"""The joint hit of all groups, as it is declared: the greatest boundary at which every group is usable (HIT-*).

It is found by trying the boundaries from the top. Engines use loops that ask one group after the other; that those
reach the same boundary is a theorem, and none of this module's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvproof.reference.hybrid.groups import alignment, drops, first_needed_slot, floor_to
from kvproof.reference.lookup import Hit, Lookup
from kvproof.reference.positions import slot_end
from kvproof.reference.request import Request
from kvproof.spec.vocabulary import GroupKind, Key

Serves = Callable[[Hit], bool]
"""Whether what the pool knows of a key is enough."""


@dataclass(frozen=True, slots=True)
class Match:
    """Where a request can begin, and what it leaves (HIT-PURE-1); all in tokens.

    `hit` is the joint hit, `junction` J or 0, `pending` the joint hit if everything reserved were committed.
    """

    hit: int
    junction: int
    pending: int

    @property
    def uncached(self) -> int:
        """How many tokens past the hit the attention groups have."""
        return max(0, self.junction - self.hit)


class Chain:
    """What the pool knows of a request's keys in every group, looked up once for each key."""

    def __init__(self, pool: Lookup, request: Request) -> None:
        self.config = pool.config
        self._pool, self._request = pool, request
        self._known: dict[tuple[int, int], Hit] = {}

    def hit(self, group: int, position: int) -> Hit:
        """What the pool knows of the request's key at a position; nothing where it has no hash."""
        known = self._known.get((group, position))
        if known is None:
            known = Hit(None, None, None, None)
            if position <= self._request.hashed_length:
                [known] = self._pool.find([self.key(group, position)])
            self._known[group, position] = known
        return known

    def key(self, group: int, position: int) -> Key:
        """The request's key at a position that has a hash."""
        key = self._request.key_at(group, position)
        assert key is not None, "the caller knows that the position has a hash"
        return key

    def match(self) -> Match:
        """Joint hit, junction and pending hit."""
        everything = range(len(self.config.groups))
        full_attention = [g for g in everything if self.config.groups[g].kind is GroupKind.FULL_ATTENTION]
        hit = self._greatest_boundary(everything, _has_block, _can_be_shared)
        alone = self._greatest_boundary(full_attention, _has_block, _can_be_shared) if full_attention else 0
        pending = self._greatest_boundary(everything, _will_have_block, _will_have_block)
        return Match(hit, alone if alone > hit else 0, pending)

    def source_position(self, group: int, n: int) -> int:
        """The least m at which a block serves the key that the slot with n inside is copied from (HIT-SOURCE-1)."""
        return next(m for m in self._sources(group, n, self._limit(group)) if _has_block(self.hit(group, m)))

    def _greatest_boundary(self, groups: range | list[int], served: Serves, shared: Serves) -> int:
        unit = alignment(self.config)
        for n in range(floor_to(self._request.num_tokens - 1, unit), 0, -unit):
            if all(self._is_usable(group, n, served, shared) for group in groups):
                return n
        return 0

    def _is_usable(self, group: int, n: int, served: Serves, shared: Serves) -> bool:
        """Whether a request can go on from n > 0 tokens in the group (HIT-ATTENTION-1 to HIT-DROP-1).

        `served` decides of keys that a block has to serve, `shared` of full keys that the batch may share; of windows
        and states the pool offers nothing to share (STEP-LOOKUP-1).
        """
        if self.config.groups[group].kind is GroupKind.RECURRENT:
            return served(self.hit(group, n))
        return all(self._has_rows(group, at, served, shared) for at in {n, n + self._drop(group)})

    def _has_rows(self, group: int, n: int, served: Serves, shared: Serves) -> bool:
        config = self.config.groups[group]
        for slot in range(first_needed_slot(config, n), n // config.block_size):
            if not shared(self.hit(group, slot_end(slot, config.block_size))):
                return False
        if n % config.block_size == 0:
            return True
        return any(served(self.hit(group, m)) for m in self._sources(group, n, self._limit(group)))

    def _sources(self, group: int, n: int, limit: int) -> range:
        """The positions m whose key covers the rows before n of the slot that n is inside."""
        h, size = self.config.hash_block_size, self.config.groups[group].block_size
        last = min(slot_end(n // size, size), limit)
        return range(-(-n // h) * h, last + 1, h)

    def _limit(self, group: int) -> int:
        return self._request.num_tokens - 1 + self._drop(group)

    def _drop(self, group: int) -> int:
        """d, in tokens (HIT-DROP-1)."""
        return min(alignment(self.config), self.config.groups[group].block_size) if drops(self.config, group) else 0


def _has_block(hit: Hit) -> bool:
    return hit.block is not None


def _can_be_shared(hit: Hit) -> bool:
    return hit.block is not None or hit.reserved is not None


def _will_have_block(hit: Hit) -> bool:
    return hit.pending is not None
