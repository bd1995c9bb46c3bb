from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable
from random import Random

import pytest

from kvproof.conformance.canonical import Canonicalizer
from kvproof.conformance.enabled import EnabledOperations
from kvproof.conformance.explore import Exploration, explore
from kvproof.conformance.findings import label
from kvproof.conformance.operations import (
    Allocate,
    Attach,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Copy,
    Evict,
    Free,
    KeyRef,
    Move,
    Operation,
    Rollback,
    Touch,
    Write,
    describe,
    name_of,
)
from kvproof.conformance.preconditions import violations
from kvproof.conformance.scope import Scope, ScopeError
from kvproof.conformance.undefined import undefined
from kvproof.conformance.world import World, replay
from kvproof.reference import BlockPool
from kvproof.reference.event_log import EventLog
from kvproof.reference.index import CachedBlockIndex
from kvproof.reference.steps import StepLedger
from kvproof.spec.errors import NotCached
from kvproof.spec.vocabulary import CommitMode, GroupKind, Key, Residency
from tests.broken_pools import DROP_KEYS, keep_the_last_key

STANDARD = Scope(blocks=3, keys=("a", "aa"), refs=2)
TINY = Scope(blocks=2, keys=("a", "aa"), refs=2)
PARTIAL_ONLY = Scope(blocks=2, keys=("a", "aa"), refs=1, block_size=3)
"""Both keys are partial, so a block can have both at once."""
SHARED_STEPS = Scope(blocks=1, keys=("a", "aa"), refs=2, commit=CommitMode.STEPS)
"""Two requests can share a key that one of them reserved."""
COPIES = Scope(blocks=2, keys=("a",), refs=1, commit=CommitMode.STEPS)
"""There is room to copy and to move."""


def after(scope: Scope, *operations: Operation) -> World:
    return replay(scope.config, [*scope.arrivals, *operations])


# Complete explorations


@pytest.mark.timeout(600)
def test_three_blocks_two_nested_keys_and_two_requests_are_explored_completely() -> None:
    found = explore(STANDARD)
    assert found.violation is None
    assert found.complete
    assert (found.states, found.transitions, found.depth) == (28_396, 808_692, 20)
    assert min(found.coverage.values()) > 0, "every operation fired"


@pytest.mark.parametrize(
    ("scope", "states", "transitions"),
    [
        (TINY, 1_028, 17_219),
        (Scope(2, ("a", "aa"), 2, residency=Residency.PER_COPY), 1_028, 17_219),
        (Scope(2, ("a", "aa"), 2, GroupKind.SLIDING_WINDOW), 1_028, 17_219),
        (Scope(2, ("a", "aa"), 2, GroupKind.RECURRENT), 332, 4_464),
        (Scope(2, ("a", "aa"), 2, GroupKind.RECURRENT, block_size=1), 480, 7_167),
        (Scope(3, ("a", "aa"), 1, GroupKind.RECURRENT, residency=Residency.PER_COPY), 552, 8_712),
        (Scope(2, ("a", "aa"), 2, block_size=3), 1_991, 32_496),
        (Scope(2, ("a", "aa", "aaa"), 1, block_size=2), 384, 4_478),
        (Scope(2, ("aa", "aaaa"), 1, block_size=2), 146, 1_732),
        (Scope(2, ("a", "aa", "ab"), 1), 4_689, 70_043),
        (Scope(1, ("a",), 3), 15, 124),
        (Scope(1, ("a", "aa"), 2, commit=CommitMode.STEPS, in_flight=2), 4_353, 59_871),
        (Scope(1, ("a", "aa"), 2, GroupKind.RECURRENT, commit=CommitMode.STEPS, in_flight=2), 612, 6_593),
        (Scope(2, ("a",), 1, commit=CommitMode.STEPS, in_flight=2), 8_533, 134_002),
        (Scope(2, ("a",), 1, GroupKind.RECURRENT, commit=CommitMode.STEPS, in_flight=2), 8_533, 128_644),
        (Scope(2, ("a",), 1, residency=Residency.PER_COPY, commit=CommitMode.STEPS), 912, 12_571),
        (Scope(1, ("a", "aa"), 2, block_size=3, commit=CommitMode.STEPS), 511, 6_015),
    ],
    ids=lambda value: value.describe() if isinstance(value, Scope) else None,
)
def test_smaller_scopes_are_explored_completely(scope: Scope, states: int, transitions: int) -> None:
    found = explore(scope)
    assert found.violation is None
    assert found.complete
    assert (found.states, found.transitions) == (states, transitions)


