"""Limits of chapters 30, 40, 60 and 90: blocks, references, lookup, removal, arguments."""

from __future__ import annotations

from dataclasses import replace

from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Evict,
    Free,
    FullKey,
    KeyRef,
    Lookup,
    Move,
    Reset,
    Touch,
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
    Limit,
    Turn,
    key,
    partial,
    put,
)

THREE_ANONYMOUS = (R1, Allocate(None, 1), *put(1, 4), Touch(None, 1, H4), Touch(None, 1, H4))

_MOVABLE = (
    *(R1, AddRequest("r2", R1.tokens), Allocate("r1", 5)),
    *(*put(1, 4), *put(3, 8), *put(4, 4), Touch("r2", 4, H4), *put(5, 8), Evict((4, 5))),
)
"""Block 1 has a key, 2 is r1's and blank, 3 has a key, 4 is read by r2, 5 is of another slot, 6 is free."""

LIMITS = (
    Limit(
        "the_pool_of_the_null_block_alone",
        ("POOL-INIT-1", "POOL-ALLOC-3"),
        replace(POOL, num_blocks=1),
        (),
        (Allocate("r1", 1), FullKey(1)),
        (Allocate("r1", 0), FullKey(0)),
    ),
    Limit(
        "the_pool_of_one_block_to_give",
        ("POOL-INIT-1", "POOL-ALLOC-3"),
        replace(POOL, num_blocks=2),
        (),
        (Allocate("r1", 2), FullKey(2)),
        (Allocate("r1", 1), FullKey(1)),
    ),
    Limit(
        "a_holder_holds_a_block_once",
        ("POOL-HOLDER-1",),
        POOL,
        SHARED,
        (Touch("r1", 1, H4), Touch("r2", 1, H4)),
        (Touch("r3", 1, H4), Free("r2", (1,)), Touch("r2", 1, H4)),
    ),
    Limit(
        "a_writer_until_it_frees",
        ("POOL-WRITER-1",),
        POOL,
        (*FILLED, Free("r1", (1,)), Touch("r1", 1, H4)),
        (Write("r1", 1, 4, 0), partial(1, 2)),
        (Write("r1", 2, 8, 0),),
    ),
    Limit(
        "anonymous_and_named_holders",
        ("POOL-HOLDER-2",),
        ANONYMOUS,
        (),
        (Allocate("r1", 1),),
        (Allocate(None, 1),),
    ),
    Limit(
        "how_many_blocks_are_free",
        ("POOL-ALLOC-3",),
        POOL,
        (),
        (Allocate("r1", -1), Allocate("r1", 5)),
        (Allocate("r1", 0), Allocate("r1", 4), Allocate("r1", 0)),
    ),
    Limit(
        "no_block_is_free", ("POOL-ALLOC-3",), POOL, (Allocate("r1", 4),), (Allocate("r1", 1),), (Allocate("r1", 0),)
    ),
    Limit(
        "a_key_that_the_block_has",
        ("POOL-TOUCH-2",),
        POOL,
        FILLED,
        (Touch("r2", 1, key(8)), Touch("r2", 1, key(2)), Touch("r2", 3, H4)),
        (Touch("r2", 1, H4),),
    ),
    Limit(
        "the_last_reference",
        ("POOL-FREE-1",),
        POOL,
        (*SHARED, Free("r1", (2, 1)), Allocate("r3", 3)),
        (Allocate("r3", 1),),
        (Free("r2", (1,)), Allocate("r3", 1)),
    ),
    Turn(
        "a_freed_block_until_it_is_reallocated",
        ("POOL-FREE-6", "POOL-ALLOC-2"),
        POOL,
        (*FILLED, Free("r1", (2, 1))),
        (Allocate("r2", 3), Lookup((H4,))),
        (Allocate("r2", 1), Lookup((H4,))),
    ),
    Limit(
        "releases",
        ("POOL-FREE-4",),
        POOL,
        FILLED,
        (Free("r1", (1, 1)), Free("r1", (3,)), Free("r2", (1,))),
        (Free("r1", ()), Free("r1", (1, 2))),
    ),
    Limit(
        "anonymous_releases",
        ("POOL-FREE-5", "POOL-FREE-4"),
        ANONYMOUS,
        THREE_ANONYMOUS,
        (Free(None, (1, 1, 1, 1)), Free(None, (2,))),
        (Free(None, (1, 1)), Free(None, (1,))),
    ),
    Turn(
        "the_last_block_of_a_key",
        ("POOL-LOOKUP-1", "INDEX-SIBLING-1", "INDEX-TWOWAY-1"),
        POOL,
        (*FILLED, AddRequest("r2", R1.tokens), Allocate("r2", 1), *put(3, 4, "r2")),
        (Evict((1,)), Lookup((H4,))),
        (Evict((3,)), Lookup((H4,))),
    ),
    Limit(
        "what_is_moved_and_where_to",
        ("POOL-MOVE-3",),
        replace(POOL, num_blocks=7),
        _MOVABLE,
        (Move(2, 4), Move(1, 1), Move(1, 3), Move(1, 4), Move(1, 5), Move(1, 6), Move(0, 2), Move(1, 0)),
        (Move(1, 2),),
    ),
    Limit(
        "a_reset_while_one_block_is_in_use",
        ("POOL-RESET-2", "POOL-RESET-1"),
        POOL,
        (*SHARED, Free("r1", (2, 1))),
        (Reset(),),
        (Free("r2", (1,)), Reset()),
    ),
    Limit(
        "groups",
        ("ERR-TYPE-1",),
        POOL,
        (R1, Allocate("r1", 2)),
        (Write("r1", 1, 4, -1), Write("r1", 1, 4, 2), Lookup((KeyRef("r1", 2, 4),)), Lookup((KeyRef("r1", -1, 4),))),
        (Write("r1", 1, 4, 0), Write("r1", 2, 4, 1), Lookup((H4, KeyRef("r1", 1, 4))), Lookup(())),
    ),
    Limit(
        "block_ids",
        ("ERR-TYPE-1", "POOL-NULL-1"),
        POOL,
        FILLED,
        (
            *(FullKey(-1), FullKey(5), Evict((1, 5)), Free("r1", (1, -1)), Evict((0,))),
            *(Write("r1", 0, 4, 0), partial(0, 4), Move(1, 0), Move(0, 1)),
        ),
        (FullKey(0), FullKey(4), Touch("r2", 0, H4), Evict(()), Evict((1, 4)), Free("r1", (0, 1))),
    ),
    Limit(
        "names",
        ("ERR-TYPE-1",),
        POOL,
        (R2,),
        (AddRequest("", (1, 2)), Allocate("", 1), Free("", ())),
        (AddRequest("r", (1, 2)), Allocate("r", 1), Free("r", ())),
    ),
)
