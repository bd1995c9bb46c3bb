from __future__ import annotations

import re
from itertools import pairwise

import msgspec
import pytest

from kvproof.conformance.backends.interface import Capabilities, Level
from kvproof.conformance.certification.levels import level_of, levels
from kvproof.conformance.certification.result import (
    ClauseRow,
    KnownDivergence,
    MutationControl,
    Run,
    StageRow,
    Status,
)
from kvproof.conformance.certification.verdict import (
    NOTHING_NEW,
    ExitCode,
    exit_code,
    incoherences,
    levels_of,
    no_certificate,
    open_ends,
    verdict,
)
from kvproof.spec.clauses import Level as Binding
from kvproof.spec.clauses import clauses
from tests.conformance import runs

KNOWN = KnownDivergence(runs.FAILING, "blocks go back in front", until="2027-01-31")


def with_row(run: Run, clause: str, **changes: object) -> Run:
    rows = [msgspec.structs.replace(row, **changes) if row.clause == clause else row for row in run.clauses]
    return msgspec.structs.replace(run, clauses=tuple(rows))


# Statuses and levels


def test_statuses_rise_in_severity() -> None:
    named = [Status(name) for name in ("unknown", "disabled", "skip", "pass", "fail", "error")]
    assert all(less < more and not more < less for less, more in pairwise(named))
    assert max(Status.PASS, Status.SKIP) is Status.PASS
    assert sorted([Status.ERROR, *named[:-1]]) == named


def test_every_clause_of_a_backend_has_exactly_one_level_and_every_level_has_clauses() -> None:
    assert list(levels()) == [clause for clause in clauses() if not clause.startswith("SCHED-")]
    assert set(levels().values()) == set(Level)


def test_no_backend_is_asked_for_what_a_scheduler_owes() -> None:
    of_schedulers = [clause for clause in clauses() if clause.startswith("SCHED-")]
    assert of_schedulers
    for clause in of_schedulers:
        with pytest.raises(KeyError):
            level_of(clause)


@pytest.mark.parametrize(
    ("pattern", "level"),
    [("EVENT-STORED-", Level.EVENTS), ("STEP-", Level.STEPS), ("ERR-", Level.ROBUSTNESS), ("CONTENT-", Level.DATA)],
)
def test_families_of_clauses_belong_to_their_level(pattern: str, level: Level) -> None:
    found = [clause for clause in clauses() if clause.startswith(pattern)]
    assert found
    assert {level_of(clause) for clause in found} == {level}


def test_clauses_about_order_and_refusal_are_apart_from_the_pool() -> None:
    assert level_of("POOL-FREE-2") is Level.ORDER
    assert level_of("EVENT-REMOVED-2") is Level.ORDER
    assert level_of("POOL-TOUCH-2") is Level.ROBUSTNESS
    assert level_of("POOL-TOUCH-1") is Level.POOL


def test_a_clause_that_does_not_exist_has_no_level() -> None:
    with pytest.raises(KeyError):
        level_of("NO-SUCH-1")


def test_the_levels_count_every_must_clause_once() -> None:
    must = [clause for clause in map(clauses().__getitem__, levels()) if clause.level is Binding.MUST]
    rows = levels_of(runs.run())
    assert sum(row.total for row in rows) == len(must)
    assert sum(row.passed for row in rows) == len(must)
    rows = levels_of(runs.run(not_claimed=Level.DATA))
    assert sum(row.passed for row in rows) == sum(level_of(clause.id) is not Level.DATA for clause in must)


def test_a_skip_lowers_what_passed_and_never_the_total() -> None:
    (before,) = (row for row in levels_of(runs.run()) if row.level is Level.EVENTS)
    skipped = runs.run(statuses={"EVENT-NET-1": Status.SKIP, "EVENT-ORDER-1": Status.SKIP})
    (after,) = (row for row in levels_of(skipped) if row.level is Level.EVENTS)
    assert (after.total, after.passed, after.exercised) == (before.total, before.passed - 1, before.exercised - 1)
    assert after.missing == ("EVENT-NET-1",)


