"""`kvproof mutants`: does the suite notice a wrong reference?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.clause_tests import TestsNotFound, find_tests
from kvproof.conformance.mutation.jobs import Job, MutantResult
from kvproof.conformance.mutation.layers import LAYERS, LAYERS_OF_TESTS
from kvproof.conformance.mutation.report import (
    CatalogueResults,
    StatementResults,
    explanation_of,
    is_judged,
    read_survivors,
    save,
    steps_of,
    unexplained,
)
from kvproof.conformance.mutation.run import complaints_about, run_jobs
from kvproof.conformance.mutation.targets import TARGETS
from kvproof.conformance.terminal import bar_of_jobs, did_you_mean, say

NOTICED, NOT_NOTICED = 0, 1

LOG_WIDTH = 240
"""Without a terminal nothing needs to be cut to fit one."""


def _known_target(name: str) -> str:
    if name not in TARGETS:
        raise typer.BadParameter(f"there is no target {name}; targets are {', '.join(TARGETS)}")
    return name


def mutants(
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Run this mutant alone; may be repeated.")
    ] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(metavar="LAYER", help=f"Run this layer alone; may be repeated: {', '.join(LAYERS)}."),
    ] = None,
    statements: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Mutate N statements at random, not the named mutants.")
    ] = None,
    of: Annotated[
        str, typer.Option(metavar="TARGET", help=f"Whose statements: {', '.join(TARGETS)}.", callback=_known_target)
    ] = "reference",
    seed: Annotated[int, typer.Option(help="Decides which statements.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="How many mutants at a time.")] = 2,
    seconds: Annotated[
        float | None,
        typer.Option(min=1.0, help="Limit for each layer of a mutant.", show_default="60, 120 or 600, by target"),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the results to a file.")
    ] = None,
) -> None:
    """Break the reference, the abstract machine or the native backend, and see which parts of the suite notice.

    Exit code 1: the clause tests did not notice a mutant, or a statement mutant survived and nobody knows why.

    Examples:

      kvproof mutants                              all named mutants, all layers

      kvproof mutants --only mask_is_ignored       one of them

      kvproof mutants --layer clauses              all of them, through the clause tests alone

      kvproof mutants --statements 80 --seed 1     80 deleted statements and negated conditions

      kvproof mutants --statements 80 --of machine the same in the abstract machine, which proofs or tie have to notice

      kvproof mutants --statements 80 --of hybrid-backend   in the backend, beside the vectors and the reference
    """
    _check_together(only, statements, of)
    target = TARGETS[of]
    layers = _chosen_layers(layer, target.layers)
    limit = seconds or target.layer_seconds
    console = Console()
    if not console.is_terminal:
        console.width = LOG_WIDTH
    if statements is None:
        jobs = [Job(name, layers, limit) for name in chosen_mutants(only)]
        named = CatalogueResults(layers, tuple(_run(console, jobs, workers)))
        _save(named, json_file)
        failed = _show_catalogue(console, named)
    else:
        drawn = target.draw(statements, seed)
        console.print(f"{len(drawn)} of {len(target.mutants())} places in {target.scope}, seed {seed}", highlight=False)
        jobs = [Job(mutant.name, layers, limit, first_kill_only=True) for mutant in drawn]
        results = tuple(_run(console, jobs, workers))
        random = StatementResults(of, seed, len(target.mutants()), layers, tuple(drawn), results)
        _save(random, json_file)
        failed = _show_statements(console, random)
    raise typer.Exit(NOT_NOTICED if failed else NOTICED)


def _check_together(only: list[str] | None, statements: int | None, of: str) -> None:
    """Options that would be passed over are refused."""
    if statements is not None and only:
        raise typer.BadParameter("--only names mutants of the catalogue; --statements draws others")
    if statements is None and of != "reference":
        raise typer.BadParameter(f"--of {of} needs --statements: the named mutants are all of the reference")


def _chosen_layers(names: list[str] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    for name in names or ():
        if name not in LAYERS:
            raise typer.BadParameter(f"there is no layer {name}; layers are {', '.join(LAYERS)}")
    chosen = tuple(name for name in LAYERS if name in names) if names else default
    if not LAYERS_OF_TESTS.isdisjoint(chosen):
        try:
            find_tests()
        except TestsNotFound as problem:
            raise typer.BadParameter(f"{problem}, or choose other layers with --layer") from problem
    return chosen


def chosen_mutants(names: list[str] | None) -> list[str]:
    """The named mutants, or all, in the order of the catalogue; raises `BadParameter` for one that is none."""
    known = [mutant.name for mutant in MUTANTS]
    for name in names or ():
        if name not in known:
            hint = did_you_mean(name, known, "the documentation lists them.")
            raise typer.BadParameter(f"there is no mutant {name}; {hint}")
    return [name for name in known if not names or name in names]


def _run(console: Console, jobs: Sequence[Job], workers: int) -> list[MutantResult]:
    """Run the jobs with a progress bar in a terminal, and a line for each result elsewhere."""
    if not console.is_terminal:
        return run_jobs(jobs, workers, lambda result: print(_line(result), flush=True))
    with bar_of_jobs(console) as progress:
        bar = progress.add_task("mutants", total=len(jobs))
        return run_jobs(jobs, workers, lambda result: progress.update(bar, advance=1, description=result.mutant[:40]))


def _save(run: CatalogueResults | StatementResults, file: Path | None) -> None:
    if file is not None:
        save(run, file)


def _line(result: MutantResult) -> str:
    noticed = ", ".join(f"{layer.layer} {steps_of(layer)}" for layer in result.layers)
    return f"{result.mutant}: {result.error or noticed}"


def _show_catalogue(console: Console, run: CatalogueResults) -> bool:
    """The table, then what is wrong; returns whether anything is."""
    mutant_of = {mutant.name: mutant for mutant in MUTANTS}
    table = Table("mutant", "clause", "fault", *run.layers, title="after how many steps each layer noticed")
    for result in run.results:
        mutant = mutant_of[result.mutant]
        cells = ["error" if result.error else steps_of(result.layer(name)) for name in run.layers]
        table.add_row(mutant.name, ", ".join(mutant.clauses), mutant.fault, *cells)
    console.print(table)
    complaints = [f"{result.mutant}: {text}" for result in run.results for text in complaints_about(result)]
    for complaint in complaints:
        say(console, complaint)
    console.print(f"{len(run.results)} mutants, {len(complaints)} complaints", highlight=False)
    return bool(complaints)


def _show_statements(console: Console, run: StatementResults) -> bool:
    """The survivors and the errors; returns whether there is one that nobody explained."""
    survivors = read_survivors()
    for mutant, result in zip(run.drawn, run.results, strict=True):
        if result.error or not is_judged(run.target, result):
            why = result.error or explanation_of(run.target, mutant, survivors) or "not explained in survivors.toml"
            say(console, f"{mutant.name}: {mutant.kind} {mutant.text[:80]!r}: {why}")
    noticed = sum(is_judged(run.target, result) for result in run.results)
    judges = " or ".join(TARGETS[run.target].judges)
    console.print(f"{noticed} of {len(run.results)} statement mutants were noticed by {judges}", highlight=False)
    return bool(unexplained(run, survivors)) or any(result.error for result in run.results)
