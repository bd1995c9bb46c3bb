from __future__ import annotations

import pytest

from kvproof.reference import InvariantViolation
from kvproof.reference.hybrid import check_tables
from kvproof.spec.vocabulary import GroupConfig
from tests.clauses.hybrid_rig import HybridRig, MakeHybrid, full, named, window
from tests.clauses.rig import ATTENTION, RECURRENT

TWENTY = tuple(range(1, 21))


def check(rig: HybridRig) -> None:
    check_tables(rig.cache, {request.request_id: request for request in rig.requests})


@pytest.mark.clause("INV-TABLE-1", "INV-RUN-1", "INV-RUN-2", "INV-RUN-3", "INV-RUN-4", "ADVANCE-WRITE-1")
@pytest.mark.parametrize("groups", [(ATTENTION, RECURRENT), (window(4, 6), RECURRENT), (ATTENTION,)], ids=named)
def test_tables_hold_what_a_request_goes_on_with(hybrid: MakeHybrid, groups: tuple[GroupConfig, ...]) -> None:
    rig = hybrid(*groups)
    rig.serve("first", TWENTY[:9], 4, 8, 9)
    r1, r2 = rig.request("r1", TWENTY), rig.request("r2", (*TWENTY[:6], *range(50, 60)))
    rig.begin()
    for request, ends in ((r1, (9, 12, 17)), (r2, (8, 10, 16))):
        assert rig.cache.admit(request, ends[0]).hit < ends[0]
        check(rig)
        for end in ends[1:]:
            rig.advance(request, end)
            check(rig)
    rig.settle_all()
    check(rig)


@pytest.mark.clause("INV-TABLE-2")
@pytest.mark.parametrize("groups", [(ATTENTION,), (ATTENTION, window(4, 6))], ids=["attention", "a window"])
def test_a_request_that_goes_back_has_what_it_needs_there(hybrid: MakeHybrid, groups: tuple[GroupConfig, ...]) -> None:
    rig = hybrid(*groups)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 4, 8, 11)
    rig.advance(r1, 14)
    rig.advance(r1, 18)
    check(rig)
    rig.cache.rollback(["r1"])
    assert rig.far(r1) == (11, 11)
    check(rig)
    rig.advance(r1, 20)
    check(rig)


@pytest.mark.clause("INV-TABLE-2")
def test_a_state_in_flight_need_not_be_there_where_it_is_settled(hybrid: MakeHybrid) -> None:
    """The state at 6 is left to its reader; the copy in its place has nothing before the step is committed."""
    rig = hybrid()
    r1, reader = rig.request("r1", TWENTY[:7]), rig.request("reader", TWENTY[:7])
    rig.run(r1, 4, 6)
    rig.begin()
    rig.touch(reader, rig.table(r1, 1)[1], 6, 1)
    rig.cache.advance(r1, 7)
    assert len(rig.copies()) == 1
    check(rig)
    rig.settle_all()
    check(rig)


@pytest.mark.clause("INV-TABLE-3")
def test_a_request_holds_the_blocks_of_its_tables_and_no_others(hybrid: MakeHybrid) -> None:
    rig = hybrid(window(4, 6), RECURRENT)
    rig.publish(rig.request("there", TWENTY), (0, 4), (0, 6), (1, 6))
    r1 = rig.request("r1", TWENTY)
    rig.begin()
    rig.cache.admit(r1, 8)
    for end in (12, 17, 18):
        assert sorted(rig.held_by("r1")) == sorted({*rig.table(r1), *rig.table(r1, 1)} - {0})
        rig.advance(r1, end)
        rig.settle_all()
    assert rig.table(r1)[0] == rig.table(r1, 1)[0] == 0
    rig.cache.release("r1")
    assert rig.held_by("r1") == []


@pytest.mark.clause("INV-TABLE-1", "INV-TABLE-2", "INV-TABLE-3", "INV-RUN-1", "INV-RUN-2", "INV-RUN-4")
@pytest.mark.parametrize(
    ("clause", "table"),
    [("INV-TABLE-1", [2, 1]), ("INV-TABLE-3", [1, 1]), ("INV-TABLE-3", [1]), ("INV-TABLE-3", [1, 2, 3])],
)
def test_a_damaged_pool_is_reported_by_what_is_wrong_with_a_table(clause: str, table: list[int]) -> None:
    rig = HybridRig(ATTENTION)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 8)
    check(rig)
    rig.cache.running["r1"].tables[0] = table
    with pytest.raises(InvariantViolation, match=clause):
        check(rig)


@pytest.mark.clause("INV-TABLE-4")
def test_a_request_writes_on_where_it_is_cut_and_where_it_goes_back_to(hybrid: MakeHybrid) -> None:
    rig = hybrid(full(4), full(6))
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 20)
    rig.begin()
    rig.cache.truncate(r1, 18)
    check(rig)
    rig.cache.rollback(["r1"])
    check(rig)
    assert rig.far(r1) == (12, 12)
    rig.advance(r1, 13)
    check(rig)


@pytest.mark.clause("INV-TABLE-4")
@pytest.mark.parametrize("key_is_there", [True, False], ids=["a key", "a reader"])
def test_a_damaged_pool_is_reported_by_who_relies_on_what_is_written_next(key_is_there: bool) -> None:
    rig = HybridRig(ATTENTION)
    r1, other = rig.request("r1", TWENTY), rig.request("other", TWENTY)
    rig.run(r1, 8)
    if not key_is_there:
        rig.begin()
        rig.touch(other, 2, 8)
        rig.pool.evict([2])
    check(rig)
    rig.cache.running["r1"].computed = 6
    with pytest.raises(InvariantViolation, match="INV-TABLE-4"):
        check(rig)


@pytest.mark.clause("INV-TABLE-4")
def test_a_damaged_pool_is_reported_by_who_else_writes_what_is_written_next() -> None:
    """The state that it shares is at the end of its slot, so that it never writes there."""
    rig = HybridRig(RECURRENT)
    rig.publish(rig.request("there", TWENTY), (0, 8))
    rig.admit(rig.request("r1", TWENTY), 10)
    check(rig)
    rig.cache.running["r1"].computed = 6
    with pytest.raises(InvariantViolation, match="INV-TABLE-4"):
        check(rig)


@pytest.mark.clause("INV-TABLE-4")
def test_a_damaged_pool_is_reported_where_a_request_would_go_back_to() -> None:
    rig = HybridRig(full(4), full(6))
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 20)
    rig.begin()
    rig.cache.truncate(r1, 18)
    check(rig)
    rig.cache.running["r1"].settled = 16
    with pytest.raises(InvariantViolation, match="INV-TABLE-4"):
        check(rig)


@pytest.mark.clause("INV-TABLE-1")
def test_a_damaged_pool_is_reported_while_its_chunk_is_in_flight() -> None:
    rig = HybridRig(ATTENTION)
    rig.admit(rig.request("r1", TWENTY), 8)
    check(rig)
    rig.cache.running["r1"].tables[0].reverse()
    with pytest.raises(InvariantViolation, match="INV-TABLE-1"):
        check(rig)


@pytest.mark.clause("INV-TABLE-2")
def test_a_damaged_pool_is_reported_where_a_request_is_settled_too_far() -> None:
    rig = HybridRig(ATTENTION)
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 4)
    rig.advance(r1, 8)
    check(rig)
    rig.cache.running["r1"].settled = 8
    with pytest.raises(InvariantViolation, match="INV-TABLE-2"):
        check(rig)
