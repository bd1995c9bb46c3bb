from __future__ import annotations

import pytest

from kvproof.reference import Request
from kvproof.spec.errors import (
    InvalidArgument,
    NoOpenStep,
    NotAdmitted,
    NotCommitted,
    OutOfBlocks,
    OutOfRange,
)
from kvproof.spec.vocabulary import GroupConfig
from tests.clauses.hybrid_rig import COARSE, HybridRig, MakeHybrid, full, named, state, window
from tests.clauses.rig import ATTENTION, RECURRENT, WIDE

TWENTY = tuple(range(1, 21))


# Release


@pytest.mark.clause("RELEASE-1")
def test_a_request_that_is_done_frees_its_blocks_group_by_group_the_last_slot_first(hybrid: MakeHybrid) -> None:
    rig = hybrid(hybrid=COARSE, blocks=8)
    r1 = rig.request("r1", TWENTY[:11])
    rig.run(r1, 11)
    assert (rig.table(r1), rig.table(r1, 1)) == ([1, 2, 3], [0, 0, 4])
    assert rig.cache.release("r1") == ["r1"]
    assert rig.queue() == [3, 4, 5, 6, 7, 2, 1]
    assert rig.served_at(r1, 0) == [4, 8]


@pytest.mark.clause("RELEASE-1")
def test_a_request_that_is_aborted_leaves_nothing_of_its_steps_in_flight(hybrid: MakeHybrid) -> None:
    rig = hybrid(hybrid=COARSE, blocks=8)
    r1 = rig.request("r1", TWENTY[:11])
    rig.run(r1, 4)
    rig.advance(r1, 8)
    rig.advance(r1, 11)
    assert (rig.table(r1), rig.table(r1, 1)) == ([1, 3, 5], [2, 4, 6])
    assert rig.cache.release("r1") == ["r1"]
    assert rig.queue() == [5, 3, 6, 4, 2, 7, 1]
    rig.settle_all()
    assert rig.served_at(r1, 0) == [4]


