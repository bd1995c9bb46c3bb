"""Evict, move, reset, and the events of it all (clauses POOL-EVICT-*, POOL-MOVE-*, POOL-RESET-*, STEP-MOVE-*)."""

from __future__ import annotations

from collections.abc import Sequence

from kvproof.reference.block import KVCacheBlock
from kvproof.reference.core import operation, step_operation
from kvproof.reference.registration import Registering
from kvproof.reference.steps import CopyInFlight
from kvproof.spec.errors import ContentConflict, InvalidBlock, NotCached, NotReferenced, StillReferenced
from kvproof.spec.events import Event
from kvproof.spec.vocabulary import COPY_PREFIX, CommitMode


class Removal(Registering):
    """Keys that leave their block."""

    @operation
    def evict(self, block_ids: Sequence[int]) -> None:
        """Drop all keys of the blocks; references and queue positions stay (POOL-EVICT-*). Null is refused."""
        blocks = self._block_list(block_ids)
        if any(block.is_null for block in blocks):
            raise InvalidBlock("block 0 is the null block; it has no keys to evict")
        for block in blocks:
            self._drop_keys(block.block_id)

    @step_operation
    def move(self, src_id: int, dst_id: int) -> None:
        """Copy the content of `src` to `dst` and hand its keys over, ranks kept, without an event (POOL-MOVE-*).

        `dst` is another block, referenced, without keys and readers; within a step it belongs to a copy (STEP-MOVE-2).
        Raises InvalidBlock, NotCached, NotReferenced, OutOfRange (dst is another slot) and ContentConflict.
        """
        src, dst = self._two_blocks(src_id, dst_id)
        if not self._index.has_keys(src_id):
            raise NotCached(f"block {src_id} has no key to move")
        if dst.ref_cnt == 0:
            raise NotReferenced(f"block {dst_id} is free; allocate it first")
        assert src.group is not None, "a block with a key has a group"
        assert src.slot is not None, "a block with a key has a slot"
        self._check_identity(dst, src.group, src.slot)
        self._check_overwritable(dst)
        if self.config.commit is CommitMode.STEPS:
            self._check_movable(src, dst)
            self._retain_for_move(src, dst)
        self._index.move_keys(src_id, dst_id, self._steps.current)
        dst.group, dst.slot = src.group, src.slot
        if self.ghost is not None:
            moved = self.ghost.content_after(src_id, self._steps.current - 1)
            self.ghost.hold(dst_id, moved, self._steps.current)

    @operation
    def reset(self) -> None:
        """Forget every key and emit Cleared (POOL-RESET-*). Raises StillReferenced while a block is referenced."""
        in_use = self.config.num_blocks - 1 - len(self._free)
        if in_use > 0:
            raise StillReferenced(f"{in_use} blocks are referenced; the cache is reset only when none is")
        self._index.clear()
        if self.ghost is not None:
            self.ghost.prefixes.clear()
        self._log.note_clear()

    @operation
    def take_events(self) -> list[Event]:
        """Everything since the last drain, once (EVENT-DRAIN-1)."""
        return self._log.drain()

    def _check_movable(self, src: KVCacheBlock, dst: KVCacheBlock) -> None:
        """The copy reads `src` as it was before this step, and nobody may roll `dst` back (STEP-MOVE-2)."""
        if dst.writer is None or not dst.writer.startswith(COPY_PREFIX):
            raise ContentConflict(
                f"block {dst.block_id} is written by {dst.writer!r}; a move within a step needs a block that a holder "
                f"named {COPY_PREFIX}... allocated"
            )
        for key in self._index.keys_of(src.block_id):
            status = self._index.unready(key, src.block_id)
            if status is not None and status.step == self._steps.current:
                raise ContentConflict(f"block {src.block_id} has an entry of this step, whose content is not there yet")

    def _retain_for_move(self, src: KVCacheBlock, dst: KVCacheBlock) -> None:
        """Both ends stay referenced by the copy that holds `dst` until the step is committed (STEP-COPY-2)."""
        assert dst.writer is not None, "the caller checked that a copy writes dst"
        if dst.writer not in src.holders:
            if src.ref_cnt == 0:
                self._free.remove(src.block_id)
            src.add_holder(dst.writer, None)
        self._steps.queue(CopyInFlight(src.block_id, dst.block_id, dst.writer))
