"""The operations that a driver may do next in a scope: proposed generously, then judged by the preconditions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import combinations, pairwise, permutations

from kvproof.conformance.operations import (
    Allocate,
    Attach,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Copy,
    Evict,
    Finish,
    Free,
    KeyRef,
    Move,
    Operation,
    Reset,
    Rollback,
    Touch,
    Write,
)
from kvproof.conformance.preconditions import violations
from kvproof.conformance.scope import Scope
from kvproof.conformance.undefined import undefined
from kvproof.conformance.world import World
from kvproof.reference.observation import BlockState
from kvproof.spec.vocabulary import NULL_BLOCK, CommitMode


class EnabledOperations:
    """What is legal and defined in a world of one scope; questions and drains change nothing and are left out.

    What may be done with one block, or with two, depends on these blocks and on the open steps alone, so it is judged
    once for each condition that they can be in, and remembered.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._has_steps = scope.commit is CommitMode.STEPS
        self._holders = frozenset(scope.holders)
        self._blocks = range(NULL_BLOCK + 1, scope.config.num_blocks)
        self._elsewhere: list[Operation] = [*(Allocate(name, 1) for name in scope.holders), Reset()]
        if self._has_steps:
            self._elsewhere += _rollbacks(scope)
        self._on_blocks: dict[tuple[int, ...], list[Operation]] = {
            **{(block,): list(_on_block(scope, block)) for block in self._blocks},
            **{pair: list(_on_pair(scope, *pair)) for pair in permutations(self._blocks, 2)},
        }
        self._judged: dict[tuple[int, ...], dict[Hashable, list[Operation]]] = {
            blocks: {} for blocks in self._on_blocks
        }

    def vocabulary(self, oldest_open_step: int = 1) -> Iterator[Operation]:
        """Every operation of the scope, enabled or not."""
        yield from self._elsewhere
        if self._has_steps:
            yield from (BeginStep(), Commit(oldest_open_step))
        for operations in self._on_blocks.values():
            yield from operations

    def of(self, world: World) -> list[Operation]:
        """The enabled operations, in a fixed order."""
        seen = [(self._own(block), text) for block, text in zip(world.state.blocks, world.texts(), strict=True)]
        steps = self._steps(world) if self._has_steps else None
        found = self._judge(world, self._elsewhere)
        if self._has_steps:
            found += self._stepping(world)
        for blocks, operations in self._on_blocks.items():
            judged, condition = self._judged[blocks], (steps, *(seen[block] for block in blocks))
            if condition not in judged:
                judged[condition] = self._judge(world, operations)
            found += judged[condition]
        return found

    def _judge(self, world: World, operations: Iterable[Operation]) -> list[Operation]:
        situation = world.situation
        return [
            operation
            for operation in operations
            if not violations(situation, operation)
            and undefined(world, operation) is None
            and not self._exceeds_refs(world, operation)
        ]

    def _exceeds_refs(self, world: World, operation: Operation) -> bool:
        """Whether a block would get more references than it has in the scope: who has no name can touch for ever."""
        if not self._scope.anonymous or not isinstance(operation, Touch):
            return False
        return world.state.blocks[operation.block].ref_cnt >= self._scope.refs

    def _stepping(self, world: World) -> list[Operation]:
        open_steps = world.state.steps.open
        chosen: list[Operation] = [BeginStep()] if open_steps < self._scope.in_flight else []
        return chosen + ([Commit(world.begun - open_steps + 1)] if open_steps else [])

    def _own(self, block: BlockState) -> BlockState:
        """Holders that are no part of the scope are the pool's own copies; what they are called does not matter."""
        if not self._has_steps or all(name in self._holders for name, _ in block.holders):
            return block
        return block._replace(holders=tuple(holder for holder in block.holders if holder[0] in self._holders))

    def _steps(self, world: World) -> Hashable:
        """What open steps decide about operations on blocks."""
        steps = world.state.steps
        moves = [(src, dst, name) for _, src, dst, name in steps.copies if name in self._holders]
        copied_now = {dst for ahead, _, dst, _ in steps.copies if ahead == steps.open}
        return steps.open, steps.depends, tuple(moves), frozenset(copied_now)


def _rollbacks(scope: Scope) -> Iterator[Operation]:
    """Every set of requests can fail together."""
    for size in range(1, len(scope.positions) + 1):
        yield from map(Rollback, combinations(scope.positions, size))


def _on_block(scope: Scope, block: int) -> Iterator[Operation]:
    yield Evict((block,))
    for name, positions in scope.positions.items():
        for position in positions:
            yield Write(name, block, position, 0)
            yield from _registrations(scope, name, block, position)
    for holder in scope.holders:
        yield Free(holder, (block,))
        for ref in _names_of_keys(scope):
            yield Touch(holder, block, ref)
    if scope.anonymous:
        yield Free(None, (block, block))
    if scope.commit is CommitMode.STEPS:
        for name in scope.positions:
            yield Finish(name, (block,))
            for ref in _names_of_keys(scope):
                yield Attach(name, block, ref)


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
    for holder in scope.holders:
        yield Free(holder, (one, other))
        yield Copy(holder, one, other)
    for name, positions in scope.positions.items():
        if scope.commit is CommitMode.STEPS:
            yield Finish(name, (one, other))
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
