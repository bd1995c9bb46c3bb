from __future__ import annotations

from collections.abc import Callable

import pytest

from kvproof.reference import Request
from kvproof.spec.errors import ContentConflict, InvalidArgument, NoOpenStep, NotCached, OutOfBlocks, OutOfOrder
from kvproof.spec.events import Event, Removed, Stored
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, Residency
from tests.clauses.rig import (
    ATTENTION,
    ATTENTION_KINDS,
    EVERY_KIND,
    EVERY_WIDE_KIND,
    RECURRENT,
    TEN,
    WIDE,
    WIDE_ATTENTION_KINDS,
    WIDE_STATE,
    WINDOW,
    MakeRig,
    Rig,
    at,
    key,
    removed,
)

# Names


@pytest.mark.clause("STEP-NAME-1")
def test_a_request_named_like_a_copy_neither_writes_nor_registers(in_step: MakeRig) -> None:
    rig = in_step()
    r1, copy = rig.request("r1"), rig.request("copy:1")
    rig.settle(r1, 4)
    rig.take(copy)
    with rig.refused(InvalidArgument):
        rig.pool.write(copy, 2, 4, 0)
    with rig.refused(InvalidArgument):
        rig.pool.cache_partial_block(copy, 2, 4, 0)
    with rig.refused(InvalidArgument):
        rig.pool.cache_full_blocks(copy, [2], 0, 1, 0)
    rig.pool.move(1, 2)


@pytest.mark.clause("STEP-NAME-1")
def test_without_steps_a_request_may_be_named_like_a_copy(new_rig: MakeRig) -> None:
    rig = new_rig()
    copy = rig.request("copy:1")
    rig.fill(copy, 1)
    assert rig.found(copy, 4) == 1


# The life of a step


@pytest.mark.clause("STEP-OPEN-1")
def test_steps_are_numbered_from_one_whether_or_not_those_before_are_committed(new_rig: MakeRig) -> None:
    rig = new_rig(commit=CommitMode.STEPS)
    assert rig.pool.last_committed_step == 0
    assert [rig.begin(), rig.begin()] == [1, 2]
    rig.commit(1)
    assert rig.begin() == 3
    rig.commit(2, 3)
    assert (rig.begin(), rig.pool.last_committed_step) == (4, 3)


def between_steps(new_rig: MakeRig) -> Rig:
    """r1 has the full block 1, whose key is committed, and block 2, written; copy:1 has block 3. No step is open."""
    rig = new_rig(blocks=5, commit=CommitMode.STEPS)
    r1 = rig.request("r1")
    rig.request("r2")
    rig.begin()
    rig.fill(r1, 1)
    rig.take(r1)
    rig.pool.write(r1, 2, 8, 0)
    rig.pool.allocate(1, "copy:1")
    rig.commit(1)
    return rig


OF_A_STEP: dict[str, Callable[[Rig, Request], object]] = {
    "allocate": lambda rig, r1: rig.pool.allocate(1, "r1"),
    "touch": lambda rig, r1: rig.pool.touch(1, key(r1, 4), "r2"),
    "write": lambda rig, r1: rig.pool.write(r1, 2, 8, 0),
    "cache_full_blocks": lambda rig, r1: rig.pool.cache_full_blocks(r1, [1, 2], 0, 2, 0),
    "cache_partial_block": lambda rig, r1: rig.pool.cache_partial_block(r1, 2, 6, 0),
    "cache_partial_block again": lambda rig, r1: rig.pool.cache_partial_block(r1, 1, 4, 0),
    "copy": lambda rig, r1: rig.pool.copy(1, 2, "r1"),
    "move": lambda rig, r1: rig.pool.move(1, 3),
}


@pytest.mark.clause("STEP-OPEN-2")
@pytest.mark.parametrize("name", OF_A_STEP)
def test_what_belongs_to_a_step_is_refused_without_one_and_accepted_within(new_rig: MakeRig, name: str) -> None:
    rig = between_steps(new_rig)
    with rig.refused(NoOpenStep):
        OF_A_STEP[name](rig, rig.requests[0])
    rig.begin()
    OF_A_STEP[name](rig, rig.requests[0])
    rig.commit(2)
    with rig.refused(NoOpenStep):
        OF_A_STEP[name](rig, rig.requests[0])


