"""`kvproof explain`: a saved failure, or a trace, in words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kvproof.conformance.certification.failure import FACTS_FILE, TRACE_FILE, read_failure
from kvproof.conformance.certification.show import show_failure, show_trace
from kvproof.conformance.certification.trace import TraceError, read_file
from kvproof.conformance.certification.verdict import ExitCode
from kvproof.conformance.terminal import complain


def explain(
    place: Annotated[
        Path, typer.Argument(metavar="FAILURE", help="The folder of a failure, failures/ID, or a trace in JSON lines.")
    ],
) -> None:
    """Show what a failure is: the clause in words, the trace, expected and got, the states, the kind of fault.

    A trace that belongs to no failure is shown as it should go. Exit code 2: the file is no trace, or is not there.

    Examples:

      kvproof explain out/failures/POOL-FREE-2.free.free_queue

      kvproof explain trace.jsonl
    """
    console = Console()
    try:
        if os.path.isdir(place):  # false also where the name is too long for one
            show_failure(console, read_failure(place), place)
        elif place.name == TRACE_FILE and os.path.isfile(place.parent / FACTS_FILE):
            show_failure(console, read_failure(place.parent), place.parent)
        else:
            show_trace(console, read_file(place))
    except TraceError as error:
        complain("explain", error)
        raise typer.Exit(ExitCode.USAGE) from None
