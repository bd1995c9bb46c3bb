from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.conformance.attempts import snapshot
from kvproof.conformance.illegal import operations
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Append,
    Attach,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Contains,
    Copy,
    Evict,
    Extra,
    Find,
    Finish,
    Free,
    FullKey,
    KeyRef,
    Lookup,
    Move,
    Operation,
    Read,
    Reset,
    Rollback,
    TakeEvents,
    Touch,
    Truncate,
    Write,
)
from kvproof.conformance.preconditions import violations
from kvproof.conformance.undefined import undefined
from kvproof.conformance.walk import random_config, walk
from kvproof.conformance.world import World, replay
from kvproof.spec.errors import (
    AlreadyHeld,
    ContentConflict,
    InvalidArgument,
    InvalidBlock,
    InvalidGroup,
    NoOpenStep,
    NotAligned,
    NotCached,
    NotCommitted,
    NotOwner,
    NotReferenced,
    OutOfBlocks,
    OutOfOrder,
    OutOfRange,
    PoolError,
    StillReferenced,
)
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HolderMode, PoolConfig

ATTENTION, RECURRENT = 0, 1
CONFIG = PoolConfig(8, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 4), GroupConfig(GroupKind.RECURRENT, 4)))

SETUP: list[Operation] = [
    AddRequest("r1", (1, 2, 3, 4, 5, 6)),
    AddRequest("r2", (1, 2, 9, 9, 9, 9)),
    Allocate("r1", 3),
    Write("r1", 1, 4, ATTENTION),
    CachePartialBlock("r1", 1, 2, ATTENTION),
    Write("r1", 2, 4, RECURRENT),
    CacheFullBlocks("r1", (2,), 0, 1, RECURRENT),
    Touch("r2", 1, KeyRef("r2", ATTENTION, 2)),
    Allocate("r2", 1),
    Allocate("copy", 1),
]
"""r1 writes 1 (attention, four tokens, key at 2, read by r2), 2 (recurrent, key at 4) and 3; r2 writes 4, copy 5.

Blocks 6 and 7 are free.
"""

R1_AT_2, R1_AT_4, R2_AT_4 = KeyRef("r1", ATTENTION, 2), KeyRef("r1", ATTENTION, 4), KeyRef("r2", ATTENTION, 4)

LEGAL: list[Operation] = [
    AddRequest("r3", (), (Extra("salt", "x"), Extra("media", "x", 1, 2))),
    Append("r1", (0, 2**32 - 1)),
    Truncate("r1", 0),
    Allocate("r9", 0),
    Allocate("r1", 2),
    Touch("copy", 1, R1_AT_2),
    Touch("r1", 0, R1_AT_4),
    Free("r1", (0, 1, 0, 2, 3)),
    Free("r2", ()),
    Lookup((R1_AT_2, R2_AT_4)),
    Contains(R2_AT_4, 0),
    FullKey(7),
    Read("r2", 1),
    CacheFullBlocks("r1", (1, 0), 0, 1, ATTENTION, (True,)),
    CacheFullBlocks("r2", (1,), 0, 1, ATTENTION, (False,)),
    CachePartialBlock("r2", 1, 2, ATTENTION),
    CachePartialBlock("r1", 1, 4, ATTENTION, True),
    CachePartialBlock("r1", 2, 2, RECURRENT, True),
    Evict((1, 1, 6)),
    Move(1, 3),
    Copy("r1", 1, 3),
    Write("r1", 1, 3, ATTENTION),
    Write("r1", 3, 6, RECURRENT),
    TakeEvents(),
]

