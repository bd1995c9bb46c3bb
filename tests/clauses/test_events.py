from __future__ import annotations

from collections import Counter

import pytest

from kvproof.reference.mirror import EventFault
from kvproof.spec.events import Cleared, Event, PrefixHash, Removed, Stored
from kvproof.spec.vocabulary import ExtraKey, ExtraKeySource, GroupConfig, GroupKind, Residency
from tests.clauses.rig import ATTENTION, EVERY_KIND, RECURRENT, WIDE, WINDOW, MakeRig, Rig, at, key, removed

LOGICAL, PER_COPY = Residency.LOGICAL, Residency.PER_COPY
EVERY_RESIDENCY = pytest.mark.parametrize("residency", [LOGICAL, PER_COPY], ids=lambda residency: residency.value)


def refuses(rig: Rig, clause: str, *events: Event) -> None:
    """A consumer that has folded the rig's events so far refuses the last of these for that clause."""
    rig.events()
    consumer = rig.mirror.clone()
    consumer.fold(events[:-1])
    with pytest.raises(EventFault) as caught:
        consumer.fold(events[-1:])
    assert caught.value.clause == clause


def accepts(rig: Rig, *events: Event) -> None:
    rig.events()
    rig.mirror.clone().fold(events)


# The stream


@pytest.mark.clause("EVENT-NET-1")
@EVERY_RESIDENCY
@pytest.mark.parametrize("entry", ["full", "partial"])
def test_a_key_dropped_and_registered_again_in_one_operation_gives_no_event(
    new_rig: MakeRig, residency: Residency, entry: str
) -> None:
    rig = new_rig(residency=residency)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.events()
    if entry == "full":
        rig.pool.cache_full_blocks(r1, [1], 0, 1, 0, replace=True)
    else:
        rig.pool.cache_partial_block(r1, 1, 4, 0, replace=True)
    assert rig.events() == []
    assert rig.found(r1, 4) == 1


