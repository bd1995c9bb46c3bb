from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer import Typer
from typer.testing import CliRunner

from kvproof.conformance.commands.mutants import mutants
from kvproof.conformance.mutation.jobs import LayerResult, MutantResult
from kvproof.conformance.mutation.report import (
    CatalogueResults,
    StatementResults,
    Survivor,
    load,
    mutants_page,
    read_survivors,
    save,
    statements_page,
    unexplained,
)
from kvproof.conformance.mutation.run import complaints_about
from kvproof.conformance.mutation.statements import StatementMutant
from kvproof.conformance.mutation.targets import TARGETS

NOTICED = LayerResult("clauses", True, 3, "test_x.py::test_y: assert 1 | 2 == [3]")
PASSED = LayerResult("explore", False, 100)

CATALOGUE = CatalogueResults(
    ("clauses", "explore"),
    (
        MutantResult("mask_is_ignored", (NOTICED, PASSED)),
        MutantResult("token_bytes_are_reversed", (NOTICED,), "explore took more than 60 s"),
    ),
)

DRAWN = (
    StatementMutant("kvproof.reference.pool", 7, 8, "delete", "a | b", "f"),
    StatementMutant("kvproof.reference.pool", 9, 8, "negate", "x in y", "f"),
    StatementMutant("kvproof.reference.pool", 11, 8, "negate", "z", "f"),
)
STATEMENTS = StatementResults(
    "reference",
    1,
    500,
    ("clauses", "explore"),
    DRAWN,
    (
        MutantResult("pool:7", (NOTICED,)),
        MutantResult("pool:9", (LayerResult("clauses", False, 9), PASSED)),
        MutantResult("pool:11", (LayerResult("clauses", False, 9), PASSED)),
    ),
)
EXPLAINED = [Survivor("reference", "kvproof.reference.pool", "f", "x in y", "negate", "It is asked again later.")]


def rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("|")]


def test_the_page_of_the_mutants_says_after_how_many_steps_each_layer_noticed() -> None:
    page = mutants_page(CATALOGUE)
    [mask, token] = [row for row in rows(page) if row.startswith(("| `mask", "| `token"))]
    assert mask.endswith("| 3 | - |")
    assert "REG-FULL-2 | F09 |" in mask
    assert token.endswith("| error | error |")
    assert "2 mutants. Noticed: clauses 2, explore 0." in page
    assert "| F08 | 0 |" in page


def test_the_page_of_the_statements_explains_every_survivor() -> None:
    page = statements_page(STATEMENTS, EXPLAINED)
    everybody = "clauses and explore and walk and illegal and stateful"
    assert "1 of 3 were noticed by clauses or explore or walk or illegal or stateful" in page
    assert r"| pool.py:7 f | `a \| b` | delete | clauses | test\_x.py::test\_y: assert 1 \| 2 == \[3\] |" in page
    assert f"| pool.py:9 f | `x in y` | negate | **survived** {everybody} | It is asked again later. |" in page
    assert f"| pool.py:11 f | `z` | negate | **survived** {everybody} | **not explained** |" in page


def test_a_survivor_that_nobody_explained_is_found() -> None:
    assert unexplained(STATEMENTS, EXPLAINED) == [DRAWN[2]]


@pytest.mark.parametrize("run", [CATALOGUE, STATEMENTS])
def test_results_survive_their_file(tmp_path: Path, run: CatalogueResults | StatementResults) -> None:
    save(run, tmp_path / "new" / "results.json")
    assert load(tmp_path / "new" / "results.json") == run


def test_what_only_others_notice_survived_those_who_have_to() -> None:
    mutant = StatementMutant("kvproof.reference.core", 7, 8, "delete", "check()", "f")
    layers = (LayerResult("tie", False, 90_000), NOTICED)
    run = StatementResults("steps", 1, 300, ("tie", "clauses"), (mutant,), (MutantResult("core:7", layers),))
    why = Survivor("steps", mutant.module, "f", mutant.text, "delete", "The tie gives no junk.")

    assert unexplained(run, []) == [mutant]
    assert unexplained(run, [why]) == []
    assert unexplained(run, [msgspec.structs.replace(why, target="reference")]) == [mutant]
    assert unexplained(run, [msgspec.structs.replace(why, function="g")]) == [mutant]
    assert "0 of 1 were noticed by tie" in statements_page(run, [why])
    assert "| **survived** tie, noticed by clauses | The tie gives no junk. |" in statements_page(run, [why])


def test_every_explained_survivor_is_a_place_of_its_target_and_listed_once() -> None:
    places = {
        (name, m.module, m.function, m.text, m.kind) for name, target in TARGETS.items() for m in target.mutants()
    }
    explained = [(s.target, s.module, s.function, s.text, s.mutation) for s in read_survivors()]
    assert [place for place in explained if place not in places] == []
    assert len(set(explained)) == len(explained)
    assert all(survivor.explanation.endswith(".") for survivor in read_survivors())


def test_what_is_wrong_with_a_result_is_said() -> None:
    assert complaints_about(MutantResult("m", (NOTICED,))) == []
    assert complaints_about(MutantResult("m", (), "the worker ended")) == ["the worker ended"]
    assert complaints_about(MutantResult("m", (LayerResult("clauses", False, 4),))) == ["no clause test failed"]
    half = LayerResult("clauses", True, 4, "reason", ("POOL-FREE-2",))
    assert complaints_about(MutantResult("m", (half,))) == ["no test of POOL-FREE-2 failed"]
    assert complaints_about(MutantResult("m", (PASSED,))) == []


# The command


def run_command(*arguments: str) -> tuple[int, str]:
    app = Typer()
    app.command()(mutants)
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})
    return result.exit_code, result.output


def test_the_command_shows_a_table_and_writes_the_results(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    code, output = run_command("--only", "mask_is_ignored", "--layer", "clauses", "--json", str(file))
    assert code == 0, output
    assert "mask_is_ignored: clauses " in output
    assert "1 mutants, 0 complaints" in output
    run = load(file)
    assert isinstance(run, CatalogueResults)
    assert [result.mutant for result in run.results] == ["mask_is_ignored"]


def test_the_command_runs_statements() -> None:
    code, output = run_command("--statements", "1", "--seed", "4", "--layer", "explore", "--layer", "walk")
    assert "statement mutants were noticed" in output
    assert code in (0, 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "mask_is_ignord"], "mask_is_ignored"),
        (["--layer", "proof"], "clauses, explore"),
        (["--statements", "3", "--of", "backend"], "reference, steps, machine"),
    ],
)
def test_a_wrong_name_is_a_usage_error_that_says_what_there_is(arguments: list[str], says: str) -> None:
    code, output = run_command(*arguments)
    assert code == 2
    assert says in output
