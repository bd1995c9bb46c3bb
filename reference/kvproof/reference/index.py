"""Which block has which key: forward index, reverse index, positions (clauses INDEX-*).

Every structure is a dict of plain values, so a cached block costs the garbage collector nothing beyond the block.
"""

from __future__ import annotations

from kvproof.spec.vocabulary import Key


class CachedBlockIndex:
    """The entries (key, block), each with its registration rank.

    The rank says who registered first. A moved entry keeps its rank, so a key's blocks are kept by rank and not in the
    order of insertion (POOL-MOVE-2).
    """

    __slots__ = ("_blocks_of", "_keys_of", "_next_rank", "_position_of")

    def __init__(self) -> None:
        self._blocks_of: dict[Key, dict[int, int]] = {}
        """key -> rank -> block id; ranks ascend."""
        self._keys_of: dict[int, dict[Key, int]] = {}
        """block id -> key -> rank; ranks ascend."""
        self._position_of: dict[Key, int] = {}
        self._next_rank = 0

    def contains(self, key: Key, block_id: int) -> bool:
        """Whether the block has the key; says nothing about the slot being full."""
        return key in self._keys_of.get(block_id, ())

    def is_cached(self, key: Key) -> bool:
        """Whether any block has the key."""
        return key in self._blocks_of

    def cached_keys(self) -> list[Key]:
        """All keys that some block has."""
        return list(self._blocks_of)

    def keys_of(self, block_id: int) -> list[Key]:
        """The block's keys in registration order."""
        return list(self._keys_of.get(block_id, ()))

    def has_keys(self, block_id: int) -> bool:
        """Whether the block has any key."""
        return block_id in self._keys_of

    def blocks_of(self, key: Key) -> list[int]:
        """The blocks that have the key, first registered first."""
        return list(self._blocks_of.get(key, {}).values())

    def first_block(self, key: Key) -> int | None:
        """The block that registered the key first."""
        return next(iter(self._blocks_of.get(key, {}).values()), None)

    def position_of(self, key: Key) -> int:
        """How many tokens a cached key stands for."""
        return self._position_of[key]

    def add(self, key: Key, position: int, block_id: int) -> None:
        """Register a new entry, last in both orders."""
        rank = self._next_rank
        self._next_rank += 1
        self._blocks_of.setdefault(key, {})[rank] = block_id
        self._keys_of.setdefault(block_id, {})[key] = rank
        self._position_of[key] = position

    def drop_keys(self, block_id: int) -> list[Key]:
        """Remove all entries of a block and return its keys in order; other blocks keep theirs (INDEX-SIBLING-1)."""
        ranks = self._keys_of.pop(block_id, {})
        for key, rank in ranks.items():
            blocks = self._blocks_of[key]
            del blocks[rank]
            if not blocks:
                del self._blocks_of[key], self._position_of[key]
        return list(ranks)

    def move_keys(self, src: int, dst: int) -> None:
        """Hand all entries of `src` to `dst`, which has none; ranks stay."""
        ranks = self._keys_of.pop(src)
        for key, rank in ranks.items():
            self._blocks_of[key][rank] = dst
        self._keys_of[dst] = ranks

    def clear(self) -> None:
        """Forget everything."""
        self._blocks_of.clear()
        self._keys_of.clear()
        self._position_of.clear()

    def clone(self) -> CachedBlockIndex:
        """An independent copy."""
        twin = CachedBlockIndex()
        twin._blocks_of = {key: dict(blocks) for key, blocks in self._blocks_of.items()}
        twin._keys_of = {block_id: dict(keys) for block_id, keys in self._keys_of.items()}
        twin._position_of = dict(self._position_of)
        twin._next_rank = self._next_rank
        return twin
