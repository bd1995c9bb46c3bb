"""Requests that run over all groups: the oracle of preconditions, the invariants, small scopes, and what is said."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import pytest

from kvproof.conformance.attempts import QUESTIONS, attempt
from kvproof.conformance.backends.claims import check_claims
from kvproof.conformance.backends.interface import AdapterError, Level
from kvproof.conformance.backends.messages import Start, encode, read_request
from kvproof.conformance.backends.reference import CAPABILITIES, ReferenceBackend
from kvproof.conformance.backends.wire import Admitted, Running
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.settings import hybrid_scopes
from kvproof.conformance.certification.spoil import spoiled
from kvproof.conformance.explore import explore
from kvproof.conformance.hybrid_proposals import proposer_for
from kvproof.conformance.hybrid_scope import HybridScope
from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Advance,
    Allocate,
    Attach,
    BeginStep,
    Commit,
    Finish,
    KeyRef,
    Match,
    Operation,
    Release,
    Split,
    Truncate,
    Write,
)
from kvproof.conformance.preconditions import violations
from kvproof.conformance.undefined import undefined
from kvproof.conformance.walk import random_hybrid_config, walk
from kvproof.conformance.world import World, replay
from kvproof.reference import InvariantViolation
from kvproof.spec.errors import (
    AlreadyAdmitted,
    InvalidArgument,
    NoOpenStep,
    NotAdmitted,
    NotCommitted,
    OutOfBlocks,
    OutOfOrder,
    OutOfRange,
    PoolError,
)
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HybridConfig, PoolConfig

ATTENTION, WINDOW, STATE = GroupKind.FULL_ATTENTION, GroupKind.SLIDING_WINDOW, GroupKind.RECURRENT

HYBRID = PoolConfig(
    6, 2, (GroupConfig(ATTENTION, 4), GroupConfig(STATE, 4)), commit=CommitMode.STEPS, hybrid=HybridConfig()
)

BEGUN: list[Operation] = [
    AddRequest("r1", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
    AddRequest("r2", (1, 2, 3, 4, 5)),
    BeginStep(),
    Admit("r1", 4),
]
"""r1 has block 1 with its rows, 2 with its state; blocks 3, 4 and 5 are free."""

REFUSED: list[tuple[list[Operation], Operation, set[type[PoolError]]]] = [
    ([], Admit("r1", 5), {AlreadyAdmitted}),
    ([], Admit("r2", 0), {OutOfRange}),
    ([], Admit("r2", 6), {OutOfRange}),
    ([], Admit("r3", 1), {InvalidArgument}),
    ([Commit(1)], Admit("r2", 2), {NoOpenStep}),
    ([BeginStep()], Advance("r1", 4), {OutOfRange}),
    ([], Advance("r1", 5), {OutOfOrder}),
    ([], Advance("r2", 5), {NotAdmitted}),
    ([Commit(1)], Advance("r1", 5), {NoOpenStep}),
    ([Allocate("copy:1", 2)], Admit("r2", 1), {OutOfBlocks}),
    ([Allocate("copy:1", 3), BeginStep()], Advance("r1", 8), {OutOfBlocks}),
    ([], Release("r2"), {NotAdmitted}),
    ([], Truncate("r1", 3), {NotCommitted}),
    ([], Split("r1", 10, 1, 1, 0), {OutOfRange}),
    ([], Split("r1", 0, 3, 2, 0), {OutOfRange}),
    ([], Split("r1", 0, 3, 3, 11), {OutOfRange}),
    ([], Match("copy:1"), {InvalidArgument}),
]


@pytest.mark.parametrize(("before", "operation", "errors"), REFUSED)
def test_what_is_refused_says_why_and_changes_nothing(
    before: list[Operation], operation: Operation, errors: set[type[PoolError]]
) -> None:
    world = replay(HYBRID, [*BEGUN, *before])
    assert violations(world.situation, operation) == errors
    assert attempt(world, operation) is None


def test_a_pool_without_hybrid_settings_runs_no_requests() -> None:
    plain = PoolConfig(3, 1, (GroupConfig(ATTENTION, 1),))
    world = replay(plain, [AddRequest("r1", (1, 2))])
    asked: list[Operation] = [Match("r1"), Split("r1", 0, 1, 1, 0), Admit("r1", 1), Advance("r1", 1), Release("r1")]
    for operation in asked:
        assert InvalidArgument in violations(world.situation, operation)
        assert attempt(world, operation) is None
    assert world.state.running is None


def test_the_oracle_and_the_cache_agree_on_near_misses_in_random_worlds() -> None:
    met = Counter[str]()
    for seed in range(25):
        random = Random(seed)
        world = World(random_hybrid_config(random))
        proposer = proposer_for(world, random)
        for _ in range(120):
            operation = proposer.draw()
            if operation is None:
                continue
            for candidate in (operation, spoiled(operation, random)):
                errors = violations(world.situation, candidate)
                if errors or isinstance(candidate, QUESTIONS):
                    met.update(f"{type(candidate).__name__} {error.__name__}" for error in errors)
                    assert attempt(world, candidate) is None
            if not violations(world.situation, operation) and undefined(world, operation) is None:
                world.apply(operation)
    wanted = ["OutOfBlocks", "OutOfRange", "InvalidArgument"]
    assert all(met[f"{kind} {error}"] for kind in ("Admit", "Advance") for error in wanted)
    assert met["Admit AlreadyAdmitted"]
    assert met["Advance OutOfOrder"]
    assert met["Truncate NotCommitted"]


def test_random_walks_keep_all_invariants() -> None:
    done = Counter[str]()
    for seed in range(40):
        walked = walk(seed, 100, random_hybrid_config(Random(seed)))
        assert walked.violation is None, (seed, walked.violation.reason)
        done += walked.coverage
    assert min(done[name] for name in ("admit", "advance", "release", "rollback", "truncate")) > 50


@pytest.mark.parametrize(("clause", "table"), [("INV-TABLE-1", [1, 2]), ("INV-TABLE-3", [1, 1]), ("INV-TABLE-3", [1])])
def test_a_table_with_a_wrong_block_breaks_an_invariant(clause: str, table: list[int]) -> None:
    pool = PoolConfig(4, 1, (GroupConfig(ATTENTION, 1),), commit=CommitMode.STEPS, hybrid=HybridConfig())
    world = replay(pool, [AddRequest("r1", (1, 2)), BeginStep(), Admit("r1", 2)])
    world.check()
    assert world.cache is not None
    right = world.cache.running["r1"].tables[0]
    world.cache.running["r1"].tables[0] = table if clause == "INV-TABLE-3" else right[::-1]
    with pytest.raises(InvariantViolation, match=clause):
        world.check()


def test_a_request_that_is_settled_too_far_breaks_an_invariant() -> None:
    pool = PoolConfig(4, 1, (GroupConfig(ATTENTION, 1),), commit=CommitMode.STEPS, hybrid=HybridConfig())
    world = replay(pool, [AddRequest("r1", (1, 2)), BeginStep(), Admit("r1", 2)])
    assert world.cache is not None
    world.cache.running["r1"].settled = 2
    with pytest.raises(InvariantViolation, match="INV-TABLE-2"):
        world.check()


SCOPES = [
    HybridScope(3, (GroupConfig(ATTENTION, 1), GroupConfig(STATE, 1)), ("ab", "ac")),
    HybridScope(3, (GroupConfig(ATTENTION, 2), GroupConfig(STATE, 2)), ("aab",)),
    HybridScope(4, (GroupConfig(ATTENTION, 1), GroupConfig(WINDOW, 1, 1), GroupConfig(STATE, 1)), ("aa",), in_flight=2),
    HybridScope(3, (GroupConfig(ATTENTION, 1), GroupConfig(WINDOW, 1, 1)), ("aa",), in_flight=2, truncates=True),
    HybridScope(2, (GroupConfig(ATTENTION, 2),), ("aab",), in_flight=2, truncates=True),
    CUTS := HybridScope(
        *(4, (GroupConfig(ATTENTION, 2), GroupConfig(ATTENTION, 3)), ("aaaa",)),
        hybrid=HybridConfig(fine_grained=False),
        truncates=True,
    ),
]


@pytest.mark.parametrize("scope", [*SCOPES, *hybrid_scopes(CAPABILITIES)], ids=lambda scope: str(scope.describe()))
def test_small_scopes_are_visited_completely_and_nothing_is_wrong(scope: HybridScope) -> None:
    found = explore(scope)
    assert found.complete, found.violation and found.violation.reason
    assert found.states > 50
    assert all(found.coverage[name] for name in ("admit", "release", "rollback", "begin_step", "commit", "fail"))


def test_a_scope_notices_a_cache_that_forgets_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvproof.reference.hybrid.HybridCache._go_back", lambda self, affected: None)
    found = explore(SCOPES[1])
    assert found.violation is not None
    assert len(found.violation.trace) < 8


def test_a_scope_notices_a_cut_that_is_taken_back_into_a_slot_on_which_others_rely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kvproof.reference.hybrid.HybridCache._last_certain", lambda self, running, n: n)
    found = explore(CUTS)
    assert found.violation is not None
    assert "INV-TABLE-4" in found.violation.reason
    assert len(found.violation.trace) < 9


def test_what_meddles_with_a_request_that_runs_is_undefined() -> None:
    world = replay(HYBRID, BEGUN)
    for operation in (Allocate("r1", 1), Allocate("copy:1:r1", 1), Write("r1", 1, 4, 0), Finish("r1", (1,))):
        assert undefined(world, operation)
    assert undefined(world, Allocate("copy:1", 1)) is None
    assert undefined(world, Admit("r2", 5)) is None
    assert undefined(replay(HYBRID, [*BEGUN, Allocate("r2", 1)]), Admit("r2", 5))


def test_finishing_one_on_which_another_depends_that_runs_is_undefined() -> None:
    config = PoolConfig(6, 1, (GroupConfig(ATTENTION, 1),), commit=CommitMode.STEPS, hybrid=HybridConfig())
    begun: list[Operation] = [
        AddRequest("r1", (1, 2)),
        AddRequest("r2", (1, 2)),
        BeginStep(),
        Admit("r1", 1),
        Admit("r2", 2),
    ]
    world = replay(config, begun)
    assert world.state.steps.depends == (("r2", "r1", 1),)
    waiting = replay(config, [*begun[:4], Attach("r2", 1, KeyRef("r2", 0, 1))])
    assert undefined(waiting, Finish("r2", (1,))) is None
    assert undefined(world, Finish("r1", ()))


def test_what_runs_is_observed_and_said() -> None:
    lockstep = Lockstep(ReferenceBackend(), CAPABILITIES, HYBRID)
    lockstep.run(BEGUN)
    assert lockstep.divergence is None
    expected = lockstep.model.expect(Admit("r2", 5))
    assert expected.result == Admitted(0, 4, 0, ((3, 4), (0, 5)))
    assert expected.seen.running == (
        Running("r1", 4, 0, 0, ((1,), (2,)), ((1, 4),), 1),
        Running("r2", 5, 0, 4, ((3, 4), (0, 5)), ((1, 5),), 1),
    )
    attention, state = expected.rows or ((), ())
    assert isinstance(attention, tuple)
    assert isinstance(state, tuple)
    assert (len(attention), len(state)) == (5, 1)


def test_a_pool_without_hybrid_settings_is_started_without_mentioning_them() -> None:
    plain = Start(PoolConfig(3, 1, (GroupConfig(ATTENTION, 1),)))
    assert b"hybrid" not in encode(plain)
    assert read_request(encode(plain)) == plain
    assert read_request(encode(Start(HYBRID))) == Start(HYBRID)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"operations": ("match",)}, "level H needs the operations split"),
        ({"levels": (Level.POOL, Level.HYBRID)}, "level H stands on the levels O, S"),
        ({"most_groups": 1}, "at least 2 groups"),
    ],
)
def test_level_h_is_not_claimed_without_what_it_stands_on(changes: dict[str, object], says: str) -> None:
    check_claims(CAPABILITIES)
    with pytest.raises(AdapterError, match=says):
        check_claims(msgspec.structs.replace(CAPABILITIES, **changes))