@pytest.mark.clause("STEP-OPEN-2")
def test_attach_is_refused_without_a_step_before_its_arguments_are_looked_at(new_rig: MakeRig) -> None:
    rig = between_steps(new_rig)
    with rig.refused(NoOpenStep):
        rig.attach(rig.requests[1], 1, 4)
    rig.begin()
    with rig.refused(NotCached):
        rig.attach(rig.requests[1], 1, 4)
    rig.pool.cache_partial_block(rig.requests[0], 2, 8, 0)
    rig.attach(rig.requests[1], 2, 8)


@pytest.mark.clause("STEP-OPEN-2")
def test_everything_else_needs_no_step(new_rig: MakeRig) -> None:
    rig = between_steps(new_rig)
    r1 = rig.requests[0]
    assert (rig.found(r1, 4), rig.hit(r1, 4).block, rig.pool.full_key(1)) == (1, 1, key(r1, 4))
    assert rig.pool.contains(key(r1, 4), 1)
    assert rig.held(1, "r1") == (1, 2, 3, 4)
    assert rig.pool.rollback(["r1"]) == ["r1"]
    rig.free(r1, 1)
    rig.pool.evict([1])
    assert rig.pool.finish("r1", [2]) == ["r1"]
    rig.pool.free([3], "copy:1")
    rig.pool.reset()
    assert len(rig.events()) == 3


