"""Limits of chapters 10 and 20: positions, hashes and requests."""

from __future__ import annotations

from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Append,
    Evict,
    Extra,
    FullKey,
    Hashes,
    Operation,
    Truncate,
    Write,
)
from kvproof.conformance.vectors.limits.kinds import POOL, R1, Limit, Turn, image, partial, put
from kvproof.spec.vocabulary import MAX_TOKEN


def _tokens(token: int) -> tuple[Operation, ...]:
    return AddRequest(f"r{token}", (token, 1)), Append("r1", (token, 1))


def _covered(name: str, start: int, end: int) -> Operation:
    return AddRequest(name, (1, 2), (image(start, end),))


LIMITS = (
    Limit(
        "positions_of_keys",
        ("POS-ALIGN-1", "REG-PARTIAL-1"),
        POOL,
        (R1, Allocate("r1", 2), Write("r1", 1, 4, 0), Write("r1", 2, 8, 0)),
        tuple(partial(1, position) for position in (-2, 0, 1, 3, 9, 10)),
        (partial(1, 2), partial(2, 8)),
    ),
    Limit(
        "positions_of_a_later_slot",
        ("POS-SLOT-1", "REG-SLOT-1"),
        POOL,
        (R1, Allocate("r1", 1), *put(1, 6), Evict((1,))),
        (Write("r1", 1, 4, 0), Write("r1", 1, 9, 0), partial(1, 4)),
        (Write("r1", 1, 5, 0), *put(1, 8)),
    ),
    Turn(
        "a_full_key_of_the_first_slot",
        ("POS-FULL-1", "REG-PARTIAL-2", "POOL-CONTAINS-2"),
        POOL,
        (R1, Allocate("r1", 1), Write("r1", 1, 4, 0)),
        (partial(1, 2), FullKey(1)),
        (partial(1, 4), FullKey(1)),
    ),
    Turn(
        "a_full_key_of_a_later_slot",
        ("POS-FULL-1", "REG-PARTIAL-2", "POOL-CONTAINS-2"),
        POOL,
        (R1, Allocate("r1", 1), Write("r1", 1, 8, 0)),
        (partial(1, 6), FullKey(1)),
        (partial(1, 8), FullKey(1)),
    ),
    Turn(
        "tokens_that_a_hash_covers",
        ("HASH-CHAIN-1", "REQ-APPEND-1"),
        POOL,
        (AddRequest("r1", (1, 2, 3)),),
        (Hashes("r1"),),
        (Append("r1", (4,)), Hashes("r1")),
    ),
    Limit(
        "tokens",
        ("HASH-TOKEN-1", "REQ-APPEND-1"),
        POOL,
        (R1,),
        (*_tokens(-1), *_tokens(MAX_TOKEN + 1)),
        (*_tokens(0), *_tokens(MAX_TOKEN), Append("r1", ()), Hashes("r1"), Hashes("r0"), Hashes(f"r{MAX_TOKEN}")),
    ),
    Limit(
        "extra_keys_cover_at_least_one_token",
        ("HASH-EXTRA-2",),
        POOL,
        (),
        (_covered("r1", -1, 1), _covered("r1", 1, 1)),
        (_covered("r1", 0, 1), _covered("r2", 1, 2), Hashes("r1"), Hashes("r2")),
    ),
    Turn(
        "extra_keys_that_cover_a_token_of_the_span",
        ("HASH-EXTRA-2", "HASH-EXTRA-1"),
        POOL,
        (AddRequest("r1", (1, 2, 3, 4)), Hashes("r1")),
        (AddRequest("r2", (1, 2, 3, 4), (image(2, 3),)), Hashes("r2")),
        (AddRequest("r3", (1, 2, 3, 4), (image(1, 2),)), Hashes("r3")),
    ),
    Limit(
        "extra_keys_are_listed_once",
        ("HASH-EXTRA-3",),
        POOL,
        (),
        (AddRequest("r1", (1, 2), (image(0, 1), image(0, 1))),),
        (
            AddRequest("r1", (1, 2), (image(0, 1), image(0, 2))),
            AddRequest("r2", (1, 2), (image(0, 1), Extra("media", "dog", 0, 1))),
            AddRequest("r3", (1, 2), (image(0, 1),)),
        ),
    ),
    Limit(
        "truncation",
        ("REQ-TRUNCATE-1",),
        POOL,
        (R1,),
        (Truncate("r1", -1), Truncate("r1", 10)),
        (Truncate("r1", 9), Hashes("r1"), Truncate("r1", 0), Hashes("r1")),
    ),
    Turn(
        "hashes_left_by_a_truncation",
        ("REQ-TRUNCATE-1",),
        POOL,
        (R1, AddRequest("r2", R1.tokens)),
        (Truncate("r1", 8), Hashes("r1")),
        (Truncate("r2", 7), Hashes("r2")),
    ),
)