ILLEGAL: list[tuple[Operation, set[type[PoolError]]]] = [
    (AddRequest("r1", ()), {InvalidArgument}),
    (AddRequest("", (2**32,)), {InvalidArgument, OutOfRange}),
    (AddRequest("r3", (), (Extra("salt", "x"), Extra("salt", "x"))), {InvalidArgument}),
    (AddRequest("r3", (), (Extra("salt", "x", 3, 3),)), {OutOfRange}),
    (Append("r3", ()), {InvalidArgument}),
    (Truncate("r1", 7), {OutOfRange}),
    (Allocate("r1", 3), {OutOfBlocks}),
    (Allocate("r1", -1), {OutOfRange}),
    (Allocate(None, 1), {InvalidArgument}),
    (Allocate("r1", True), {InvalidArgument}),
    (Touch("copy", 1, R1_AT_4), {NotCached}),
    (Touch("r1", 1, R1_AT_2), {AlreadyHeld}),
    (Touch("r1", 1, R1_AT_4), {NotCached, AlreadyHeld}),
    (Touch("copy", 8, KeyRef("r1", 2, 3)), {InvalidBlock, InvalidGroup, NotAligned}),
    (Touch("copy", 1, KeyRef("r1", 0, 8)), {OutOfRange}),
    (Free("r1", (1, 1)), {NotReferenced}),
    (Free("r2", (3,)), {NotReferenced}),
    (Free("r2", (6, -1)), {NotReferenced, InvalidBlock}),
    (Lookup((KeyRef("nobody", 0, 2),)), {InvalidArgument}),
    (Contains(R1_AT_2, 8), {InvalidBlock}),
    (FullKey(-1), {InvalidBlock}),
    (Read("r2", 0), {InvalidBlock}),
    (Read("r2", 3), {NotReferenced}),
    (CacheFullBlocks("r1", (1, 1), 0, 2, ATTENTION), {OutOfRange, InvalidBlock}),
    (CacheFullBlocks("r1", (1, 0), 1, 0, ATTENTION), {OutOfRange}),
    (CacheFullBlocks("r1", (1,), 0, 1, ATTENTION, (True, True)), {OutOfRange}),
    (CacheFullBlocks("r1", (8,), 0, 0, ATTENTION), {InvalidBlock}),
    (CacheFullBlocks("r2", (1,), 0, 1, ATTENTION), {NotOwner}),
    (CacheFullBlocks("r1", (6,), 0, 1, ATTENTION), {NotReferenced, NotOwner}),
    (CacheFullBlocks("r1", (2,), 0, 1, ATTENTION), {OutOfRange}),
    (CachePartialBlock("r1", 0, 2, ATTENTION), {InvalidBlock}),
    (CachePartialBlock("r1", 1, 3, ATTENTION), {NotAligned}),
    (CachePartialBlock("r1", 1, 6, ATTENTION), {OutOfRange}),
    (CachePartialBlock("r1", 1, 8, ATTENTION), {OutOfRange}),
    (CachePartialBlock("r1", 2, 2, RECURRENT), {ContentConflict}),
    (CachePartialBlock("r1", 1, 2, -1), {InvalidGroup}),
    (Evict((0,)), {InvalidBlock}),
    (Move(1, 1), {InvalidBlock, ContentConflict}),
    (Move(0, 3), {InvalidBlock}),
    (Move(3, 4), {NotCached}),
    (Move(1, 6), {NotReferenced}),
    (Move(1, 2), {ContentConflict, OutOfRange}),
    (Copy("r1", 3, 4), {NotReferenced, NotOwner}),
    (Copy("r2", 4, 1), {NotOwner, ContentConflict}),
    (Copy("r1", 2, 1), {ContentConflict}),
    (Write("r1", 1, 7, ATTENTION), {OutOfRange}),
    (Write("r1", 1, 1, ATTENTION), {ContentConflict}),
    (Write("r1", 1, 5, ATTENTION), {OutOfRange}),
    (Write("r2", 1, 3, ATTENTION), {NotOwner}),
    (Write("r1", 2, 4, RECURRENT), {ContentConflict}),
    (Write("r1", 0, 1, ATTENTION), {InvalidBlock}),
    (Reset(), {StillReferenced}),
]


@pytest.fixture(scope="module")
def world() -> World:
    return replay(CONFIG, SETUP)


def test_every_step_of_the_setup_is_legal_and_defined() -> None:
    world = World(CONFIG)
    for operation in SETUP:
        assert not violations(world.situation, operation)
        assert undefined(world, operation) is None
        world.apply(operation)


def said(value: object) -> str:
    """What stands for a case in the name of a test: a set of errors has an order there, the same in every process."""
    return ", ".join(sorted(error.__name__ for error in value)) if isinstance(value, set) else repr(value)


@pytest.mark.parametrize("operation", LEGAL, ids=repr)
def test_a_legal_operation_violates_nothing_and_the_reference_takes_it(world: World, operation: Operation) -> None:
    assert violations(world.situation, operation) == set()
    world.clone().apply(operation)


@pytest.mark.parametrize(("operation", "errors"), ILLEGAL, ids=said)
def test_an_illegal_operation_has_exactly_the_errors_of_what_it_violates(
    world: World, operation: Operation, errors: set[type[PoolError]]
) -> None:
    assert violations(world.situation, operation) == errors
    before = snapshot(world)
    with pytest.raises(tuple(errors)):
        world.apply(operation)
    assert snapshot(world) == before


