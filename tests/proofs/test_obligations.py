from __future__ import annotations

from functools import cache

import pytest
import z3

from kvproof.spec.machine.invariants import INVARIANTS
from kvproof.spec.machine.systems import CHUNKS, HIT_LOOP, POOL, SYSTEMS, TABLES, system_of
from kvproof.spec.proofs.obligations import INITIAL, Obligation, Prover, Verdict, obligations

ROWS = list(dict.fromkeys(obligation.transition for obligation in obligations()))


MOST_SECONDS = 120
"""For each obligation: several run side by side on machines that are busy with other work."""


@cache
def prover(name: str = POOL.name) -> Prover:
    [system] = [system for system in SYSTEMS if system.name == name]
    return Prover(system=system)


@pytest.mark.parametrize("row", ROWS)
def test_everything_about_a_transition_is_proved(row: str) -> None:
    asked = prover(system_of(row).name)
    proofs = [asked.check(obligation, MOST_SECONDS) for obligation in obligations() if obligation.transition == row]
    assert [(str(proof.obligation), proof.reason) for proof in proofs if proof.verdict is not Verdict.PROVED] == []


def test_no_obligation_gets_lost() -> None:
    of_the_pool = obligations([POOL])
    invariants = [obligation for obligation in of_the_pool if not obligation.fact]
    assert len(invariants) == 26 * 20
    assert len(of_the_pool) - len(invariants) == 48
    assert [obligation.theorem for obligation in invariants if obligation.transition == INITIAL] == list(INVARIANTS)


def test_what_a_request_that_runs_writes_itself_has_to_keep_the_invariants_of_the_pool_too() -> None:
    kept = {o.transition for o in obligations([TABLES]) if o.theorem in INVARIANTS}
    assert kept == {"run compute", "run make_private"}
    taken_over = [
        t.name for t in TABLES.transitions if t.name.removeprefix("run ") in {o.name for o in POOL.transitions}
    ]
    assert len(taken_over) == 18
    assert len([o for o in obligations([TABLES]) if not o.fact]) == 4 * (1 + 18 + 7) + 2 * 26


def test_no_two_systems_have_a_transition_of_one_name() -> None:
    names = [transition.name for system in SYSTEMS for transition in system.transitions]
    assert len(set(names)) == len(names)
    assert [len(obligations([system])) for system in (HIT_LOOP, CHUNKS)] == [9, 12]


def test_the_invariants_are_not_assumed_of_a_new_pool() -> None:
    solver = prover()._question(Obligation(INITIAL, "INV-COUNT-1"), 1)
    assert not any(invariant.eq(term) for invariant in prover()._invariants for term in solver.assertions())


def test_a_question_that_z3_does_not_decide_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Prover()
    question = asked._question

    def question_with_little_effort(obligation: Obligation, timeout_s: float) -> z3.Solver:
        solver = question(obligation, timeout_s)
        solver.set("rlimit", 1)
        return solver

    monkeypatch.setattr(asked, "_question", question_with_little_effort)
    proof = asked.check(Obligation("register", "INV-SOUND-1"))
    assert proof.verdict is Verdict.UNKNOWN
    assert proof.reason
