"""What a certificate counts of a clause: the operations that could have broken it, and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kvproof.conformance.backends.interface import Backend, Level
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.certification import examine as examination
from kvproof.conformance.certification.account import run_of
from kvproof.conformance.certification.attribution.tables import OF_REQUESTS, REFUSALS, RESULTS, STATES
from kvproof.conformance.certification.attribution.tested import NEEDS
from kvproof.conformance.certification.digests import driven_files
from kvproof.conformance.certification.levels import levels
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.profiles import Profile
from kvproof.conformance.certification.result import ClauseRow, Run, Status
from kvproof.conformance.certification.verdict import ExitCode, exit_code, open_ends
from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Advance,
    Allocate,
    BeginStep,
    CacheFullBlocks,
    Free,
    KeyRef,
    Match,
    Operation,
    Rollback,
    Touch,
    Write,
)
from kvproof.conformance.vectors import vectors
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HybridConfig, PoolConfig
from tests.certification.doubles import Changed

PLAIN = PoolConfig(4, 1, (GroupConfig(GroupKind.FULL_ATTENTION, 1),), hash_seed=b"")
STEPS = replace(PLAIN, commit=CommitMode.STEPS)
HYBRID = replace(STEPS, num_blocks=9, hybrid=HybridConfig())
RECURRENT = replace(HYBRID, groups=(*PLAIN.groups, GroupConfig(GroupKind.RECURRENT, 1)))

SHORT = Profile("short", 4, 0, 100, exhaustive=False, workloads=False, hybrid_walks=4)


def counted(config: PoolConfig, operations: Sequence[Operation], backend: Backend | None = None) -> Counter[str]:
    """What operations put to the test, of the reference or of another backend that is right."""
    subject = backend or ReferenceBackend()
    lockstep = Lockstep(subject, subject.identify()[1], config)
    lockstep.run(operations)
    assert lockstep.divergence is None
    return lockstep.tested.clauses


def account(backend: Backend, profile: Profile = SHORT) -> Run:
    done = examination.examine(backend, profile, 1)
    return run_of(done, "double", profile, 1, driven_files(ReferenceBackend().identify()[0]))


def row_of(run: Run, clause: str) -> ClauseRow:
    return next(row for row in run.clauses if row.clause == clause)


CACHED = (
    AddRequest("r1", (5, 6)),
    AddRequest("r2", (5, 6)),
    Allocate("r1", 1),
    Write("r1", 1, 1, 0),
    CacheFullBlocks("r1", (1,), 0, 1, 0),
)


def test_a_clause_about_a_refusal_is_tested_by_what_has_to_be_refused_for_its_reason() -> None:
    served = Touch("r2", 1, KeyRef("r2", 0, 1))
    counts = counted(PLAIN, (*CACHED, served, served, Touch("r2", 1, KeyRef("r2", 0, 2)), Touch("r2", 7, 1)))  # type: ignore[arg-type]
    assert (counts["POOL-TOUCH-1"], counts["POOL-TOUCH-2"]) == (1, 1)
    assert counts["POOL-HOLDER-1"] == 2  # the block is held already, whatever the key is
    assert counts["ERR-TYPE-1"] == 1


def test_a_clause_about_a_legal_operation_is_not_tested_by_one_that_is_refused() -> None:
    counts = counted(PLAIN, (Allocate("r1", 9), Allocate("r1", 2), Free("r1", (3,)), Free("r1", (1, 2))))
    assert (counts["POOL-ALLOC-3"], counts["POOL-ALLOC-1"]) == (1, 1)
    assert (counts["POOL-FREE-4"], counts["POOL-FREE-1"]) == (1, 1)


def test_what_a_pool_without_hybrid_settings_refuses_is_tested_in_such_pools_alone() -> None:
    asked = (AddRequest("r1", (5, 6)), Match("r1"))
    assert counted(PLAIN, asked)["GROUP-CONFIG-2"] == 1
    counts = counted(HYBRID, asked)
    assert counts["GROUP-CONFIG-2"] == 0
    assert counts["HIT-JOINT-1"] == 1


def test_one_chunk_in_a_step_is_tested_by_the_second_one() -> None:
    chunks = (AddRequest("r1", (5, 6, 7, 8)), BeginStep(), Admit("r1", 1), Advance("r1", 2), Advance("r1", 3))
    assert counted(HYBRID, chunks)["ADVANCE-ONCE-1"] == 2  # the admission was the first
    counts = counted(HYBRID, (*chunks[:3], BeginStep(), Advance("r1", 2)))
    assert (counts["ADVANCE-ONCE-1"], counts["ADVANCE-ATTENTION-1"]) == (0, 1)


def test_what_a_pool_has_not_is_not_tested_in_it() -> None:
    chunks = (AddRequest("r1", (5, 6, 7, 8)), Match("r1"), BeginStep(), Admit("r1", 1), BeginStep(), Advance("r1", 2))
    of_states = ("HIT-RECURRENT-1", "ADVANCE-STATE-1", "RETAIN-JUNCTION-1")
    assert [counted(HYBRID, chunks)[clause] for clause in of_states] == [0, 0, 0]
    assert [counted(RECURRENT, chunks)[clause] for clause in of_states] == [2, 2, 2]
    assert counted(RECURRENT, chunks)["RETAIN-BOUNDARIES-1"] == 0
    assert counted(STEPS, (Rollback(("r1",)),)) == {"STEP-ROLLBACK-1": 1, "STEP-ROLLBACK-2": 1}
    assert counted(HYBRID, (Rollback(("r1",)),))["BACK-SLOTS-1"] == 1


def test_what_the_reference_ran_alone_tested_nothing() -> None:
    without_memory = Changed(levels=tuple(level for level in Level if level is not Level.DATA), operations=())
    assert counted(PLAIN, CACHED, without_memory)["CONTENT-WRITE-3"] == 0
    assert counted(PLAIN, CACHED)["CONTENT-WRITE-3"] == 1


def only_vectors_of(monkeypatch: pytest.MonkeyPatch, *clauses: str) -> None:
    """Leave out all other vectors: they take long, and count for themselves."""
    chosen = [vector for vector in vectors() if set(clauses) & set(vector.header.clauses)]
    monkeypatch.setattr(examination, "vectors", lambda: chosen)


def test_a_run_counts_no_refusals_for_a_backend_that_is_asked_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    only_vectors_of(monkeypatch)
    run = account(Changed(levels=(Level.POOL,), operations=(), commit=(CommitMode.IMMEDIATE,)))
    assert row_of(run, "POOL-TOUCH-1").exercised["random"] > 0
    assert [row_of(run, clause).exercised for clause in ("POOL-TOUCH-2", "POOL-FREE-4", "POOL-RESET-2")] == [{}] * 3


def test_a_backend_has_not_passed_a_clause_about_groups_that_it_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    of_others = ("HIT-RECURRENT-1", "RETAIN-INTERVAL-1")
    only_vectors_of(monkeypatch, *of_others)
    run = account(Changed(group_kinds=(GroupKind.FULL_ATTENTION,)))
    assert row_of(run, "HIT-ATTENTION-1").status is Status.PASS
    assert [(row_of(run, each).status, row_of(run, each).exercised) for each in of_others] == [
        (Status.DISABLED, {})
    ] * 2


def test_a_claimed_clause_that_nothing_could_break_makes_a_run_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    only_vectors_of(monkeypatch)
    run = account(ReferenceBackend(), replace(SHORT, walks=0))
    assert run.failures == ()
    assert row_of(run, "HIT-JOINT-1").status is Status.PASS
    assert row_of(run, "GROUP-CONFIG-2").status is Status.SKIP
    assert exit_code(run) is ExitCode.INCONCLUSIVE
    assert any("GROUP-CONFIG-2" in each for each in open_ends(run))


def test_the_tables_name_clauses_and_operations_that_are() -> None:
    named = {*REFUSALS.values(), *RESULTS.values(), *STATES.values(), *OF_REQUESTS, *NEEDS}
    assert named <= set(levels())
    assert {name for names in OF_REQUESTS.values() for name in names} <= set(RESULTS)
