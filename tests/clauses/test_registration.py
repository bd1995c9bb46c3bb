from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from kvproof.spec.errors import (
    ContentConflict,
    InvalidBlock,
    InvalidGroup,
    NotOwner,
    NotReferenced,
    OutOfRange,
    PoolError,
)
from kvproof.spec.events import Stored
from kvproof.spec.vocabulary import GroupConfig, GroupKind
from tests.clauses.rig import (
    ATTENTION,
    ATTENTION_KINDS,
    EVERY_KIND,
    RECURRENT,
    WIDE,
    WINDOW,
    MakeRig,
    Rig,
    at,
    key,
    removed,
)

WIDE_WINDOW = GroupConfig(GroupKind.SLIDING_WINDOW, 8, window=6)
WIDE_ATTENTION_KINDS = pytest.mark.parametrize("group", [WIDE, WIDE_WINDOW], ids=lambda group: group.kind.value)

FULL_AND_PARTIAL = pytest.mark.parametrize("entry", ["full", "partial"])


def register(rig: Rig, entry: str, request_name: str, block: int, replace: bool = False) -> None:
    """Register H(4), slot 0, through one of the two calls."""
    [request] = [request for request in rig.requests if request.request_id == request_name]
    if entry == "full":
        rig.pool.cache_full_blocks(request, [block], 0, 1, 0, replace=replace)
    else:
        rig.pool.cache_partial_block(request, block, 4, 0, replace=replace)


# Rules for every registration


@pytest.mark.clause("REG-DUPLICATE-1")
@EVERY_KIND
@FULL_AND_PARTIAL
@pytest.mark.parametrize("who", ["r1", "reader", "stranger"])
def test_a_key_that_the_block_has_is_not_registered_again_whoever_asks(
    new_rig: MakeRig, group: GroupConfig, entry: str, who: str
) -> None:
    rig = new_rig(group)
    r1, reader = rig.request("r1"), rig.request("reader")
    rig.request("stranger")
    rig.fill(r1, 1)
    rig.touch(reader, 1, 4)
    rig.events()
    with rig.silent():
        register(rig, entry, who, 1)


@pytest.mark.clause("REG-DUPLICATE-1")
@FULL_AND_PARTIAL
def test_a_key_that_a_free_block_has_is_not_registered_again_either(rig: Rig, entry: str) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.free(r1, 1)
    with rig.silent():
        register(rig, entry, "r1", 1)


@pytest.mark.clause("REG-DUPLICATE-1", "INDEX-ORDER-1")
def test_registering_again_does_not_change_who_is_found_first(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    register(rig, "full", "r1", 1)
    assert rig.pool.observe().index[key(r1, 4)] == (1, 2)


@pytest.mark.clause("REG-OWNER-1")
@EVERY_KIND
@FULL_AND_PARTIAL
@pytest.mark.parametrize("replace", [False, True])
def test_a_reader_registers_nothing_and_the_writer_does(
    new_rig: MakeRig, group: GroupConfig, entry: str, replace: bool
) -> None:
    rig = new_rig(group)
    r1, reader = rig.request("r1"), rig.request("reader")
    rig.take(r1)
    rig.put(r1, 1, 2)
    rig.touch(reader, 1, 2)
    rig.pool.evict([1])
    with rig.refused(NotOwner):
        register(rig, entry, "reader", 1, replace)
    if group is not RECURRENT:
        rig.pool.write(r1, 1, 4, 0)
        register(rig, entry, "r1", 1, replace)
        assert rig.found(r1, 4) == 1


@pytest.mark.clause("REG-OWNER-1")
@FULL_AND_PARTIAL
def test_a_stranger_and_a_former_writer_register_nothing(rig: Rig, entry: str) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1)
    rig.put(r1, 1, 2)
    with rig.refused(NotOwner):
        register(rig, entry, "r2", 1)
    rig.touch(r2, 1, 2)
    rig.free(r1, 1)
    with rig.refused(NotOwner):
        register(rig, entry, "r1", 1)
    rig.touch(r1, 1, 2)
    with rig.refused(NotOwner):
        register(rig, entry, "r1", 1)


