from __future__ import annotations

from collections.abc import Callable

import pytest

from kvproof.spec.errors import (
    ContentConflict,
    InvalidArgument,
    NotCached,
    NotCommitted,
    NotReferenced,
)
from kvproof.spec.vocabulary import CommitMode, GroupConfig, HolderMode, Residency
from tests.clauses.rig import (
    ATTENTION,
    EVERY_KIND,
    EVERY_WIDE_KIND,
    WIDE,
    WIDE_ATTENTION_KINDS,
    WIDE_STATE,
    MakeRig,
    Rig,
    at,
    key,
    removed,
)

# What a copy reads


@pytest.mark.clause("STEP-COPY-1")
@EVERY_WIDE_KIND
def test_a_copy_reads_its_source_as_it_was_before_the_step(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.pool.write(r1, 1, 2, 0)
    rig.begin()
    rig.pool.write(r1, 1, 5, 0)
    rig.pool.copy(1, 2, "r1")
    assert (rig.held(1, "r1"), rig.held(2, "r1")) == ((1, 2, 3, 4, 5), (1, 2))
    rig.commit(1)
    rig.begin()
    rig.pool.copy(1, 2, "r1")
    assert rig.held(2, "r1") == (1, 2, 3, 4, 5)


@pytest.mark.clause("STEP-COPY-1")
def test_what_was_written_in_this_step_alone_is_not_there_to_be_copied(in_step: MakeRig) -> None:
    rig = in_step()
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.pool.write(r1, 1, 2, 0)
    rig.pool.copy(1, 2, "r1")
    assert rig.held(2, "r1") is None


@pytest.mark.clause("STEP-COPY-1")
@WIDE_ATTENTION_KINDS
def test_a_reader_copies_what_it_was_served_from_the_last_step(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.settle(r1, 4)
    rig.put(r1, 1, 6)
    rig.touch(r2, 1, 4)
    rig.take(r2)
    rig.pool.copy(1, 2, "r2")
    assert rig.held(2, "r2") == (1, 2, 3, 4)


@pytest.mark.clause("STEP-COPY-1")
def test_a_reader_copies_what_it_attached_only_after_the_commit(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.attach(r2, 1, 4)
    rig.take(r2)
    with rig.refused(NotCached):
        rig.pool.copy(1, 2, "r2")
    rig.begin()
    with rig.refused(NotCached):
        rig.pool.copy(1, 2, "r2")
    rig.commit(1)
    rig.pool.copy(1, 2, "r2")
    assert rig.held(2, "r2") == (1, 2, 3, 4)


@pytest.mark.clause("STEP-COPY-1", "STEP-ROLLBACK-2")
def test_what_was_taken_back_is_not_copied(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.attach(r2, 1, 4)
    rig.take(r2)
    rig.pool.rollback(["r1"])
    with rig.refused(NotCached):
        rig.pool.copy(1, 2, "r2")
    rig.commit(1)
    rig.begin()
    with rig.refused(NotCached):
        rig.pool.copy(1, 2, "r2")


# The references of copies


@pytest.mark.clause("STEP-COPY-2")
@EVERY_KIND
def test_both_ends_of_a_copy_stay_referenced_until_the_commit(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group, blocks=6)
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    rig.take(r1)
    rig.pool.copy(1, 2, "r1")
    rig.begin()
    [own] = [name for name in rig.holders(1) if name != "r1"]
    assert own.startswith("copy:")
    assert rig.holders(1) == rig.holders(2) == {"r1": None, own: None}
    rig.free(r1, 1, 2)
    assert rig.queue() == [3, 4, 5]
    rig.commit(2)
    assert rig.queue() == [2, 3, 4, 5, 1]
    rig.commit(3)


@pytest.mark.clause("STEP-COPY-2")
def test_the_ends_of_copies_are_released_in_the_order_of_the_copies_the_source_first(in_step: MakeRig) -> None:
    rig = in_step(blocks=7)
    r1 = rig.request("r1")
    rig.take(r1, 4)
    for block in (1, 3):
        rig.pool.write(r1, block, 2, 0)
    rig.begin()
    rig.pool.copy(3, 4, "r1")
    rig.pool.copy(1, 2, "r1")
    rig.free(r1, 1, 2, 3, 4)
    rig.commit(1)
    assert rig.queue() == [5, 6]
    rig.commit(2)
    assert rig.queue() == [2, 1, 4, 3, 5, 6]


@pytest.mark.clause("STEP-COPY-2")
def test_the_ends_of_a_copy_are_released_after_the_keys_of_the_step_are_published(in_step: MakeRig) -> None:
    rig = in_step(WIDE, blocks=5)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.settle(r1, 4)
    rig.touch(r2, 1, 4)
    rig.take(r2)
    rig.pool.copy(1, 2, "r2")
    rig.put(r2, 2, 6)
    rig.commit(2)
    assert rig.holders(1) == {"r1": None, "r2": at(r2, 4)}
    assert rig.holders(2) == {"r2": None}
    rig.free(r2, 2, 1)
    rig.free(r1, 1)
    assert rig.queue() == [3, 4, 2, 1]


@pytest.mark.clause("STEP-COPY-2")
@pytest.mark.parametrize("later", [False, True], ids=["same step", "later step"])
def test_the_same_copy_may_be_queued_twice_and_holds_until_the_last(in_step: MakeRig, later: bool) -> None:
    rig = in_step()
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.pool.write(r1, 1, 2, 0)
    rig.begin()
    rig.pool.copy(1, 2, "r1")
    if later:
        rig.begin()
    rig.pool.copy(1, 2, "r1")
    rig.free(r1, 1, 2)
    rig.commit(1, 2)
    if later:
        assert rig.queue() == [3]
        rig.commit(3)
    assert rig.queue() == [2, 1, 3]


@pytest.mark.clause("STEP-COPY-2")
@EVERY_KIND
def test_both_ends_of_a_move_are_held_by_the_copy_that_holds_the_destination(
    in_step: MakeRig, group: GroupConfig
) -> None:
    rig = in_step(group, blocks=5)
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 2)
    assert (rig.holders(1), rig.holders(2)) == ({"r1": None, "copy:1": None}, {"copy:1": None})
    rig.free(r1, 1)
    assert rig.queue() == [3, 4]
    rig.commit(2)
    assert (rig.queue(), rig.found(r1, 4)) == ([1, 3, 4, 2], 2)


@pytest.mark.clause("STEP-COPY-2")
@pytest.mark.parametrize("touched", [False, True])
def test_the_source_of_a_move_may_be_free_or_held_by_the_copy_already(in_step: MakeRig, touched: bool) -> None:
    rig = in_step(blocks=5)
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    rig.free(r1, 1)
    rig.pool.allocate(1, "copy:1")
    if touched:
        rig.pool.touch(1, key(r1, 4), "copy:1")
    else:
        assert rig.queue() == [3, 4, 1]
    rig.pool.move(1, 2)
    assert set(rig.holders(1)) == {"copy:1"}
    assert rig.queue() == [3, 4]
    rig.commit(2)
    assert rig.queue() == [1, 3, 4, 2]


@pytest.mark.clause("STEP-COPY-2")
def test_what_one_copy_moves_on_is_held_until_the_last_of_its_moves(in_step: MakeRig) -> None:
    rig = in_step(blocks=5)
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    rig.pool.allocate(2, "copy:1")
    rig.pool.move(1, 2)
    rig.begin()
    rig.pool.move(2, 3)
    rig.commit(2)
    assert (set(rig.holders(1)), set(rig.holders(2)), set(rig.holders(3))) == ({"r1"}, {"copy:1"}, {"copy:1"})
    rig.commit(3)
    assert (rig.queue(), rig.found(r1, 4)) == ([2, 4, 3], 3)


@pytest.mark.clause("STEP-COPY-2")
def test_a_destination_that_was_evicted_and_moved_onto_again_is_released_once(in_step: MakeRig) -> None:
    rig = in_step(blocks=5)
    r1, r2 = rig.request("r1"), rig.request("r2", range(20, 30))
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    rig.commit(1)
    rig.begin()
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 3)
    rig.pool.evict([3])
    rig.pool.move(2, 3)
    rig.commit(2)
    assert (rig.queue(), rig.found(r2, 4), rig.found(r1, 4)) == ([4, 3], 3, None)


@pytest.mark.clause("STEP-COPY-2", "STEP-NAME-1")
def test_nobody_releases_the_ends_of_a_copy_early(in_step: MakeRig) -> None:
    rig = in_step()
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 2)
    for block in (1, 2):
        with rig.refused(NotCommitted):
            rig.pool.free([block], "copy:1")
    rig.pool.evict([2])
    with rig.refused(NotCommitted):
        rig.pool.free([2], "copy:1")
    rig.commit(2)
    with rig.refused(NotReferenced):
        rig.pool.free([2], "copy:1")
    rig.begin()
    rig.pool.copy(1, rig.take(r1)[0], "r1")
    [own] = [name for name in rig.holders(1) if name != "r1"]
    with rig.refused(InvalidArgument):
        rig.pool.free([1], own)
    with rig.refused(InvalidArgument):
        rig.pool.allocate(1, own)


@pytest.mark.clause("STEP-COPY-2")
def test_names_of_the_pools_own_are_free_where_nothing_is_kept(new_rig: MakeRig) -> None:
    rig = new_rig()
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.take(r1)
    rig.pool.copy(1, 2, "r1")
    assert (set(rig.holders(1)), set(rig.holders(2))) == ({"r1"}, {"r1"})
    rig.pool.allocate(1, "copy:pool:1:2")
    rig.pool.move(1, 2)
    rig.free(r1, 1, 2)
    assert rig.queue() == [1, 2]


# Move


@pytest.mark.clause("STEP-MOVE-1")
@EVERY_WIDE_KIND
@pytest.mark.parametrize("residency", Residency)
def test_a_moved_key_keeps_its_status_and_gets_the_current_step(
    in_step: MakeRig, group: GroupConfig, residency: Residency
) -> None:
    rig = in_step(group, residency=residency, blocks=6)
    r1, r2 = rig.request("r1"), rig.request("r2", range(20, 30))
    rig.settle(r1, 4)
    rig.take(r2)
    rig.put(r2, 2, 4)
    rig.begin()
    rig.pool.allocate(2, "copy:1")
    rig.pool.move(1, 3)
    rig.pool.move(2, 4)
    assert (rig.entries(3), rig.entries(4)) == ([(4, 2, None)], [(4, 2, "r2")])
    assert (rig.entries(1), rig.entries(2), rig.events()) == ([], [], [])
    rig.commit(2)
    assert (rig.found(r1, 4), rig.found(r2, 4), rig.events()) == (None, None, [])
    rig.commit(3)
    assert (rig.found(r1, 4), rig.found(r2, 4)) == (3, 4)
    assert len(rig.events()) == 1


@pytest.mark.clause("STEP-MOVE-1")
@WIDE_ATTENTION_KINDS
def test_all_keys_of_a_block_move_whatever_their_status(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group, blocks=5)
    r1, r2 = rig.request("r1"), rig.request("r2")
    for request in (r1, r2):
        [block] = rig.take(request)
        rig.put(request, block, 4)
    rig.commit(1)
    rig.begin()
    rig.put(r1, 1, 6)
    rig.begin()
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 3)
    assert rig.entries(3) == [(4, 2, None), (6, 2, "r1")]
    assert rig.pool.observe().index[key(r1, 4)] == (3, 2)
    rig.events()
    rig.commit(2, 3)
    assert (rig.found(r1, 4), rig.found(r1, 6)) == (2, 3)
    rig.events()
    rig.pool.evict([2])
    assert rig.events() == [removed(r1, 4)]


