"""`kvproof bench`: how fast and how large the native pool is, beside vLLM's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from kvproof.conformance.bench.plan import FULL, QUICK
from kvproof.conformance.bench.results import save
from kvproof.conformance.bench.run import run
from kvproof.conformance.bench.show import show_report
from kvproof.conformance.bench.sides import BenchError
from kvproof.conformance.terminal import complain, say

USAGE, BROKEN = 2, 3
"""Exit codes; 0 says that everything was measured, whether or not the goals were reached."""

LOG_WIDTH = 160
"""Without a terminal nothing needs to be cut to fit one."""


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="A small run of some seconds; its numbers say little.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write what was measured to a file.")
    ] = None,
) -> None:
    """Measure the native block pool beside vLLM's, in one process, with every answer compared.

    Time of each operation in pools of 1,000 to 1,000,000 blocks, memory, the garbage collector, the slowest calls, and
    recorded requests. vLLM's column is empty without its environment, which `make vllm` builds in a checkout; the
    variable KVPROOF_VLLM names the Python of another one. Other programs disturb the numbers: the load average is
    shown.

    Exit code 0: measured. 2: wrong usage. 3: answers differ, or a pool could not be measured.

    Examples:

      kvproof bench                        everything, in some minutes

      kvproof bench --json bench.json      the same, and a file of it

      kvproof bench --quick                does it work here?

      KVPROOF_VLLM=~/vllm/bin/python kvproof bench
    """
    if json_file is not None and os.path.isdir(json_file):
        raise typer.BadParameter(f"--json {json_file} is a folder; name a file")
    console = Console()
    if not console.is_terminal:
        console.width = LOG_WIDTH
    try:
        with console.status("starting") as status:
            report = run(QUICK if quick else FULL, quick, _Progress(console, status).note)
    except BenchError as error:
        complain("bench", error)
        raise typer.Exit(BROKEN) from None
    show_report(console, report)
    if json_file is not None:
        try:
            save(report, json_file)
        except OSError as error:
            complain("bench", f"{json_file} cannot be written: {error.strerror}")
            raise typer.Exit(USAGE) from None


class _Progress:
    """One line for each part that is done; on a terminal also which one is running."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console, self._status = console, status

    def note(self, title: str, seconds: float | None) -> None:
        """A part begins, or took so many seconds."""
        if seconds is None:
            self._status.update(title)
        else:
            say(self._console, f"{title}: {seconds:.1f} s")
