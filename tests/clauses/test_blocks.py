from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kvproof.reference import BlockPool
from kvproof.spec.errors import (
    AlreadyHeld,
    InvalidArgument,
    InvalidBlock,
    NotAligned,
    NotCached,
    NotOwner,
    NotReferenced,
    OutOfBlocks,
    OutOfRange,
    PoolError,
)
from kvproof.spec.vocabulary import (
    ExtraKeySource,
    GroupConfig,
    GroupKind,
    HashAlgorithm,
    HolderMode,
    PoolConfig,
    Residency,
)
from tests.clauses.rig import (
    ATTENTION,
    ATTENTION_KINDS,
    EVERY_KIND,
    RECURRENT,
    WIDE,
    WINDOW,
    MakeRig,
    Rig,
    key,
    removed,
)

CALLER = HolderMode.CALLER

# The pool

GOOD = PoolConfig(4, 2, (ATTENTION,))


@pytest.mark.clause("POOL-CONFIG-1")
@pytest.mark.parametrize(
    "change",
    [
        {"num_blocks": 1},
        {"hash_block_size": 1},
        {"hash_block_size": 4},
        {"groups": (GroupConfig(GroupKind.RECURRENT, 2),)},
        {"groups": (ATTENTION, WINDOW, RECURRENT, WIDE)},
        {"groups": (replace(WINDOW, window=1),)},
        {"hash_seed": b""},
        {"hash_algorithm": HashAlgorithm.XXH3_128},
        {"residency": Residency.PER_COPY},
        {"holders": CALLER},
    ],
)
def test_a_configuration_just_inside_the_limits_makes_a_pool(change: dict[str, Any]) -> None:
    config = replace(GOOD, **change)
    assert BlockPool(config).config == config


@pytest.mark.clause("POOL-CONFIG-1", "ERR-TYPE-1")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"num_blocks": 0}, OutOfRange),
        ({"num_blocks": -1}, OutOfRange),
        ({"num_blocks": 2**31}, OutOfRange),
        ({"num_blocks": True}, InvalidArgument),
        ({"num_blocks": 4.0}, InvalidArgument),
        ({"num_blocks": "4"}, InvalidArgument),
        ({"hash_block_size": 0}, OutOfRange),
        ({"hash_block_size": -2}, OutOfRange),
        ({"hash_block_size": None}, InvalidArgument),
        ({"hash_block_size": 8}, NotAligned),
        ({"groups": ()}, InvalidArgument),
        ({"groups": [ATTENTION]}, InvalidArgument),
        ({"groups": (GroupKind.RECURRENT,)}, InvalidArgument),
        ({"groups": (GroupConfig("full_attention", 4),)}, InvalidArgument),  # type: ignore[arg-type]
        ({"groups": (replace(ATTENTION, block_size=3),)}, NotAligned),
        ({"groups": (ATTENTION, replace(RECURRENT, block_size=5))}, NotAligned),
        ({"groups": (replace(ATTENTION, block_size=0),)}, OutOfRange),
        ({"groups": (replace(ATTENTION, block_size=-4),)}, OutOfRange),
        ({"groups": (replace(ATTENTION, block_size=True),)}, InvalidArgument),
        ({"groups": (replace(WINDOW, window=None),)}, InvalidArgument),
        ({"groups": (replace(WINDOW, window=0),)}, OutOfRange),
        ({"groups": (replace(WINDOW, window=True),)}, InvalidArgument),
        ({"groups": (replace(ATTENTION, window=6),)}, InvalidArgument),
        ({"groups": (replace(RECURRENT, window=6),)}, InvalidArgument),
        ({"hash_algorithm": "sha256"}, InvalidArgument),
        ({"hash_algorithm": ExtraKeySource.SALT}, InvalidArgument),
        ({"residency": "logical"}, InvalidArgument),
        ({"holders": "caller"}, InvalidArgument),
        ({"hash_seed": "seed"}, InvalidArgument),
        ({"hash_seed": bytearray(b"seed")}, InvalidArgument),
    ],
)
def test_a_bad_configuration_makes_no_pool(change: dict[str, Any], error: type[PoolError]) -> None:
    with pytest.raises(PoolError) as caught:
        BlockPool(replace(GOOD, **change))
    assert caught.type is error


