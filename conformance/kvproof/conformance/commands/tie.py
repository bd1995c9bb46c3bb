"""`kvproof tie`: is the proved machine the running one?"""

from __future__ import annotations

from collections import Counter

import typer
from rich.console import Console
from rich.table import Table

from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    BeginStep,
    CachePartialBlock,
    Commit,
    Move,
    Write,
    describe,
)
from kvproof.conformance.scope import Scope
from kvproof.conformance.terminal import say
from kvproof.conformance.tie.lockstep import TieReport, tie_scope, tie_trace, tie_walk
from kvproof.conformance.tie.situations import SITUATIONS
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, PoolConfig, Residency

DISAGREED, NOT_ALL_MET = 1, 4

SCOPES = (
    Scope(1, ("a", "aa"), 2),
    Scope(2, ("a", "aa"), 1),
    Scope(2, ("a", "aa"), 1, GroupKind.RECURRENT),
    Scope(2, ("a", "aa"), 1, block_size=3),
    Scope(2, ("a",), 2, residency=Residency.PER_COPY),
    Scope(1, ("a", "aa"), 1, commit=CommitMode.STEPS),
    Scope(1, ("a",), 2, commit=CommitMode.STEPS),
    Scope(2, ("a",), 1, commit=CommitMode.STEPS),
    Scope(1, ("a", "aa"), 1, commit=CommitMode.STEPS, in_flight=2),
)
"""Small enough for every test run; prefixes are nested, or partial keys would never meet."""

MOVE_OF_SEVERAL_KEYS = (
    PoolConfig(3, 1, (GroupConfig(GroupKind.FULL_ATTENTION, 3),), commit=CommitMode.STEPS),
    (
        AddRequest("r1", (0, 0, 0)),
        BeginStep(),
        Allocate("r1", 1),
        Write("r1", 1, 2, 0),
        CachePartialBlock("r1", 1, 2, 0),
        CachePartialBlock("r1", 1, 1, 0),
        Commit(1),
        BeginStep(),
        Allocate("copy:1", 1),
        Move(1, 2),
        Commit(2),
    ),
)
"""A trace for what the scopes and walks hardly ever meet."""

WALKS = 24
STEPS_OF_A_WALK = 150


def tie() -> None:
    """Compare the reference with the abstract machine, operation by operation.

    In every reachable state of some small pools, and on random walks beyond, both are asked whether they allow each
    operation, and what it leaves behind is compared: references, queue, index, steps, content, readers, events.

    Exit code 0: they agree everywhere. 1: a disagreement, which is shown. 4: some situation was never met.

    Example:

      kvproof tie
    """
    console, total = Console(), TieReport()
    for scope in SCOPES:
        total.add(_tie_scope(console, scope))
    for seed in range(WALKS):
        total.add(report := tie_walk(seed, STEPS_OF_A_WALK))
        if report.disagreement is not None:
            _tell(console, f"walk with seed {seed}", report)
    total.add(tie_trace(*MOVE_OF_SEVERAL_KEYS))
    console.print(f"{WALKS} walks of {STEPS_OF_A_WALK} operations, seeds 0 to {WALKS - 1}")
    console.print(_coverage(total.met))
    if total.disagreement is not None:
        raise typer.Exit(DISAGREED)
    if missing := total.missing(SITUATIONS):
        say(console, "never met: " + "; ".join(missing))
        raise typer.Exit(NOT_ALL_MET)
    console.print(f"The two agree on {total.operations:,} operations, {total.allowed:,} of them allowed.")


def _tie_scope(console: Console, scope: Scope) -> TieReport:
    with console.status(scope.describe()) as status:
        report = tie_scope(scope, progress=lambda so_far: status.update(_counts(scope.describe(), so_far)))
    _tell(console, scope.describe(), report)
    return report


def _tell(console: Console, what: str, report: TieReport) -> None:
    say(console, _counts(what, report))
    if report.disagreement is not None:
        say(console, f"they disagree on {describe(report.disagreement.operation)}")
        for reason in report.disagreement.reasons:
            say(console, f"  {reason}")


def _counts(what: str, report: TieReport) -> str:
    counts = f"{report.states:,} states, {report.operations:,} operations, {report.allowed:,} allowed"
    return f"{what}: {counts}, {report.seconds:.1f} s"


def _coverage(met: Counter[str]) -> Table:
    table = Table("transition", "situation", "met", title="What the transitions met", title_justify="left")
    for name, situations in SITUATIONS.items():
        for what in situations:
            table.add_row(name, what, f"{met[f'{name}: {what}']:,}")
    return table
