"""What a caller must not do although the pool cannot see it: preconditions on ghost state (level UNDEFINED).

The pool does not know what its blocks hold. A caller that registers a key for content that is not there breaks the
soundness of any pool, so drivers leave such operations out.
"""

from __future__ import annotations

from kvproof.conformance.arguments import key_of
from kvproof.conformance.operations import CacheFullBlocks, CachePartialBlock, Copy, Move, Operation
from kvproof.conformance.world import World
from kvproof.reference import Request
from kvproof.reference.ghost import Prefix
from kvproof.spec.vocabulary import NULL_BLOCK, GroupKind


def undefined(world: World, operation: Operation) -> str | None:
    """Why a legal operation is undefined all the same, None if it is not."""
    match operation:
        case CachePartialBlock(request=name, block=block_id, position=position, group=group, replace=replace):
            return _registration(world, block_id, world.requests[name], group, position, replace)
        case CacheFullBlocks():
            return _registrations(world, operation)
        case Move(dst=dst) if dst in world.ghost.contents:
            return f"block {dst} was written, and the move would overwrite that"
        case Copy(holder=holder, src=src) if not _readable(world, src, holder):
            return f"nothing was written in block {src}"
    return None


def _readable(world: World, block_id: int, holder: str | None) -> bool:
    ghost = world.ghost
    return block_id in ghost.contents or (holder is not None and (block_id, holder) in ghost.served)


def _registrations(world: World, operation: CacheFullBlocks) -> str | None:
    size = world.config.groups[operation.group].block_size
    request = world.requests[operation.request]
    for slot in range(operation.first, operation.last):
        block_id = operation.blocks[slot]
        masked = operation.mask is not None and not operation.mask[slot - operation.first]
        if masked or block_id == NULL_BLOCK:
            continue
        reason = _registration(world, block_id, request, operation.group, (slot + 1) * size, operation.replace)
        if reason is not None:
            return reason
    return None


def _registration(
    world: World, block_id: int, request: Request, group: int, position: int, replace: bool
) -> str | None:
    """Content comes before its key: rows that begin with the key's prefix, or the state after exactly that prefix."""
    if not replace and not _adds_key(world, block_id, request, group, position):
        return None
    content = world.ghost.contents.get(block_id)
    if content is None or content.group != group:
        return f"nothing was written in block {block_id} for group {group}"
    prefix = Prefix(request, position)
    if world.config.groups[group].kind is GroupKind.RECURRENT:
        fits = content.prefix == prefix
    else:
        size = world.config.groups[group].block_size
        same_slot = (content.prefix.length - 1) // size == (position - 1) // size
        fits = same_slot and content.prefix.begins_with(prefix)
    return None if fits else f"block {block_id} holds {content.prefix}, the key names {prefix}"


def _adds_key(world: World, block_id: int, request: Request, group: int, position: int) -> bool:
    """Whether the registration changes anything: not if the key is there, nor below a full key."""
    keys = world.state.blocks[block_id].keys
    size = world.config.groups[group].block_size
    there = any(key == key_of(request, group, position) for key, _ in keys)
    below_full = any(position < own and own % size == 0 for _, own in keys)
    return not there and not below_full
