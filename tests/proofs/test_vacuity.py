from __future__ import annotations

import pytest

from kvproof.spec.machine.axioms import HASH_AXIOMS
from kvproof.spec.proofs.catalogue import MACHINE_MUTANTS
from kvproof.spec.proofs.counterexample import find
from kvproof.spec.proofs.mutants import MachineMutant, MutantDoesNotApply, mutated
from kvproof.spec.proofs.obligations import MACHINE, Obligation, Verdict, obligations
from kvproof.spec.proofs.vacuity import (
    REGISTERING,
    SITUATIONS,
    Situation,
    dependences,
    refute,
    situations_of,
    unbroken,
    witness,
)

NAMES = [mutant.name for mutant in MACHINE_MUTANTS]

NOTHING_HAPPENS = {
    "evict_keeps_reserved_keys",
    "a_closed_step_is_not_counted",
    "cut_though_it_does_not_go_down",
    "first_answers_are_cut_instead_of_asking_again",
    "pending_only_where_it_is_more",
    "split_without_states",
    "decode_is_aligned",
    "waits_for_what_never_comes",
}
"""What is wrong with these is that nothing changes."""


@pytest.mark.parametrize("transition", [transition.name for transition in MACHINE])
def test_a_transition_can_happen_in_every_situation_that_allows_it(transition: str) -> None:
    found = [witness(transition, situation) for situation in situations_of(transition)]
    assert [(w.situation, w.reason) for w in found if not w.found] == []


def test_a_transition_that_cannot_happen_is_noticed() -> None:
    reserved = next(situation for situation in SITUATIONS if "reset" in situation.excluded)
    found = witness("reset", Situation("reserved", reserved.constraints))
    assert not found.found
    assert found.reason == "there is none of the sizes tried"


@pytest.mark.parametrize("mutant", MACHINE_MUTANTS, ids=NAMES)
def test_a_mutant_is_refuted_and_the_table_shows_what_it_changes(mutant: MachineMutant) -> None:
    found = find(mutant.breaks, mutated(mutant))
    assert found is not None
    assert found.call.startswith(f"{mutant.transition}(")
    changed = any(any(row.changed) for row in found.rows) or found.before != found.after
    assert changed or mutant.name in NOTHING_HAPPENS


def test_mutants_have_names_of_their_own_and_break_obligations() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {mutant.breaks for mutant in MACHINE_MUTANTS} <= set(obligations())


def test_every_theorem_is_broken_by_a_mutant() -> None:
    assert unbroken() == []


def test_a_theorem_without_a_mutant_is_reported() -> None:
    rest = tuple(mutant for mutant in MACHINE_MUTANTS if mutant.theorem not in {"INV-NULL-1", "POOL-FREE-2"})
    assert unbroken(rest) == ["INV-NULL-1", "free / POOL-FREE-2 (fact)"]


def test_a_mutant_that_breaks_nothing_is_reported() -> None:
    harmless = MachineMutant("harmless", "begin_step", "INV-COUNT-1", "opened = s.now() + 1", "opened = 1 + s.now()")
    found = refute(harmless)
    assert not found.found
    assert found.reason == "there is no counterexample of the sizes tried"


def test_a_mutant_that_does_not_apply_is_refused() -> None:
    with pytest.raises(MutantDoesNotApply, match="stands 0 times"):
        mutated(MachineMutant("gone", "evict", "INV-COUNT-1", "no such text", ""))


@pytest.mark.parametrize("row", ["copy", "rollback", "publish"])
def test_what_registers_nothing_needs_no_axiom_about_hashes(row: str) -> None:
    found = list(dependences(row))
    assert {dependence.verdict for dependence in found} == {Verdict.PROVED}
    assert {dependence.without for dependence in found} == {HASH_AXIOMS}


def test_registering_needs_each_axiom_about_hashes() -> None:
    found = [dependence for row in REGISTERING for dependence in dependences(row)]
    broken: dict[str, set[str]] = {axiom: set() for axiom in HASH_AXIOMS}
    for dependence in found:
        assert dependence.verdict is not Verdict.UNKNOWN, (dependence.obligation, dependence.reason)
        if dependence.verdict is Verdict.REFUTED:
            broken[dependence.without[0]].add(dependence.obligation.theorem)
    assert broken == {
        "a key tells its group": {"INV-SLOT-1"},
        "a key tells its prefix": {
            "INV-SLOT-1",
            "INV-CHAIN-1",
            "INV-FULL-1",
            "STEP-UPGRADE-1",
            "INV-SOUND-1",
            "REG-CONFLICT-1",
            "REG-PARTIAL-3",
            "REG-PARTIAL-4",
        },
    }


def test_a_counterexample_reads_well() -> None:
    [mutant] = [mutant for mutant in MACHINE_MUTANTS if mutant.name == "serve_reserved"]
    found = find(mutant.breaks, mutated(mutant))
    assert found is not None
    assert found.obligation == Obligation("touch", "INV-SERVED-2")
    assert found.rows[0].block == "0 (null)"
    [touched] = [row for row in found.rows if any(row.changed)]
    assert touched.changed[:2] == (True, True)
    assert "reads" in touched.after[1]
