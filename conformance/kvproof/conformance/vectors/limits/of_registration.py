"""Limits of chapters 50, 70 and 80: registration, content, events."""

from __future__ import annotations

from dataclasses import replace

from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Append,
    CacheFullBlocks,
    CachePartialBlock,
    Contains,
    Copy,
    Evict,
    Free,
    Operation,
    Read,
    Touch,
    Truncate,
    Write,
)
from kvproof.conformance.vectors.limits.kinds import (
    ANONYMOUS,
    FILLED,
    H4,
    POOL,
    R1,
    R2,
    SHARED,
    TWELVE,
    TWO_SLOTS,
    WIDE_POOL,
    Limit,
    Turn,
    full,
    image,
    key,
    partial,
    put,
)

_STATE = (R1, Allocate("r1", 1), *put(1, 4, group=1))
"""Block 1 holds the state of r1 at 4 and has its key."""

_STATE_WITH_A_READER = (*_STATE, Touch("r2", 1, key(4, group=1)), Evict((1,)))


_BOTH_WRITE = (Write("r1", 1, 4, 0), Write("r2", 2, 4, 0))


def _three_slots(request: str, blocks: tuple[int, ...]) -> tuple[Operation, ...]:
    writes = (Write(request, block, 4 * slot, 0) for slot, block in enumerate(blocks, 1))
    return Allocate(request, 3), *writes


def _eight_with_an_image(request: str, blocks: tuple[int, int], end: int) -> tuple[Operation, ...]:
    return (
        *(AddRequest(request, R1.tokens[:8], (image(0, end),)), Allocate(request, 2)),
        *(Write(request, blocks[0], 4, 0), Write(request, blocks[1], 8, 0)),
        CacheFullBlocks(request, blocks, 0, 1, 0),
    )