@pytest.mark.clause("REG-OWNER-2")
@FULL_AND_PARTIAL
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("cached", [False, True], ids=["without key", "with a key"])
def test_a_free_block_is_never_registered(rig: Rig, entry: str, replace: bool, cached: bool) -> None:
    r1 = rig.request("r1")
    rig.take(r1)
    if cached:
        rig.put(r1, 1, 2)
    rig.free(r1, 1)
    with rig.refused(NotReferenced):
        register(rig, entry, "r1", 1, replace)


@pytest.mark.clause("REG-SLOT-1")
@EVERY_KIND
def test_an_evicted_block_still_is_the_slot_of_its_first_key(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 4)
    rig.pool.evict([1])
    assert (rig.pool.observe().blocks[1].group, rig.pool.observe().blocks[1].slot) == (0, 0)
    with rig.refused(OutOfRange):
        rig.pool.cache_partial_block(r1, 1, 6, 0)
    with rig.refused(OutOfRange):
        rig.pool.cache_full_blocks(r1, [0, 1], 1, 2, 0, replace=True)
    rig.put(r1, 1, 2)
    assert rig.found(r1, 2) == 1


@pytest.mark.clause("REG-SLOT-1")
@pytest.mark.parametrize("replace", [False, True])
def test_a_block_does_not_change_its_group(new_rig: MakeRig, replace: bool) -> None:
    rig = new_rig(ATTENTION, WINDOW)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 2)
    with rig.refused(OutOfRange):
        rig.pool.cache_partial_block(r1, 1, 4, 1, replace=replace)
    with rig.refused(OutOfRange):
        rig.pool.cache_full_blocks(r1, [1], 0, 1, 1, replace=replace)
    rig.put(r1, 1, 4)
    assert rig.pool.observe().blocks[1].group == 0


@pytest.mark.clause("REG-CONFLICT-1")
@EVERY_KIND
@FULL_AND_PARTIAL
def test_a_truncated_request_cannot_register_another_text_on_the_same_rows(
    new_rig: MakeRig, group: GroupConfig, entry: str
) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1", [1, 2, 3, 99])
    rig.fill(r1, 1)
    old = key(r1, 4)
    r1.truncate(3)
    r1.append([7])
    with rig.refused(ContentConflict):
        register(rig, entry, "r1", 1)
    assert rig.pool.lookup([old, key(r1, 4)]) == [1, None]
    rig.pool.evict([1])
    rig.pool.write(r1, 1, 4, 0)
    register(rig, entry, "r1", 1)
    assert rig.pool.lookup([old, key(r1, 4)]) == [None, 1]


@pytest.mark.clause("REG-CONFLICT-1")
def test_a_key_beyond_the_hashed_tokens_counts_as_different(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE)
    r1 = rig.request("r1", [1, 2, 3, 4, 5, 6])
    rig.take(r1)
    rig.put(r1, 1, 6)
    r1.truncate(5)
    with rig.refused(ContentConflict):
        rig.pool.cache_partial_block(r1, 1, 4, 0)
    r1.append([6])
    rig.pool.cache_partial_block(r1, 1, 4, 0)
    assert rig.found(r1, 4) == 1


@pytest.mark.clause("REG-CONFLICT-1")
def test_every_key_of_the_block_must_be_the_requests_own_not_only_the_last(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE, blocks=3)
    r1 = rig.request("r1", [1, 2, 3, 4, 5, 6, 7, 8])
    rig.take(r1)
    rig.put(r1, 1, 4)
    rig.pool.cache_partial_block(r1, 1, 2, 0)
    r1.truncate(3)
    r1.append([40, 5, 6, 7, 8])
    for position in (6, 8):
        with rig.refused(ContentConflict):
            rig.pool.cache_partial_block(r1, 1, position, 0)
    with rig.refused(ContentConflict):
        rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)