@pytest.mark.clause("STEP-SERVE-1")
@EVERY_KIND
def test_a_reserved_key_serves_nobody_until_its_commit(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1, r2 = rig.request("r1"), rig.request("r2")
    [block] = rig.fill(r1, 1)
    assert (block, rig.found(r2, 4), rig.hit(r2, 4).block, rig.pool.full_key(1)) == (1, None, None, None)
    assert rig.pool.contains(key(r1, 4), 1)
    with rig.refused(NotCached):
        rig.touch(r2, 1, 4)
    rig.commit(1)
    assert (rig.found(r2, 4), rig.hit(r2, 4).block, rig.pool.full_key(1)) == (1, 1, key(r1, 4))
    rig.begin()
    rig.touch(r2, 1, 4)
    assert rig.holders(1)["r2"] == at(r1, 4)


@pytest.mark.clause("STEP-SERVE-1", "STEP-COMMIT-1")
@EVERY_KIND
def test_with_several_steps_in_flight_each_commit_serves_its_own_keys(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    table = rig.take(r1, 2)
    for slot, block in enumerate(table):
        rig.pool.write(r1, block, 4 * (slot + 1), 0)
        rig.pool.cache_full_blocks(r1, table, slot, slot + 1, 0)
        rig.begin()
    assert [rig.found(r1, 4), rig.found(r1, 8)] == [None, None]
    rig.commit(1)
    assert [rig.found(r1, 4), rig.found(r1, 8)] == [1, None]
    rig.commit(2)
    assert [rig.found(r1, 4), rig.found(r1, 8)] == [1, 2]


@pytest.mark.clause("STEP-SERVE-1", "STEP-MOVE-1")
@EVERY_KIND
def test_a_committed_key_that_moves_serves_nobody_until_its_step_is_committed(
    in_step: MakeRig, group: GroupConfig
) -> None:
    rig = in_step(group, blocks=5)
    r1, r2, r3 = rig.request("r1"), rig.request("r2"), rig.request("r3")
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    rig.commit(1)
    rig.begin()
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 3)
    assert rig.found(r3, 4) == 2
    with rig.refused(NotCached):
        rig.touch(r3, 3, 4)
    rig.commit(2)
    assert rig.found(r3, 4) == 3


@pytest.mark.clause("STEP-RESERVE-1")
@EVERY_KIND
def test_a_key_that_is_registered_again_keeps_its_first_step(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    assert rig.entries(1) == [(4, 1, "r1")]
    rig.begin()
    rig.begin()
    with rig.silent():
        rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
        rig.pool.cache_partial_block(r1, 1, 4, 0)
    rig.commit(1)
    assert rig.found(r1, 4) == 1


@pytest.mark.clause("STEP-RESERVE-1", "STEP-REPLACE-1")
@EVERY_KIND
def test_a_key_is_reserved_in_the_current_step(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.begin()
    rig.put(r1, 1, 4)
    assert rig.entries(1) == [(4, 2, "r1")]
    rig.begin()
    rig.pool.cache_partial_block(r1, 1, 4, 0, replace=True)
    assert rig.entries(1) == [(4, 3, "r1")]
    rig.commit(1, 2)
    assert rig.found(r1, 4) is None
    rig.commit(3)
    assert rig.found(r1, 4) == 1


@pytest.mark.clause("STEP-COMMIT-1", "STEP-COMMIT-4")
@EVERY_KIND
def test_an_evicted_key_that_is_registered_again_belongs_to_its_new_step(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.begin()
    rig.pool.evict([1])
    rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    rig.commit(1)
    assert (rig.found(r1, 4), rig.events()) == (None, [])
    rig.commit(2)
    assert (rig.found(r1, 4), positions(rig.events())) == (1, ["+4"])


@pytest.mark.clause("STEP-COMMIT-1")
def test_a_commit_takes_all_keys_of_its_step_and_no_others(in_step: MakeRig) -> None:
    rig = in_step(ATTENTION, RECURRENT, blocks=7)
    r1, r2 = rig.request("r1"), rig.request("r2", range(20, 30))
    rig.fill(r1, 1)
    rig.fill(r2, 1, group=1)
    rig.begin()
    rig.fill(r2, 1)
    [partial] = rig.take(r1)
    rig.put(r1, partial, 6)
    rig.commit(1)
    assert [rig.entries(block) for block in (1, 2)] == [[(4, 0, None)]] * 2
    assert [rig.entries(block) for block in (3, 4)] == [[(4, 1, "r2")], [(6, 1, "r1")]]
    rig.commit(2)
    assert [rig.entries(block) for block in (3, 4)] == [[(4, 0, None)], [(6, 0, None)]]


@pytest.mark.clause("STEP-COMMIT-2")
def test_steps_are_committed_in_order_and_once(new_rig: MakeRig) -> None:
    rig = new_rig(commit=CommitMode.STEPS)
    with rig.refused(OutOfOrder):
        rig.commit(1)
    r1 = rig.request("r1")
    rig.begin()
    rig.fill(r1, 1)
    rig.begin()
    rig.begin()
    for step in (2, 3, 4):
        with rig.refused(OutOfOrder):
            rig.commit(step)
    rig.commit(1)
    for step in (1, 3):
        with rig.refused(OutOfOrder):
            rig.commit(step)
    rig.commit(2)
    rig.commit(3)
    with rig.refused(OutOfOrder):
        rig.commit(4)
    assert rig.found(r1, 4) == 1


# What a commit tells a consumer


def positions(events: list[Event]) -> list[str]:
    """Events in short: "+4 8" stores positions 4 and 8 of one group, "-" removes a key."""
    return [
        "+" + " ".join(str(prefix.position) for prefix in event.hashes) if isinstance(event, Stored) else "-"
        for event in events
    ]


def stored(request: Request, group: int, *run: int, parent: int = 0) -> Stored:
    return Stored(
        group,
        tuple(at(request, position) for position in run),
        at(request, parent) if parent else None,
        tuple(request.tokens[parent : run[-1]]),
    )


@pytest.mark.clause("STEP-COMMIT-3")
def test_nothing_is_told_before_the_commit_and_everything_with_it(in_step: MakeRig) -> None:
    rig = in_step()
    r1 = rig.request("r1")
    rig.fill(r1, 2)
    rig.begin()
    assert rig.events() == []
    rig.commit(1)
    assert rig.events() == [stored(r1, 0, 4, 8)]
    rig.commit(2)
    assert rig.events() == []


@pytest.mark.clause("STEP-COMMIT-3")
def test_stored_events_come_by_admission_then_group_then_position(in_step: MakeRig) -> None:
    rig = in_step(ATTENTION, WINDOW, blocks=9)
    r1, r2 = rig.request("r1", range(10)), rig.request("r2", range(20, 30))

    def one(request: Request, slot: int, group: int) -> None:
        [block] = rig.take(request)
        rig.put(request, block, 4 * (slot + 1), group)

    one(r2, 1, 1)
    one(r1, 1, 0)
    one(r2, 1, 0)
    one(r2, 0, 1)
    one(r1, 0, 1)
    one(r1, 0, 0)
    one(r2, 0, 0)
    rig.commit(1)
    told = [(e.tokens[0] // 20, e.group, e.hashes[0].position) for e in rig.events() if isinstance(e, Stored)]
    assert told == [(1, 0, 4), (1, 0, 8), (1, 1, 4), (1, 1, 8), (0, 0, 4), (0, 0, 8), (0, 1, 4)]


@pytest.mark.clause("STEP-COMMIT-3")
def test_each_step_has_an_order_of_admission_of_its_own(in_step: MakeRig) -> None:
    rig = in_step(blocks=6)
    r1, r2 = rig.request("r1", range(10)), rig.request("r2", range(20, 30))
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    rig.begin()
    for request in (r2, r1):
        [block] = rig.take(request)
        rig.put(request, block, 6)
    rig.commit(1, 2)
    assert rig.events() == [
        stored(r1, 0, 4),
        stored(r2, 0, 4),
        stored(r2, 0, 6, parent=4),
        stored(r1, 0, 6, parent=4),
    ]


@pytest.mark.clause("STEP-COMMIT-3")
def test_what_moved_into_a_step_is_stored_before_what_was_registered_in_it_the_oldest_first(in_step: MakeRig) -> None:
    rig = in_step(blocks=8)
    again, other, last = rig.request("again"), rig.request("other", range(20, 30)), rig.request("last", range(30, 40))
    twin = rig.request("twin")
    for request in (again, other, twin):  # the key of the twin is older than its entry
        rig.fill(request, 1)
    rig.pool.evict([1])
    rig.begin()
    rig.pool.allocate(2, "copy:1")
    rig.fill(last, 1)
    rig.pool.move(3, 4)
    rig.pool.move(2, 5)
    rig.commit(1, 2)
    assert rig.events() == [stored(other, 0, 4), stored(twin, 0, 4), stored(last, 0, 4)]


@pytest.mark.clause("STEP-COMMIT-3", "STEP-UPGRADE-2")
@WIDE_ATTENTION_KINDS
def test_what_a_commit_drops_is_told_before_what_it_stores(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1, r2 = rig.request("r1", range(10)), rig.request("r2", range(20, 30))
    for request in (r1, r2):
        [block] = rig.take(request)
        rig.put(request, block, 4)
    rig.commit(1)
    rig.events()
    rig.begin()
    for request, block in ((r2, 2), (r1, 1)):
        rig.put(request, block, 6)
    rig.commit(2)
    assert rig.events() == [removed(r2, 4), removed(r1, 4), stored(r2, 0, 6), stored(r1, 0, 6)]


@pytest.mark.clause("STEP-COMMIT-3")
@pytest.mark.parametrize("first", ["child", "parent"])
def test_an_ancestor_that_is_stored_later_in_the_same_commit_is_no_parent(in_step: MakeRig, first: str) -> None:
    rig = in_step()
    child, parent = rig.request("child"), rig.request("parent")

    def register_child() -> None:
        [block] = rig.take(child)
        rig.put(child, block, 8)

    def register_parent() -> None:
        rig.fill(parent, 1)

    for register in (register_child, register_parent) if first == "child" else (register_parent, register_child):
        register()
    rig.commit(1)
    alone, below = stored(child, 0, 8), stored(child, 0, 8, parent=4)
    assert rig.events() == ([alone, stored(parent, 0, 4)] if first == "child" else [stored(parent, 0, 4), below])


@pytest.mark.clause("STEP-COMMIT-3")
def test_an_ancestor_that_is_stored_later_in_the_same_call_but_in_another_group_is_no_parent(in_step: MakeRig) -> None:
    rig = in_step(ATTENTION, GroupConfig(GroupKind.FULL_ATTENTION, 2), blocks=5)
    r1 = rig.request("r1")
    rig.fill(r1, 2, group=1)
    rig.fill(r1, 1, group=0)
    rig.commit(1)
    assert rig.events() == [stored(r1, 0, 4), stored(r1, 1, 2, 4)]


@pytest.mark.clause("STEP-COMMIT-3")
def test_an_ancestor_that_is_reserved_in_another_step_is_no_parent(in_step: MakeRig) -> None:
    rig = in_step()
    r1 = rig.request("r1")
    table = rig.take(r1, 2)
    rig.put(r1, table[1], 8)
    rig.begin()
    rig.put(r1, table[0], 4)
    rig.commit(1, 2)
    assert rig.events() == [stored(r1, 0, 8), stored(r1, 0, 4)]


@pytest.mark.clause("STEP-COMMIT-3")
@pytest.mark.parametrize("residency", Residency)
def test_a_key_that_two_requests_publish_in_one_step_is_stored_once_or_once_per_copy(
    in_step: MakeRig, residency: Residency
) -> None:
    rig = in_step(residency=residency)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.fill(r2, 2)
    rig.commit(1)
    per_copy = [stored(r1, 0, 4), stored(r2, 0, 4, 8)]
    logical = [stored(r1, 0, 4), stored(r2, 0, 8, parent=4)]
    assert rig.events() == (per_copy if residency is Residency.PER_COPY else logical)


@pytest.mark.clause("STEP-COMMIT-3")
@pytest.mark.parametrize("residency", Residency)
def test_a_key_that_goes_on_one_block_and_comes_on_another_in_one_commit_is_no_news(
    in_step: MakeRig, residency: Residency
) -> None:
    rig = in_step(WIDE, residency=residency)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.settle(r1, 4)
    rig.put(r1, 1, 8)
    rig.take(r2)
    rig.put(r2, 2, 4)
    rig.commit(2)
    told = rig.events()
    if residency is Residency.LOGICAL:
        assert told == [stored(r1, 0, 8, parent=4)]
    else:
        assert told == [removed(r1, 4), stored(r1, 0, 8), stored(r2, 0, 4)]


GOING: dict[str, Callable[[Rig, Request], object]] = {
    "evicted": lambda rig, r1: rig.pool.evict([1]),
    "replaced": lambda rig, r1: rig.pool.cache_partial_block(r1, 1, 4, 0, replace=True),
    "rolled back": lambda rig, r1: rig.pool.rollback(["r1"]),
    "finished": lambda rig, r1: rig.pool.finish("r1", [1]),
}


@pytest.mark.clause("STEP-COMMIT-4")
@EVERY_KIND
@pytest.mark.parametrize("residency", Residency)
@pytest.mark.parametrize("how", GOING)
def test_a_key_that_goes_before_its_commit_gives_no_event(
    in_step: MakeRig, group: GroupConfig, residency: Residency, how: str
) -> None:
    rig = in_step(group, residency=residency)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.begin()
    GOING[how](rig, r1)
    assert rig.events() == []
    rig.commit(1)
    assert rig.events() == []
    rig.commit(2)
    assert positions(rig.events()) == (["+4"] if how == "replaced" else [])


@pytest.mark.clause("STEP-COMMIT-4", "STEP-UPGRADE-1")
@WIDE_ATTENTION_KINDS
def test_a_key_that_a_longer_one_replaces_before_its_commit_gives_no_event(
    in_step: MakeRig, group: GroupConfig
) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 4)
    rig.begin()
    rig.put(r1, 1, 6)
    rig.commit(1)
    assert (rig.found(r1, 4), rig.events()) == (None, [])
    rig.commit(2)
    assert rig.events() == [stored(r1, 0, 6)]


# Upgrade and replace


@pytest.mark.clause("STEP-UPGRADE-1")
@WIDE_ATTENTION_KINDS
def test_a_longer_key_drops_shorter_reserved_keys_at_once_and_no_committed_one(
    in_step: MakeRig, group: GroupConfig
) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.settle(r1, 2)
    rig.put(r1, 1, 4)
    rig.begin()
    rig.put(r1, 1, 6)
    assert rig.entries(1) == [(2, 0, None), (6, 2, "r1")]
    rig.pool.cache_partial_block(r1, 1, 4, 0)
    rig.pool.write(r1, 1, 8, 0)
    rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    assert rig.entries(1) == [(2, 0, None), (8, 2, "r1")]
    assert [rig.found(r1, position) for position in (2, 4, 6, 8)] == [1, None, None, None]
    rig.pool.rollback(["r1"])
    assert (rig.entries(1), rig.found(r1, 2)) == ([(2, 0, None)], 1)


@pytest.mark.clause("STEP-UPGRADE-2")
@WIDE_ATTENTION_KINDS
def test_the_shorter_committed_key_goes_when_the_longer_one_is_committed(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    rig.put(r1, 1, 8)
    assert rig.pool.contains(key(r1, 4), 1)
    assert rig.pool.contains(key(r1, 8), 1)
    assert (rig.found(r1, 4), rig.found(r1, 8), rig.events()) == (1, None, [])
    rig.commit(2)
    assert rig.events() == [removed(r1, 4), stored(r1, 0, 8)]
    assert rig.entries(1) == [(8, 0, None)]


@pytest.mark.clause("STEP-UPGRADE-2")
@WIDE_ATTENTION_KINDS
@pytest.mark.parametrize("later", [False, True], ids=["same step", "later step"])
def test_a_key_that_was_registered_below_the_longer_one_stays(
    in_step: MakeRig, group: GroupConfig, later: bool
) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    rig.put(r1, 1, 6)
    if later:
        rig.begin()
    rig.pool.cache_partial_block(r1, 1, 2, 0)
    rig.commit(2)
    assert [position for position, _, _ in rig.entries(1)] == [6, 2]
    if later:
        assert rig.found(r1, 2) is None
        rig.commit(3)
    assert [rig.found(r1, position) for position in (2, 4, 6)] == [1, None, 1]


@pytest.mark.clause("STEP-UPGRADE-2")
@WIDE_ATTENTION_KINDS
def test_a_key_that_comes_below_a_committed_longer_one_drops_nothing(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 6)
    rig.pool.cache_partial_block(r1, 1, 2, 0)
    rig.commit(1)
    rig.begin()
    rig.pool.cache_partial_block(r1, 1, 4, 0)
    rig.commit(2)
    assert [rig.found(r1, position) for position in (2, 4, 6)] == [1, 1, 1]


@pytest.mark.clause("STEP-UPGRADE-2")
def test_another_block_keeps_the_shorter_key(in_step: MakeRig) -> None:
    rig = in_step(WIDE)
    r1, r2 = rig.request("r1"), rig.request("r2")
    for request in (r1, r2):
        [block] = rig.take(request)
        rig.put(request, block, 4)
    rig.commit(1)
    rig.events()
    rig.begin()
    rig.put(r1, 1, 8)
    rig.commit(2)
    assert (rig.found(r1, 4), rig.events()) == (2, [stored(r1, 0, 8, parent=4)])


@pytest.mark.clause("STEP-REPLACE-1")
@EVERY_WIDE_KIND
def test_with_replace_committed_keys_go_at_once_and_the_new_one_is_reserved(
    in_step: MakeRig, group: GroupConfig
) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    position = 4 if group is WIDE_STATE else 6
    if position == 6:
        rig.pool.write(r1, 1, 6, 0)
    rig.pool.cache_partial_block(r1, 1, position, 0, replace=True)
    assert rig.events() == [removed(r1, 4)]
    assert rig.entries(1) == [(position, 1, "r1")]
    rig.commit(2)
    assert rig.events() == [stored(r1, 0, position)]


@pytest.mark.clause("STEP-REPLACE-1")
@pytest.mark.parametrize("how", ["evict", "move"])
def test_a_recurrent_key_is_gone_from_its_block_before_the_overwrite_is_scheduled(in_step: MakeRig, how: str) -> None:
    rig = in_step(WIDE_STATE)
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    with rig.refused(ContentConflict):
        rig.pool.write(r1, 1, 6, 0)
    if how == "evict":
        rig.pool.evict([1])
    else:
        rig.pool.allocate(1, "copy:1")
        rig.pool.move(1, 2)
    assert rig.events() == ([removed(r1, 4)] if how == "evict" else [])
    assert (rig.entries(1), rig.found(r1, 4)) == ([], None)
    rig.put(r1, 1, 6)
    rig.commit(2)
    assert rig.found(r1, 6) == 1
    assert rig.found(r1, 4) == (None if how == "evict" else 2)


# Immediate commit


@pytest.mark.clause("STEP-IMMEDIATE-1")
def test_with_immediate_commit_the_operations_of_steps_are_refused(new_rig: MakeRig) -> None:
    rig = new_rig()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    calls: list[Callable[[], object]] = [
        rig.begin,
        lambda: rig.commit(1),
        lambda: rig.attach(r2, 1, 4),
        lambda: rig.pool.rollback(["r1"]),
    ]
    for call in calls:
        with rig.refused(NoOpenStep):
            call()


@pytest.mark.clause("STEP-IMMEDIATE-1")
@EVERY_WIDE_KIND
def test_with_immediate_commit_every_entry_is_ready_after_every_operation(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group, blocks=5)
    r1, r2 = rig.request("r1", TEN), rig.request("r2", TEN)
    operations: list[Callable[[], object]] = [
        lambda: rig.take(r1, 2),
        lambda: rig.pool.write(r1, 1, 4, 0),
        lambda: rig.pool.cache_partial_block(r1, 1, 4, 0),
        lambda: rig.touch(r2, 1, 4),
        lambda: rig.pool.copy(1, 2, "r1"),
        lambda: rig.pool.move(1, 2),
        lambda: rig.pool.finish("r2", [1]),
        lambda: rig.pool.write(r1, 1, 6, 0),
        lambda: rig.pool.cache_partial_block(r1, 1, 6, 0, replace=True),
        lambda: rig.pool.cache_partial_block(r1, 1, 6, 0),
        lambda: rig.free(r1, 1),
        lambda: rig.touch(r2, 1, 6),
    ]
    for operation in operations:
        operation()
        state = rig.pool.observe()
        assert state.steps.open == 0
        assert (state.steps.depends, state.steps.copies, state.steps.admitted) == ((), (), ())
        for block in state.blocks:
            assert (block.attached, block.age) == ((), 0)
            assert all(entry.ahead == 0 and entry.owner is None for entry in block.entries)
            assert all(rig.pool.lookup([entry.key]) != [None] for entry in block.entries)
    assert [rig.found(r1, 4), rig.found(r1, 6)] == [2, 1]


@pytest.mark.clause("STEP-IMMEDIATE-1", "STEP-OPEN-2")
def test_a_refused_operation_of_an_immediate_pool_leaves_no_step_open(new_rig: MakeRig) -> None:
    rig = new_rig()
    r1 = rig.request("r1")
    for _ in range(3):
        with rig.refused(OutOfBlocks):
            rig.pool.allocate(9, "r1")
    before = rig.pool.last_committed_step
    rig.fill(r1, 1)
    assert rig.found(r1, 4) == 1
    assert rig.pool.observe().steps.open == 0
    assert rig.pool.last_committed_step > before
    assert isinstance(rig.events()[0], Stored)
    rig.pool.evict([1])
    assert isinstance(rig.events()[0], Removed)


@pytest.mark.clause("STEP-IMMEDIATE-1")
@ATTENTION_KINDS
def test_with_immediate_commit_an_upgrade_is_one_operation(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 2)
    rig.events()
    rig.pool.write(r1, 1, 4, 0)
    rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    assert rig.events() == [removed(r1, 2), stored(r1, 0, 4)]
