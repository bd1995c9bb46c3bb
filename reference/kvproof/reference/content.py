"""Ghost operations: write, copy, read (clauses CONTENT-*, STEP-COPY-*)."""

from __future__ import annotations

from kvproof.reference.block import KVCacheBlock
from kvproof.reference.core import operation, step_operation
from kvproof.reference.ghost import Content
from kvproof.reference.hashing import split_key
from kvproof.reference.positions import slot_of
from kvproof.reference.registration import Registering
from kvproof.reference.request import Prefix, Request
from kvproof.reference.steps import CopyInFlight
from kvproof.reference.validate import check_int
from kvproof.spec.errors import ContentConflict, InvalidBlock, NotCached, NotOwner
from kvproof.spec.vocabulary import POOL_COPY_PREFIX, CommitMode, GroupKind, Holder


class ContentOperations(Registering):
    """What forward passes and copies leave in the blocks."""

    @step_operation
    def write(self, request: Request, block_id: int, position: int, group: int) -> None:
        """The request's forward pass leaves its first `position` tokens in the block (CONTENT-WRITE-*).

        Afterwards the block holds the rows of those tokens that fall into its slot, or the state after exactly them.
        Raises OutOfRange, InvalidBlock (null), NotReferenced, NotOwner and ContentConflict.
        """
        self._check_write(request, block_id, position, group)
        if self.ghost is not None:
            self.ghost.hold(block_id, Content(Prefix(request, position), group), self._steps.current)

    @operation
    def check_write(self, request: Request, block_id: int, position: int, group: int) -> None:
        """Raise what `write` would raise for what it is told, and do nothing."""
        self._check_write(request, block_id, position, group)

    @step_operation
    def copy(self, src_id: int, dst_id: int, holder: Holder | None = None) -> None:
        """Copy to `dst`, which `holder` writes, what `holder` may read of `src`; keys stay (CONTENT-COPY-*).

        Raises InvalidBlock, NotReferenced (both must be held), NotOwner, NotCached (what the holder reads is not
        committed) and ContentConflict.
        """
        src, dst = self._two_blocks(src_id, dst_id)
        self._check_holder(holder)
        self._check_held(src, holder)
        self._check_held(dst, holder)
        if holder is not None and dst.writer != holder:
            raise NotOwner(f"block {dst_id} is written by {dst.writer!r}, not by {holder!r}")
        self._check_overwritable(dst)
        self._check_readable(src, holder)
        if self.config.commit is CommitMode.STEPS:
            self._retain_for_copy(src, dst)
        if self.ghost is not None:
            content = self.ghost.content_after(src_id, self._steps.current - 1)
            served = self.ghost.served.get((src_id, holder)) if holder is not None else None
            if content is not None and served is not None:
                content = Content(served, content.group)
            self.ghost.hold(dst_id, content, self._steps.current)

    @operation
    def read(self, block_id: int, holder: Holder | None = None) -> Prefix | None:
        """What the block holds, None if nothing was written; only for its holders (CONTENT-READ-1)."""
        block = self._block(block_id)
        self._check_holder(holder)
        if block.is_null:
            raise InvalidBlock("block 0 is the null block; it holds nothing")
        self._check_held(block, holder)
        content = self.ghost.content(block_id) if self.ghost is not None else None
        return None if content is None else content.prefix

    def _check_write(self, request: Request, block_id: int, position: int, group: int) -> None:
        self._check_request(request)
        block = self._block(block_id)
        block_size = self._group_block_size(group)
        check_int("position", position, 1, request.num_tokens)
        self._check_writer(block, request.request_id)
        self._check_identity(block, group, slot_of(position, block_size))
        self._check_writable(block, request, group, position)

    def _check_writable(self, block: KVCacheBlock, request: Request, group: int, position: int) -> None:
        """Content up to `position` changes no row that a key or another reader covers (CONTENT-WRITE-1, -2)."""
        keys = self._index.keys_of(block.block_id)
        covered = [(self._index.position_of(key), split_key(key)[1]) for key in keys]
        covered += [(served.position, served.digest) for served in block.holders.values() if served is not None]
        recurrent = self.config.groups[group].kind is GroupKind.RECURRENT
        for covered_position, digest in covered:
            if recurrent or covered_position > position or request.hash_at(covered_position) != digest:
                raise ContentConflict(
                    f"block {block.block_id} has a key or a reader at position {covered_position}; "
                    f"writing {request.request_id!r} up to {position} would change what it covers"
                )

    def _check_readable(self, block: KVCacheBlock, holder: Holder | None) -> None:
        """What the holder reads of the block was there before this step (STEP-COPY-1)."""
        if holder is None or block.writer == holder:
            return
        if (block.block_id, holder) in self._steps.attached:
            raise NotCached(f"what {holder!r} attached of block {block.block_id} is not committed")
        if block.holders[holder] is None:
            raise NotCached(f"{holder!r} reads nothing of block {block.block_id}; what it had attached was taken back")

    def _retain_for_copy(self, src: KVCacheBlock, dst: KVCacheBlock) -> None:
        """Both ends stay referenced, under a name of the pool's own, until the step is committed (STEP-COPY-2)."""
        name = f"{POOL_COPY_PREFIX}{src.block_id}:{dst.block_id}"
        for block in (src, dst):
            if name not in block.holders:  # the same copy may be queued twice
                block.add_holder(name, None)
        self._steps.queue(CopyInFlight(src.block_id, dst.block_id, name))
