from functools import cache

import pytest

from kvproof.conformance.commands.tie import SCOPES, STEPS_OF_A_WALK, WALKS
from kvproof.conformance.scope import Scope
from kvproof.conformance.tie.folding import MACHINE, Machine
from kvproof.conformance.tie.lockstep import TieReport, tie_scope, tie_walk
from kvproof.conformance.tie.situations import SITUATIONS
from kvproof.spec.proofs.catalogue import MACHINE_MUTANTS
from kvproof.spec.proofs.mutants import mutated_machine
from kvproof.spec.vocabulary import CommitMode

SMALL = (
    Scope(2, ("a", "aa"), 1),
    Scope(2, ("a", "aa"), 1, block_size=3),
    Scope(1, ("a", "aa"), 1, commit=CommitMode.STEPS),
    Scope(2, ("a",), 1, commit=CommitMode.STEPS),
)


@cache
def tied(scope: Scope) -> TieReport:
    return tie_scope(scope)


@cache
def walked(seed: int) -> TieReport:
    return tie_walk(seed, STEPS_OF_A_WALK)


@pytest.mark.parametrize("scope", SCOPES, ids=Scope.describe)
def test_machine_and_reference_agree_on_every_operation_in_every_state(scope: Scope) -> None:
    report = tied(scope)

    assert report.disagreement is None
    assert report.allowed < report.operations


@pytest.mark.parametrize("seed", range(WALKS))
def test_machine_and_reference_agree_on_random_walks_through_larger_pools(seed: int) -> None:
    assert walked(seed).disagreement is None


def test_every_situation_of_every_transition_was_met() -> None:
    total = TieReport()
    for report in (*map(tied, SCOPES), *map(walked, range(WALKS))):
        total.add(report)

    assert total.missing(SITUATIONS) == []
