from __future__ import annotations

import pytest

from kvproof.reference.lookup import Hit
from kvproof.spec.errors import (
    AlreadyHeld,
    ContentConflict,
    InvalidArgument,
    NotCached,
    NotCommitted,
    NotReferenced,
    PoolError,
    StillReferenced,
)
from kvproof.spec.vocabulary import GroupConfig, GroupKind, Residency
from tests.clauses.rig import (
    ATTENTION,
    EVERY_KIND,
    EVERY_WIDE_KIND,
    RECURRENT,
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

# What a lookup says of keys that are not committed


@pytest.mark.clause("STEP-LOOKUP-1")
def test_a_lookup_names_who_reserved_a_full_key_of_full_attention(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    in_flight = Hit(block=None, reserved=1, writer="r1", pending=1)
    assert rig.hit(r2, 4) == in_flight
    rig.begin()
    assert rig.hit(r2, 4) == in_flight
    with rig.silent():
        rig.hit(r2, 4)
    rig.commit(1)
    assert rig.hit(r2, 4) == Hit(block=1, reserved=None, writer=None, pending=1)


@pytest.mark.clause("STEP-LOOKUP-1", "STEP-LOOKUP-2")
def test_a_lookup_answers_for_each_key_in_order(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2", range(20, 30))
    rig.settle(r1, 4)
    rig.fill(r2, 1)
    hits = rig.pool.find([key(r2, 4), key(r1, 8), key(r1, 4), key(r2, 4)])
    assert [hit.block for hit in hits] == [None, None, 1, None]
    assert [hit.reserved for hit in hits] == [2, None, None, 2]
    assert [hit.pending for hit in hits] == [2, None, 1, 2]
    assert rig.pool.find([]) == []


@pytest.mark.clause("STEP-LOOKUP-1")
def test_of_several_reserved_blocks_a_lookup_names_the_first(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2, r3 = (rig.request(name) for name in ("r1", "r2", "r3"))
    for request in (r1, r2):
        rig.take(request)
    rig.put(r2, 2, 4)
    rig.begin()
    rig.put(r1, 1, 4)
    assert (rig.hit(r3, 4).reserved, rig.hit(r3, 4).writer) == (2, "r2")
    rig.pool.evict([2])
    assert (rig.hit(r3, 4).reserved, rig.hit(r3, 4).writer) == (1, "r1")
    rig.pool.evict([1])
    assert rig.hit(r3, 4) == Hit(None, None, None, None)


@pytest.mark.clause("STEP-LOOKUP-1")
def test_a_servable_block_comes_before_one_that_is_reserved(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2, r3 = (rig.request(name) for name in ("r1", "r2", "r3"))
    rig.settle(r1, 4)
    rig.fill(r2, 1)
    assert rig.hit(r3, 4) == Hit(block=1, reserved=None, writer=None, pending=1)
    rig.pool.evict([1])
    assert rig.hit(r3, 4) == Hit(block=None, reserved=2, writer="r2", pending=2)


@pytest.mark.clause("STEP-LOOKUP-1", "STEP-LOOKUP-2", "STEP-ATTACH-1")
@pytest.mark.parametrize(
    ("group", "position"),
    [(ATTENTION, 2), (WINDOW, 4), (WINDOW, 2), (RECURRENT, 4), (RECURRENT, 2)],
    ids=lambda value: value.kind.value if isinstance(value, GroupConfig) else str(value),
)
def test_partial_keys_windows_and_states_are_pending_but_nobody_attaches(
    in_step: MakeRig, group: GroupConfig, position: int
) -> None:
    rig = in_step(group)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1)
    rig.put(r1, 1, position)
    assert rig.hit(r2, position) == Hit(block=None, reserved=None, writer=None, pending=1)
    with rig.refused(NotCached):
        rig.attach(r2, 1, position)


@pytest.mark.clause("STEP-LOOKUP-2")
@EVERY_KIND
def test_pending_is_the_block_that_registered_first_whatever_serves_now(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group, blocks=5)
    r1, r2, r3 = (rig.request(name) for name in ("r1", "r2", "r3"))
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    assert rig.hit(r3, 4).pending == 1
    rig.commit(1)
    rig.begin()
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 3)
    assert (rig.hit(r3, 4).block, rig.hit(r3, 4).pending) == (2, 3)
    rig.commit(2)
    assert rig.found(r3, 4) == 3


@pytest.mark.clause("STEP-LOOKUP-2", "STEP-UPGRADE-2")
@WIDE_ATTENTION_KINDS
def test_a_key_that_a_commit_will_drop_is_not_pending(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.settle(r1, 4)
    rig.put(r1, 1, 6)
    rig.pool.cache_partial_block(r1, 1, 2, 0)
    assert [rig.hit(r2, position).pending for position in (2, 4, 6)] == [1, None, 1]
    assert rig.hit(r2, 4).block == 1
    rig.take(r2)
    rig.put(r2, 2, 4)
    assert rig.hit(r2, 4).pending == 2
    rig.commit(2)
    assert [rig.found(r2, position) for position in (2, 4, 6)] == [1, 2, 1]


@pytest.mark.clause("STEP-LOOKUP-1", "STEP-ATTACH-1")
def test_a_committed_key_on_its_way_to_another_block_is_pending_and_not_attached(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.settle(r1, 4)
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 2)
    assert rig.hit(r2, 4) == Hit(block=None, reserved=None, writer=None, pending=2)
    with rig.refused(NotCached):
        rig.attach(r2, 2, 4)


# Attach


@pytest.mark.clause("STEP-ATTACH-1")
def test_attaching_adds_a_reference_that_reads_the_key(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2, r3 = (rig.request(name) for name in ("r1", "r2", "r3"))
    rig.fill(r1, 1)
    rig.attach(r2, 1, 4)
    rig.begin()
    rig.attach(r3, 1, 4)
    block = rig.pool.observe().blocks[1]
    assert (block.ref_cnt, block.writer) == (3, "r1")
    assert dict(block.holders) == {"r1": None, "r2": at(r2, 4), "r3": at(r3, 4)}
    assert (rig.entries(1), rig.events()) == ([(4, 1, "r1")], [])
    rig.commit(1)
    rig.free(r1, 1)
    assert rig.held(1, "r2") == (1, 2, 3, 4)


@pytest.mark.clause("STEP-ATTACH-1")
def test_only_a_reserved_key_is_attached_and_only_where_its_writer_reserved_it(in_step: MakeRig) -> None:
    rig = in_step(blocks=6)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 2)
    for block, position in ((0, 4), (1, 8), (3, 4), (2, 4)):
        with rig.refused(NotCached):
            rig.attach(r2, block, position)
    with rig.refused(AlreadyHeld):
        rig.attach(r1, 1, 4)
    with rig.refused(InvalidArgument):
        rig.pool.attach(1, key(r1, 4), "copy:1")
    rig.attach(r2, 1, 4)
    with rig.refused(AlreadyHeld):
        rig.attach(r2, 1, 4)
    rig.commit(1)
    rig.begin()
    with rig.refused(NotCached):
        rig.attach(r2, 2, 8)
    rig.touch(r2, 2, 8)


@pytest.mark.clause("STEP-ATTACH-1", "STEP-LOOKUP-1")
def test_nobody_attaches_to_a_reserved_key_that_moved_away_from_its_writer(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.begin()
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 2)
    assert rig.entries(2) == [(4, 2, "r1")]
    assert rig.hit(r2, 4) == Hit(block=None, reserved=None, writer=None, pending=2)
    with rig.refused(NotCached):
        rig.attach(r2, 2, 4)
    assert rig.pool.rollback(["r1"]) == ["r1"]
    assert rig.entries(2) == []


@pytest.mark.clause("STEP-ATTACH-2", "STEP-ROLLBACK-1")
def test_a_reader_depends_on_the_writer_until_the_step_of_the_key_is_committed(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.begin()
    rig.attach(r2, 1, 4)
    assert rig.pool.clone().rollback(["r1"]) == ["r1", "r2"]
    assert rig.pool.clone().rollback(["r2"]) == ["r2"]
    rig.commit(1)
    assert rig.pool.rollback(["r1"]) == ["r1"]
    assert rig.holders(1)["r2"] == at(r2, 4)


@pytest.mark.clause("STEP-ATTACH-2")
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_reader_of_keys_of_two_steps_depends_until_the_later_one(in_step: MakeRig, order: tuple[int, int]) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2")
    table = rig.take(r1, 2)
    rig.put(r1, table[0], 4)
    rig.begin()
    rig.put(r1, table[1], 8)
    for block in order:
        rig.attach(r2, block, 4 * block)
    rig.commit(1)
    assert rig.pool.clone().rollback(["r1"]) == ["r1", "r2"]
    rig.commit(2)
    assert rig.pool.rollback(["r1"]) == ["r1"]


@pytest.mark.clause("STEP-ATTACH-2")
def test_a_reader_depends_on_each_writer_by_itself(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2, r3 = rig.request("r1"), rig.request("r2", range(20, 30)), rig.request("r3")
    [first] = rig.fill(r1, 1)
    rig.attach(r3, first, 4)
    rig.begin()
    [second] = rig.fill(r2, 1)
    rig.pool.attach(second, key(r2, 4), "r3")
    rig.commit(1)
    assert rig.pool.clone().rollback(["r1"]) == ["r1"]
    assert rig.pool.rollback(["r2"]) == ["r2", "r3"]


# Rollback


@pytest.mark.clause("STEP-ROLLBACK-1", "STEP-ROLLBACK-2")
def test_the_reader_of_a_failed_writer_fails_too(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.attach(r2, 1, 4)
    [block] = rig.take(r2)
    rig.put(r2, block, 8)
    assert rig.pool.rollback(["r1"]) == ["r1", "r2"]
    assert (rig.entries(1), rig.entries(2)) == ([], [])
    assert (rig.hit(r1, 4), rig.hit(r1, 8)) == (Hit(None, None, None, None),) * 2
    assert (rig.holders(1), rig.holders(2)) == ({"r1": None, "r2": None}, {"r2": None})
    rig.free(r2, 2, 1)
    rig.free(r1, 1)
    assert rig.queue() == [1, 2, 3]


def chain(in_step: MakeRig) -> Rig:
    """a writes slot 0; b attaches to it and writes slot 1; c attaches to that and writes slot 2; d does so alone."""
    rig = in_step(blocks=8)
    a, b, c, d = (rig.request(name, range(12)) for name in "abcd")
    rig.fill(a, 1)
    for slot, (reader, read) in enumerate(((b, 1), (c, 2)), 1):
        rig.begin()
        rig.attach(reader, read, 4 * slot)
        [block] = rig.take(reader)
        rig.put(reader, block, 4 * (slot + 1))
    rig.fill(d, 1)
    return rig


@pytest.mark.clause("STEP-ROLLBACK-1")
@pytest.mark.parametrize(
    ("named", "taken"),
    [
        (["a"], ["a", "b", "c"]),
        (["b"], ["b", "c"]),
        (["c"], ["c"]),
        (["d"], ["d"]),
        (["d", "b"], ["d", "b", "c"]),
        (["c", "a", "c"], ["c", "a", "b"]),
        (["nobody"], ["nobody"]),
        ([], []),
    ],
)
def test_a_rollback_takes_everyone_with_it_who_depends_directly_or_through_others(
    in_step: MakeRig, named: list[str], taken: list[str]
) -> None:
    rig = chain(in_step)
    assert rig.pool.rollback(named) == taken
    left = {owner for block in range(1, 5) for _, _, owner in rig.entries(block)}
    assert left == set("abcd") - set(taken)


@pytest.mark.clause("STEP-ROLLBACK-1")
def test_through_a_committed_step_nobody_depends(in_step: MakeRig) -> None:
    rig = chain(in_step)
    rig.commit(1)
    assert rig.pool.clone().rollback(["a"]) == ["a"]
    assert rig.pool.clone().rollback(["b"]) == ["b", "c"]
    rig.commit(2)
    assert rig.pool.rollback(["b"]) == ["b"]


@pytest.mark.clause("STEP-ROLLBACK-1")
def test_requests_that_depend_on_each_other_fail_together(in_step: MakeRig) -> None:
    rig = in_step()
    a, b = rig.request("a"), rig.request("b", range(20, 30))
    [first], [second] = rig.fill(a, 1), rig.fill(b, 1)
    rig.pool.attach(second, key(b, 4), "a")
    rig.pool.attach(first, key(a, 4), "b")
    assert rig.pool.clone().rollback(["a"]) == ["a", "b"]
    assert rig.pool.rollback(["b"]) == ["b", "a"]


@pytest.mark.clause("STEP-ROLLBACK-2")
@EVERY_KIND
def test_a_rollback_removes_the_reserved_keys_of_every_open_step_and_leaves_the_rest(
    in_step: MakeRig, group: GroupConfig
) -> None:
    rig = in_step(group, blocks=8)
    r1, r2, r3 = rig.request("r1"), rig.request("r2", range(20, 30)), rig.request("r3")
    rig.fill(r1, 1)
    rig.fill(r3, 1)
    rig.commit(1)
    rig.begin()
    rig.pool.touch(1, key(r1, 4), "r2")
    [second] = rig.take(r1)
    rig.put(r1, second, 8)
    rig.fill(r2, 1)
    rig.begin()
    [third] = rig.take(r1)
    rig.put(r1, third, 10)
    before = rig.pool.observe()
    assert rig.pool.rollback(["r1"]) == ["r1"]
    after = rig.pool.observe()
    assert [rig.entries(block) for block in (second, third)] == [[], []]
    assert (after.free_queue, after.pending_events) == (before.free_queue, before.pending_events)
    for block, (old, new) in enumerate(zip(before.blocks, after.blocks, strict=True)):
        assert (old.ref_cnt, old.holders, old.writer, old.group, old.slot) == (
            new.ref_cnt,
            new.holders,
            new.writer,
            new.group,
            new.slot,
        )
        assert old.entries == new.entries or block in (second, third)
    rig.commit(2, 3)
    assert rig.found(r2, 4) is not None


@pytest.mark.clause("STEP-ROLLBACK-2")
def test_a_rollback_takes_back_what_was_attached_in_open_steps_and_nothing_that_was_touched(in_step: MakeRig) -> None:
    rig = in_step(blocks=6)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 2)
    rig.attach(r2, 1, 4)
    rig.commit(1)
    rig.begin()
    rig.touch(r2, 2, 8)
    r3 = rig.request("r3", range(20, 30))
    rig.fill(r3, 1)
    rig.pool.attach(3, key(r3, 4), "r2")
    assert rig.pool.rollback(["r2"]) == ["r2"]
    assert [rig.holders(block)["r2"] for block in (1, 2, 3)] == [at(r2, 4), at(r2, 8), None]
    assert set(rig.ghost.served) == {(1, "r2"), (2, "r2")}
    assert rig.entries(3) == [(4, 1, "r3")]


@pytest.mark.clause("STEP-ROLLBACK-2")
def test_what_was_taken_back_binds_the_writer_no_more(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.attach(r2, 1, 4)
    r1.truncate(2)
    r1.append([9, 9])
    rig.pool.evict([1])
    with rig.refused(ContentConflict):
        rig.pool.write(r1, 1, 4, 0)
    rig.pool.rollback(["r1"])
    rig.put(r1, 1, 4)
    rig.commit(1)
    assert rig.found(r1, 4) == 1


@pytest.mark.clause("STEP-ROLLBACK-2")
def test_after_a_rollback_a_request_registers_anew_and_depends_on_nobody(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.attach(r2, 1, 4)
    rig.pool.rollback(["r2"])
    assert rig.pool.clone().rollback(["r1"]) == ["r1"]
    rig.begin()
    [block] = rig.take(r2)
    rig.put(r2, block, 8)
    rig.commit(1)
    assert (rig.found(r1, 4), rig.found(r1, 8)) == (1, None)
    rig.commit(2)
    assert rig.found(r1, 8) == block


@pytest.mark.clause("STEP-ROLLBACK-2", "STEP-COPY-2")
def test_a_rollback_cancels_no_copy(in_step: MakeRig) -> None:
    rig = in_step()
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.take(r1)
    rig.begin()
    rig.pool.copy(1, 2, "r1")
    copies = rig.pool.observe().steps.copies
    assert len(copies) == 1
    rig.pool.finish("r1", [1, 2])
    assert rig.pool.observe().steps.copies == copies
    assert rig.queue() == [3]


@pytest.mark.clause("STEP-ROLLBACK-3")
@WIDE_ATTENTION_KINDS
def test_rows_that_were_committed_outlive_the_failed_write_behind_them(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.settle(r1, 4)
    rig.touch(r2, 1, 4)
    rig.put(r1, 1, 6)
    rig.begin()
    rig.put(r1, 1, 8)
    assert rig.held(1, "r2") == (1, 2, 3, 4, 5, 6, 7, 8)
    rig.pool.rollback(["r1"])
    assert rig.held(1, "r2") == (1, 2, 3, 4)
    rig.check()
    rig.commit(2, 3)
    assert (rig.held(1, "r2"), rig.found(r1, 4), rig.found(r1, 6)) == ((1, 2, 3, 4), 1, None)


@pytest.mark.clause("STEP-ROLLBACK-3")
@pytest.mark.parametrize(("committed", "failed", "left"), [(4, 6, 4), (4, 9, None), (12, 6, None)])
def test_rows_of_one_slot_that_were_overwritten_with_those_of_another_are_gone(
    in_step: MakeRig, committed: int, failed: int, left: int | None
) -> None:
    rig = in_step(GroupConfig(GroupKind.FULL_ATTENTION, 8))
    r1 = rig.request("r1", range(1, 13))
    [block] = rig.take(r1)
    rig.pool.write(r1, block, committed, 0)
    rig.commit(1)
    rig.begin()
    rig.pool.write(r1, block, failed, 0)
    rig.pool.rollback(["r1"])
    assert rig.held(block, "r1") == (None if left is None else tuple(range(1, left + 1)))


@pytest.mark.clause("STEP-ROLLBACK-3")
def test_rows_of_another_text_in_the_same_slot_leave_what_both_have(in_step: MakeRig) -> None:
    rig = in_step(GroupConfig(GroupKind.FULL_ATTENTION, 4))
    r1 = rig.request("r1", range(1, 9))
    [block] = rig.take(r1)
    rig.pool.write(r1, block, 6, 0)
    rig.commit(1)
    r1.truncate(3)
    r1.append([50, 51, 52])
    rig.begin()
    rig.pool.write(r1, block, 6, 0)
    rig.pool.rollback(["r1"])
    assert rig.held(block, "r1") is None


@pytest.mark.clause("STEP-ROLLBACK-3")
def test_a_committed_state_stays_and_a_failed_one_is_nothing(in_step: MakeRig) -> None:
    rig = in_step(WIDE_STATE)
    r1, r2 = rig.request("r1"), rig.request("r2", range(20, 30))
    for request in (r1, r2):
        [block] = rig.take(request)
        rig.put(request, block, 4)
    rig.commit(1)
    rig.begin()
    rig.pool.evict([2])
    rig.put(r2, 2, 6)
    rig.pool.rollback(["r1", "r2"])
    assert (rig.held(1, "r1"), rig.held(2, "r2")) == ((1, 2, 3, 4), None)


@pytest.mark.clause("STEP-ROLLBACK-3")
@EVERY_WIDE_KIND
def test_a_block_that_was_allocated_in_an_open_step_holds_nothing_after_a_rollback(
    in_step: MakeRig, group: GroupConfig
) -> None:
    rig = in_step(group, blocks=2)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1)
    rig.put(r1, 1, 4)
    rig.commit(1)
    rig.free(r1, 1)
    rig.begin()
    rig.take(r2)
    rig.put(r2, 1, 4)
    rig.pool.rollback(["r2"])
    assert rig.held(1, "r2") is None


@pytest.mark.clause("STEP-ROLLBACK-3")
def test_a_rollback_leaves_what_others_wrote(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2", range(20, 30))
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    rig.pool.rollback(["r1"])
    assert (rig.held(1, "r1"), rig.held(2, "r2")) == (None, (20, 21, 22, 23))


# Free and finish


@pytest.mark.clause("STEP-FREE-1")
@EVERY_KIND
def test_a_block_is_not_released_while_its_holder_has_reserved_keys_on_it(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.take(r1)
    with rig.refused(NotCommitted):
        rig.free(r1, 1)
    with rig.refused(NotCommitted):
        rig.free(r1, 2, 1)
    rig.free(r1, 2)
    rig.commit(1)
    rig.free(r1, 1)
    assert rig.queue() == [2, 3, 1]


@pytest.mark.clause("STEP-FREE-1")
@pytest.mark.parametrize("how", ["evict", "rollback"])
def test_without_its_reserved_keys_a_block_is_released(in_step: MakeRig, how: str) -> None:
    rig = in_step()
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    if how == "evict":
        rig.pool.evict([1])
    else:
        rig.pool.rollback(["r1"])
    rig.free(r1, 1)
    assert rig.queue() == [1, 2, 3]


@pytest.mark.clause("STEP-FREE-1")
def test_a_reader_may_go_before_the_commit_and_the_writer_may_not_even_if_readers_stay(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2, r3 = (rig.request(name) for name in ("r1", "r2", "r3"))
    rig.fill(r1, 1)
    rig.attach(r2, 1, 4)
    rig.attach(r3, 1, 4)
    rig.free(r2, 1)
    with rig.refused(NotCommitted):
        rig.free(r1, 1)
    assert set(rig.holders(1)) == {"r1", "r3"}
    rig.commit(1)
    rig.free(r1, 1)
    assert set(rig.holders(1)) == {"r3"}


@pytest.mark.clause("STEP-FREE-1")
@EVERY_KIND
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "reserved"])
def test_the_last_reference_does_not_go_while_a_moved_key_is_not_ready(
    in_step: MakeRig, group: GroupConfig, committed: bool
) -> None:
    rig = in_step(group)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    if committed:
        rig.commit(1)
    rig.begin()
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 2)
    rig.free(r1, 1)
    with rig.refused(NotCommitted):
        rig.pool.free([2], "copy:1")
    with rig.refused(StillReferenced):
        rig.pool.reset()
    rig.commit(*([2] if committed else [1, 2]))
    assert rig.queue() == [1, 3, 2]
    assert rig.found(r1, 4) == 2


@pytest.mark.clause("STEP-FREE-1")
def test_a_reset_never_meets_a_reserved_key(in_step: MakeRig) -> None:
    rig = in_step()
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    with rig.refused(StillReferenced):
        rig.pool.reset()
    rig.pool.finish("r1", [1])
    rig.pool.reset()
    rig.commit(1)
    assert len(rig.events()) == 1


def finishing(in_step: MakeRig, group: GroupConfig) -> Rig:
    """r1 holds 1 (committed), 2 and 3 (reserved), 4 (nothing); blocks 5 and 6 are free."""
    rig = in_step(group, blocks=7)
    r1 = rig.request("r1")
    rig.settle(r1, 4)
    table = [1, *rig.take(r1, 3)]
    rig.put(r1, table[1], 8)
    rig.begin()
    rig.put(r1, table[2], 10)
    return rig


@pytest.mark.clause("STEP-FINISH-1")
@EVERY_KIND
@pytest.mark.parametrize("blocks", [[4, 3, 2, 1], [1, 2, 3, 4], [0, 2, 4], [1], []])
def test_finish_is_a_rollback_and_then_a_release_in_the_order_given(
    in_step: MakeRig, group: GroupConfig, blocks: list[int]
) -> None:
    rig = finishing(in_step, group)
    twin = rig.pool.clone()
    assert rig.pool.finish("r1", blocks) == twin.rollback(["r1"]) == ["r1"]
    twin.free(blocks, "r1")
    assert rig.pool.observe() == twin.observe()
    keyless = [block for block in blocks if block > 1]
    assert rig.queue() == [*keyless, 5, 6, *([1] if 1 in blocks else [])]


@pytest.mark.clause("STEP-FINISH-1")
def test_finish_takes_dependents_back_and_leaves_them_their_blocks(in_step: MakeRig) -> None:
    rig = in_step()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.attach(r2, 1, 4)
    [block] = rig.take(r2)
    rig.put(r2, block, 8)
    assert rig.pool.finish("r1", [1]) == ["r1", "r2"]
    assert (rig.holders(1), rig.holders(2)) == ({"r2": None}, {"r2": None})
    assert (rig.entries(1), rig.entries(2)) == ([], [])


@pytest.mark.clause("STEP-FINISH-1")
def test_finish_is_refused_whole_like_free(in_step: MakeRig) -> None:
    rig = finishing(in_step, ATTENTION)
    for blocks in ([1, 5], [1, 1], [2, 3, 2]):
        with rig.refused(NotReferenced):
            rig.pool.finish("r1", blocks)
    with rig.refused(NotReferenced):
        rig.pool.finish("r2", [1])
    with rig.refused(InvalidArgument):
        rig.pool.finish("copy:1", [])


@pytest.mark.clause("STEP-FINISH-1", "STEP-IMMEDIATE-1")
def test_with_immediate_commit_finish_is_free(new_rig: MakeRig) -> None:
    rig = new_rig()
    r1 = rig.request("r1")
    rig.fill(r1, 2)
    twin = rig.pool.clone()
    assert rig.pool.finish("r1", [2, 1]) == ["r1"]
    twin.free([2, 1], "r1")
    assert rig.pool.observe() == twin.observe()


# Reported faults: keys published when the work was scheduled


@pytest.mark.clause("STEP-SERVE-1", "STEP-FINISH-1", "STEP-COMMIT-4")
@EVERY_KIND
@pytest.mark.parametrize("residency", Residency)
def test_after_an_abort_the_same_prompt_misses(in_step: MakeRig, group: GroupConfig, residency: Residency) -> None:
    rig = in_step(group, residency=residency)
    aborted, retry = rig.request("aborted"), rig.request("retry")
    table = rig.fill(aborted, 2)
    assert rig.pool.finish("aborted", table[::-1]) == ["aborted"]
    assert [rig.hit(retry, position) for position in (4, 8)] == [Hit(None, None, None, None)] * 2
    fresh = rig.take(retry, 2)
    assert sorted(fresh) == sorted(table)
    rig.commit(1)
    assert (rig.events(), rig.found(retry, 4), rig.found(retry, 8)) == ([], None, None)


@pytest.mark.clause("STEP-SERVE-1", "STEP-ROLLBACK-2", "STEP-COMMIT-1")
@EVERY_KIND
def test_a_request_that_is_preempted_in_its_step_publishes_nothing_of_it(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group, blocks=5)
    r1, r2 = rig.request("r1"), rig.request("r2", range(20, 30))
    rig.settle(r1, 4)
    rig.fill(r2, 1)
    [second] = rig.take(r1)
    rig.put(r1, second, 8)
    rig.pool.finish("r1", [second, 1])
    rig.events()
    rig.commit(2)
    assert [rig.found(r1, 4), rig.found(r1, 8), rig.found(r2, 4)] == [1, None, 2]
    rig.begin()
    rig.pool.touch(1, key(r1, 4), "r1")
    again = rig.take(r1)
    rig.put(r1, again[0], 8)
    rig.commit(3)
    assert rig.found(r1, 8) == again[0]


@pytest.mark.clause("STEP-UPGRADE-1", "STEP-ROLLBACK-2", "STEP-ROLLBACK-3")
def test_an_abort_during_an_upgrade_leaves_the_committed_key_to_the_next_request(in_step: MakeRig) -> None:
    rig = in_step(WIDE)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.settle(r1, 4)
    rig.put(r1, 1, 8)
    rig.pool.finish("r1", [1])
    assert (rig.found(r2, 4), rig.hit(r2, 8)) == (1, Hit(None, None, None, None))
    rig.touch(r2, 1, 4)
    assert rig.held(1, "r2") == (1, 2, 3, 4)
    rig.commit(2)
    assert rig.events() == []
    rig.free(r2, 1)
    rig.begin()
    rig.pool.allocate(3, "r3")
    assert rig.events() == [removed(r1, 4)]


@pytest.mark.clause("STEP-FREE-1", "STEP-FINISH-1")
def test_a_refused_release_leaves_the_request_able_to_go_on(in_step: MakeRig) -> None:
    rig = in_step()
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    with pytest.raises(PoolError):
        rig.free(r1, 1)
    rig.commit(1)
    assert rig.found(r1, 4) == 1
