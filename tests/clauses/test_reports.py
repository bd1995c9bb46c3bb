"""What public reports tell of, where no test of a chapter shows it: the trace of the report, and its must-hit twin."""

from __future__ import annotations

import pytest

from kvproof.reference.lookup import Hit
from kvproof.spec.errors import NotReferenced, OutOfBlocks
from kvproof.spec.events import Event, Stored
from kvproof.spec.vocabulary import GroupConfig, GroupKind, HolderMode, HybridConfig, Retention
from tests.clauses.hybrid_rig import COARSE, MakeHybrid, full, state, window
from tests.clauses.rig import ATTENTION, RECURRENT, WIDE, WINDOW, MakeRig, Rig, at, removed


@pytest.mark.clause("REQ-TRUNCATE-1", "POOL-LOOKUP-1")
def test_after_a_truncation_the_new_text_is_found_and_the_discarded_one_is_not(new_rig: MakeRig) -> None:
    rig = new_rig(h=4)
    r1 = rig.request("r1", [1, 2, 3])
    r1.append([99])
    r1.truncate(3)
    r1.append([7])
    rig.fill(r1, 1)
    old, new = rig.request("old", [1, 2, 3, 99]), rig.request("new", [1, 2, 3, 7])
    assert (rig.found(old, 4), rig.found(new, 4)) == (None, 1)


@pytest.mark.clause("STEP-SERVE-1", "STEP-FINISH-1", "STEP-COMMIT-1")
def test_an_abort_with_two_steps_in_flight_publishes_nothing_and_keeps_what_others_did(in_step: MakeRig) -> None:
    rig = in_step(blocks=6)
    aborted, other = rig.request("aborted"), rig.request("other", range(20, 30))
    retry, later = rig.request("retry"), rig.request("later", range(20, 30))
    [first] = rig.take(aborted)
    rig.put(aborted, first, 4)
    rig.fill(other, 1)
    rig.begin()
    [second] = rig.take(aborted)
    rig.put(aborted, second, 8)
    rig.pool.finish("aborted", [second, first])
    rig.commit(1)
    assert [rig.hit(retry, position) for position in (4, 8)] == [Hit(None, None, None, None)] * 2
    rig.commit(2)
    assert [rig.found(retry, position) for position in (4, 8)] == [None, None]
    assert rig.found(later, 4) == 2


@pytest.mark.clause("POOL-FREE-3", "POOL-ALLOC-1")
def test_a_finished_prompt_outlives_the_next_one_while_other_blocks_are_free(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, WINDOW, RECURRENT, blocks=13)
    r1, r2 = rig.request("r1"), rig.request("r2", range(20, 30))
    tables = [rig.fill(r1, 2, group) for group in range(3)]
    for table in tables:
        rig.free(r1, *reversed(table))
    rig.take(r2, 6)
    assert [[rig.found(r1, position, group) for position in (4, 8)] for group in range(3)] == tables
    rig.take(r2)
    assert [rig.found(r1, position, 0) for position in (4, 8)] == [tables[0][0], None]


@pytest.mark.clause("POOL-LOOKUP-1", "INDEX-TWOWAY-1", "INDEX-SIBLING-1")
def test_prompts_that_part_ways_are_each_found_to_their_end(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE, blocks=8)
    texts = {"r1": range(16), "r2": [*range(8), *range(20, 28)], "r3": [*range(4), *range(40, 52)]}
    r1, r2, r3 = [rig.request(name, tokens) for name, tokens in texts.items()]
    for request in (r1, r2, r3):
        rig.fill(request, 2)
    assert [rig.found(r, position) for r in (r1, r2, r3) for position in (8, 16)] == [1, 2, 1, 4, 5, 6]
    rig.pool.evict([1, 4])
    assert [rig.found(r, position) for r in (r1, r2, r3) for position in (8, 16)] == [3, 2, 3, None, 5, 6]


