"""Limits of chapters 86 and 87: where a request of a hybrid model begins, and where its chunks end."""

from __future__ import annotations

from kvproof.conformance.operations import Allocate, Append, BeginStep, Commit, Evict, Match, Split
from kvproof.conformance.vectors.limits.hybrid_kinds import (
    BOTH,
    LONG_STATE,
    ROWS,
    SPLITS,
    STATES,
    pool,
    prompt,
    request,
    there,
)
from kvproof.conformance.vectors.limits.kinds import ATTENTION, WINDOW, Limit, Turn, put
from kvproof.spec.vocabulary import HybridConfig

_HITS = (
    Turn(
        "a_token_past_a_common_block",
        ("GROUP-ALIGN-1",),
        pool(ATTENTION, LONG_STATE, hybrid=HybridConfig(fine_grained=False)),
        (*there((0, 4), (0, 8), (0, 12), (1, 6), (1, 12)), request("r12", 12), request("r13", 13)),
        (Match("r12"),),
        (Match("r13"),),
    ),
    Turn(
        "rows_of_all_but_the_last_token",
        ("HIT-ATTENTION-1", "HIT-JOINT-1"),
        ROWS,
        (*there((0, 4), (0, 8)), request("r8", 8), request("r9", 9)),
        (Match("r8"),),
        (Match("r9"),),
    ),
    Turn(
        "the_first_slot_that_a_window_reads",
        ("HIT-WINDOW-1",),
        pool(WINDOW),
        (*there((0, 4), (0, 8), (0, 12)), request("r13", 13), Evict((1,))),
        (Match("r13"),),
        (Evict((2,)), Match("r13")),
    ),
    Turn(
        "a_state_at_the_last_token",
        ("HIT-RECURRENT-1",),
        STATES,
        (*there((0, 8)), request("r8", 8), request("r9", 9)),
        (Match("r8"),),
        (Match("r9"),),
    ),
    Turn(
        "a_hash_unit_past_the_hit",
        ("HIT-DROP-1",),
        pool(ATTENTION, hybrid=HybridConfig(drop=(0,))),
        (*there((0, 4), (0, 8)), request("r7", 7), request("r8", 8)),
        (Match("r7"),),
        (Match("r8"),),
    ),
    Turn(
        "a_junction_past_the_hit",
        ("HIT-JUNCTION-1",),
        BOTH,
        (*there((0, 4), (0, 8), (1, 4)), request("r9", 9), BeginStep(), Allocate("there", 1), *put(4, 8, "there", 1)),
        (Match("r9"),),
        (Commit(2), Match("r9")),
    ),
    Turn(
        "what_is_pending_while_it_is_reserved",
        ("HIT-PENDING-1",),
        STATES,
        (request("r9", 9), request("there", 20), BeginStep(), Allocate("there", 1), *put(1, 8, "there")),
        (Match("r9"),),
        (Evict((1,)), Match("r9")),
    ),
)

_SPLITS = (
    Limit(
        "numbers_of_a_split",
        ("SPLIT-RANGE-1",),
        SPLITS,
        (prompt("r9", 9),),
        (
            *(Split("r9", -1, 1, 1, 0), Split("r9", 9, 1, 1, 0), Split("r9", 4, 0, 1, 0), Split("r9", 4, 6, 6, 0)),
            *(Split("r9", 4, 5, 4, 0), Split("r9", 4, 5, 5, -1), Split("r9", 4, 5, 5, 10)),
        ),
        (Split("r9", 0, 9, 9, 0), Split("r9", 8, 1, 1, 9), Split("r9", 4, 5, 5, 9)),
    ),
    Turn(
        "where_decoding_begins",
        ("SPLIT-DECODE-1",),
        SPLITS,
        (prompt("r31", 13), Append("r31", (1,) * 18)),
        (Split("r31", 28, 1, 6, 0),),
        (Split("r31", 30, 1, 6, 0),),
    ),
    Turn(
        "tokens_that_end_before_the_last_one",
        ("SPLIT-ALIGN-1",),
        SPLITS,
        (prompt("r30", 13), Append("r30", (1,) * 17)),
        (Split("r30", 24, 4, 9, 0),),
        (Split("r30", 24, 5, 9, 0),),
    ),
    Turn(
        "a_cap_that_reaches_the_next_block",
        ("SPLIT-ALIGN-1", "SPLIT-PROGRESS-1"),
        SPLITS,
        (prompt("r100", 100),),
        (Split("r100", 10, 1, 1, 0),),
        (Split("r100", 10, 1, 2, 0),),
    ),
    Turn(
        "a_start_inside_a_block",
        ("SPLIT-STOP-1",),
        SPLITS,
        (prompt("r100", 100),),
        (Split("r100", 11, 13, 13, 0),),
        (Split("r100", 12, 13, 13, 0),),
    ),
    Turn(
        "the_last_state_before_the_end",
        ("SPLIT-STOP-2",),
        SPLITS,
        (prompt("r12", 12), prompt("r13", 13)),
        (Split("r12", 0, 12, 12, 0),),
        (Split("r13", 0, 13, 13, 0),),
    ),
    Turn(
        "a_hash_unit_past_the_last_block_state",
        ("SPLIT-STOP-3",),
        SPLITS,
        (prompt("r14", 14), prompt("r17", 17)),
        (Split("r14", 12, 2, 2, 0),),
        (Split("r17", 12, 5, 5, 0),),
    ),
    Turn(
        "a_junction_at_the_end_of_a_block",
        ("SPLIT-STOP-4",),
        SPLITS,
        (prompt("r30", 30),),
        (Split("r30", 0, 30, 30, 11),),
        (Split("r30", 0, 30, 30, 12),),
    ),
    Turn(
        "a_junction_before_and_past_the_last_state",
        ("SPLIT-EARLIEST-1",),
        SPLITS,
        (prompt("r30", 30),),
        (Split("r30", 0, 30, 30, 18),),
        (Split("r30", 0, 30, 30, 30),),
    ),
)

LIMITS = (*_HITS, *_SPLITS)
