"""What the commands share: plain lines, complaints, a bar for jobs, a hint for a mistyped name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

MOST_CHARACTERS = 6000
"""Of a longer text a terminal is shown beginning and end; the files of `--out` have it whole."""

_NOT_PRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What would move the cursor, turn the text around, or cannot be written: all controls but line feed and tab."""


def printable(text: str) -> str:
    """The text with what is not printable spelled out, as `\\x1b`."""
    return _NOT_PRINTABLE.sub(lambda found: repr(found[0])[1:-1], text)


def clipped(text: str) -> str:
    """The text, without its middle if it is long."""
    if (left_out := len(text) - MOST_CHARACTERS) <= 0:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]} ... ({left_out:,} characters are left out here) ... {text[-half:]}"


def say(console: Console, text: str, style: str = "") -> None:
    """One text as it is: nothing in it is markup or a control, and it is not cut to the width, but see `clipped`."""
    console.print(clipped(printable(text)), style=style, markup=False, highlight=False, soft_wrap=True)


def complain(command: str, text: object) -> None:
    """Say on standard error why a command ends as it does."""
    typer.echo(f"kvproof {command}: {clipped(printable(str(text)))}", err=True)


def counted(count: int, things: str) -> str:
    """A count with its noun, which is given in the plural: "1 pool", "2,000 pools"."""
    return f"{count:,} {things.removesuffix('s') if count == 1 else things}"


def bar_of_jobs(console: Console) -> Progress:
    """A bar that vanishes when all is done, and shows nothing where there is no terminal to redraw."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def did_you_mean(name: str, known: Collection[str], otherwise: str) -> str:
    """The known names that are like this one, or else the other hint."""
    close = difflib.get_close_matches(name, known, n=3)
    return f"did you mean {', '.join(close)}?" if close else otherwise