def test_the_time_limit_stops_an_exploration_that_then_claims_nothing() -> None:
    found = explore(STANDARD, max_seconds=0)
    assert not found.complete
    assert found.violation is None
    assert found.frontier > 0


def test_progress_is_reported_and_ends_with_the_result() -> None:
    seen: list[tuple[int, int]] = []

    def note(so_far: Exploration) -> None:
        seen.append((so_far.states, so_far.frontier))

    found = explore(TINY, progress=note)
    assert seen[-1] == (found.states, 0)
    assert [states for states, _ in seen] == sorted(states for states, _ in seen)


# Broken pools are found, and the trace is short


TOUCH = BlockPool.touch


def test_a_pool_that_forgets_to_drop_one_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPool, "_drop_keys", keep_the_last_key)
    violation = explore(PARTIAL_ONLY).violation
    assert violation is not None
    assert violation.reason.startswith("INV-")
    names = [name_of(operation) for operation in violation.trace]
    assert names[:4] == ["add_request", "allocate", "write", "cache_partial_block"]
    assert len(names) <= 6


def test_a_pool_that_keeps_keys_over_an_allocation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop_only_for_owners(self: BlockPool, block_id: int, keys: Iterable[Key] | None = None) -> None:
        if self._blocks[block_id].ref_cnt:
            DROP_KEYS(self, block_id, keys)

    monkeypatch.setattr(BlockPool, "_drop_keys", drop_only_for_owners)
    found = explore(Scope(1, ("a",), 1))
    assert found.violation is not None
    assert not found.complete
    assert found.violation.reason.startswith("INV-")
    assert [name_of(operation) for operation in found.violation.trace] == [
        "add_request",
        "allocate",
        "write",
        "cache_partial_block",
        "free",
        "allocate",
    ]


def test_a_pool_that_refuses_what_is_legal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def touch_only_used_blocks(self: BlockPool, block_id: int, key: bytes, holder: str | None = None) -> None:
        if self._blocks[block_id].ref_cnt == 0:
            raise NotCached("only blocks in use")
        TOUCH(self, block_id, key, holder)

    monkeypatch.setattr(BlockPool, "touch", touch_only_used_blocks)
    violation = explore(TINY).violation
    assert violation is not None
    assert violation.reason == "legal, but refused: NotCached: only blocks in use"
    assert isinstance(violation.trace[-1], Touch)
    assert violation.before.state == violation.after.state


def test_a_pool_that_forgets_an_event_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventLog, "note_drop", lambda self, key, block_id: None)
    violation = explore(TINY).violation
    assert violation is not None
    assert "EVENT" in violation.reason


def test_a_pool_that_crashes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: BlockPool) -> None:
        raise KeyError("reset")

    monkeypatch.setattr(BlockPool, "reset", crash)
    violation = explore(TINY).violation
    assert violation is not None
    assert "crashed: KeyError" in violation.reason
    assert describe(violation.trace[-1]) == "reset()"


def test_a_pool_whose_rollback_forgets_the_readers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepLedger, "dependents", lambda self, requests: list(dict.fromkeys(requests)))
    violation = explore(SHARED_STEPS).violation
    assert violation is not None
    assert violation.reason.startswith("INV-SERVED-1")
    assert [name_of(operation) for operation in violation.trace[2:]] == [
        "begin_step",
        "allocate",
        "write",
        "cache_partial_block",
        "attach",
        "rollback",
    ]


def test_a_pool_that_serves_a_moved_key_before_the_copy_is_done_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    move_keys = CachedBlockIndex.move_keys

    def move_and_serve(self: CachedBlockIndex, src: int, dst: int, step: int) -> None:
        move_keys(self, src, dst, step)
        for key in self.keys_of(dst):
            self.set_ready(key, dst)

    monkeypatch.setattr(CachedBlockIndex, "move_keys", move_and_serve)
    violation = explore(COPIES).violation
    assert violation is not None
    assert "INV-" in violation.reason
    assert name_of(violation.trace[-1]) == "move"


