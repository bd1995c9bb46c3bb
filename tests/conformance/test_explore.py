from __future__ import annotations

from collections.abc import Hashable
from random import Random

import pytest

from kvproof.conformance.canonical import Canonicalizer
from kvproof.conformance.enabled import EnabledOperations
from kvproof.conformance.explore import Exploration, explore
from kvproof.conformance.findings import label
from kvproof.conformance.operations import (
    Allocate,
    CacheFullBlocks,
    CachePartialBlock,
    Free,
    KeyRef,
    Operation,
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
from kvproof.spec.errors import NotCached
from kvproof.spec.vocabulary import GroupKind, Residency

STANDARD = Scope(blocks=3, keys=("a", "aa"), refs=2)
TINY = Scope(blocks=2, keys=("a", "aa"), refs=2)
PARTIAL_ONLY = Scope(blocks=2, keys=("a", "aa"), refs=1, block_size=3)
"""Both keys are partial, so a block can have both at once."""


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


DROP_KEYS = BlockPool._drop_keys
TOUCH = BlockPool.touch


def keep_the_last_key(self: BlockPool, block_id: int) -> None:
    """Like `_drop_keys`, but where there are several keys the last one is forgotten."""
    keys = self._index.keys_of(block_id)
    positions = {key: self._index.position_of(key) for key in keys}
    prefixes = dict(self.ghost.prefixes) if self.ghost else {}
    DROP_KEYS(self, block_id)
    for kept in keys[1:][-1:]:
        self._index.add(kept, positions[kept], block_id)
        if self.ghost:
            self.ghost.prefixes[kept] = prefixes[kept]


def test_a_pool_that_forgets_to_drop_one_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPool, "_drop_keys", keep_the_last_key)
    violation = explore(PARTIAL_ONLY).violation
    assert violation is not None
    assert violation.reason.startswith("INV-")
    names = [name_of(operation) for operation in violation.trace]
    assert names[:4] == ["add_request", "allocate", "write", "cache_partial_block"]
    assert len(names) <= 6


def test_a_pool_that_keeps_keys_over_an_allocation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop_only_for_owners(self: BlockPool, block_id: int) -> None:
        if self._blocks[block_id].ref_cnt:
            DROP_KEYS(self, block_id)

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


# What is enabled


@pytest.mark.parametrize("scope", [STANDARD, PARTIAL_ONLY, Scope(3, ("a", "aa", "aaa"), 2, block_size=2)])
@pytest.mark.parametrize("kind", list(GroupKind))
def test_remembered_judgements_equal_fresh_ones_in_every_state_of_a_walk(scope: Scope, kind: GroupKind) -> None:
    scope = Scope(scope.blocks, scope.keys, scope.refs, kind, scope.block_size)
    enabled, random, world = EnabledOperations(scope), Random(7), scope.start()
    vocabulary = list(enabled.vocabulary())
    assert len(set(vocabulary)) == len(vocabulary)
    for _ in range(300):
        found = enabled.of(world)
        legal = [o for o in vocabulary if not violations(world.situation, o) and undefined(world, o) is None]
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

    start = scope.start()
    known = {canonicalizer.form(start): futures(start)}
    queue = [start]
    while queue:
        world = queue.pop()
        for operation in enabled.of(world):
            successor = world.clone()
            successor.apply(operation)
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