@pytest.mark.clause("POOL-CONFIG-1", "ERR-TYPE-1")
@pytest.mark.parametrize("config", [None, {}, 4, (4, 2, (ATTENTION,))])
def test_only_a_configuration_makes_a_pool(config: Any) -> None:
    with pytest.raises(InvalidArgument):
        BlockPool(config)


@pytest.mark.clause("POOL-INIT-1")
def test_a_new_pool_is_empty_and_queues_its_blocks_in_ascending_order(new_rig: MakeRig) -> None:
    rig = new_rig(blocks=5)
    state = rig.pool.observe()
    assert state.free_queue == (1, 2, 3, 4)
    assert rig.pool.num_free == 4
    assert state.index == {}
    assert state.pending_events == ()
    assert len(state.blocks) == 5
    for block in state.blocks:
        assert (block.ref_cnt, block.holders, block.keys, block.writer) == (0, (), (), None)


@pytest.mark.clause("POOL-INIT-1")
def test_a_pool_of_the_null_block_alone_has_nothing_to_give(new_rig: MakeRig) -> None:
    rig = new_rig(blocks=1)
    r1 = rig.request("r1")
    assert (rig.queue(), rig.take(r1, 0)) == ([], [])
    with rig.refused(OutOfBlocks):
        rig.take(r1, 1)


# The null block


@pytest.mark.clause("POOL-NULL-1")
def test_freeing_the_null_block_has_no_effect(new_rig: MakeRig) -> None:
    rig = new_rig()
    r1 = rig.request("r1")
    rig.take(r1, 3)
    rig.free(r1, 0, 2, 0)
    assert rig.queue() == [2]
    assert rig.pool.observe().blocks[0].ref_cnt == 0
    with rig.silent():
        rig.free(r1, 0, 0)


@pytest.mark.clause("POOL-NULL-1")
@pytest.mark.parametrize("cached", [False, True])
def test_touching_the_null_block_has_no_effect_whatever_the_key(rig: Rig, cached: bool) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    with rig.silent():
        for _ in range(2):
            rig.touch(r2, 0, 4 if cached else 8)


@pytest.mark.clause("POOL-NULL-1")
@pytest.mark.parametrize(
    "call",
    [
        lambda rig, r1: rig.pool.cache_partial_block(r1, 0, 2, 0),
        lambda rig, r1: rig.pool.cache_partial_block(r1, 0, 4, 0, replace=True),
        lambda rig, r1: rig.pool.write(r1, 0, 2, 0),
        lambda rig, r1: rig.pool.evict([0]),
        lambda rig, r1: rig.pool.evict([1, 0]),
        lambda rig, r1: rig.pool.copy(0, 2, "r1"),
        lambda rig, r1: rig.pool.copy(1, 0, "r1"),
        lambda rig, r1: rig.pool.move(0, 2),
        lambda rig, r1: rig.pool.move(1, 0),
        lambda rig, r1: rig.pool.read(0, "r1"),
    ],
)
def test_everything_else_refuses_the_null_block(rig: Rig, call: Callable[[Rig, Any], object]) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.take(r1)
    with rig.refused(InvalidBlock):
        call(rig, r1)


@pytest.mark.clause("POOL-NULL-1")
def test_the_null_block_is_never_allocated(rig: Rig) -> None:
    r1 = rig.request("r1")
    for _ in range(3):
        taken = rig.take(r1, 3)
        assert sorted(taken) == [1, 2, 3]
        rig.free(r1, 0, *taken, 0)
    assert sorted(rig.queue()) == [1, 2, 3]


# Holders


