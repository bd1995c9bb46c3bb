"""Whose content has to be right after an operation: what a backend that owns memory is asked to read then (level D)."""

from __future__ import annotations

from collections.abc import Iterator

from kvproof.conformance.operations import (
    Admit,
    Advance,
    Attach,
    Copy,
    Fail,
    Move,
    Operation,
    Read,
    Release,
    Rollback,
    Touch,
    Truncate,
)
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import COPY_PREFIX, POOL_COPY_PREFIX, HolderMode


def reads_after(world: World, operation: Operation) -> Iterator[Read]:
    """The reads that an operation calls for: of what was hit, copied or moved; of everything after a rollback.

    After a failed step it is what requests go on with: what else it wrote, and the copies of what was taken back, may
    hold anything.
    """
    match operation:
        case Touch(block=block) | Attach(block=block) | Copy(dst=block) | Move(dst=block):
            yield from _read(world, block)
        case Admit(request=name) | Truncate(request=name):
            yield from _read_tables(world, name)
        case Advance(request=name):
            yield from _read_copies(world, name)
        case Rollback() | Release():
            for block in range(world.config.num_blocks):
                yield from _read(world, block)
        case Fail():
            for running in world.state.running or ():
                yield from _read_tables(world, running.request)


def reads_before(world: World, operation: Operation) -> Iterator[Read]:
    """The reads that come before an operation: of all that the next chunk of a request goes on with."""
    if isinstance(operation, Advance):
        yield from _read_tables(world, operation.request)


def _read_tables(world: World, name: object) -> Iterator[Read]:
    """Everything in the tables of a request that runs."""
    for running in world.state.running or ():
        if running.request == name:
            yield from (Read(running.request, block) for table in running.tables for block in table if block)


def _read_copies(world: World, name: object) -> Iterator[Read]:
    """The states that were moved before the request overwrites them."""
    copies = {f"{COPY_PREFIX}{group}:{name}" for group in range(len(world.config.groups))}
    for block, state in enumerate(world.state.blocks if world.state.running else ()):
        yield from (Read(holder, block) for holder, _ in state.holders if holder in copies)


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
