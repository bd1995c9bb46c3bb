"""Clauses of level MUST that no vector shows, and why."""

from __future__ import annotations

SCHEDULING = ("BUDGET", "ORDER", "EMPTY", "STARVE", "REFUSE", "PREEMPT", "RESUME", "PENDING", "FAIL")

NOT_SHOWN = {
    "POS-UNIT-1": "Views of hashes by block size are the reference's; the language asks for the hashes themselves.",
    "REQ-VIEW-1": "Views of hashes by block size are the reference's; the language asks for the hashes themselves.",
    "POOL-CONFIG-1": "A trace begins with a configuration that is right; making a pool is no operation.",
    "GROUP-CONFIG-1": "A trace begins with a configuration that is right; making a pool is no operation.",
    "INV-SERVED-2": "What a reader was served is not shown.",
    "INV-STEPS-1": "Who depends on whom, and when a block was allocated, is not shown.",
    "INV-DEPENDS-1": "Who depends on whom is not shown.",
    "ERR-OWNER-1": "The language has one speaker; a second thread is none of its operations.",
    **dict.fromkeys(
        [f"SCHED-{rule}-1" for rule in SCHEDULING],
        "A scheduler is what runs a cache; the language speaks to the cache.",
    ),
    "COST-1": "A trace says what an operation does, not how long it takes.",
}
"""Vectors do not carry them, and tests of nothing else give none."""

NOT_RECORDED = frozenset({"COST-1", "INDEX-BYTES-1"})
"""Tests that carry no other clause measure time or memory in pools too large for a vector, and are not run."""