@pytest.mark.clause("POOL-HOLDER-1")
def test_a_holder_cannot_touch_a_block_that_it_allocated(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    [block] = rig.fill(r1, 1)
    with rig.refused(AlreadyHeld):
        rig.touch(r1, block, 4)
    rig.touch(r2, block, 4)
    assert rig.pool.observe().blocks[block].ref_cnt == 2


@pytest.mark.clause("POOL-HOLDER-1")
def test_a_holder_cannot_touch_a_block_twice_but_again_after_freeing_it(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    [block] = rig.fill(r1, 1)
    rig.touch(r2, block, 4)
    with rig.refused(AlreadyHeld):
        rig.touch(r2, block, 4)
    rig.free(r2, block)
    rig.touch(r2, block, 4)
    assert [holder for holder, _ in rig.pool.observe().blocks[block].holders] == ["r1", "r2"]


@pytest.mark.clause("POOL-HOLDER-2")
def test_anonymous_references_are_only_counted(new_rig: MakeRig) -> None:
    rig = new_rig(holders=CALLER)
    r1 = rig.request("r1")
    [block] = rig.fill(r1, 1)
    for count in (2, 3):
        rig.touch(r1, block, 4)
        assert rig.pool.observe().blocks[block].ref_cnt == count
    assert rig.pool.observe().blocks[block].holders == ()
    assert rig.pool.observe().blocks[block].writer is None


@pytest.mark.clause("POOL-HOLDER-2")
def test_with_anonymous_references_anybody_writes_registers_reads_and_copies(new_rig: MakeRig) -> None:
    rig = new_rig(holders=CALLER)
    r1, r2 = rig.request("r1"), rig.request("r2")
    block, other = rig.take(r1, 2)
    rig.put(r2, block, 2)
    rig.put(r1, block, 4)
    rig.pool.copy(block, other)
    assert rig.pool.read(block) == rig.pool.read(other)
    rig.free(r2, block, other)
    assert rig.pool.num_free == 3


@pytest.mark.clause("POOL-HOLDER-2")
@pytest.mark.parametrize(
    "call",
    [
        lambda pool, key: pool.allocate(1, "r1"),
        lambda pool, key: pool.touch(1, key, "r1"),
        lambda pool, key: pool.free([1], "r1"),
        lambda pool, key: pool.copy(1, 2, "r1"),
        lambda pool, key: pool.read(1, "r1"),
        lambda pool, key: pool.finish("r1", []),
    ],
)
def test_a_pool_with_anonymous_references_takes_no_holder_name(
    new_rig: MakeRig, call: Callable[[BlockPool, bytes], object]
) -> None:
    rig = new_rig(holders=CALLER)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.take(r1)
    with rig.refused(InvalidArgument):
        call(rig.pool, key(r1, 4))


@pytest.mark.clause("POOL-WRITER-1")
def test_the_allocating_holder_writes_and_nobody_else_does(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    [block] = rig.fill(r1, 1)
    rig.touch(r2, block, 4)
    assert rig.pool.observe().blocks[block].writer == "r1"
    with rig.refused(NotOwner):
        rig.pool.write(r2, block, 4, 0)
    rig.pool.write(r1, block, 4, 0)


@pytest.mark.clause("POOL-WRITER-1")
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "with another reader"])
def test_a_request_that_frees_its_block_and_finds_it_again_is_a_reader(rig: Rig, shared: bool) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    [block] = rig.fill(r1, 1)
    if shared:
        rig.touch(r2, block, 4)
    rig.free(r1, block)
    assert rig.pool.observe().blocks[block].writer is None
    rig.touch(r1, block, 4)
    rig.pool.evict([block])
    with rig.refused(NotOwner):
        rig.pool.write(r1, block, 4, 0)
    with rig.refused(NotOwner):
        rig.pool.cache_partial_block(r1, block, 4, 0)


@pytest.mark.clause("POOL-WRITER-1")
def test_the_writer_stays_the_writer_when_readers_come_and_go(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    [block] = rig.take(r1)
    rig.put(r1, block, 2)
    rig.touch(r2, block, 2)
    rig.free(r2, block)
    rig.put(r1, block, 4)
    assert rig.found(r1, 4) == block


# Allocate


@pytest.mark.clause("POOL-ALLOC-1")
@pytest.mark.parametrize(("n", "taken", "left"), [(1, [3], [1, 2]), (2, [3, 1], [2]), (3, [3, 1, 2], [])])
def test_allocate_takes_the_first_blocks_of_the_queue_in_its_order(
    rig: Rig, n: int, taken: list[int], left: list[int]
) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1, 3)
    rig.free(r1, 3, 1, 2)
    assert rig.take(r2, n) == taken
    assert rig.queue() == left
    assert rig.pool.num_free == len(left)
    for block in taken:
        state = rig.pool.observe().blocks[block]
        assert (state.ref_cnt, state.holders, state.writer) == (1, (("r2", None),), "r2")


@pytest.mark.clause("POOL-ALLOC-2", "POOL-ALLOC-1")
def test_a_reallocated_block_loses_all_its_keys(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE, blocks=2)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1)
    rig.put(r1, 1, 6)
    for shorter in (2, 4):
        rig.pool.cache_partial_block(r1, 1, shorter, 0)
    rig.free(r1, 1)
    rig.events()
    assert rig.take(r2) == [1]
    assert [rig.found(r1, position) for position in (2, 4, 6)] == [None, None, None]
    assert rig.keys_of(1) == []
    assert rig.events() == [removed(r1, 6), removed(r1, 2), removed(r1, 4)]


