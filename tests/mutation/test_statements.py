from __future__ import annotations

import ast

import pytest

from kvproof.conformance.mutation.jobs import Job
from kvproof.conformance.mutation.patch import Patch, PatchError, compile_changed, modules_of, source_of
from kvproof.conformance.mutation.run import Worker
from kvproof.conformance.mutation.statements import StatementMutant, all_statement_mutants, draw, statement_mutants_of

SOURCE = '''"""A module."""

from __future__ import annotations

LIMIT = 3


class Thing:
    """A thing."""

    field: int = 0

    def method(self, é: int, found: list[int] | None = None) -> bool:
        """What it does."""
        import sys

        note: str
        assert found is not None, "é"
        total = [n for n in found if n]
        if total and é < LIMIT:
            sys.exit(f"{é < LIMIT}")
        elif self.field:
            return
        while not total:
            total.append(1)
        return bool(total)

    def other(self):
        pass
        return None
'''

EXPECTED = {
    ("negate", "found is not None"),
    ("delete", "total = [n for n in found if n]"),
    ("negate", "n"),
    ("delete", 'if total and é < LIMIT: sys.exit(f"{é < LIMIT}") elif self.field: return'),
    ("negate", "total and é < LIMIT"),
    ("negate", "é < LIMIT"),
    ("delete", 'sys.exit(f"{é < LIMIT}")'),
    ("delete", "elif self.field: return"),
    ("negate", "self.field"),
    ("delete", "return"),
    ("delete", "while not total: total.append(1)"),
    ("negate", "not total"),
    ("delete", "total.append(1)"),
    ("delete", "return bool(total)"),
    ("negate", "bool(total)"),
}


def changed(mutant: StatementMutant, source: str) -> str:
    return mutant.edit(source).applied_to(source)


def test_exactly_the_statements_and_conditions_of_functions_are_mutated() -> None:
    assert {(mutant.kind, mutant.text) for mutant in statement_mutants_of("m", SOURCE)} == EXPECTED


def test_every_mutant_changes_its_place_alone_and_compiles() -> None:
    for mutant in statement_mutants_of("m", SOURCE):
        lines = zip(SOURCE.splitlines(), changed(mutant, SOURCE).splitlines(), strict=False)
        first = next(number for number, (old, new) in enumerate(lines, 1) if old != new)
        assert first == mutant.line
        compile_changed(SOURCE, mutant, "m.py")


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        ("negate", "é < LIMIT", "        if total and (not (é < LIMIT)):"),
        ("negate", "n", "        total = [n for n in found if (not (n))]"),
        ("delete", "total.append(1)", "            pass"),
        ("delete", "elif self.field: return", "        pass"),
    ],
)
def test_a_statement_is_replaced_by_pass_and_a_condition_by_its_negation(kind: str, text: str, line: str) -> None:
    [mutant] = [m for m in statement_mutants_of("m", SOURCE) if (m.kind, m.text) == (kind, text)]
    assert changed(mutant, SOURCE).splitlines()[mutant.line - 1] == line


def test_a_mutant_of_another_version_of_the_source_is_refused() -> None:
    [mutant] = [m for m in statement_mutants_of("m", SOURCE) if m.text == "total.append(1)"]
    with pytest.raises(PatchError, match="no such statement"):
        mutant.edit(SOURCE.replace("append(1)", "append(2)"))


def test_the_reference_has_many_places_each_with_a_name_of_its_own() -> None:
    everything = all_statement_mutants()
    assert len({mutant.name for mutant in everything}) == len(everything) > 500
    without = set(modules_of("kvproof.reference")) - {mutant.module for mutant in everything}
    assert without == {"kvproof.reference.pool"}  # it only puts the others together


def test_the_same_seed_draws_the_same_mutants_and_another_seed_others() -> None:
    assert draw(80, 1) == draw(80, 1) != draw(80, 2)
    assert len(set(draw(80, 1))) == 80
    assert draw(10**6, 1) == all_statement_mutants()


def test_drawn_mutants_are_valid_programs() -> None:
    for mutant in draw(20, 3):
        ast.parse(changed(mutant, source_of(mutant.module)))


def test_a_worker_runs_a_statement_mutant_by_its_name(worker: Worker) -> None:
    patch = Patch("kvproof.reference.positions", "return position % block_size == 0", "")
    start = patch.edit(source_of(patch.module)).start
    line = source_of(patch.module).count("\n", 0, start) + 1
    [mutant] = [m for m in all_statement_mutants() if (m.module, m.line, m.kind) == (patch.module, line, "delete")]
    result = worker.run(Job(mutant.name, ("clauses",), clauses=("POS-FULL-1",)))
    assert result.error == ""
    assert result.killed
