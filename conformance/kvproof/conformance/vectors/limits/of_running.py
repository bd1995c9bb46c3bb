"""Limits of chapter 88: how requests of hybrid models are admitted, go on, keep their states and go back."""

from __future__ import annotations

from kvproof.conformance.operations import (
    Admit,
    Advance,
    Append,
    BeginStep,
    Commit,
    Fail,
    Lookup,
    Operation,
    Release,
    Rollback,
    Split,
    Touch,
    Truncate,
)
from kvproof.conformance.vectors.limits.hybrid_kinds import (
    BOTH,
    OTHERS,
    ROWS,
    SPLITS,
    STATE,
    STATES,
    pool,
    prompt,
    request,
    there,
)
from kvproof.conformance.vectors.limits.kinds import ATTENTION, WINDOW, Limit, Turn, key
from kvproof.spec.vocabulary import HybridConfig, Retention

NINE = request("r1", 9)


def _step(number: int, *operations: Operation) -> tuple[Operation, ...]:
    """A step with these operations, and its commit."""
    return BeginStep(), *operations, Commit(number)


_TWO_STATES: tuple[Operation, ...] = (
    *(request("r1", 7), request("r2", 7, OTHERS)),
    *_step(1, Admit("r1", 4), Admit("r2", 4)),
)
"""Each of two requests has a state with its key at 6; they have no key at 5."""

_ADMISSION = (
    Limit(
        "where_a_first_chunk_ends",
        ("ADMIT-RANGE-1",),
        ROWS,
        (*there((0, 4)), NINE, request("r2", 9), BeginStep()),
        (Admit("r1", 4), Admit("r1", 10)),
        (Admit("r1", 5), Admit("r2", 9)),
    ),
    Limit(
        "a_request_that_runs_already",
        ("ADMIT-RANGE-1",),
        ROWS,
        (NINE, *_step(1, Admit("r1", 4)), BeginStep()),
        (Admit("r1", 8),),
        (Release("r1"), Admit("r1", 8)),
    ),
    Limit(
        "blocks_that_a_first_chunk_takes",
        ("ADMIT-ATOMIC-1",),
        pool(ATTENTION, STATE, blocks=4),
        (NINE, BeginStep()),
        (Admit("r1", 9),),
        (Admit("r1", 8),),
    ),
    Limit(
        "blocks_besides_those_that_are_hit",
        ("ADMIT-ATOMIC-1",),
        pool(ATTENTION, blocks=4),
        (*there((0, 4), (0, 6)), NINE, BeginStep()),
        (Admit("r1", 9),),
        (Admit("r1", 8),),
    ),
    Turn(
        "a_hit_at_the_end_of_a_block_and_inside",
        ("ADMIT-COPY-1", "ADMIT-SHARE-1"),
        ROWS,
        (*there((0, 4), (0, 6)), request("r6", 6), request("r7", 7), BeginStep()),
        (Admit("r6", 6),),
        (Admit("r7", 7),),
    ),
    Turn(
        "slots_of_a_first_chunk",
        ("ADMIT-FRESH-1",),
        ROWS,
        (NINE, request("r2", 9, OTHERS), BeginStep()),
        (Admit("r1", 4),),
        (Admit("r2", 5),),
    ),
)

_GOING_ON = (
    Limit(
        "where_the_next_chunk_ends",
        ("ADVANCE-RANGE-1",),
        ROWS,
        (NINE, request("r2", 9, OTHERS), *_step(1, Admit("r1", 4)), BeginStep()),
        (Advance("r1", 4), Advance("r1", 10), Advance("r2", 5)),
        (Advance("r1", 5), BeginStep(), Advance("r1", 9)),
    ),
    Limit(
        "one_chunk_in_a_step",
        ("ADVANCE-ONCE-1",),
        ROWS,
        (NINE, BeginStep(), Admit("r1", 4)),
        (Advance("r1", 5),),
        (BeginStep(), Advance("r1", 5)),
    ),
    Limit(
        "blocks_that_the_next_chunk_takes",
        ("ADVANCE-ATOMIC-1",),
        pool(ATTENTION, blocks=3),
        (NINE, *_step(1, Admit("r1", 4)), BeginStep()),
        (Advance("r1", 9),),
        (Advance("r1", 8),),
    ),
    Turn(
        "slots_of_the_next_chunk",
        ("ADVANCE-ATTENTION-1",),
        ROWS,
        (NINE, *_step(1, Admit("r1", 4))),
        (BeginStep(), Advance("r1", 8)),
        (BeginStep(), Advance("r1", 9)),
    ),
    Turn(
        "the_slot_of_the_state",
        ("ADVANCE-STATE-1",),
        STATES,
        (NINE, *_step(1, Admit("r1", 5))),
        (BeginStep(), Advance("r1", 8)),
        (BeginStep(), Advance("r1", 9)),
    ),
    Turn(
        "rows_before_the_window",
        ("ADVANCE-LETGO-1",),
        pool(WINDOW),
        (request("r1", 12), *_step(1, Admit("r1", 8))),
        (BeginStep(), Advance("r1", 9)),
        (Commit(2), BeginStep(), Advance("r1", 10)),
    ),
    Turn(
        "a_state_with_a_key_moves",
        ("ADVANCE-MOVE-1",),
        STATES,
        (*_TWO_STATES, *_step(2, Advance("r1", 6), Advance("r2", 5)), BeginStep()),
        (Advance("r2", 7), Lookup((key(6, "r2"),))),
        (Advance("r1", 7), Commit(3), Lookup((key(6),))),
    ),
    Turn(
        "a_state_that_somebody_reads_is_copied",
        ("ADVANCE-COPY-1",),
        STATES,
        (*_TWO_STATES, *_step(2, Advance("r1", 6), Advance("r2", 6)), BeginStep(), Touch("reader", 3, key(6))),
        (Advance("r2", 7),),
        (Advance("r1", 7),),
    ),
    Turn(
        "a_slot_that_the_chunk_fills",
        ("ADVANCE-FULL-1",),
        ROWS,
        (NINE, BeginStep(), Admit("r1", 3)),
        (Commit(1),),
        _step(2, Advance("r1", 4)),
    ),
    Turn(
        "a_chunk_that_reaches_the_tail",
        ("ADVANCE-TAIL-1",),
        ROWS,
        (request("r1", 7), request("r2", 9, OTHERS), *_step(1, Admit("r1", 4), Admit("r2", 4))),
        _step(2, Advance("r2", 6)),
        _step(3, Advance("r1", 6)),
    ),
)

