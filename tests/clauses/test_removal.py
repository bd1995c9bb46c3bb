from __future__ import annotations

import pytest

from kvproof.spec.errors import (
    ContentConflict,
    InvalidBlock,
    NotCached,
    NotReferenced,
    OutOfRange,
    PoolError,
    StillReferenced,
)
from kvproof.spec.events import Cleared, Stored
from kvproof.spec.vocabulary import GroupConfig, HolderMode
from tests.clauses.rig import ATTENTION, EVERY_KIND, RECURRENT, WIDE, MakeRig, Rig, at, key, removed

# Evict


@pytest.mark.clause("POOL-EVICT-1", "EVENT-REMOVED-2")
@pytest.mark.parametrize("given", [[1, 2], [2, 1], [2, 1, 2, 2], [1, 3, 2]])
def test_evict_removes_all_keys_in_the_order_given(new_rig: MakeRig, given: list[int]) -> None:
    rig = new_rig(WIDE)
    r1 = rig.request("r1", range(16))
    rig.take(r1, 3)
    rig.put(r1, 1, 6)
    rig.pool.cache_partial_block(r1, 1, 2, 0)
    rig.put(r1, 2, 16)
    rig.events()
    rig.pool.evict(given)
    assert rig.pool.observe().index == {}
    first, second = [removed(r1, 6), removed(r1, 2)], [removed(r1, 16)]
    assert rig.events() == (first + second if given[0] == 1 else second + first)


