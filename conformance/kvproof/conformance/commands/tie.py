"""`kvproof tie`: is the proved machine the running one?"""

from __future__ import annotations

from collections import Counter

import typer
from rich.console import Console
from rich.table import Table

from kvproof.conformance.operations import describe
from kvproof.conformance.terminal import say
from kvproof.conformance.tie.lockstep import TieReport
from kvproof.conformance.tie.situations import SITUATIONS
from kvproof.conformance.tie.standard import standard_ties

DISAGREED, NOT_ALL_MET = 1, 4


def tie() -> None:
    """Compare the reference with the abstract machine, operation by operation.

    In every reachable state of some small pools, and on random walks beyond, both are asked whether they allow each
    operation, and what it leaves behind is compared: references, queue, index, steps, content, readers, events.

    Exit code 0: they agree everywhere. 1: a disagreement, which is shown. 4: some situation was never met.

    Example:

      kvproof tie
    """
    console, total = Console(), TieReport()
    with console.status("comparing") as status:
        for what, report in standard_ties(lambda part, so_far: status.update(_counts(part, so_far))):
            total.add(report)
            _tell(console, what, report)
    console.print(_coverage(total.met))
    if total.disagreement is not None:
        raise typer.Exit(DISAGREED)
    if missing := total.missing(SITUATIONS):
        say(console, "never met: " + "; ".join(missing))
        raise typer.Exit(NOT_ALL_MET)
    console.print(f"The two agree on {total.operations:,} operations, {total.allowed:,} of them allowed.")


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
