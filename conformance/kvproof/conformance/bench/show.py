"""A report in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table as Grid

from kvproof.conformance.bench import tables
from kvproof.conformance.bench.goals import missed, verdicts
from kvproof.conformance.bench.results import Report
from kvproof.conformance.terminal import counted, say

MARKS = {"**MISSED**": "[bold red]MISSED[/]", "yes": "[green]yes[/]"}


def show_report(console: Console, report: Report) -> None:
    """Every table; the goals come last, where they are still on the screen."""
    for line in tables.conditions(report):
        say(console, line)
    first, *others = tables.tables(report)
    for table in (*others, first):
        console.print()
        console.print(_grid(table))
    found = verdicts(report)
    unknown = sum(verdict.met is None for verdict in found)
    lacking = f", {unknown} not judged" if unknown else ""
    say(console, f"{counted(len(missed(found)), 'goals')} of {len(found)} missed{lacking}", "bold")


def _grid(table: tables.Table) -> Grid:
    grid = Grid(title=table.title, title_justify="left")
    for number, column in enumerate(table.columns):
        grid.add_column(column, justify="right" if number and not table.words else "left")
    for row in table.rows:
        grid.add_row(*(MARKS.get(cell, cell) for cell in row))
    return grid
