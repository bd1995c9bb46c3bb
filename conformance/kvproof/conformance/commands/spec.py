"""`kvproof spec`: the clauses in a terminal."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from kvproof.conformance.evidence import Evidence, shipped
from kvproof.conformance.terminal import did_you_mean, say
from kvproof.spec.clauses import Clause, clauses


def spec(
    name: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A clause such as POOL-FREE-2, or the start of several.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the evidence of each clause.")] = False,
) -> None:
    """List the clauses of the specification, or show one with everything that checks it.

    Examples:

      kvproof spec                  all clauses, one a line

      kvproof spec POOL-FREE        the clauses about freeing

      kvproof spec POOL-FREE-2      one clause: sentence, reason, examples, tests, mutants
    """
    chosen = _matching(name)
    evidence = shipped()
    if as_json:
        print(json.dumps([_as_dict(clause, evidence) for clause in chosen], indent=1))
    elif name is not None and chosen[0].id == name.upper():
        _show(chosen[0], evidence.get(name.upper(), Evidence()))
    else:
        width = max(len(clause.id) for clause in chosen)
        for clause in chosen:
            print(f"{clause.id:{width}}  {clause.level.value:9}  {clause.sentence}")


def _matching(name: str | None) -> list[Clause]:
    known = clauses()
    if name is None:
        return list(known.values())
    wanted = name.upper()
    if wanted in known:
        return [known[wanted]]
    if chosen := [clause for clause_id, clause in known.items() if clause_id.startswith(wanted)]:
        return chosen
    hint = did_you_mean(wanted, known, "`kvproof spec` lists all clauses.")
    raise typer.BadParameter(f"there is no clause {name}; {hint}")


def _as_dict(clause: Clause, evidence: dict[str, Evidence]) -> dict[str, object]:
    found = evidence.get(clause.id, Evidence())
    return {
        "id": clause.id,
        "level": clause.level.value,
        "chapter": clause.chapter,
        "sentence": clause.sentence,
        "notes": clause.notes,
        "implementation": found.implementation,
        "tests": found.tests,
        "contracts": found.contracts,
        "proofs": found.proofs,
        "mutants": found.mutants,
    }


def _show(clause: Clause, evidence: Evidence) -> None:
    console = Console()
    console.print(f"[bold]{clause.id}[/bold]  {clause.level.value}  (chapter {clause.chapter})\n")
    console.print(Markdown(clause.sentence))
    if clause.notes:
        console.print()
        console.print(Markdown(clause.notes))
    for title, names in (
        ("implemented in", evidence.implementation),
        ("tests", evidence.tests),
        ("crosshair contracts", evidence.contracts),
        ("proved of the abstract machine", evidence.proofs),
        ("mutants that these tests kill", evidence.mutants),
    ):
        if names:
            console.print(f"\n[bold]{title}[/bold]")
            for entry in names:
                say(console, f"  {entry}")
