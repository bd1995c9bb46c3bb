from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvproof.conformance.attempts import snapshot
from kvproof.conformance.illegal import JUNK
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Attach,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Copy,
    Free,
    KeyRef,
    Operation,
    Touch,
    Write,
)
from kvproof.conformance.world import World, replay
from kvproof.reference import BlockPool, PrefixHasher, Request
from kvproof.spec.errors import ConcurrentUse, PoolError
from kvproof.spec.vocabulary import (
    CommitMode,
    ExtraKey,
    ExtraKeySource,
    GroupConfig,
    GroupKind,
    HashAlgorithm,
    HolderMode,
    PoolConfig,
    Residency,
)

GROUPS = (GroupConfig(GroupKind.FULL_ATTENTION, 4), GroupConfig(GroupKind.RECURRENT, 2))


def busy_world(holders: HolderMode) -> World:
    """Blocks 1 and 2 in use, with keys and a reader; 3 free and cached, 4 free; events pending."""
    named = holders is HolderMode.NAMED
    r1, r2 = ("r1", "r2") if named else (None, None)
    trace: list[Operation] = [
        AddRequest("r1", (1, 2, 3, 4)),
        AddRequest("r2", (1, 2, 3, 5)),
        Allocate(r1, 3),
        Write("r1", 1, 4, 0),
        CachePartialBlock("r1", 1, 2, 0),
        Write("r1", 2, 2, 1),
        CachePartialBlock("r1", 2, 2, 1),
        Write("r1", 3, 4, 0),
        CacheFullBlocks("r1", (3,), 0, 1, 0),
        Touch(r2, 1, KeyRef("r2", 0, 2)),
        Free(r1, (3,)),
    ]
    return replay(PoolConfig(5, 2, GROUPS, holders=holders), trace)


def world_with_steps() -> World:
    """Block 1 has a committed key, 2 a reserved one that r2 attached to, a copy to 3 is queued; two steps are open."""
    trace: list[Operation] = [
        AddRequest("r1", (1, 2, 3, 4)),
        AddRequest("r2", (1, 2, 3, 4)),
        BeginStep(),
        Allocate("r1", 2),
        Write("r1", 1, 4, 0),
        CachePartialBlock("r1", 1, 2, 0),
        Commit(1),
        BeginStep(),
        Write("r1", 2, 4, 0),
        CacheFullBlocks("r1", (2,), 0, 1, 0),
        Attach("r2", 2, KeyRef("r2", 0, 4)),
        Allocate("copy:1", 1),
        Touch("copy:1", 1, KeyRef("r1", 0, 2)),
        Copy("copy:1", 1, 3),
        BeginStep(),
    ]
    return replay(PoolConfig(6, 2, GROUPS, commit=CommitMode.STEPS), trace)


WORLDS: dict[HolderMode | CommitMode, World] = {
    **{holders: busy_world(holders) for holders in HolderMode},
    CommitMode.STEPS: world_with_steps(),
}

# For each public call the fewest and the most arguments.
POOL_CALLS = {
    "allocate": (1, 2),
    "touch": (2, 3),
    "free": (1, 2),
    "lookup": (1, 1),
    "find": (1, 1),
    "contains": (2, 2),
    "full_key": (1, 1),
    "ref_cnt": (1, 1),
    "covered": (1, 1),
    "is_read": (1, 1),
    "cache_full_blocks": (5, 7),
    "cache_partial_block": (4, 5),
    "evict": (1, 1),
    "move": (2, 2),
    "write": (4, 4),
    "check_write": (4, 4),
    "copy": (2, 3),
    "read": (1, 2),
    "commit": (1, 1),
    "attach": (3, 3),
    "rollback": (1, 1),
    "finish": (2, 2),
}
WITHOUT_ARGUMENTS = {"reset", "take_events", "observe", "clone", "begin_step"}
ATTRIBUTES = {"config", "ghost", "hasher", "num_free", "current_step", "last_committed_step"}
REQUEST_CALLS = {"append": (1, 1), "truncate": (1, 1), "view": (1, 1), "hash_at": (1, 1), "key_at": (2, 2)}
REQUEST_ATTRIBUTES = {"extra_keys", "hasher", "hashes", "num_prompt_tokens", "request_id", "tokens"}
REQUEST_NUMBERS = {"hashed_length", "num_tokens"}

OTHER_CONTRACT = Request("r1", (1, 2, 3, 4), PrefixHasher(HashAlgorithm.SHA256, 2, b"another seed"), ())
KEYS = [key for world in WORLDS.values() for key in world.state.index]

VALUES: st.SearchStrategy[Any] = st.one_of(
    JUNK,
    st.integers(-2, 6),
    st.sampled_from(
        ["r1", "r2", "nobody", "copy:1", "copy:pool:1:3", OTHER_CONTRACT, *KEYS, KEYS[0][:-1], bytearray(KEYS[0])]
    ),
    st.lists(st.integers(-1, 5) | JUNK, max_size=3),
    st.lists(st.sampled_from(KEYS) | JUNK, max_size=2),
    st.sampled_from([[True], (False,), [1], range(2), {1: 2}, {1}, "12", b"\x01\x02", 1.0, 2**31, 2**64]),
)
OWN_REQUEST = "own request"
"""Stands for a request of the world that the call is made in."""


def arguments(counts: tuple[int, int]) -> st.SearchStrategy[list[Any]]:
    return st.lists(VALUES | st.just(OWN_REQUEST), min_size=counts[0], max_size=counts[1])


def calls(table: dict[str, tuple[int, int]]) -> st.SearchStrategy[tuple[str, list[Any]]]:
    return st.one_of([st.tuples(st.just(name), arguments(counts)) for name, counts in table.items()])


