"""Clauses of a state that differs although the answer is right: keys first, then who holds what, then the queue."""

from __future__ import annotations

from kvproof.conformance.attempts import QUESTIONS
from kvproof.conformance.backends.wire import Entry
from kvproof.conformance.certification.attribution.case import Case, Clauses, Place, listed
from kvproof.conformance.certification.attribution.running import is_of_running, may_go_back, of_state_of_running
from kvproof.conformance.certification.attribution.tables import RESULTS, STATES
from kvproof.conformance.operations import (
    AddRequest,
    Append,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Evict,
    Free,
    Move,
    TakeEvents,
    Truncate,
)
from kvproof.spec.vocabulary import NULL_BLOCK

_CHANGES_NO_BLOCK = (AddRequest, Append, Truncate, BeginStep, TakeEvents, *QUESTIONS)

_SAME_PLACE = {"index": "keys", "holders": "ref_cnt", "num_free": "free_queue"}

_LEAVES_ALL = {
    ("admit", "OutOfBlocks"): "ADMIT-ATOMIC-1",
    ("advance", "OutOfBlocks"): "ADVANCE-ATOMIC-1",
    ("truncate", "OutOfBlocks"): "BACK-CUT-3",
    ("truncate", "NoOpenStep"): "BACK-CUT-3",
}
"""The clauses by which a lack of blocks, or of a step, leaves everything as it was."""

_TOLD_BY_REFUSALS = {
    "allocate": "POOL-ALLOC-3",
    "free": "POOL-FREE-4",
    "reset": "POOL-RESET-2",
    "cache_full_blocks": "REG-ATOMIC-1",
    "fail": "BACK-FAIL-1",
}
"""Where the clause of a refusal says itself that nothing has changed."""


def of_changed_refusal(case: Case) -> Clauses:
    """It was refused, and changed something all the same."""
    for error in sorted(case.errors):
        if clause := _LEAVES_ALL.get((case.name, error)):
            return (clause, "ERR-ATOMIC-1")
    told = _TOLD_BY_REFUSALS.get(case.name)
    return ("ERR-ATOMIC-1",) if told is None else ("ERR-ATOMIC-1", told)


def of_state(case: Case) -> Clauses:
    """The clauses that the state after a granted operation may break."""
    differences = case.differences
    if (is_of_running(case) or may_go_back(case)) and (clauses := of_state_of_running(case)):
        return clauses
    if isinstance(case.operation, _CHANGES_NO_BLOCK):
        untouched = all(isinstance(each, _CHANGES_NO_BLOCK) for each in case.found.operations)
        return ("POOL-INIT-1",) if untouched else ("POOL-LOOKUP-2",)
    if "keys" in differences and (clauses := _of_keys(case)):
        return clauses
    if "index" in differences and (clauses := _of_index(case)):
        return clauses
    if "slots" in differences and (clauses := _of_slots(case)):
        return clauses
    for part in ("ref_cnt", "holders", "writers"):
        if part in differences:
            return _usual(case, part)
    if "free_queue" in differences or "num_free" in differences:
        return _of_queue(case)
    return _usual(case, "keys")


def _usual(case: Case, part: str) -> Clauses:
    """What the clauses say of this operation, wherever exactly the part differs."""
    clause = STATES.get((case.name, part)) or STATES.get((case.name, _SAME_PLACE.get(part, part)))
    if case.name == "copy" and part in {"ref_cnt", "holders"}:
        return ("STEP-COPY-2",) if case.has_steps and not _loses_its_holder(case) else ("CONTENT-COPY-1",)
    if case.name == "move" and part in {"ref_cnt", "holders"} and case.has_steps:
        return ("POOL-MOVE-4",) if _loses_its_holder(case) else ("STEP-COPY-2",)
    return (clause or RESULTS[case.name],)


