"""Lookup and other questions (clauses POOL-LOOKUP-*, POOL-CONTAINS-*, STEP-LOOKUP-*, OBSERVE-1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvproof.reference.block import KVCacheBlock
from kvproof.reference.core import PoolCore, operation
from kvproof.reference.observation import NO_STEPS, BlockState, EntryState, PoolState, StepState
from kvproof.reference.positions import is_full
from kvproof.reference.validate import check_list
from kvproof.spec.vocabulary import GroupKind, Holder, Key


@dataclass(frozen=True, slots=True)
class Hit:
    """What the pool knows of a key (STEP-LOOKUP-1, STEP-LOOKUP-2).

    `block` serves it now. If none does, `reserved` has it reserved by `writer`, and a reader of the same batch may
    attach. `pending` would serve it if everything reserved were committed.
    """

    block: int | None
    reserved: int | None
    writer: Holder | None
    pending: int | None


class Lookup(PoolCore):
    """Questions; they change nothing."""

    @operation
    def lookup(self, keys: Sequence[Key]) -> list[int | None]:
        """For each key the first registered block that serves it, or None; changes nothing (POOL-LOOKUP-*)."""
        checked = [self._check_key(key) for key in check_list("keys", keys)]
        return [self._index.first_block(key, self._index.is_servable) for key in checked]

    @operation
    def find(self, keys: Sequence[Key]) -> list[Hit]:
        """For each key who serves it now, who has it reserved, and who would serve it (STEP-LOOKUP-*)."""
        return [self._hit(self._check_key(key)) for key in check_list("keys", keys)]

    @operation
    def contains(self, key: Key, block_id: int) -> bool:
        """Whether the block has the key, reserved or committed; not whether its slot is full (POOL-CONTAINS-1)."""
        self._check_key(key)
        return self._index.contains(key, self._block(block_id).block_id)

    @operation
    def full_key(self, block_id: int) -> Key | None:
        """The block's servable key at the end of its slot, if it has one (POOL-CONTAINS-2)."""
        block = self._block(block_id)
        for key in self._index.keys_of(block_id):
            if self._index.is_servable(key, block_id) and self._is_full_key(key, block):
                return key
        return None

    @operation
    def ref_cnt(self, block_id: int) -> int:
        """How many references the block has."""
        return self._block(block_id).ref_cnt

    @operation
    def covered(self, block_id: int) -> int:
        """The furthest position that a key of the block has or a reader of it was served, 0 if there is none."""
        block = self._block(block_id)
        keys = [self._index.position_of(key) for key in self._index.keys_of(block_id)]
        return max([*keys, *self._served(block)], default=0)

    @operation
    def is_read(self, block_id: int) -> bool:
        """Whether somebody reads what the block's writer left there."""
        return bool(self._served(self._block(block_id)))

    @operation
    def observe(self) -> PoolState:
        """The whole state as a value, for comparison (OBSERVE-1)."""
        return PoolState(
            blocks=tuple([self._observe_block(block) for block in self._blocks]),
            free_queue=tuple(self._free),
            index={key: tuple(self._index.blocks_of(key)) for key in self._index.cached_keys()},
            pending_events=self._log.pending,
            steps=self._observe_steps(),
        )

    def _hit(self, key: Key) -> Hit:
        block = self._index.first_block(key, self._index.is_servable)
        pending = self._index.first_block(key, self._outlives_the_commits)
        reserved = writer = None
        if block is None:
            reserved = self._index.first_block(key, self._is_attachable)
            writer = None if reserved is None else self._blocks[reserved].writer
        return Hit(block, reserved, writer, pending)

    def _is_attachable(self, key: Key, block_id: int) -> bool:
        """Whether readers of one batch may share the reserved key: a full key of full attention, with its writer.

        What moved is with a copy, which reads its source before the step: a reader would depend on both.
        """
        status = self._index.unready(key, block_id)
        if status is None or status.reservation is None:
            return False
        group = self.config.groups[status.reservation.group]
        full = group.kind is GroupKind.FULL_ATTENTION and is_full(status.reservation.position, group.block_size)
        return full and self._blocks[block_id].writer == status.reservation.owner

    def _outlives_the_commits(self, key: Key, block_id: int) -> bool:
        """Whether the block has the key and will have it when all that is reserved is committed (STEP-UPGRADE-2)."""
        if not self._index.is_committed(key, block_id):
            return self._index.contains(key, block_id)
        longest = max(self._index.keys_of(block_id), key=self._index.position_of)
        return not self._index.is_reserved(longest, block_id)

    def _served(self, block: KVCacheBlock) -> list[int]:
        return [served.position for served in block.holders.values() if served is not None]

    def _is_full_key(self, key: Key, block: KVCacheBlock) -> bool:
        assert block.group is not None, "a block with a key has a group"
        return is_full(self._index.position_of(key), self.config.groups[block.group].block_size)

    def _observe_block(self, block: KVCacheBlock) -> BlockState:
        attached = self._steps.attached
        return BlockState(
            ref_cnt=block.ref_cnt,
            holders=tuple(sorted(block.holders.items())),
            writer=block.writer,
            group=block.group,
            slot=block.slot,
            entries=tuple([self._observe_entry(key, block.block_id) for key in self._index.keys_of(block.block_id)]),
            attached=tuple(
                [
                    (holder, self._ahead(attached[block.block_id, holder]))
                    for holder in (sorted(block.holders) if attached else ())
                    if (block.block_id, holder) in attached
                ]
            ),
            age=max(0, self._ahead(block.born)),
        )

    def _observe_entry(self, key: Key, block_id: int) -> EntryState:
        status = self._index.unready(key, block_id)
        if status is None:
            return EntryState(key, self._index.position_of(key))
        owner = status.reservation.owner if status.reservation is not None else None
        return EntryState(key, self._index.position_of(key), self._ahead(status.step), owner)

    def _observe_steps(self) -> StepState:
        steps = self._steps
        if steps.current == steps.committed:
            return NO_STEPS
        return StepState(
            open=self._ahead(steps.current),
            depends=tuple(sorted((r, w, self._ahead(step)) for (r, w), step in steps.depends.items())),
            copies=tuple(
                (self._ahead(step), copy.src, copy.dst, copy.holder)
                for step, copies in sorted(steps.copies.items())
                for copy in copies
            ),
            admitted=tuple((self._ahead(step), tuple(names)) for step, names in sorted(steps.admitted.items())),
        )

    def _ahead(self, step: int) -> int:
        """How many commits away a step is: states that differ in the number of committed steps only are the same."""
        return step - self._steps.committed
