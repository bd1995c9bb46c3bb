"""What a request can begin with, read from an observed state (clauses HIT-*).

Like the preconditions it is an oracle of its own: for each group it lists the boundaries that are usable, and takes the
greatest that they have in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from kvproof.conformance.arguments import key_of
from kvproof.reference import PoolState, Request
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig


class Reuse:
    """The blocks that would serve a request, for a pool with hybrid settings."""

    def __init__(self, state: PoolState, config: PoolConfig, request: Request) -> None:
        assert config.hybrid is not None, "only hybrid pools have joint hits"
        self._state, self._request, self._groups = state, request, config.groups
        self._h, self._drop = config.hash_block_size, config.hybrid.drop
        self._unit = self._h if config.hybrid.fine_grained else lcm(*[group.block_size for group in config.groups])

    def joint_hit(self) -> int:
        """The greatest boundary that is usable in every group (HIT-JOINT-1)."""
        common = set(range(0, max(1, self._request.num_tokens), self._unit))
        for group in range(len(self._groups)):
            common &= {0, *(n for n in common if n > 0 and self._usable(group, n))}
        return max(common)

    def blocks_used(self, hit: int) -> list[int]:
        """What an admission at the hit shares and copies from (ADMIT-SHARE-1, ADMIT-COPY-1)."""
        return [block for group in range(len(self._groups)) for block in self._used(group, hit) if block is not None]

    def _usable(self, group: int, n: int) -> bool:
        if not all(block is not None for block in self._used(group, n)):
            return False
        ahead = self._dropped(group)
        return ahead == 0 or all(block is not None for block in self._used(group, n + ahead))

    def _used(self, group: int, n: int) -> Iterator[int | None]:
        """The blocks that serve the slots which are needed at n, None for one that nobody serves."""
        config = self._groups[group]
        size = config.block_size
        if config.kind is GroupKind.RECURRENT:
            yield from [self._serving(group, n)] * (n > 0)
            return
        first = 0 if config.window is None else max(0, n - config.window + 1) // size
        for slot in range(first, n // size):
            yield self._shared(group, (slot + 1) * size)
        if n % size:
            last = min((n // size + 1) * size, self._request.num_tokens - 1 + self._dropped(group))
            served = (self._serving(group, m) for m in range(n, last + 1) if m % self._h == 0)
            yield next((block for block in served if block is not None), None)

    def _dropped(self, group: int) -> int:
        return min(self._unit, self._groups[group].block_size) if group in self._drop else 0

    def _serving(self, group: int, position: int) -> int | None:
        """The first block that serves the request's key."""
        key = key_of(self._request, group, position)
        for block in () if key is None else self._state.index.get(key, ()):
            if any(entry.key == key and entry.ahead == 0 for entry in self._state.blocks[block].entries):
                return block
        return None

    def _shared(self, group: int, position: int) -> int | None:
        """The block of a full slot: one that serves it, or with full attention one that its writer has reserved."""
        serving, key = self._serving(group, position), key_of(self._request, group, position)
        if serving is not None or key is None or not _is_full_attention(self._groups[group]):
            return serving
        for block in self._state.index.get(key, ()):
            state = self._state.blocks[block]
            if any(
                entry.key == key and entry.owner is not None and entry.owner == state.writer for entry in state.entries
            ):
                return block
        return None


def _is_full_attention(group: GroupConfig) -> bool:
    return group.kind is GroupKind.FULL_ATTENTION
