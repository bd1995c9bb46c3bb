from functools import cache

import pytest

from kvproof.conformance.operations import (
    Allocate,
    Attach,
    BeginStep,
    CachePartialBlock,
    Commit,
    Copy,
    KeyRef,
    Operation,
    Write,
)
from kvproof.conformance.scope import Scope
from kvproof.conformance.tie.abstraction import CHANGING, abstract, universe_of
from kvproof.conformance.tie.comparison import differences
from kvproof.conformance.tie.folding import MACHINE
from kvproof.conformance.tie.lockstep import TieReport, tie_scope, tie_trace, tie_walk
from kvproof.conformance.tie.situations import SITUATIONS
from kvproof.conformance.tie.standard import SCOPES, STEPS_OF_A_WALK, TRACES, WALKS
from kvproof.conformance.world import replay
from kvproof.spec.machine.theory import Term
from kvproof.spec.proofs.catalogue import MACHINE_MUTANTS
from kvproof.spec.proofs.mutants import mutated
from kvproof.spec.vocabulary import CommitMode, Residency

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
    for report in (*map(tied, SCOPES), *map(walked, range(WALKS)), *(tie_trace(*trace) for trace in TRACES.values())):
        total.add(report)

    assert total.missing(SITUATIONS) == []


ONLY_FOR_PROOFS = {
    *("holder_index", "holder_at", "front", "back", "kept_keys", "released_at", "clock", "next_rank"),
    *("copies", "copy_index", "copy_at"),
}
"""Numberings and clocks that nobody can observe."""

RICH: tuple[Operation, ...] = (
    BeginStep(),
    Allocate("r1", 1),
    Write("r1", 1, 1, 0),
    CachePartialBlock("r1", 1, 1, 0),
    Commit(1),
    BeginStep(),
    Allocate("r2", 1),
    Write("r2", 2, 1, 0),
    CachePartialBlock("r2", 2, 1, 0),
    Attach("r1", 2, KeyRef("r2", 0, 1)),
    Allocate("r1", 1),
    Copy("r1", 1, 3),
)


@pytest.mark.parametrize("name", CHANGING)
def test_the_comparison_sees_every_function_of_the_state_that_can_be_observed(name: str) -> None:
    scope = Scope(5, ("a",), 2, residency=Residency.PER_COPY, commit=CommitMode.STEPS)
    world = replay(scope.config, [*scope.arrivals, *RICH])
    universe = universe_of(world)
    state = abstract(world, universe)
    changed = state.but(**{name: lambda *arguments: another(CHANGING[name][1], getattr(state, name)(*arguments))})

    assert differences(state, state, universe) == []
    assert bool(differences(changed, state, universe)) == (name not in ONLY_FOR_PROOFS)


def another(sort: str, value: Term) -> Term:
    """Some other value of the sort; what was first among integers is last now."""
    match sort:
        case "Bool":
            return not value
        case "Int":
            return 9 - value
        case "P":
            return () if value else ((7, ()),)
        case "G":
            return value + 1
    return f"not {value}"


SABOTAGE = (
    "serve_reserved",
    "touched_block_stays_in_the_queue",
    "allocation_keeps_keys",
    "allocate_from_anywhere_in_the_queue",
    "commit_any_step",
    "free_with_reserved_keys",
    "freed_blocks_with_keys_go_first",
    "the_former_writer_writes_on",
    "a_reader_registers",
    "resurrect_a_retired_partial_key",
    "upgrade_removes_committed_keys",
    "move_without_the_content",
    "moved_keys_are_servable_at_once",
    "rollback_keeps_reserved_keys",
    "reset_in_use",
    "drop_forgets_the_reverse_index",
)
"""Broken machines; the reference is as it is, so the comparison has to notice."""


@pytest.mark.parametrize("name", SABOTAGE)
def test_a_broken_machine_is_told_from_the_reference(name: str) -> None:
    [mutant] = [mutant for mutant in MACHINE_MUTANTS if mutant.name == name]
    machine = {**MACHINE, **{transition.name: transition.run for transition in mutated(mutant)}}

    assert any(tie_scope(scope, machine).disagreement for scope in SMALL) or any(
        tie_walk(seed, STEPS_OF_A_WALK, machine).disagreement for seed in range(WALKS)
    )
