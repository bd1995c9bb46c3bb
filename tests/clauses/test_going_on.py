from __future__ import annotations

import pytest

from kvproof.spec.errors import InvalidArgument, NotAdmitted, NotReferenced, OutOfBlocks, OutOfOrder, OutOfRange
from kvproof.spec.vocabulary import GroupConfig, HybridConfig, Retention
from tests.clauses.hybrid_rig import COARSE, HybridRig, MakeHybrid, full, named, state, window
from tests.clauses.rig import ATTENTION, RECURRENT, at

TWENTY = tuple(range(1, 21))
DROP = HybridConfig(drop=(0,))
EVERY_BLOCK = HybridConfig(retention=Retention.BOUNDARIES)


# Ranges


@pytest.mark.clause("ADVANCE-RANGE-1")
def test_the_next_chunk_ends_past_the_last_one_and_within_the_request(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1, r2 = rig.request("r1", TWENTY[:9]), rig.request("r2", TWENTY[:9])
    rig.run(r1, 4)
    rig.begin()
    for wrong in (-1, 3, 4, 10):
        with rig.refused(OutOfRange):
            rig.cache.advance(r1, wrong)
    with rig.refused(InvalidArgument):
        rig.cache.advance(r1, 5.0)  # type: ignore[arg-type]
    with rig.refused(NotAdmitted):
        rig.cache.advance(r2, 5)
    rig.cache.advance(r1, 5)
    rig.advance(r1, 9)
    assert rig.far(r1) == (9, 4)
    rig.begin()
    for wrong in (5, 8, 9, 10):
        with rig.refused(OutOfRange):
            rig.cache.advance(r1, wrong)
    r1.append([10])
    rig.cache.advance(r1, 10)


@pytest.mark.clause("ADVANCE-RANGE-1")
def test_a_released_request_does_not_go_on(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.serve("r1", TWENTY, 4)
    rig.begin()
    with rig.refused(NotAdmitted):
        rig.cache.advance(r1, 8)


@pytest.mark.clause("ADVANCE-ONCE-1")
def test_a_request_gets_one_chunk_in_a_step(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY)
    rig.admit(r1, 4)
    with rig.refused(OutOfOrder):
        rig.cache.advance(r1, 8)
    rig.advance(r1, 8)
    with rig.refused(OutOfOrder):
        rig.cache.advance(r1, 12)
    rig.settle_all()
    rig.advance(r1, 12)


# What goes


@pytest.mark.clause("ADVANCE-LETGO-1")
@pytest.mark.parametrize(
    ("rows", "kept"),
    [(1, [0, 0, 0, 7]), (5, [0, 0, 5, 7]), (6, [0, 3, 5, 7]), (9, [0, 3, 5, 7]), (10, [1, 3, 5, 7])],
    ids=named,
)
def test_rows_before_the_window_go_and_states_before_the_last_one(
    hybrid: MakeHybrid, rows: int, kept: list[int]
) -> None:
    """Settled at 12, a window of w reads the rows from 12 - w + 1 on; each chunk takes a block of rows and a state."""
    rig = hybrid(window(4, rows), RECURRENT, hybrid=HybridConfig(retention=Retention.BOUNDARIES, fine_grained=False))
    r1 = rig.request("r1", TWENTY)
    for end in (4, 8, 12):
        rig.begin()
        [rig.cache.advance, rig.cache.admit][end == 4](r1, end)
    rig.settle_all()
    rig.advance(r1, 16)
    assert rig.table(r1) == kept
    assert rig.table(r1, 1) == [0, 0, 6, 8]


@pytest.mark.clause("ADVANCE-LETGO-1")
def test_what_a_step_in_flight_reads_stays_until_it_is_settled(hybrid: MakeHybrid) -> None:
    """Settled is 8: the window of 6 reads rows 3 to 7 there, though the request is computed up to 12."""
    rig = hybrid(window(4, 6), RECURRENT)
    r1 = rig.request("r1", TWENTY)
    for end in (4, 8, 12):
        rig.begin()
        [rig.cache.advance, rig.cache.admit][end == 4](r1, end)
    rig.cache.commit(1)
    rig.cache.commit(2)
    rig.advance(r1, 16)
    assert rig.table(r1)[:3] == [1, 3, 5]
    assert rig.table(r1, 1)[:3] == [0, 4, 6]
    rig.cache.commit(3)
    rig.advance(r1, 17)
    assert rig.table(r1)[:2] == [0, 3]
    assert rig.table(r1, 1)[:3] == [0, 0, 6]


@pytest.mark.clause("ADVANCE-LETGO-1")
def test_nothing_goes_before_the_first_chunk_is_settled(hybrid: MakeHybrid) -> None:
    rig = hybrid(window(4, 2), RECURRENT)
    r1 = rig.request("r1", TWENTY)
    rig.admit(r1, 4)
    rig.advance(r1, 8)
    rig.advance(r1, 12)
    assert (rig.table(r1), rig.table(r1, 1)) == ([1, 3, 5], [2, 4, 6])


@pytest.mark.clause("ADVANCE-LETGO-1")
def test_what_goes_goes_group_by_group_the_last_slot_first(hybrid: MakeHybrid) -> None:
    rig = hybrid(window(2, 2), window(4, 2), RECURRENT, hybrid=COARSE, blocks=13)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 12)
    assert [rig.table(r1, g) for g in range(3)] == [[1, 2, 3, 4, 5, 6], [7, 8, 9], [0, 0, 10]]
    rig.advance(r1, 13)
    assert [rig.table(r1, g)[-2:] for g in range(3)] == [[6, 11], [9, 12], [10, 5]]
    assert rig.queue() == [4, 3, 2, 1, 8, 7]


@pytest.mark.clause("ADVANCE-LETGO-1")
def test_what_goes_without_a_key_goes_to_the_front_one_group_after_the_other(hybrid: MakeHybrid) -> None:
    rig = hybrid(window(2, 2), window(4, 2), hybrid=COARSE, blocks=13)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 12)
    rig.pool.evict(list(range(1, 13)))
    rig.advance(r1, 13)
    assert [rig.table(r1, g)[-1] for g in range(2)] == [8, 7]
    assert rig.queue() == [5, 4, 3, 2, 1, 10, 11, 12]