@given(seed=st.integers(0, 2**32), data=st.data())
def test_judgements_and_reference_agree_in_pools_of_every_kind(seed: int, data: st.DataObject) -> None:
    config = random_config(Random(seed))
    steps = walk(seed, 40, config)
    assert steps.violation is None
    operation = data.draw(operations(config, tuple(steps.world.requests)))
    errors = violations(steps.world.situation, operation)
    before = snapshot(steps.world)
    raised: type[PoolError] | None = None
    try:
        steps.world.apply(operation)
    except PoolError as error:
        raised = type(error)
    assert raised in (errors or {None})
    assert raised is None or snapshot(steps.world) == before


# Steps


STEPS = dataclasses.replace(CONFIG, num_blocks=11, commit=CommitMode.STEPS)
STATE_AT_4, R1_AT_6 = KeyRef("r1", RECURRENT, 4), KeyRef("r1", ATTENTION, 6)

STEPS_SETUP: list[Operation] = [
    AddRequest("r1", (1, 2, 3, 4, 5, 6)),
    AddRequest("r2", (1, 2, 3, 4, 9, 9)),
    BeginStep(),
    Allocate("r1", 2),
    Write("r1", 1, 4, ATTENTION),
    CacheFullBlocks("r1", (1,), 0, 1, ATTENTION),
    Write("r1", 2, 4, RECURRENT),
    CachePartialBlock("r1", 2, 4, RECURRENT),
    Commit(1),
    BeginStep(),
    Allocate("r1", 2),
    Write("r1", 3, 6, ATTENTION),
    CachePartialBlock("r1", 3, 6, ATTENTION),
    Write("r1", 4, 4, ATTENTION),
    CacheFullBlocks("r1", (4,), 0, 1, ATTENTION),
    Attach("r2", 4, R1_AT_4),
    Allocate("copy:1", 2),
    Move(2, 5),
    BeginStep(),
    Allocate("r1", 2),
    Write("r1", 7, 6, RECURRENT),
    CachePartialBlock("r1", 7, 6, RECURRENT),
    Allocate("r2", 1),
]
"""Step 1 is committed: r1 writes 1, with a key. Step 2 is open: r1 writes 3, with a partial key, and 4, with a full key
that r2 attached to; the key of 2 moved to 5, which copy:1 writes, like 6. Step 3 is open, too: r1 writes 7, with a key,
and 8, r2 writes 9. Block 10 is free.
"""

LEGAL_IN_STEPS: list[Operation] = [
    BeginStep(),
    Commit(2),
    Touch("r9", 1, R1_AT_4),
    Touch("r9", 0, R1_AT_4),
    Attach("r9", 4, R1_AT_4),
    Rollback(("r1", "r1", "nobody")),
    Rollback(()),
    Finish("r1", (7, 3, 4, 0, 1, 2)),
    Finish("r2", (4,)),
    Free("r1", (1, 2)),
    Free("r2", (4, 9)),
    Free("copy:1", (6,)),
    Find((R1_AT_4, R1_AT_6, STATE_AT_4)),
    Evict((3, 4, 5)),
    Move(1, 6),
    Move(3, 6),
    Move(5, 6),
    Copy("r1", 4, 8),
    CachePartialBlock("r1", 3, 6, ATTENTION),
    Write("r1", 4, 4, ATTENTION),
]

ILLEGAL_IN_STEPS: list[tuple[Operation, set[type[PoolError]]]] = [
    (Commit(1), {OutOfOrder}),
    (Commit(3), {OutOfOrder}),
    (Commit(4), {OutOfOrder}),
    (Commit(0), {OutOfRange}),
    (Commit(True), {InvalidArgument}),
    (Touch("r9", 4, R1_AT_4), {NotCached}),
    (Touch("r9", 5, STATE_AT_4), {NotCached}),
    (Attach("r9", 1, R1_AT_4), {NotCached}),
    (Attach("r9", 3, R1_AT_6), {NotCached}),
    (Attach("r9", 5, STATE_AT_4), {NotCached}),
    (Attach("r9", 0, R1_AT_4), {NotCached}),
    (Attach("r2", 4, R1_AT_4), {AlreadyHeld}),
    (Attach("copy:2", 4, R1_AT_4), {InvalidArgument}),
    (Attach("", 11, R1_AT_4), {InvalidArgument, InvalidBlock}),
    (Rollback(("r1", "copy:1")), {InvalidArgument}),
    (Rollback(("",)), {InvalidArgument}),
    (Finish("r1", (4, 4)), {NotReferenced}),
    (Finish("r2", (3,)), {NotReferenced}),
    (Finish("copy:1", ()), {InvalidArgument}),
    (Free("r1", (3,)), {NotCommitted}),
    (Free("r1", (4,)), {NotCommitted}),
    (Free("copy:1", (5,)), {NotCommitted}),
    (Free("copy:1", (2,)), {NotCommitted}),
    (Move(1, 8), {ContentConflict}),
    (Move(7, 6), {ContentConflict}),
    (Move(1, 10), {NotReferenced}),
    (Copy("r2", 4, 9), {NotCached}),
    (Reset(), {StillReferenced}),
    (Allocate("copy:pool:1:2", 0), {InvalidArgument}),
]