def test_the_numbers_of_a_level_add_up_also_if_it_is_not_claimed() -> None:
    run = runs.run([runs.failure()], {"EVENT-NET-1": Status.SKIP}, not_claimed=Level.DATA)
    run = with_row(run, "CONTENT-READ-1", exercised={"random": 5})  # a pool may read all the same
    rows = levels_of(run)
    assert all(row.passed + row.failed + len(row.missing) == row.total for row in rows)
    (not_claimed,) = (row for row in rows if not row.claimed)
    assert len(not_claimed.missing) == not_claimed.total


def test_a_level_has_the_status_of_its_worst_clause() -> None:
    run = runs.run([runs.failure()], not_claimed=Level.DATA)
    found = {row.level: row.status for row in levels_of(run)}
    assert found[Level.ORDER] is Status.FAIL
    assert found[Level.POOL] is Status.PASS
    assert found[Level.DATA] is Status.DISABLED


@pytest.mark.parametrize("status", [Status.SKIP, Status.UNKNOWN])
def test_a_claimed_level_has_not_passed_while_a_clause_of_it_was_not_judged(status: Status) -> None:
    found = {row.level: row.status for row in levels_of(runs.run([runs.failure()], {"POOL-MOVE-2": status}))}
    assert found[Level.POOL] is status
    assert found[Level.ORDER] is Status.FAIL


# Exit codes


def test_all_claims_exercised_and_passed_is_conformant() -> None:
    run = runs.run()
    assert (exit_code(run), verdict(run)) == (ExitCode.CONFORMANT, "conformant")
    assert incoherences(run) == no_certificate(run) == []


def test_a_must_clause_that_fails_is_not_conformant() -> None:
    run = runs.run([runs.failure()])
    assert (exit_code(run), verdict(run)) == (ExitCode.NOT_CONFORMANT, "not conformant")
    assert no_certificate(run) == [], "a whole run is worth a certificate, whatever it says"


def test_a_should_clause_that_fails_breaks_nothing() -> None:
    assert exit_code(runs.run(statuses={"ERR-TEXT-1": Status.FAIL})) is ExitCode.CONFORMANT


@pytest.mark.parametrize(
    "broken",
    [
        lambda: runs.run([runs.failure()], {"POOL-INIT-1": Status.ERROR}),
        lambda: runs.run([runs.failure()], stages=(StageRow("smoke", Status.ERROR, reason="it ended"),)),
    ],
)
def test_an_adapter_that_broke_is_an_error_and_no_failure(broken: object) -> None:
    assert callable(broken)
    run = broken()
    assert exit_code(run) is ExitCode.ADAPTER_ERROR
    assert any("adapter broke" in reason for reason in no_certificate(run))


def test_a_run_in_which_nothing_was_exercised_says_so() -> None:
    run = runs.run(statuses=dict.fromkeys(clauses(), Status.SKIP))
    assert exit_code(run) is ExitCode.NOTHING_RAN
    assert "nothing was exercised" in no_certificate(run)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (runs.run(statuses={"POOL-INIT-1": Status.UNKNOWN}), r"1 claimed clauses were not .* \(unknown\): POOL-INIT-1"),
        (runs.run(statuses={"POOL-INIT-1": Status.SKIP}), r"1 claimed clauses were not .* \(skip\): POOL-INIT-1"),
        (runs.run(unfinished="interrupted"), "the run was not finished: interrupted"),
        (runs.run(filters=("stage traces",)), "left out on request: stage traces"),
        (runs.run(non_vacuity={"a cached block was evicted": 0}), "never happened: a cached block was evicted"),
        (runs.run(mutation=MutationControl(3, 2, "in this run")), "caught 2 of 3 planted faults"),
        (runs.run(stages=(StageRow("traces", Status.SKIP, reason="no files"),)), "stage traces: no files"),
    ],
)
def test_a_run_with_an_open_end_is_inconclusive_and_gets_no_certificate(run: Run, reason: str) -> None:
    assert exit_code(run) is ExitCode.INCONCLUSIVE
    assert [text for text in open_ends(run) if re.search(reason, text)]
    assert open_ends(run) == no_certificate(run)


