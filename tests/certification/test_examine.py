from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from kvproof.conformance.backends.interface import AdapterError, Backend, Level
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.backends.wire import Answer, Step
from kvproof.conformance.certification import stages
from kvproof.conformance.certification.account import run_of
from kvproof.conformance.certification.applicable import why_not
from kvproof.conformance.certification.control import is_noticed
from kvproof.conformance.certification.digests import driven_files
from kvproof.conformance.certification.examine import Examination, examine
from kvproof.conformance.certification.findings import MOST_FAILURES
from kvproof.conformance.certification.known import KnownError, read_known
from kvproof.conformance.certification.levels import levels
from kvproof.conformance.certification.profiles import DEEP, QUICK, Profile
from kvproof.conformance.certification.result import KnownDivergence, Run, Status
from kvproof.conformance.certification.verdict import ExitCode, exit_code, incoherences, new_failures
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.operations import Allocate, Operation
from kvproof.conformance.vectors import vectors, vectors_of
from kvproof.spec.vocabulary import CommitMode, HolderMode, PoolConfig
from tests.certification.doubles import Changed, with_mutant, without

SMOKE, FEW = 2, len(vectors()[::10])
"""Pools of the first two stages with `few_vectors`."""

SHORT = Profile("short", walks=4, illegal_walks=4, operations=200, exhaustive=False, workloads=False)


def examined(backend: Backend, profile: Profile = SHORT) -> Examination:
    return examine(backend, profile, 1)


def account(backend: Backend, profile: Profile = SHORT) -> Run:
    return run_of(examined(backend, profile), "double", profile, 1, driven_files(ReferenceBackend().identify()[0]))


def test_the_reference_passes_everything_that_it_claims() -> None:
    run = account(ReferenceBackend(), QUICK)
    assert (run.failures, exit_code(run), incoherences(run)) == ((), ExitCode.CONFORMANT, [])
    assert [row.clause for row in run.clauses] == list(levels())
    assert all(run.non_vacuity.values())