NEED_A_STEP: list[Operation] = [
    Allocate("r1", 1),
    Touch("r9", 1, R1_AT_4),
    Write("r1", 1, 4, ATTENTION),
    CachePartialBlock("r1", 1, 4, ATTENTION),
    CacheFullBlocks("r1", (1,), 0, 1, ATTENTION),
    Move(1, 6),
    Copy("r1", 4, 8),
]
ARE_STEPS: list[Operation] = [BeginStep(), Commit(1), Attach("r9", 0, R1_AT_4), Rollback(("r1",))]


@pytest.fixture(scope="module")
def steps() -> World:
    return replay(STEPS, STEPS_SETUP)


def agrees(world: World, operation: Operation, errors: set[type[PoolError]]) -> None:
    """Judgement and reference refuse the operation for the same reasons, and nothing changes."""
    assert violations(world.situation, operation) == errors
    before = snapshot(world)
    with pytest.raises(tuple(errors)):
        world.apply(operation)
    assert snapshot(world) == before


def test_every_operation_of_the_setup_with_steps_is_legal_and_defined() -> None:
    world = World(STEPS)
    for operation in STEPS_SETUP:
        assert not violations(world.situation, operation)
        assert undefined(world, operation) is None
        world.apply(operation)


@pytest.mark.parametrize("operation", LEGAL_IN_STEPS, ids=repr)
def test_a_legal_operation_between_steps_violates_nothing_and_the_reference_takes_it(
    steps: World, operation: Operation
) -> None:
    assert violations(steps.situation, operation) == set()
    steps.clone().apply(operation)


@pytest.mark.parametrize(("operation", "errors"), ILLEGAL_IN_STEPS, ids=said)
def test_an_illegal_operation_between_steps_has_exactly_the_errors_of_what_it_violates(
    steps: World, operation: Operation, errors: set[type[PoolError]]
) -> None:
    agrees(steps, operation, errors)


@pytest.mark.parametrize("operation", NEED_A_STEP, ids=repr)
def test_without_an_open_step_nothing_that_belongs_to_one_is_legal(steps: World, operation: Operation) -> None:
    world = steps.clone()
    for step in (2, 3):
        world.apply(Commit(step))
    agrees(world, operation, {NoOpenStep})


@pytest.mark.parametrize("operation", ARE_STEPS, ids=repr)
def test_with_immediate_commit_there_are_no_steps(world: World, operation: Operation) -> None:
    assert NoOpenStep in violations(world.situation, operation)
    with pytest.raises(NoOpenStep):
        world.clone().apply(operation)
    assert violations(world.situation, Finish("r1", (3, 1))) == set()


def test_a_request_named_like_a_copy_is_the_author_of_nothing_that_can_be_rolled_back() -> None:
    named, arrival = KeyRef("copy:1", ATTENTION, 2), AddRequest("copy:1", (1, 2, 3, 4))
    world = replay(STEPS, [arrival, BeginStep(), Allocate("copy:1", 1)])
    agrees(world, Write("copy:1", 1, 4, ATTENTION), {InvalidArgument})
    agrees(world, CachePartialBlock("copy:1", 1, 4, ATTENTION), {InvalidArgument})
    agrees(world, CacheFullBlocks("copy:1", (1,), 0, 1, ATTENTION), {InvalidArgument})
    assert violations(world.situation, Lookup((named,))) == set()
    assert violations(replay(CONFIG, [arrival, Allocate("copy:1", 1)]).situation, Write("copy:1", 1, 4, 0)) == set()


