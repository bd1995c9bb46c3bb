"""Which clause a difference breaks: what was asked, and where the backend differs, say it.

A vector is labelled with its clause and needs none of this. For everything else this is the best guess from what can be
seen, in the order in which a reader would look: the answer, then keys, references, queue, events.
"""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest

from kvproof.conformance.attempts import QUESTIONS
from kvproof.conformance.backends.names import HASH_CONFLICT
from kvproof.conformance.backends.wire import Observation, RemovedEvent, StoredEvent, WireEvent
from kvproof.conformance.certification.lockstep import Difference, Divergence
from kvproof.conformance.operations import (
    AddRequest,
    Append,
    Attach,
    CacheFullBlocks,
    CachePartialBlock,
    Copy,
    Free,
    Hashes,
    Move,
    Operation,
    Read,
    Rollback,
    Touch,
    Truncate,
    Write,
    name_of,
)
from kvproof.spec.vocabulary import NULL_BLOCK, CommitMode, GroupKind, PoolConfig, Residency

IN_ORDER = ("answer", "keys", "index", "ref_cnt", "holders", "writers", "slots", "num_free", "free_queue", "events")
"""Where to look first."""


def clause_of(found: Divergence) -> str:
    """The clause that the backend breaks."""
    first = min(found.differences, key=lambda difference: IN_ORDER.index(difference.what))
    operation = found.operations[-1]
    if first.what == "answer" and str(first.got).startswith(HASH_CONFLICT):
        return "HASH-EXTRA-1" if getattr(operation, "extra_keys", ()) else "HASH-CHAIN-1"
    if first.what == "answer":
        if found.expected.errors:
            return _of_missing_refusal(operation, found.expected.errors, found.config)
        if isinstance(operation, Read):
            return _of_content(found, operation)
        return _of_hashes(found) if isinstance(operation, Hashes) else _of_result(operation, found.config)
    if found.expected.errors:
        return "ERR-ATOMIC-1"
    if first.what == "events":
        return _of_events(first, found.config)
    if isinstance(operation, NO_CHANGE_OF_THE_POOL):
        return "POOL-INIT-1" if len(found.operations) == 1 else "POOL-LOOKUP-2"
    if isinstance(operation, Free) and first.what == "free_queue":
        return _of_the_queue(first, found.expected.seen)
    return _of_state(operation, first.what, found.config)


def _of_content(found: Divergence, read: Read) -> str:
    """What brought the content that was read to its block, or its reader to it."""
    steps = found.config.commit is CommitMode.STEPS
    for operation in reversed(found.operations):
        match operation:
            case Touch(block=read.block) | Attach(block=read.block):
                return "CONTENT-SOUND-1"
            case Copy(dst=read.block):
                return "STEP-COPY-1" if steps else "CONTENT-COPY-1"
            case Move(dst=read.block):
                return "CONTENT-MOVE-1"
            case Rollback():
                return "STEP-ROLLBACK-3"
            case Write(block=read.block):
                break
    return "CONTENT-READ-1"


NO_CHANGE_OF_THE_POOL = (AddRequest, Append, Truncate, *QUESTIONS)


_REFUSALS = {
    ("allocate", "OutOfBlocks"): "POOL-ALLOC-3",
    ("allocate", "OutOfRange"): "POOL-ALLOC-3",
    ("cache_full_blocks", "InvalidBlock"): "REG-FULL-4",
    ("move", "InvalidBlock"): "POOL-MOVE-3",
    ("move", "OutOfRange"): "REG-SLOT-1",
    ("move", "ContentConflict"): "POOL-MOVE-3",
    ("copy", "InvalidBlock"): "CONTENT-COPY-2",
    ("write", "OutOfRange"): "CONTENT-WRITE-3",
    ("add_request", "OutOfRange"): "HASH-TOKEN-1",
    ("append", "OutOfRange"): "HASH-TOKEN-1",
    ("touch", "NotCached"): "POOL-TOUCH-2",
    ("touch", "AlreadyHeld"): "POOL-HOLDER-1",
    ("attach", "NotCached"): "STEP-ATTACH-1",
    ("attach", "AlreadyHeld"): "POOL-HOLDER-1",
    ("free", "NotReferenced"): "POOL-FREE-4",
    ("free", "NotCommitted"): "STEP-FREE-1",
    ("finish", "NotReferenced"): "POOL-FREE-4",
    ("finish", "NotCommitted"): "STEP-FREE-1",
    ("cache_full_blocks", "OutOfRange"): "REG-FULL-4",
    ("cache_partial_block", "OutOfRange"): "REG-SLOT-1",
    ("move", "NotCached"): "POOL-MOVE-3",
    ("move", "NotReferenced"): "POOL-MOVE-3",
    ("write", "NotOwner"): "CONTENT-WRITE-3",
    ("write", "NotReferenced"): "CONTENT-WRITE-3",
    ("write", "ContentConflict"): "CONTENT-WRITE-1",
    ("copy", "NotOwner"): "CONTENT-COPY-2",
    ("copy", "NotReferenced"): "CONTENT-COPY-2",
    ("copy", "ContentConflict"): "CONTENT-COPY-2",
    ("read", "NotReferenced"): "CONTENT-READ-1",
    ("commit", "OutOfOrder"): "STEP-COMMIT-2",
    ("reset", "StillReferenced"): "POOL-RESET-2",
}
"""(operation, error) -> the clause that demands the error."""