# What is new


@pytest.mark.clause("ADVANCE-ATTENTION-1", "ADVANCE-STATE-1")
def test_rows_get_a_block_for_each_slot_and_the_state_one_for_its_last(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 3)
    assert (rig.table(r1), rig.table(r1, 1)) == ([1], [2])
    rig.run(r1, 4)
    assert (rig.table(r1), rig.table(r1, 1)) == ([1], [2])
    rig.run(r1, 13)
    assert (rig.table(r1), rig.table(r1, 1)) == ([1, 3, 4, 5], [2, 0, 0, 6])
    rig.run(r1, 15)
    assert (rig.table(r1), rig.table(r1, 1)) == ([1, 3, 4, 5], [0, 0, 0, 6])
    rig.run(r1, 17)
    assert (rig.table(r1)[4:], rig.table(r1, 1)[3:]) == ([2], [6, 7])


@pytest.mark.clause("ADVANCE-STATE-1")
def test_a_state_without_key_is_overwritten_where_it_is(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 5)
    [block] = rig.table(r1, 1)[1:]
    rig.advance(r1, 7)
    assert (rig.table(r1, 1)[1:], rig.copies()) == ([block], [])
    assert rig.held(block, "r1") == TWENTY[:7]


# States with a key


@pytest.mark.clause("ADVANCE-MOVE-1")
def test_a_key_moves_before_its_state_is_overwritten(hybrid: MakeHybrid) -> None:
    rig = hybrid(full(2), RECURRENT)
    r1 = rig.request("r1", TWENTY[:7])
    rig.run(r1, 4, 6)
    [_, block] = rig.table(r1, 1)
    assert rig.positions(block) == [6]
    rig.events()
    rig.advance(r1, 7)
    moved, rows = block + 1, rig.table(r1)[3]
    assert rows == moved + 1, "moves come first"
    assert (rig.table(r1, 1)[1], rig.copies()) == (block, [(block, moved)])
    assert rig.holders(moved) == {"copy:1:r1": None}
    assert (rig.entries(block), rig.entries(moved), rig.events()) == ([], [(6, 1, None)], [])
    assert (rig.held(block, "r1"), rig.held(moved, "copy:1:r1")) == (TWENTY[:7], TWENTY[:6])
    assert rig.cache.match(rig.request("early", TWENTY[:7])).hit == 4
    rig.settle_all()
    assert (rig.holders(moved), rig.queue()[-1]) == ({}, moved)
    assert rig.cache.match(rig.request("late", TWENTY[:7])).hit == 6


