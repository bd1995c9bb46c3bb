"""What follows from a run: the exit code, how each level did, and whether there can be a certificate."""

from __future__ import annotations

from enum import IntEnum

from kvproof.conformance.backends.interface import Level
from kvproof.conformance.backends.wire import Wire
from kvproof.conformance.certification.levels import level_of, levels
from kvproof.conformance.certification.result import ClauseRow, KnownDivergence, Run, RunFacts, StageRow, Status
from kvproof.spec.clauses import Level as Binding
from kvproof.spec.clauses import clauses


class ExitCode(IntEnum):
    """How `kvproof certify` and its relatives end."""

    CONFORMANT = 0
    NOT_CONFORMANT = 1
    USAGE = 2
    ADAPTER_ERROR = 3
    INCONCLUSIVE = 4
    NOTHING_RAN = 5


IN_WORDS = {
    ExitCode.CONFORMANT: "conformant",
    ExitCode.NOT_CONFORMANT: "not conformant",
    ExitCode.USAGE: "known divergences that are none",
    ExitCode.ADAPTER_ERROR: "adapter error",
    ExitCode.INCONCLUSIVE: "inconclusive",
    ExitCode.NOTHING_RAN: "nothing ran",
}

NOTHING_NEW = "nothing new: what fails is known"


class LevelRow(Wire, frozen=True):
    """How a level did, over all its MUST clauses, whatever was asked of them.

    `missing` are those that were not judged: of a level that is not claimed all but those that fail. The status of a
    level is the greatest of its clauses', but it has not passed while a claimed clause was not judged.
    """

    level: Level
    claimed: bool
    status: Status
    total: int
    passed: int
    failed: int
    exercised: int
    missing: tuple[str, ...]


def levels_of(run: RunFacts) -> tuple[LevelRow, ...]:
    """A row for each level that has clauses, in the order of `Level`."""
    rows = [_level_row(run, level) for level in Level]
    return tuple(row for row in rows if row.total)


def _level_row(run: RunFacts, level: Level) -> LevelRow:
    rows = [row for row in _binding(run) if row.level is level]
    claimed = level in run.capabilities.levels
    return LevelRow(
        level,
        claimed,
        _status_of(claimed, {row.status for row in rows}),
        len(rows),
        sum(row.status is Status.PASS for row in rows),
        sum(row.status is Status.FAIL for row in rows),
        sum(row.is_exercised for row in rows),
        tuple(row.clause for row in rows if row.status < Status.PASS),
    )


def _status_of(claimed: bool, statuses: set[Status]) -> Status:
    greatest = max(statuses, default=Status.DISABLED)
    unjudged = statuses & {Status.UNKNOWN, Status.SKIP}
    return min(unjudged) if claimed and unjudged and greatest is Status.PASS else greatest


def exit_code(run: RunFacts) -> ExitCode:
    """The exit code of a run. Only MUST clauses decide; a SHOULD that fails is shown and breaks nothing."""
    if errors(run):
        return ExitCode.ADAPTER_ERROR
    if not any(row.is_exercised for row in run.clauses):
        return ExitCode.NOTHING_RAN
    if new_failures(run):
        return ExitCode.NOT_CONFORMANT
    if stale(run):
        return ExitCode.USAGE
    return ExitCode.INCONCLUSIVE if open_ends(run) else ExitCode.CONFORMANT


def verdict(run: RunFacts) -> str:
    """The outcome in words."""
    code = exit_code(run)
    if code is ExitCode.CONFORMANT and failed(run):
        return NOTHING_NEW
    return IN_WORDS[code]


def errors(run: RunFacts) -> list[str]:
    """The stages and clauses in which the adapter broke, and how."""
    rows: tuple[StageRow | ClauseRow, ...] = (*run.stages, *run.clauses)
    named = [(row.name if isinstance(row, StageRow) else row.clause, row) for row in rows]
    return [f"{name}: {row.reason or 'no reason given'}" for name, row in named if row.status is Status.ERROR]


