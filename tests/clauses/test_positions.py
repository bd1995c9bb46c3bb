from __future__ import annotations

import pytest

from kvproof.spec.errors import NotAligned, OutOfRange
from kvproof.spec.vocabulary import GroupConfig
from tests.clauses.rig import ATTENTION, EVERY_KIND, TEN, WIDE, MakeRig, Rig, key

SLOTS = [(2, 0), (4, 0), (6, 1), (8, 1), (10, 2)]


@pytest.mark.clause("POS-SLOT-1")
@EVERY_KIND
@pytest.mark.parametrize(("position", "slot"), SLOTS)
def test_a_key_is_in_the_slot_that_its_last_token_is_in(
    new_rig: MakeRig, group: GroupConfig, position: int, slot: int
) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    [block] = rig.take(r1)
    rig.put(r1, block, position)
    assert rig.pool.observe().blocks[block].slot == slot


@pytest.mark.clause("POS-SLOT-1")
@EVERY_KIND
@pytest.mark.parametrize("position", [5, 6, 7, 8])
def test_a_write_may_end_at_every_token_of_the_blocks_slot(new_rig: MakeRig, group: GroupConfig, position: int) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    [block] = rig.take(r1)
    rig.put(r1, block, 6)
    rig.pool.evict([block])
    rig.pool.write(r1, block, position, 0)


@pytest.mark.clause("POS-SLOT-1")
@EVERY_KIND
@pytest.mark.parametrize("position", [4, 9])
def test_a_write_may_not_end_just_outside_the_blocks_slot(new_rig: MakeRig, group: GroupConfig, position: int) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    [block] = rig.take(r1)
    rig.put(r1, block, 6)
    rig.pool.evict([block])
    with rig.refused(OutOfRange):
        rig.pool.write(r1, block, position, 0)


@pytest.mark.clause("POS-FULL-1")
@EVERY_KIND
@pytest.mark.parametrize(("position", "full"), [(2, False), (4, True), (6, False), (8, True), (10, False)])
def test_a_key_is_full_exactly_at_multiples_of_the_block_size(
    new_rig: MakeRig, group: GroupConfig, position: int, full: bool
) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    [block] = rig.take(r1)
    rig.put(r1, block, position)
    assert rig.pool.full_key(block) == (key(r1, position) if full else None)


@pytest.mark.clause("POS-FULL-1", "POS-SLOT-1")
def test_full_is_said_in_the_block_size_of_the_group(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, WIDE)
    r1 = rig.request("r1")
    small, wide = rig.take(r1, 2)
    rig.put(r1, small, 4, group=0)
    rig.put(r1, wide, 4, group=1)
    assert rig.pool.full_key(small) == key(r1, 4, 0)
    assert rig.pool.full_key(wide) is None


@pytest.mark.clause("POS-ALIGN-1")
@pytest.mark.parametrize("position", [2, 4])
def test_with_five_tokens_and_h_two_the_positions_are_two_and_four(rig: Rig, position: int) -> None:
    r1 = rig.request("r1", [1, 2, 3, 4, 5])
    [block] = rig.take(r1)
    rig.put(r1, block, position)
    assert rig.found(r1, position) == block


@pytest.mark.clause("POS-ALIGN-1")
@pytest.mark.parametrize(
    ("position", "error"),
    [(3, NotAligned), (1, NotAligned), (5, OutOfRange), (6, OutOfRange), (0, OutOfRange), (-2, OutOfRange)],
)
def test_with_five_tokens_and_h_two_no_other_position_is_registered(
    rig: Rig, position: int, error: type[NotAligned] | type[OutOfRange]
) -> None:
    r1 = rig.request("r1", [1, 2, 3, 4, 5])
    [block] = rig.take(r1)
    rig.pool.write(r1, block, 4, 0)
    with rig.refused(error):
        rig.pool.cache_partial_block(r1, block, position, 0)


@pytest.mark.clause("POS-ALIGN-1")
def test_tokens_that_fill_no_hash_yet_are_not_registered_until_one_more_comes(rig: Rig) -> None:
    r1 = rig.request("r1", TEN[:7])
    first, second = rig.take(r1, 2)
    rig.pool.write(r1, first, 4, 0)
    rig.pool.write(r1, second, 7, 0)
    with rig.refused(OutOfRange):
        rig.pool.cache_full_blocks(r1, [first, second], 0, 2, 0)
    r1.append([8])
    rig.pool.write(r1, second, 8, 0)
    rig.pool.cache_full_blocks(r1, [first, second], 0, 2, 0)
    assert rig.found(r1, 8) == second


@pytest.mark.clause("POS-UNIT-1")
@pytest.mark.parametrize(
    ("block_size", "positions"),
    [(2, [2, 4, 6, 8, 10, 12]), (4, [4, 8, 12]), (6, [6, 12]), (8, [8]), (12, [12]), (14, [])],
)
def test_item_i_of_a_view_is_the_hash_at_the_end_of_slot_i(rig: Rig, block_size: int, positions: list[int]) -> None:
    r1 = rig.request("r1", range(13))
    assert list(r1.view(block_size)) == [r1.hash_at(position) for position in positions]


@pytest.mark.clause("POS-UNIT-1")
@pytest.mark.parametrize(("num_tokens", "slots"), [(0, 0), (7, 0), (8, 1), (15, 1), (16, 2), (17, 2)])
def test_a_view_has_as_many_items_as_whole_slots(rig: Rig, num_tokens: int, slots: int) -> None:
    assert len(rig.request("r1", range(num_tokens)).view(8)) == slots


@pytest.mark.clause("POS-UNIT-1")
def test_a_hash_does_not_depend_on_the_block_size_that_it_is_seen_in(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, WIDE)
    r1 = rig.request("r1")
    small = rig.fill(r1, 2, group=0)
    [wide] = rig.fill(r1, 1, group=1)
    assert rig.keys_of(small[1])[0][:32] == rig.keys_of(wide)[0][:32] == r1.hash_at(8)