LIMITS = (
    Limit(
        "positions_of_a_blocks_slot",
        ("REG-SLOT-1", "POS-SLOT-1"),
        POOL,
        (R1, Allocate("r1", 1), *put(1, 6)),
        (Write("r1", 1, 9, 0), partial(1, 4), Write("r1", 1, 8, 1)),
        (Write("r1", 1, 7, 0), *put(1, 8)),
    ),
    Limit(
        "a_free_block_of_an_anonymous_pool",
        ("REG-OWNER-2",),
        ANONYMOUS,
        (R1, Allocate(None, 1), Write("r1", 1, 4, 0), partial(1, 2), Free(None, (1,))),
        (partial(1, 4), CachePartialBlock("r1", 1, 4, 0, True), partial(2, 4)),
        (partial(1, 2), Touch(None, 1, key(2)), partial(1, 4)),
    ),
    Limit(
        "a_free_block",
        ("REG-OWNER-2", "CONTENT-WRITE-3"),
        POOL,
        (R1,),
        put(1, 4),
        (Allocate("r1", 1), *put(1, 4)),
    ),
    Limit(
        "readers_and_the_writer_register",
        ("REG-OWNER-1",),
        POOL,
        (
            R1,
            AddRequest("r2", R1.tokens),
            Allocate("r1", 1),
            Write("r1", 1, 4, 0),
            partial(1, 2),
            Touch("r2", 1, key(2)),
        ),
        (partial(1, 4, "r2"),),
        (partial(1, 4),),
    ),
    Limit(
        "a_key_beyond_the_hashed_tokens",
        ("REG-CONFLICT-1",),
        WIDE_POOL,
        (R1, Allocate("r1", 1), *put(1, 6), Truncate("r1", 5)),
        (partial(1, 4),),
        (Append("r1", (6,)), partial(1, 4)),
    ),
    Turn(
        "slots_inside_and_outside_the_range",
        ("REG-FULL-1",),
        POOL,
        (TWELVE, *_three_slots("r12", (1, 2, 3)), CacheFullBlocks("r12", (1, 2, 3), 1, 2, 0)),
        (Contains(key(4, "r12"), 1), Contains(key(12, "r12"), 3)),
        (Contains(key(8, "r12"), 2),),
    ),
    Limit(
        "slots_of_a_range",
        ("REG-FULL-4",),
        POOL,
        TWO_SLOTS,
        (
            *(full(-1, 1), full(0, 3), full(2, 1), full(3, 3)),
            *(full(0, 2, (True,)), full(0, 2, (True, True, True)), full(1, 1, (True,))),
            CacheFullBlocks("r1", (1, 1), 0, 2, 0),
            CacheFullBlocks("r1", (1, 2, 0), 0, 3, 0),
        ),
        (full(2, 2), full(0, 0, ()), CacheFullBlocks("r1", (0, 0), 0, 2, 0), full(0, 2, (True, True))),
    ),
    Turn(
        "keys_beyond_and_below_the_longest",
        ("REG-PARTIAL-3", "REG-PARTIAL-4"),
        WIDE_POOL,
        (R1, Allocate("r1", 2), Write("r1", 1, 6, 0), Write("r1", 2, 6, 0)),
        (partial(1, 4), partial(1, 6), Contains(H4, 1)),
        (partial(2, 6), partial(2, 4), Contains(H4, 2)),
    ),
    Turn(
        "keys_below_a_full_and_a_partial_one",
        ("REG-PARTIAL-5", "REG-PARTIAL-4"),
        WIDE_POOL,
        (R1, Allocate("r1", 2), Write("r1", 1, 8, 0), Write("r1", 2, 6, 0)),
        (partial(1, 8), partial(1, 6), Contains(key(6), 1)),
        (partial(2, 6), partial(2, 4), Contains(H4, 2)),
    ),
    Limit(
        "keys_of_a_state",
        ("REG-RECURRENT-1",),
        POOL,
        _STATE,
        tuple(partial(1, position, group=1) for position in (2, 6, 8)),
        (partial(1, 4, group=1), Evict((1,)), *put(1, 6, group=1)),
    ),
    Limit(
        "positions_of_content",
        ("CONTENT-WRITE-3",),
        POOL,
        (R1, Allocate("r1", 2)),
        (Write("r1", 1, -1, 0), Write("r1", 1, 0, 0), Write("r1", 1, 10, 0)),
        (Write("r1", 1, 1, 0), Write("r1", 2, 9, 0)),
    ),
    Limit(
        "rows_that_a_key_covers",
        ("CONTENT-WRITE-1",),
        POOL,
        (R1, Allocate("r1", 1), Write("r1", 1, 3, 0), partial(1, 2)),
        (Write("r1", 1, 1, 0),),
        (Write("r1", 1, 2, 0), Write("r1", 1, 3, 0)),
    ),
    Limit(
        "rows_that_a_reader_was_served",
        ("CONTENT-WRITE-1",),
        POOL,
        (*SHARED, Evict((1,))),
        (Write("r1", 1, 3, 0),),
        (Write("r1", 1, 4, 0), Free("r2", (1,)), Write("r1", 1, 3, 0)),
    ),
    Limit(
        "a_state_with_a_key",
        ("CONTENT-WRITE-2",),
        POOL,
        _STATE,
        (Write("r1", 1, 4, 1), Write("r1", 1, 5, 1)),
        (Evict((1,)), Write("r1", 1, 5, 1)),
    ),
    Limit(
        "a_state_with_a_reader",
        ("CONTENT-WRITE-2",),
        POOL,
        _STATE_WITH_A_READER,
        (Write("r1", 1, 4, 1), Write("r1", 1, 5, 1)),
        (Free("r2", (1,)), Write("r1", 1, 5, 1)),
    ),
    Limit(
        "copies",
        ("CONTENT-COPY-2",),
        POOL,
        (R1, Allocate("r1", 2), Allocate("r2", 1), Write("r1", 1, 4, 0)),
        (Copy("r1", 1, 1), Copy("r1", 1, 3), Copy("r1", 1, 4), Copy("r2", 1, 3), Copy("r1", 0, 2), Copy("r1", 1, 0)),
        (Copy("r1", 1, 2), Read("r1", 2)),
    ),
    Limit(
        "a_copy_to_a_block_with_a_key",
        ("CONTENT-COPY-2",),
        POOL,
        FILLED,
        (Copy("r1", 1, 2),),
        (Evict((2,)), Copy("r1", 1, 2)),
    ),
    Limit(
        "holders_read",
        ("CONTENT-READ-1",),
        POOL,
        FILLED,
        (Read("r2", 1), Read("r1", 3), Read("r1", 0)),
        (Read("r1", 1), Touch("r2", 1, H4), Read("r2", 1)),
    ),
    Turn(
        "the_first_and_the_second_copy",
        ("EVENT-RESIDENCY-1", "EVENT-STORED-3"),
        POOL,
        (R1, AddRequest("r2", R1.tokens), Allocate("r1", 1), Allocate("r2", 1), *_BOTH_WRITE),
        (partial(1, 4),),
        (partial(2, 4, "r2"),),
    ),
    Turn(
        "the_last_copy_and_the_one_before",
        ("EVENT-RESIDENCY-1", "EVENT-REMOVED-1"),
        POOL,
        (*FILLED, AddRequest("r2", R1.tokens), Allocate("r2", 1), *put(3, 4, "r2")),
        (Evict((1,)),),
        (Evict((3,)),),
    ),
    Turn(
        "an_event_has_at_least_one_hash",
        ("EVENT-STORED-1", "REG-FULL-2"),
        POOL,
        TWO_SLOTS,
        (full(0, 2, (False, False)),),
        (full(0, 2, (False, True)),),
    ),
    Turn(
        "extra_keys_that_cover_a_token_of_the_event",
        ("EVENT-STORED-2",),
        POOL,
        (*_eight_with_an_image("r1", (1, 2), 4), *_eight_with_an_image("r2", (3, 4), 5)),
        (CacheFullBlocks("r1", (1, 2), 1, 2, 0),),
        (CacheFullBlocks("r2", (3, 4), 1, 2, 0),),
    ),
    Turn(
        "runs_with_and_without_a_gap",
        ("EVENT-STORED-4",),
        replace(POOL, num_blocks=7),
        (
            *(TWELVE, AddRequest("other", tuple(range(20, 32)))),
            *(*_three_slots("r12", (1, 2, 3)), *_three_slots("other", (4, 5, 6))),
        ),
        (CacheFullBlocks("r12", (1, 2, 3), 0, 3, 0, (True, False, True)),),
        (CacheFullBlocks("other", (4, 5, 6), 0, 3, 0),),
    ),
    Turn(
        "a_parent_or_none",
        ("EVENT-PARENT-1",),
        POOL,
        (*FILLED, R2, Allocate("r2", 2), Write("r2", 3, 4, 0), Write("r2", 4, 8, 0), Evict((2,))),
        (full(1, 2),),
        (CacheFullBlocks("r2", (3, 4), 1, 2, 0),),
    ),
)
