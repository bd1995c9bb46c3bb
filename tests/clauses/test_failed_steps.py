from __future__ import annotations

import pytest

from kvproof.spec.errors import InvalidArgument, OutOfOrder, OutOfRange
from tests.clauses.hybrid_rig import HybridRig, MakeHybrid
from tests.clauses.rig import ATTENTION

TWENTY = tuple(range(1, 21))


def moved(rig: HybridRig) -> list[int]:
    """The blocks to which keys of states moved in open steps, in this order."""
    copies = rig.pool.observe().steps.copies
    return [dst for _, _, dst, holder in copies if not holder.startswith("copy:pool:")]


# Which step


@pytest.mark.clause("BACK-FAIL-1")
def test_only_the_oldest_open_step_fails(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1 = rig.request("r1", TWENTY)
    with rig.refused(OutOfOrder):
        rig.cache.fail(1)
    rig.admit(r1, 4)
    rig.advance(r1, 8)
    for wrong in (2, 3, 2**40):
        with rig.refused(OutOfOrder):
            rig.cache.fail(wrong)
    for wrong in (0, -1):
        with rig.refused(OutOfRange):
            rig.cache.fail(wrong)
    assert rig.cache.fail(1) == ["r1"]
    with rig.refused(OutOfOrder):
        rig.cache.fail(1)
    assert rig.cache.fail(2) == []
    with rig.refused(OutOfOrder):
        rig.cache.fail(2)


@pytest.mark.clause("BACK-FAIL-1", "ERR-TYPE-1")
@pytest.mark.parametrize("wrong", [True, 1.0, "1", None, (1,)], ids=str)
def test_what_is_no_integer_is_no_step_even_if_it_is_equal_to_one(hybrid: MakeHybrid, wrong: object) -> None:
    rig = hybrid(ATTENTION)
    rig.admit(rig.request("r1", TWENTY), 4)
    with rig.refused(InvalidArgument):
        rig.cache.fail(wrong)  # type: ignore[arg-type]


@pytest.mark.clause("BACK-FAIL-1", "BACK-FAIL-4")
def test_the_next_step_may_fail_too_or_be_committed(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    names = ("r1", "r2", "r3")
    for number, name in enumerate(names):
        rig.admit(rig.request(name, range(100 * number, 100 * number + 9)), 8)
    assert rig.cache.fail(1) == ["r1"]
    assert rig.cache.fail(2) == ["r2"]
    rig.cache.commit(3)
    assert [rig.served_at(request, 0) for request in rig.requests] == [[], [], [4, 8]]


# Who is rolled back


@pytest.mark.clause("BACK-FAIL-2", "BACK-ROLLBACK-1")
def test_a_request_of_a_failed_step_goes_back_to_what_is_settled(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1 = rig.request("r1", TWENTY[:13])
    rig.run(r1, 4)
    rig.advance(r1, 8)
    rig.advance(r1, 12)
    assert rig.cache.fail(2) == ["r1"]
    assert (rig.far(r1), rig.table(r1), rig.served_at(r1, 0)) == ((4, 4), [1], [4])
    rig.cache.commit(3)
    assert rig.far(r1) == (4, 4)
    rig.run(r1, 8)
    assert rig.served_at(r1, 0) == [4, 8]


@pytest.mark.clause("BACK-FAIL-2", "BACK-ROLLBACK-1")
def test_a_request_with_states_of_a_failed_step_is_released(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY[:7])
    rig.run(r1, 4)
    rig.advance(r1, 6)
    assert rig.cache.fail(2) == ["r1"]
    assert (rig.runs(r1), rig.held_by("r1")) == (False, [])
    assert rig.admit(r1, 6).hit == 4


@pytest.mark.clause("BACK-FAIL-2")
def test_who_has_chunks_in_later_steps_only_goes_on(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1, r2 = rig.request("r1", TWENTY[:9]), rig.request("r2", range(50, 59))
    rig.admit(r1, 4)
    rig.admit(r2, 4)
    assert rig.cache.fail(1) == ["r1"]
    assert (rig.far(r2), rig.table(r2)) == ((4, 0), [3])
    rig.cache.commit(2)
    assert (rig.far(r2), rig.served_at(r2, 0), rig.served_at(r1, 0)) == ((4, 4), [4], [])


@pytest.mark.clause("BACK-FAIL-2")
def test_who_has_no_chunk_in_it_stays_as_it_is(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1, r2 = rig.request("r1", TWENTY[:9]), rig.request("r2", range(50, 59))
    rig.run(r1, 4)
    rig.admit(r2, 4)
    assert rig.cache.fail(2) == ["r2"]
    assert (rig.far(r1), rig.runs(r2)) == ((4, 4), False)


@pytest.mark.clause("BACK-FAIL-2")
def test_whoever_shares_what_a_failed_step_was_to_compute_goes_with_it(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1, r2 = rig.request("r1", TWENTY[:8]), rig.request("r2", TWENTY[:9])
    rig.admit(r1, 8)
    rig.begin()
    assert rig.cache.admit(r2, 9).hit == 8
    assert rig.cache.fail(1) == ["r1", "r2"]
    assert list(rig.cache.running) == []
    rig.settle_all()
    assert rig.admit(r2, 9).hit == 0


@pytest.mark.clause("BACK-FAIL-2")
def test_requests_of_a_failed_step_are_rolled_back_in_the_order_of_their_names(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, blocks=5)
    rig.begin()
    for number, name in enumerate(("r2", "r10", "r1")):
        rig.cache.admit(rig.request(name, range(100 * number, 100 * number + 4)), 4)
    assert rig.cache.fail(1) == ["r1", "r10", "r2"]
    assert rig.queue() == [1, 2, 3, 4]


@pytest.mark.clause("BACK-FAIL-2", "BACK-CUT-2")
def test_a_cut_whose_copy_failed_goes_back_to_where_its_slot_begins(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1 = rig.request("r1", TWENTY[:9])
    rig.run(r1, 9)
    rig.begin()
    rig.cache.truncate(r1, 6)
    assert rig.cache.fail(2) == ["r1"]
    assert (rig.far(r1), len(rig.table(r1))) == ((4, 4), 1)


# Keys that moved


@pytest.mark.clause("BACK-FAIL-3", "ADVANCE-MOVE-1")
def test_a_key_that_moved_in_a_failed_step_is_gone(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1, again = rig.request("r1", TWENTY[:7]), rig.request("again", TWENTY[:7])
    rig.run(r1, 4, 6)
    rig.advance(r1, 7)
    [to] = moved(rig)
    failed = rig.pool.current_step
    twin = rig.cache.clone(rig.pool.clone())
    twin.fail(failed)
    assert twin.match(again).hit == 4
    assert rig.cache.fail(failed) == ["r1"]
    assert (rig.positions(to), rig.runs(r1)) == ([], False)
    assert rig.cache.match(again).hit == 4


@pytest.mark.clause("BACK-FAIL-3", "ADVANCE-MOVE-1")
@pytest.mark.parametrize("ends", ["release", "rollback"])
def test_a_key_that_moved_is_gone_also_where_its_request_runs_no_more(hybrid: MakeHybrid, ends: str) -> None:
    rig = hybrid()
    r1, again = rig.request("r1", TWENTY[:7]), rig.request("again", TWENTY[:7])
    rig.run(r1, 4, 6)
    rig.advance(r1, 7)
    [to] = moved(rig)
    rig.cache.release("r1") if ends == "release" else rig.cache.rollback(["r1"])
    assert (rig.runs(r1), rig.positions(to)) == (False, [6])
    assert rig.cache.fail(rig.pool.current_step) == []
    assert (rig.positions(to), rig.cache.match(again).hit) == ([], 4)


@pytest.mark.clause("BACK-FAIL-3")
def test_a_key_that_moved_in_another_step_stays(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1, other = rig.request("r1", TWENTY[:7]), rig.request("other", range(50, 59))
    rig.run(r1, 4, 6)
    rig.admit(other, 4)
    rig.advance(r1, 7)
    failed = rig.pool.last_committed_step + 1
    assert rig.cache.fail(failed) == ["other"]
    rig.settle_all()
    assert rig.cache.match(rig.request("again", TWENTY[:7])).hit == 6


@pytest.mark.clause("BACK-FAIL-3")
def test_a_key_that_moved_in_an_older_step_stays(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1 = rig.request("r1", TWENTY[:7])
    rig.run(r1, 4, 6, 7)
    r1.append([8])
    rig.advance(r1, 8)
    rig.cache.fail(rig.pool.current_step)
    assert rig.cache.match(rig.request("again", TWENTY[:7])).hit == 6


@pytest.mark.clause("BACK-FAIL-3", "ADVANCE-COPY-1")
def test_a_key_that_did_not_move_as_somebody_reads_it_stays(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    r1, reader = rig.request("r1", TWENTY[:7]), rig.request("reader", TWENTY[:7])
    rig.run(r1, 4, 6)
    rig.begin()
    rig.touch(reader, rig.table(r1, 1)[-1], 6, 1)
    rig.cache.advance(r1, 7)
    assert moved(rig) == []
    rig.cache.fail(rig.pool.current_step)
    assert rig.cache.match(reader).hit == 6


# What stays, and what is closed


@pytest.mark.clause("BACK-FAIL-4", "STEP-COPY-2")
def test_a_failed_step_keeps_no_blocks(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    rig.publish(rig.request("there", TWENTY), (0, 4), (0, 6), (1, 6))
    r1, r2 = rig.request("r1", TWENTY[:9]), rig.request("r2", range(50, 57))
    rig.run(r2, 4, 6)
    rig.begin()
    rig.cache.advance(r2, 7)
    rig.cache.admit(r1, 8)
    assert len(rig.copies()) == 3
    assert rig.cache.fail(rig.pool.current_step) == ["r1", "r2"]
    assert (rig.copies(), rig.pool.num_free) == ([], 39)
    assert rig.served_at(r1, 1) == [6]


@pytest.mark.clause("BACK-FAIL-4")
def test_what_others_did_in_a_failed_step_stays_and_is_committed(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1, r2 = rig.request("r1", TWENTY[:9]), rig.request("r2", range(50, 59))
    rig.admit(r1, 9)
    rig.reserve(r2, (0, 4), (0, 8))
    rig.cache.fail(1)
    assert (rig.served_at(r1, 0), rig.served_at(r2, 0)) == ([], [4, 8])


@pytest.mark.clause("BACK-FAIL-4")
def test_what_others_took_back_before_is_not_committed(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    r1, r2 = rig.request("r1", TWENTY[:9]), rig.request("r2", range(50, 59))
    rig.admit(r1, 9)
    rig.reserve(r2, (0, 4), (0, 8))
    rig.cache.rollback(["r2"])
    rig.cache.fail(1)
    assert (rig.served_at(r1, 0), rig.served_at(r2, 0)) == ([], [])


@pytest.mark.clause("BACK-FAIL-4", "BACK-FAIL-3")
def test_a_failed_step_tells_of_keys_that_moved_and_then_of_what_others_computed(hybrid: MakeHybrid) -> None:
    """Another request has computed the same state; it is told as it would be of two operations."""
    rig = hybrid()
    r1, r2 = rig.request("r1", TWENTY[:7]), rig.request("r2", TWENTY[:7])
    rig.run(r1, 4, 6)
    rig.advance(r1, 7)
    rig.reserve(r2, (1, 6))
    rig.events()
    rig.cache.fail(rig.pool.current_step)
    assert [type(event).__name__ for event in rig.events()] == ["Removed", "Stored"]
    assert rig.served_at(r1, 1) == [4, 6]


@pytest.mark.clause("BACK-FAIL-4")
def test_a_step_without_chunks_fails_by_being_closed(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    rig.run(rig.request("r1", TWENTY[:9]), 4)
    rig.begin()
    rig.begin()
    assert (rig.cache.fail(2), rig.pool.last_committed_step, rig.pool.current_step) == ([], 2, 3)