def test_what_is_not_claimed_leaves_no_open_end() -> None:
    capabilities = Capabilities((Level.POOL,))
    unclaimed = {clause: Status.DISABLED for clause, level in levels().items() if level is not Level.POOL}
    assert exit_code(runs.run(statuses=unclaimed, capabilities=capabilities)) is ExitCode.CONFORMANT
    assert exit_code(runs.run(statuses={**unclaimed, "EVENT-NET-1": Status.SKIP}, capabilities=capabilities)) == 0


def test_a_failure_counts_more_than_an_open_end() -> None:
    assert exit_code(runs.run([runs.failure()], unfinished="interrupted")) is ExitCode.NOT_CONFORMANT


# Known divergences


def test_a_known_failure_is_nothing_new_and_gets_no_certificate() -> None:
    run = runs.run([runs.failure()], known=(KNOWN,))
    assert (exit_code(run), verdict(run)) == (ExitCode.CONFORMANT, NOTHING_NEW)
    assert len(no_certificate(run)) == 1


def test_a_known_failure_counts_again_after_its_last_day() -> None:
    run = runs.run([runs.failure()], known=(KNOWN,), date="2027-01-31")
    assert exit_code(run) is ExitCode.CONFORMANT
    assert exit_code(msgspec.structs.replace(run, date="2027-02-01")) is ExitCode.NOT_CONFORMANT


def test_another_failure_than_the_known_one_is_new() -> None:
    other = KnownDivergence("POOL-FREE-2", "something else")
    run = runs.run([runs.failure()], {"POOL-FREE-2": Status.SKIP}, known=(other,))
    assert exit_code(run) is ExitCode.NOT_CONFORMANT


@pytest.mark.parametrize("clause", ["POOL-FREE-3", "NO-SUCH-1"])
def test_a_known_failure_that_passes_or_does_not_exist_is_an_error(clause: str) -> None:
    run = runs.run(known=(KnownDivergence(clause, "was so once"),))
    assert exit_code(run) is ExitCode.USAGE


def test_an_empty_file_of_known_divergences_gets_no_certificate_either() -> None:
    assert len(no_certificate(runs.run(known=()))) == 1


# Contradictions


@pytest.mark.parametrize(
    ("clause", "changes", "complaint"),
    [
        ("POOL-INIT-1", {"exercised": {}}, "POOL-INIT-1: it passed and was never exercised"),
        ("POOL-INIT-1", {"exercised": {"random": 0}}, "POOL-INIT-1: it passed and was never exercised"),
        ("POOL-INIT-1", {"level": Level.EVENTS}, "POOL-INIT-1: it has another level"),
        ("POOL-INIT-1", {"binding": Binding.MAY}, "POOL-INIT-1: it has another level"),
        ("POOL-INIT-1", {"status": Status.FAIL}, "POOL-INIT-1: it fails and no failure shows how"),
        ("POOL-INIT-1", {"status": Status.SKIP}, "POOL-INIT-1: it was not judged and no reason is given"),
        (runs.FAILING, {"status": Status.PASS}, "its clause does not fail"),
    ],
)
def test_a_row_that_cannot_be_true_is_noticed(clause: str, changes: dict[str, object], complaint: str) -> None:
    run = with_row(runs.run([runs.failure()]), clause, **changes)
    assert any(complaint in each for each in incoherences(run))
    assert any(complaint in each for each in no_certificate(run))


def test_a_clause_left_out_is_noticed() -> None:
    run = runs.run()
    assert incoherences(msgspec.structs.replace(run, clauses=run.clauses[1:]))
    assert incoherences(msgspec.structs.replace(run, clauses=(*run.clauses, run.clauses[0])))


def test_a_row_of_an_unknown_clause_is_noticed() -> None:
    row = ClauseRow("NO-SUCH-1", Binding.MUST, Level.POOL, Status.PASS, {"random": 1})
    run = runs.run()
    assert incoherences(msgspec.structs.replace(run, clauses=(*run.clauses, row)))


def test_two_failures_of_one_name_are_noticed() -> None:
    assert any("two failures are called" in each for each in incoherences(runs.run([runs.failure()] * 2)))


def test_a_backend_that_names_no_files_gets_no_certificate() -> None:
    (reason,) = no_certificate(runs.anonymous(runs.run()))
    assert "`files`" in reason
