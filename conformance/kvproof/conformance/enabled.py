"""The operations that a driver may do next in a scope: proposed generously, then judged by the preconditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, permutations

from kvproof.conformance.operations import (
    Allocate,
    CacheFullBlocks,
    CachePartialBlock,
    Copy,
    Evict,
    Free,
    KeyRef,
    Move,
    Operation,
    Reset,
    Touch,
    Write,
)
from kvproof.conformance.preconditions import violations
from kvproof.conformance.scope import Scope
from kvproof.conformance.undefined import undefined
from kvproof.conformance.world import World
from kvproof.reference.observation import BlockState
from kvproof.spec.vocabulary import NULL_BLOCK

Seen = tuple[tuple[BlockState, tuple[int, ...]], ...]
"""What decides about operations on some blocks: for each its observed state, and the tokens that it holds."""


class EnabledOperations:
    """What is legal and defined in a world of one scope; questions and drains change nothing and are left out.

    What may be done with one block, or with two, depends on these blocks alone, so it is judged once for each condition
    that they can be in, and remembered.
    """

    def __init__(self, scope: Scope) -> None:
        self._blocks = range(NULL_BLOCK + 1, scope.config.num_blocks)
        self._elsewhere: list[Operation] = [*(Allocate(name, 1) for name in scope.positions), Reset()]
        self._on_blocks: dict[tuple[int, ...], list[Operation]] = {
            **{(block,): list(_on_block(scope, block)) for block in self._blocks},
            **{pair: list(_on_pair(scope, *pair)) for pair in permutations(self._blocks, 2)},
        }
        self._judged: dict[tuple[int, ...], dict[Seen, list[Operation]]] = {blocks: {} for blocks in self._on_blocks}

    def vocabulary(self) -> Iterator[Operation]:
        """Every operation of the scope, enabled or not."""
        yield from self._elsewhere
        for operations in self._on_blocks.values():
            yield from operations

    def of(self, world: World) -> list[Operation]:
        """The enabled operations, in a fixed order."""
        contents = world.ghost.contents
        seen: list[tuple[BlockState, tuple[int, ...]]] = [(block, ()) for block in world.state.blocks]
        for block, content in contents.items():
            seen[block] = (world.state.blocks[block], content.prefix.spelled)
        found = _judge(world, self._elsewhere)
        for blocks, operations in self._on_blocks.items():
            judged, condition = self._judged[blocks], tuple(seen[block] for block in blocks)
            if condition not in judged:
                judged[condition] = _judge(world, operations)
            found += judged[condition]
        return found


def _judge(world: World, operations: Iterable[Operation]) -> list[Operation]:
    situation = world.situation
    return [
        operation
        for operation in operations
        if not violations(situation, operation) and undefined(world, operation) is None
    ]


def _on_block(scope: Scope, block: int) -> Iterator[Operation]:
    yield Evict((block,))
    for name, positions in scope.positions.items():
        yield Free(name, (block,))
        for position in positions:
            yield Write(name, block, position, 0)
            yield from _registrations(scope, name, block, position)
    for name in scope.positions:
        for ref in _names_of_keys(scope):
            yield Touch(name, block, ref)


def _registrations(scope: Scope, name: str, block: int, position: int) -> Iterator[Operation]:
    """All ways to register one key: at the end of the slot it is full, and both operations can do it."""
    size = scope.config.groups[0].block_size
    slot, rest = divmod(position, size)
    for replace in (False, True):
        yield CachePartialBlock(name, block, position, 0, replace)
        if rest == 0:
            yield CacheFullBlocks(name, (NULL_BLOCK,) * (slot - 1) + (block,), slot - 1, slot, 0, None, replace)


def _on_pair(scope: Scope, one: int, other: int) -> Iterator[Operation]:
    """A batch is more than its steps: all or nothing, one order, events of its own."""
    size = scope.config.groups[0].block_size
    yield Move(one, other)
    for name, positions in scope.positions.items():
        yield Free(name, (one, other))
        yield Copy(name, one, other)
        full = [position // size - 1 for position in positions if position % size == 0]
        for first, second in pairwise(full):
            table = (NULL_BLOCK,) * first + (one,) + (NULL_BLOCK,) * (second - first - 1) + (other,)
            yield CacheFullBlocks(name, table, first, second + 1, 0)


def _names_of_keys(scope: Scope) -> list[KeyRef]:
    """One name for each key. By whose prefix it is called does not matter, so the first request lends its name."""
    refs: dict[str, KeyRef] = {}
    for text, names in zip(scope.texts, scope.request_classes, strict=True):
        for position in scope.positions[names[0]]:
            refs.setdefault(text[:position], KeyRef(names[0], 0, position))
    return list(refs.values())
