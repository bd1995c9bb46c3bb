"""What a backend without level O chooses for itself: which free block is taken, which copy of a key serves, and in what
order things stand.

The reference follows the choice where it is a legal one, and goes on from there; where it is not, the reference does
what the clauses say, and the difference shows. A trace that was recorded with other choices names blocks as they were
taken then; here they are called what this backend took instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kvproof.conformance.backends.wire import Answer, Holders, Observation, Step, WireEvent, as_events
from kvproof.conformance.large import world_of
from kvproof.conformance.operations import Allocate, Lookup, Operation, TakeEvents
from kvproof.conformance.preconditions import violations
from kvproof.conformance.undefined import undefined
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import PoolConfig

OF_BLOCKS = ("block", "blocks", "src", "dst")
"""The fields of operations that name blocks."""


class BlockNames:
    """What a backend took for each block of a recorded trace; two blocks never become one."""

    def __init__(self) -> None:
        self._taken: dict[int, int] = {}
        self._name: dict[int, int] = {}

    def learn(self, names: Sequence[int], taken: Sequence[int]) -> None:
        """The trace took `names`, and the backend `taken`, one for one."""
        for name, block in zip(names, taken, strict=False):
            before, other = self._taken.get(name, name), self._name.get(block, block)
            if before != block:  # the other one gets what this one had
                self._taken[name], self._taken[other] = block, before
                self._name[block], self._name[before] = name, other

    def translated(self, operation: Operation) -> Operation:
        """The operation on the blocks that the backend took."""
        if not self._taken:
            return operation
        fields = [field for field in OF_BLOCKS if field in operation.__struct_fields__]
        return msgspec.structs.replace(operation, **{f: self._block(getattr(operation, f)) for f in fields})

    def _block(self, value: object) -> object:
        match value:
            case bool():
                return value
            case int():
                return self._taken.get(value, value)
            case tuple():
                return tuple(map(self._block, value))
        return value


def as_recorded(config: PoolConfig, operations: Iterable[Operation]) -> list[Operation]:
    """The operations with what was taken by each `allocate`, by the order of the clauses unless they say it already."""
    operations = list(operations)
    if all(operation.took is not None for operation in operations if isinstance(operation, Allocate)):
        return operations
    world, recorded = world_of(config), list[Operation]()
    for operation in operations:
        if not violations(world.situation, operation) and undefined(world, operation) is None:
            world.apply(operation)
            world.drain()
            if isinstance(operation, Allocate):
                operation = msgspec.structs.replace(operation, took=tuple(world.taken))
        recorded.append(operation)
    return recorded


def chosen_blocks(world: World, operation: Allocate, answer: Answer) -> Allocate:
    """The allocation, with what the backend took if that was a legal choice."""
    taken = answer.result
    return msgspec.structs.replace(operation, took=tuple(taken) if world.is_choice(taken, operation.n) else None)


def chosen_copies(world: World, operation: Lookup, answer: Answer) -> list[int | None]:
    """What a lookup has to find: the copies that the backend chose where they serve their keys."""
    keys, found = [world.key(ref) for ref in operation.keys], answer.result
    expected = world.pool.lookup(keys)
    if not isinstance(found, list | tuple) or len(found) != len(keys):
        return expected
    return [
        got if want is not None and _serves(world, got, key) else want
        for key, want, got in zip(keys, expected, found, strict=True)
    ]


def _serves(world: World, block: object, key: bytes) -> bool:
    if not isinstance(block, int) or not 0 <= block < world.config.num_blocks:
        return False
    return any(entry.key == key and entry.ahead == 0 for entry in world.state.blocks[block].entries)


# Without an order


def step_without_order(operation: Operation, step: Step) -> Step:
    """A step in which nothing that stands in some order says so."""
    answer = msgspec.structs.replace(step.answer, result=result_without_order(operation, step.answer.result))
    seen, events = step.seen, step.events
    return Step(answer, seen and seen_without_order(seen), events and events_without_order(events))


def result_without_order(operation: Operation, result: object) -> object:
    """A result; events that were taken are sorted."""
    events = as_events(result) if isinstance(operation, TakeEvents) else None
    return list(events_without_order(events)) if isinstance(events, list) else result


def events_without_order(events: Iterable[WireEvent]) -> tuple[WireEvent, ...]:
    """Events, sorted by what they say."""
    return tuple(sorted(events, key=repr))


def seen_without_order(seen: Observation) -> Observation:
    """A state whose free blocks, keys of a block, and blocks of a key are sorted."""
    changes: dict[str, object] = {}
    if seen.free_queue is not None:
        changes["free_queue"] = tuple(sorted(seen.free_queue))
    if seen.keys is not None:
        changes["keys"] = tuple([tuple(sorted(keys, key=repr)) for keys in seen.keys])
    if seen.index is not None:
        changes["index"] = tuple([Holders(row.group, row.hash, tuple(sorted(row.blocks))) for row in seen.index])
    return msgspec.structs.replace(seen, **changes)
