"""Blocks followed, not numbered: an operation names a block by which allocation gave it.

So a trace means the same where other blocks are taken: because an allocation was left out, or because a backend
chooses for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from kvproof.conformance.large import world_of
from kvproof.conformance.operations import Allocate, Operation
from kvproof.conformance.preconditions import violations
from kvproof.conformance.undefined import undefined
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import PoolConfig

Symbol = tuple[int, int]
"""(allocation, n): the block that an allocation gave as its n-th."""


@dataclass(frozen=True)
class Item:
    """An operation, which allocation it is to others, and what the numbers of blocks in it stand for.

    `taken` are the blocks that an allocation took, as numbers, where it was run.
    """

    operation: Operation
    label: int
    blocks: Mapping[int, Symbol]
    taken: tuple[int, ...] = ()


def items_of(config: PoolConfig, operations: Sequence[Operation]) -> list[Item]:
    """The operations with what their blocks stand for, as the reference goes through them.

    An allocation takes what its operation says that it took, or else what the clauses say.
    """
    world, latest, items = world_of(config), dict[int, Symbol](), list[Item]()
    for label, operation in enumerate(operations):
        named = {block: latest[block] for block in blocks_in(operation) if block in latest}
        items.append(Item(without_notes(operation), label, named))
        if not violations(world.situation, operation) and undefined(world, operation) is None:
            world.apply(operation)
            world.drain()
            if isinstance(operation, Allocate):
                items[-1] = replace(items[-1], taken=tuple(world.taken))
                latest |= {block: (label, number) for number, block in enumerate(world.taken)}
    return items


def followed(items: Iterable[Item], world: World) -> Iterator[Operation]:
    """The operations with the blocks that their allocations give in this world, which somebody else lets go on."""
    given: dict[Symbol, int] = {}
    for item in items:
        numbers = {block: given[symbol] for block, symbol in item.blocks.items() if symbol in given}
        before = world.taken
        yield with_blocks(item.operation, numbers)
        if isinstance(item.operation, Allocate) and world.taken is not before:
            given |= {(item.label, number): block for number, block in enumerate(world.taken)}


def without_notes(operation: Operation) -> Operation:
    """The operation without what it says of how it was run before."""
    return msgspec.structs.replace(operation, took=None) if isinstance(operation, Allocate) else operation


def blocks_in(operation: Operation) -> list[int]:
    """The numbers of blocks in an operation."""
    named = [getattr(operation, field) for field in ("block", "src", "dst") if hasattr(operation, field)]
    table = getattr(operation, "blocks", ())
    return [each for each in (*named, *(table if isinstance(table, tuple) else ())) if isinstance(each, int)]


def with_blocks(operation: Operation, numbers: Mapping[int, int]) -> Operation:
    """An operation with other numbers for its blocks."""
    changes: dict[str, object] = {}
    for field in ("block", "src", "dst"):
        if isinstance(block := getattr(operation, field, None), int):
            changes[field] = numbers.get(block, block)
    if isinstance(table := getattr(operation, "blocks", None), tuple):
        changes["blocks"] = tuple(numbers.get(each, each) if isinstance(each, int) else each for each in table)
    return msgspec.structs.replace(operation, **changes) if changes else operation
