"""Registration: naming blocks by what they hold (clauses REG-*, STEP-RESERVE-1, STEP-UPGRADE-1).

What a registration means is decided for all its slots before anything changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvproof.reference.block import KVCacheBlock
from kvproof.reference.core import PoolCore, step_operation
from kvproof.reference.hashing import split_key
from kvproof.reference.index import Registration
from kvproof.reference.positions import is_full, slot_end, slot_of
from kvproof.reference.request import Prefix, Request
from kvproof.reference.validate import check_bool, check_int, check_list
from kvproof.spec.errors import ContentConflict, InvalidBlock, NotOwner, NotReferenced, OutOfRange
from kvproof.spec.vocabulary import GroupKind, Holder, HolderMode, Key


@dataclass(frozen=True, slots=True)
class Plan:
    """One entry to add to a block, and the keys that go first."""

    block: KVCacheBlock
    position: int
    leaving: tuple[Key, ...]


class Registering(PoolCore):
    """Registration of full and partial keys."""

    @step_operation
    def cache_full_blocks(
        self,
        request: Request,
        block_ids: Sequence[int],
        first: int,
        last: int,
        group: int,
        mask: Sequence[bool] | None = None,
        replace: bool = False,
    ) -> None:
        """Register the full keys of the slots first .. last-1 of the request's block table (REG-FULL-*).

        `block_ids` is the table, indexed by slot; `mask` has one bool for each of the slots, False skips it, and null
        blocks are skipped. All-or-nothing. Raises OutOfRange and whatever registering one of the slots raises.
        """
        self._check_request(request)
        blocks = self._block_list(block_ids)
        block_size = self._group_block_size(group)
        check_int("first", first, 0)
        check_int("last", last, first, min(len(blocks), request.hashed_length // block_size))
        chosen = _check_mask(mask, last - first)
        check_bool("replace", replace)
        slots = [slot for slot in range(first, last) if chosen[slot - first] and not blocks[slot].is_null]
        if len({blocks[slot].block_id for slot in slots}) != len(slots):
            raise InvalidBlock(f"a block stands in two of the slots {slots}; a block has one slot")
        ends = [(blocks[slot], slot_end(slot, block_size)) for slot in slots]
        self._register(request, group, [self._plan(block, request, group, end, replace) for block, end in ends])

    @step_operation
    def cache_partial_block(
        self, request: Request, block_id: int, position: int, group: int, replace: bool = False
    ) -> None:
        """Register the request's key at `position`, inside or at the end of the block's slot (REG-PARTIAL-*).

        Raises NotAligned, OutOfRange, InvalidBlock (null), NotReferenced, NotOwner and ContentConflict.
        """
        self._check_request(request)
        block = self._block(block_id)
        self._group_block_size(group)
        check_int("position", position, 1, request.hashed_length)
        check_bool("replace", replace)
        if block.is_null:
            raise InvalidBlock("block 0 is the null block; it is never registered")
        self._register(request, group, [self._plan(block, request, group, position, replace)])

    def _plan(self, block: KVCacheBlock, request: Request, group: int, position: int, replace: bool) -> Plan | None:
        """Decide what registering the request's key at `position` on `block` does; None means that nothing happens.

        Raises InvalidBlock (the null block), NotReferenced, NotOwner, OutOfRange (another slot or group) and
        ContentConflict (a key of the block is not the request's own, or a recurrent block has another key).
        """
        key = request.key_at(group, position)
        assert key is not None, "the caller checked that the position has a hash"
        if not replace and self._index.contains(key, block.block_id):
            return None
        self._check_writer(block, request.request_id)
        self._check_identity(block, group, slot_of(position, self.config.groups[group].block_size))
        present = tuple(self._index.keys_of(block.block_id))
        if replace or not present:
            return Plan(block, position, present)
        self._check_own_keys(block, request)
        if self.config.groups[group].kind is GroupKind.RECURRENT:
            raise ContentConflict(
                f"block {block.block_id} of recurrent group {group} has a key already, and its state is at one "
                "position; evict or move the key, or register with replace=True"
            )
        longest = max(self._index.position_of(key) for key in present)
        if position > longest:
            # A rollback must find the committed keys; they go when the longer key is committed.
            return Plan(block, position, tuple(k for k in present if self._index.is_reserved(k, block.block_id)))
        if is_full(longest, self.config.groups[group].block_size):
            return None
        return Plan(block, position, ())

    def _register(self, request: Request, group: int, plans: Sequence[Plan | None]) -> None:
        """Reserve what is planned in the current step."""
        planned = [plan for plan in plans if plan is not None]
        if not planned:
            return
        call = self._steps.admit(request.request_id)
        for plan in planned:
            block_id = plan.block.block_id
            self._drop_keys(block_id, plan.leaving)
            prefix = Prefix(request, plan.position)
            registration = Registration(request.request_id, prefix, group, call)
            self._index.reserve(registration, block_id, self._steps.current)
            plan.block.group, plan.block.slot = group, slot_of(plan.position, self.config.groups[group].block_size)
            if self.ghost is not None:
                self.ghost.prefixes[registration.key] = prefix

    def _check_writer(self, block: KVCacheBlock, holder: Holder) -> None:
        """Only the writer registers keys and writes content, on a referenced block that is not null (REG-OWNER-*)."""
        if block.is_null:
            raise InvalidBlock("block 0 is the null block; it is never registered or written")
        if block.ref_cnt == 0:
            raise NotReferenced(f"block {block.block_id} is free; allocate it first")
        if self.config.holders is HolderMode.NAMED and block.writer != holder:
            raise NotOwner(f"block {block.block_id} is written by {block.writer!r}, not by {holder!r}")

    def _check_identity(self, block: KVCacheBlock, group: int, slot: int) -> None:
        """A block keeps the group and slot of its first registration (REG-SLOT-1)."""
        if block.slot is not None and (block.group, block.slot) != (group, slot):
            raise OutOfRange(
                f"block {block.block_id} is slot {block.slot} of group {block.group} until it is reallocated; "
                f"the position belongs to slot {slot} of group {group}"
            )

    def _check_own_keys(self, block: KVCacheBlock, request: Request) -> None:
        """Every key that the block has is the request's own hash at its position (REG-CONFLICT-1)."""
        for key in self._index.keys_of(block.block_id):
            position = self._index.position_of(key)
            if request.hash_at(position) != split_key(key)[1]:
                raise ContentConflict(
                    f"block {block.block_id} has a key at position {position}, no prefix of {request.request_id!r}"
                )


def _check_mask(mask: object, length: int) -> list[bool]:
    if mask is None:
        return [True] * length
    chosen = [check_bool("a mask entry", entry) for entry in check_list("mask", mask)]
    if len(chosen) != length:
        raise OutOfRange(f"mask has {len(chosen)} entries for {length} slots; it needs one for each")
    return chosen
