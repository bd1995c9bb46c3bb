"""Clauses of level MUST that name no limit, and what they name instead."""

from __future__ import annotations

NO_LIMIT = {
    "It says what bytes are made of.": ("HASH-SEED-1", "HASH-ALGORITHM-1", "HASH-KEY-1"),
    "It says in which order things stand, go or are told.": (
        *("POOL-ALLOC-1", "POOL-FREE-2", "POOL-FREE-3", "INDEX-ORDER-1", "POOL-EVICT-3", "POOL-MOVE-2", "POOL-RESET-3"),
        *("EVENT-ORDER-1", "EVENT-DRAIN-1", "EVENT-REMOVED-2", "EVENT-CLEARED-1", "STEP-COMMIT-3", "STEP-FINISH-1"),
        *("HIT-SOURCE-1", "ADMIT-ORDER-1", "ADVANCE-REGISTER-1", "BACK-SLOTS-1"),
    ),
    "It says what goes, comes or stays, of whatever there is.": (
        *("POOL-ALLOC-4", "POOL-TOUCH-1", "POOL-TOUCH-3", "POOL-LOOKUP-2", "REG-DUPLICATE-1", "REG-ATOMIC-1"),
        *("REG-FULL-3", "REG-REPLACE-1", "POOL-EVICT-1", "POOL-EVICT-2", "POOL-MOVE-1", "POOL-MOVE-4"),
        *(
            "CONTENT-COPY-1",
            "CONTENT-MOVE-1",
            "EVENT-NET-1",
            "EVENT-RESIDENCY-2",
            "STEP-RESERVE-1",
            "STEP-REPLACE-1",
            "STEP-MOVE-1",
        ),
        *("STEP-ROLLBACK-2", "STEP-ROLLBACK-3", "STEP-IMMEDIATE-1", "ERR-ATOMIC-1"),
        *("GROUP-CONFIG-2", "HIT-ZERO-1", "SPLIT-NONE-1", "ADMIT-JUNCTION-1", "ADVANCE-WRITE-1", "RELEASE-1"),
    ),
    "It says what a question is about.": (
        "POOL-CONTAINS-1",
        "STEP-LOOKUP-2",
        "CONTENT-SOUND-1",
        "OBSERVE-1",
        "HIT-PURE-1",
    ),
    "It is an invariant: what it forbids, no operation reaches.": (
        *("INV-PARTITION-1", "INV-QUEUE-1", "INV-QUEUE-2", "INV-COUNT-1", "INV-WRITER-1", "INV-NULL-1"),
        *("INV-INDEX-1", "INV-INDEX-2", "INV-INDEX-3", "INV-SLOT-1", "INV-CHAIN-1", "INV-FULL-1", "INV-HASHES-1"),
        *("INV-EVENTS-1", "INV-EVENTS-2", "INV-STATUS-1", "INV-RESERVED-1", "INV-RESERVED-2", "INV-LRU-1"),
        *("INV-SOUND-1", "INV-SERVED-1", "INV-TABLE-1", "INV-TABLE-2", "INV-TABLE-3", "INV-TABLE-4"),
        *("INV-RUN-1", "INV-RUN-2", "INV-RUN-3", "INV-RUN-4"),
    ),
}
"""By the reason, the clauses that it holds for."""