@pytest.mark.clause("STEP-MOVE-1", "STEP-ROLLBACK-2")
def test_a_rollback_takes_reserved_keys_from_where_they_moved_and_no_committed_ones(in_step: MakeRig) -> None:
    rig = in_step(WIDE, blocks=5)
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    rig.put(r1, 1, 6)
    rig.begin()
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 2)
    rig.pool.rollback(["r1"])
    assert rig.entries(2) == [(4, 2, None)]
    rig.commit(2, 3)
    assert rig.found(r1, 4) == 2


@pytest.mark.clause("STEP-MOVE-1")
@EVERY_WIDE_KIND
def test_a_move_takes_the_content_of_before_the_step(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    if group is not WIDE_STATE:
        rig.pool.write(r1, 1, 6, 0)
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 2)
    rig.pool.write(r1, 1, 7, 0)
    assert (rig.held(2, "copy:1"), rig.held(1, "r1")) == ((1, 2, 3, 4), (1, 2, 3, 4, 5, 6, 7))


@pytest.mark.clause("STEP-MOVE-2")
@EVERY_KIND
def test_a_key_does_not_move_in_the_step_that_makes_it_ready(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group, blocks=6)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.pool.allocate(2, "copy:1")
    with rig.refused(ContentConflict):
        rig.pool.move(1, 2)
    rig.begin()
    rig.pool.move(1, 2)
    with rig.refused(ContentConflict):
        rig.pool.move(2, 3)
    rig.commit(1)
    with rig.refused(ContentConflict):
        rig.pool.move(2, 3)
    rig.begin()
    rig.pool.move(2, 3)
    rig.commit(2, 3)
    assert rig.found(r1, 4) == 3