@pytest.mark.clause("REG-FULL-1", "POS-UNIT-1", "POS-SLOT-1")
def test_groups_with_smaller_blocks_than_the_first_are_cached_in_their_own(new_rig: MakeRig) -> None:
    sizes = (256, 64, 8, 4)
    rig = new_rig(*[GroupConfig(GroupKind.FULL_ATTENTION, size) for size in sizes], blocks=8, h=4)
    r1 = rig.request("r1", range(256))
    tables = [rig.fill(r1, min(2, 256 // size), group) for group, size in enumerate(sizes)]
    ends = [[size * (slot + 1) for slot in range(len(table))] for size, table in zip(sizes, tables, strict=True)]
    assert [[rig.found(r1, end, group) for end in ends[group]] for group in range(4)] == tables
    assert [rig.found(r1, 64, group) for group in (0, 2, 3)] == [None, None, None]


@pytest.mark.clause("POOL-FREE-1")
@pytest.mark.parametrize("first", ["writer", "reader"])
def test_a_block_is_free_again_whoever_lets_go_of_it_last(rig: Rig, first: str) -> None:
    writer, reader = rig.request("writer"), rig.request("reader")
    rig.fill(writer, 1)
    rig.touch(reader, 1, 4)
    order = [writer, reader] if first == "writer" else [reader, writer]
    rig.free(order[0], 1)
    assert rig.queue() == [2, 3]
    rig.free(order[1], 1)
    assert rig.queue() == [2, 3, 1]
    assert rig.take(writer, 3) == [2, 3, 1]


@pytest.mark.clause("POOL-ALLOC-3", "INV-QUEUE-2")
def test_a_free_block_counts_once_however_many_keys_and_readers_it_had(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1)
    rig.put(r1, 1, 6)
    for position in (4, 2):
        rig.pool.cache_partial_block(r1, 1, position, 0)
    rig.touch(r2, 1, 4)
    rig.free(r1, 1)
    rig.free(r2, 1)
    assert (len(rig.keys_of(1)), rig.pool.num_free) == (3, 3)
    with rig.refused(OutOfBlocks):
        rig.take(r2, 4)
    assert rig.take(r2, 3) == [2, 3, 1]


@pytest.mark.clause("STEP-COPY-2")
@pytest.mark.parametrize("group", [ATTENTION, WINDOW], ids=lambda group: group.kind.value)
def test_a_copy_lets_go_of_its_source_and_every_other_reader_keeps_it(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group)
    r1, r2, r3 = rig.request("r1"), rig.request("r2"), rig.request("r3")
    rig.settle(r1, 4)
    rig.touch(r2, 1, 4)
    rig.touch(r3, 1, 4)
    rig.free(r1, 1)
    [private] = rig.take(r2)
    rig.pool.copy(1, private, "r2")
    rig.commit(2)
    assert [sorted(rig.holders(block)) for block in (1, private)] == [["r2", "r3"], ["r2"]]
    rig.free(r2, 1, private)
    rig.free(r3, 1)
    assert rig.queue() == [2, 3, 1]


@pytest.mark.clause("STEP-FINISH-1", "POOL-FREE-4")
@pytest.mark.parametrize("holders", HolderMode)
def test_a_request_that_ends_frees_each_of_its_blocks_once(new_rig: MakeRig, holders: HolderMode) -> None:
    rig = new_rig(holders=holders)
    r1 = rig.request("r1")
    table = rig.fill(r1, 2)
    if holders is HolderMode.NAMED:
        rig.pool.finish("r1", table[::-1])
    else:
        rig.free(r1, *table[::-1])
    assert [block.ref_cnt for block in rig.pool.observe().blocks] == [0] * 4
    assert rig.queue() == [3, 2, 1]
    with rig.refused(NotReferenced):
        rig.free(r1, table[-1])


@pytest.mark.clause("REG-PARTIAL-1", "POOL-LOOKUP-1")
def test_a_prompt_shorter_than_one_block_is_found_at_its_last_boundary(new_rig: MakeRig) -> None:
    rig = new_rig(GroupConfig(GroupKind.FULL_ATTENTION, 528), h=16)
    r1, r2, other = rig.request("r1", range(480)), rig.request("r2", range(500)), rig.request("other", range(1, 501))
    rig.take(r1)
    rig.put(r1, 1, 480)
    assert [rig.found(request, 480) for request in (r1, r2, other)] == [1, 1, None]
    rig.touch(r2, 1, 480)


@pytest.mark.clause("EVENT-STORED-3", "EVENT-PARENT-1")
def test_what_two_prompts_have_in_common_is_stored_once(new_rig: MakeRig) -> None:
    rig = new_rig(blocks=5)
    r1, r2 = rig.request("r1"), rig.request("r2", [1, 2, 3, 4, 50, 60, 70, 80])
    rig.fill(r1, 2)
    assert rig.events() == [Stored(0, (at(r1, 4), at(r1, 8)), None, tuple(range(1, 9)))]
    rig.fill(r2, 2)
    assert rig.events() == [Stored(0, (at(r2, 8),), at(r1, 4), (50, 60, 70, 80))]


@pytest.mark.clause("EVENT-DRAIN-1", "EVENT-ORDER-1")
def test_a_key_evicted_and_stored_again_between_two_drains_is_removed_first(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.events()
    rig.pool.evict([1])
    rig.pool.cache_full_blocks(r1, [1], 0, 1, 0)
    assert rig.events() == [removed(r1, 4), Stored(0, (at(r1, 4),), None, (1, 2, 3, 4))]


@pytest.mark.clause("EVENT-PARENT-1", "HASH-CHAIN-1")
def test_a_prompt_of_one_repeated_block_is_a_chain_and_no_circle(rig: Rig) -> None:
    r1 = rig.request("r1", [7] * 12)
    table = rig.take(r1, 3)
    for slot, block in enumerate(table):
        rig.pool.write(r1, block, 4 * slot + 4, 0)
        rig.pool.cache_full_blocks(r1, table, slot, slot + 1, 0)
    assert [rig.found(r1, position) for position in (4, 8, 12)] == table
    assert rig.events() == [
        Stored(0, (at(r1, end),), at(r1, end - 4) if end > 4 else None, (7, 7, 7, 7)) for end in (4, 8, 12)
    ]


@pytest.mark.clause("EVENT-PARENT-1", "EVENT-STORED-2")
def test_the_parent_of_a_partial_key_is_one_that_was_announced(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE, h=2)
    r1 = rig.request("r1", range(12))
    rig.fill(r1, 1)
    rig.events()
    rig.take(r1)
    rig.put(r1, 2, 12)
    assert rig.events() == [Stored(0, (at(r1, 12),), at(r1, 8), (8, 9, 10, 11))]


@pytest.mark.clause("EVENT-RESIDENCY-1", "EVENT-REMOVED-1")
def test_the_rest_of_a_prompt_is_removed_though_its_beginning_went_before(rig: Rig) -> None:
    r1 = rig.request("r1", range(12))
    rig.free(r1, *rig.fill(r1, 3))
    rig.events()
    gone: list[Event] = []
    for _ in range(3):
        rig.take(rig.request(f"other{len(gone)}"))
        gone += rig.events()
    assert gone == [removed(r1, 4), removed(r1, 8), removed(r1, 12)]
    assert [rig.found(r1, position) for position in (4, 8, 12)] == [None, None, None]


# Requests that run over all groups

LONG = tuple(range(1, 31))


@pytest.mark.clause("HIT-PURE-1")
def test_a_request_that_was_not_scheduled_is_looked_up_anew(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    blocks = rig.publish(rig.request("there", LONG), (0, 4), (0, 8))
    waiting = rig.request("waiting", LONG[:9])
    assert rig.cache.match(waiting).hit == 8
    rig.pool.evict(blocks)
    assert rig.admit(waiting, 9).hit == 0


@pytest.mark.clause("ADMIT-ATOMIC-1")
def test_two_hits_and_four_new_blocks_do_not_fit_in_five(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, blocks=6)
    rig.publish(rig.request("there", LONG), (0, 4), (0, 8))
    request = rig.request("r1", LONG[:24])
    rig.begin()
    assert rig.pool.num_free == 5
    with rig.refused(OutOfBlocks):
        rig.cache.admit(request, 24)
    rig.cache.admit(request, 20)
    assert rig.pool.num_free == 0


@pytest.mark.clause("ADMIT-ATOMIC-1", "ADMIT-COPY-1")
def test_a_request_that_does_not_fit_keeps_no_block_for_its_copy(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, blocks=6)
    rig.publish(rig.request("there", LONG), (0, 4), (0, 6))
    request = rig.request("r1", LONG[:24])
    rig.begin()
    for end in (24, 20):
        with rig.refused(OutOfBlocks):
            rig.cache.admit(request, end)
    assert rig.cache.admit(request, 16).hit == 6


@pytest.mark.clause("ADMIT-SHARE-1", "ADVANCE-STATE-1")
def test_after_a_hit_each_group_counts_in_its_own_blocks(hybrid: MakeHybrid) -> None:
    rig = hybrid(full(2), state(4))
    blocks = rig.publish(rig.request("there", LONG), (0, 2), (0, 4), (1, 4))
    r1 = rig.request("r1", LONG[:12])
    assert rig.admit(r1, 8).hit == 4
    assert rig.table(r1)[:2] == blocks[:2]
    assert (rig.table(r1, 1)[0], len(rig.table(r1, 1))) == (blocks[2], 2)
    rig.settle_all()
    rig.advance(r1, 12)


@pytest.mark.clause("HIT-ATTENTION-1", "HIT-JOINT-1")
def test_groups_of_different_block_sizes_agree_on_a_hit(hybrid: MakeHybrid) -> None:
    rig = hybrid(full(2), WIDE, hybrid=COARSE)
    rig.serve("first", LONG[:17])
    assert rig.cache.match(rig.request("r1", LONG)).hit == 16


@pytest.mark.clause("BACK-TRUNCATE-1")
def test_a_state_that_has_seen_rejected_drafts_is_gone(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", LONG[:9])
    rig.run(r1, 8, 9)
    r1.append([90, 91])
    rig.run(r1, 11)
    rig.cache.truncate(r1, 10)
    assert not rig.runs(r1)
    assert rig.admit(r1, 10).hit == 8


@pytest.mark.clause("HIT-DROP-1", "HIT-JOINT-1")
def test_three_groups_with_a_drop_hit_twice_in_a_row(hybrid: MakeHybrid) -> None:
    rig = hybrid(full(2), ATTENTION, WIDE, hybrid=HybridConfig(fine_grained=False, drop=(0, 1, 2)))
    rig.serve("first", LONG[:25])
    for name in ("second", "third"):
        request = rig.request(name, LONG[:25])
        assert rig.admit(request, 25).hit == 16
        rig.settle_all()
        rig.cache.release(name)


@pytest.mark.clause("ADVANCE-KEEP-1")
def test_a_block_whose_end_is_inside_a_chunk_has_no_key(hybrid: MakeHybrid) -> None:
    rig = hybrid(full(2), state(8), hybrid=HybridConfig(fine_grained=False, retention=Retention.BOUNDARIES))
    r1 = rig.request("r1", LONG[:20])
    rig.run(r1, 7, 11)
    assert rig.served_at(r1, 1) == []
    rig.run(r1, 16)
    assert rig.served_at(r1, 1) == [16]


@pytest.mark.clause("ADVANCE-KEEP-1")
def test_a_state_is_not_kept_for_a_point_that_was_passed_over(hybrid: MakeHybrid) -> None:
    rig = hybrid(full(2), state(8))
    r1 = rig.request("r1", LONG[:15])
    rig.run(r1, 15)
    assert rig.served_at(r1, 1) == []
    assert rig.cache.match(rig.request("r2", LONG[:15])).hit == 0


@pytest.mark.clause("SPLIT-PROGRESS-1", "SPLIT-ALIGN-1")
def test_a_limit_inside_a_block_leaves_every_chunk_something(hybrid: MakeHybrid) -> None:
    """Blocks of 8, and never more than 6 tokens."""
    rig = hybrid(full(2), state(8))
    r1 = rig.request("r1", LONG[:21])
    ends = [0]
    while ends[-1] < 21:
        ends.append(rig.cache.split(r1, ends[-1], min(6, 21 - ends[-1]), 6, 0))
    assert ends == [0, 6, 8, 14, 16, 20, 21]


@pytest.mark.clause("ADVANCE-ATOMIC-1")
def test_a_state_that_is_kept_takes_no_block_from_its_own_request(hybrid: MakeHybrid) -> None:
    rig = hybrid(blocks=4)
    r1 = rig.request("r1", LONG[:7])
    rig.run(r1, 6)
    assert (rig.served_at(r1, 1), rig.pool.num_free) == ([6], 0)
    rig.begin()
    with rig.refused(OutOfBlocks):
        rig.cache.advance(r1, 7)


@pytest.mark.clause("ADVANCE-STATE-1", "ADVANCE-ATTENTION-1")
def test_drafts_past_the_end_of_a_block_leave_the_state_at_its_end_alone(hybrid: MakeHybrid) -> None:
    rig = hybrid(hybrid=HybridConfig(retention=Retention.BOUNDARIES))
    r1 = rig.request("r1", LONG[:8])
    rig.run(r1, 4, 8)
    at_the_end = rig.table(r1, 1)[1]
    r1.append([50, 90, 91])
    rig.advance(r1, 11)
    assert (rig.table(r1, 1)[1], len(rig.table(r1)), len(rig.table(r1, 1))) == (at_the_end, 3, 3)
    assert (rig.held(at_the_end, "r1"), rig.held(rig.table(r1, 1)[2], "r1")) == (LONG[:8], tuple(r1.tokens))
    rig.settle_all()
    rig.cache.truncate(r1, 9)
    assert rig.admit(r1, 9).hit == 8


@pytest.mark.clause("HIT-WINDOW-1", "POOL-FREE-3", "POOL-TOUCH-2")
def test_sessions_that_take_turns_in_a_quarter_of_the_pool_hit_in_every_turn(hybrid: MakeHybrid) -> None:
    """Each of the two comes back with its first 12 tokens, in 6 of 48 blocks, and 21 new ones, until all were taken."""
    rig = hybrid(ATTENTION, window(4, 6), blocks=1 + 48)
    hits = []
    for turn in range(5):
        for session, beginning in enumerate((LONG[:12], range(50, 62))):
            new = 100 * (2 * turn + session + 1)
            request = rig.request(f"{session} {turn}", (*beginning, *range(new, new + 21)))
            hits.append(rig.admit(request, 33).hit)
            rig.settle_all()
            rig.cache.release(request.request_id)
    assert hits == [0, 0, *[12] * 8]
    assert [rig.served_at(rig.requests[session], 1)[0] for session in (0, 1)] == [8, 8], "all blocks were taken"
