"""Vectors for the limits that clauses name: what lies just inside is accepted, what lies just outside is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvproof.conformance.backends.views import view, view_of_result
from kvproof.conformance.backends.wire import PARTS
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Append,
    Attach,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Copy,
    Evict,
    Extra,
    Free,
    FullKey,
    Hashes,
    KeyRef,
    Lookup,
    Operation,
    Read,
    Rollback,
    Touch,
    Truncate,
    Write,
)
from kvproof.conformance.vectors.tape import Said, Tape
from kvproof.conformance.world import World
from kvproof.spec.errors import PoolError
from kvproof.spec.vocabulary import MAX_TOKEN, CommitMode, GroupConfig, GroupKind, HolderMode, PoolConfig

ATTENTION = GroupConfig(GroupKind.FULL_ATTENTION, 4)
POOL = PoolConfig(5, 2, (ATTENTION, GroupConfig(GroupKind.RECURRENT, 8)))
ANONYMOUS = PoolConfig(5, 2, (ATTENTION,), holders=HolderMode.CALLER)
STEPS = PoolConfig(5, 2, (ATTENTION,), commit=CommitMode.STEPS)

R1 = AddRequest("r1", (1, 2, 3, 4, 5, 6, 7, 8, 9))
H4 = KeyRef("r1", 0, 4)


@dataclass(frozen=True, slots=True)
class Limit:
    """After `before`, everything `outside` is refused and then everything `inside`, in turn, accepted."""

    what: str
    clauses: tuple[str, ...]
    config: PoolConfig
    before: tuple[Operation, ...]
    outside: tuple[Operation, ...]
    inside: tuple[Operation, ...]

    @property
    def name(self) -> str:
        """The vector's name."""
        return f"limits/{self.what}"


def _tokens(token: int) -> tuple[Operation, ...]:
    return AddRequest(f"r{token}", (token, 1)), Append("r1", (token, 1))


def _extra(name: str, start: int, end: int) -> Operation:
    return AddRequest(name, (1, 2), (Extra("media", "cat", start, end),))


def _slots(first: int, last: int, mask: tuple[bool, ...] | None = None) -> Operation:
    return CacheFullBlocks("r1", (1, 2), first, last, 0, mask)


TWO_SLOTS = (R1, Allocate("r1", 2), Write("r1", 1, 4, 0), Write("r1", 2, 8, 0))
FILLED = (*TWO_SLOTS, CacheFullBlocks("r1", (1, 2), 0, 2, 0))
THREE_ANONYMOUS = (
    *(R1, Allocate(None, 1), Write("r1", 1, 4, 0), CachePartialBlock("r1", 1, 4, 0)),
    *(Touch(None, 1, H4), Touch(None, 1, H4)),
)