def changes_nothing_if_it_raises(world: World, method: Callable[..., object], given_arguments: list[Any]) -> None:
    """Anything but a typed error fails the test; so does a typed error after a change."""
    own = world.requests["r1"]
    before = snapshot(world)
    try:
        method(*[own if argument is OWN_REQUEST else argument for argument in given_arguments])
    except PoolError as error:
        text = str(error)
        assert snapshot(world) == before
        assert text


@given(call=calls(POOL_CALLS), mode=st.sampled_from([*WORLDS]))
@example(("allocate", [True, "r1"]), HolderMode.NAMED)
@example(("lookup", ["r1"]), HolderMode.NAMED)
@example(("cache_full_blocks", [OWN_REQUEST, [1, 1], 0, 2, 1]), HolderMode.CALLER)
@example(("commit", [True]), CommitMode.STEPS)
@example(("rollback", ["r1"]), CommitMode.STEPS)
@example(("finish", ["r1", [2, 2]]), CommitMode.STEPS)
def test_junk_in_a_call_of_the_pool_raises_a_typed_error_and_changes_nothing(
    call: tuple[str, list[Any]], mode: HolderMode | CommitMode
) -> None:
    world = WORLDS[mode].clone()
    changes_nothing_if_it_raises(world, getattr(world.pool, call[0]), call[1])


@given(call=calls(REQUEST_CALLS))
@example(("append", [[1, 2**32]]))
@example(("append", [[1, 2, -1]]))
def test_junk_in_a_call_of_a_request_raises_a_typed_error_and_changes_nothing(call: tuple[str, list[Any]]) -> None:
    world = busy_world(HolderMode.NAMED)
    changes_nothing_if_it_raises(world, getattr(world.requests["r1"], call[0]), call[1])


@given(arguments((3, 4)))
def test_a_request_made_of_junk_is_a_typed_error(values: list[Any]) -> None:
    hasher = OTHER_CONTRACT.hasher
    for given_arguments in (values, [*values[:2], hasher, *values[3:]], ["r1", [1], hasher, *values[3:]]):
        try:
            made = Request(*given_arguments)
        except PoolError:
            continue
        assert isinstance(made.request_id, str)
        assert all(isinstance(token, int) for token in made.tokens)


@given(
    source=st.sampled_from(ExtraKeySource) | JUNK,
    value=st.just(b"x") | JUNK,
    start=st.just(0) | JUNK,
    end=st.none() | st.just(3) | JUNK,
)
def test_an_extra_key_made_of_junk_is_a_typed_error(source: Any, value: Any, start: Any, end: Any) -> None:
    try:
        Request("r1", (1, 2), OTHER_CONTRACT.hasher, [ExtraKey(source, value, start, end)])
    except PoolError:
        return
    assert isinstance(value, bytes)


@given(st.lists(VALUES, min_size=8, max_size=8), st.sets(st.integers(0, 7)))
def test_a_pool_made_of_junk_is_a_typed_error(values: list[Any], right: set[int]) -> None:
    good = (5, 2, GROUPS, HashAlgorithm.SHA256, None, Residency.LOGICAL, HolderMode.NAMED, CommitMode.STEPS)
    chosen: list[Any] = [good[i] if i in right else value for i, value in enumerate(values)]
    try:
        pool = BlockPool(PoolConfig(*chosen))
    except PoolError:
        return
    assert pool.num_free == pool.config.num_blocks - 1


@given(values=st.lists(VALUES, min_size=3, max_size=3))
def test_a_group_made_of_junk_is_a_typed_error(values: list[Any]) -> None:
    for kind in (values[0], *GroupKind):
        try:
            pool = BlockPool(PoolConfig(2, 2, (GroupConfig(kind, values[1], values[2]),)))
        except PoolError:
            continue
        assert pool.config.groups[0].block_size % 2 == 0


def test_every_public_call_is_among_those_tried() -> None:
    world = busy_world(HolderMode.NAMED)
    pool, request = world.pool, world.requests["r1"]
    names = {*REQUEST_CALLS, *REQUEST_ATTRIBUTES, *REQUEST_NUMBERS}
    assert {name for name in dir(pool) if not name.startswith("_")} == {*POOL_CALLS, *WITHOUT_ARGUMENTS, *ATTRIBUTES}
    assert {name for name in dir(request) if not name.startswith("_")} == names


# A single owner


def test_a_second_thread_inside_an_operation_gets_concurrent_use_and_disturbs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, undisturbed = busy_world(HolderMode.NAMED), busy_world(HolderMode.NAMED)
    undisturbed.pool.allocate(1, "r1")
    inside, go_on = threading.Event(), threading.Event()
    check_holder = BlockPool._check_holder

    def wait_inside(self: BlockPool, holder: object) -> None:
        inside.set()
        assert go_on.wait(timeout=30)
        check_holder(self, holder)

    monkeypatch.setattr(BlockPool, "_check_holder", wait_inside)
    first = threading.Thread(target=world.pool.allocate, args=(1, "r1"))
    first.start()
    assert inside.wait(timeout=30)
    for name, (fewest, _) in POOL_CALLS.items():
        with pytest.raises(ConcurrentUse, match=name):
            getattr(world.pool, name)(*[None] * fewest)
    for name in WITHOUT_ARGUMENTS:
        with pytest.raises(ConcurrentUse, match=name):
            getattr(world.pool, name)()
    go_on.set()
    first.join(timeout=30)
    assert not first.is_alive()
    assert snapshot(world) == snapshot(undisturbed)


def test_a_pool_is_free_again_after_an_operation_that_raised() -> None:
    world = busy_world(HolderMode.NAMED)
    with pytest.raises(PoolError):
        world.pool.allocate(99, "r1")
    assert world.pool.allocate(1, "r1") == [4]
