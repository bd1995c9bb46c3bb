from __future__ import annotations

import ast

import pytest

from kvproof.conformance.mutation.jobs import Job
from kvproof.conformance.mutation.patch import Patch, PatchError, compile_changed, modules_of, source_of
from kvproof.conformance.mutation.run import Worker
from kvproof.conformance.mutation.statements import StatementMutant, mutants_of, statements_and_conditions
from kvproof.conformance.mutation.targets import TARGETS
from kvproof.conformance.mutation.terms import places_in_terms

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


REFERENCE, MACHINE = TARGETS["reference"], TARGETS["machine"]

TERMS = """
def step(t, s, b):
    free = t.all_of(s.is_free(b), t.any_of(s.known(b), b != s.null()))
    return free, s.but(
        place=lambda c: t.where(c == b, 0, s.place(c)),
        known=lambda c: t.every("B", lambda d: t.implies(s.is_free(d), s.known(d))),
    )
"""


def statements_of(source: str) -> list[StatementMutant]:
    return mutants_of("m", source, statements_and_conditions)


def changed(mutant: StatementMutant, source: str) -> str:
    return mutant.edit(source).applied_to(source)


def test_exactly_the_statements_and_conditions_of_functions_are_mutated() -> None:
    assert {(mutant.kind, mutant.text) for mutant in statements_of(SOURCE)} == EXPECTED


def test_every_mutant_changes_its_place_alone_and_compiles() -> None:
    for mutant in statements_of(SOURCE):
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
    [mutant] = [m for m in statements_of(SOURCE) if (m.kind, m.text) == (kind, text)]
    assert changed(mutant, SOURCE).splitlines()[mutant.line - 1] == line


def test_a_mutant_of_another_version_of_the_source_is_refused() -> None:
    [mutant] = [m for m in statements_of(SOURCE) if m.text == "total.append(1)"]
    with pytest.raises(PatchError, match="no such statement"):
        mutant.edit(SOURCE.replace("append(1)", "append(2)"))


def test_the_reference_has_many_places_each_with_a_name_of_its_own() -> None:
    everything = REFERENCE.mutants()
    assert len({mutant.name for mutant in everything}) == len(everything) > 500
    without = set(modules_of("kvproof.reference")) - {mutant.module for mutant in everything}
    assert without == {"kvproof.reference.pool"}  # it only puts the others together


def test_the_same_seed_draws_the_same_mutants_and_another_seed_others() -> None:
    assert REFERENCE.draw(80, 1) == REFERENCE.draw(80, 1) != REFERENCE.draw(80, 2)
    assert len(set(REFERENCE.draw(80, 1))) == 80
    assert REFERENCE.draw(10**6, 1) == REFERENCE.mutants()


@pytest.mark.parametrize("name", TARGETS)
def test_a_mutant_is_found_by_its_name(name: str) -> None:
    for mutant in TARGETS[name].draw(5, 3):
        assert TARGETS[name].named(mutant.name) == mutant
    assert TARGETS[name].named("reference.pool:0:0+0:delete") is None
    assert TARGETS[name].named("clean") is None


@pytest.mark.parametrize("name", TARGETS)
def test_drawn_mutants_are_valid_programs(name: str) -> None:
    for mutant in TARGETS[name].draw(20, 3):
        ast.parse(changed(mutant, source_of(mutant.module)))


def test_exactly_the_propositions_and_effects_of_a_transition_are_mutated() -> None:
    done = {(mutant.text, mutant.replacement.format(mutant.text)) for mutant in mutants_of("m", TERMS, places_in_terms)}
    assert done == {
        ("free", "t.true()"),
        ("free", "t.no(free)"),
        ("s.is_free(b)", "t.true()"),
        ("s.is_free(b)", "t.no(s.is_free(b))"),
        ("t.any_of(s.known(b), b != s.null())", "t.true()"),
        ("t.any_of(s.known(b), b != s.null())", "t.no(t.any_of(s.known(b), b != s.null()))"),
        ("s.known(b)", "t.no(t.true())"),
        ("s.known(b)", "t.no(s.known(b))"),
        ("b != s.null()", "t.no(t.true())"),
        ("b != s.null()", "t.no(b != s.null())"),
        ("place=lambda c: t.where(c == b, 0, s.place(c))", "**{}"),
        ("c == b", "t.no(c == b)"),
        ('known=lambda c: t.every("B", lambda d: t.implies(s.is_free(d), s.known(d)))', "**{}"),
        ("t.implies(s.is_free(d), s.known(d))", "t.no(t.implies(s.is_free(d), s.known(d)))"),
        ("s.is_free(d)", "t.true()"),
        ("s.is_free(d)", "t.no(s.is_free(d))"),
        ("s.known(d)", "t.no(s.known(d))"),
    }


@pytest.mark.parametrize("layer", MACHINE.judges)
def test_proofs_and_tie_notice_a_mutant_of_the_machine(worker: Worker, layer: str) -> None:
    [mutant] = [m for m in MACHINE.mutants() if m.text == "now=lambda: opened"]
    result = worker.run(Job(mutant.name, (layer,), MACHINE.layer_seconds))
    assert result.error == ""
    assert result.killed


def test_a_worker_runs_a_statement_mutant_by_its_name(worker: Worker) -> None:
    patch = Patch("kvproof.reference.positions", "return position % block_size == 0", "")
    start = patch.edit(source_of(patch.module)).start
    line = source_of(patch.module).count("\n", 0, start) + 1
    [mutant] = [m for m in REFERENCE.mutants() if (m.module, m.line, m.kind) == (patch.module, line, "delete")]
    result = worker.run(Job(mutant.name, ("clauses",), clauses=("POS-FULL-1",)))
    assert result.error == ""
    assert result.killed
