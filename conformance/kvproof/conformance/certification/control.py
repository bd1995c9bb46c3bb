"""The control of a run: broken references go through the vectors too, and each has to be noticed."""

from __future__ import annotations

from collections.abc import Callable

from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.result import MutationControl
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.twin import mutated_reference
from kvproof.conformance.vectors import is_draining, vectors_of

PLANTED = (
    "appended_tokens_are_not_hashed",
    "keys_are_published_when_scheduled",
    "null_block_is_queued",
    "finish_names_a_holder_where_there_are_none",
    "touch_makes_the_block_the_first_found",
    "seed_is_not_digested",
    "full_position_counts_to_the_next_slot",
    "any_key_passes_for_full",
    "extra_key_is_hashed_beyond_the_span",
    "removed_names_no_group",
    "keys_of_a_block_are_sorted",
    "events_are_delivered_again",
    "blocks_in_use_are_not_evicted",
    "new_queue_is_reversed",
)
"""One named mutant of each kind of fault that a trace can show; cost is none of these."""


def mutation_control(tell: Callable[[str], None] = lambda text: None) -> MutationControl:
    """Run each planted mutant through the vectors of the clauses that it breaks."""
    chosen = [mutant for mutant in MUTANTS if mutant.name in PLANTED]
    missed = []
    for number, mutant in enumerate(chosen):
        tell(f"control: {number} of {len(chosen)} planted faults")
        if not is_noticed(mutant):
            missed.append(mutant.name)
    return MutationControl(len(chosen), len(chosen) - len(missed), "in this run", tuple(missed))


def is_noticed(mutant: Mutant) -> bool:
    """Whether a vector of one of the mutant's clauses diverges."""
    backend = mutated_reference(mutant.patch)
    _, capabilities = backend.identify()
    for vector in vectors_of(mutant.clauses):
        lockstep = Lockstep(backend, capabilities, vector.header.config, watch=not is_draining(vector))
        lockstep.replay(vector.operations, reads=True)
        if lockstep.divergence is not None:
            return True
    return False
