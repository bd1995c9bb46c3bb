from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import msgspec
import pytest

from kvproof.conformance.backends.interface import Backend, Level
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.certification.attribution import clause_of
from kvproof.conformance.certification.marks import MARKS
from kvproof.conformance.certification.settings import random_pool, scopes
from kvproof.conformance.certification.shrink import shrink
from kvproof.conformance.certification.stages import (
    Outcome,
    Subject,
    exhaustive,
    near_misses,
    random_walks,
)
from kvproof.conformance.operations import AddRequest, describe, name_of
from kvproof.spec.vocabulary import CommitMode, GroupKind, HolderMode, Residency
from tests.certification.doubles import Changed, with_mutant

Stage = Callable[[Subject], Outcome]

STAGES: dict[str, Stage] = {
    "random": lambda subject: random_walks(subject, 1, 6, 300, lambda so_far: None),
    "illegal": lambda subject: near_misses(subject, 1, 6, 200, lambda so_far: None),
}


def subject(backend: Backend) -> Subject:
    return Subject(backend, backend.identify()[1])


@pytest.mark.parametrize("name", STAGES)
def test_the_reference_passes_and_the_same_seed_does_the_same(name: str) -> None:
    first, again = STAGES[name](subject(ReferenceBackend())), STAGES[name](subject(ReferenceBackend()))
    assert first == again
    assert first.divergences == []
    assert first.pools == 6
    assert first.operations.total() > 600
    assert 0 < first.refusals < first.operations.total()


@pytest.mark.parametrize(
    ("stage", "mutant", "clause"),
    [
        ("random", "touched_block_stays_queued", "POOL-TOUCH-1"),
        ("random", "hash_covers_the_span_alone", "HASH-CHAIN-1"),
        ("illegal", "refused_touch_takes_the_block_out", "ERR-ATOMIC-1"),
        ("random", "new_queue_is_reversed", "POOL-INIT-1"),
    ],
)
def test_a_stage_finds_a_mutant_and_names_its_clause(stage: str, mutant: str, clause: str) -> None:
    found = STAGES[stage](subject(with_mutant(mutant))).divergences
    assert clause in {clause_of(divergence) for divergence in found}


def test_every_state_of_tiny_pools_is_visited() -> None:
    small = Changed(
        residency=(Residency.LOGICAL,), group_kinds=(GroupKind.FULL_ATTENTION,), commit=(CommitMode.IMMEDIATE,)
    )
    done = exhaustive(subject(small), lambda so_far: None)
    assert done.divergences == []
    assert done.operations.total() > 5_526  # so many are enabled or illegal in the states of its pools
    assert done.refusals > 1_000


def test_a_stage_stops_when_enough_is_wrong() -> None:
    broken = subject(with_mutant("touched_block_stays_queued"))
    done = exhaustive(replace(broken, is_enough=lambda so_far: len(so_far.divergences) >= 20), lambda so_far: None)
    assert len(done.divergences) == 20
    assert done.broke_off


def test_tiny_pools_go_on_after_a_divergence_but_not_where_it_was() -> None:
    broken = subject(with_mutant("touched_block_stays_queued"))
    claims = msgspec.structs.replace(broken.capabilities, commit=(CommitMode.IMMEDIATE,))
    done = exhaustive(replace(broken, capabilities=claims), lambda so_far: None)
    assert not done.broke_off
    assert len(done.divergences) > 20
    assert {name_of(each.operations[-1]) for each in done.divergences} == {"touch"}
    assert done.operations.total() > 5_526


def test_every_situation_that_a_claim_needs_is_met() -> None:
    done = random_walks(subject(ReferenceBackend()), 1, 120, 400, lambda so_far: None, 60)
    assert [name for name in MARKS if not done.met[name]] == []


def test_pools_are_of_the_claimed_kinds_alone() -> None:
    plain = Changed(
        levels=(Level.POOL,),
        commit=(CommitMode.IMMEDIATE,),
        residency=(Residency.PER_COPY,),
        holders=(HolderMode.CALLER,),
        group_kinds=(GroupKind.SLIDING_WINDOW,),
        most_groups=1,
    ).identify()[1]
    for seed in range(30):
        config = random_pool(plain, Random(seed))
        assert (config.commit, config.residency, config.holders) == (
            CommitMode.IMMEDIATE,
            Residency.PER_COPY,
            HolderMode.CALLER,
        )
        assert [group.kind for group in config.groups] == [GroupKind.SLIDING_WINDOW]
    assert {(scope.config.holders, scope.kind) for scope in scopes(plain)} == {
        (HolderMode.CALLER, GroupKind.SLIDING_WINDOW)
    }


def test_tiny_pools_with_anonymous_references_are_visited_too() -> None:
    anonymous = Changed(
        holders=(HolderMode.CALLER,),
        residency=(Residency.LOGICAL,),
        group_kinds=(GroupKind.FULL_ATTENTION,),
        commit=(CommitMode.IMMEDIATE,),
    )
    done = exhaustive(subject(anonymous), lambda so_far: None)
    assert done.divergences == []
    assert done.operations.total() > 2_667  # so many are enabled or illegal in the states of its pools
    assert done.met["two blocks had one key"] > 0
    claims, is_found = anonymous.identify()[1], lambda so_far: bool(so_far.divergences)
    broken = Subject(with_mutant("touched_block_stays_queued"), claims, is_found)
    [shown] = exhaustive(broken, lambda so_far: None).divergences
    assert name_of(shown.operations[-1]) == "touch"


# Shrinking


def test_a_trace_is_shrunk_to_what_shows_the_fault() -> None:
    broken = subject(with_mutant("touched_block_stays_queued"))
    [found, *_] = STAGES["random"](broken).divergences
    small = shrink(broken.backend, broken.capabilities, found)

    assert clause_of(small) == clause_of(found) == "POOL-TOUCH-1"
    assert len(small.operations) <= 7 < len(found.operations)
    assert small.config.num_blocks == 2
    assert {o.request for o in small.operations if isinstance(o, AddRequest)} == {"r1"}
    assert shrink(broken.backend, broken.capabilities, small).operations == small.operations


def test_what_is_shrunk_still_diverges_where_it_says() -> None:
    broken = subject(with_mutant("replace_is_ignored"))
    [found, *_] = STAGES["random"](broken).divergences
    small = shrink(broken.backend, broken.capabilities, found)
    lockstep = broken.beside_the_reference(small.config)
    lockstep.run(small.operations)
    assert lockstep.divergence == small
    assert describe(small.operations[-1]).startswith("cache_")
