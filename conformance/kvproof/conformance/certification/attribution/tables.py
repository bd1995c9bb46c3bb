"""What each clause says of one operation, where no more has to be looked at than the operation and the error."""

from __future__ import annotations

REFUSALS = {
    ("allocate", "OutOfBlocks"): "POOL-ALLOC-3",
    ("allocate", "OutOfRange"): "POOL-ALLOC-3",
    ("cache_full_blocks", "InvalidBlock"): "REG-FULL-4",
    ("move", "InvalidBlock"): "POOL-MOVE-3",
    ("move", "OutOfRange"): "POOL-MOVE-3",
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
    ("cache_partial_block", "OutOfRange"): "POS-ALIGN-1",
    ("move", "NotCached"): "POOL-MOVE-3",
    ("move", "NotReferenced"): "POOL-MOVE-3",
    ("write", "NotOwner"): "CONTENT-WRITE-3",
    ("write", "NotReferenced"): "CONTENT-WRITE-3",
    ("write", "ContentConflict"): "CONTENT-WRITE-1",
    ("copy", "NotOwner"): "CONTENT-COPY-2",
    ("copy", "NotReferenced"): "CONTENT-COPY-2",
    ("copy", "ContentConflict"): "CONTENT-COPY-2",
    ("copy", "NotCached"): "STEP-COPY-1",
    ("copy", "NotCommitted"): "STEP-COPY-1",
    ("read", "NotReferenced"): "CONTENT-READ-1",
    ("commit", "OutOfOrder"): "STEP-COMMIT-2",
    ("reset", "StillReferenced"): "POOL-RESET-2",
}
"""(operation, error) -> the clause that demands the error."""

USUAL_REFUSALS = {
    "NotReferenced": "REG-OWNER-2",
    "NotOwner": "REG-OWNER-1",
    "NotAligned": "POS-ALIGN-1",
    "ContentConflict": "REG-CONFLICT-1",
    "NotCommitted": "STEP-COPY-2",
}
"""error -> the clause that demands it of all other operations; what stands first says more."""

RESULTS = {
    "allocate": "POOL-ALLOC-1",
    "touch": "POOL-TOUCH-1",
    "free": "POOL-FREE-1",
    "lookup": "POOL-LOOKUP-1",
    "find": "STEP-LOOKUP-1",
    "contains": "POOL-CONTAINS-1",
    "full_key": "POOL-CONTAINS-2",
    "hashes": "HASH-CHAIN-1",
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

STATES = {
    ("allocate", "keys"): "POOL-ALLOC-2",
    ("allocate", "slots"): "POOL-ALLOC-4",
    ("allocate", "writers"): "POOL-WRITER-1",
    ("touch", "keys"): "POOL-TOUCH-3",
    ("free", "keys"): "POOL-FREE-6",
    ("free", "writers"): "POOL-WRITER-1",
    ("evict", "ref_cnt"): "POOL-EVICT-2",
    ("evict", "writers"): "POOL-EVICT-2",
    ("evict", "free_queue"): "POOL-EVICT-2",
    ("evict", "slots"): "POOL-EVICT-2",
    ("move", "ref_cnt"): "POOL-MOVE-4",
    ("move", "writers"): "POOL-MOVE-4",
    ("move", "free_queue"): "POOL-MOVE-4",
    ("reset", "free_queue"): "POOL-RESET-3",
    ("commit", "ref_cnt"): "STEP-COPY-2",
    ("commit", "free_queue"): "STEP-COPY-2",
    ("copy", "ref_cnt"): "STEP-COPY-2",
    ("rollback", "keys"): "STEP-ROLLBACK-2",
    ("rollback", "ref_cnt"): "STEP-ROLLBACK-2",
    ("rollback", "free_queue"): "STEP-ROLLBACK-2",
}
"""(operation, where) -> the clause; other places are those of the operation's result."""


def operations_of(clause: str) -> frozenset[str]:
    """The operations whose answer, or what they leave behind, can break a clause, as far as is told here."""
    by_result = {name for name, promised in RESULTS.items() if promised == clause}
    by_refusal = {name for (name, _), demanded in REFUSALS.items() if demanded == clause}
    by_state = {name for (name, _), kept in STATES.items() if kept == clause}
    return frozenset(by_result | by_refusal | by_state)