def test_a_pool_that_is_out_of_order_from_the_beginning_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPool, "num_free", 0)
    found = explore(TINY)
    assert found.violation is not None
    assert not found.complete
    assert found.violation.reason.startswith("INV-QUEUE-2")
    assert found.violation.trace == TINY.arrivals


# What is enabled


MEMORY = [
    STANDARD,
    PARTIAL_ONLY,
    Scope(3, ("a", "aa", "aaa"), 2, block_size=2),
    Scope(3, ("a", "aa"), 2, commit=CommitMode.STEPS, in_flight=2),
]


@pytest.mark.parametrize("scope", MEMORY, ids=Scope.describe)
@pytest.mark.parametrize("kind", list(GroupKind))
def test_remembered_judgements_equal_fresh_ones_in_every_state_of_a_walk(scope: Scope, kind: GroupKind) -> None:
    scope = dataclasses.replace(scope, kind=kind)
    enabled, random, world = EnabledOperations(scope), Random(7), scope.start()
    for _ in range(300):
        found, open_steps = enabled.of(world), world.state.steps.open
        vocabulary = list(enabled.vocabulary(world.begun - open_steps + 1))
        assert len(set(vocabulary)) == len(vocabulary)
        legal = [o for o in vocabulary if not violations(world.situation, o) and undefined(world, o) is None]
        if open_steps == scope.in_flight and scope.commit is CommitMode.STEPS:
            legal.remove(BeginStep())  # legal, but more than the scope wants
        assert set(found) == set(legal)
        assert len(found) == len(legal)
        world.apply(random.choice(found))


# When states are the same


@pytest.mark.parametrize(
    "scope",
    [
        Scope(1, ("a", "aa"), 2),
        Scope(2, ("a", "aa"), 1),
        Scope(2, ("a", "aa"), 1, block_size=3),
        Scope(2, ("a", "aa"), 1, block_size=1),
        Scope(2, ("a", "aa"), 2, GroupKind.RECURRENT),
        Scope(2, ("a", "aa"), 2, anonymous=True),
        Scope(2, ("a", "aa"), 1, GroupKind.RECURRENT, anonymous=True),
        Scope(1, ("a", "aa"), 1, commit=CommitMode.STEPS),
        Scope(1, ("a",), 2, commit=CommitMode.STEPS, in_flight=2),
        Scope(1, ("a",), 1, GroupKind.RECURRENT, commit=CommitMode.STEPS, in_flight=2),
        COPIES,
    ],
    ids=Scope.describe,
)
def test_whatever_one_of_two_merged_states_can_do_the_other_can_do_too(scope: Scope) -> None:
    """The merges of the canonical form are a bisimulation: no state is lost by visiting one of several only."""
    canonicalizer, enabled = Canonicalizer(scope), EnabledOperations(scope)

    def futures(world: World) -> set[tuple[str, Hashable]]:
        found = set()
        for operation in enabled.of(world):
            successor = world.clone()
            successor.apply(operation)
            found.add((label(operation), canonicalizer.form(successor)))
        return found

    def exactly(world: World) -> Hashable:
        contents = [world.contents(block_id) for block_id in range(world.config.num_blocks)]
        return world.state.blocks, world.state.free_queue, world.state.steps, tuple(contents), str(world.state.index)

    start = scope.start()
    known = {canonicalizer.form(start): futures(start)}
    queue, visited = [start], {exactly(start)}
    while queue:
        world = queue.pop()
        for operation in enabled.of(world):
            successor = world.clone()
            successor.apply(operation)
            if exactly(successor) in visited:
                continue
            visited.add(exactly(successor))
            form = canonicalizer.form(successor)
            if form in known:
                assert futures(successor) == known[form]
            else:
                known[form] = futures(successor)
                queue.append(successor)


