"""`kvproof explore`: every state of a small pool."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from kvproof.conformance.explore import Exploration
from kvproof.conformance.explore import explore as explore_scope
from kvproof.conformance.scope import Scope, ScopeError
from kvproof.conformance.show import show_violation
from kvproof.spec.vocabulary import CommitMode, GroupKind, Residency

VIOLATION, USAGE, OUT_OF_TIME = 1, 2, 4
"""Exit codes; 0 says that all states were visited and nothing was found."""

LOG_INTERVAL = 10.0
"""Seconds between two lines of progress where there is no terminal to redraw."""


def explore(
    blocks: Annotated[int, typer.Option(help="Usable blocks; the null block comes on top.")] = 3,
    keys: Annotated[str, typer.Option(help="Token prefixes in letters: a and aa are nested.")] = "a,aa",
    refs: Annotated[int, typer.Option(help="Requests that share each longest key.")] = 2,
    kind: Annotated[GroupKind, typer.Option(help="Kind of the group.")] = GroupKind.FULL_ATTENTION,
    block_size: Annotated[
        int | None, typer.Option(help="Tokens in a block; by default the longest key's, so shorter keys are partial.")
    ] = None,
    residency: Annotated[Residency, typer.Option(help="What the events mirror.")] = Residency.LOGICAL,
    commit: Annotated[CommitMode, typer.Option(help="When keys are published: at once, or with their step.")] = (
        CommitMode.IMMEDIATE
    ),
    in_flight: Annotated[int, typer.Option(help="Most steps that are open at once; only with --commit steps.")] = 1,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="Give up after this time.")] = None,
) -> None:
    """Visit every state that a small pool can reach and check each completely.

    The reference pool runs all legal operations in all orders, up to renaming of blocks and requests. Its invariants
    are checked after each one, and what a consumer of its events knows.

    Exit code 0: all states visited, nothing wrong. 1: a violation, with a shortest trace. 2: wrong usage. 4: out of
    time, nothing wrong so far.

    Examples:

      kvproof explore

      kvproof explore --blocks 2 --keys a,aa,ab --refs 1

      kvproof explore --blocks 2 --keys a,aa --kind recurrent

      kvproof explore --blocks 4 --keys a,aa --refs 1 --max-seconds 60

      kvproof explore --blocks 1 --commit steps --in-flight 2
    """
    try:
        scope = Scope(blocks, tuple(keys.split(",")), refs, kind, block_size, residency, commit, in_flight)
    except ScopeError as error:
        typer.echo(f"kvproof explore: {error}", err=True)
        raise typer.Exit(USAGE) from None
    console = Console()
    with console.status("exploring") as status:
        found = explore_scope(scope, max_seconds, _Progress(console, status).show)
    _summarize(console, found)
    if found.violation:
        raise typer.Exit(VIOLATION)
    if not found.complete:
        raise typer.Exit(OUT_OF_TIME)


class _Progress:
    """Redraws one line on a terminal; elsewhere, such as in the log of a test run, prints a line now and then."""

    def __init__(self, console: Console, status: Status) -> None:
        self.console = console
        self.status = status
        self.due = LOG_INTERVAL

    def show(self, so_far: Exploration) -> None:
        """Take note of how far the exploration is."""
        rate = so_far.states / max(so_far.seconds, 1e-9)
        text = (
            f"{so_far.states:,} states, {so_far.frontier:,} of them to be visited, depth {so_far.depth}, "
            f"{rate:,.0f} states/s, {so_far.seconds:.0f} s"
        )
        if self.console.is_terminal:
            self.status.update(text)
        elif so_far.seconds >= self.due:
            self.due = so_far.seconds + LOG_INTERVAL
            self.console.print(text, highlight=False, soft_wrap=True)


def _summarize(console: Console, found: Exploration) -> None:
    if found.violation:
        show_violation(console, found.violation)
    elif found.complete:
        console.print("[bold green]Complete:[/] every reachable state was visited, and nothing is wrong with any.")
    else:
        console.print(
            f"[bold yellow]Out of time:[/] nothing wrong so far, but {found.frontier:,} states were not visited."
        )
    console.print()
    console.print(found.scope.describe(), highlight=False, soft_wrap=True)
    console.print(_table(found))


def _table(found: Exploration) -> Table:
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("states", f"{found.states:,}")
    table.add_row("transitions", f"{found.transitions:,}")
    table.add_row("depth", str(found.depth))
    table.add_row("seconds", f"{found.seconds:.1f}", end_section=True)
    for name, count in found.coverage.items():
        table.add_row(name, f"{count:,}" if count else "never")
    return table