@pytest.mark.clause("RELEASE-1", "STEP-COPY-2")
def test_the_copies_of_an_aborted_request_still_run(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    rig.publish(rig.request("there", TWENTY), (0, 4), (0, 6), (1, 6))
    r1 = rig.request("r1", TWENTY[:9])
    rig.admit(r1, 8)
    copies = rig.copies()
    rig.cache.release("r1")
    assert (rig.copies(), rig.held_by("r1")) == (copies, [])
    assert all(rig.holders(block) for pair in copies for block in pair)
    rig.settle_all()
    assert rig.pool.num_free == 39


@pytest.mark.clause("RELEASE-1")
def test_whoever_shares_what_was_not_computed_goes_with_it(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1, r2, r3, r4 = (rig.request(name, TWENTY[:n]) for name, n in (("r1", 8), ("r2", 12), ("r3", 13), ("r4", 9)))
    rig.begin()
    rig.cache.admit(r1, 8)
    rig.cache.admit(r2, 12)
    rig.cache.admit(r3, 13)
    rig.settle_all()
    rig.cache.release("r2")
    rig.cache.release("r3")
    rig.pool.evict(list(range(1, 40)))
    rig.begin()
    for request, end in ((r2, 12), (r3, 13), (r4, 9)):
        rig.cache.admit(request, end)
    assert rig.cache.release("r2") == ["r2", "r3", "r4"]
    assert (rig.held_by("r3"), rig.held_by("r4")) == ([], [])
    assert list(rig.cache.running) == ["r1"]
    assert rig.cache.admit(r3, 13).hit == 0


@pytest.mark.clause("RELEASE-1")
def test_whoever_shares_what_is_committed_stays(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1, r2 = rig.request("r1", TWENTY[:8]), rig.request("r2", TWENTY[:9])
    rig.admit(r1, 8)
    rig.cache.admit(r2, 9)
    rig.settle_all()
    assert rig.cache.release("r1") == ["r1"]
    assert rig.far(r2) == (9, 9)


@pytest.mark.clause("RELEASE-1")
def test_a_preempted_request_comes_back_with_all_its_tokens_and_begins_where_it_can(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY[:7])
    rig.run(r1, 4, 6, 7)
    r1.append([8, 9])
    rig.run(r1, 8)
    rig.advance(r1, 9)
    rig.cache.release("r1")
    rig.settle_all()
    assert rig.admit(r1, 9).hit == 8
    assert r1.num_tokens == 9


@pytest.mark.clause("RELEASE-2")
def test_only_a_request_that_runs_is_released(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY)
    for name in ("r1", "nobody"):
        with rig.refused(NotAdmitted):
            rig.cache.release(name)
    for wrong in (None, 3, "", ["r1"], r1):
        with rig.refused(InvalidArgument):
            rig.cache.release(wrong)  # type: ignore[arg-type]
    rig.run(r1, 4)
    rig.cache.release("r1")
    with rig.refused(NotAdmitted):
        rig.cache.release("r1")


# Rollback


@pytest.mark.clause("BACK-ROLLBACK-1", "BACK-SLOTS-1")
def test_rows_that_are_settled_survive_a_failure(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, blocks=6)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 6)
    rig.advance(r1, 8)
    rig.advance(r1, 13)
    assert rig.cache.rollback(["r1"]) == ["r1"]
    assert (rig.table(r1), rig.far(r1)) == ([1, 2], (6, 6))
    assert rig.queue() == [4, 3, 5]
    assert rig.held(2, "r1") == TWENTY[:6]
    rig.cache.advance(r1, 9)
    rig.settle_all()
    assert rig.far(r1) == (9, 9)


@pytest.mark.clause("BACK-ROLLBACK-1")
@pytest.mark.parametrize(
    ("groups", "settled", "stays"),
    [
        ((ATTENTION,), (4,), True),
        ((ATTENTION,), (), False),
        ((ATTENTION, window(4, 6)), (4, 8), True),
        ((ATTENTION, RECURRENT), (4,), False),
        ((RECURRENT,), (4,), False),
    ],
    ids=["settled", "not settled", "a window", "a state", "a state alone"],
)
def test_a_request_goes_back_to_what_is_settled_if_it_can(
    hybrid: MakeHybrid, groups: tuple[GroupConfig, ...], settled: tuple[int, ...], stays: bool
) -> None:
    rig = hybrid(*groups)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, *settled) if settled else None
    rig.begin()
    [rig.cache.admit, rig.cache.advance][bool(settled)](r1, 10)
    rig.cache.rollback(["r1"])
    assert rig.runs(r1) == stays
    if stays:
        assert rig.far(r1) == (settled[-1], settled[-1])
    else:
        assert rig.held_by("r1") == []


@pytest.mark.clause("BACK-ROLLBACK-1")
@pytest.mark.parametrize("group", [ATTENTION, RECURRENT], ids=lambda group: group.kind.value)
def test_without_a_chunk_in_flight_a_rollback_takes_nothing(hybrid: MakeHybrid, group: GroupConfig) -> None:
    rig = hybrid(group)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 4, 6)
    rig.begin()
    with rig.silent():
        assert rig.cache.rollback(["r1"]) == ["r1"]


