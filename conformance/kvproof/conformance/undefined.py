"""What a caller must not do although the pool cannot see it: preconditions on ghost state (level UNDEFINED).

The pool does not know what its blocks hold. A caller that registers a key for content that is not there breaks the
soundness of any pool, so drivers leave such operations out.
"""

from __future__ import annotations

from kvproof.conformance.arguments import key_of
from kvproof.conformance.operations import (
    Admit,
    Allocate,
    Attach,
    CacheFullBlocks,
    CachePartialBlock,
    Copy,
    Finish,
    Free,
    Move,
    Operation,
    Touch,
    Write,
)
from kvproof.conformance.world import World
from kvproof.reference import Request
from kvproof.reference.ghost import Content
from kvproof.reference.request import Prefix
from kvproof.spec.vocabulary import COPY_PREFIX, NULL_BLOCK, GroupKind

OF_A_HOLDER = (Allocate, Touch, Attach, Free, Finish, Write, Copy, CacheFullBlocks, CachePartialBlock)
"""What a holder does with blocks."""


def undefined(world: World, operation: Operation) -> str | None:
    """Why a legal operation is undefined all the same, None if it is not."""
    if world.state.running is not None and (reason := _meddles(world, operation)):
        return reason
    match operation:
        case CachePartialBlock(request=name, block=block_id, position=position, group=group, replace=replace):
            return _registration(world, block_id, world.requests[name], group, position, replace)
        case CacheFullBlocks():
            return _registrations(world, operation)
        case Move(dst=dst) if world.ghost.content(dst) is not None:
            return f"block {dst} was written, and the move would overwrite that"
        case Copy(holder=holder, src=src, dst=dst):
            return _copy(world, src, dst, holder)
    return None


def _meddles(world: World, operation: Operation) -> str | None:
    """What runs over all groups is left to the operations that run it (GROUP-OWN-1)."""
    running = {each.request for each in world.state.running or ()}
    if isinstance(operation, Admit):
        held = [holder for block in world.state.blocks for holder, _ in block.holders]
        return f"{operation.request!r} holds blocks already" if operation.request in held else None
    if isinstance(operation, OF_A_HOLDER):
        name = getattr(operation, "holder", None) or getattr(operation, "request", None)
        groups = range(len(world.config.groups))
        if name in running or name in {f"{COPY_PREFIX}{group}:{each}" for each in running for group in groups}:
            return f"{name!r} runs, or is a copy of one that does"
    if isinstance(operation, Finish) and _taken_back_with(world, operation.request) & running:
        return f"one that runs depends on {operation.request!r}"
    return None


def _taken_back_with(world: World, name: str) -> set[str]:
    """The request, and those that are rolled back with it."""
    found = {name}
    while more := {reader for reader, writer, _ in world.state.steps.depends if writer in found} - found:
        found |= more
    return found


def _copy(world: World, src: int, dst: int, holder: str | None) -> str | None:
    """The copies of a step are simultaneous, read what was there before, and come before what the step writes."""
    served = holder is not None and (src, holder) in world.ghost.served
    if not served and _before_this_step(world, src) is None:
        return f"nothing was written in block {src} before"
    steps, content = world.state.steps, world.ghost.content(dst)
    if any(ahead == steps.open and queued == dst for ahead, _, queued, _ in steps.copies):
        return f"another copy to block {dst} is queued in this step"
    if steps.open and content is not None and content != _before_this_step(world, dst):
        return f"block {dst} is written in this step, and the copy comes before that"
    return None


def _before_this_step(world: World, block_id: int) -> Content | None:
    """What was written in a block, since it was allocated, before the step that the next operation belongs to."""
    contents, age = world.contents(block_id), world.state.blocks[block_id].age
    last = max(0, len(contents) - 2)
    return contents[last] if age <= last else None


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
    content = world.ghost.content(block_id)
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
    entries = world.state.blocks[block_id].entries
    size = world.config.groups[group].block_size
    there = any(entry.key == key_of(request, group, position) for entry in entries)
    below_full = any(position < entry.position and entry.position % size == 0 for entry in entries)
    return not there and not below_full
