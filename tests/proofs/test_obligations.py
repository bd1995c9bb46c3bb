from __future__ import annotations

from functools import cache

import pytest

from kvproof.spec.machine.invariants import INVARIANTS
from kvproof.spec.proofs.obligations import INITIAL, Obligation, Prover, Verdict, obligations

ROWS = list(dict.fromkeys(obligation.transition for obligation in obligations()))


@cache
def prover() -> Prover:
    return Prover()


@pytest.mark.parametrize("row", ROWS)
def test_everything_about_a_transition_is_proved(row: str) -> None:
    proofs = [prover().check(obligation) for obligation in obligations() if obligation.transition == row]
    assert [(str(proof.obligation), proof.reason) for proof in proofs if proof.verdict is not Verdict.PROVED] == []


def test_no_obligation_gets_lost() -> None:
    invariants = [obligation for obligation in obligations() if not obligation.fact]
    assert len(invariants) == 26 * 20
    assert len(obligations()) - len(invariants) == 47
    assert [obligation.theorem for obligation in invariants if obligation.transition == INITIAL] == list(INVARIANTS)


def test_the_invariants_are_not_assumed_of_a_new_pool() -> None:
    solver = prover()._question(Obligation(INITIAL, "INV-COUNT-1"), 1)
    assert not any(invariant.eq(term) for invariant in prover()._invariants for term in solver.assertions())


def test_a_question_that_z3_has_no_time_for_is_not_proved() -> None:
    proof = prover().check(Obligation("register", "INV-SOUND-1"), timeout_s=0.001)
    assert proof.verdict is Verdict.UNKNOWN
    assert proof.reason
