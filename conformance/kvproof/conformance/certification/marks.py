"""What a run has to have met before it says anything: rare situations, counted as the reference meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvproof.conformance.backends.interface import Capabilities, Level
from kvproof.conformance.certification.marks_of_running import KINDS_OF_MARKS, MARKS_OF_RUNNING
from kvproof.conformance.operations import (
    Allocate,
    Attach,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Copy,
    Evict,
    Free,
    Move,
    Operation,
    Read,
    Reset,
    Rollback,
    Touch,
)
from kvproof.reference.observation import BlockState, PoolState
from kvproof.spec.events import Event, Removed, Stored
from kvproof.spec.vocabulary import GroupKind, HolderMode

Seen = Callable[[Operation, PoolState, PoolState, object], bool]
"""(operation, state before, state after, result) -> whether the situation was met"""


def _took_every_block(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Allocate) and bool(before.free_queue) and not after.free_queue


def _evicted_a_cached_block(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Allocate) and any(before.blocks[b].entries for b in _ids(result))


def _touched_a_free_block(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Touch) and operation.block in before.free_queue


def _shared_a_block(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Touch | Attach) and after.blocks[operation.block].ref_cnt > 1


def _two_blocks_of_one_key(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    registers = isinstance(operation, CacheFullBlocks | CachePartialBlock)
    return registers and any(len(blocks) > 1 for blocks in after.index.values())


def _dropped_one_of_two_copies(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    if not isinstance(operation, Allocate | Evict):
        return False
    return any(len(blocks) > len(after.index.get(key, ())) > 0 for key, blocks in before.index.items())


def _added_a_shorter_key(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    if not isinstance(operation, CachePartialBlock):
        return False
    entries = after.blocks[operation.block].entries
    return len(entries) > 1 and len(entries) > len(before.blocks[operation.block].entries)


def _upgraded_over_several_keys(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    changes = isinstance(operation, CacheFullBlocks | CachePartialBlock | Commit)
    pairs = zip(before.blocks, after.blocks, strict=True)
    return changes and any(len(old.entries) > 1 and _lost_some(old, new) and new.entries for old, new in pairs)


def _freed_with_and_without_keys(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    if not isinstance(operation, Free):
        return False
    freed = [after.blocks[b] for b in operation.blocks if b in after.free_queue]
    return len({bool(block.entries) for block in freed}) == 2


def _stored_below_a_parent(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return any(isinstance(event, Stored) and event.parent for event in _news(before, after))


def _removed_and_stored(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return {type(event) for event in _news(before, after)} == {Removed, Stored}


def _moved_several_keys(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Move) and len(before.blocks[operation.src].entries) > 1


def _cleared_keys(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Reset) and bool(before.index)


def _rolled_back_more_than_asked(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Rollback) and len(_ids(result)) > len(set(operation.requests))


def _committed_one_of_two_steps(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Commit) and before.steps.open > 1


def _read_what_another_wrote(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    if not isinstance(operation, Read) or not result:
        return False
    return any(name == operation.holder and served for name, served in before.blocks[operation.block].holders)


def _copied(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Copy)


def _attached(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Attach)


def _news(before: PoolState, after: PoolState) -> tuple[Event, ...]:
    return after.pending_events[len(before.pending_events) :]


def _lost_some(old: BlockState, new: BlockState) -> bool:
    kept = {entry.key for entry in new.entries}
    return any(entry.key not in kept for entry in old.entries)


def _ids(result: object) -> list[int]:
    return result if isinstance(result, list) else []


MARKS: dict[str, tuple[Level, Seen]] = {
    "an allocation took the last free block": (Level.POOL, _took_every_block),
    "an allocation evicted a cached block": (Level.POOL, _evicted_a_cached_block),
    "a cached block was taken out of the free queue": (Level.POOL, _touched_a_free_block),
    "two holders shared a block": (Level.POOL, _shared_a_block),
    "two blocks had one key": (Level.POOL, _two_blocks_of_one_key),
    "one of several copies of a key was dropped": (Level.POOL, _dropped_one_of_two_copies),
    "a shorter key was added to a block": (Level.POOL, _added_a_shorter_key),
    "an upgrade dropped one of several keys": (Level.POOL, _upgraded_over_several_keys),
    "a reset removed keys": (Level.POOL, _cleared_keys),
    "several keys were moved at once": (Level.POOL, _moved_several_keys),
    "one call freed blocks with and without keys": (Level.ORDER, _freed_with_and_without_keys),
    "a Stored event had a parent": (Level.EVENTS, _stored_below_a_parent),
    "one operation removed and stored": (Level.EVENTS, _removed_and_stored),
    "a reader attached to a reserved key": (Level.STEPS, _attached),
    "a rollback took dependents with it": (Level.STEPS, _rolled_back_more_than_asked),
    "a reader read what another request had written": (Level.DATA, _read_what_another_wrote),
    "content was copied": (Level.DATA, _copied),
    "a step was committed with another in flight": (Level.STEPS, _committed_one_of_two_steps),
    **{name: (Level.HYBRID, seen) for name, seen in MARKS_OF_RUNNING.items()},
}
"""Every situation, with the level whose claim it belongs to."""


def marks_of(operation: Operation, before: PoolState, after: PoolState, result: object) -> Iterable[str]:
    """The situations that an operation met."""
    return [name for name, (_, seen) in MARKS.items() if seen(operation, before, after, result)]


_NEEDS = {
    "a shorter key was added to a block": "cache_partial_block",
    "an upgrade dropped one of several keys": "cache_partial_block",
    "several keys were moved at once": "move",
    "one operation removed and stored": "cache_partial_block",
}
"""The operation without which a situation cannot be met."""


_NEEDS_KINDS = {name: frozenset(kinds) for name, kinds in KINDS_OF_MARKS.items()}

_NAMED_ONLY = ("a reader read what another request had written",)
"""What cannot be told where references are anonymous."""


def reachable(capabilities: Capabilities) -> list[str]:
    """The situations that a backend with these claims has to have met."""
    partial = any(kind is not GroupKind.RECURRENT for kind in capabilities.group_kinds)
    named = HolderMode.NAMED in capabilities.holders
    names = [name for name, (level, _) in MARKS.items() if level in capabilities.levels]
    names = [name for name in names if _NEEDS_KINDS.get(name, frozenset()) <= set(capabilities.group_kinds)]
    names = [name for name in names if named or name not in _NAMED_ONLY]
    offered = [name for name in names if name not in _NEEDS or _NEEDS[name] in capabilities.operations]
    return [name for name in offered if partial or name not in _NEEDS]
