from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kvproof.reference import Request
from kvproof.reference.hybrid.policies import Limits, Pending, Policies, Rank
from kvproof.reference.hybrid.scheduler import Schedule, Scheduler
from kvproof.spec.errors import (
    AlreadyAdmitted,
    InvalidArgument,
    NotAdmitted,
    OutOfBlocks,
    OutOfRange,
    PoolError,
)
from kvproof.spec.vocabulary import GroupConfig, HybridConfig, Retention
from tests.clauses.hybrid_rig import COARSE, HybridRig, MakeHybrid, full, named, state, window
from tests.clauses.rig import ATTENTION, RECURRENT

TWENTY = tuple(range(1, 21))


def add(
    rig: HybridRig, scheduler: Scheduler, name: str, tokens: Sequence[int], more: int = 0, rank: int = 0
) -> Request:
    request = rig.request(name, tokens)
    scheduler.add(request, len(tokens) + more, rank)
    return request


def own(number: int, length: int) -> list[int]:
    """A prompt that shares nothing with another number's."""
    return [100 * number + i for i in range(length)]


def step(scheduler: Scheduler) -> Schedule:
    """Schedule a step and commit it."""
    schedule = scheduler.schedule()
    scheduler.commit(schedule.step)
    return schedule


# Budgets


@pytest.mark.clause("SCHED-BUDGET-1")
@pytest.mark.parametrize(
    ("limits", "chunks"),
    [
        (Limits(8), {"r1": (0, 5), "r2": (0, 3)}),
        (Limits(12), {"r1": (0, 5), "r2": (0, 5), "r3": (0, 2)}),
        (Limits(8, long_prefill_threshold=3), {"r1": (0, 3), "r2": (0, 3), "r3": (0, 2)}),
        (Limits(8, long_prefill_threshold=9), {"r1": (0, 5), "r2": (0, 3)}),
        (Limits(8, other_cap=lambda request, start: 2), {"r1": (0, 2), "r2": (0, 2), "r3": (0, 2)}),
        (Limits(8, most_running=1), {"r1": (0, 5)}),
        (Limits(1), {"r1": (0, 1)}),
    ],
    ids=["budget", "larger", "threshold", "threshold without effect", "cap of the model", "one at a time", "one token"],
)
def test_a_step_holds_its_budget_and_no_chunk_more_than_its_cap(
    hybrid: MakeHybrid, limits: Limits, chunks: dict[str, tuple[int, int]]
) -> None:
    rig = hybrid(ATTENTION)
    scheduler = rig.scheduler(limits)
    for number in (1, 2, 3):
        add(rig, scheduler, f"r{number}", own(number, 5))
    schedule = scheduler.schedule()
    assert schedule.chunks == chunks
    assert schedule.num_tokens == sum(end - start for start, end in chunks.values()) <= limits.token_budget


@pytest.mark.clause("SCHED-BUDGET-1")
@pytest.mark.parametrize(
    "limits",
    [Limits(0), Limits(4, -1), Limits(4, most_running=0), Limits(4, most_empty=0)],
    ids=["no budget", "a negative threshold", "nobody runs", "no empty chunk"],
)
def test_a_step_that_could_hold_nothing_is_refused(hybrid: MakeHybrid, limits: Limits) -> None:
    rig = hybrid(ATTENTION)
    with rig.refused(OutOfRange):
        rig.scheduler(limits)


# Order