_USUAL_REFUSALS = {
    "NotOwner": "REG-OWNER-1",
    "NotReferenced": "REG-OWNER-2",
    "NotAligned": "POS-ALIGN-1",
    "ContentConflict": "REG-CONFLICT-1",
    "NotCommitted": "STEP-COPY-2",
}


def _of_missing_refusal(operation: Operation, errors: frozenset[str], config: PoolConfig) -> str:
    name = name_of(operation)
    for error in sorted(errors):
        if error == "InvalidBlock" and _names_the_null_block(operation):
            return "POOL-NULL-1"
        if error == "NoOpenStep":
            return "STEP-OPEN-2" if config.commit is CommitMode.STEPS else "STEP-IMMEDIATE-1"
        if (clause := _REFUSALS.get((name, error)) or _USUAL_REFUSALS.get(error)) is not None:
            return clause
    return "ERR-TYPE-1"


def _names_the_null_block(operation: Operation) -> bool:
    named = [getattr(operation, field, None) for field in ("block", "blocks", "src", "dst")]
    return any(value == NULL_BLOCK or (isinstance(value, tuple) and NULL_BLOCK in value) for value in named)


_RESULTS = {
    "allocate": "POOL-ALLOC-1",
    "touch": "POOL-TOUCH-1",
    "free": "POOL-FREE-1",
    "find": "STEP-LOOKUP-1",
    "contains": "POOL-CONTAINS-1",
    "full_key": "POOL-CONTAINS-2",
    "add_request": "HASH-TOKEN-1",
    "append": "REQ-APPEND-1",
    "truncate": "REQ-TRUNCATE-1",
    "cache_full_blocks": "REG-FULL-1",
    "cache_partial_block": "REG-PARTIAL-1",
    "evict": "POOL-EVICT-1",
    "move": "POOL-MOVE-1",
    "reset": "POOL-RESET-1",
    "take_events": "EVENT-DRAIN-1",
    "write": "CONTENT-WRITE-3",
    "copy": "CONTENT-COPY-1",
    "read": "CONTENT-READ-1",
    "begin_step": "STEP-OPEN-1",
    "commit": "STEP-COMMIT-1",
    "attach": "STEP-ATTACH-1",
    "rollback": "STEP-ROLLBACK-1",
    "finish": "STEP-FINISH-1",
}
"""operation -> what promises its result, or that it is granted at all."""


def _of_hashes(found: Divergence) -> str:
    """What the request went through last says which promise its hashes break."""
    last = found.operations[-2] if len(found.operations) > 1 else None
    match last:
        case Append():
            return "REQ-APPEND-1"
        case Truncate():
            return "REQ-TRUNCATE-1"
        case AddRequest(extra_keys=(_, *_)):
            return "HASH-EXTRA-1"
    return "HASH-CHAIN-1"


def _of_the_queue(difference: Difference, expected: Observation) -> str:
    """The first block that stands elsewhere: freed with a key it goes last, without one first."""
    wanted, got = _ids(difference.expected), _ids(difference.got)
    moved = next((block for block, other in zip_longest(wanted, got) if block != other and block is not None), None)
    keyed = moved is not None and expected.keys is not None and bool(expected.keys[moved])
    return "POOL-FREE-3" if keyed else "POOL-FREE-2"


def _ids(value: object) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else ()


def _of_result(operation: Operation, config: PoolConfig) -> str:
    name = name_of(operation)
    if isinstance(operation, CacheFullBlocks) and _leaves_something_out(operation):
        return "REG-FULL-2"
    if name == "lookup":
        return "STEP-SERVE-1" if config.commit is CommitMode.STEPS else "POOL-LOOKUP-1"
    return _RESULTS[name]


