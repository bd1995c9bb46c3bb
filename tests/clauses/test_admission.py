from __future__ import annotations

import pytest

from kvproof.reference import Request
from kvproof.spec.errors import AlreadyAdmitted, InvalidArgument, NoOpenStep, OutOfBlocks, OutOfRange
from kvproof.spec.vocabulary import HybridConfig
from tests.clauses.hybrid_rig import COARSE, HybridRig, MakeHybrid, Place, full, named, state, window
from tests.clauses.rig import ATTENTION, RECURRENT, WIDE, at

TWENTY = tuple(range(1, 21))

INSIDE: tuple[Place, ...] = ((0, 4), (0, 6), (1, 6))
"""Keys that let a request begin at 6, inside a block of both groups."""


# Ranges


@pytest.mark.clause("ADMIT-RANGE-1")
def test_a_first_chunk_ends_past_the_hit_and_within_the_request(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    rig.publish(rig.request("there", TWENTY), (0, 4), (1, 4))
    r1, r2 = rig.request("r1", TWENTY[:9]), rig.request("r2", TWENTY[:9])
    rig.begin()
    for wrong in (-1, 0, 4, 10):
        with rig.refused(OutOfRange):
            rig.cache.admit(r1, wrong)
    assert rig.cache.admit(r1, 5).hit == 4
    assert rig.cache.admit(r2, 9).hit == 4
    assert (rig.far(r1), rig.far(r2)) == ((5, 0), (9, 0))


@pytest.mark.clause("ADMIT-RANGE-1", "HIT-JOINT-1")
def test_a_fully_cached_prompt_is_admitted_with_its_last_block_to_compute(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    rig.publish(rig.request("there", TWENTY), (0, 4), (0, 8), (1, 4), (1, 8))
    r1 = rig.request("r1", TWENTY[:8])
    assert rig.admit(r1, 8).hit == 4


@pytest.mark.clause("ADMIT-RANGE-1")
def test_a_request_without_tokens_is_not_admitted(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    empty = rig.request("r1", [])
    rig.begin()
    for end in (0, 1):
        with rig.refused(OutOfRange):
            rig.cache.admit(empty, end)


@pytest.mark.clause("ADMIT-RANGE-1")
def test_a_request_that_runs_is_not_admitted_again_until_it_is_released(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 4)
    rig.begin()
    with rig.refused(AlreadyAdmitted):
        rig.cache.admit(r1, 8)
    with rig.refused(AlreadyAdmitted):
        rig.cache.admit(rig.requests[0], 20)
    rig.cache.release("r1")
    rig.cache.admit(r1, 8)


@pytest.mark.clause("ADMIT-RANGE-1")
def test_a_request_of_another_contract_is_not_admitted(hybrid: MakeHybrid) -> None:
    rig, other = hybrid(), hybrid(h=1)
    wrong = [other.request("r1"), rig.request("copy:1"), "r1", None]
    rig.begin()
    for request in wrong:
        with rig.refused(InvalidArgument):
            rig.cache.admit(request, 4)  # type: ignore[arg-type]
    with rig.refused(InvalidArgument):
        rig.cache.admit(rig.requests[0], "4")  # type: ignore[arg-type]


@pytest.mark.clause("ADMIT-RANGE-1", "ADVANCE-RANGE-1", "SPLIT-RANGE-1", "BACK-TRUNCATE-1", "ERR-TYPE-1")
@pytest.mark.parametrize(
    ("operation", "arguments"),
    [("match", ()), ("split", (0, 1, 1, 0)), ("admit", (8,)), ("advance", (8,)), ("truncate", (2,))],
)
def test_no_operation_takes_what_is_no_request_of_the_contract(
    hybrid: MakeHybrid, operation: str, arguments: tuple[int, ...]
) -> None:
    rig, other = hybrid(), hybrid(h=1)
    rig.run(rig.request("r1", TWENTY), 4)
    rig.begin()
    for wrong in (other.request("r1", TWENTY), "r1", None):
        with rig.refused(InvalidArgument):
            getattr(rig.cache, operation)(wrong, *arguments)
    assert rig.far(rig.requests[0]) == (4, 4)


@pytest.mark.clause("ADMIT-RANGE-1", "STEP-OPEN-2")
def test_a_chunk_needs_an_open_step(hybrid: MakeHybrid) -> None:
    """It is refused before what is hit is touched, and before what leaves the window is freed."""
    rig = hybrid(window(4, 3))
    rig.serve("there", TWENTY, 8)
    r1 = rig.request("r1", TWENTY)
    with rig.refused(NoOpenStep):
        rig.cache.admit(r1, 12)
    rig.run(r1, 12)
    with rig.refused(NoOpenStep):
        rig.cache.advance(r1, 16)
    rig.advance(r1, 16)
    assert rig.table(r1)[:2] == [0, 0]


# All or nothing


@pytest.mark.clause("ADMIT-ATOMIC-1")
@pytest.mark.parametrize(
    ("places", "end", "number"),
    [
        ((), 9, 4),
        ((), 3, 2),
        (((0, 4), (1, 4)), 9, 3),
        (((0, 4), (1, 4)), 8, 2),
        (INSIDE, 8, 2),
        (INSIDE, 9, 4),
    ],
    ids=["nothing hit", "one slot", "a block shared", "one more slot", "both copied", "copied, and another slot"],
)
def test_what_is_hit_is_not_there_to_be_taken(
    hybrid: MakeHybrid, places: tuple[Place, ...], end: int, number: int
) -> None:
    for lacking in (0, 1):
        rig = hybrid(blocks=1 + len(places) + number - lacking)
        rig.publish(rig.request("there", TWENTY), *places)
        reader = rig.request("reader", TWENTY[:end])
        rig.begin()
        if not lacking:
            rig.cache.admit(reader, end)
            continue
        before = rig.snapshot()
        with pytest.raises(OutOfBlocks, match=f"takes {number} blocks"):
            rig.cache.admit(reader, end)
        assert rig.snapshot() == before


@pytest.mark.clause("ADMIT-ATOMIC-1")
def test_what_others_hold_already_takes_nothing_away(hybrid: MakeHybrid) -> None:
    """Both share two blocks; each of them takes two more."""
    rig = hybrid(blocks=1 + 2 + 4)
    rig.publish(rig.request("there", TWENTY), (0, 4), (1, 4))
    r1, r2, r3 = (rig.request(name, TWENTY) for name in ("r1", "r2", "r3"))
    rig.admit(r1, 8)
    rig.cache.admit(r2, 8)
    assert rig.pool.num_free == 0
    with rig.refused(OutOfBlocks):
        rig.cache.admit(r3, 5)


@pytest.mark.clause("ADMIT-ATOMIC-1", "ADMIT-ORDER-1")
def test_what_is_only_copied_from_is_not_taken_for_what_is_new(hybrid: MakeHybrid) -> None:
    """The sources are free, and next in the queue; they are needed until the copies have run."""
    rig = hybrid(blocks=6)
    rig.publish(rig.request("there", TWENTY), *INSIDE)
    r1 = rig.request("r1", TWENTY)
    rig.publish(rig.request("else", range(50, 60)), (0, 4), (1, 4))
    assert rig.queue() == [1, 2, 3, 4, 5]
    rig.admit(r1, 8)
    assert (rig.table(r1), rig.table(r1, 1)) == ([1, 4], [0, 5])
    assert rig.copies() == [(2, 4), (3, 5)]
    with rig.refused(OutOfBlocks):
        rig.cache.admit(rig.requests[2], 4)
    rig.settle_all()
    assert rig.queue() == [2, 3]


# The order


@pytest.mark.clause("ADMIT-ORDER-1")
def test_a_block_that_was_hit_is_not_taken_for_another_slot(hybrid: MakeHybrid) -> None:
    rig = hybrid(blocks=7)
    rig.publish(rig.request("there", TWENTY), (0, 4), (1, 4))
    rig.publish(rig.request("else", range(50, 60)), (0, 2), (0, 4), (1, 2), (1, 4))
    assert rig.queue()[:2] == [1, 2]
    r1 = rig.request("r1", TWENTY)
    rig.admit(r1, 9)
    assert (rig.table(r1), rig.table(r1, 1)) == ([1, 3, 4], [2, 0, 5])


@pytest.mark.clause("ADMIT-ORDER-1")
def test_blocks_are_taken_group_by_group_and_slot_by_slot_whatever_they_are_for(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, ATTENTION, RECURRENT)
    rig.publish(rig.request("there", TWENTY), (0, 4), (0, 6), (1, 4), (1, 6), (2, 6))
    r1 = rig.request("r1", TWENTY)
    rig.admit(r1, 13)
    assert [rig.table(r1, g) for g in range(3)] == [[1, 6, 7, 8], [3, 9, 10, 11], [0, 12, 0, 13]]
    assert rig.copies() == [(2, 6), (4, 9), (5, 12)]


@pytest.mark.clause("ADMIT-ORDER-1", "STEP-COPY-2")
def test_what_is_only_copied_from_is_dropped_at_once_and_kept_by_the_copy(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    _, source, state_source = rig.publish(rig.request("there", TWENTY), *INSIDE)
    r1 = rig.request("r1", TWENTY)
    rig.admit(r1, 8)
    assert {1, source, state_source}.intersection(rig.held_by("r1")) == {1}
    assert rig.holders(source) == {f"copy:pool:{source}:{rig.table(r1)[1]}": None}
    rig.settle_all()
    assert rig.queue()[-2:] == [source, state_source]


# What is shared and copied


@pytest.mark.clause("ADMIT-SHARE-1")
def test_a_request_shares_what_its_groups_need_below_the_hit(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, window(4, 6), window(4, 5), RECURRENT)
    places = [(g, n) for g in range(4) for n in (4, 8, 12)]
    blocks = dict(zip(places, rig.publish(rig.request("there", TWENTY), *places), strict=True))
    r1 = rig.request("r1", TWENTY[:13])
    assert rig.admit(r1, 13).hit == 12
    assert rig.table(r1, 0)[:3] == [blocks[0, 4], blocks[0, 8], blocks[0, 12]]
    assert rig.table(r1, 1)[:3] == [0, blocks[1, 8], blocks[1, 12]]
    assert rig.table(r1, 2)[:3] == [0, 0, blocks[2, 12]]
    assert rig.table(r1, 3)[:3] == [0, 0, blocks[3, 12]]
    assert rig.holders(blocks[0, 4]) == {"r1": at(r1, 4)}
    assert rig.holders(blocks[1, 4]) == {}
    assert rig.copies() == []


@pytest.mark.clause("ADMIT-SHARE-1", "HIT-ATTENTION-1")
def test_two_requests_of_a_batch_share_what_the_first_one_will_compute(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1, r2 = rig.request("r1", TWENTY[:8]), rig.request("r2", TWENTY[:9])
    rig.admit(r1, 8)
    assert rig.cache.admit(r2, 9).hit == 8
    assert rig.table(r2)[:2] == rig.table(r1)
    assert rig.cache.release("r1") == ["r1", "r2"]
    assert not rig.runs(r2)


@pytest.mark.clause("ADMIT-COPY-1")
def test_a_slot_with_the_hit_inside_becomes_a_private_copy(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    _, source, state_source = rig.publish(rig.request("there", TWENTY), *INSIDE)
    other, r1 = rig.request("other", TWENTY), rig.request("r1", (*TWENTY[:6], 99, 98))
    rig.begin()
    rig.touch(other, source, 6)
    assert rig.cache.admit(r1, 8).hit == 6
    own, own_state = rig.table(r1)[1], rig.table(r1, 1)[1]
    assert rig.copies() == [(source, own), (state_source, own_state)]
    assert rig.held(own, "r1") == rig.held(own_state, "r1") == (*TWENTY[:6], 99, 98)
    rig.settle_all()
    assert (rig.positions(source), rig.positions(state_source)) == ([6], [6])
    assert rig.holders(source) == {"other": at(other, 6)}
    assert rig.held(source, "other") == TWENTY[:6]


@pytest.mark.clause("ADMIT-COPY-1")
@pytest.mark.parametrize(("tokens", "copied"), [(8, []), (9, [(1, 3)])], ids=named)
def test_a_hit_at_the_end_of_a_block_is_shared_and_one_inside_is_copied(
    hybrid: MakeHybrid, tokens: int, copied: list[tuple[int, int]]
) -> None:
    """With 9 tokens the state at 4 is inside the block of 8 rows that covers it; with 8 nothing is hit."""
    rig = hybrid(WIDE, RECURRENT)
    rig.publish(rig.request("there", TWENTY), (0, 8), (1, 4))
    rig.admit(rig.request("r1", TWENTY[:tokens]), tokens)
    assert rig.copies() == copied


@pytest.mark.clause("ADMIT-COPY-1")
def test_a_partial_hit_is_copied_while_its_producer_goes_on(hybrid: MakeHybrid) -> None:
    """The producer fills its block and moves its state in the same step in which the reader copies both."""
    rig = hybrid()
    producer = rig.request("producer", TWENTY[:7])
    rig.run(producer, 4, 6)
    reader = rig.request("reader", (*TWENTY[:6], 50, 51))
    rig.advance(producer, 7)
    assert rig.cache.match(reader).hit == 4
    rig.cache.commit(rig.pool.current_step)
    assert rig.cache.match(reader).hit == 6
    producer.append([8])
    rig.advance(producer, 8)
    rig.cache.admit(reader, 8)
    rig.settle_all()
    assert rig.held(rig.table(producer)[1], "producer") == TWENTY[:8]
    assert rig.held(rig.table(reader)[1], "reader") == (*TWENTY[:6], 50, 51)
    assert rig.held(rig.table(reader, 1)[1], "reader") == (*TWENTY[:6], 50, 51)


@pytest.mark.clause("ADMIT-COPY-1", "STEP-COPY-1")
def test_the_reader_of_a_slot_copies_it_as_it_was_before_the_step(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    producer, reader = rig.request("producer", TWENTY[:7]), rig.request("reader", (*TWENTY[:6], 50))
    rig.run(producer, 6)
    rig.admit(reader, 7)
    rig.cache.advance(producer, 7)
    [(source, own)] = rig.copies()
    assert (source, own) == (rig.table(producer)[1], rig.table(reader)[1])
    assert rig.held(own, "reader") == (*TWENTY[:6], 50)


@pytest.mark.clause("ADMIT-COPY-1", "HIT-ATTENTION-1")
def test_what_is_not_computed_yet_is_not_copied(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    producer = rig.request("producer", TWENTY[:7])
    first, second = rig.request("first", (*TWENTY[:6], 50)), rig.request("second", (*TWENTY[:6], 51))
    rig.admit(producer, 7)
    assert rig.cache.admit(first, 7).hit == 4
    rig.settle_all()
    assert rig.admit(second, 7).hit == 6


# What is new


@pytest.mark.clause("ADMIT-FRESH-1")
@pytest.mark.parametrize(
    ("end", "rows", "states"), [(1, [1], [2]), (4, [1], [2]), (5, [1, 2], [0, 3]), (9, [1, 2, 3], [0, 0, 4])], ids=named
)
def test_a_first_chunk_gets_a_block_for_each_slot_of_rows_and_one_for_its_state(
    hybrid: MakeHybrid, end: int, rows: list[int], states: list[int]
) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY)
    rig.admit(r1, end)
    assert (rig.table(r1), rig.table(r1, 1)) == (rows, states)
    assert rig.held(states[-1], "r1") == rig.held(rows[-1], "r1") == TWENTY[:end]


@pytest.mark.clause("ADMIT-FRESH-1")
def test_groups_of_different_block_sizes_have_tables_of_their_own(hybrid: MakeHybrid) -> None:
    rig = hybrid(full(2), WIDE, state(6), hybrid=COARSE)
    r1 = rig.request("r1", TWENTY)
    rig.admit(r1, 7)
    assert [rig.table(r1, g) for g in range(3)] == [[1, 2, 3, 4], [5], [0, 6]]


# The junction


@pytest.mark.clause("ADMIT-JUNCTION-1", "HIT-PURE-1")
def test_a_request_keeps_the_junction_of_its_own_admission(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    rig.publish(rig.request("there", TWENTY), (0, 4), (0, 8), (1, 4))
    r1, r2 = rig.request("r1", TWENTY[:9]), rig.request("r2", range(50, 60))
    assert rig.admit(r1, 5).junction == 8
    rig.cache.admit(r2, 4)
    assert (rig.cache.running["r1"].junction, rig.cache.running["r2"].junction) == (8, 0)
    rig.settle_all()
    rig.publish(rig.request("more", TWENTY), (1, 8))
    rig.advance(r1, 6)
    assert rig.cache.running["r1"].junction == 8
    rig.cache.release("r1")
    assert rig.cache.admit(r1, 9).junction == 0
    assert rig.cache.running["r1"].junction == 0


@pytest.mark.clause("ADMIT-JUNCTION-1", "RETAIN-JUNCTION-1")
def test_three_requests_share_a_prefix_and_the_third_one_has_its_state(hybrid: MakeHybrid) -> None:
    """The first leaves rows, the second stops where it leaves them, the third begins there."""
    rig = hybrid(hybrid=HybridConfig(fine_grained=False))
    rig.serve("first", (*TWENTY[:8], *range(30, 40)), 16, 18)
    second = rig.request("second", (*TWENTY[:8], *range(40, 50)))
    match = rig.admit(second, 8)
    assert (match.hit, match.junction) == (0, 8)
    rig.settle_all()
    rig.run(second, 16, 18)
    assert rig.admit(rig.request("third", (*TWENTY[:8], *range(60, 70))), 16).hit == 8


def with_beginning(rig: HybridRig, name: str, shared: int, own: int) -> Request:
    """A request of 20 tokens that shares so many with its kind."""
    return rig.request(name, (*range(1, shared + 1), *range(100 * own, 100 * own + 20 - shared)))


@pytest.mark.clause("ADMIT-JUNCTION-1", "RETAIN-JUNCTION-1", "SPLIT-STOP-4")
@pytest.mark.parametrize(
    ("chosen", "second", "states", "third"),
    [
        (HybridConfig(), [16, 18, 20], [16, 18], 0),
        (HybridConfig(checkpoints=True), [6, 8, 16, 18, 20], [6, 16, 18], 6),
        (HybridConfig(checkpoints=True, drop=(0,)), [4, 8, 18, 20], [4, 8, 18], 4),
    ],
    ids=["at block ends", "inside blocks", "inside blocks, with a drop"],
)
def test_a_prefix_below_one_block_pays_where_states_are_kept_inside_blocks(
    hybrid: MakeHybrid, chosen: HybridConfig, second: list[int], states: list[int], third: int
) -> None:
    """Three requests share 6 tokens, and a state has blocks of 8."""
    rig = hybrid(full(2), state(8), hybrid=chosen)
    rig.prefill(with_beginning(rig, "first", 6, 1))
    r2 = with_beginning(rig, "second", 6, 2)
    assert rig.cache.match(r2).hit == 0
    assert (rig.prefill(r2), rig.served_at(r2, 1)) == (second, states)
    assert rig.cache.match(with_beginning(rig, "third", 6, 3)).hit == third


@pytest.mark.clause("ADMIT-JUNCTION-1", "RETAIN-JUNCTION-1", "SPLIT-STOP-4", "SPLIT-ALIGN-1")
@pytest.mark.parametrize(
    ("cap", "second"), [(100, [8, 16, 18, 20]), (9, [8, 16, 18, 20]), (5, [4, 8, 12, 16, 18, 20])], ids=named
)
def test_a_budget_that_ends_before_the_junction_does_not_lose_its_state(
    hybrid: MakeHybrid, cap: int, second: list[int]
) -> None:
    """Three requests share 10 tokens; with the smallest budget two chunks end at blocks before the junction."""
    rig = hybrid()
    rig.prefill(with_beginning(rig, "first", 10, 1))
    r2 = with_beginning(rig, "second", 10, 2)
    assert rig.cache.match(r2).junction == 8
    assert (rig.prefill(r2, cap), rig.served_at(r2, 1)) == (second, [8, 16, 18])
    assert rig.cache.match(with_beginning(rig, "third", 10, 3)).hit == 8


@pytest.mark.clause("RETAIN-LAST-1", "SPLIT-ALIGN-1", "SPLIT-STOP-1")
def test_a_model_whose_blocks_are_larger_than_every_budget_hits_all_the_same(hybrid: MakeHybrid) -> None:
    """Chunks of 3 tokens come to the end of a block of 8 only because they stop there."""
    rig = hybrid(full(2), state(8))
    r1, again = rig.request("r1", TWENTY), rig.request("again", TWENTY)
    assert rig.prefill(r1, 3) == [3, 6, 8, 11, 14, 16, 18, 20]
    assert rig.served_at(r1, 1) == [16, 18]
    assert rig.cache.match(again).hit == 18
    assert rig.prefill(again, 3) == [20]
