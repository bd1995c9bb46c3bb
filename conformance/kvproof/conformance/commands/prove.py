"""`kvproof prove`: the proofs of the abstract machine."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kvproof.conformance.terminal import bar_of_jobs, did_you_mean

NOT_PROVED, USAGE, NO_SOLVER, UNDECIDED = 1, 2, 3, 4
"""Exit codes; 0 says that everything is proved, and that it says something."""

WORKERS = min(2, os.cpu_count() or 1)

LOG_INTERVAL = 5.0
"""Seconds between two lines of progress where there is no terminal to redraw."""


def prove(
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the results as JSON; - for the standard output.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.001, max=86_400.0, help="Seconds that z3 gets for each question.")
    ] = 60.0,
    show: Annotated[
        str | None, typer.Option(metavar="MUTANT", help="Show a planted mutant and the counterexample to it, no more.")
    ] = None,
) -> None:
    """Prove the invariants of the pool, for any number of blocks, keys, requests and steps.

    z3 proves that every transition of the abstract machine keeps every invariant; so it does for requests that run over
    several groups, for loops that find the joint hit, and for the split. Then it is shown that this says something:
    every transition can happen, every theorem is broken by a planted mutant, and the hash's injectivity is used exactly
    where keys are registered. It takes less than a minute on two idle cores.

    Exit code 0: all proved, nothing vacuous. 1: something is not. 2: wrong usage. 3: no z3. 4: nothing is known to be
    wrong, but z3 did not decide everything, perhaps as the machine is slow or busy.

    Examples:

      kvproof prove

      kvproof prove --json proofs.json

      kvproof prove --timeout 300                    on a slow or busy machine

      kvproof prove --show write_under_a_reader      what a broken machine looks like
    """
    try:
        import z3  # noqa: F401
    except ImportError as missing:
        typer.echo(f"kvproof prove: z3 cannot be used ({missing}); remedy: pip install 'kvproof[proofs]'", err=True)
        raise typer.Exit(NO_SOLVER) from None
    if show is not None:
        _show_mutant(show, timeout)
    else:
        _prove_all(json_file, timeout)


def _prove_all(json_file: str | None, timeout: float) -> None:
    from kvproof.conformance.show_proofs import as_json, show_report
    from kvproof.spec.proofs.run import all_jobs, run_jobs

    if json_file not in (None, "-"):
        _check_writable(Path(json_file))
    console = Console(stderr=json_file == "-")
    jobs = all_jobs(timeout)
    with _Progress(console, len(jobs)) as progress:
        report = run_jobs(jobs, WORKERS, progress.show)
    show_report(console, report, timeout)
    if json_file is not None:
        text = json.dumps(as_json(report), indent=1)
        print(text) if json_file == "-" else Path(json_file).write_text(text + "\n", encoding="utf-8")
    if report.complaints():
        raise typer.Exit(UNDECIDED if report.is_merely_undecided() else NOT_PROVED)


def _check_writable(file: Path) -> None:
    """Better now than after the proofs."""
    try:
        file.open("a", encoding="utf-8").close()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be written: {error.strerror}") from None


def _show_mutant(name: str, timeout: float) -> None:
    from kvproof.conformance.show_proofs import show_mutant
    from kvproof.spec.proofs.catalogue import MACHINE_MUTANTS
    from kvproof.spec.proofs.counterexample import find
    from kvproof.spec.proofs.mutants import mutated

    known = {mutant.name: mutant for mutant in MACHINE_MUTANTS}
    if name not in known:
        hint = did_you_mean(name, known, f"there are {', '.join(known)}")
        raise typer.BadParameter(f"there is no mutant {name}; {hint}")
    found = find(known[name].breaks, mutated(known[name]), timeout)
    show_mutant(Console(), known[name], found)
    if found is None:
        raise typer.Exit(NOT_PROVED)


class _Progress:
    """Redraws a bar on a terminal; elsewhere, such as in the log of a test run, prints a line now and then."""

    def __init__(self, console: Console, jobs: int) -> None:
        self._console, self._jobs = console, jobs
        self._start = self._told = time.monotonic()
        self._bar = bar_of_jobs(console)
        self._task = self._bar.add_task("proving", total=jobs)

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def show(self, done: int) -> None:
        """Take note of how many jobs are done."""
        self._bar.update(self._task, completed=done)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._told >= LOG_INTERVAL:
            self._told = now
            self._console.print(f"{done} of {self._jobs} jobs, {now - self._start:.0f} s", highlight=False)