@pytest.mark.clause("ADVANCE-MOVE-1", "STEP-MOVE-1")
def test_a_key_that_is_still_reserved_moves_as_such(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY[:7])
    rig.run(r1, 4)
    rig.advance(r1, 6)
    rig.advance(r1, 7)
    [(_, moved)] = rig.copies()
    assert rig.entries(moved) == [(6, 2, "r1")]
    rig.cache.release("r1")
    assert rig.entries(moved) == []
    rig.settle_all()


@pytest.mark.clause("ADVANCE-MOVE-1")
def test_keys_move_group_by_group_each_under_a_name_of_its_own(hybrid: MakeHybrid) -> None:
    rig = hybrid(RECURRENT, ATTENTION, RECURRENT)
    r1 = rig.request("r1", TWENTY[:7])
    rig.run(r1, 4, 6)
    first, second = rig.table(r1, 0)[1], rig.table(r1, 2)[1]
    rig.advance(r1, 7)
    (one, two) = (dst for _, dst in rig.copies())
    assert rig.copies() == [(first, one), (second, two)]
    assert one < two
    assert (set(rig.holders(one)), set(rig.holders(two))) == ({"copy:0:r1"}, {"copy:2:r1"})


@pytest.mark.clause("ADVANCE-MOVE-1")
def test_only_the_group_whose_block_is_overwritten_moves_its_key(hybrid: MakeHybrid) -> None:
    """From 6 to 8 the state in blocks of 6 goes to the next block and keeps its key where it is."""
    rig = hybrid(state(6), state(4), hybrid=EVERY_BLOCK)
    r1 = rig.request("r1", TWENTY[:9])
    rig.run(r1, 4, 6)
    [six] = rig.table(r1, 0)
    rig.advance(r1, 8)
    assert rig.copies() == []
    assert (rig.table(r1, 0)[0], rig.positions(six)) == (six, [6])


@pytest.mark.clause("ADVANCE-COPY-1")
@pytest.mark.parametrize("read", [False, True])
def test_a_state_that_somebody_reads_is_left_to_the_reader(hybrid: MakeHybrid, read: bool) -> None:
    rig = hybrid()
    r1, reader = rig.request("r1", TWENTY[:7]), rig.request("reader", TWENTY[:7])
    rig.run(r1, 4, 6)
    block = rig.table(r1, 1)[1]
    rig.begin()
    if read:
        rig.touch(reader, block, 6, 1)
    rig.cache.advance(r1, 7)
    own = rig.table(r1, 1)[1]
    [(src, dst)] = rig.copies()
    if read:
        assert (src, dst) == (block, own)
        assert "r1" not in rig.holders(block)
        assert rig.holders(block)["reader"] == at(r1, 6)
        assert (rig.positions(block), rig.positions(own)) == ([6], [])
        assert (rig.held(block, "reader"), rig.held(own, "r1")) == (TWENTY[:6], TWENTY[:7])
    else:
        assert own == src == block != dst


# Room


@pytest.mark.clause("ADVANCE-ATOMIC-1")
@pytest.mark.parametrize("lacking", [0, 1])
def test_a_chunk_counts_what_it_lets_go(hybrid: MakeHybrid, lacking: int) -> None:
    """Three blocks of rows and one of the state are held; two of the rows go, and three blocks are taken."""
    rig = hybrid(window(4, 4), RECURRENT, hybrid=COARSE, blocks=1 + 4 + 1 - lacking)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 12)
    rig.begin()
    if lacking:
        with rig.refused(OutOfBlocks):
            rig.cache.advance(r1, 17)
        rig.cache.advance(r1, 16)
    else:
        rig.cache.advance(r1, 17)
        assert rig.pool.num_free == 0


