"""Results in a terminal: the short table, and the page of each failure."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvproof.conformance.backends.interface import LEVELS
from kvproof.conformance.certification.failure import CRASH, FAILURES, replay_from_here, replay_of_crash
from kvproof.conformance.certification.pages import HEADINGS, StateTable, page_of
from kvproof.conformance.certification.result import Crash, Failure, Run, StageRow, Status
from kvproof.conformance.certification.timeline import CELLS, Moment, pool_in_words, timeline_of
from kvproof.conformance.certification.trace import Trace
from kvproof.conformance.certification.verdict import (
    ExitCode,
    LevelRow,
    errors,
    exit_code,
    expired,
    levels_of,
    open_ends,
    stale,
    verdict,
)
from kvproof.conformance.mutation.mutant import FAULT_KINDS
from kvproof.conformance.terminal import clipped, counted, say
from kvproof.spec.clauses import clauses

NAMED = 4
"""Clauses that are named where a row says what was not asked; the report has them all."""

LAST_MOMENTS = 20
"""Operations that are shown of a crash; its file has them all."""

DIFFERS = "» "
"""Stands before a cell that differs."""

_STYLES = {Status.PASS: "green", Status.FAIL: "bold red", Status.ERROR: "bold red", Status.SKIP: "yellow"}


def show_run(console: Console, run: Run, folder: Path | None = None) -> None:
    """The page of each failure, the table of levels, and the outcome last, where a log ends.

    The lines that replay failures are for the current folder, if the run is written to this one.
    """
    for failure in run.failures:
        show_failure(console, failure, None if folder is None else folder / FAILURES / failure.id)
        console.print()
    console.print(_levels(run))
    for row in run.stages:
        say(console, _stage(row), _STYLES.get(row.status, "dim"))
    if run.mutation is not None:
        control = run.mutation
        say(console, f"planted faults: {control.caught} of {control.planted} caught, {control.source}")
        say(
            console,
            f"each after {control.median_seconds:.2f} CPU s (median), at most {control.most_seconds:.2f}",
            "dim",
        )
    for line in run.honesty:
        say(console, line, "dim")
    console.print()
    if run.crash is not None:
        _show_crash(console, run.crash, run.target, None if folder is None else folder / CRASH)
    for line in errors(run) or _what_is_left(run):
        say(console, line)
    if (run.failures or run.crash) and folder is None:
        say(console, "With --out DIR the traces are kept, to be replayed.")
    outcome = verdict(run)
    style = "bold green" if exit_code(run) is ExitCode.CONFORMANT else "bold red"
    say(console, f"{run.identity.name} {run.identity.version}: {outcome} (seed {run.seed})", style)


def _stage(row: StageRow) -> str:
    """What a stage did, or why it did nothing; what broke is said at the end."""
    if row.status is Status.ERROR:
        return f"{row.name}: the adapter broke"
    if not row.counts:
        return f"{row.name}: {row.status.value}, {row.reason or 'nothing ran'}"
    counts = ", ".join(counted(count, name) for name, count in row.counts.items())
    why = f", {row.reason}" if row.reason else ""
    return f"{row.name}: {row.status.value}, {counts}, {row.cpu_seconds:.1f} CPU s{why}"


def _what_is_left(run: Run) -> list[str]:
    """What keeps a run from being conclusive, though the adapter held, and what is wrong with known divergences."""
    return [
        *(f"known to fail, and does not: {clause}" for clause in stale(run)),
        *(f"known to fail until {each.until}, which has expired: {each.clause}" for each in expired(run)),
        *open_ends(run),
    ]


def _levels(run: Run) -> Table:
    table = Table("level", "claimed", "status", "passed", "not asked")
    for row in levels_of(run):
        status = Text(row.status.value, _STYLES.get(row.status, "dim"))
        passed = f"{row.passed} of {row.total}"
        table.add_row(f"{row.level.value} {_short(row)}", "yes" if row.claimed else "no", status, passed, _missing(row))
    return table


def _short(row: LevelRow) -> str:
    return LEVELS[row.level].partition(":")[0]


def _missing(row: LevelRow) -> str:
    if not row.missing:
        return "nothing"
    if len(row.missing) == row.total:
        return f"all {row.total}"
    more = len(row.missing) - NAMED
    return ", ".join(row.missing[:NAMED]) + (f" and {more} more" if more > 0 else "")


def show_failure(console: Console, failure: Failure, folder: Path | None = None) -> None:
    """The clause in words, the trace, what differs, the states, the kind of fault.

    The line that replays it too, if it is, or will be, in a folder.
    """
    page = page_of(failure)
    say(console, f"Failure {failure.id}", "bold red")
    if clause := clauses().get(failure.clause):
        say(console, f"{clause.id} ({clause.level.value}): {clause.sentence}")
    console.print()
    say(console, f"In {pool_in_words(failure.trace.header.config)}:", "dim")
    _show_moments(console, page.timeline.moments[1:])
    console.print()
    for part, expected, got in page.mismatches:
        _show_lines(console, f"{part}, expected:", expected, "green")
        _show_lines(console, f"{part}, got:", got, "red")
    for state in page.states:
        console.print(_state(state, page.cells))
    if failure.fault:
        say(console, f"kind of fault: {failure.fault}, {FAULT_KINDS.get(failure.fault, 'unknown')}")
    if failure.harm:
        say(console, f"usual harm: {failure.harm}")
    seed = "" if failure.seed is None else f", seed {failure.seed}"
    again = f", shown again {failure.replayed} of {failure.replays} times" if failure.replays else ""
    shrunk = f"{counted(failure.operations, 'operations')}, {failure.found_operations} when it was found"
    say(console, f"found by stage {failure.stage}{seed}: {shrunk}{again}", "dim")
    if folder is not None:
        say(console, replay_from_here(failure, folder), "bold")


def _show_crash(console: Console, crash: Crash, target: str, folder: Path | None) -> None:
    """The last operations that the adapter was asked for before it broke, and the line that runs them again."""
    length = counted(len(crash.trace.steps), "operations")
    say(console, f"Where the adapter broke: in stage {crash.stage}, after {length}", "bold red")
    say(console, f"In {pool_in_words(crash.trace.header.config)}:", "dim")
    moments = timeline_of(crash.trace).moments[1:]
    left_out = max(0, len(moments) - LAST_MOMENTS)
    if left_out:
        say(console, f"     (before: {counted(left_out, 'operations')})", "dim")
    _show_moments(console, moments[left_out:], left_out)
    if crash.again:
        say(console, f"it breaks there again; when it was found, there were {crash.found_operations}", "dim")
    else:
        say(console, "it did not break again when they were repeated", "dim")
    if folder is not None:
        say(console, replay_of_crash(target, folder), "bold")
    console.print()


def show_trace(console: Console, trace: Trace) -> None:
    """A trace as it should go: each operation with its answer and its events."""
    if trace.header.name:
        say(console, trace.header.name, "bold")
    for clause in map(clauses().get, trace.header.clauses):
        if clause is not None:
            say(console, f"{clause.id} ({clause.level.value}): {clause.sentence}")
    if trace.header.reports:
        say(console, f"publicly reported: {', '.join(trace.header.reports)}")
    say(console, f"In {pool_in_words(trace.header.config)}:", "dim")
    moments = timeline_of(trace).moments
    _show_moments(console, moments[1:])
    console.print(_state(StateTable("expected", "at the end", moments[-1].blocks, frozenset()), CELLS))
    _show_lines(console, "free queue, next victim first:", " ".join(map(str, moments[-1].queue)) or "empty")


def _show_moments(console: Console, moments: tuple[Moment, ...], before: int = 0) -> None:
    for number, moment in enumerate(moments, before + 1):
        answer = f" → {moment.answer}" if moment.answer else ""
        say(console, f"{number:3}  {moment.operation}{answer}")
        for event in moment.events:
            say(console, f"       {event}", "dim")


def _show_lines(console: Console, title: str, text: str, style: str = "") -> None:
    """A title, and the text beside it, or below it if it has several lines."""
    text = clipped(text)
    if "\n" not in text:
        say(console, f"{title} {text}", style)
        return
    say(console, title, style)
    for line in text.split("\n"):
        say(console, f"  {line}", style)


def _state(state: StateTable, shown: tuple[str, ...]) -> Table:
    table = Table(title=state.title, title_justify="left")
    for heading in ("block", *(HEADINGS[cell] for cell in shown)):
        table.add_column(heading)
    for row in state.rows:
        cells = [(clipped(getattr(row, cell)), (row.block, cell) in state.marked) for cell in shown]
        texts = [Text(DIFFERS + text if marked else text, "bold red" if marked else "") for text, marked in cells]
        table.add_row(str(row.block), *texts)
    return table
