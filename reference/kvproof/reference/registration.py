"""What registering a key on a block means, decided before anything changes (clauses REG-*)."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.reference.block import KVCacheBlock
from kvproof.reference.hashing import split_key
from kvproof.reference.index import CachedBlockIndex
from kvproof.reference.positions import is_full, slot_of
from kvproof.reference.request import Request
from kvproof.spec.errors import ContentConflict, InvalidBlock, NotOwner, NotReferenced, OutOfRange
from kvproof.spec.vocabulary import GroupKind, HolderMode, Key, PoolConfig


@dataclass(frozen=True, slots=True)
class Plan:
    """One entry to add, and whether the block's other keys go first."""

    block: KVCacheBlock
    key: Key
    request: Request
    group: int
    slot: int
    position: int
    drop_others: bool


def plan_registration(
    config: PoolConfig,
    index: CachedBlockIndex,
    block: KVCacheBlock,
    request: Request,
    group: int,
    position: int,
    replace: bool,
) -> Plan | None:
    """Decide what registering the request's key at `position` on `block` does; None means that nothing happens.

    Raises InvalidBlock (the null block), NotReferenced, NotOwner, OutOfRange (another slot or group) and
    ContentConflict (a key of the block is not the request's own, or a recurrent block has another key).
    """
    key = request.key_at(group, position)
    assert key is not None, "the caller checked that the position has a hash"
    if not replace and index.contains(key, block.block_id):
        return None
    check_writer(config, block, request.request_id)
    slot = slot_of(position, config.groups[group].block_size)
    check_identity(block, group, slot)
    plan = Plan(block, key, request, group, slot, position, drop_others=True)
    if replace or not index.has_keys(block.block_id):
        return plan
    check_own_keys(index, block, request)
    if config.groups[group].kind is GroupKind.RECURRENT:
        raise ContentConflict(
            f"block {block.block_id} of recurrent group {group} has a key already, and its state is at one position; "
            "evict or move the key, or register with replace=True"
        )
    longest = max(index.position_of(key) for key in index.keys_of(block.block_id))
    if position > longest:
        return plan
    if is_full(longest, config.groups[group].block_size):
        return None
    return Plan(block, key, request, group, slot, position, drop_others=False)


def check_writer(config: PoolConfig, block: KVCacheBlock, holder: str) -> None:
    """Only the writer registers keys and writes content, on a referenced block that is not null (REG-OWNER-*)."""
    if block.is_null:
        raise InvalidBlock("block 0 is the null block; it is never registered or written")
    if block.ref_cnt == 0:
        raise NotReferenced(f"block {block.block_id} is free; allocate it first")
    if config.holders is HolderMode.NAMED and block.writer != holder:
        raise NotOwner(f"block {block.block_id} is written by {block.writer!r}, not by {holder!r}")


def check_identity(block: KVCacheBlock, group: int, slot: int) -> None:
    """A block keeps the group and slot of its first registration (REG-SLOT-1)."""
    if block.slot is not None and (block.group, block.slot) != (group, slot):
        raise OutOfRange(
            f"block {block.block_id} is slot {block.slot} of group {block.group} until it is reallocated; "
            f"the position belongs to slot {slot} of group {group}"
        )


def check_own_keys(index: CachedBlockIndex, block: KVCacheBlock, request: Request) -> None:
    """Every key that the block has is the request's own hash at its position (REG-CONFLICT-1)."""
    for key in index.keys_of(block.block_id):
        position = index.position_of(key)
        if request.hash_at(position) != split_key(key)[1]:
            raise ContentConflict(
                f"block {block.block_id} has a key at position {position}, no prefix of {request.request_id!r}"
            )


def check_writable(
    config: PoolConfig, index: CachedBlockIndex, block: KVCacheBlock, request: Request, group: int, position: int
) -> None:
    """Content up to `position` changes no row that a key or another reader covers (CONTENT-WRITE-*)."""
    covered = [(index.position_of(key), split_key(key)[1]) for key in index.keys_of(block.block_id)]
    covered += [(served.position, served.digest) for served in block.holders.values() if served is not None]
    recurrent = config.groups[group].kind is GroupKind.RECURRENT
    for covered_position, digest in covered:
        if recurrent or covered_position > position or request.hash_at(covered_position) != digest:
            raise ContentConflict(
                f"block {block.block_id} has a key or a reader at position {covered_position}; "
                f"writing {request.request_id!r} up to {position} would change what it covers"
            )