@pytest.mark.clause("ADVANCE-ATOMIC-1")
@pytest.mark.parametrize("lacking", [0, 1])
def test_a_move_takes_a_block_as_well(hybrid: MakeHybrid, lacking: int) -> None:
    """After 4 and 6 two blocks of rows and one state are held, and the state at 4 goes."""
    rig = hybrid(ATTENTION, RECURRENT, blocks=1 + 4 + 1 - lacking)
    r1, other = rig.request("r1", TWENTY[:7]), rig.request("other", TWENTY)
    rig.run(r1, 4, 6)
    rig.begin()
    rig.touch(other, rig.table(r1, 1)[0], 4, 1)
    if lacking:
        with rig.refused(OutOfBlocks):
            rig.cache.advance(r1, 7)
    else:
        rig.cache.advance(r1, 7)


@pytest.mark.clause("ADVANCE-ATOMIC-1")
def test_a_block_that_others_hold_does_not_count_as_let_go(hybrid: MakeHybrid) -> None:
    rig = hybrid(window(4, 4), blocks=1 + 2)
    r1, other = rig.request("r1", TWENTY), rig.request("other", TWENTY)
    rig.run(r1, 8)
    rig.begin()
    rig.touch(other, 1, 4)
    with rig.refused(OutOfBlocks):
        rig.cache.advance(r1, 12)
    rig.free(other, 1)
    rig.cache.advance(r1, 12)


# What is written and registered


@pytest.mark.clause("ADVANCE-WRITE-1", "ERR-ATOMIC-1")
@pytest.mark.parametrize("lost", [0, 1], ids=["of the first group", "of the second group"])
def test_a_chunk_is_refused_before_it_begins_where_the_slot_that_it_goes_on_in_is_lost(
    hybrid: MakeHybrid, lost: int
) -> None:
    """The block was freed behind the cache's back, which nobody may do (GROUP-OWN-1)."""
    rig = hybrid(ATTENTION, window(4, 6))
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 6)
    rig.begin()
    rig.pool.free([rig.table(r1, lost)[1]], "r1")
    with rig.refused(NotReferenced):
        rig.cache.advance(r1, 9)
    del rig.cache.running["r1"]  # its table is not what it was


@pytest.mark.clause("ADVANCE-WRITE-1")
def test_a_chunk_is_written_in_its_own_step(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 6)
    rows, one_state = rig.table(r1)[1], rig.table(r1, 1)[1]
    rig.advance(r1, 7)
    for block in (rows, one_state):
        contents = [rig.ghost.content_after(block, step) for step in (1, 2)]
        assert [content and content.prefix.length for content in contents] == [6, 7]
    rig.advance(r1, 9)
    assert [rig.held(block, "r1") for block in rig.table(r1)] == [TWENTY[:4], TWENTY[:8], TWENTY[:9]]
    assert rig.held(rig.table(r1, 1)[2], "r1") == TWENTY[:9]
    assert rig.held(one_state, "r1") == TWENTY[:7]


@pytest.mark.clause("ADVANCE-WRITE-1", "BACK-ROLLBACK-1")
def test_a_step_that_is_taken_back_leaves_what_was_written_before(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 6)
    rig.advance(r1, 7)
    rig.cache.rollback(["r1"])
    assert rig.held(rig.table(r1)[1], "r1") == TWENTY[:6]


@pytest.mark.clause("ADVANCE-FULL-1")
@pytest.mark.parametrize("group", [ATTENTION, window(4, 6)], ids=lambda group: group.kind.value)
def test_rows_are_registered_slot_by_slot_as_they_fill(hybrid: MakeHybrid, group: GroupConfig) -> None:
    rig = hybrid(group, hybrid=COARSE)
    r1 = rig.request("r1", TWENTY)
    found = []
    for end in (3, 4, 7, 13):
        rig.run(r1, end)
        found.append(rig.served_at(r1, 0))
    assert found == [[], [4], [4], [4, 8, 12]]