@pytest.mark.clause("POOL-EVICT-1")
@EVERY_KIND
def test_evict_takes_full_and_partial_keys_of_every_kind_of_group(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.take(r1)
    rig.put(r1, 2, 6)
    rig.pool.evict([2])
    assert (rig.found(r1, 4), rig.found(r1, 6)) == (1, None)
    rig.pool.evict([1])
    assert rig.found(r1, 4) is None


@pytest.mark.clause("POOL-EVICT-1")
def test_evicting_a_block_without_keys_does_nothing(rig: Rig) -> None:
    rig.take(rig.request("r1"))
    with rig.silent():
        rig.pool.evict([1, 2, 1])
        rig.pool.evict([])


@pytest.mark.clause("POOL-EVICT-1", "POOL-NULL-1", "ERR-ATOMIC-1")
@pytest.mark.parametrize("bad", [0, 4, -1])
def test_an_evict_with_one_bad_block_evicts_nothing(rig: Rig, bad: int) -> None:
    rig.fill(rig.request("r1"), 1)
    with rig.refused(InvalidBlock):
        rig.pool.evict([1, bad])


@pytest.mark.clause("POOL-EVICT-2")
def test_an_evicted_free_block_keeps_its_place_in_the_queue(new_rig: MakeRig) -> None:
    rig = new_rig(blocks=3)
    r1 = rig.request("r1")
    rig.fill(r1, 2)
    rig.free(r1, 1, 2)
    assert rig.queue() == [1, 2]
    rig.pool.evict([2])
    assert rig.queue() == [1, 2]
    assert rig.take(r1, 2) == [1, 2]


@pytest.mark.clause("POOL-EVICT-2")
def test_an_evicted_block_in_use_changes_in_nothing_but_its_keys(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 2)
    rig.touch(r2, 2, 8)
    before = rig.pool.observe()
    rig.pool.evict([2])
    after = rig.pool.observe()
    assert after.free_queue == before.free_queue
    for block, was in zip(after.blocks, before.blocks, strict=True):
        assert (block.ref_cnt, block.holders, block.writer) == (was.ref_cnt, was.holders, was.writer)
        assert (block.group, block.slot) == (was.group, was.slot)
    assert (after.blocks[2].writer, after.blocks[2].group, after.blocks[2].slot) == ("r1", 0, 1)


@pytest.mark.clause("POOL-EVICT-3", "INDEX-ORDER-1")
def test_an_evicted_key_comes_back_last_in_order(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    rig.pool.evict([1])
    rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    assert rig.pool.observe().index == {key(r1, 4): (2, 1)}


@pytest.mark.clause("POOL-EVICT-3")
def test_a_key_evicted_and_registered_again_is_removed_and_stored_again(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.events()
    rig.pool.evict([1])
    rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    assert rig.events() == [removed(r1, 4), Stored(0, (at(r1, 4),), None, (1, 2, 3, 4))]


# Move


@pytest.mark.clause("POOL-MOVE-1")
@EVERY_KIND
def test_moved_keys_are_found_on_the_other_block_and_nothing_is_emitted(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.put(r1, 1, 6)
    rig.events()
    rig.pool.move(1, 2)
    assert rig.keys_of(1) == []
    assert rig.keys_of(2) == [key(r1, 6)]
    assert rig.found(r1, 6) == 2
    assert (rig.pool.observe().blocks[2].group, rig.pool.observe().blocks[2].slot) == (0, 1)
    assert rig.events() == []


@pytest.mark.clause("POOL-MOVE-1")
def test_the_target_gets_the_group_of_the_source(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, RECURRENT)
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.put(r1, 1, 6, group=1)
    rig.pool.move(1, 2)
    assert (rig.pool.observe().blocks[2].group, rig.pool.observe().blocks[2].slot) == (1, 1)
    with rig.refused(OutOfRange):
        rig.pool.cache_partial_block(r1, 2, 6, 0)


@pytest.mark.clause("POOL-MOVE-2")
@pytest.mark.parametrize(("moved", "blocks"), [(1, (3, 2)), (2, (1, 3))])
def test_a_moved_entry_keeps_its_rank_among_the_blocks_of_its_key(
    rig: Rig, moved: int, blocks: tuple[int, int]
) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    rig.take(r1)
    rig.pool.move(moved, 3)
    assert rig.pool.observe().index[key(r1, 4)] == blocks
    assert rig.found(r1, 4) == blocks[0]


@pytest.mark.clause("POOL-MOVE-2")
def test_moved_keys_keep_their_order_on_the_block(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE)
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.put(r1, 1, 6)
    for shorter in (2, 4):
        rig.pool.cache_partial_block(r1, 1, shorter, 0)
    rig.pool.move(1, 2)
    assert rig.keys_of(2) == [key(r1, 6), key(r1, 2), key(r1, 4)]
    rig.events()
    rig.pool.evict([2])
    assert rig.events() == [removed(r1, 6), removed(r1, 2), removed(r1, 4)]


@pytest.mark.clause("POOL-MOVE-2", "POOL-EVICT-3")
def test_an_entry_registered_after_a_move_is_behind_the_moved_one(new_rig: MakeRig) -> None:
    rig = new_rig(blocks=5)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.take(r1)
    rig.pool.move(1, 2)
    rig.fill(r2, 1)
    assert rig.pool.observe().index[key(r1, 4)] == (2, 3)


@pytest.mark.clause("POOL-MOVE-3")
@pytest.mark.parametrize(
    ("src", "dst", "error"),
    [
        (2, 3, NotCached),
        (1, 1, InvalidBlock),
        (1, 7, NotReferenced),
        (1, 4, ContentConflict),
        (1, 5, ContentConflict),
        (1, 6, OutOfRange),
        (1, 8, InvalidBlock),
        (-1, 2, InvalidBlock),
    ],
    ids=["no key", "itself", "free", "has a key", "has a reader", "another slot", "no block", "no block either"],
)
def test_what_is_no_source_or_no_target_is_refused(
    new_rig: MakeRig, src: int, dst: int, error: type[PoolError]
) -> None:
    rig = new_rig(blocks=8)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1, 6)
    for block in (1, 4, 5):
        rig.put(r1, block, 4)
    rig.put(r1, 6, 8)
    rig.touch(r2, 5, 4)
    rig.pool.evict([5, 6])
    with rig.refused(error):
        rig.pool.move(src, dst)


@pytest.mark.clause("POOL-MOVE-3")
@pytest.mark.parametrize("dst", [2, 3], ids=["fresh", "evicted, of the same slot"])
def test_a_referenced_target_without_keys_and_readers_of_the_same_slot_is_accepted(rig: Rig, dst: int) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1, 3)
    rig.put(r1, 1, 4)
    rig.put(r1, 3, 4)
    rig.touch(r2, 3, 4)
    rig.free(r2, 3)
    rig.pool.evict([3])
    rig.pool.move(1, dst)
    assert rig.found(r1, 4) == dst


@pytest.mark.clause("POOL-MOVE-3")
def test_the_target_may_not_be_of_another_group(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, WIDE)
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.put(r1, 1, 4, group=0)
    rig.put(r1, 2, 4, group=1)
    rig.pool.evict([2])
    with rig.refused(OutOfRange):
        rig.pool.move(1, 2)


@pytest.mark.clause("POOL-MOVE-4")
def test_a_source_in_use_keeps_its_references(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.touch(r2, 1, 4)
    rig.take(r1)
    before = rig.pool.observe()
    rig.pool.move(1, 2)
    after = rig.pool.observe()
    for block in (1, 2):
        was, now = before.blocks[block], after.blocks[block]
        assert (now.ref_cnt, now.holders, now.writer) == (was.ref_cnt, was.holders, was.writer)
    assert after.free_queue == before.free_queue


@pytest.mark.clause("POOL-MOVE-4")
def test_a_free_source_keeps_its_place_in_the_queue(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.take(r2)
    rig.free(r1, 1)
    assert rig.queue() == [3, 1]
    rig.pool.move(1, 2)
    assert rig.queue() == [3, 1]
    assert rig.found(r1, 4) == 2
    assert rig.take(r1, 2) == [3, 1]
    assert rig.found(r1, 4) == 2


# Reset


@pytest.mark.clause("POOL-RESET-1", "EVENT-CLEARED-1")
@EVERY_KIND
def test_a_reset_forgets_every_key_partial_ones_and_siblings_too(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    rig.take(r1)
    rig.put(r1, 3, 6)
    rig.free(r1, 3, 1)
    rig.free(r2, 2)
    rig.events()
    rig.pool.reset()
    assert rig.pool.observe().index == {}
    assert [rig.found(r1, position) for position in (4, 6)] == [None, None]
    assert [rig.keys_of(block) for block in (1, 2, 3)] == [[], [], []]
    assert rig.events() == [Cleared()]
    rig.fill(r2, 1)
    assert rig.found(r1, 4) is not None


@pytest.mark.clause("POOL-RESET-2")
def test_a_reset_is_refused_while_one_block_is_referenced(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 2)
    rig.free(r1, 2)
    with rig.refused(StillReferenced):
        rig.pool.reset()
    assert [rig.found(r1, position) for position in (4, 8)] == [1, 2]
    rig.free(r1, 1)
    rig.pool.reset()
    assert [rig.found(r1, position) for position in (4, 8)] == [None, None]


@pytest.mark.clause("POOL-RESET-2")
def test_a_reset_is_refused_for_a_block_without_a_key_and_for_anonymous_references(
    new_rig: MakeRig,
) -> None:
    for holders in HolderMode:
        rig = new_rig(holders=holders)
        rig.take(rig.request("r1"))
        with rig.refused(StillReferenced):
            rig.pool.reset()


@pytest.mark.clause("POOL-RESET-1", "POOL-RESET-2")
def test_the_null_block_does_not_stand_in_the_way_of_a_reset(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.touch(r1, 0, 4)
    rig.pool.reset()
    rig.pool.reset()
    assert rig.events() == [Cleared(), Cleared()]


@pytest.mark.clause("POOL-RESET-3")
def test_the_queue_keeps_its_order_over_a_reset(rig: Rig) -> None:
    r1 = rig.request("r1", range(12))
    rig.fill(r1, 3)
    rig.free(r1, 2, 3, 1)
    assert rig.queue() == [2, 3, 1]
    rig.pool.reset()
    assert rig.queue() == [2, 3, 1]
    assert rig.take(r1, 3) == [2, 3, 1]


@pytest.mark.clause("POOL-MOVE-1", "POOL-MOVE-2")
def test_all_keys_of_a_block_move_together_in_their_order(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE)
    r1 = rig.request("r1")
    [src, dst] = rig.take(r1, 2)
    rig.pool.write(r1, src, 6, 0)
    for position in (6, 2, 4):
        rig.pool.cache_partial_block(r1, src, position, 0)
    rig.pool.move(src, dst)
    assert rig.keys_of(src) == []
    assert rig.keys_of(dst) == [key(r1, 6), key(r1, 2), key(r1, 4)]
    assert [rig.found(r1, position) for position in (2, 4, 6)] == [dst, dst, dst]