@pytest.mark.clause("REG-ATOMIC-1", "ERR-ATOMIC-1")
@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda rig, r1, r2: rig.free(r1, 3), NotReferenced),
        (lambda rig, r1, r2: (rig.free(r1, 3), rig.take(r2)), NotOwner),
        (lambda rig, r1, r2: rig.put(r1, 3, 2), OutOfRange),
    ],
)
def test_several_slots_are_registered_all_or_none(
    rig: Rig, spoil: Callable[..., object], error: type[PoolError]
) -> None:
    r1, r2 = rig.request("r1", range(12)), rig.request("r2", range(12))
    table = rig.take(r1, 3)
    rig.put(r1, 1, 2)
    for block in (1, 2):
        rig.pool.write(r1, block, block * 4, 0)
    spoil(rig, r1, r2)
    with rig.refused(error):
        rig.pool.cache_full_blocks(r1, table, 0, 3, 0)
    assert rig.found(r1, 2) is not None
    rig.pool.cache_full_blocks(r1, table, 0, 2, 0)
    assert [rig.found(r1, position) for position in (4, 8)] == [1, 2]


# Full blocks


@pytest.mark.clause("REG-FULL-1")
@EVERY_KIND
@pytest.mark.parametrize(
    ("first", "last", "found"),
    [(0, 3, [1, 2, 3]), (1, 3, [None, 2, 3]), (1, 2, [None, 2, None]), (0, 0, [None] * 3), (3, 3, [None] * 3)],
)
def test_full_keys_are_registered_on_the_blocks_at_the_slots_of_the_range(
    new_rig: MakeRig, group: GroupConfig, first: int, last: int, found: list[int | None]
) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1", range(12))
    table = rig.take(r1, 3)
    for slot, block in enumerate(table):
        rig.pool.write(r1, block, 4 * (slot + 1), 0)
    rig.pool.cache_full_blocks(r1, table, first, last, 0)
    assert [rig.found(r1, position) for position in (4, 8, 12)] == found
    assert [rig.found(r1, position) for position in (2, 6, 10)] == [None] * 3
    assert [block.slot for block in rig.pool.observe().blocks[1:]] == [
        None if block is None else slot for slot, block in enumerate(found)
    ]


@pytest.mark.clause("REG-FULL-2")
@EVERY_KIND
@pytest.mark.parametrize(
    ("table", "mask", "found"),
    [
        ([1, 0, 3], None, [1, None, 3]),
        ([0, 0, 0], None, [None, None, None]),
        ([1, 2, 3], [True, False, True], [1, None, 3]),
        ([1, 2, 3], [False, False, False], [None, None, None]),
        ([1, 2, 3], [True, True, True], [1, 2, 3]),
        ([0, 2, 3], [True, True, False], [None, 2, None]),
    ],
)
def test_null_and_masked_slots_are_skipped(
    new_rig: MakeRig,
    group: GroupConfig,
    table: list[int],
    mask: list[bool] | None,
    found: list[int | None],
) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1", range(12))
    rig.take(r1, 3)
    for block in (1, 2, 3):
        rig.pool.write(r1, block, block * 4, 0)
    rig.pool.cache_full_blocks(r1, table, 0, 3, 0, mask)
    assert [rig.found(r1, position) for position in (4, 8, 12)] == found


@pytest.mark.clause("REG-FULL-2")
def test_the_mask_begins_at_the_first_slot_of_the_range(rig: Rig) -> None:
    r1 = rig.request("r1", range(12))
    table = rig.take(r1, 3)
    for block in table:
        rig.pool.write(r1, block, block * 4, 0)
    rig.pool.cache_full_blocks(r1, table, 1, 3, 0, [False, True])
    assert [rig.found(r1, position) for position in (4, 8, 12)] == [None, None, 3]


@pytest.mark.clause("REG-FULL-3", "EVENT-ORDER-1")
@ATTENTION_KINDS
@FULL_AND_PARTIAL
def test_a_shorter_key_goes_before_the_full_key_comes(new_rig: MakeRig, group: GroupConfig, entry: str) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 2)
    rig.events()
    rig.pool.write(r1, 1, 4, 0)
    register(rig, entry, "r1", 1)
    assert (rig.found(r1, 2), rig.found(r1, 4)) == (None, 1)
    assert rig.events() == [removed(r1, 2), Stored(0, (at(r1, 4),), None, (1, 2, 3, 4))]


