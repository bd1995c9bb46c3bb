"""What a limit is, and the pools and requests that limits are tried on."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Extra,
    KeyRef,
    Operation,
    Touch,
    Write,
)
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HolderMode, PoolConfig

ATTENTION = GroupConfig(GroupKind.FULL_ATTENTION, 4)
WIDE = GroupConfig(GroupKind.FULL_ATTENTION, 8)
WINDOW = GroupConfig(GroupKind.SLIDING_WINDOW, 4, window=6)

POOL = PoolConfig(5, 2, (ATTENTION, GroupConfig(GroupKind.RECURRENT, 8)))
ANONYMOUS = PoolConfig(5, 2, (ATTENTION,), holders=HolderMode.CALLER)
STEPS = PoolConfig(5, 2, (ATTENTION,), commit=CommitMode.STEPS)
WIDE_POOL = PoolConfig(5, 2, (WIDE,))
WIDE_STEPS = PoolConfig(5, 2, (WIDE,), commit=CommitMode.STEPS)


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

    @property
    def sides(self) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
        """What lies on either side, in the order in which it is said."""
        return self.outside, self.inside


@dataclass(frozen=True, slots=True)
class Turn:
    """A limit at which nothing is refused, but the answer turns: result or events.

    After `before` everything is accepted. The last operations of `one` and `other` are of one kind, and are answered
    differently.
    """

    what: str
    clauses: tuple[str, ...]
    config: PoolConfig
    before: tuple[Operation, ...]
    one: tuple[Operation, ...]
    other: tuple[Operation, ...]

    @property
    def name(self) -> str:
        """The vector's name."""
        return f"limits/{self.what}"

    @property
    def sides(self) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
        """What lies on either side, in the order in which it is said."""
        return self.one, self.other


# Requests, keys, and what stands before many limits

R1 = AddRequest("r1", (1, 2, 3, 4, 5, 6, 7, 8, 9))
R2 = AddRequest("r2", (11, 12, 13, 14, 15, 16, 17, 18, 19))
TWELVE = AddRequest("r12", tuple(range(12)))


def key(position: int, request: str = "r1", group: int = 0) -> KeyRef:
    """A request's key."""
    return KeyRef(request, group, position)


H4 = key(4)


def partial(block: int, position: int, request: str = "r1", group: int = 0) -> Operation:
    """Register one key on a block."""
    return CachePartialBlock(request, block, position, group)


def put(block: int, position: int, request: str = "r1", group: int = 0) -> tuple[Operation, ...]:
    """Write to a block and register what was written."""
    return Write(request, block, position, group), partial(block, position, request, group)


def full(first: int, last: int, mask: tuple[bool, ...] | None = None) -> Operation:
    """Register slots of r1, which are the blocks 1 and 2."""
    return CacheFullBlocks("r1", (1, 2), first, last, 0, mask)


def image(start: int, end: int) -> Extra:
    """An extra key that covers the tokens `start` to `end` - 1."""
    return Extra("media", "cat", start, end)


TWO_SLOTS = (R1, Allocate("r1", 2), Write("r1", 1, 4, 0), Write("r1", 2, 8, 0))
FILLED = (*TWO_SLOTS, full(0, 2))
SHARED = (*FILLED, Touch("r2", 1, H4))
"""r1 holds the blocks 1 and 2, and r2 reads block 1."""

COMMITTED = (R1, BeginStep(), Allocate("r1", 1), *put(1, 4), Commit(1), BeginStep())
"""H(4) of r1 is committed on block 1; step 2 is open."""

RESERVED = (R1, BeginStep(), Allocate("r1", 1), *put(1, 4))
"""H(4) of r1 is reserved on block 1 in step 1."""
