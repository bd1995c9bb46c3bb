"""`kvproof certify-mutants`: would a certification notice a wrong pool, and name what is wrong with it?"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console

from kvproof.conformance.certification.trials import Trial, Trials, complaints_about, run_trials, save
from kvproof.conformance.commands.mutants import chosen_mutants
from kvproof.conformance.terminal import bar_of_jobs, say

NOTICED, NOT_NOTICED = 0, 1


def certify_mutants(
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Certify this mutant alone; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything that is random.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="How many mutants at a time.")] = 2,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the results to a file.")
    ] = None,
) -> None:
    """Certify every mutant of the reference: each has to fail, and by a clause that it breaks.

    The stages are those of the standard profile. Mutants that no backend could have, such as those of the suite's own
    checks, have to pass.

    Exit code 1: a mutant got away, fails by other clauses only, or was noticed although no trace should show it.

    Examples:

      kvproof certify-mutants --json build/results/certified-mutants.json

      kvproof certify-mutants --only mask_is_ignored --seed 7
    """
    console, names = Console(), chosen_mutants(only)
    done = _run(console, names, seed, workers)
    if json_file is not None:
        save(done, json_file)
    complaints = [f"{trial.mutant}: {text}" for trial in done.trials for text in complaints_about(trial)]
    for complaint in complaints:
        say(console, complaint, "bold red")
    seconds = [trial.kill_seconds for trial in done.trials if trial.kill_seconds is not None]
    if seconds:
        say(console, f"{len(seconds)} noticed: median {median(seconds):.2f} CPU s, at most {max(seconds):.2f}")
    say(
        console, f"{len(done.trials)} mutants, {len(complaints)} complaints", "bold red" if complaints else "bold green"
    )
    raise typer.Exit(NOT_NOTICED if complaints else NOTICED)


def _run(console: Console, names: list[str], seed: int, workers: int) -> Trials:
    """Run with a progress bar in a terminal, and a line for each mutant elsewhere."""
    if not console.is_terminal:
        return run_trials(names, seed, workers, lambda trial: print(_line(trial), flush=True))
    with bar_of_jobs(console) as progress:
        bar = progress.add_task("mutants", total=len(names))
        return run_trials(
            names, seed, workers, lambda trial: progress.update(bar, advance=1, description=trial.mutant[:40])
        )


def _line(trial: Trial) -> str:
    if trial.kill_seconds is None:
        return f"{trial.mutant}: {trial.error or 'not noticed'}"
    return f"{trial.mutant}: {trial.killed_by} after {trial.kill_seconds:.2f} CPU s: {', '.join(trial.clauses)}"
