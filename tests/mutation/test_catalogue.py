from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.mutant import FAULT_KINDS, HYBRID_LAYER, NOT_OF_THE_POOL, Mutant
from kvproof.conformance.mutation.patch import modules_of, source_of
from kvproof.spec.clauses import Level, clauses


def test_names_are_unique() -> None:
    assert [name for name, times in Counter(mutant.name for mutant in MUTANTS).items() if times > 1] == []


def test_every_patch_fits_its_module_and_no_two_do_the_same() -> None:
    names_of: dict[str, list[str]] = {}
    for mutant in MUTANTS:
        source = source_of(mutant.patch.module)
        names_of.setdefault(mutant.patch.edit(source).applied_to(source), []).append(mutant.name)
    assert [names for names in names_of.values() if len(names) > 1] == []


def test_every_mutant_is_well_formed() -> None:
    assert [problem for mutant in MUTANTS for problem in problems(mutant)] == []


MODULES = {*modules_of("kvproof.reference"), *modules_of("kvproof.reference.hybrid")}


def problems(mutant: Mutant) -> Iterator[str]:
    of_the_pool = not mutant.patch.module.startswith(HYBRID_LAYER)
    lines = max(mutant.patch.old.count("\n"), mutant.patch.new.count("\n"))
    required = {
        "its name is no lower-case identifier": mutant.name.isidentifier() and mutant.name.islower(),
        "it claims no clause, or one twice": 0 < len(mutant.clauses) == len(set(mutant.clauses)),
        "it claims a clause that does not exist": set(mutant.clauses) <= set(clauses()),
        "its fault is none of the kinds": mutant.fault in FAULT_KINDS,
        "its fault is none that the pool can have": not (of_the_pool and mutant.fault in NOT_OF_THE_POOL),
        "its harm is no sentence that fits a table": mutant.harm.endswith(".") and "|" not in mutant.harm,
        "it changes nothing, or more than six lines": mutant.patch.old != mutant.patch.new and lines <= 6,
        "it is none of the reference": mutant.patch.module in MODULES,
    }
    yield from (f"{mutant.name}: {problem}" for problem, fine in required.items() if not fine)


def test_every_must_clause_has_a_mutant() -> None:
    claimed = {clause_id for mutant in MUTANTS for clause_id in mutant.clauses}
    assert [clause.id for clause in clauses().values() if clause.level is Level.MUST and clause.id not in claimed] == []


def test_every_kind_of_fault_has_a_mutant() -> None:
    assert list(FAULT_KINDS) == [f"F{number:02}" for number in range(1, 18)]
    assert {mutant.fault for mutant in MUTANTS} == set(FAULT_KINDS)
