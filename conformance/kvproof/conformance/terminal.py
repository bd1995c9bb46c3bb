"""What the commands share: plain lines, a bar for jobs, a hint for a mistyped name."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def say(console: Console, text: str, style: str = "") -> None:
    """One line as it is: nothing in it is markup, and it is not cut to the width."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def bar_of_jobs(console: Console) -> Progress:
    """A bar that vanishes when all is done, and shows nothing where there is no terminal to redraw."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def did_you_mean(name: str, known: Collection[str], otherwise: str) -> str:
    """The known names that are like this one, or else the other hint."""
    close = difflib.get_close_matches(name, known, n=3)
    return f"did you mean {', '.join(close)}?" if close else otherwise