def test_a_request_that_finishes_takes_those_with_it_who_depend_on_it(steps: World) -> None:
    assert steps.clone().apply(Finish("r1", (4, 3))) == ["r1", "r2"]
    world = steps.clone()
    world.apply(Commit(2))
    assert world.apply(Finish("r1", (4, 3))) == ["r1"]


# Anonymous references


def anonymous(*more: Operation) -> World:
    config = PoolConfig(4, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 4),), holders=HolderMode.CALLER)
    return replay(config, [*SETUP[:2], Allocate(None, 1), *more])


def test_anonymous_references_are_counted_and_name_nobody() -> None:
    world = anonymous(Write("r1", 1, 2, 0), CachePartialBlock("r1", 1, 2, 0), Touch(None, 1, KeyRef("r1", 0, 2)))
    assert violations(world.situation, Free(None, (1, 1))) == set()
    assert violations(world.situation, Free(None, (1, 1, 1))) == {NotReferenced}
    assert violations(world.situation, Touch(None, 1, KeyRef("r1", 0, 2))) == set()
    assert violations(world.situation, Allocate("r1", 1)) == {InvalidArgument}
    assert violations(world.situation, Write("r1", 1, 3, 0)) == set()
    assert violations(world.situation, Read(None, 2)) == {NotReferenced}
    agrees(world, Finish("r1", ()), {InvalidArgument})


# What the pool cannot see


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (CachePartialBlock("r1", 3, 2, ATTENTION), "nothing was written in block 3"),
        (CachePartialBlock("r1", 3, 2, ATTENTION, True), "nothing was written in block 3"),
        (CacheFullBlocks("r1", (3,), 0, 1, ATTENTION), "nothing was written in block 3"),
        (CachePartialBlock("r1", 2, 2, RECURRENT, True), "holds"),
        (Move(1, 3), None),
        (CachePartialBlock("r2", 1, 2, ATTENTION), None),
        (Copy("r1", 1, 3), None),
        (Copy("r1", 3, 1), "nothing was written in block 3"),
    ],
)
def test_a_key_needs_its_content_first(world: World, operation: Operation, text: str | None) -> None:
    found = undefined(world, operation)
    assert found is None if text is None else found is not None and text in found


@pytest.mark.parametrize(
    ("more", "operation"),
    [
        ([Write("r1", 3, 6, ATTENTION)], CachePartialBlock("r1", 3, 2, ATTENTION)),
        ([Write("r1", 3, 4, ATTENTION)], CacheFullBlocks("r1", (3,), 0, 1, RECURRENT)),
        ([Write("r1", 3, 4, ATTENTION), Truncate("r1", 2), Append("r1", (8, 8))], CacheFullBlocks("r1", (3,), 0, 1, 0)),
        ([Write("r1", 3, 2, ATTENTION)], Move(1, 3)),
    ],
    ids=["rows of another slot", "rows of another group", "rows of a text that is gone", "a move over written content"],
)
def test_content_of_something_else_does_not_do(more: Sequence[Operation], operation: Operation) -> None:
    world = replay(CONFIG, [*SETUP, *more])
    assert violations(world.situation, operation) == set()
    assert undefined(world, operation) is not None


@pytest.mark.parametrize(
    ("more", "operation", "text"),
    [
        ([], Copy("r1", 7, 8), "nothing was written in block 7 before"),
        ([Write("r1", 8, 4, ATTENTION)], Copy("r1", 3, 8), "block 8 is written in this step"),
        ([Copy("r1", 4, 8)], Copy("r1", 3, 8), "another copy to block 8 is queued"),
        ([Copy("r1", 4, 8)], Copy("r1", 8, 2), "nothing was written in block 8 before"),
        ([Rollback(("r1",))], CacheFullBlocks("r1", (4,), 0, 1, ATTENTION), "nothing was written in block 4"),
        ([Rollback(("r2",))], CachePartialBlock("r1", 4, 2, ATTENTION), None),
    ],
    ids=["read too early", "written too early", "copied twice", "a copy of a copy", "taken back", "kept"],
)
def test_what_is_undefined_depends_on_the_step(
    steps: World, more: Sequence[Operation], operation: Operation, text: str | None
) -> None:
    world = steps.clone()
    for done in more:
        assert not violations(world.situation, done)
        assert undefined(world, done) is None
        world.apply(done)
    assert violations(world.situation, operation) == set()
    found = undefined(world, operation)
    assert found is None if text is None else found is not None and text in found
