"""Which mutants of the reference no backend could have, so that a certification cannot notice them, and why.

All others a certification has to notice. A mutant stands here for what it changes, never for having got away: one that
is noticed all the same is listed wrongly, which `kvproof certify-mutants` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from kvproof.conformance.mutation.mutant import Mutant


class Unseen(Enum):
    """What a mutant changes that no trace can show; the text says why."""

    CHECKER = "It changes a check of the reference's states, which is the suite's own; a backend has none of it."
    CONSUMER = "It changes the suite's own consumer of events, which checks a stream; a backend only emits one."
    PAST = "It changes rows past those that anybody may rely on; what is read of them is not compared."
    VIEW = "It changes the views of hashes by block size; the language asks for the hashes themselves."
    CONFIGURATION = "It accepts a wrong configuration; a trace begins with a right one."
    CHANCE = "It changes a seed that is drawn at random where none is configured; every trace configures one."
    OBJECTS = "It accepts an object of Python that the language of traces, which is JSON, cannot spell."
    MEMORY = "It leaves something behind that takes memory and changes no answer and nothing that is shown."
    THREADS = "It lets a second thread in; a trace has one speaker."
    COST = "It changes how long an operation takes, and nothing else."
    SCHEDULER = "It changes a scheduler, or what only a scheduler calls; the language of traces speaks to the cache."
    OBSERVATION = "It changes what the reference's own `observe` adds to what the language shows of a state."


_BY_MODULE: Mapping[str, Unseen] = {
    "kvproof.reference.invariants": Unseen.CHECKER,
    "kvproof.reference.mirror": Unseen.CONSUMER,
    "kvproof.reference.hybrid.invariants": Unseen.CHECKER,
    "kvproof.reference.hybrid.policies": Unseen.SCHEDULER,
    "kvproof.reference.hybrid.scheduler": Unseen.SCHEDULER,
}
"""Whatever changes one of these modules."""

_BY_NAME: Mapping[str, Unseen] = {
    "view_takes_the_hash_unit_for_the_block_size": Unseen.VIEW,
    "view_counts_the_begun_slot": Unseen.VIEW,
    "view_is_a_snapshot": Unseen.VIEW,
    "fast_hash_has_a_known_seed": Unseen.CHANCE,
    "only_the_first_group_is_checked": Unseen.CONFIGURATION,
    "pool_without_blocks_starts": Unseen.CONFIGURATION,
    "empty_rows_stay": Unseen.MEMORY,
    "state_of_a_longer_prefix_will_do": Unseen.CHECKER,
    "rows_of_another_slot_will_do": Unseen.CHECKER,
    "rows_of_another_group_will_do": Unseen.CHECKER,
    "copy_takes_more_than_was_served": Unseen.PAST,
    "failed_rows_are_believed": Unseen.PAST,
    "failed_rows_of_another_slot_are_believed": Unseen.PAST,
    "failed_state_is_believed": Unseen.PAST,
    "content_of_a_former_life_is_believed": Unseen.PAST,
    "any_bytes_pass_for_a_key": Unseen.OBJECTS,
    "request_of_another_contract_is_taken": Unseen.OBJECTS,
    "another_request_of_its_name_goes_on": Unseen.OBJECTS,
    "refused_thread_unlocks_the_pool": Unseen.THREADS,
    "second_thread_is_let_in": Unseen.THREADS,
    "taking_a_block_out_walks_the_queue": Unseen.COST,
    "free_blocks_are_counted_anew": Unseen.COST,
    "lookup_searches_the_index": Unseen.COST,
    "observation_leaves_out_what_was_served": Unseen.OBSERVATION,
    "hybrid_pool_commits_at_once": Unseen.CONFIGURATION,
    "recurrent_group_may_drop": Unseen.CONFIGURATION,
    "interval_may_end_between_hashes": Unseen.CONFIGURATION,
    "alignment_may_overflow": Unseen.CONFIGURATION,
    "requests_run_over_a_pool_without_settings": Unseen.CONFIGURATION,
}

_SEEN_AS: Mapping[str, tuple[str, ...]] = {
    "observation_leaves_out_the_slot": ("REG-SLOT-1",),
    "observation_sorts_the_queue": ("POOL-FREE-2", "POOL-FREE-3"),
    "observation_drains_the_events": ("EVENT-DRAIN-1",),
}
"""Mutants of what is shown alone. A backend that shows a wrong state is taken for one that is in it."""


def why_unseen(mutant: Mutant) -> Unseen | None:
    """Why no trace can show the mutant; None if a backend could have this fault, and a certification has to notice."""
    return _BY_NAME.get(mutant.name) or _BY_MODULE.get(mutant.patch.module)


def seen_as(mutant: Mutant) -> tuple[str, ...]:
    """The clauses by one of which a certification has to fail the mutant."""
    return _SEEN_AS.get(mutant.name, mutant.clauses)


def listed() -> frozenset[str]:
    """The mutants that are listed by name."""
    return frozenset((*_BY_NAME, *_SEEN_AS))