LIMITS = (
    Limit(
        "tokens",
        ("HASH-TOKEN-1", "REQ-APPEND-1"),
        POOL,
        (R1,),
        (*_tokens(-1), *_tokens(MAX_TOKEN + 1)),
        (*_tokens(0), *_tokens(MAX_TOKEN), Hashes("r1"), Hashes("r0"), Hashes(f"r{MAX_TOKEN}")),
    ),
    Limit(
        "extra_keys_cover_at_least_one_token",
        ("HASH-EXTRA-2",),
        POOL,
        (),
        (_extra("r1", -1, 1), _extra("r1", 1, 1)),
        (_extra("r1", 0, 1), _extra("r2", 1, 2), Hashes("r1"), Hashes("r2")),
    ),
    Limit(
        "truncation",
        ("REQ-TRUNCATE-1",),
        POOL,
        (R1,),
        (Truncate("r1", -1), Truncate("r1", 10)),
        (Truncate("r1", 9), Hashes("r1"), Truncate("r1", 0), Hashes("r1")),
    ),
    Limit(
        "positions_of_keys",
        ("POS-ALIGN-1", "REG-PARTIAL-1"),
        POOL,
        (R1, Allocate("r1", 2), Write("r1", 1, 4, 0), Write("r1", 2, 8, 0)),
        tuple(CachePartialBlock("r1", 1, position, 0) for position in (-2, 0, 1, 3, 9, 10)),
        (CachePartialBlock("r1", 1, 2, 0), CachePartialBlock("r1", 2, 8, 0)),
    ),
    Limit(
        "positions_of_a_blocks_slot",
        ("REG-SLOT-1", "POS-SLOT-1"),
        POOL,
        (R1, Allocate("r1", 1), Write("r1", 1, 6, 0), CachePartialBlock("r1", 1, 6, 0)),
        (Write("r1", 1, 9, 0), CachePartialBlock("r1", 1, 4, 0), Write("r1", 1, 8, 1)),
        (Write("r1", 1, 7, 0), Write("r1", 1, 8, 0), CachePartialBlock("r1", 1, 8, 0)),
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
        "groups",
        ("ERR-TYPE-1",),
        POOL,
        (R1, Allocate("r1", 2)),
        (Write("r1", 1, 4, -1), Write("r1", 1, 4, 2), Lookup((KeyRef("r1", 2, 4),)), Lookup((KeyRef("r1", -1, 4),))),
        (Write("r1", 1, 4, 0), Write("r1", 2, 4, 1), Lookup((H4, KeyRef("r1", 1, 4)))),
    ),
    Limit(
        "block_ids",
        ("ERR-TYPE-1", "POOL-NULL-1"),
        POOL,
        FILLED,
        (FullKey(-1), FullKey(5), Evict((1, 5)), Free("r1", (1, -1)), Evict((0,)), Write("r1", 0, 4, 0)),
        (FullKey(0), FullKey(4), Evict((1, 4)), Free("r1", (0, 1))),
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
        "releases",
        ("POOL-FREE-4",),
        POOL,
        FILLED,
        (Free("r1", (1, 1)), Free("r1", (3,)), Free("r2", (1,))),
        (Free("r1", (1, 2)),),
    ),
    Limit(
        "anonymous_releases",
        ("POOL-FREE-5", "POOL-FREE-4"),
        ANONYMOUS,
        THREE_ANONYMOUS,
        (Free(None, (1, 1, 1, 1)), Free(None, (2,))),
        (Free(None, (1, 1)), Free(None, (1,))),
    ),
    Limit(
        "slots_of_a_range",
        ("REG-FULL-4",),
        POOL,
        TWO_SLOTS,
        (
            *(_slots(-1, 1), _slots(0, 3), _slots(2, 1), _slots(3, 3)),
            *(_slots(0, 2, (True,)), _slots(0, 2, (True, True, True)), _slots(1, 1, (True,))),
            CacheFullBlocks("r1", (1, 1), 0, 2, 0),
            CacheFullBlocks("r1", (1, 2, 0), 0, 3, 0),
        ),
        (_slots(2, 2), _slots(0, 0, ()), CacheFullBlocks("r1", (0, 0), 0, 2, 0), _slots(0, 2, (True, True))),
    ),
    Limit(
        "a_free_block_of_an_anonymous_pool",
        ("REG-OWNER-2",),
        ANONYMOUS,
        (R1, Allocate(None, 1), Write("r1", 1, 4, 0), CachePartialBlock("r1", 1, 2, 0), Free(None, (1,))),
        (CachePartialBlock("r1", 1, 4, 0), CachePartialBlock("r1", 1, 4, 0, True), CachePartialBlock("r1", 2, 4, 0)),
        (CachePartialBlock("r1", 1, 2, 0), Touch(None, 1, KeyRef("r1", 0, 2)), CachePartialBlock("r1", 1, 4, 0)),
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
        "a_copy_to_a_block_that_another_request_writes",
        ("CONTENT-COPY-2",),
        STEPS,
        (
            *(R1, AddRequest("r2", (1, 2, 3, 4)), BeginStep(), Allocate("r2", 1), Allocate("r1", 2)),
            *(Write("r2", 1, 4, 0), CachePartialBlock("r2", 1, 4, 0), Attach("r1", 1, H4), Rollback(("r2",))),
            *(Write("r1", 2, 4, 0), Commit(1), BeginStep()),
        ),
        (Copy("r1", 2, 1),),
        (Copy("r1", 2, 3), Commit(2)),
    ),
    Limit(
        "steps",
        ("STEP-COMMIT-2", "STEP-OPEN-1"),
        STEPS,
        (BeginStep(), BeginStep(), BeginStep(), Commit(1)),
        (Commit(0), Commit(-1), Commit(1), Commit(3), Commit(4)),
        (Commit(2), Commit(3), BeginStep(), Commit(4)),
    ),
    Limit(
        "an_open_step",
        ("STEP-OPEN-2",),
        STEPS,
        (R1, BeginStep(), *TWO_SLOTS[1:], _slots(0, 1), Commit(1)),
        (Allocate("r1", 1), Write("r1", 2, 8, 0), _slots(1, 2), Touch("r2", 1, H4), Copy("r1", 1, 2)),
        (BeginStep(), Allocate("r1", 1), Write("r1", 2, 8, 0), _slots(1, 2), Touch("r2", 1, H4), Copy("r1", 1, 3)),
    ),
)


class WrongLimit(Exception):
    """The reference draws a limit elsewhere; the text says where."""


def limit_tapes() -> Iterator[tuple[Limit, Tape]]:
    """What the reference says to each limit; raises `WrongLimit`."""
    for limit in LIMITS:
        world = World(limit.config)
        tape = Tape(limit.config, world.pool.hasher, None, asks_hashes=False)
        refused = [False] * len(limit.before) + [True] * len(limit.outside) + [False] * len(limit.inside)
        for operation, is_refused in zip((*limit.before, *limit.outside, *limit.inside), refused, strict=True):
            tape.said.append(_said(world, operation))
            if (tape.said[-1].error is not None) != is_refused:
                raise WrongLimit(f"{limit.name}: {operation} should be {'refused' if is_refused else 'accepted'}")
        yield limit, tape


def _said(world: World, operation: Operation) -> Said:
    try:
        result, error = view_of_result(operation, world.apply(operation)), None
    except PoolError as refusal:
        result, error = None, type(refusal).__name__
    return Said(operation, result, error, view(world.state, PARTS))