def test_states_that_differ_in_block_and_request_names_only_are_one_state() -> None:
    canonicalizer = Canonicalizer(STANDARD)
    cached: list[Operation] = [Allocate("r1", 2), Write("r1", 1, 1, 0), CachePartialBlock("r1", 1, 1, 0)]
    renamed: list[Operation] = [Allocate("r2", 2), Write("r2", 2, 1, 0), CachePartialBlock("r2", 2, 1, 0)]
    one, other = after(STANDARD, *cached), after(STANDARD, *renamed)
    assert one.state != other.state
    assert canonicalizer.form(one) == canonicalizer.form(other)


def test_the_order_of_the_free_queue_makes_a_state() -> None:
    canonicalizer = Canonicalizer(STANDARD)
    cached: list[Operation] = [Allocate("r1", 2), Write("r1", 1, 2, 0), CacheFullBlocks("r1", (1,), 0, 1, 0)]
    first, last = Free("r1", (1, 2)), Free("r1", (2, 1))
    assert canonicalizer.form(after(STANDARD, *cached, first)) == canonicalizer.form(after(STANDARD, *cached, last))
    both: list[Operation] = [*cached, Write("r1", 2, 1, 0), CachePartialBlock("r1", 2, 1, 0)]
    assert canonicalizer.form(after(STANDARD, *both, first)) != canonicalizer.form(after(STANDARD, *both, last))


def test_who_registered_first_makes_a_state() -> None:
    canonicalizer = Canonicalizer(STANDARD)
    prepare: list[Operation] = [Allocate("r1", 1), Allocate("r2", 1), Write("r1", 1, 1, 0), Write("r2", 2, 2, 0)]
    one, two = CachePartialBlock("r1", 1, 1, 0), CachePartialBlock("r2", 2, 1, 0)
    assert canonicalizer.form(after(STANDARD, *prepare, one, two)) != canonicalizer.form(
        after(STANDARD, *prepare, two, one)
    )


def test_content_that_nobody_can_use_any_more_makes_no_state() -> None:
    canonicalizer = Canonicalizer(STANDARD)
    written = after(STANDARD, Allocate("r1", 1), Write("r1", 1, 1, 0), Free("r1", (1,)))
    assert canonicalizer.form(written) == canonicalizer.form(after(STANDARD))
    used = after(STANDARD, Allocate("r1", 1), Write("r1", 1, 1, 0))
    assert canonicalizer.form(used) != canonicalizer.form(after(STANDARD, Allocate("r1", 1)))


def test_what_a_reader_was_served_makes_a_state() -> None:
    scope = Scope(2, ("a", "aa"), 2, block_size=3)
    canonicalizer = Canonicalizer(scope)
    cached: list[Operation] = [
        Allocate("r1", 1),
        Write("r1", 1, 2, 0),
        CachePartialBlock("r1", 1, 2, 0),
        CachePartialBlock("r1", 1, 1, 0),
    ]
    short, long = (Touch("r2", 1, KeyRef("r1", 0, position)) for position in (1, 2))
    assert canonicalizer.form(after(scope, *cached, short)) != canonicalizer.form(after(scope, *cached, long))


def test_steps_are_counted_from_the_last_committed_one() -> None:
    canonicalizer = Canonicalizer(COPIES)
    copy: list[Operation] = [Allocate("r1", 1), Copy("r1", 1, 2)]
    start: list[Operation] = [BeginStep(), Allocate("r1", 1), Write("r1", 1, 1, 0), Commit(1), BeginStep()]
    later: list[Operation] = [*copy, Rollback(("r1",)), Commit(2), Free("r1", (2,)), BeginStep()]
    one, other = after(COPIES, *start, *copy), after(COPIES, *start, *later, *copy)
    assert (one.begun, other.begun) == (2, 3)
    assert canonicalizer.form(one) == canonicalizer.form(other)


