"""Clauses of a wrong answer: granted and had to be refused, refused and had to be granted, or another result."""

from __future__ import annotations

from collections.abc import Iterable

from kvproof.conformance.backends.names import HASH_CONFLICT
from kvproof.conformance.backends.wire import Hit, RemovedEvent
from kvproof.conformance.certification.attribution.case import Case, Clauses
from kvproof.conformance.certification.attribution.content import of_content
from kvproof.conformance.certification.attribution.events import of_drained
from kvproof.conformance.certification.attribution.history import clause_of_removal
from kvproof.conformance.certification.attribution.running import (
    copies_a_state,
    is_of_running,
    of_result_of_running,
)
from kvproof.conformance.certification.attribution.tables import REFUSALS, RESULTS, USUAL_REFUSALS
from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Advance,
    Allocate,
    Append,
    Attach,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Fail,
    Find,
    Finish,
    FullKey,
    Hashes,
    KeyRef,
    Lookup,
    Match,
    Operation,
    Read,
    Release,
    Rollback,
    Split,
    TakeEvents,
    Touch,
    Truncate,
    Write,
)
from kvproof.spec import errors
from kvproof.spec.errors import PoolError
from kvproof.spec.vocabulary import COPY_PREFIX, MAX_TOKEN, NULL_BLOCK, POOL_COPY_PREFIX

_ERRORS = frozenset(
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, PoolError)
)

_HASHING = ("HASH-CHAIN-1", "HASH-TOKEN-1", "HASH-ALGORITHM-1", "HASH-SEED-1")
"""What all hashes come from."""

_WRITES = Write | CacheFullBlocks | CachePartialBlock
"""Operations of a request that writes a block, or names what it wrote."""

_OF_HOLDERS = frozenset({"NotOwner", "AlreadyHeld", "NotReferenced", "InvalidArgument"})
"""Errors by which a pool says that a name is missing, or is another one."""


def of_answer(case: Case) -> Clauses:
    """The clauses that a wrong answer may break."""
    difference = case.differences["answer"]
    error = str(difference.got).partition(":")[0] if isinstance(difference.got, str) else ""
    if error == HASH_CONFLICT:
        return ("HASH-EXTRA-1",) if getattr(case.operation, "extra_keys", ()) else ("HASH-CHAIN-1",)
    if error == "ConcurrentUse":  # there is one caller
        return ("ERR-OWNER-1", "ERR-ATOMIC-1")
    if case.errors:
        return of_missing_refusal(case)
    if error in _ERRORS:
        return _of_wrong_refusal(case, error)
    return _of_result(case, difference.expected, difference.got)


# Granted, or refused with an error that does not apply


def of_missing_refusal(case: Case) -> Clauses:
    """The clauses that demand one of the errors."""
    missing = case.errors
    if "InvalidBlock" in missing and case.names_the_null_block:
        return ("POOL-NULL-1",)
    if case.config.hybrid is None and isinstance(case.operation, Match | Split | Admit | Advance | Release | Fail):
        return ("GROUP-CONFIG-2",)
    if isinstance(case.operation, Truncate) and missing & {"NotCommitted", "NoOpenStep", "OutOfBlocks"}:
        return ("BACK-TRUNCATE-1",) if "NotCommitted" in missing else ("BACK-CUT-3",)
    if "NoOpenStep" in missing:
        return ("STEP-OPEN-2",) if case.has_steps else ("STEP-IMMEDIATE-1",)
    if "InvalidArgument" in missing and (clauses := _of_names(case)):
        return clauses
    if "NotCached" in missing and isinstance(case.operation, Touch) and _has(case, case.operation):
        return ("STEP-SERVE-1",)  # the key is there, and reserved
    if case.name.startswith("cache_") and (clauses := _of_registration(case)):
        return clauses
    if case.name == "move" and missing == {"ContentConflict"} and _moves_within_a_step(case):
        return ("STEP-MOVE-2",)
    if case.name in {"free", "finish"} and missing == {"NotCommitted"} and _releases_for_a_copy(case):
        return ("STEP-COPY-2",)
    if case.name == "write" and missing == {"ContentConflict"} and case.is_recurrent:
        return ("CONTENT-WRITE-2",)
    named = [REFUSALS.get((case.name, error)) for error in sorted(missing)]
    usual = [clause for error, clause in USUAL_REFUSALS.items() if error in missing]
    return tuple(dict.fromkeys([clause for clause in named if clause] + usual)) or ("ERR-TYPE-1",)