def _loses_its_holder(case: Case) -> bool:
    """Whether somebody who held a block before no longer does, and should."""
    got = case.got("holders")
    rows = zip(case.before.holders or (), case.after.holders or (), got if isinstance(got, tuple) else (), strict=False)
    return any(set(before) & set(wanted) - set(shown) for before, wanted, shown in rows)


# Keys on blocks


def _of_keys(case: Case) -> Clauses:
    """What became of single keys: gone, left, come, missing, or only told otherwise; nothing if none are shown."""
    if not isinstance(case.got("keys"), tuple):
        return ()
    before, wanted, got = case.keys_before, case.keys_after, case.keys_got
    missing = [place for place in wanted if place not in got]
    extra = [place for place in got if place not in wanted]
    if _other_group(missing, extra):
        return ("HASH-KEY-1",)
    registers = isinstance(case.operation, CachePartialBlock | CacheFullBlocks)
    if not missing and not extra:
        return _of_told_otherwise(case)
    if not registers:
        return _of_removal(case, [place for place in extra if place in before])
    if lost := [place for place in missing if place in before]:
        return _of_lost(case, lost)
    if missing:
        return _of_unregistered(case, wanted[missing[0]])
    if kept := [place for place in extra if place in before]:
        return _of_kept(case, got[kept[0]])
    return _of_uninvited(case, extra)


def _other_group(missing: list[Place], extra: list[Place]) -> bool:
    """Whether a key stands where it belongs, but in another group."""
    there = {(block, digest) for block, _, digest in extra}
    return any((block, digest) in there for block, _, digest in missing)


def _of_told_otherwise(case: Case) -> Clauses:
    """The same keys on the same blocks, in another order or with another status."""
    wanted, got = case.keys_after, case.keys_got
    if any(wanted[place] != got[place] for place in wanted):
        if not case.has_steps:
            return ("STEP-IMMEDIATE-1",)
        if isinstance(case.operation, Move):
            return ("STEP-MOVE-1",)
        return ("STEP-RESERVE-1",) if case.name.startswith("cache_") else (RESULTS[case.name],)
    return ("POOL-MOVE-2",) if isinstance(case.operation, Move) else ("INDEX-ORDER-1",)


def _of_removal(case: Case, left: list[Place]) -> Clauses:
    """Keys that had to go and stayed, or the other way round, where nothing is registered."""
    operation = case.operation
    committed = [place for place in left if not case.keys_before[place].ahead]
    if isinstance(operation, Evict | Move) and case.has_steps and committed:
        return (RESULTS[case.name], "STEP-REPLACE-1")
    if case.name == "commit":
        return ("STEP-UPGRADE-2",) if _only_drops(case) else ("STEP-COMMIT-1",)
    if case.name == "finish":
        return ("STEP-FINISH-1", "STEP-ROLLBACK-2")
    return _usual(case, "keys")


def _only_drops(case: Case) -> bool:
    """Whether what differs are committed keys that the commit drops, or had to keep."""
    both = case.keys_after.keys() ^ case.keys_got.keys()
    return all(place in case.keys_before and not case.keys_before[place].ahead for place in both)


def _of_lost(case: Case, lost: list[Place]) -> Clauses:
    """A registration took keys away that had to stay."""
    if not {block for block, _, _ in lost} <= set(case.blocks):
        return ("INDEX-SIBLING-1",)
    if case.has_steps and any(not case.keys_before[place].ahead for place in lost):
        return ("STEP-UPGRADE-1", "REG-PARTIAL-4")
    return ("REG-PARTIAL-4",)


def _of_unregistered(case: Case, entry: Entry) -> Clauses:
    """The new key is not there."""
    if case.replaces:
        return ("REG-REPLACE-1",)
    if isinstance(case.operation, CacheFullBlocks):
        return ("REG-FULL-1",)
    size = case.config.groups[entry.group].block_size
    if entry.position % size == 0:
        return ("REG-PARTIAL-2", "REG-PARTIAL-1")
    if any(other.position > entry.position for other in case.on(case.blocks[0])):
        return ("REG-PARTIAL-4", "REG-PARTIAL-1")
    return ("REG-PARTIAL-1",)