@pytest.mark.clause("EVENT-NET-1")
def test_a_key_that_two_blocks_exchange_in_one_operation_gives_no_event(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2", [1, 2, 3, 4, 50, 60, 70, 80])
    rig.take(r1, 2)
    rig.fill(r2, 1)
    rig.put(r1, 1, 2)
    rig.events()
    # H(4) has block 3 already: one event for the partial key that goes, none for H(4).
    rig.pool.write(r1, 1, 4, 0)
    rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    assert rig.events() == [removed(r1, 2)]


@pytest.mark.clause("EVENT-NET-1")
def test_operations_that_keep_every_key_emit_nothing(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.events()
    rig.touch(r2, 1, 4)
    rig.free(r1, 1)
    rig.free(r2, 1)
    rig.take(r2, 2)
    rig.pool.copy(2, 3, "r2")
    rig.pool.evict([2])
    r2.append([11, 12])
    r2.truncate(3)
    assert rig.events() == []


@pytest.mark.clause("EVENT-ORDER-1")
def test_all_removals_of_an_operation_come_before_what_it_stores(rig: Rig) -> None:
    r1 = rig.request("r1")
    table = rig.take(r1, 2)
    rig.put(r1, 1, 2)
    rig.put(r1, 2, 6)
    rig.events()
    rig.pool.write(r1, 1, 4, 0)
    rig.pool.write(r1, 2, 8, 0)
    rig.pool.cache_full_blocks(r1, table, 0, 2, 0)
    assert rig.events() == [
        removed(r1, 2),
        removed(r1, 6),
        Stored(0, (at(r1, 4), at(r1, 8)), None, (1, 2, 3, 4, 5, 6, 7, 8)),
    ]


@pytest.mark.clause("EVENT-DRAIN-1")
def test_events_are_handed_over_once_and_in_the_order_of_the_operations(rig: Rig) -> None:
    r1 = rig.request("r1")
    assert rig.events() == []
    rig.fill(r1, 1)
    rig.pool.evict([1])
    rig.pool.cache_partial_block(r1, 1, 2, 0)
    expected = [
        Stored(0, (at(r1, 4),), None, (1, 2, 3, 4)),
        removed(r1, 4),
        Stored(0, (at(r1, 2),), None, (1, 2)),
    ]
    assert list(rig.pool.observe().pending_events) == expected
    assert rig.events() == expected
    assert rig.events() == []
    rig.pool.evict([1])
    assert rig.events() == [removed(r1, 2)]


@pytest.mark.clause("EVENT-DRAIN-1")
def test_what_was_drained_is_the_callers_to_change(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.events().clear()
    rig.pool.evict([1])
    drained = rig.events()
    rig.fill(r1, 1)
    assert drained == [removed(r1, 4)]


@pytest.mark.clause("EVENT-RESIDENCY-1", "INDEX-SIBLING-1")
@EVERY_KIND
def test_with_logical_residency_the_first_copy_is_stored_and_the_last_removed(
    new_rig: MakeRig, group: GroupConfig
) -> None:
    rig = new_rig(group, blocks=3)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    assert rig.events() == [Stored(0, (at(r1, 4),), None, (1, 2, 3, 4))]
    rig.free(r1, 1)
    rig.free(r2, 2)
    rig.take(r1)
    assert rig.events() == []
    rig.take(r1)
    assert rig.events() == [removed(r1, 4)]


@pytest.mark.clause("EVENT-RESIDENCY-2")
@EVERY_KIND
def test_per_copy_every_entry_gives_an_event(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group, blocks=3, residency=PER_COPY)
    r1, r2 = rig.request("r1"), rig.request("r2")
    stored = Stored(0, (at(r1, 4),), None, (1, 2, 3, 4))
    for r in (r1, r2):
        rig.fill(r, 1)
        assert rig.events() == [stored]
    assert rig.mirror.resident == Counter({key(r1, 4): 2})
    for left in (1, 0):
        rig.pool.evict([2 - left])
        assert rig.events() == [removed(r1, 4)]
        assert rig.mirror.resident == Counter({key(r1, 4): left} if left else {})


@pytest.mark.clause("EVENT-RESIDENCY-2", "POOL-MOVE-1", "EVENT-NET-1")
@EVERY_RESIDENCY
def test_a_move_emits_nothing_in_either_residency(new_rig: MakeRig, residency: Residency) -> None:
    rig = new_rig(residency=residency)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.take(r1)
    rig.events()
    rig.pool.move(1, 2)
    assert rig.events() == []
    rig.pool.evict([2])
    assert rig.events() == [removed(r1, 4)]


@pytest.mark.clause("EVENT-RESIDENCY-2")
def test_per_copy_a_run_does_not_end_at_a_key_that_another_block_has(new_rig: MakeRig) -> None:
    rig = new_rig(blocks=5, residency=PER_COPY)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.events()
    rig.fill(r2, 2)
    assert rig.events() == [Stored(0, (at(r1, 4), at(r1, 8)), None, (1, 2, 3, 4, 5, 6, 7, 8))]


@pytest.mark.clause("EVENT-RESIDENCY-2", "INV-EVENTS-1")
def test_two_logical_copies_of_one_event_are_refused_and_two_copies_per_copy_are_counted(
    new_rig: MakeRig,
) -> None:
    for residency in (LOGICAL, PER_COPY):
        rig = new_rig(residency=residency)
        r1 = rig.request("r1")
        stored = Stored(0, (at(r1, 4),), None, (1, 2, 3, 4))
        if residency is LOGICAL:
            refuses(rig, "EVENT-STORED-3", stored, stored)
        else:
            accepts(rig, stored, stored, removed(r1, 4), removed(r1, 4))
            refuses(rig, "EVENT-REMOVED-1", stored, stored, removed(r1, 4), removed(r1, 4), removed(r1, 4))


# Removed


@pytest.mark.clause("EVENT-REMOVED-1")
@EVERY_RESIDENCY
def test_a_consumer_refuses_the_removal_of_what_is_not_resident(new_rig: MakeRig, residency: Residency) -> None:
    rig = new_rig(ATTENTION, WINDOW, residency=residency)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    refuses(rig, "EVENT-REMOVED-1", removed(r1, 8))
    refuses(rig, "EVENT-REMOVED-1", removed(r1, 4, group=1))
    refuses(rig, "EVENT-REMOVED-1", removed(r1, 4), removed(r1, 4))
    refuses(rig, "EVENT-REMOVED-1", Cleared(), removed(r1, 4))
    accepts(rig, removed(r1, 4))


@pytest.mark.clause("EVENT-REMOVED-1")
def test_a_key_that_was_never_registered_or_is_gone_is_not_removed(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.take(r1)
    rig.free(r1, 1)
    rig.take(r1)
    rig.put(r1, 1, 4)
    rig.pool.evict([1])
    rig.events()
    rig.pool.evict([1])
    rig.free(r1, 1)
    rig.take(r1, 3)
    assert rig.events() == []


@pytest.mark.clause("EVENT-REMOVED-2")
def test_reallocated_blocks_lose_their_keys_in_the_order_they_are_taken(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE)
    r1 = rig.request("r1", range(24))
    rig.take(r1, 3)
    for block, position in ((1, 6), (2, 14), (3, 24)):
        rig.put(r1, block, position)
    rig.pool.cache_partial_block(r1, 1, 4, 0)
    rig.pool.cache_partial_block(r1, 2, 10, 0)
    rig.free(r1, 2, 3, 1)
    rig.events()
    rig.take(r1, 3)
    assert rig.events() == [removed(r1, position) for position in (14, 10, 24, 6, 4)]


@pytest.mark.clause("EVENT-REMOVED-2", "EVENT-RESIDENCY-1")
@pytest.mark.parametrize("residency", [LOGICAL, PER_COPY])
def test_a_shared_key_is_removed_where_its_last_entry_is_dropped(new_rig: MakeRig, residency: Residency) -> None:
    rig = new_rig(residency=residency)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 2)
    rig.fill(r2, 1)
    rig.events()
    rig.pool.evict([1, 2, 3])
    shared, own = removed(r1, 4), removed(r1, 8)
    assert rig.events() == ([own, shared] if residency is LOGICAL else [shared, own, shared])


@pytest.mark.clause("EVENT-REMOVED-1", "EVENT-REMOVED-2")
def test_descendants_are_removed_one_by_one_whatever_happened_to_their_parents(rig: Rig) -> None:
    r1 = rig.request("r1", range(12))
    rig.fill(r1, 3)
    rig.events()
    for block in (1, 2, 3):
        rig.pool.evict([block])
        assert rig.events() == [removed(r1, block * 4)]


# Stored


@pytest.mark.clause("EVENT-STORED-1")
def test_a_consumer_refuses_a_stored_event_without_a_hash(rig: Rig) -> None:
    r1 = rig.request("r1")
    refuses(rig, "EVENT-STORED-1", Stored(0, (), None, (1, 2, 3, 4)))
    refuses(rig, "EVENT-STORED-1", Stored(0, (), None, ()))
    accepts(rig, Stored(0, (at(r1, 4),), None, (1, 2, 3, 4)))


@pytest.mark.clause("EVENT-STORED-1")
def test_a_consumer_refuses_hashes_that_do_not_ascend(rig: Rig) -> None:
    r1 = rig.request("r1")
    tokens = (1, 2, 3, 4, 5, 6, 7, 8)
    refuses(rig, "EVENT-STORED-1", Stored(0, (at(r1, 8), at(r1, 4)), None, tokens))
    refuses(rig, "EVENT-STORED-1", Stored(0, (at(r1, 8), at(r1, 8)), None, tokens))
    accepts(rig, Stored(0, (at(r1, 4), at(r1, 8)), None, tokens))


@pytest.mark.clause("EVENT-STORED-1")
@EVERY_KIND
def test_nothing_is_stored_when_every_slot_is_skipped(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.pool.cache_full_blocks(r1, [0, 0], 0, 2, 0)
    rig.pool.cache_full_blocks(r1, [1, 2], 0, 2, 0, [False, False])
    rig.pool.cache_full_blocks(r1, [1, 2], 1, 1, 0)
    assert rig.events() == []


@pytest.mark.clause("EVENT-STORED-1", "HASH-KEY-1")
def test_every_event_carries_its_group(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, WINDOW, WIDE, blocks=5)
    r1 = rig.request("r1")
    for group in (0, 1):
        rig.fill(r1, 1, group)
    rig.fill(r1, 1, 2)
    rig.pool.evict([2, 3, 1])
    assert rig.events() == [
        Stored(0, (at(r1, 4),), None, (1, 2, 3, 4)),
        Stored(1, (at(r1, 4),), None, (1, 2, 3, 4)),
        Stored(2, (at(r1, 8),), at(r1, 4), (5, 6, 7, 8)),
        removed(r1, 4, 1),
        removed(r1, 8, 2),
        removed(r1, 4, 0),
    ]


@pytest.mark.clause("EVENT-STORED-2")
@pytest.mark.parametrize(
    "tokens",
    [(1, 2, 3, 4), (1, 2, 3, 4, 5, 6), (5, 6, 7, 8), (1, 2, 3, 4, 5, 6, 7, 9), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), ()],
)
def test_a_consumer_refuses_tokens_that_do_not_give_the_hashes(rig: Rig, tokens: tuple[int, ...]) -> None:
    r1 = rig.request("r1")
    refuses(rig, "EVENT-STORED-2", Stored(0, (at(r1, 8),), None, tokens))
    accepts(rig, Stored(0, (at(r1, 8),), None, (1, 2, 3, 4, 5, 6, 7, 8)))


@pytest.mark.clause("EVENT-STORED-2")
def test_a_consumer_refuses_tokens_of_a_masked_slot_only_without_those_of_the_others(rig: Rig) -> None:
    r1 = rig.request("r1", range(12))
    rig.fill(r1, 1)
    hashes = (at(r1, 12),)
    refuses(rig, "EVENT-STORED-2", Stored(0, hashes, at(r1, 4), tuple(range(8, 12))))
    refuses(rig, "EVENT-STORED-2", Stored(0, hashes, at(r1, 4), tuple(range(12))))
    refuses(rig, "EVENT-STORED-2", Stored(0, (PrefixHash(bytes(32), 12),), at(r1, 4), tuple(range(4, 12))))
    accepts(rig, Stored(0, hashes, at(r1, 4), tuple(range(4, 12))))


CAT = ExtraKey(ExtraKeySource.MEDIA, b"cat", 1, 3)
DOG = ExtraKey(ExtraKeySource.MEDIA, b"dog", 5, 6)
SALT = ExtraKey(ExtraKeySource.SALT, b"s")


@pytest.mark.clause("EVENT-STORED-2")
@pytest.mark.parametrize("given", [(), (CAT,), (SALT,), (SALT, CAT, DOG), (SALT, DOG)])
def test_a_consumer_refuses_extra_keys_that_are_not_those_of_the_tokens(rig: Rig, given: tuple[ExtraKey, ...]) -> None:
    r1 = rig.request("r1", extra_keys=[SALT, CAT, DOG])
    refuses(rig, "EVENT-STORED-2", Stored(0, (at(r1, 4),), None, (1, 2, 3, 4), given))
    accepts(rig, Stored(0, (at(r1, 4),), None, (1, 2, 3, 4), (SALT, CAT)))


@pytest.mark.clause("EVENT-STORED-2")
def test_every_extra_key_that_covers_a_token_of_the_event_is_in_it_and_no_other(rig: Rig) -> None:
    r1 = rig.request("r1", extra_keys=[DOG, SALT, CAT])
    table = rig.take(r1, 3)
    for slot, end in enumerate((4, 8)):
        rig.pool.write(r1, table[slot], end, 0)
        rig.pool.cache_full_blocks(r1, table, slot, slot + 1, 0)
    rig.put(r1, 3, 10)
    events = rig.events()
    assert [set(event.extra_keys) for event in events if isinstance(event, Stored)] == [
        {SALT, CAT},
        {SALT, DOG},
        {SALT},
    ]


@pytest.mark.clause("EVENT-STORED-2")
@pytest.mark.parametrize(
    ("extra", "counted"),
    [
        (ExtraKey(ExtraKeySource.MEDIA, b"x", 3, 4), True),
        (ExtraKey(ExtraKeySource.MEDIA, b"x", 3, 5), True),
        (ExtraKey(ExtraKeySource.MEDIA, b"x", 7, 9), True),
        (ExtraKey(ExtraKeySource.MEDIA, b"x", 8, 9), False),
        (ExtraKey(ExtraKeySource.MEDIA, b"x", 8), False),
    ],
)
def test_an_extra_key_counts_if_it_covers_one_of_the_tokens(rig: Rig, extra: ExtraKey, counted: bool) -> None:
    r1 = rig.request("r1", extra_keys=[extra])
    rig.fill(r1, 2)
    [event] = rig.events()
    assert isinstance(event, Stored)
    assert event.extra_keys == ((extra,) if counted else ())


@pytest.mark.clause("EVENT-STORED-3")
def test_a_resident_key_is_not_stored_again(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.events()
    rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    rig.pool.cache_partial_block(r1, 1, 4, 0)
    rig.take(r2)
    rig.put(r2, 2, 4)
    assert rig.events() == []


@pytest.mark.clause("EVENT-STORED-3")
def test_a_consumer_refuses_a_run_with_one_resident_key(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    refuses(rig, "EVENT-STORED-3", Stored(0, (at(r1, 4), at(r1, 8)), None, (1, 2, 3, 4, 5, 6, 7, 8)))
    refuses(rig, "EVENT-STORED-3", Stored(0, (at(r1, 4),), None, (1, 2, 3, 4)))
    accepts(rig, Stored(0, (at(r1, 8),), at(r1, 4), (5, 6, 7, 8)))


@pytest.mark.clause("EVENT-STORED-4", "EVENT-STORED-2", "EVENT-PARENT-1")
@EVERY_KIND
@pytest.mark.parametrize("how", ["mask", "null"])
def test_a_run_ends_at_a_slot_that_is_masked_or_null(new_rig: MakeRig, group: GroupConfig, how: str) -> None:
    rig = new_rig(group, blocks=5)
    r1 = rig.request("r1", range(100, 116))
    rig.take(r1, 4)
    for block in (1, 2, 3, 4):
        rig.pool.write(r1, block, block * 4, 0)
    if how == "mask":
        rig.pool.cache_full_blocks(r1, [1, 2, 3, 4], 0, 4, 0, [True, False, True, True])
    else:
        rig.pool.cache_full_blocks(r1, [1, 0, 3, 4], 0, 4, 0)
    assert rig.events() == [
        Stored(0, (at(r1, 4),), None, (100, 101, 102, 103)),
        Stored(0, (at(r1, 12), at(r1, 16)), at(r1, 4), tuple(range(104, 116))),
    ]


@pytest.mark.clause("EVENT-STORED-4", "EVENT-STORED-3", "EVENT-PARENT-1")
@pytest.mark.parametrize("how", ["registered already", "resident already"])
def test_a_run_ends_at_a_slot_whose_key_is_there_already(new_rig: MakeRig, how: str) -> None:
    rig = new_rig(blocks=6)
    r1, r2 = rig.request("r1", range(100, 116)), rig.request("r2", range(100, 116))
    rig.take(r1, 4)
    [other] = rig.take(r2)
    for block in (1, 2, 3, 4):
        rig.pool.write(r1, block, block * 4, 0)
    if how == "registered already":
        rig.pool.cache_full_blocks(r1, [1, 2], 1, 2, 0)
    else:
        rig.put(r2, other, 8)
    rig.events()
    rig.pool.cache_full_blocks(r1, [1, 2, 3, 4], 0, 4, 0)
    assert rig.events() == [
        Stored(0, (at(r1, 4),), None, (100, 101, 102, 103)),
        Stored(0, (at(r1, 12), at(r1, 16)), at(r1, 8), tuple(range(108, 116))),
    ]
    assert rig.pool.contains(key(r1, 8), 2)


@pytest.mark.clause("EVENT-STORED-4", "EVENT-PARENT-1")
def test_two_calls_give_two_runs_and_the_second_hangs_on_the_first(rig: Rig) -> None:
    r1 = rig.request("r1")
    table = rig.take(r1, 2)
    for slot in (0, 1):
        rig.pool.write(r1, table[slot], (slot + 1) * 4, 0)
        rig.pool.cache_full_blocks(r1, table, slot, slot + 1, 0)
    assert rig.events() == [
        Stored(0, (at(r1, 4),), None, (1, 2, 3, 4)),
        Stored(0, (at(r1, 8),), at(r1, 4), (5, 6, 7, 8)),
    ]


@pytest.mark.clause("EVENT-PARENT-1")
@pytest.mark.parametrize("evicted", [False, True])
def test_the_parent_is_the_longest_resident_prefix_or_none(rig: Rig, evicted: bool) -> None:
    r1 = rig.request("r1", [1, 2, 3, 4, 5, 6])
    rig.fill(r1, 1)
    rig.take(r1)
    if evicted:
        rig.pool.evict([1])
    rig.events()
    rig.put(r1, 2, 6)
    expected = (
        Stored(0, (at(r1, 6),), None, (1, 2, 3, 4, 5, 6)) if evicted else Stored(0, (at(r1, 6),), at(r1, 4), (5, 6))
    )
    assert rig.events() == [expected]


@pytest.mark.clause("EVENT-PARENT-1")
def test_the_parent_may_be_partial_and_of_another_group(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, GroupConfig(GroupKind.RECURRENT, 8))
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.put(r1, 1, 6, group=1)
    rig.put(r1, 2, 8, group=0)
    assert rig.events()[1:] == [Stored(0, (at(r1, 8),), at(r1, 6), (7, 8))]


@pytest.mark.clause("EVENT-PARENT-1")
def test_the_same_prefix_in_another_group_is_no_parent(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, RECURRENT)
    r1 = rig.request("r1")
    rig.fill(r1, 1, group=1)
    rig.events()
    rig.fill(r1, 1, group=0)
    assert rig.events() == [Stored(0, (at(r1, 4),), None, (1, 2, 3, 4))]


@pytest.mark.clause("EVENT-PARENT-1")
def test_a_prefix_that_the_operation_removes_is_no_parent(rig: Rig) -> None:
    r1 = rig.request("r1")
    table = rig.take(r1, 2)
    rig.put(r1, 1, 4)
    rig.put(r1, 2, 6)
    rig.events()
    rig.pool.write(r1, 2, 8, 0)
    rig.pool.cache_full_blocks(r1, table, 1, 2, 0)
    assert rig.events() == [removed(r1, 6), Stored(0, (at(r1, 8),), at(r1, 4), (5, 6, 7, 8))]


@pytest.mark.clause("EVENT-PARENT-1")
def test_a_prefix_that_the_operation_drops_and_registers_again_is_a_parent(rig: Rig) -> None:
    r1 = rig.request("r1")
    table = rig.take(r1, 2)
    rig.put(r1, 1, 4)
    rig.pool.write(r1, 2, 8, 0)
    rig.events()
    rig.pool.cache_full_blocks(r1, table, 0, 2, 0, replace=True)
    assert rig.events() == [Stored(0, (at(r1, 8),), at(r1, 4), (5, 6, 7, 8))]


@pytest.mark.clause("EVENT-PARENT-1")
def test_a_consumer_refuses_a_parent_that_is_not_resident(rig: Rig) -> None:
    r1 = rig.request("r1")
    child = Stored(0, (at(r1, 8),), at(r1, 4), (5, 6, 7, 8))
    refuses(rig, "EVENT-PARENT-1", child)
    rig.fill(r1, 1)
    refuses(rig, "EVENT-PARENT-1", removed(r1, 4), child)
    refuses(rig, "EVENT-PARENT-1", Cleared(), child)
    accepts(rig, child)


@pytest.mark.clause("EVENT-PARENT-1")
@pytest.mark.parametrize("parent", [None, 4])
def test_a_consumer_refuses_a_parent_that_is_not_the_longest(new_rig: MakeRig, parent: int | None) -> None:
    rig = new_rig(ATTENTION, WIDE)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.take(r1)
    rig.put(r1, 2, 6, group=1)
    start = parent or 0
    claimed = at(r1, parent) if parent else None
    refuses(rig, "EVENT-PARENT-1", Stored(0, (at(r1, 8),), claimed, (1, 2, 3, 4, 5, 6, 7, 8)[start:]))
    accepts(rig, Stored(0, (at(r1, 8),), at(r1, 6), (7, 8)))


@pytest.mark.clause("EVENT-PARENT-1", "EVENT-STORED-1")
def test_a_consumer_refuses_a_parent_at_a_position_that_it_does_not_have(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    moved = PrefixHash(at(r1, 4).digest, 6)
    refuses(rig, "EVENT-PARENT-1", Stored(0, (PrefixHash(at(r1, 8).digest, 10),), moved, (5, 6, 7, 8)))
    accepts(rig, Stored(0, (at(r1, 8),), at(r1, 4), (5, 6, 7, 8)))


# Cleared


@pytest.mark.clause("EVENT-CLEARED-1")
@EVERY_RESIDENCY
def test_a_reset_emits_one_cleared_after_everything_before_it_and_no_removed(
    new_rig: MakeRig, residency: Residency
) -> None:
    rig = new_rig(residency=residency)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.free(r1, 1)
    rig.pool.reset()
    rig.fill(r1, 1)
    stored = Stored(0, (at(r1, 4),), None, (1, 2, 3, 4))
    assert rig.events() == [stored, Cleared(), stored]
    assert rig.mirror.resident == Counter({key(r1, 4): 1})


@pytest.mark.clause("EVENT-CLEARED-1")
def test_a_consumer_holds_nothing_after_cleared(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 2)
    rig.events()
    consumer = rig.mirror.clone()
    consumer.fold([Cleared()])
    assert consumer.resident == Counter()
    consumer.fold([Stored(0, (at(r1, 4),), None, (1, 2, 3, 4))])
    assert consumer.resident == Counter({key(r1, 4): 1})


@pytest.mark.clause("EVENT-CLEARED-1", "POOL-RESET-2")
def test_a_refused_reset_emits_nothing(rig: Rig) -> None:
    rig.take(rig.request("r1"))
    with pytest.raises(Exception, match="referenced"):
        rig.pool.reset()
    assert rig.events() == []


@pytest.mark.clause("EVENT-NET-1", "EVENT-PARENT-1", "EVENT-STORED-2", "REG-PARTIAL-1")
def test_a_partial_prefix_is_stored_once_and_removed_when_its_block_is_reused(rig: Rig) -> None:
    r1 = rig.request("r1", extra_keys=[CAT, DOG, SALT])
    rig.fill(r1, 1)
    rig.events()
    rig.take(r1)
    for _ in range(2):
        rig.pool.write(r1, 2, 6, 0)
        rig.pool.cache_partial_block(r1, 2, 6, 0)
    [event] = rig.events()
    assert isinstance(event, Stored)
    assert (event.hashes, event.parent, event.tokens) == ((at(r1, 6),), at(r1, 4), (5, 6))
    assert set(event.extra_keys) == {DOG, SALT}
    rig.free(r1, 2)
    rig.take(r1, 2)
    assert rig.events() == [Removed(0, at(r1, 6).digest)]


@pytest.mark.clause("EVENT-REMOVED-1")
def test_a_removed_event_names_the_group_of_its_key(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, ATTENTION)
    r1 = rig.request("r1")
    [first], [second] = rig.fill(r1, 1, group=0), rig.fill(r1, 1, group=1)
    rig.events()
    rig.pool.evict([second])
    assert rig.events() == [removed(r1, 4, group=1)]
    rig.pool.evict([first])
    assert rig.events() == [removed(r1, 4, group=0)]


@pytest.mark.clause("EVENT-STORED-1", "EVENT-STORED-4")
def test_the_hashes_of_a_run_ascend(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 2)
    [stored] = rig.events()
    assert isinstance(stored, Stored)
    assert stored.hashes == (at(r1, 4), at(r1, 8))