@pytest.mark.clause("REG-FULL-3")
@WIDE_ATTENTION_KINDS
def test_all_shorter_keys_go_when_the_full_key_comes(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 6)
    for shorter in (2, 4):
        rig.pool.cache_partial_block(r1, 1, shorter, 0)
    rig.pool.write(r1, 1, 8, 0)
    rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    assert rig.keys_of(1) == [key(r1, 8)]


@pytest.mark.clause("REG-FULL-4")
@pytest.mark.parametrize(
    ("table", "first", "last", "mask", "error"),
    [
        ([1, 2, 3], 0, 4, None, OutOfRange),
        ([1, 2], 0, 3, None, OutOfRange),
        ([], 0, 1, None, OutOfRange),
        ([1, 2, 3], 0, 3, None, OutOfRange),
        ([1, 2, 3], -1, 2, None, OutOfRange),
        ([1, 2, 3], 2, 1, None, OutOfRange),
        ([1, 2, 3], 0, 2, [True], OutOfRange),
        ([1, 2, 3], 0, 2, [True, True, True], OutOfRange),
        ([1, 2, 3], 0, 2, [], OutOfRange),
        ([1, 1, 3], 0, 2, None, InvalidBlock),
        ([1, 2, 3], 0, 2**70, None, OutOfRange),
        ([1, 2, 4], 0, 2, None, InvalidBlock),
    ],
)
def test_a_range_a_mask_or_a_table_that_does_not_fit_is_refused(
    rig: Rig, table: list[int], first: int, last: int, mask: list[bool] | None, error: type[PoolError]
) -> None:
    r1 = rig.request("r1")
    rig.take(r1, 3)
    with rig.refused(error):
        rig.pool.cache_full_blocks(r1, table, first, last, 0, mask)


@pytest.mark.clause("REG-FULL-4")
@pytest.mark.parametrize(
    ("table", "first", "last", "mask", "found"),
    [
        ([1, 2], 0, 2, None, [1, 2]),
        ([1, 2, 3], 0, 2, [True, True], [1, 2]),
        ([1, 1], 0, 1, None, [1, None]),
        ([1, 1], 0, 2, [True, False], [1, None]),
        ([0, 2, 0], 0, 2, None, [None, 2]),
        ([], 0, 0, [], [None, None]),
    ],
)
def test_a_range_a_mask_and_a_table_that_just_fit_are_accepted(
    rig: Rig, table: list[int], first: int, last: int, mask: list[bool] | None, found: list[int | None]
) -> None:
    r1 = rig.request("r1")
    rig.take(r1, 3)
    rig.pool.write(r1, 1, 4, 0)
    rig.pool.write(r1, 2, 8, 0)
    rig.pool.cache_full_blocks(r1, table, first, last, 0, mask)
    assert [rig.found(r1, position) for position in (4, 8)] == found


# Partial blocks


@pytest.mark.clause("REG-PARTIAL-1")
@EVERY_KIND
def test_the_first_boundary_has_no_parent_and_is_registered(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 2)
    assert rig.found(r1, 2) == 1
    assert rig.events() == [Stored(0, (at(r1, 2),), None, (1, 2))]


@pytest.mark.clause("REG-PARTIAL-1")
@EVERY_KIND
@pytest.mark.parametrize("position", [2, 4, 6, 8, 10])
def test_the_key_at_the_position_is_registered_and_no_other(
    new_rig: MakeRig, group: GroupConfig, position: int
) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, position)
    assert rig.keys_of(1) == [key(r1, position)]


@pytest.mark.clause("REG-PARTIAL-1")
def test_one_partial_key_may_be_on_two_blocks(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1)
    rig.take(r2)
    rig.put(r1, 1, 2)
    rig.put(r2, 2, 2)
    assert rig.pool.observe().index[key(r1, 2)] == (1, 2)


@pytest.mark.clause("REG-PARTIAL-1", "ERR-TYPE-1")
@pytest.mark.parametrize("group", [-1, 1, 2**70])
def test_a_group_that_does_not_exist_is_refused(rig: Rig, group: int) -> None:
    r1 = rig.request("r1")
    rig.take(r1)
    with rig.refused(InvalidGroup):
        rig.pool.cache_partial_block(r1, 1, 2, group)
    with rig.refused(InvalidGroup):
        rig.pool.cache_full_blocks(r1, [1], 0, 1, group)


