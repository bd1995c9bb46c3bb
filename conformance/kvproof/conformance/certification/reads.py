"""Whose content has to be right after an operation: what a backend that owns memory is asked to read then (level D)."""

from __future__ import annotations

from collections.abc import Iterator

from kvproof.conformance.operations import Attach, Copy, Move, Operation, Read, Rollback, Touch
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import POOL_COPY_PREFIX, HolderMode


def reads_after(world: World, operation: Operation) -> Iterator[Read]:
    """The reads that an operation calls for: of what was hit, copied or moved; of everything after a rollback."""
    match operation:
        case Touch(block=block) | Attach(block=block) | Copy(dst=block) | Move(dst=block):
            yield from _read(world, block)
        case Rollback():
            for block in range(world.config.num_blocks):
                yield from _read(world, block)


def _read(world: World, block: object) -> Iterator[Read]:
    """A read by one of the block's holders, if it has any."""
    if type(block) is not int or not 0 < block < world.config.num_blocks:
        return
    state = world.state.blocks[block]
    if world.config.holders is HolderMode.CALLER:
        holders: list[str | None] = [None] * min(1, state.ref_cnt)
    else:
        holders = [name for name, _ in state.holders if not name.startswith(POOL_COPY_PREFIX)]
    if holders:
        yield Read(holders[-1], block)
