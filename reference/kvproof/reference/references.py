"""References: allocate, touch, free (clauses POOL-ALLOC-*, POOL-TOUCH-*, POOL-FREE-*, STEP-FREE-1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kvproof.reference.block import KVCacheBlock
from kvproof.reference.core import PoolCore, operation, step_operation
from kvproof.reference.hashing import split_key
from kvproof.reference.validate import check_int, shown
from kvproof.spec.errors import AlreadyHeld, NotCached, NotCommitted, NotReferenced, OutOfBlocks
from kvproof.spec.events import PrefixHash
from kvproof.spec.vocabulary import Holder, Key


class References(PoolCore):
    """Who holds which block."""

    @step_operation
    def allocate(self, n: int, holder: Holder | None = None) -> list[int]:
        """Take n blocks from the front of the queue for `holder`, who becomes their writer (POOL-ALLOC-*).

        Each loses all its keys first. Raises OutOfRange (n < 0) and OutOfBlocks.
        """
        check_int("n", n, 0)
        self._check_holder(holder)
        if n > len(self._free):
            raise OutOfBlocks(f"{shown(n)} blocks asked for, {len(self._free)} are free")
        taken = [self._free.popleft() for _ in range(n)]
        for block_id in taken:
            self._drop_keys(block_id)
            self._blocks[block_id].start_life(holder, self._steps.current)
            if self.ghost is not None:
                self.ghost.hold(block_id, None, self._steps.current)
        return taken

    @step_operation
    def touch(self, block_id: int, key: Key, holder: Holder | None = None) -> None:
        """Add a reference to a block that has `key` to serve; a free block leaves the queue (POOL-TOUCH-*).

        The null block is left alone. Raises NotCached and AlreadyHeld.
        """
        block = self._block(block_id)
        self._check_key(key)
        self._check_holder(holder)
        if block.is_null:
            return
        if not self._index.is_servable(key, block_id):
            raise NotCached(f"block {block_id} has no key {key.hex()} to serve (any more); look it up again")
        self._add_reader(block, key, holder)

    @operation
    def free(self, block_ids: Sequence[int], holder: Holder | None = None) -> None:
        """Drop one reference for each id in the order given; null blocks are skipped (POOL-FREE-*).

        Blocks that reach 0 without a key go to the front of the queue as one group, with a key to its tail. Raises
        NotReferenced if there are more releases than references, and NotCommitted.
        """
        blocks = [block for block in self._block_list(block_ids) if not block.is_null]
        self._check_holder(holder)
        self._check_releases(blocks, holder, taken_back=frozenset())
        self._release(blocks, holder)

    def _add_reader(self, block: KVCacheBlock, key: Key, holder: Holder | None) -> None:
        """One more reference, of a holder that reads the key's prefix."""
        if holder is not None and holder in block.holders:
            raise AlreadyHeld(f"{holder!r} holds block {block.block_id} already; a holder holds a block at most once")
        if block.ref_cnt == 0:
            self._free.remove(block.block_id)
        block.add_holder(holder, PrefixHash(split_key(key)[1], self._index.position_of(key)))
        if self.ghost is not None and holder is not None:
            self.ghost.served[block.block_id, holder] = self.ghost.prefixes[key]

    def _check_releases(
        self, blocks: Sequence[KVCacheBlock], holder: Holder | None, taken_back: frozenset[Holder]
    ) -> None:
        """Every release is covered; none leaves an unready entry or ends a copy too early (STEP-FREE-1, STEP-COPY-2).

        Entries that `taken_back` reserved do not count: their rollback comes first.
        """
        releases = Counter(block.block_id for block in blocks)
        for block in blocks:
            self._check_held(block, holder)
            if releases[block.block_id] > (1 if holder is not None else block.ref_cnt):
                raise NotReferenced(f"block {block.block_id} is released more often than it is held")
            if holder is not None and (block.block_id, holder) in self._steps.kept:
                raise NotCommitted(f"block {block.block_id} is an end of the copy {holder!r}; commit its step first")
            self._check_finished(block, holder, releases[block.block_id] == block.ref_cnt, taken_back)

    def _check_finished(
        self, block: KVCacheBlock, holder: Holder | None, is_last: bool, taken_back: frozenset[Holder]
    ) -> None:
        for status in self._index.unready_of(block.block_id):
            owner = status.reservation.owner if status.reservation is not None else None
            if owner not in taken_back and (is_last or (owner is not None and owner == holder)):
                raise NotCommitted(
                    f"block {block.block_id} has an entry of step {status.step}, which is not committed; "
                    "commit the step, or roll the request back"
                )