def failed(run: RunFacts) -> list[str]:
    """The MUST clauses that fail, known or not."""
    return [row.clause for row in _binding(run) if row.status is Status.FAIL]


def new_failures(run: RunFacts) -> list[str]:
    """The MUST clauses that fail and are not known to, or no longer."""
    known = {each.clause for each in run.known or () if each not in expired(run)}
    return [clause for clause in failed(run) if clause not in known]


def expired(run: RunFacts) -> list[KnownDivergence]:
    """The known divergences whose last day is over."""
    return [each for each in run.known or () if each.until and run.date > each.until]


def stale(run: RunFacts) -> list[str]:
    """The clauses that are known to fail and passed, or that do not exist."""
    passed = {row.clause for row in run.clauses if row.status is Status.PASS}
    there = {row.clause for row in run.clauses}
    return [each.clause for each in run.known or () if each.clause in passed or each.clause not in there]


def open_ends(run: RunFacts) -> list[str]:
    """Why nothing can be concluded from a run in which nothing failed; one sentence each."""
    found = [f"the run was not finished: {run.unfinished}"] if run.unfinished else []
    found += [f"left out on request: {each}" for each in run.filters]
    claimed = [row for row in _binding(run) if row.level in run.capabilities.levels]
    for status in (Status.UNKNOWN, Status.SKIP):
        if missed := [row.clause for row in claimed if row.status is status]:
            found.append(f"{len(missed)} claimed clauses were not exercised ({status.value}): {', '.join(missed)}")
    found += [f"stage {row.name}: {row.reason or row.status.value}" for row in run.stages if row.status is Status.SKIP]
    found += [f"never happened: {name}" for name, count in run.non_vacuity.items() if not count]
    if run.mutation is not None and run.mutation.caught < run.mutation.planted:
        found.append(f"the suite caught {run.mutation.caught} of {run.mutation.planted} planted faults only")
    return found


def incoherences(run: Run) -> list[str]:
    """What cannot be true of a run, whatever was driven: mistakes of the suite, not of the backend."""
    found = []
    if [row.clause for row in run.clauses] != list(levels()):
        found.append("the rows are not exactly the clauses that a backend can be asked for")
    shown = {failure.clause for failure in run.failures}
    for row in run.clauses:
        if row.clause in levels():
            found += _incoherences_of(row, row.clause in shown)
    ids = [failure.id for failure in run.failures]
    found += [f"two failures are called {each}" for each in sorted({each for each in ids if ids.count(each) > 1})]
    fails = {row.clause for row in run.clauses if row.status is Status.FAIL}
    return found + [f"failure {each.id}: its clause does not fail" for each in run.failures if each.clause not in fails]


def _incoherences_of(row: ClauseRow, has_failure: bool) -> list[str]:
    found = []
    if (row.level, row.binding) != (level_of(row.clause), clauses()[row.clause].level):
        found.append("it has another level")
    if row.status is Status.PASS and not row.is_exercised:
        found.append("it passed and was never exercised")
    if row.status is Status.FAIL and not has_failure:
        found.append("it fails and no failure shows how")
    if row.status < Status.PASS and not row.reason:
        found.append("it was not judged and no reason is given")
    return [f"{row.clause}: {each}" for each in found]


def no_certificate(run: Run) -> list[str]:
    """Why there can be no certificate of a run, with the way out; empty if there can be one, whatever its verdict."""
    found = [f"the suite contradicts itself, which is a mistake of kvproof: {each}" for each in incoherences(run)]
    if run.known is not None:
        found.append("there were known divergences; without `--known` there is a certificate that says what fails")
    if not run.driven:
        found.append("the backend does not say which files were driven; its identity has to name them in `files`")
    if errors(run):
        return [*found, "the adapter broke"]
    if exit_code(run) is ExitCode.NOTHING_RAN:
        found.append("nothing was exercised")
    return found + open_ends(run)


def _binding(run: RunFacts) -> list[ClauseRow]:
    """The clauses that decide."""
    return [row for row in run.clauses if row.binding is Binding.MUST]