@pytest.mark.clause("REG-PARTIAL-2", "POOL-CONTAINS-2")
@EVERY_KIND
def test_a_key_at_the_end_of_the_slot_is_the_full_key(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 4)
    assert rig.pool.full_key(1) == key(r1, 4)
    rig.events()
    with rig.silent():
        rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    if group is not RECURRENT:
        with rig.silent():
            rig.pool.cache_partial_block(r1, 1, 2, 0)


@pytest.mark.clause("REG-PARTIAL-3")
@WIDE_ATTENTION_KINDS
def test_a_key_beyond_the_longest_replaces_all(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 4)
    rig.pool.cache_partial_block(r1, 1, 2, 0)
    rig.events()
    rig.put(r1, 1, 6)
    assert [rig.found(r1, position) for position in (2, 4, 6)] == [None, None, 1]
    assert rig.events() == [removed(r1, 4), removed(r1, 2), Stored(0, (at(r1, 6),), None, (1, 2, 3, 4, 5, 6))]


@pytest.mark.clause("REG-PARTIAL-4")
@WIDE_ATTENTION_KINDS
@pytest.mark.parametrize("shorter", [2, 4])
def test_a_key_below_a_longer_partial_one_is_added(new_rig: MakeRig, group: GroupConfig, shorter: int) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 6)
    rig.pool.cache_partial_block(r1, 1, shorter, 0)
    assert rig.keys_of(1) == [key(r1, 6), key(r1, shorter)]
    assert rig.found(rig.request("r2", range(1, shorter + 1)), shorter) == 1


@pytest.mark.clause("REG-PARTIAL-4", "REG-PARTIAL-3")
def test_a_key_between_two_partial_ones_is_added(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 6)
    for shorter in (2, 4):
        rig.pool.cache_partial_block(r1, 1, shorter, 0)
    assert rig.keys_of(1) == [key(r1, 6), key(r1, 2), key(r1, 4)]


@pytest.mark.clause("REG-PARTIAL-5")
def test_a_promoted_block_never_gets_its_old_partial_key_back(new_rig: MakeRig) -> None:
    rig = new_rig(GroupConfig(GroupKind.FULL_ATTENTION, 16), h=4)
    r1 = rig.request("r1", range(8))
    rig.take(r1)
    rig.put(r1, 1, 8)
    r1.append(list(range(8, 16)))
    rig.pool.write(r1, 1, 16, 0)
    rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    assert rig.events() == [
        Stored(0, (at(r1, 8),), None, tuple(range(8))),
        removed(r1, 8),
        Stored(0, (at(r1, 16),), None, tuple(range(16))),
    ]
    with rig.silent():
        rig.pool.cache_partial_block(r1, 1, 8, 0)
    assert (rig.found(r1, 8), rig.found(r1, 16)) == (None, 1)
    assert rig.events() == []


@pytest.mark.clause("REG-PARTIAL-5")
@WIDE_ATTENTION_KINDS
@pytest.mark.parametrize("shorter", [2, 4, 6])
def test_no_shorter_key_is_registered_on_a_full_block(new_rig: MakeRig, group: GroupConfig, shorter: int) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    with rig.silent():
        rig.pool.cache_partial_block(r1, 1, shorter, 0)


# Recurrent groups


@pytest.mark.clause("REG-RECURRENT-1")
@pytest.mark.parametrize(
    ("has", "gets"), [(2, 4), (4, 6), (6, 2), (2, 8), (8, 2), (8, 6)], ids=lambda position: f"H({position})"
)
def test_a_state_gets_no_second_key(new_rig: MakeRig, has: int, gets: int) -> None:
    rig = new_rig(GroupConfig(GroupKind.RECURRENT, 8))
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, has)
    with rig.refused(ContentConflict):
        rig.pool.cache_partial_block(r1, 1, gets, 0)
    if gets == 8:
        with rig.refused(ContentConflict):
            rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    rig.pool.evict([1])
    rig.put(r1, 1, gets)
    assert rig.keys_of(1) == [key(r1, gets)]


