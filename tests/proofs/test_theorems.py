from __future__ import annotations

from pathlib import Path

import pytest

from kvproof.spec.clauses import clauses
from kvproof.spec.machine.axioms import HASH_AXIOMS, IN_WORDS, axioms
from kvproof.spec.machine.facts import FACTS
from kvproof.spec.machine.invariants import INVARIANTS
from kvproof.spec.machine.systems import POOL, SYSTEMS, TABLES
from kvproof.spec.machine.tables import OWN
from kvproof.spec.machine.theorems import page, theorems
from kvproof.spec.machine.transitions import TRANSITIONS

PROJECT = Path(__file__).resolve().parents[2]


def test_every_theorem_is_named_after_a_clause_and_is_one_sentence() -> None:
    for theorem in theorems():
        assert theorem.clause in clauses()
        assert theorem.sentence.endswith(".")
        assert theorem.sentence.count("\n") == 0


def test_no_two_facts_of_a_transition_have_one_name() -> None:
    names = [(fact.transition, fact.theorem) for system in SYSTEMS for fact in system.facts]
    assert len(set(names)) == len(names)


def test_every_fact_is_listed_once() -> None:
    listed = [(transition, theorem.clause) for theorem in theorems() for transition in theorem.transitions]
    assert sorted(listed) == sorted((fact.transition, fact.theorem) for system in SYSTEMS for fact in system.facts)
    invariants = [clause for system in SYSTEMS for clause in system.invariants]
    assert [theorem.clause for theorem in theorems() if not theorem.transitions] == invariants


def test_the_page_of_verified_properties_is_up_to_date() -> None:
    shipped = (PROJECT / "docs/verified-properties.md").read_text(encoding="utf-8")
    assert shipped == page(), "run `python -m kvproof.spec.machine.theorems > docs/verified-properties.md`"


def test_the_page_on_the_proofs_counts_right() -> None:
    catalogue = pytest.importorskip("kvproof.spec.proofs.catalogue")
    obligations = pytest.importorskip("kvproof.spec.proofs.obligations")
    text = (PROJECT / "docs/proofs.md").read_text(encoding="utf-8")
    assert f"The {len(INVARIANTS)} invariants hold" in text
    assert f": {len(TRANSITIONS)} transitions, immediate mode" in text
    assert f"| {len(FACTS)} facts of single transitions" in text
    assert f"{len(catalogue.MACHINE_MUTANTS)} mutants |" in text
    assert f"the {len(obligations.obligations())} obligations" in text
    assert f"| The {len(TABLES.invariants)} invariants of requests that run" in text
    assert f"{len(OWN)} of their own" in text
    assert f"{len(obligations.obligations([POOL]))} of the pool" in text


def test_every_axiom_has_its_sentence() -> None:
    solver = pytest.importorskip("kvproof.spec.proofs.solver")
    theory = solver.SolverTheory()
    assert list(axioms(theory, theory.state())) == list(IN_WORDS)
    assert set(HASH_AXIOMS) <= set(IN_WORDS)
