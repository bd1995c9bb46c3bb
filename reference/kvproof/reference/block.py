"""Blocks and the queue of free ones (clauses POOL-ALLOC-*, POOL-FREE-*)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from kvproof.spec.events import PrefixHash
from kvproof.spec.vocabulary import NULL_BLOCK, Holder


class KVCacheBlock:
    """What the pool knows of one block, apart from its keys, which live in the index.

    `holders` maps each holder to the prefix it was served, None for the holder that allocated the block; with
    anonymous references it stays empty. `group` and `slot` are set by the first registration, `born` is the step in
    which the block was allocated last.
    """

    __slots__ = ("block_id", "born", "group", "holders", "ref_cnt", "slot", "writer")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_cnt = 0
        self.holders: dict[Holder, PrefixHash | None] = {}
        self.writer: Holder | None = None
        self.group: int | None = None
        self.slot: int | None = None
        self.born = 0

    @property
    def is_null(self) -> bool:
        """Whether this is the null block."""
        return self.block_id == NULL_BLOCK

    def start_life(self, holder: Holder | None, step: int) -> None:
        """Become a freshly allocated block with one reference."""
        self.writer = holder
        self.born = step
        self.group = self.slot = None
        self.add_holder(holder, None)

    def add_holder(self, holder: Holder | None, served: PrefixHash | None) -> None:
        """Add one reference."""
        self.ref_cnt += 1
        if holder is not None:
            self.holders[holder] = served

    def remove_holder(self, holder: Holder | None) -> None:
        """Drop one reference; a writer that lets go of its block is its writer no more (POOL-WRITER-1)."""
        self.ref_cnt -= 1
        if holder is not None:
            del self.holders[holder]
            if self.writer == holder:
                self.writer = None

    def clone(self) -> KVCacheBlock:
        """An independent copy."""
        twin = KVCacheBlock.__new__(KVCacheBlock)
        twin.block_id, twin.ref_cnt = self.block_id, self.ref_cnt
        twin.holders = dict(self.holders)
        twin.writer, twin.group, twin.slot, twin.born = self.writer, self.group, self.slot, self.born
        return twin


class FreeBlockQueue:
    """The ids of the free blocks in the order in which they are taken; every operation on one block is O(1)."""

    __slots__ = ("_order",)

    def __init__(self, block_ids: Iterable[int]) -> None:
        self._order: OrderedDict[int, None] = OrderedDict.fromkeys(block_ids)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[int]:
        return iter(self._order)

    def popleft(self) -> int:
        """Take the next victim."""
        return self._order.popitem(last=False)[0]

    def remove(self, block_id: int) -> None:
        """Take a free block out of the middle."""
        del self._order[block_id]

    def append(self, block_id: int) -> None:
        """Put a block last."""
        self._order[block_id] = None

    def prepend(self, block_ids: Sequence[int]) -> None:
        """Put a group of blocks first, in the order given."""
        for block_id in reversed(block_ids):
            self._order[block_id] = None
            self._order.move_to_end(block_id, last=False)