@pytest.mark.clause("REG-RECURRENT-1", "REG-REPLACE-1")
@pytest.mark.parametrize("entry", ["full", "partial"])
def test_a_state_changes_its_key_with_replace(new_rig: MakeRig, entry: str) -> None:
    rig = new_rig(RECURRENT)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 2)
    register(rig, entry, "r1", 1, replace=True)
    assert rig.keys_of(1) == [key(r1, 4)]
    assert rig.events() == [
        Stored(0, (at(r1, 2),), None, (1, 2)),
        removed(r1, 2),
        Stored(0, (at(r1, 4),), None, (1, 2, 3, 4)),
    ]
    # The state itself follows, as the caller promised.
    rig.pool.evict([1])
    rig.put(r1, 1, 4)


# Replace


@pytest.mark.clause("REG-REPLACE-1", "EVENT-NET-1")
@pytest.mark.parametrize("group", [WIDE, WIDE_WINDOW], ids=lambda group: group.kind.value)
def test_replace_drops_every_key_and_registers_its_own_anew(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1)
    rig.put(r1, 1, 6)
    rig.pool.cache_partial_block(r1, 1, 4, 0)
    rig.take(r2)
    rig.put(r2, 2, 4)
    rig.events()
    rig.pool.cache_partial_block(r1, 1, 4, 0, replace=True)
    assert rig.keys_of(1) == [key(r1, 4)]
    assert (rig.found(r1, 4), rig.found(r1, 6)) == (2, None)
    assert rig.events() == [removed(r1, 6)]


@pytest.mark.clause("REG-REPLACE-1")
def test_replace_drops_keys_of_another_text(rig: Rig) -> None:
    r1 = rig.request("r1", [1, 2, 3, 99])
    rig.fill(r1, 1)
    old = key(r1, 4)
    r1.truncate(3)
    r1.append([7])
    rig.pool.cache_full_blocks(r1, [1], 0, 1, 0, replace=True)
    assert rig.pool.lookup([old, key(r1, 4)]) == [None, 1]
    rig.pool.write(r1, 1, 4, 0)


@pytest.mark.clause("REG-REPLACE-1")
def test_replace_puts_a_shorter_key_in_place_of_a_full_one(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.pool.cache_partial_block(r1, 1, 2, 0, replace=True)
    assert rig.keys_of(1) == [key(r1, 2)]


@pytest.mark.clause("REG-REPLACE-1")
def test_replace_leaves_the_keys_of_other_blocks(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    rig.pool.cache_partial_block(r1, 1, 2, 0, replace=True)
    assert rig.found(r1, 4) == 2


@pytest.mark.clause("REG-REPLACE-2")
def test_a_key_of_content_that_was_not_written_yet_is_not_refused(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.take(r1)
    rig.pool.cache_partial_block(r1, 1, 4, 0)
    assert rig.found(r1, 4) == 1
    rig.pool.write(r1, 1, 4, 0)


@pytest.mark.clause("REG-FULL-1", "POS-UNIT-1", "POOL-LOOKUP-1")
def test_each_group_registers_at_its_own_block_size(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, WIDE, blocks=5)
    r1 = rig.request("r1")
    rig.fill(r1, 2, group=0)
    rig.fill(r1, 1, group=1)

    def found(group: int) -> Sequence[int | None]:
        return [rig.found(r1, position, group) for position in (4, 8)]

    assert found(0) == [1, 2]
    assert found(1) == [None, 3]


@pytest.mark.clause("REG-REPLACE-1")
def test_replacing_needs_the_writer_and_the_slot_like_any_registration(new_rig: MakeRig) -> None:
    rig = new_rig()
    r1, r2 = rig.request("r1"), rig.request("r2")
    [block, _] = rig.fill(r1, 2)
    rig.touch(r2, block, 4)
    with rig.refused(NotOwner):
        rig.pool.cache_partial_block(r2, block, 4, 0, replace=True)
    with rig.refused(OutOfRange):
        rig.pool.cache_partial_block(r1, block, 6, 0, replace=True)
    rig.pool.cache_partial_block(r1, block, 2, 0, replace=True)
    assert rig.keys_of(block) == [key(r1, 2)]
