"""The invariants of requests that run: they hold, and a damaged table is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kvproof.reference import InvariantViolation
from kvproof.reference.hybrid import Running
from kvproof.reference.hybrid.invariants import check_tables
from tests.clauses.hybrid_rig import HybridRig, MakeHybrid
from tests.clauses.rig import ATTENTION, RECURRENT, TEN


def check(rig: HybridRig) -> None:
    check_tables(rig.cache, {request.request_id: request for request in rig.requests})


@pytest.mark.clause("INV-TABLE-1", "INV-TABLE-2", "INV-TABLE-3", "INV-RUN-1", "INV-RUN-2", "INV-RUN-3", "INV-RUN-4")
def test_tables_of_requests_that_share_copy_and_fail_are_complete_in_every_state(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, RECURRENT)
    rig.serve("r1", TEN, 4, 8, 10)
    r2 = rig.request("r2", (*TEN, 11, 12))
    rig.admit(r2, 10)
    check(rig)
    assert rig.cache.match(r2).hit == 8
    rig.advance(r2, 12)
    check(rig)
    rig.cache.commit(rig.pool.last_committed_step + 1)
    check(rig)
    rig.cache.rollback(["r2"])
    check(rig)
    assert not rig.runs(r2)


@contextmanager
def damaged(rig: HybridRig, damage: Callable[[Running], None]) -> Iterator[None]:
    """What is known of r1 is wrong for a while."""
    right = rig.cache.running["r1"]
    rig.cache.running["r1"] = wrong = right.clone()
    damage(wrong)
    yield
    rig.cache.running["r1"] = right


def swap(running: Running) -> None:
    running.tables[0].reverse()


def repeat(running: Running) -> None:
    running.tables[0][1] = running.tables[0][0]


def shorten(running: Running) -> None:
    running.tables[0].pop()


def settle(running: Running) -> None:
    running.settled = 4


@pytest.mark.clause("INV-TABLE-1", "INV-RUN-1", "INV-RUN-2")
def test_a_table_whose_blocks_hold_other_slots_is_reported(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    rig.run(rig.request("r1"), 8)
    check(rig)
    with damaged(rig, swap), pytest.raises(InvariantViolation, match="INV-TABLE-1"):
        check(rig)


@pytest.mark.clause("INV-TABLE-3", "INV-RUN-4")
@pytest.mark.parametrize("damage", [repeat, shorten])
def test_a_table_with_a_block_twice_or_without_one_is_reported(
    hybrid: MakeHybrid, damage: Callable[[Running], None]
) -> None:
    rig = hybrid(ATTENTION)
    rig.run(rig.request("r1"), 8)
    check(rig)
    with damaged(rig, damage), pytest.raises(InvariantViolation, match="INV-TABLE-3"):
        check(rig)


@pytest.mark.clause("INV-TABLE-2")
def test_a_request_that_is_settled_further_than_its_committed_chunks_is_reported(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    rig.admit(rig.request("r1"), 8)
    check(rig)
    with damaged(rig, settle), pytest.raises(InvariantViolation, match="INV-TABLE-2"):
        check(rig)


@pytest.mark.clause("INV-RUN-3")
def test_what_a_reader_shares_is_among_the_blocks_that_it_holds(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    rig.serve("r1", TEN, 8, 10)
    r2 = rig.request("r2", (*TEN, 11))
    rig.run(r2, 11)
    assert rig.pool.observe().blocks[rig.table(r2)[0]].writer is None
    check(rig)
