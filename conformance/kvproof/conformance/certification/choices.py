"""What a backend without level O chooses for itself: which free block is taken, which copy of a key serves, and in what
order things stand.

The reference follows the choice where it is a legal one, and goes on from there; where it is not, the reference does
what the clauses say, and the difference shows.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kvproof.conformance.backends.wire import Answer, Holders, Observation, Step, WireEvent, as_events
from kvproof.conformance.operations import Allocate, Lookup, Operation, TakeEvents
from kvproof.conformance.world import World


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