@pytest.mark.parametrize(
    ("mutant", "clause"),
    [
        ("null_block_is_evicted", "POOL-NULL-1"),
        ("mask_is_ignored", "REG-FULL-2"),
        ("events_of_the_last_operation_only", "EVENT-DRAIN-1"),
        ("superseded_key_is_pending", "STEP-LOOKUP-2"),
        ("freed_keyless_blocks_go_last", "POOL-FREE-2"),
    ],
)
def test_a_broken_pool_fails_the_clause_that_it_breaks(
    mutant: str, clause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = (*vectors()[::10], *vectors_of((clause,)))
    monkeypatch.setattr("kvproof.conformance.certification.examine.vectors", lambda: chosen)
    run = account(with_mutant(mutant))
    assert exit_code(run) is ExitCode.NOT_CONFORMANT
    assert incoherences(run) == []
    [failure] = [failure for failure in run.failures if failure.clause == clause]
    assert failure.operations == len(failure.trace.steps) <= 10
    assert len({failure.id for failure in run.failures}) == len(run.failures)


@pytest.mark.usefixtures("few_vectors")
def test_a_pool_that_is_wrong_everywhere_shows_no_more_than_can_be_read() -> None:
    def wrong(operation: Operation, step: Step) -> Step:
        return msgspec.structs.replace(step, answer=Answer("nonsense")) if isinstance(operation, Allocate) else step

    class OnlyAfterTheSmoke(Changed):
        starts = 0

        def start(self, config: object) -> None:
            super().start(config)  # type: ignore[arg-type]
            self.starts += 1

        def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
            return (
                super().run(operations, observe) if self.starts > 2 else ReferenceBackend.run(self, operations, observe)
            )

    run = account(OnlyAfterTheSmoke(wrong))
    assert exit_code(run) is ExitCode.NOT_CONFORMANT
    assert 0 < len(run.failures) <= MOST_FAILURES


def test_an_adapter_that_is_wrong_from_the_start_is_no_failure_of_the_backend() -> None:
    def wrong(operation: Operation, step: Step) -> Step:
        return msgspec.structs.replace(step, answer=Answer(7)) if isinstance(operation, Allocate) else step

    run = account(Changed(wrong))
    assert exit_code(run) is ExitCode.ADAPTER_ERROR
    assert run.failures == ()
    assert [(stage.name, stage.status) for stage in run.stages] == [("smoke", Status.ERROR)]
    assert "allocate(1) answered 7" in run.stages[0].reason


def test_an_adapter_that_breaks_later_ends_the_run() -> None:
    class Dies(Changed):
        def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
            if len(self.batches) > 20:
                raise AdapterError("it ended with exit code 1")
            return super().run(operations, observe)

    run = account(Dies())
    assert exit_code(run) is ExitCode.ADAPTER_ERROR
    assert run.stages[-1].reason == "it ended with exit code 1"
    assert Status.UNKNOWN in {row.status for row in run.clauses}


@pytest.mark.usefixtures("few_vectors")
@pytest.mark.parametrize(("stage", "right", "pools"), [("vectors", 0, 100), ("random", SMOKE + FEW, SMOKE + FEW + 3)])
def test_what_was_found_in_the_stage_in_which_the_adapter_broke_is_shown(stage: str, right: int, pools: int) -> None:
    """So many pools are right, the others wrong, and after so many it breaks."""

    def backwards(operation: Operation, step: Step) -> Step:
        taken = step.answer.result
        many = isinstance(operation, Allocate) and isinstance(taken, list) and len(taken) > 1
        wrong = many and backend.starts > right
        return msgspec.structs.replace(step, answer=Answer(taken[::-1])) if wrong else step  # type: ignore[index]

    class Dies(Changed):
        starts = 0

        def start(self, config: PoolConfig) -> None:
            super().start(config)
            self.starts += 1

        def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
            if self.starts > pools:
                raise AdapterError("it ended with exit code 1")
            return super().run(operations, observe)

    backend = Dies(backwards)
    run = account(backend)
    rows = {row.clause: row.status for row in run.clauses}
    assert exit_code(run) is ExitCode.ADAPTER_ERROR
    assert incoherences(run) == []
    assert "POOL-ALLOC-1" in {failure.clause for failure in run.failures}
    assert rows["POOL-ALLOC-1"] is Status.FAIL
    assert (run.stages[-1].name, run.stages[-1].reason) == (stage, "it ended with exit code 1")


def test_what_is_not_claimed_is_disabled_and_says_why() -> None:
    run = account(
        Changed(levels=(Level.POOL,), operations=without("move", "copy", "read"), commit=(CommitMode.IMMEDIATE,))
    )
    rows = {row.clause: row for row in run.clauses}
    assert exit_code(run) is ExitCode.CONFORMANT
    assert rows["POOL-ALLOC-1"].status is Status.PASS
    assert (rows["POOL-MOVE-1"].status, rows["POOL-MOVE-1"].reason) == (
        Status.DISABLED,
        "operation move is not offered",
    )
    assert (rows["STEP-COMMIT-1"].status, rows["STEP-COMMIT-1"].reason) == (Status.DISABLED, "level S is not claimed")


def test_vectors_are_left_out_for_a_reason() -> None:
    _, plain = Changed(levels=(Level.POOL,), commit=(CommitMode.IMMEDIATE,), holders=(HolderMode.NAMED,)).identify()
    reasons = Counter(why_not(vector, plain).split(" ")[0] for vector in vectors())
    assert {"commit=steps", "its", "it", ""} <= set(reasons)
    assert "it is about caller, which is not claimed" in {why_not(vector, plain) for vector in vectors()}
    _, everything = ReferenceBackend().identify()
    assert {why_not(vector, everything) for vector in vectors()} == {""}


@pytest.mark.usefixtures("few_vectors")
def test_the_same_seed_gives_the_same_run() -> None:
    first, again = account(with_mutant("replace_is_ignored")), account(with_mutant("replace_is_ignored"))
    assert first.failures == again.failures
    assert first.clauses == again.clauses


def test_a_budget_multiplies_what_is_random() -> None:
    assert (DEEP.times(3).walks, DEEP.times(3).illegal_walks) == (3 * DEEP.walks, 3 * DEEP.illegal_walks)


# The control


def test_a_fault_that_no_trace_shows_is_missed() -> None:
    [mutant] = [mutant for mutant in MUTANTS if mutant.name == "fast_hash_has_a_known_seed"]
    assert not is_noticed(mutant)


# Known divergences

KNOWN = """
[[divergence]]
clause = "POOL-FREE-2"
reason = "Blocks without a key go last here."
until = "2999-01-31"
"""


@pytest.mark.usefixtures("few_vectors")
def test_what_is_known_is_nothing_new_and_still_fails(tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(KNOWN)
    known = read_known(tmp_path / "known.toml")
    broken = examined(with_mutant("freed_keyless_blocks_go_last"))
    run = run_of(broken, "double", SHORT, 1, (), known=known)
    fails = [row.clause for row in run.clauses if row.status is Status.FAIL]
    assert "POOL-FREE-2" in fails
    assert new_failures(run) == [clause for clause in fails if clause != "POOL-FREE-2"]
    everything = tuple(msgspec.structs.replace(known[0], clause=clause) for clause in fails)
    assert new_failures(msgspec.structs.replace(run, known=everything)) == []
    assert exit_code(msgspec.structs.replace(run, known=())) is ExitCode.NOT_CONFORMANT


@pytest.mark.usefixtures("few_vectors")
def test_a_stage_that_ended_early_leaves_the_run_inconclusive_whatever_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stages, "MOST_DIVERGENCES", 20)
    broken = examined(with_mutant("freed_keyless_blocks_go_last"), replace(SHORT, walks=60))
    run = run_of(broken, "double", SHORT, 1, ())
    fails = [row.clause for row in run.clauses if row.status is Status.FAIL]
    known = tuple(KnownDivergence(clause, "it is known") for clause in fails)
    assert run.unfinished == "stage random: it ended early, after 20 divergences"
    assert exit_code(msgspec.structs.replace(run, known=known)) is ExitCode.INCONCLUSIVE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (KNOWN.replace("POOL-FREE-2", "NOWHERE"), "no clause NOWHERE"),
        (KNOWN.replace("Blocks without a key go last here.", " "), "has no reason"),
        (KNOWN + KNOWN, "listed twice"),
        (KNOWN.replace("2999-01-31", "soon"), "no day"),
        (KNOWN.replace("reason", "raeson"), "raeson|reason"),
        ("[[divergences]]\n", "only \\[\\[divergence\\]\\]"),
        ("[[divergence", "known.toml"),
        ("a = " + "[" * 10**5, "cannot be read: it is nested too deeply"),
        ("a = " + "9" * 5000, "known.toml: .*digits"),
    ],
)
def test_a_wrong_file_of_known_divergences_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "known.toml").write_text(text)
    with pytest.raises(KnownError, match=says):
        read_known(tmp_path / "known.toml")


def test_a_device_is_no_file_of_known_divergences() -> None:
    with pytest.raises(KnownError, match="is a device"):
        read_known(Path("/dev/zero"))


def test_a_name_that_is_too_long_is_no_file_of_known_divergences() -> None:
    with pytest.raises(KnownError, match="cannot be read: File name too long"):
        read_known(Path("f" * 5000))