@pytest.mark.clause("STEP-MOVE-2")
@WIDE_ATTENTION_KINDS
def test_one_key_of_this_step_keeps_all_keys_of_the_block_from_moving(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 6)
    rig.pool.allocate(1, "copy:1")
    rig.commit(1)
    rig.begin()
    rig.pool.cache_partial_block(r1, 1, 2, 0)
    with rig.refused(ContentConflict):
        rig.pool.move(1, 2)
    rig.commit(2)
    rig.begin()
    rig.pool.move(1, 2)


@pytest.mark.clause("STEP-MOVE-2")
@EVERY_KIND
def test_a_move_goes_to_a_block_that_a_copy_writes(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group, blocks=6)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.settle(r1, 4)
    [own], [others], [copys] = rig.take(r1), rig.take(r2), rig.pool.allocate(1, "copy:1")
    for block in (own, others):
        with rig.refused(ContentConflict):
            rig.pool.move(1, block)
    rig.pool.move(1, copys)
    assert rig.entries(copys) == [(4, 1, None)]


@pytest.mark.clause("STEP-MOVE-2")
def test_a_move_does_not_go_to_a_block_that_nobody_writes(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2, r3 = rig.request("r1"), rig.request("r2"), rig.request("r3")
    rig.fill(r3, 1)
    rig.fill(r1, 1)
    rig.attach(r2, 2, 4)
    rig.pool.finish("r1", [2])
    assert (rig.holders(2), rig.pool.observe().blocks[2].writer) == ({"r2": None}, None)
    rig.commit(1)
    rig.begin()
    with rig.refused(ContentConflict):
        rig.pool.move(1, 2)


@pytest.mark.clause("STEP-MOVE-2")
@EVERY_KIND
def test_with_immediate_commit_a_move_goes_to_a_block_of_the_request(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.take(r1)
    rig.pool.move(1, 2)
    assert rig.found(r1, 4) == 2
    assert (set(rig.holders(1)), set(rig.holders(2))) == ({"r1"}, {"r1"})


# Clones


@pytest.mark.clause("OBSERVE-1")
def test_a_clone_with_steps_in_flight_goes_its_own_way(in_step: MakeRig) -> None:
    rig = in_step(ATTENTION, blocks=6)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.settle(r1, 4)
    [second] = rig.take(r1)
    rig.put(r1, second, 8)
    rig.attach(r2, second, 8)
    rig.take(r1)
    rig.pool.copy(1, 3, "r1")
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 4)
    before = rig.snapshot()
    twin = rig.pool.clone()
    assert twin.observe() == rig.pool.observe()
    twin.begin_step()
    twin.rollback(["r1"])
    twin.commit(2)
    assert rig.snapshot() == before
    other = rig.pool.clone()
    rig.commit(2)
    other.commit(2)
    assert other.observe() == rig.pool.observe()


def read_and_failed(rig: Rig) -> None:
    rig.attach(rig.requests[1], 1, 4)
    rig.pool.rollback(["r2"])


def register_anew(rig: Rig) -> None:
    rig.pool.evict([1])
    rig.put(rig.requests[0], 1, 4)


def register_anew_in_another_step(rig: Rig) -> None:
    rig.begin()
    register_anew(rig)


def register_anew_before_another_step(rig: Rig) -> None:
    register_anew(rig)
    rig.begin()


def copied(rig: Rig) -> None:
    rig.take(rig.requests[0], 2)
    rig.pool.copy(2, 3, "r1")


def admitted(rig: Rig, *order: int) -> None:
    rig.begin()
    for request in rig.requests[:2]:
        rig.take(request)
    for number in order:
        rig.put(rig.requests[number], 2 + number, 8)
        rig.pool.evict([2 + number])


DIFFERENT: dict[str, tuple[Callable[[Rig], object], Callable[[Rig], object]]] = {
    "whether a key is committed": (lambda rig: None, lambda rig: rig.commit(1)),
    "how many steps are open": (lambda rig: None, lambda rig: rig.begin()),
    "whether a reader has a claim": (lambda rig: rig.attach(rig.requests[1], 1, 4), read_and_failed),
    "the step of a key": (register_anew_in_another_step, register_anew_before_another_step),
    "what is copied": (lambda rig: rig.take(rig.requests[0], 2), copied),
    "who was admitted first": (lambda rig: admitted(rig, 0, 1), lambda rig: admitted(rig, 1, 0)),
}


@pytest.mark.clause("OBSERVE-1")
@pytest.mark.parametrize("what", DIFFERENT)
def test_pools_whose_steps_differ_do_not_compare_equal(in_step: MakeRig, what: str) -> None:
    states = []
    for prepare in DIFFERENT[what]:
        rig = in_step(blocks=6)
        r1 = rig.request("r1")
        rig.request("r2")
        rig.fill(r1, 1)
        prepare(rig)
        rig.events()
        states.append(rig.pool.observe())
    assert states[0] != states[1]


@pytest.mark.clause("POOL-HOLDER-2", "POOL-CONFIG-1")
def test_a_pool_with_steps_knows_its_holders(new_rig: MakeRig) -> None:
    with pytest.raises(InvalidArgument):
        new_rig(commit=CommitMode.STEPS, holders=HolderMode.CALLER)
    new_rig(commit=CommitMode.IMMEDIATE, holders=HolderMode.CALLER)