_KEPT = (
    Turn(
        "the_last_state_is_kept",
        ("ADVANCE-KEEP-1", "RETAIN-LAST-1"),
        pool(STATE, hybrid=HybridConfig(retention=Retention.LAST)),
        (NINE, BeginStep(), Admit("r1", 4)),
        (Commit(1),),
        _step(2, Advance("r1", 8)),
    ),
    Turn(
        "the_state_at_the_junction_is_kept",
        ("RETAIN-JUNCTION-1",),
        BOTH,
        (*there((0, 4), (0, 8)), request("r20", 20), BeginStep(), Admit("r20", 4)),
        (Commit(2),),
        _step(3, Advance("r20", 8)),
    ),
    Turn(
        "states_at_block_ends_are_kept",
        ("RETAIN-BOUNDARIES-1",),
        pool(STATE, hybrid=HybridConfig(retention=Retention.BOUNDARIES)),
        (request("r20", 20), BeginStep(), Admit("r20", 6)),
        (Commit(1),),
        _step(2, Advance("r20", 8)),
    ),
    Turn(
        "states_at_intervals_are_kept",
        ("RETAIN-INTERVAL-1",),
        pool(STATE, hybrid=HybridConfig(retention=Retention.INTERVAL, interval=8)),
        (request("r20", 20), BeginStep(), Admit("r20", 4)),
        (Commit(1),),
        _step(2, Advance("r20", 8)),
    ),
)

_NINE_ROWS = (NINE, *_step(1, Admit("r1", 9)))
"""r1 is settled at 9 in the blocks 1 to 3; keys stand at 4 and 8."""

_BACK = (
    Limit(
        "what_runs_is_released",
        ("RELEASE-2",),
        ROWS,
        (NINE, request("r2", 9), *_step(1, Admit("r1", 4))),
        (Release("r2"),),
        (Release("r1"),),
    ),
    Limit(
        "what_is_settled_survives_a_rollback",
        ("BACK-ROLLBACK-1",),
        ROWS,
        (
            *(NINE, request("r2", 9, OTHERS), *_step(1, Admit("r1", 4))),
            *(BeginStep(), Advance("r1", 8), Admit("r2", 4), Rollback(("r1", "r2"))),
        ),
        (Advance("r2", 8),),
        (Advance("r1", 8),),
    ),
    Turn(
        "a_prompt_is_what_came_first",
        ("BACK-PROMPT-1",),
        SPLITS,
        (prompt("all", 17), prompt("begun", 13), Append("begun", (1,) * 4)),
        (Split("begun", 12, 5, 5, 0),),
        (Split("all", 12, 5, 5, 0),),
    ),
    Limit(
        "what_is_in_flight_is_not_truncated",
        ("BACK-TRUNCATE-1",),
        ROWS,
        (NINE, BeginStep(), Admit("r1", 9)),
        (Truncate("r1", 8),),
        (Commit(1), Truncate("r1", 8)),
    ),
    Limit(
        "a_cut_below_a_key",
        ("BACK-CUT-1", "BACK-CUT-3"),
        ROWS,
        _NINE_ROWS,
        (Truncate("r1", 7),),
        (Truncate("r1", 8), BeginStep(), Truncate("r1", 7)),
    ),
    Limit(
        "a_cut_until_its_commit",
        ("BACK-CUT-2",),
        ROWS,
        (*_NINE_ROWS, BeginStep(), Truncate("r1", 7)),
        (Truncate("r1", 6),),
        (Commit(2), Truncate("r1", 6)),
    ),
)

_FAILED = (
    Limit(
        "which_step_may_fail",
        ("BACK-FAIL-1",),
        ROWS,
        (NINE, request("r2", 9, OTHERS), BeginStep(), Admit("r1", 4), BeginStep(), Admit("r2", 4)),
        (Fail(0), Fail(2), Fail(3)),
        (Fail(1), Fail(2)),
    ),
    Turn(
        "who_fails_with_a_step",
        ("BACK-FAIL-2", "BACK-FAIL-4"),
        ROWS,
        (NINE, request("r2", 9, OTHERS), BeginStep(), Admit("r1", 4), BeginStep(), Admit("r2", 4)),
        (Fail(1), Commit(2), Lookup((key(4), key(4, "r2")))),
        (*_step(3, Admit("r1", 4)), Lookup((key(4), key(4, "r2")))),
    ),
    Turn(
        "a_key_moved_in_a_step_that_fails",
        ("BACK-FAIL-3",),
        STATES,
        (*_TWO_STATES, *_step(2, Advance("r1", 6), Advance("r2", 5)), BeginStep(), Advance("r1", 7)),
        (Fail(3), Lookup((key(6),))),
        (*_step(4, Admit("r1", 6)), *_step(5, Advance("r1", 7)), Lookup((key(6),))),
    ),
)

LIMITS = (*_ADMISSION, *_GOING_ON, *_KEPT, *_BACK, *_FAILED)