@pytest.mark.clause("POOL-ALLOC-2")
@EVERY_KIND
def test_no_key_outlives_the_block_of_any_group(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1, r2 = rig.request("r1"), rig.request("r2")
    table = rig.fill(r1, 2)
    rig.free(r1, *reversed(table))
    assert rig.take(r2, 2) == [3, 2]
    assert (rig.found(r1, 4), rig.found(r1, 8)) == (1, None)
    assert rig.take(r2, 1) == [1]
    assert rig.found(r1, 4) is None


@pytest.mark.clause("POOL-ALLOC-2")
def test_blocks_one_to_three_all_free_and_block_one_with_two_keys(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE)
    r0, r1 = rig.request("r0"), rig.request("r1")
    rig.take(r0, 3)
    for block, position in ((1, 4), (2, 6), (3, 8)):
        rig.put(r0, block, position)
    rig.pool.cache_partial_block(r0, 1, 2, 0)
    rig.free(r0, 1, 2, 3)
    assert rig.queue() == [1, 2, 3]
    assert (rig.found(r0, 2), rig.found(r0, 4)) == (1, 1)
    assert rig.take(r1, 1) == [1]
    assert (rig.found(r0, 2), rig.found(r0, 4)) == (None, None)
    assert (rig.found(r0, 6), rig.found(r0, 8)) == (2, 3)


@pytest.mark.clause("POOL-ALLOC-3")
def test_allocate_takes_all_that_is_free_and_not_one_more(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.free(r1, 1)
    with rig.refused(OutOfBlocks):
        rig.take(r2, 4)
    assert rig.found(r1, 4) == 1
    assert sorted(rig.take(r2, 3)) == [1, 2, 3]
    with rig.refused(OutOfBlocks):
        rig.take(r2, 1)


@pytest.mark.clause("POOL-ALLOC-3")
def test_a_failed_allocation_after_two_hits_leaves_references_and_queue_alone(new_rig: MakeRig) -> None:
    rig = new_rig(blocks=6)
    r1, r2 = rig.request("r1"), rig.request("r2")
    table = rig.fill(r1, 2)
    rig.free(r1, *reversed(table))
    assert rig.queue() == [3, 4, 5, 2, 1]
    for position, block in ((4, 1), (8, 2)):
        rig.touch(r2, block, position)
    with rig.refused(OutOfBlocks):
        rig.take(r2, 4)
    assert rig.queue() == [3, 4, 5]
    assert rig.take(r2, 3) == [3, 4, 5]


@pytest.mark.clause("POOL-ALLOC-3")
@pytest.mark.parametrize("n", [-1, -2, -(2**70)])
def test_a_negative_count_is_out_of_range_and_zero_takes_none(rig: Rig, n: int) -> None:
    r1 = rig.request("r1")
    with rig.refused(OutOfRange):
        rig.take(r1, n)
    with rig.silent():
        assert rig.take(r1, 0) == []


@pytest.mark.clause("POOL-ALLOC-4")
@pytest.mark.parametrize("evicted", [False, True])
def test_a_reallocated_block_may_become_any_slot_of_any_group(new_rig: MakeRig, evicted: bool) -> None:
    rig = new_rig(ATTENTION, RECURRENT, blocks=2)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1, group=0)
    if evicted:
        rig.pool.evict([1])
    rig.free(r1, 1)
    assert (rig.pool.observe().blocks[1].group, rig.pool.observe().blocks[1].slot) == (0, 0)
    assert rig.take(r2) == [1]
    assert (rig.pool.observe().blocks[1].group, rig.pool.observe().blocks[1].slot) == (None, None)
    rig.put(r2, 1, 8, group=1)
    assert (rig.pool.observe().blocks[1].group, rig.pool.observe().blocks[1].slot) == (1, 1)


# Touch


@pytest.mark.clause("POOL-TOUCH-1")
@pytest.mark.parametrize(("touched", "left"), [(3, [2, 1]), (2, [3, 1]), (1, [3, 2])])
def test_a_touched_free_block_leaves_the_queue_wherever_it_stands(rig: Rig, touched: int, left: list[int]) -> None:
    r1, r2 = rig.request("r1", range(12)), rig.request("r2", range(12))
    rig.free(r1, *reversed(rig.fill(r1, 3)))
    assert rig.queue() == [3, 2, 1]
    rig.touch(r2, touched, touched * 4)
    assert rig.queue() == left
    assert rig.pool.num_free == 2
    assert rig.pool.observe().blocks[touched].ref_cnt == 1
    assert rig.take(r2, 2) == left


@pytest.mark.clause("POOL-TOUCH-1")
def test_touching_a_block_in_use_adds_one_reference_and_leaves_the_queue(rig: Rig) -> None:
    r1, r2, r3 = rig.request("r1"), rig.request("r2"), rig.request("r3")
    [block] = rig.fill(r1, 1)
    for count, reader in ((2, r2), (3, r3)):
        rig.touch(reader, block, 4)
        assert rig.pool.observe().blocks[block].ref_cnt == count
    assert rig.queue() == [2, 3]


@pytest.mark.clause("POOL-TOUCH-1")
def test_a_block_freed_touched_and_freed_again_is_queued_once(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    [block] = rig.fill(r1, 1)
    rig.free(r1, block)
    rig.touch(r2, block, 4)
    rig.free(r2, block)
    assert rig.queue() == [2, 3, 1]
    assert rig.take(r1, 3) == [2, 3, 1]


@pytest.mark.clause("POOL-TOUCH-2")
@EVERY_KIND
def test_a_block_reused_between_lookup_and_touch_is_not_handed_out(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group, blocks=2)
    r1, r2, r3 = rig.request("r1"), rig.request("r2", range(50, 58)), rig.request("r3")
    rig.fill(r1, 1)
    rig.free(r1, 1)
    assert rig.found(r3, 4) == 1
    rig.fill(r2, 1)
    rig.free(r2, 1)
    with rig.refused(NotCached):
        rig.touch(r3, 1, 4)
    rig.touch(rig.request("r4", range(50, 58)), 1, 4)


@pytest.mark.clause("POOL-TOUCH-2")
def test_a_key_of_another_block_or_group_is_not_cached_here(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, WINDOW)
    r1, r2 = rig.request("r1"), rig.request("r2")
    first, second = rig.fill(r1, 2)
    for block, position, group in ((first, 8, 0), (second, 4, 0), (first, 4, 1), (3, 4, 0)):
        with rig.refused(NotCached):
            rig.touch(r2, block, position, group)
    rig.touch(r2, first, 4)


@pytest.mark.clause("POOL-TOUCH-3", "POOL-TOUCH-1")
@pytest.mark.parametrize("position", [2, 4, 6])
def test_any_key_of_the_block_will_do_and_all_stay_as_they_are(new_rig: MakeRig, position: int) -> None:
    rig = new_rig(WIDE)
    r1, r2 = rig.request("r1"), rig.request("r2")
    first, second = rig.take(r1, 2)
    rig.put(r1, second, 6)
    rig.put(r1, first, 6)
    for shorter in (4, 2):
        rig.pool.cache_partial_block(r1, second, shorter, 0)
        rig.pool.cache_partial_block(r1, first, shorter, 0)
    before = rig.pool.observe()
    rig.touch(r2, first, position)
    after = rig.pool.observe()
    assert after.index == before.index
    assert [block.keys for block in after.blocks] == [block.keys for block in before.blocks]
    assert after.pending_events == before.pending_events
    assert rig.found(r2, position) == second


# Free


@pytest.mark.clause("POOL-FREE-1")
def test_a_block_leaves_use_when_its_last_holder_frees_it(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    [block] = rig.fill(r1, 1)
    rig.touch(r2, block, 4)
    rig.free(r1, block)
    assert rig.pool.observe().blocks[block].ref_cnt == 1
    assert rig.queue() == [2, 3]
    rig.free(r2, block)
    assert rig.pool.observe().blocks[block].ref_cnt == 0
    assert rig.queue() == [2, 3, 1]


@pytest.mark.clause("POOL-FREE-2")
def test_freed_blocks_without_key_come_back_first_in_the_order_given(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.take(r1, 2)
    assert rig.queue() == [3]
    rig.free(r1, 2, 1)
    assert rig.queue() == [2, 1, 3]
    assert rig.take(r1, 1) == [2]


@pytest.mark.clause("POOL-FREE-2")
def test_the_blocks_of_a_later_call_go_before_those_of_an_earlier_one(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.take(r1, 3)
    rig.free(r1, 2, 1)
    rig.free(r1, 3)
    assert rig.queue() == [3, 2, 1]


@pytest.mark.clause("POOL-FREE-3")
def test_freed_blocks_with_a_key_go_to_the_tail_in_the_order_given(rig: Rig) -> None:
    r1 = rig.request("r1")
    assert rig.fill(r1, 2) == [1, 2]
    assert rig.queue() == [3]
    rig.free(r1, 2, 1)
    assert rig.queue() == [3, 2, 1]
    rig.take(r1, 2)
    assert (rig.found(r1, 4), rig.found(r1, 8)) == (1, None)


@pytest.mark.clause("POOL-FREE-2", "POOL-FREE-3")
@ATTENTION_KINDS
def test_one_call_sorts_blocks_with_and_without_keys_to_both_ends(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group, blocks=6)
    r1 = rig.request("r1")
    rig.take(r1, 4)
    rig.put(r1, 1, 4)
    rig.put(r1, 3, 6)
    rig.free(r1, 4, 3, 0, 2, 1)
    assert rig.queue() == [4, 2, 5, 3, 1]


@pytest.mark.clause("POOL-FREE-4")
def test_a_call_that_releases_a_block_twice_is_refused_whole(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.take(r1, 2)
    with rig.refused(NotReferenced):
        rig.free(r1, 1, 2, 2)
    rig.free(r1, 1, 2)


@pytest.mark.clause("POOL-FREE-4")
@pytest.mark.parametrize("blocks", [[1, 3], [3, 1], [1, 2], [2]])
def test_a_call_that_releases_what_the_holder_does_not_hold_is_refused_whole(rig: Rig, blocks: list[int]) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1, 1)
    rig.take(r2, 1)
    with rig.refused(NotReferenced):
        rig.free(r1, *blocks)
    rig.free(r1, 1)


@pytest.mark.clause("POOL-FREE-4")
def test_a_second_free_of_a_block_that_another_holder_holds_is_refused(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    [block] = rig.fill(r1, 1)
    rig.touch(r2, block, 4)
    rig.free(r1, block)
    with rig.refused(NotReferenced):
        rig.free(r1, block)
    with rig.refused(NotReferenced):
        rig.free(r2, block, block)
    rig.free(r2, block)


@pytest.mark.clause("POOL-FREE-4", "POOL-HOLDER-2")
def test_anonymous_references_are_released_as_often_as_there_are_any(new_rig: MakeRig) -> None:
    rig = new_rig(holders=CALLER)
    r1 = rig.request("r1")
    [block] = rig.fill(r1, 1)
    rig.touch(r1, block, 4)
    with rig.refused(NotReferenced):
        rig.free(r1, block, block, block)
    rig.free(r1, block, block)
    with rig.refused(NotReferenced):
        rig.free(r1, block)


@pytest.mark.clause("POOL-FREE-5")
@pytest.mark.parametrize(
    ("given", "queue"),
    [([1, 2, 1], [3, 2, 1]), ([1, 1, 2], [3, 1, 2]), ([2, 1, 1], [3, 2, 1]), ([1, 2], [3, 2])],
)
def test_a_repeated_block_with_a_key_takes_its_place_where_its_count_reaches_zero(
    new_rig: MakeRig, given: list[int], queue: list[int]
) -> None:
    rig = new_rig(holders=CALLER)
    r1 = rig.request("r1")
    rig.fill(r1, 2)
    rig.touch(r1, 1, 4)
    rig.free(r1, *given)
    assert rig.queue() == queue


@pytest.mark.clause("POOL-FREE-5", "POOL-FREE-2")
@pytest.mark.parametrize(("given", "queue"), [([1, 2, 1], [2, 1, 3]), ([1, 1, 2], [1, 2, 3]), ([1, 2], [2, 3])])
def test_a_repeated_block_without_a_key_takes_its_place_where_its_count_reaches_zero(
    new_rig: MakeRig, given: list[int], queue: list[int]
) -> None:
    rig = new_rig(holders=CALLER)
    r1 = rig.request("r1")
    rig.fill(r1, 2)
    rig.touch(r1, 1, 4)
    rig.pool.evict([1, 2])
    rig.free(r1, *given)
    assert rig.queue() == queue


@pytest.mark.clause("POOL-FREE-6")
@EVERY_KIND
def test_a_freed_block_is_found_until_it_is_reallocated(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1, r2 = rig.request("r1"), rig.request("r2")
    table = rig.fill(r1, 2)
    rig.events()
    rig.free(r1, *reversed(table))
    assert rig.events() == []
    assert [rig.found(r2, position) for position in (4, 8)] == table
    assert rig.take(r2, 3) == [3, 2, 1]
    assert [rig.found(r2, position) for position in (4, 8)] == [None, None]


@pytest.mark.clause("POOL-FREE-6")
@pytest.mark.parametrize("end", [lambda pool: pool.evict([1]), lambda pool: pool.reset()], ids=["evict", "reset"])
def test_a_freed_block_is_found_until_it_is_evicted_or_reset(rig: Rig, end: Callable[[BlockPool], None]) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.free(r1, 1)
    assert rig.found(r1, 4) == 1
    end(rig.pool)
    assert rig.found(r1, 4) is None


@pytest.mark.clause("ERR-ATOMIC-1", "POOL-TOUCH-2")
def test_a_refused_touch_leaves_a_free_block_in_the_queue(rig: Rig) -> None:
    r1 = rig.request("r1")
    [block] = rig.fill(r1, 1)
    rig.free(r1, block)
    with rig.refused(NotCached):
        rig.touch(r1, block, 2)
    rig.touch(r1, block, 4)
    assert rig.queue() == [2, 3]


@pytest.mark.clause("POOL-TOUCH-3")
def test_touching_the_second_copy_leaves_the_first_one_first(rig: Rig) -> None:
    r1, r2, r3 = rig.request("r1"), rig.request("r2"), rig.request("r3")
    [first], [second] = rig.fill(r1, 1), rig.fill(r2, 1)
    rig.touch(r3, second, 4)
    assert rig.pool.observe().index[key(r1, 4)] == (first, second)
    assert rig.found(r3, 4) == first


@pytest.mark.clause("ERR-TEXT-1")
def test_a_wrong_choice_is_answered_with_the_choices_that_there_are() -> None:
    with pytest.raises(InvalidArgument, match=r"residency must be one of .*LOGICAL, .*PER_COPY, not 'logical'"):
        BlockPool(PoolConfig(4, 2, (ATTENTION,), residency="logical"))  # type: ignore[arg-type]