def _leaves_something_out(operation: CacheFullBlocks) -> bool:
    return False in (operation.mask or ()) or NULL_BLOCK in operation.blocks[operation.first : operation.last]


_STATES = {
    ("allocate", "keys"): "POOL-ALLOC-2",
    ("allocate", "slots"): "POOL-ALLOC-4",
    ("touch", "keys"): "POOL-TOUCH-3",
    ("free", "keys"): "POOL-FREE-6",
    ("lookup", "keys"): "POOL-LOOKUP-2",
    ("find", "keys"): "POOL-LOOKUP-2",
    ("rollback", "keys"): "STEP-ROLLBACK-2",
    ("evict", "ref_cnt"): "POOL-EVICT-2",
    ("evict", "free_queue"): "POOL-EVICT-2",
    ("evict", "slots"): "POOL-EVICT-2",
    ("move", "ref_cnt"): "POOL-MOVE-4",
    ("move", "free_queue"): "POOL-MOVE-4",
    ("reset", "free_queue"): "POOL-RESET-3",
    ("commit", "ref_cnt"): "STEP-COPY-2",
    ("commit", "free_queue"): "STEP-COPY-2",
    ("copy", "ref_cnt"): "STEP-COPY-2",
    ("rollback", "ref_cnt"): "STEP-ROLLBACK-2",
}
"""(operation, where) -> the clause; other places are those of the operation's result."""

_SAME_PLACE = {"index": "keys", "holders": "ref_cnt", "writers": "ref_cnt", "num_free": "free_queue"}


def _of_state(operation: Operation, where: str, config: PoolConfig) -> str:
    name = name_of(operation)
    if where == "writers" and name in {"allocate", "free"}:
        return "POOL-WRITER-1"
    if where == "slots" and name.startswith("cache_"):
        return "REG-SLOT-1"
    if isinstance(operation, CachePartialBlock):
        return _of_partial(operation, config)
    place = _SAME_PLACE.get(where, where)
    return _STATES.get((name, place)) or _of_result(operation, config)


def _of_partial(operation: CachePartialBlock, config: PoolConfig) -> str:
    if operation.replace:
        return "REG-REPLACE-1"
    group = config.groups[operation.group]
    if group.kind is GroupKind.RECURRENT:
        return "REG-RECURRENT-1"
    return "REG-PARTIAL-2" if operation.position % group.block_size == 0 else "REG-PARTIAL-3"


def _of_events(difference: Difference, config: PoolConfig) -> str:
    if difference.got is None:
        return "EVENT-DRAIN-1"
    expected, got = _events(difference.expected), _events(difference.got)
    residency = "EVENT-RESIDENCY-1" if config.residency is Residency.LOGICAL else "EVENT-RESIDENCY-2"
    if _named(expected) != _named(got):
        return residency
    if len(expected) != len(got):
        return "EVENT-STORED-4"
    if Counter(map(repr, expected)) == Counter(map(repr, got)):
        return "EVENT-ORDER-1" if _kinds(expected) != _kinds(got) else "EVENT-REMOVED-2"
    for one, other in zip(expected, got, strict=True):
        if isinstance(one, StoredEvent) and isinstance(other, StoredEvent) and one != other:
            if one.parent != other.parent:
                return "EVENT-PARENT-1"
            return "EVENT-STORED-2" if one.hashes == other.hashes else "EVENT-STORED-1"
    return "EVENT-ORDER-1"


def _events(value: object) -> tuple[WireEvent, ...]:
    return value if isinstance(value, tuple) else ()


def _kinds(events: tuple[WireEvent, ...]) -> list[type]:
    return [type(event) for event in events]


def _named(events: tuple[WireEvent, ...]) -> Counter[tuple[str, int, str]]:
    """How often each key is stored and removed."""
    named: Counter[tuple[str, int, str]] = Counter()
    for event in events:
        match event:
            case StoredEvent(group=group, hashes=hashes):
                named.update(("stored", group, prefix.hash) for prefix in hashes)
            case RemovedEvent(group=group, hash=name):
                named["removed", group, name] += 1
            case _:
                named["cleared", 0, ""] += 1
    return named


def operations_of(clause: str) -> frozenset[str]:
    """The operations whose answer, or what they leave behind, can break a clause, as far as is told here."""
    by_result = {name for name, promised in _RESULTS.items() if promised == clause}
    by_refusal = {name for (name, _), demanded in _REFUSALS.items() if demanded == clause}
    by_state = {name for (name, _), kept in _STATES.items() if kept == clause}
    return frozenset(by_result | by_refusal | by_state)