@pytest.mark.parametrize(
    "more",
    [[Rollback(("r1",))], [BeginStep()], [Commit(1)], [Attach("r2", 1, KeyRef("r1", 0, 2))], [Evict((1,))]],
    ids=lambda more: name_of(more[0]),
)
def test_what_a_commit_or_a_rollback_would_change_makes_a_state(more: list[Operation]) -> None:
    scope = dataclasses.replace(SHARED_STEPS, in_flight=2)
    canonicalizer = Canonicalizer(scope)
    reserved: list[Operation] = [
        BeginStep(),
        Allocate("r1", 1),
        Write("r1", 1, 2, 0),
        CacheFullBlocks("r1", (1,), 0, 1, 0),
    ]
    assert canonicalizer.form(after(scope, *reserved)) != canonicalizer.form(after(scope, *reserved, *more))


def test_who_holds_the_ends_of_a_copy_makes_a_state() -> None:
    canonicalizer = Canonicalizer(COPIES)
    start: list[Operation] = [BeginStep(), Allocate("r1", 1), Write("r1", 1, 1, 0), CachePartialBlock("r1", 1, 1, 0)]
    start += [Commit(1), BeginStep(), Allocate("copy:1", 1), Touch("copy:1", 1, KeyRef("r1", 0, 1))]
    again: list[Operation] = [BeginStep(), Copy("copy:1", 1, 2)]  # so that the pool has references in both states
    copied = after(COPIES, *start, Evict((1,)), Copy("copy:1", 1, 2), *again)
    moved = after(COPIES, *start, Move(1, 2), Evict((2,)), *again)
    assert canonicalizer.form(copied) != canonicalizer.form(moved)


def test_what_a_block_held_before_the_open_steps_makes_a_state() -> None:
    scope = Scope(1, ("a", "aa"), 1, commit=CommitMode.STEPS)
    canonicalizer = Canonicalizer(scope)
    start: list[Operation] = [BeginStep(), Allocate("r1", 1)]
    step: list[Operation] = [Commit(1), BeginStep(), Write("r1", 1, 1, 0)]
    one, other = after(scope, *start, *step), after(scope, *start, Write("r1", 1, 2, 0), *step)
    assert one.state == other.state
    assert canonicalizer.form(one) != canonicalizer.form(other)


# Scopes


@pytest.mark.parametrize(
    ("blocks", "keys", "refs", "block_size", "text"),
    [
        (0, ("a",), 1, None, "blocks is 0"),
        (1, ("a",), 0, None, "refs is 0"),
        (1, (), 1, None, "keys is empty"),
        (1, ("a", ""), 1, None, "key '' is not made of the letters"),
        (1, ("A",), 1, None, "key 'A' is not made of the letters"),
        (1, ("a", "a"), 1, None, "names a key twice"),
        (1, ("a",), 1, 0, "block size is 0"),
    ],
)
def test_a_scope_that_makes_no_sense_says_why(
    blocks: int, keys: tuple[str, ...], refs: int, block_size: int | None, text: str
) -> None:
    with pytest.raises(ScopeError, match=text):
        Scope(blocks, keys, refs, block_size=block_size)


def test_the_longest_keys_are_the_texts_of_the_requests() -> None:
    scope = Scope(2, ("a", "aa", "ab", "b"), 2)
    assert scope.texts == ("aa", "ab", "b")
    assert scope.request_classes == (("r1", "r4"), ("r2", "r5"), ("r3", "r6"))
    assert scope.positions["r4"] == (1, 2)
    assert scope.positions["r6"] == (1,)
    assert scope.config.groups[0].block_size == 2


def test_steps_are_in_flight_only_where_there_are_steps() -> None:
    with pytest.raises(ScopeError, match="only with commit steps"):
        Scope(1, ("a",), 1, in_flight=2)
    with pytest.raises(ScopeError, match="in flight is 0"):
        Scope(1, ("a",), 1, commit=CommitMode.STEPS, in_flight=0)
    with pytest.raises(ScopeError, match="exclude each other"):
        Scope(1, ("a",), 1, commit=CommitMode.STEPS, anonymous=True)


def test_where_there_are_steps_a_copy_is_a_holder() -> None:
    assert STANDARD.holders == ("r1", "r2")
    assert SHARED_STEPS.holders == ("r1", "r2", "copy:1")
    assert SHARED_STEPS.holder_classes == (("r1", "r2"), ("copy:1",))
    assert SHARED_STEPS.describe().endswith(", logical, 1 steps in flight")