def _of_kept(case: Case, entry: Entry) -> Clauses:
    """The new key is there, and an old one that had to go."""
    if case.replaces:
        return ("STEP-REPLACE-1", "REG-REPLACE-1") if case.has_steps and not entry.ahead else ("REG-REPLACE-1",)
    if case.has_steps:
        return ("STEP-UPGRADE-1",)
    if isinstance(case.operation, CachePartialBlock) and not _is_full(case, case.operation):
        return ("REG-PARTIAL-3",)
    return ("REG-FULL-3",)


def _is_full(case: Case, operation: CachePartialBlock) -> bool:
    return operation.position % case.config.groups[operation.group].block_size == 0


def _of_uninvited(case: Case, extra: list[Place]) -> Clauses:
    """A key came that had to be left out."""
    operation, (block, group, _) = case.operation, extra[0]
    size = case.config.groups[group].block_size
    if any(entry.position % size == 0 for entry in case.on(block)):
        return ("REG-PARTIAL-5",)
    if isinstance(operation, CacheFullBlocks):
        left_out = False in (operation.mask or ()) or NULL_BLOCK in operation.blocks
        return ("REG-FULL-2",) if left_out else ("REG-FULL-1",)
    return ("REG-PARTIAL-1",)


# The index


def _of_index(case: Case) -> Clauses:
    """The blocks of each key, where the keys of each block are right; nothing if none are shown."""
    if not isinstance(case.got("index"), tuple):
        return ()
    wanted, got = listed(case.after.index), listed(case.got("index"))
    missing, extra = wanted - got, got - wanted
    if not missing and not extra:
        if isinstance(case.operation, Move):
            return ("POOL-MOVE-2",)
        return ("POOL-TOUCH-3",) if case.name == "touch" else ("INDEX-ORDER-1",)
    if not case.shows_keys:
        return _usual(case, "keys")
    if case.name.startswith("cache_") and not case.replaces and case.keys_before == case.keys_after:
        return ("REG-DUPLICATE-1",)
    if any(block not in case.blocks for block, _, _ in missing) and not extra:
        return ("INDEX-SIBLING-1", "INDEX-TWOWAY-1")
    return ("INDEX-TWOWAY-1", "INDEX-SIBLING-1")


# Slots


def _of_slots(case: Case) -> Clauses:
    """The place of a block in a table."""
    if not case.name.startswith("cache_"):
        return _usual(case, "slots") if case.name != "evict" else ("POOL-EVICT-2", "REG-SLOT-1")
    got, wanted = case.got("slots"), case.after.slots or ()
    shown = got if isinstance(got, tuple) else ()
    first = zip(case.before.slots or (), wanted, shown, strict=False)
    wrong = any(old is None and None not in (one, other) and one != other for old, one, other in first)
    return ("POS-SLOT-1",) if wrong else ("REG-SLOT-1",)


# The queue


def _of_queue(case: Case) -> Clauses:
    """Where the blocks stand that left use."""
    operation = case.operation
    if not isinstance(operation, Free) or case.after.free_queue is None:
        return _usual(case, "free_queue")
    wanted, shown = case.after.free_queue, case.got("free_queue")
    got = shown if isinstance(shown, tuple) else ()
    if sorted(wanted) != sorted(got):
        return ("POOL-FREE-1",)
    freed = set(wanted) - set(case.before.free_queue or ())
    last = [block for block in wanted if block in freed and _is_cached(case, block)]
    repeated = case.is_anonymous and len(set(operation.blocks)) < len(operation.blocks)
    also = ("POOL-FREE-5",) if repeated else ()
    if last and list(got[-len(last) :]) != last:
        return ("POOL-FREE-3", *also)
    return ("POOL-FREE-2", *also)


def _is_cached(case: Case, block: int) -> bool:
    if case.after.keys is not None:
        return bool(case.after.keys[block])
    return any(where == block for where, _, _ in listed(case.after.index))