@pytest.mark.clause("SCHED-ORDER-1")
def test_whoever_runs_comes_before_those_that_wait_and_first_come_first_served(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    scheduler = rig.scheduler(Limits(9, 3))
    for number, length in ((1, 9), (2, 3), (3, 9)):
        add(rig, scheduler, f"r{number}", own(number, length))
    assert list(step(scheduler).chunks) == ["r1", "r2", "r3"]
    add(rig, scheduler, "r4", own(4, 3))
    assert list(step(scheduler).chunks) == ["r1", "r3", "r4"]


@pytest.mark.clause("SCHED-ORDER-1")
def test_a_lower_number_comes_first_among_those_that_run_and_among_those_that_wait(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    scheduler = rig.scheduler(Limits(12, 3), Policies(rank=Rank.PRIORITY))
    add(rig, scheduler, "low", own(1, 9), rank=2)
    add(rig, scheduler, "high", own(2, 9), rank=1)
    assert list(step(scheduler).chunks) == ["high", "low"]
    add(rig, scheduler, "next", own(3, 9), rank=1)
    add(rig, scheduler, "highest", own(4, 9), rank=0)
    assert list(step(scheduler).chunks) == ["high", "low", "highest", "next"]
    assert list(step(scheduler).chunks) == ["highest", "high", "next", "low"]


@pytest.mark.clause("SCHED-ORDER-1")
def test_nobody_overtakes_a_request_that_waits_for_blocks(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, blocks=1 + 5)
    scheduler = rig.scheduler(Limits(24, 8))
    add(rig, scheduler, "r1", own(1, 12), 1)
    step(scheduler)
    step(scheduler)
    add(rig, scheduler, "large", own(2, 12))
    add(rig, scheduler, "small", own(3, 4))
    scheduler.append("r1", [5])
    assert list(step(scheduler).chunks) == ["r1"]
    scheduler.finish("r1")
    assert list(step(scheduler).chunks) == ["large", "small"]


# Empty chunks


def decoding(rig: HybridRig, scheduler: Scheduler) -> list[Request]:
    """Three requests that decode a token in every step."""
    requests = [add(rig, scheduler, f"d{number}", own(number, 1), 20) for number in (1, 2, 3)]
    step(scheduler)
    return requests


def decode(scheduler: Scheduler, requests: Sequence[Request]) -> Schedule:
    """One step more, in which each of them computes its newest token."""
    for request in requests:
        if scheduler.cache.running[request.request_id].computed == request.num_tokens:
            scheduler.append(request.request_id, [7])
    return step(scheduler)


@pytest.mark.clause("SCHED-EMPTY-1", "SPLIT-ALIGN-1")
def test_a_prefill_that_waits_for_a_whole_block_stops_nobody_behind_it(hybrid: MakeHybrid) -> None:
    rig = hybrid(full(2), state(6))
    scheduler = rig.scheduler(Limits(8))
    requests = decoding(rig, scheduler)
    add(rig, scheduler, "long", own(8, 13))
    add(rig, scheduler, "short", own(9, 4))
    assert list(decode(scheduler, requests).chunks) == ["d1", "d2", "d3", "short"]


@pytest.mark.clause("SCHED-STARVE-1")
@pytest.mark.parametrize("most_empty", [1, 2, 3])
def test_a_prefill_that_never_finds_a_whole_block_gets_its_turn(hybrid: MakeHybrid, most_empty: int) -> None:
    rig = hybrid(full(2), state(6))
    scheduler = rig.scheduler(Limits(8, most_empty=most_empty))
    requests = decoding(rig, scheduler)
    add(rig, scheduler, "long", own(8, 13))
    turns = []
    for _ in range(2 * most_empty + 3):
        schedule = decode(scheduler, requests)
        turns.append(schedule.chunks.get("long"))
        if turns[-1] in ((0, 6), (6, 12)):
            assert list(schedule.chunks) == ["long", "d1", "d2"]
    empty = [None] * most_empty
    assert turns == [*empty, (0, 6), *empty, (6, 12), (12, 13)]


@pytest.mark.clause("SCHED-STARVE-1")
def test_without_starving_a_prefill_gets_whatever_is_left(hybrid: MakeHybrid) -> None:
    rig = hybrid(full(2), state(6))
    scheduler = rig.scheduler(Limits(9, most_empty=1))
    requests = decoding(rig, scheduler)
    add(rig, scheduler, "long", own(8, 13))
    assert [decode(scheduler, requests).chunks.get("long") for _ in range(3)] == [(0, 6), (6, 12), (12, 13)]


@pytest.mark.clause("SCHED-BUDGET-1", "SPLIT-RANGE-1")
def test_a_request_that_was_cut_before_its_junction_goes_on(hybrid: MakeHybrid) -> None:
    """Its junction is 12, and 10 of its tokens are left; they end where the scheduler asks the split to stop."""
    rig = hybrid()
    rig.prefill(rig.request("first", [*TWENTY[:12], *own(1, 8)]))
    scheduler = rig.scheduler(Limits(4))
    r2 = add(rig, scheduler, "r2", [*TWENTY[:12], *own(2, 8)])
    assert step(scheduler).chunks == {"r2": (0, 4)}
    rig.cache.truncate(r2, 10)
    assert rig.cache.running["r2"].junction == 12
    with rig.refused(OutOfRange):
        rig.cache.split(r2, 4, 4, 4, 12)
    assert [step(scheduler).chunks["r2"] for _ in range(2)] == [(4, 8), (8, 10)]


# What is refused


@pytest.mark.clause("SCHED-REFUSE-1")
@pytest.mark.parametrize(("never_at", "error"), [(0, OutOfRange), (8, OutOfRange), (11, OutOfRange), (12, None)])
def test_a_request_that_could_get_no_token_somewhere_is_refused(
    hybrid: MakeHybrid, never_at: int, error: type[PoolError] | None
) -> None:
    rig = hybrid(ATTENTION)
    scheduler = rig.scheduler(Limits(8, other_cap=lambda request, start: 0 if start == never_at else 3))
    r1 = rig.request("r1", TWENTY[:9])
    if error is None:
        scheduler.add(r1, 12)
        return
    with rig.refused(error):
        scheduler.add(r1, 12)
    assert scheduler.jobs == {}


def fails(request: Request, start: int) -> int:
    raise ZeroDivisionError(start)


@pytest.mark.clause("SCHED-REFUSE-1")
@pytest.mark.parametrize(
    "cap",
    [fails, lambda *_: None, lambda *_: 1.5, lambda *_: True, lambda: 3],
    ids=["fails", "None", "1.5", "True", "takes nothing"],
)
def test_a_cap_that_is_no_integer_refuses_the_request_and_nobody_else(
    hybrid: MakeHybrid, cap: Callable[..., int]
) -> None:
    rig = hybrid(ATTENTION)
    scheduler = rig.scheduler(Limits(8, other_cap=lambda r, start: cap(r, start) if r.request_id == "r1" else 3))
    r1 = rig.request("r1", TWENTY[:9])
    with rig.refused(InvalidArgument):
        scheduler.add(r1, 9)
    add(rig, scheduler, "r2", own(2, 9))
    assert step(scheduler).chunks == {"r2": (0, 3)}


@pytest.mark.clause("SCHED-REFUSE-1")
@pytest.mark.parametrize("rank", Rank, ids=named)
def test_a_request_that_could_not_run_is_refused_before_it_stops_the_others(hybrid: MakeHybrid, rank: Rank) -> None:
    rig = hybrid(ATTENTION)
    scheduler = rig.scheduler(Limits(8), Policies(rank=rank))
    r1 = rig.request("r1", TWENTY[:9])
    for nothing in (hybrid(h=1).request("other", TWENTY), Request("copy:a", TWENTY, rig.pool.hasher), None, "r1"):
        with rig.refused(InvalidArgument):
            scheduler.add(nothing, 20)  # type: ignore[arg-type]
    for priority in (None, "high", 1.0, float("nan"), True):
        with rig.refused(InvalidArgument):
            scheduler.add(r1, 9, priority)  # type: ignore[arg-type]
    assert scheduler.jobs == {}
    rig.admit(r1, 4)
    with rig.refused(AlreadyAdmitted):
        scheduler.add(r1, 9)
    rig.settle_all()
    rig.cache.release("r1")
    add(rig, scheduler, "r2", own(2, 9))
    assert list(step(scheduler).chunks) == ["r2"]


@pytest.mark.clause("SCHED-REFUSE-1")
def test_a_request_gets_no_more_tokens_than_it_was_to_have(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    scheduler = rig.scheduler(Limits(16))
    r1 = add(rig, scheduler, "r1", own(1, 9), 2)
    scheduler.append("r1", [1])
    with rig.refused(OutOfRange):
        scheduler.append("r1", [2, 3])
    with rig.refused(InvalidArgument):
        scheduler.append("r1", None)  # type: ignore[arg-type]
    scheduler.append("r1", [2])
    assert step(scheduler).chunks == {"r1": (0, 11)}
    with rig.refused(OutOfRange):
        scheduler.append("r1", [3])
    assert r1.num_tokens == 11


@pytest.mark.clause("SCHED-REFUSE-1")
def test_a_step_is_not_begun_while_another_request_runs_by_the_name_of_one_that_waits(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    scheduler = rig.scheduler(Limits(8))
    add(rig, scheduler, "r1", own(1, 9))
    twin = Request("r1", own(2, 9), rig.pool.hasher)
    rig.admit(twin, 4)
    rig.settle_all()
    before = rig.pool.current_step
    with pytest.raises(InvalidArgument):
        scheduler.schedule()
    assert rig.pool.current_step == before
    rig.cache.release("r1")
    assert step(scheduler).chunks == {"r1": (0, 8)}


@pytest.mark.clause("ERR-TYPE-1")
def test_a_scheduler_is_made_of_what_it_needs(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    cache, limits, policies = rig.cache, Limits(8), Policies()
    wrong: list[tuple[Any, ...]] = [
        (None, limits, policies),
        (cache, None, policies),
        (cache, Limits(8, other_cap=3), policies),  # type: ignore[arg-type]
        (cache, limits, None),
        (cache, limits, Policies(pending="wait")),  # type: ignore[arg-type]
        (cache, limits, Policies(rank="arrival")),  # type: ignore[arg-type]
    ]
    for arguments in wrong:
        with rig.refused(InvalidArgument):
            Scheduler(*arguments)
    scheduler = Scheduler(cache, limits, policies)
    add(rig, scheduler, "r1", own(1, 9))
    assert step(scheduler).chunks == {"r1": (0, 8)}


SMALLEST: list[tuple[tuple[GroupConfig, ...], HybridConfig, int, int, int]] = [
    ((ATTENTION,), HybridConfig(), 20, 4, 6),
    ((ATTENTION,), HybridConfig(), 21, 4, 7),
    ((RECURRENT,), HybridConfig(), 20, 4, 3),
    ((state(2),), HybridConfig(), 12, 2, 3),
    ((ATTENTION, RECURRENT), HybridConfig(retention=Retention.BOUNDARIES), 20, 3, 9),
    ((window(4, 6),), HybridConfig(), 20, 4, 5),
    ((window(4, 6), state(6)), HybridConfig(checkpoints=True), 20, 3, 6 + 1),
    ((window(2, 9), full(6)), COARSE, 20, 5, 9 + 5),
]


@pytest.mark.clause("SCHED-REFUSE-1", "SCHED-PREEMPT-1")
@pytest.mark.parametrize(("groups", "chosen", "tokens", "budget", "needed"), SMALLEST, ids=named)
def test_whoever_is_not_refused_reaches_its_end_in_the_smallest_pool(
    hybrid: MakeHybrid, groups: tuple[GroupConfig, ...], chosen: HybridConfig, tokens: int, budget: int, needed: int
) -> None:
    """Also with several steps in flight, which hold blocks until they are committed."""
    rig = hybrid(*groups, hybrid=chosen, blocks=needed)
    refusing = rig.scheduler(Limits(budget))
    r1 = rig.request("r1", own(1, tokens))
    before = rig.snapshot()
    with pytest.raises(OutOfBlocks, match=f"may take {needed} blocks, and the pool has {needed - 1}"):
        refusing.add(r1, tokens)
    assert (rig.snapshot(), refusing.jobs) == (before, {})
    for in_flight in (1, 2, 3):
        rig = hybrid(*groups, hybrid=chosen, blocks=1 + needed)
        scheduler = rig.scheduler(Limits(budget))
        r1 = add(rig, scheduler, "r1", own(1, tokens - 3), 3)
        for _ in range(60):
            if rig.pool.current_step - rig.pool.last_committed_step < in_flight:
                scheduler.schedule()
                continue
            scheduler.commit(rig.pool.last_committed_step + 1)
            if rig.runs(r1) and rig.far(r1) == (r1.num_tokens, r1.num_tokens):
                if r1.num_tokens == tokens:
                    break
                scheduler.append("r1", [5])
        assert rig.far(r1) == (tokens, tokens), in_flight


@pytest.mark.clause("SCHED-REFUSE-1")
def test_a_request_arrives_once_and_with_tokens(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    scheduler = rig.scheduler(Limits(8))
    r1 = add(rig, scheduler, "r1", own(1, 9))
    empty, other = rig.request("empty", []), rig.request("other", own(2, 9))
    for request, most, error in (
        (r1, 9, AlreadyAdmitted),
        (empty, 9, InvalidArgument),
        (other, 8, OutOfRange),
        (other, None, InvalidArgument),
    ):
        with rig.refused(error):
            scheduler.add(request, most)  # type: ignore[arg-type]
    for name in ("nobody", None):
        with rig.refused(NotAdmitted):
            scheduler.finish(name)  # type: ignore[arg-type]
        with rig.refused(NotAdmitted):
            scheduler.append(name, [1])  # type: ignore[arg-type]
    assert list(scheduler.jobs) == ["r1"]


@pytest.mark.clause("SCHED-REFUSE-1", "ERR-TEXT-1")
def test_who_is_asked_for_in_vain_hears_who_there_is(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    scheduler = rig.scheduler(Limits(8))
    for there_are in ("none", "r1", "r1, r2"):
        with pytest.raises(NotAdmitted, match=rf"no request 'nobody'; there are {there_are}$"):
            scheduler.finish("nobody")
        name = f"r{len(scheduler.jobs) + 1}"
        scheduler.add(rig.request(name, own(1, 9)), 9)


# Preemption


def three_running(rig: HybridRig, ranks: Sequence[int] = (0, 0, 0), rank: Rank = Rank.ARRIVAL) -> Scheduler:
    """Three requests that have computed four tokens each, and hold a block each."""
    scheduler = rig.scheduler(Limits(24, 4), Policies(rank=rank))
    for number, priority in enumerate(ranks, 1):
        add(rig, scheduler, f"r{number}", own(number, 9), 11, rank=priority)
    assert len(step(scheduler).chunks) == 3
    return scheduler


@pytest.mark.clause("SCHED-PREEMPT-1", "SCHED-RESUME-1")
def test_the_lowest_ones_make_room_one_after_the_other(hybrid: MakeHybrid) -> None:
    """All six blocks are held when each has computed 8 tokens; r1 and r2 share what r3 leaves."""
    rig = hybrid(ATTENTION, blocks=1 + 6)
    scheduler = three_running(rig)
    assert step(scheduler).chunks == {"r1": (4, 8), "r2": (4, 8), "r3": (4, 8)}
    schedule = step(scheduler)
    assert schedule.chunks == {"r1": (8, 9), "r2": (8, 9)}
    assert schedule.preempted == ["r3"]
    assert list(scheduler.jobs) == ["r1", "r2", "r3"]
    assert scheduler.jobs["r3"].request.tokens == own(3, 9)
    scheduler.finish("r2")
    assert step(scheduler).chunks == {"r3": (0, 4)}, "the others took what it left"


@pytest.mark.clause("SCHED-PREEMPT-1")
@pytest.mark.parametrize(
    ("ranks", "rank", "victim"),
    [((0, 0, 0), Rank.ARRIVAL, "r3"), ((1, 2, 0), Rank.PRIORITY, "r2"), ((2, 0, 1), Rank.PRIORITY, "r1")],
    ids=named,
)
def test_whom_it_hits_is_a_matter_of_rank(hybrid: MakeHybrid, ranks: tuple[int, ...], rank: Rank, victim: str) -> None:
    rig = hybrid(ATTENTION, blocks=1 + 6)
    scheduler = three_running(rig, ranks, rank)
    step(scheduler)
    assert step(scheduler).preempted == [victim]


@pytest.mark.clause("SCHED-PREEMPT-1")
def test_no_more_are_preempted_than_it_takes(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, blocks=1 + 9)
    scheduler = three_running(rig)
    step(scheduler)
    assert step(scheduler).preempted == []


@pytest.mark.clause("SCHED-PREEMPT-1")
def test_whoever_ranks_lowest_waits_and_keeps_what_it_has(hybrid: MakeHybrid) -> None:
    """Somebody outside holds the rest of the pool."""
    rig = hybrid(ATTENTION, blocks=1 + 8)
    scheduler = three_running(rig)
    outsider = rig.request("outsider")
    step(scheduler)
    rig.begin()
    held = rig.take(outsider, 1)
    rig.settle_all()
    scheduler.finish("r2")
    rig.begin()
    held += rig.take(outsider, rig.pool.num_free - 1)
    rig.settle_all()
    schedule = step(scheduler)
    assert (schedule.chunks, schedule.preempted) == ({"r1": (8, 9)}, [])
    assert rig.far(scheduler.jobs["r3"].request) == (8, 8)
    rig.free(outsider, *held)
    assert step(scheduler).chunks == {"r3": (8, 9)}


@pytest.mark.clause("SCHED-PREEMPT-1", "SCHED-BUDGET-1")
def test_a_preempted_chunk_gives_its_tokens_back(hybrid: MakeHybrid) -> None:
    """The prefill of r3 was starving and came first; r1 takes its blocks, and what it would have computed is free."""
    rig = hybrid(full(2), state(6), blocks=1 + 12)
    scheduler = rig.scheduler(Limits(9, most_empty=1))
    first = add(rig, scheduler, "r1", own(1, 8), 4)
    while rig.pool.last_committed_step == 0 or rig.far(first)[0] < 8:
        step(scheduler)
    add(rig, scheduler, "r3", own(3, 12))
    scheduler.append("r1", [5, 6, 7])
    outsider = rig.request("outsider")
    rig.begin()
    rig.take(outsider, rig.pool.num_free - 4)
    rig.settle_all()
    scheduler.jobs["r3"].empty = 1
    schedule = step(scheduler)
    assert (schedule.chunks, schedule.preempted) == ({"r1": (8, 11)}, ["r3"])
    assert schedule.num_tokens == 3


@pytest.mark.clause("SCHED-PREEMPT-1", "SCHED-RESUME-1")
def test_two_requests_that_each_lack_one_block_do_not_wait_for_each_other(hybrid: MakeHybrid) -> None:
    """Their prompts fill the 7 blocks, and each needs one more for the token that it says."""
    rig = hybrid(ATTENTION, blocks=1 + 7)
    scheduler = rig.scheduler(Limits(32))
    requests = [add(rig, scheduler, f"r{number}", own(number, length), 1) for number, length in ((1, 16), (2, 12))]
    assert step(scheduler).chunks == {"r1": (0, 16), "r2": (0, 12)}
    assert rig.pool.num_free == 0
    for request in requests:
        scheduler.append(request.request_id, [7])
    done = []
    for _ in range(4):
        step(scheduler)
        for request in requests:
            if rig.runs(request) and rig.far(request)[0] == request.num_tokens:
                done.append(request.request_id)
                scheduler.finish(request.request_id)
    assert done == ["r1", "r2"]


@pytest.mark.clause("SCHED-RESUME-1")
def test_a_request_that_is_preempted_while_it_decodes_says_nothing_twice(hybrid: MakeHybrid) -> None:
    """It has said two tokens, the second of which it has not computed yet."""
    rig = hybrid(ATTENTION, blocks=1 + 4)
    scheduler = rig.scheduler(Limits(24))
    r1, r2 = (add(rig, scheduler, f"r{number}", own(number, 7), 2) for number in (1, 2))
    for said in (5, 6):
        assert list(step(scheduler).chunks) == ["r1", "r2"]
        for request in (r1, r2):
            scheduler.append(request.request_id, [said])
    schedule = step(scheduler)
    assert (schedule.chunks, schedule.preempted) == ({"r1": (8, 9)}, ["r2"])
    scheduler.finish("r1")
    assert r2.tokens == [*own(2, 7), 5, 6]
    step(scheduler)
    assert rig.far(r2) == (9, 9)


@pytest.mark.clause("SCHED-RESUME-1", "RELEASE-1")
def test_those_who_shared_work_of_a_preempted_request_wait_with_it(hybrid: MakeHybrid) -> None:
    """The steps that compute what they share are still in flight."""
    rig = hybrid(ATTENTION, blocks=1 + 6)
    scheduler = rig.scheduler(Limits(24, 8), Policies(rank=Rank.PRIORITY))
    add(rig, scheduler, "r1", own(1, 8), 8, rank=0)
    add(rig, scheduler, "r2", own(2, 9), rank=2)
    assert scheduler.schedule().chunks == {"r1": (0, 8), "r2": (0, 8)}
    add(rig, scheduler, "r3", own(2, 10), rank=1)
    assert scheduler.schedule().chunks == {"r2": (8, 9), "r3": (8, 10)}
    scheduler.append("r1", own(7, 4))
    schedule = scheduler.schedule()
    assert schedule.chunks == {"r1": (8, 12)}
    assert schedule.preempted == ["r2", "r3"]
    rig.settle_all()
    assert set(rig.cache.running) == {"r1"}
    scheduler.finish("r1")
    assert scheduler.schedule().chunks == {"r3": (0, 8), "r2": (8, 9)}


@pytest.mark.clause("SCHED-RESUME-1", "BACK-PROMPT-1")
def test_a_preempted_request_that_decoded_comes_back_with_what_it_said(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    scheduler = rig.scheduler(Limits(24))
    r1 = add(rig, scheduler, "r1", own(1, 7), 9)
    while not rig.runs(r1) or rig.far(r1)[0] < 7:
        step(scheduler)
    scheduler.append("r1", [5, 6])
    rig.cache.release("r1")
    found = []
    while not rig.runs(r1) or rig.far(r1)[0] < 9:
        found.append(step(scheduler).chunks["r1"])
    assert found == [(6, 8), (8, 9)]


# Waiting for what is reserved


@pytest.mark.clause("SCHED-PENDING-1", "HIT-PENDING-1")
@pytest.mark.parametrize(("pending", "second"), [(Pending.WAIT, None), (Pending.NOW, (0, 8))], ids=named)
def test_whoever_could_hit_more_after_the_commit_waits_if_that_is_the_policy(
    hybrid: MakeHybrid, pending: Pending, second: tuple[int, int] | None
) -> None:
    rig = hybrid()
    scheduler = rig.scheduler(Limits(24), Policies(pending))
    add(rig, scheduler, "r1", own(1, 10))
    add(rig, scheduler, "r2", own(1, 10))
    add(rig, scheduler, "r3", own(3, 10))
    schedule = scheduler.schedule()
    assert schedule.chunks.get("r2") == second
    assert schedule.chunks["r3"] == (0, 8), "nobody behind it waits"
    scheduler.commit(schedule.step)
    if pending is Pending.WAIT:
        assert step(scheduler).chunks["r2"] == (8, 10)


@pytest.mark.clause("SCHED-PENDING-1")
def test_what_can_be_shared_at_once_is_nothing_to_wait_for(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    scheduler = rig.scheduler(Limits(24), Policies(Pending.WAIT))
    add(rig, scheduler, "r1", own(1, 8))
    add(rig, scheduler, "r2", own(1, 9))
    assert scheduler.schedule().chunks == {"r1": (0, 8), "r2": (8, 9)}


# Steps that fail


@pytest.mark.clause("SCHED-FAIL-1", "BACK-ROLLBACK-1")
def test_a_failed_step_is_taken_back_and_closed(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    scheduler = rig.scheduler(Limits(4))
    r1 = add(rig, scheduler, "r1", own(1, 9), 4)
    step(scheduler)
    scheduler.schedule()
    scheduler.schedule()
    assert rig.far(r1) == (9, 4)
    assert scheduler.fail(2) == ["r1"]
    assert (rig.far(r1), rig.pool.last_committed_step) == ((4, 4), 2)
    scheduler.commit(3)
    assert rig.far(r1) == (4, 4)
    assert rig.served_at(r1, 0) == [4]
    assert step(scheduler).chunks == {"r1": (4, 8)}


@pytest.mark.clause("SCHED-FAIL-1", "SCHED-RESUME-1")
def test_only_the_requests_of_the_failed_step_are_taken_back(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    scheduler = rig.scheduler(Limits(24, 4))
    r1 = add(rig, scheduler, "r1", own(1, 9))
    scheduler.schedule()
    r2 = add(rig, scheduler, "r2", own(2, 9))
    scheduler.schedule()
    rig.cache.commit(1)
    r1.append([])
    add(rig, scheduler, "r3", own(3, 9))
    scheduler.schedule()
    assert scheduler.fail(2) == ["r1", "r2"]
    assert (rig.runs(r1), rig.runs(r2), set(rig.cache.running)) == (False, False, {"r3"})
    scheduler.commit(3)
    assert set(step(scheduler).chunks) == {"r1", "r2", "r3"}