def _of_names(case: Case) -> Clauses:
    """Names that the operation may not use."""
    operation, holder = case.operation, getattr(case.operation, "holder", None)
    if case.is_anonymous and (case.name == "finish" or isinstance(holder, str)):
        return ("POOL-HOLDER-2",)
    if case.has_steps and isinstance(holder, str) and holder.startswith(POOL_COPY_PREFIX):
        return ("STEP-NAME-1",)
    if case.has_steps and isinstance(operation, Attach) and isinstance(holder, str) and holder.startswith(COPY_PREFIX):
        return ("STEP-ATTACH-1",)
    if case.has_steps and isinstance(operation, _WRITES) and str(operation.request).startswith(COPY_PREFIX):
        return ("STEP-NAME-1",)
    if isinstance(operation, AddRequest) and isinstance(operation.extra_keys, tuple):
        extras = operation.extra_keys
        return ("HASH-EXTRA-3",) if any(extras.count(extra) > 1 for extra in extras) else ()
    return ()


def _of_registration(case: Case) -> Clauses:
    """Which rule of registration forbids it, where several errors would do or one stands for several rules."""
    missing = case.errors
    if case.replaces and missing <= {"NotOwner", "NotReferenced"}:
        return ("REG-REPLACE-1",)
    if missing == {"OutOfRange"} and _is_of_another_slot(case):
        return ("REG-SLOT-1",)
    if missing == {"ContentConflict"} and case.is_recurrent:
        return ("REG-RECURRENT-1", "REG-CONFLICT-1")
    return ()