@pytest.mark.clause("BACK-ROLLBACK-1")
def test_a_failure_takes_those_who_share_it_along(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1, r2, r3 = rig.request("r1", TWENTY), rig.request("r2", TWENTY), rig.request("r3", TWENTY[:5])
    rig.run(r1, 4)
    rig.advance(r1, 8)
    rig.cache.admit(r2, 9)
    rig.cache.admit(r3, 5)
    assert (rig.table(r2)[:2], rig.table(r3)[0]) == (rig.table(r1), 1)
    rig.begin()
    assert rig.cache.rollback(["r1"]) == ["r1", "r2"]
    assert (rig.far(r1), rig.runs(r2), rig.far(r3)) == ((4, 4), False, (5, 0))


@pytest.mark.clause("BACK-SLOTS-1")
@pytest.mark.parametrize(
    ("n", "freed"), [(8, [8, 7, 4, 3]), (9, [8, 4]), (7, [8, 7, 4, 3]), (4, [8, 7, 6, 4, 3, 2])], ids=named
)
def test_going_back_frees_what_begins_past_it_group_by_group_the_last_slot_first(
    hybrid: MakeHybrid, n: int, freed: list[int]
) -> None:
    """Two attention groups, of blocks 1 to 4 and 5 to 8; they go back from 13."""
    rig = hybrid(ATTENTION, ATTENTION, hybrid=COARSE, blocks=20)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 13)
    assert (rig.table(r1), rig.table(r1, 1)) == ([1, 2, 3, 4], [5, 6, 7, 8])
    rig.pool.evict(list(range(1, 9)))
    rig.begin()
    rig.cache.truncate(r1, n)
    assert rig.queue()[: len(freed)] == freed
    assert rig.table(r1, 0) == [1, 2, 3, 4][: -(-n // 4)]


# Prompts


@pytest.mark.clause("BACK-PROMPT-1")
def test_the_prompt_is_what_a_request_came_with(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY[:9])
    r1.append([10, 11])
    assert r1.num_prompt_tokens == 9
    rig.cache.truncate(r1, 10)
    assert (r1.num_tokens, r1.num_prompt_tokens) == (10, 9)
    rig.cache.truncate(r1, 7)
    assert (r1.num_tokens, r1.num_prompt_tokens) == (7, 7)
    r1.append(TWENTY[7:])
    assert (r1.num_tokens, r1.num_prompt_tokens) == (20, 7)


@pytest.mark.clause("BACK-PROMPT-1", "ADVANCE-TAIL-1")
def test_a_cut_prompt_has_its_tail_where_it_ends_now(hybrid: MakeHybrid) -> None:
    rig = hybrid(WIDE)
    r1 = rig.request("r1", TWENTY[:8])
    rig.cache.truncate(r1, 5)
    r1.append([50, 51])
    rig.run(r1, 7)
    assert rig.served_at(r1, 0) == [4]


# Truncation


@pytest.mark.clause("BACK-TRUNCATE-1")
@pytest.mark.parametrize(
    ("n", "table"), [(12, [1, 2, 3]), (10, [1, 2, 3]), (9, [1, 2, 3]), (8, [1, 2]), (4, [1])], ids=named
)
def test_rows_of_a_truncated_request_stay_up_to_the_cut(hybrid: MakeHybrid, n: int, table: list[int]) -> None:
    """It computed 11 of its 12 tokens, and no key stands past 8."""
    rig = hybrid(ATTENTION, hybrid=COARSE)
    r1 = rig.request("r1", TWENTY[:12])
    rig.run(r1, 11)
    rig.cache.truncate(r1, n)
    assert (r1.num_tokens, rig.table(r1), rig.far(r1)) == (n, table, (min(n, 11), min(n, 11)))
    rig.check()
    r1.append([77] * 6)
    rig.run(r1, n + 6)
    assert rig.held(rig.table(r1)[-1], "r1") == (*TWENTY[:n], *[77] * 6)


@pytest.mark.clause("BACK-TRUNCATE-1")
@pytest.mark.parametrize(
    ("groups", "n", "stays"),
    [
        ((ATTENTION,), 1, True),
        ((ATTENTION,), 0, False),
        ((ATTENTION, RECURRENT), 4, False),
        ((ATTENTION, RECURRENT), 11, False),
        ((ATTENTION, RECURRENT), 12, True),
        ((RECURRENT,), 8, False),
        ((window(4, 5),), 7, False),
        ((window(4, 5),), 8, True),
        ((window(4, 6),), 8, False),
        ((window(4, 6),), 11, True),
        ((window(4, 9), window(4, 5)), 7, False),
        ((window(4, 13),), 4, True),
    ],
    ids=named,
)
def test_a_request_that_lacks_what_it_needs_at_the_cut_is_released(
    hybrid: MakeHybrid, groups: tuple[GroupConfig, ...], n: int, stays: bool
) -> None:
    """Windows of 5 and 6 let go of the first slot; at 8 one of 5 reads rows 4 to 7, one of 6 also row 3."""
    rig = hybrid(*groups)
    r1 = rig.request("r1", TWENTY[:13])
    rig.run(r1, 4, 8, 11, 12)
    rig.begin()
    rig.cache.truncate(r1, n)
    assert (rig.runs(r1), r1.num_tokens) == (stays, n)
    if not stays:
        assert rig.held_by("r1") == []


@pytest.mark.clause("BACK-TRUNCATE-1")
def test_what_is_in_flight_is_not_truncated(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 8)
    rig.advance(r1, 10)
    for n in (0, 4, 9):
        with rig.refused(NotCommitted):
            rig.cache.truncate(r1, n)
    rig.cache.truncate(r1, 10)
    assert (r1.num_tokens, rig.far(r1)) == (10, (10, 8))
    rig.settle_all()
    rig.begin()
    rig.cache.truncate(r1, 9)
    assert rig.far(r1)[0] == 9


@pytest.mark.clause("BACK-TRUNCATE-1")
def test_a_truncation_keeps_no_more_than_there_is(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1 = rig.request("r1", TWENTY[:9])
    rig.run(r1, 9)
    for wrong in (-1, 10):
        with rig.refused(OutOfRange):
            rig.cache.truncate(r1, wrong)
    for nobody in ("r1", hybrid(h=1).request("other")):
        with rig.refused(InvalidArgument):
            rig.cache.truncate(nobody, 4)  # type: ignore[arg-type]


@pytest.mark.clause("BACK-TRUNCATE-1")
def test_a_request_that_does_not_run_is_truncated_by_itself(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1 = rig.request("r1", TWENTY[:9])
    rig.cache.truncate(r1, 5)
    rig.run(r1, 5)
    assert rig.served_at(r1, 0) == [4]


@pytest.mark.clause("ADVANCE-RANGE-1", "BACK-TRUNCATE-1")
def test_another_request_of_its_name_neither_goes_on_nor_is_cut(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, state(4))
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 8)
    twin, same = (Request("r1", tokens, rig.pool.hasher) for tokens in ([*range(100, 120)], TWENTY))
    rig.begin()
    for wrong in (twin, same):
        with rig.refused(InvalidArgument):
            rig.cache.advance(wrong, 12)
        for n in (0, 4, 12, 20):
            with rig.refused(InvalidArgument):
                rig.cache.truncate(wrong, n)
    assert (twin.num_tokens, same.num_tokens) == (20, 20)
    rig.cache.advance(r1, 12)
    rig.settle_all()
    assert [rig.served_at(request, 0) for request in (r1, twin)] == [[4, 8, 12], []]


# Cuts inside a slot


def cut(rig: HybridRig, name: str, n: int) -> list[tuple[int, int]]:
    """Truncate in a step of its own; the copies that it queued."""
    rig.begin()
    [request] = [each for each in rig.requests if each.request_id == name]
    rig.cache.truncate(request, n)
    return rig.copies()


def goes_on(rig: HybridRig, request: Request, settled: int) -> None:
    """The step fails; the request is where it was settled, and goes on from there, token by token at first."""
    rig.cache.rollback([request.request_id])
    assert rig.runs(request) == (settled > 0)
    if not settled:
        assert rig.held_by(request.request_id) == []
        return
    assert rig.far(request) == (settled, settled)
    rig.settle_all()
    request.append([50] * (20 - request.num_tokens + settled))
    for end in (settled + 1, settled + 9):
        rig.advance(request, end)
        rig.check()
    rig.settle_all()
    assert rig.far(request) == (settled + 9, settled + 9)


@pytest.mark.clause("BACK-CUT-1")
@pytest.mark.parametrize(
    ("prompt", "n", "copied"),
    [
        (7, 6, []),
        (7, 5, [(2, 3)]),
        (9, 8, []),
        (9, 7, [(2, 4)]),
        (9, 5, [(2, 4)]),
        (9, 4, []),
        (9, 3, [(1, 4)]),
        (6, 5, []),
    ],
    ids=named,
)
def test_a_block_with_a_key_past_the_cut_is_left_to_its_key(
    hybrid: MakeHybrid, prompt: int, n: int, copied: list[tuple[int, int]]
) -> None:
    """Blocks 1, 2 and 3 have keys at 4, at 8 or at 6, and none. What is let go has a key or goes to the front."""
    rig = hybrid(ATTENTION)
    r1 = rig.request("r1", TWENTY[:prompt])
    rig.run(r1, prompt)
    found = cut(rig, "r1", n)
    assert [src for src, _ in found] == [src for src, _ in copied]
    assert rig.table(r1)[-1] == (found[0][1] if found else -(-n // 4))
    if found:
        [(source, own)] = found
        assert (rig.held(own, "r1") or ())[:n] == TWENTY[:n]
        assert "r1" not in rig.holders(source)
        r1.append([50] * 4)
        rig.run(r1, n + 4)
        assert rig.positions(source) == [4 if n < 4 else 8 if prompt == 9 else 6]
        assert rig.held(rig.table(r1)[-1], "r1") == (*TWENTY[:n], *[50] * 4)


@pytest.mark.clause("BACK-CUT-1")
@pytest.mark.parametrize(("n", "copies"), [(4, 0), (6, 1), (7, 1), (8, 0)])
def test_a_block_that_another_request_wrote_is_not_written_on(hybrid: MakeHybrid, n: int, copies: int) -> None:
    rig = hybrid(ATTENTION)
    rig.publish(rig.request("there", TWENTY), (0, 4), (0, 8))
    r1 = rig.request("r1", TWENTY[:9])
    rig.run(r1, 9)
    rig.pool.evict([1, 2])
    assert rig.table(r1)[:2] == [1, 2]
    assert len(cut(rig, "r1", n)) == copies


@pytest.mark.clause("BACK-CUT-1")
@pytest.mark.parametrize(("n", "copied"), [(5, [2]), (6, []), (7, [])], ids=named)
def test_a_block_that_somebody_reads_past_the_cut_is_left_to_the_reader(
    hybrid: MakeHybrid, n: int, copied: list[int]
) -> None:
    rig = hybrid(ATTENTION)
    r1, other = rig.request("r1", TWENTY[:8]), rig.request("other", TWENTY)
    rig.run(r1, 7)
    rig.begin()
    rig.touch(other, 2, 6)
    rig.pool.evict([2])
    rig.cache.truncate(r1, n)
    assert [src for src, _ in rig.copies()] == copied
    assert rig.held(2, "other") == TWENTY[:7]


@pytest.mark.clause("BACK-CUT-1")
def test_each_group_whose_slot_is_cut_gets_a_copy_of_its_own(hybrid: MakeHybrid) -> None:
    rig = hybrid(WIDE, ATTENTION, full(2))
    r1 = rig.request("r1", TWENTY[:8])
    rig.run(r1, 8)
    assert [rig.table(r1, g) for g in range(3)] == [[1], [2, 3], [4, 5, 6, 7]]
    copies = cut(rig, "r1", 6)
    assert [src for src, _ in copies] == [1, 3]
    assert [rig.table(r1, g)[-1] for g in range(3)] == [copies[0][1], copies[1][1], 6]


@pytest.mark.clause("BACK-CUT-2")
@pytest.mark.parametrize(
    ("groups", "settled"),
    [((ATTENTION,), 4), ((ATTENTION, full(2)), 4), ((WIDE, ATTENTION), 0), ((ATTENTION, WIDE), 0), ((full(6),), 6)],
    ids=named,
)
def test_until_its_copy_is_done_a_cut_request_can_only_go_back_to_where_the_slot_begins(
    hybrid: MakeHybrid, groups: tuple[GroupConfig, ...], settled: int
) -> None:
    rig = hybrid(*groups)
    r1 = rig.request("r1", TWENTY[:12])
    rig.run(r1, 12)
    n = 7 if settled == 6 else 6
    assert cut(rig, "r1", n)
    assert rig.far(r1) == (n, settled)
    twin = rig.cache.clone(rig.pool.clone())
    twin.rollback(["r1"])
    assert ("r1" in twin.running) == (settled > 0)
    if settled:
        assert twin.running["r1"].computed == settled
    with rig.refused(NotCommitted):
        rig.cache.truncate(r1, 3)
    rig.settle_all()
    assert rig.far(r1) == (n, n)


@pytest.mark.clause("BACK-CUT-2")
@pytest.mark.parametrize(("rows", "settled"), [(2, 0), (6, 4)])
def test_where_the_slot_begins_is_of_no_use_without_the_rows_before_it(
    hybrid: MakeHybrid, rows: int, settled: int
) -> None:
    """Cut at 7: a window of 2 reads row 6 there, and at 4 row 3, which is gone."""
    rig = hybrid(window(4, rows))
    r1 = rig.request("r1", TWENTY[:12])
    rig.run(r1, 4, 8) if rows == 6 else rig.run(r1, 8, 9)
    assert cut(rig, "r1", 7)
    assert rig.far(r1) == (7, settled)


@pytest.mark.clause("BACK-CUT-2", "INV-TABLE-4")
@pytest.mark.parametrize(
    ("groups", "n", "settled"),
    [
        ((full(4), full(6)), 18, 12),
        ((full(6), full(4)), 18, 12),
        ((full(4), full(6)), 20, 12),
        ((full(4), full(6)), 6, 0),
        ((full(4), full(6), full(8)), 18, 0),
        ((full(2), full(6), full(8)), 18, 0),
        ((full(2), full(4), full(8)), 20, 16),
        ((full(4), window(6, 3)), 18, 12),
    ],
    ids=named,
)
def test_a_cut_request_goes_back_to_where_it_can_write_on_in_every_group(
    hybrid: MakeHybrid, groups: tuple[GroupConfig, ...], n: int, settled: int
) -> None:
    """Every slot that its 25 rows fill has a key."""
    rig = hybrid(*groups, blocks=60)
    r1 = rig.request("r1", range(1, 26))
    rig.run(r1, 25)
    cut(rig, "r1", n)
    assert rig.far(r1) == (n, settled)
    goes_on(rig, r1, settled)


@pytest.mark.clause("BACK-CUT-2", "INV-TABLE-4")
@pytest.mark.parametrize(
    ("read", "evicted", "settled"),
    [(None, False, 12), (None, True, 16), (14, True, 16), (18, True, 12)],
    ids=["a key", "nobody", "a reader before", "a reader past"],
)
def test_a_cut_request_goes_back_into_a_slot_on_whose_rows_past_there_nobody_relies(
    hybrid: MakeHybrid, read: int | None, evicted: bool, settled: int
) -> None:
    """It is cut at 18; the slot that is copied begins at 16, inside one of the other group that has 12 to 18."""
    rig = hybrid(full(4), full(6), blocks=60)
    r1, other = rig.request("r1", range(1, 16)), rig.request("other", range(1, 26))
    for end in (15, 25):
        r1.append([*range(r1.num_tokens + 1, end + 1)])
        rig.run(r1, end)
        if read is not None and read < end:
            rig.begin()
            rig.touch(other, rig.table(r1, 1)[2], read, 1)
            read = None
    if evicted:
        rig.pool.evict([rig.table(r1, 1)[2]])
    cut(rig, "r1", 18)
    assert rig.far(r1) == (18, settled)
    goes_on(rig, r1, settled)


@pytest.mark.clause("BACK-CUT-2")
def test_a_window_of_one_row_goes_back_over_slots_that_are_gone(hybrid: MakeHybrid) -> None:
    """It lacks the third slot of the window, [12, 18); at 12 it needs nothing of it that it would not write."""
    rig = hybrid(full(4), window(6, 1), blocks=60)
    r1 = rig.request("r1", range(1, 26))
    rig.run(r1, 20, 25)
    assert rig.table(r1, 1)[:3] == [0, 0, 0]
    cut(rig, "r1", 22)
    assert rig.far(r1) == (22, 12)
    goes_on(rig, r1, 12)


@pytest.mark.clause("BACK-CUT-2")
def test_a_cut_request_may_go_on_in_the_step_of_its_copy(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1 = rig.request("r1", TWENTY[:9])
    rig.run(r1, 9)
    [(_, own)] = cut(rig, "r1", 6)
    r1.append([50, 51])
    rig.cache.advance(r1, 8)
    assert rig.held(own, "r1") == (*TWENTY[:6], 50, 51)
    assert rig.cache.rollback(["r1"]) == ["r1"]
    assert rig.far(r1) == (4, 4)


@pytest.mark.clause("BACK-CUT-3")
def test_a_copy_for_a_cut_needs_a_step_and_a_block(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, blocks=4)
    r1 = rig.request("r1", TWENTY[:9])
    other = rig.request("other", range(50, 60))
    rig.run(r1, 8)
    with rig.refused(NoOpenStep):
        rig.cache.truncate(r1, 6)
    rig.begin()
    rig.take(other)
    with rig.refused(OutOfBlocks):
        rig.cache.truncate(r1, 6)
    rig.free(other, 3)
    rig.cache.truncate(r1, 6)
    assert rig.copies() == [(2, 3)]


@pytest.mark.clause("BACK-CUT-3")
def test_a_cut_counts_what_it_lets_go(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, blocks=4)
    r1 = rig.request("r1", TWENTY[:9])
    rig.run(r1, 9)
    assert rig.pool.num_free == 0
    assert cut(rig, "r1", 6) == [(2, 3)]


@pytest.mark.clause("BACK-CUT-3", "BACK-TRUNCATE-1")
def test_a_cut_without_copy_needs_neither(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, blocks=4)
    r1 = rig.request("r1", TWENTY[:9])
    rig.run(r1, 9)
    rig.cache.truncate(r1, 8)
    assert rig.far(r1) == (8, 8)