@pytest.mark.clause("ADVANCE-FULL-1")
def test_a_private_copy_is_registered_when_it_is_full_and_not_before(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    rig.publish(rig.request("there", TWENTY), (0, 4), (0, 6))
    r1 = rig.request("r1", TWENTY[:9])
    rig.run(r1, 7)
    own = rig.table(r1)[1]
    assert rig.positions(own) == []
    rig.run(r1, 9)
    assert rig.positions(own) == [8]


@pytest.mark.clause("ADVANCE-FULL-1", "INDEX-SIBLING-1")
def test_rows_that_are_computed_again_are_registered_again(hybrid: MakeHybrid) -> None:
    """All 8 tokens are cached, the last block is computed once more, and survives the other one."""
    rig = hybrid(ATTENTION)
    first, again = rig.serve("first", TWENTY[:8]), rig.request("again", TWENTY[:8])
    assert rig.admit(again, 8).hit == 4
    rig.settle_all()
    other, own = rig.found(first, 8), rig.table(again)[1]
    assert (other, rig.positions(own)) == (2, [8])
    rig.pool.evict([2])
    assert rig.found(first, 8) == own


@pytest.mark.clause("ADVANCE-TAIL-1")
@pytest.mark.parametrize(
    ("chosen", "prompt", "chunks", "keys"),
    [
        (HybridConfig(), 7, [7], [4, 6]),
        (HybridConfig(), 7, [6], [4, 6]),
        (HybridConfig(), 7, [5], [4]),
        (HybridConfig(), 7, [5, 7], [4, 6]),
        (HybridConfig(), 6, [6], [4]),
        (HybridConfig(), 8, [8], [4, 8]),
        (HybridConfig(), 8, [7], [4, 6]),
        (HybridConfig(), 9, [9], [4, 8]),
        (HybridConfig(), 3, [3], [2]),
        (HybridConfig(), 2, [2], []),
        (HybridConfig(), 1, [1], []),
        (HybridConfig(), 13, [10], [4, 8]),
        (DROP, 6, [6], [4, 6]),
        (DROP, 7, [7], [4, 6]),
        (DROP, 8, [7], [4]),
        (DROP, 8, [8], [4, 8]),
        (COARSE, 7, [7], [4]),
    ],
    ids=named,
)
def test_the_tail_of_a_prompt_is_registered_when_it_is_computed(
    hybrid: MakeHybrid, chosen: HybridConfig, prompt: int, chunks: list[int], keys: list[int]
) -> None:
    rig = hybrid(ATTENTION, hybrid=chosen)
    r1 = rig.request("r1", TWENTY[:prompt])
    rig.run(r1, *chunks)
    assert rig.served_at(r1, 0) == keys


@pytest.mark.clause("ADVANCE-TAIL-1", "BACK-PROMPT-1")
def test_decoded_tokens_have_no_tail(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1 = rig.request("r1", TWENTY[:9])
    rig.run(r1, 9)
    r1.append(TWENTY[9:12])
    rig.run(r1, 10, 11)
    assert rig.served_at(r1, 0) == [4, 8]
    rig.run(r1, 12)
    assert rig.served_at(r1, 0) == [4, 8, 12]


@pytest.mark.clause("ADVANCE-TAIL-1")
def test_the_tail_is_registered_once(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1 = rig.request("r1", TWENTY[:7])
    rig.run(r1, 6)
    rig.pool.evict([rig.table(r1)[1]])
    rig.run(r1, 7)
    assert rig.served_at(r1, 0) == [4]


@pytest.mark.clause("ADVANCE-TAIL-1", "HIT-JOINT-1")
@pytest.mark.parametrize("prompt", range(3, 14))
def test_the_same_prompt_again_hits_all_that_it_can(hybrid: MakeHybrid, prompt: int) -> None:
    for chosen, behind in ((HybridConfig(), 1), (DROP, 2)):
        rig = hybrid(ATTENTION, RECURRENT, hybrid=chosen)
        first = rig.request("first", TWENTY[:prompt])
        while not rig.runs(first) or rig.far(first)[0] < prompt:
            start = rig.far(first)[0] if rig.runs(first) else 0
            rig.run(first, rig.cache.split(first, start, prompt - start, prompt, 0))
        again = rig.cache.match(rig.request("again", TWENTY[:prompt])).hit
        if behind == 1 and prompt % 4 == 0:
            assert again == prompt - 4, "its last block serves it only as a whole, which leaves nothing to compute"
        else:
            assert again == (prompt - behind) // 2 * 2


@pytest.mark.clause("ADVANCE-REGISTER-1", "STEP-SERVE-1")
def test_keys_of_a_chunk_are_reserved_until_its_step_is_committed(hybrid: MakeHybrid) -> None:
    rig = hybrid(hybrid=EVERY_BLOCK)
    r1, r2 = rig.request("r1", TWENTY), rig.request("r2", TWENTY)
    rig.admit(r1, 4)
    rig.advance(r1, 8)
    assert [rig.entries(block) for block in (1, 2, 3, 4)] == [
        [(4, 1, "r1")],
        [(4, 1, "r1")],
        [(8, 2, "r1")],
        [(8, 2, "r1")],
    ]
    assert rig.cache.match(r2).hit == 0
    rig.cache.commit(1)
    assert rig.cache.match(r2).hit == 4
    rig.cache.commit(2)
    assert rig.cache.match(r2).hit == 8


@pytest.mark.clause("ADVANCE-REGISTER-1", "STEP-COMMIT-3")
def test_the_commit_tells_the_keys_of_a_chunk_group_by_group(hybrid: MakeHybrid) -> None:
    rig = hybrid(RECURRENT, ATTENTION, hybrid=EVERY_BLOCK)
    rig.run(rig.request("r1", TWENTY[:7]), 4)
    [first, second] = rig.events()
    assert (first.group, second.group) == (0, 1)  # type: ignore[union-attr]


# Which states are kept


def kept(rig: HybridRig, prompt: int, *ends: int, more: int = 0) -> list[int]:
    """Where a request that ran through these chunks has left states."""
    r1 = rig.request("r1", TWENTY[:prompt])
    r1.append(TWENTY[prompt : prompt + more])
    rig.run(r1, *ends)
    return rig.served_at(r1, 1)


def keeping(retention: Retention, interval: int | None = None, **more: bool) -> HybridConfig:
    return HybridConfig(retention=retention, interval=interval, **more)  # type: ignore[arg-type]


EVERY_POLICY = [
    keeping(Retention.LAST),
    keeping(Retention.JUNCTION),
    keeping(Retention.BOUNDARIES),
    keeping(Retention.INTERVAL, 6),
]


@pytest.mark.clause("RETAIN-LAST-1", "ADVANCE-KEEP-1")
@pytest.mark.parametrize("chosen", EVERY_POLICY, ids=lambda chosen: chosen.retention.value)
def test_every_policy_keeps_the_last_states_of_a_prompt(hybrid: MakeHybrid, chosen: HybridConfig) -> None:
    """Of a prompt of 15 the last block ends at 12, the last hash unit at 14."""
    assert kept(hybrid(hybrid=chosen), 15, 12, 14, 15) == [12, 14]
    assert kept(hybrid(hybrid=chosen), 15, 11, 13, 15) == []


@pytest.mark.clause("RETAIN-LAST-1")
@pytest.mark.parametrize(
    ("prompt", "more", "ends", "states"),
    [
        (17, 0, (16, 17), [16]),
        (16, 0, (12, 14, 16), [12, 14]),
        (9, 6, (8, 12, 15), [12]),
        (15, 1, (12, 14, 16), [12, 14]),
        (15, 3, (12, 14, 16, 18), [16]),
    ],
    ids=named,
)
def test_the_last_states_are_those_of_all_tokens_and_of_the_prompt(
    hybrid: MakeHybrid, prompt: int, more: int, ends: tuple[int, ...], states: list[int]
) -> None:
    assert kept(hybrid(hybrid=keeping(Retention.LAST)), prompt, *ends, more=more) == states


@pytest.mark.clause("RETAIN-JUNCTION-1", "RETAIN-LAST-1")
@pytest.mark.parametrize(
    ("chosen", "junction", "states"),
    [
        (keeping(Retention.LAST), 8, [12, 14]),
        (keeping(Retention.JUNCTION), 8, [8, 12, 14]),
        (keeping(Retention.JUNCTION), 6, [4, 12, 14]),
        (keeping(Retention.JUNCTION, checkpoints=True), 6, [6, 12, 14]),
        (keeping(Retention.INTERVAL, 20), 8, [8, 12, 14]),
        (keeping(Retention.INTERVAL, 20, checkpoints=True), 6, [6, 12, 14]),
        (keeping(Retention.BOUNDARIES, checkpoints=True), 6, [4, 6, 8, 12, 14]),
        (keeping(Retention.LAST, checkpoints=True), 6, [12, 14]),
    ],
    ids=named,
)
def test_the_state_at_the_junction_is_kept_by_every_policy_but_the_last(
    hybrid: MakeHybrid, chosen: HybridConfig, junction: int, states: list[int]
) -> None:
    rig = hybrid(hybrid=chosen)
    rig.publish(rig.request("there", TWENTY), *[(0, n) for n in (2, 4, 6, 8) if n <= junction])
    assert kept(rig, 15, 4, 6, 8, 10, 12, 14, 15) == states


@pytest.mark.clause("RETAIN-BOUNDARIES-1", "ADVANCE-KEEP-1")
def test_at_boundaries_every_block_end_is_kept(hybrid: MakeHybrid) -> None:
    assert kept(hybrid(hybrid=EVERY_BLOCK), 20, 2, 4, 7, 8, 10, 12) == [4, 8, 12]
    assert kept(hybrid(hybrid=keeping(Retention.JUNCTION)), 20, 2, 4, 7, 8, 10, 12) == []


@pytest.mark.clause("RETAIN-BOUNDARIES-1")
def test_each_group_has_boundaries_of_its_own(hybrid: MakeHybrid) -> None:
    rig = hybrid(state(6), RECURRENT, hybrid=EVERY_BLOCK)
    assert kept(rig, 20, 4, 6, 8, 10) == [4, 8]
    assert rig.served_at(rig.requests[0], 0) == [6]


@pytest.mark.clause("RETAIN-INTERVAL-1")
@pytest.mark.parametrize(
    ("interval", "states"), [(2, [4, 8, 12]), (4, [4, 8, 12]), (6, [12]), (8, [8]), (12, [12]), (18, [])], ids=named
)
def test_of_intervals_those_are_kept_that_end_with_a_block(
    hybrid: MakeHybrid, interval: int, states: list[int]
) -> None:
    assert kept(hybrid(hybrid=keeping(Retention.INTERVAL, interval)), 20, 4, 6, 8, 10, 12) == states


@pytest.mark.clause("ADVANCE-KEEP-1")
@pytest.mark.parametrize(("fine_grained", "states"), [(True, [12, 14]), (False, [12])], ids=named)
def test_states_inside_a_block_are_kept_with_fine_grained_hits_only(
    hybrid: MakeHybrid, fine_grained: bool, states: list[int]
) -> None:
    assert kept(hybrid(hybrid=HybridConfig(fine_grained=fine_grained)), 15, 12, 14, 15) == states


@pytest.mark.clause("ADVANCE-KEEP-1")
@pytest.mark.parametrize(("prompt", "states"), [(13, [12]), (12, [])], ids=named)
def test_a_coarse_state_is_kept_where_its_own_block_ends(hybrid: MakeHybrid, prompt: int, states: list[int]) -> None:
    """The last state of a prompt of 12 would be kept at 0, and of one of 13 at 12, which both blocks divide."""
    rig = hybrid(state(6), RECURRENT, hybrid=COARSE)
    assert kept(rig, prompt, 4, 6, 8, 12) == states
    assert rig.served_at(rig.requests[0], 0) == states


@pytest.mark.clause("ADVANCE-KEEP-1")
def test_a_state_between_two_hashes_is_never_kept(hybrid: MakeHybrid) -> None:
    rig = hybrid(hybrid=HybridConfig(retention=Retention.BOUNDARIES, checkpoints=True))
    assert kept(rig, 20, 1, 3, 5, 7, 9) == []