def _is_of_another_slot(case: Case) -> bool:
    """Whether a block stands where it is not: in another group, or another slot, than its own."""
    operation, slots, group = case.operation, case.before.slots or (), case.group
    if group is None:
        return False
    if isinstance(operation, CachePartialBlock):
        places = {operation.block: (operation.position - 1) // group.block_size}
    elif isinstance(operation, CacheFullBlocks):
        places = {
            block: slot for slot, block in enumerate(operation.blocks) if operation.first <= slot < operation.last
        }
    else:
        return False
    there = {block: slots[block] for block in places if block != NULL_BLOCK and block < len(slots)}
    return any(slot is not None and slot != (operation.group, places[block]) for block, slot in there.items())


def _moves_within_a_step(case: Case) -> bool:
    """Whether the destination is not written by a copy, or a key of the source became what it is in this step."""
    src, dst = getattr(case.operation, "src", None), getattr(case.operation, "dst", None)
    if not case.has_steps or len(case.blocks) != 2 or not case.before.writers:
        return False
    writer = case.before.writers[case.blocks[1]]
    open_steps = max((entry.ahead for entry in case.keys_before.values()), default=0)
    recent = any(entry.ahead and entry.ahead == open_steps for entry in case.on(case.blocks[0]))
    holds_keys = dst != src and bool(case.on(case.blocks[1]))
    return not holds_keys and (writer is None or not writer.startswith(COPY_PREFIX) or recent)


def _releases_for_a_copy(case: Case) -> bool:
    """Whether the releaser is a copy, which a step keeps until its end."""
    name = getattr(case.operation, "holder", None)
    return isinstance(name, str) and name.startswith(COPY_PREFIX)


# Refused, and legal


def _of_wrong_refusal(case: Case, error: str) -> Clauses:
    """The clause that says when there is this error, and the one that promises the operation."""
    operation = case.operation
    promised = _promised(case)
    if case.names_the_null_block:
        return ("REG-FULL-2",) if isinstance(operation, CacheFullBlocks) else ("POOL-NULL-1",)
    if case.is_anonymous and error in _OF_HOLDERS:
        return ("POOL-HOLDER-2", "POOL-FREE-5") if _repeats(case) else ("POOL-HOLDER-2",)
    if error == "NoOpenStep":
        return ("STEP-OPEN-2",) if case.has_steps else ("STEP-IMMEDIATE-1",)
    if error == "NotCached" and isinstance(operation, Touch):
        first = next(iter(case.on(operation.block)), None)
        is_another = first is not None and case.key is not None and first.position != case.key.position
        return ("POOL-TOUCH-3", "POOL-TOUCH-1") if is_another else ("POOL-TOUCH-1",)
    if case.name.startswith("cache_"):
        if case.shows_keys and case.keys_before == case.keys_after and not case.replaces:
            return ("REG-DUPLICATE-1",)
        if error == "ContentConflict":
            return ("REG-REPLACE-1",) if case.replaces else ("REG-CONFLICT-1", promised)
    if isinstance(operation, Write) and error == "ContentConflict" and _was_rolled_back(case.found.operations):
        return ("STEP-ROLLBACK-2", "CONTENT-WRITE-1")  # a claim was left that had to go
    if isinstance(operation, Truncate) and error == "NotCommitted":
        return ("BACK-TRUNCATE-1",)
    if isinstance(operation, Fail):
        return ("BACK-FAIL-1", promised)
    if isinstance(operation, Commit) and _failed_last(case.found.operations):
        return ("BACK-FAIL-4", promised)  # the step that failed is still open
    if isinstance(operation, Admit) and error == "NotOwner":
        return ("ADMIT-COPY-1", "ADMIT-ORDER-1")  # it writes what is another's, or lost its own
    if isinstance(operation, Admit) and error == "InvalidBlock":
        return (promised, "ADMIT-SHARE-1")  # a slot has no block, or the wrong one has
    if isinstance(operation, Admit) and error == "NotCached" and _has_evicted(case):
        return ("ADMIT-ORDER-1", "ADMIT-SHARE-1")  # what was hit was evicted before it was touched
    if isinstance(operation, Advance) and error == "ContentConflict" and copies_a_state(case):
        return ("ADVANCE-COPY-1", "ADVANCE-MOVE-1")
    if isinstance(operation, Release) and error == "NotCommitted":
        return (promised,)  # who is released is rolled back first
    if isinstance(operation, Admit) and error in _OF_HOLDERS:
        return ("ADMIT-ORDER-1",)  # what was hit or copied was let go before its turn
    if isinstance(operation, Commit | Rollback | Attach) or case.name in {"evict", "reset", "finish"}:
        return (promised,)
    return _usual(case, error) or (promised,)


def _has_evicted(case: Case) -> bool:
    """Whether the backend has evicted something, although it refuses."""
    events = case.got("events")
    return isinstance(events, tuple) and any(isinstance(event, RemovedEvent) for event in events)


def _usual(case: Case, error: str) -> Clauses:
    clause = REFUSALS.get((case.name, error)) or USUAL_REFUSALS.get(error)
    return () if clause is None else (clause,)


def _was_rolled_back(operations: tuple[Operation, ...]) -> bool:
    return any(isinstance(each, Rollback | Finish | Fail) for each in operations)


def _failed_last(operations: tuple[Operation, ...]) -> bool:
    """Whether the step before the one that is committed failed."""
    closing = [each for each in operations[:-1] if isinstance(each, Commit | Fail)]
    return bool(closing) and isinstance(closing[-1], Fail)


def _repeats(case: Case) -> bool:
    return len(set(case.blocks)) < len(case.blocks)


# Another result


def _of_result(case: Case, expected: object, got: object) -> Clauses:
    operation = case.operation
    if is_of_running(case):
        return of_result_of_running(case, expected, got)
    if isinstance(operation, Lookup | Find) and (clauses := _of_what_was_removed(case, operation, expected, got)):
        return clauses
    match operation:
        case Hashes():
            return _of_hashes(case.found.operations)
        case TakeEvents():
            return of_drained(case, expected, got)
        case Lookup() if case.has_steps or _hits(expected) or _hits(got):
            return _of_hits(case, expected, got)
        case FullKey():
            return _of_full_key(case, got)
        case Read():
            return of_content(case, operation)
        case Rollback():
            return _of_taken_back(case.found.operations)
        case CacheFullBlocks() if _registers_again(case, operation):
            return ("REG-DUPLICATE-1", _promised(case))  # it broke, with an error that no pool has
        case Allocate() if isinstance(got, list) and NULL_BLOCK in got:
            return ("POOL-NULL-1", "POOL-ALLOC-1")
    if case.name == "find":
        return _of_hits(case, expected, got)
    return (_promised(case),)


def _promised(case: Case) -> str:
    operation = case.operation
    if isinstance(operation, CacheFullBlocks) and _leaves_something_out(operation):
        return "REG-FULL-2"
    return RESULTS[case.name]


def _registers_again(case: Case, operation: CacheFullBlocks) -> bool:
    """Whether a block that it registers has the key at its slot's end already."""
    if case.group is None or operation.replace:
        return False
    size, mask = case.group.block_size, operation.mask or (True,) * len(operation.blocks)
    chosen = [
        (slot, operation.blocks[slot])
        for slot in range(operation.first, operation.last)
        if mask[slot - operation.first] and operation.blocks[slot] != NULL_BLOCK
    ]
    ends = {block: (operation.group, (slot + 1) * size) for slot, block in chosen}
    return any((each.group, each.position) == end for block, end in ends.items() for each in case.on(block))


def _leaves_something_out(operation: CacheFullBlocks) -> bool:
    return False in (operation.mask or ()) or NULL_BLOCK in operation.blocks[operation.first : operation.last]


def _of_hashes(operations: tuple[Operation, ...]) -> Clauses:
    """What the request went through says which promise its hashes break."""
    request = getattr(operations[-1], "request", None)
    of_request = [each for each in operations[:-1] if getattr(each, "request", None) == request]
    changes = [each for each in of_request if isinstance(each, AddRequest | Append | Truncate)]
    if any(isinstance(each, Append) and not _are_tokens(each.tokens) for each in changes):
        return ("ERR-ATOMIC-1",)  # it was refused
    match changes[-1:]:
        case [Append()]:
            return ("REQ-TRUNCATE-1",) if any(isinstance(each, Truncate) for each in changes) else ("REQ-APPEND-1",)
        case [Truncate()]:
            return ("REQ-TRUNCATE-1",)
        case [AddRequest(extra_keys=(_, *_))]:
            return ("HASH-EXTRA-2",)
    return _HASHING


def _are_tokens(values: object) -> bool:
    return isinstance(values, tuple) and all(type(value) is int and 0 <= value <= MAX_TOKEN for value in values)


def _hits(value: object) -> list[object]:
    items = value if isinstance(value, list | tuple) else []
    return [item for item in items if isinstance(item, Hit | dict)]


def _of_hits(case: Case, expected: object, got: object) -> Clauses:
    """A lookup with steps: whom it serves, whom it names as reserved, what is pending."""
    wanted, found = ([_fields(item) for item in _items(value)] for value in (expected, got))
    if len(wanted) != len(found):
        return ("STEP-LOOKUP-1",)
    differ = [(one, other) for one, other in zip(wanted, found, strict=True) if one != other]
    served = [(one["block"], other["block"]) for one, other in differ if one["block"] != other["block"]]
    if served:
        return ("POOL-LOOKUP-1",) if None not in {b for pair in served for b in pair} else ("STEP-SERVE-1",)
    if any((one["reserved"], one["writer"]) != (other["reserved"], other["writer"]) for one, other in differ):
        return ("STEP-LOOKUP-1",)
    return ("STEP-LOOKUP-2",)


def _of_what_was_removed(case: Case, operation: Lookup | Find, expected: object, got: object) -> Clauses:
    """A key that nothing has any more is found all the same: the operation that took it away did not."""
    for ref, wanted, found in zip(operation.keys, _items(expected), _items(got), strict=False):
        block = _fields(found)["block"]
        if _fields(wanted)["block"] is not None or type(block) is not int or not isinstance(ref, KeyRef):
            continue
        if clause := clause_of_removal(case.found, ref, block):
            return (clause, RESULTS[case.name])
    return ()


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else ()


def _fields(item: object) -> dict[str, object]:
    """A hit by its fields; the block alone, where that is all that is asked for."""
    match item:
        case Hit():
            return {field: getattr(item, field) for field in Hit.__struct_fields__}
        case dict():
            return {**dict.fromkeys(Hit.__struct_fields__), **item}
    return {**dict.fromkeys(Hit.__struct_fields__), "block": item}


def _of_full_key(case: Case, got: object) -> Clauses:
    """A key that is not full, or not there yet."""
    match got:
        case [_, str(digest)]:
            entry = (
                next((each for each in case.on(case.blocks[0]) if each.hash == digest), None) if case.blocks else None
            )
            if entry is not None and entry.ahead:
                return ("STEP-SERVE-1",)
            return ("POOL-CONTAINS-2", "POS-FULL-1")
    return ("POOL-CONTAINS-2",)


def _of_taken_back(operations: tuple[Operation, ...]) -> Clauses:
    """How long a reader depends is said where it attached; that readers go along is said of the rollback."""
    attached = [number for number, each in enumerate(operations) if isinstance(each, Attach)]
    holders = [each.holder for each in operations if isinstance(each, Attach)]
    since = operations[attached[0] :] if attached else ()
    lasting = len(set(holders)) < len(holders) or any(isinstance(each, Commit) for each in since)
    return ("STEP-ATTACH-2",) if lasting else ("STEP-ROLLBACK-1",)


def _has(case: Case, operation: Touch) -> bool:
    """Whether the block has the key that it is touched by, reserved or not."""
    key = case.key
    there = case.on(operation.block) if case.blocks else []
    return key is not None and any((entry.group, entry.position) == (key.group, key.position) for entry in there)
