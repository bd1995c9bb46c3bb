"""Mutants of chapter 10: positions, slots, units."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_POSITIONS = "kvproof.reference.positions"
_REGISTRATION = "kvproof.reference.registration"

MUTANTS = (
    Mutant(
        name="full_position_counts_to_the_next_slot",
        clauses=("POS-SLOT-1",),
        fault="F07",
        harm="A full block is taken for the first of the next slot, so its prefix is served one block too far.",
        patch=Patch(_POSITIONS, "return (position - 1) // block_size", "return position // block_size"),
    ),
    Mutant(
        name="everything_past_the_first_block_is_full",
        clauses=("POS-FULL-1",),
        fault="F07",
        harm="The half-filled last block of a long prompt passes for full and is offloaded as such.",
        patch=Patch(_POSITIONS, "return position % block_size == 0", "return position >= block_size"),
    ),
    Mutant(
        name="unaligned_position_is_rounded_down",
        clauses=("POS-ALIGN-1",),
        fault="F07",
        harm="A key for 2 tokens is registered as one for 3: readers take a row that nobody named.",
        patch=Patch(
            "kvproof.reference.validate", "    if position % hash_block_size:\n", "    if position < hash_block_size:\n"
        ),
    ),
    Mutant(
        name="partial_position_may_exceed_the_hashed_tokens",
        clauses=("POS-ALIGN-1",),
        fault="F07",
        harm="Registering a boundary that the request has not reached crashes the engine instead of being refused.",
        patch=Patch(
            _REGISTRATION,
            'check_int("position", position, 1, request.hashed_length)',
            'check_int("position", position, 1)',
        ),
    ),
    Mutant(
        name="view_takes_the_hash_unit_for_the_block_size",
        clauses=("POS-UNIT-1",),
        fault="F07",
        harm="A group with blocks of 4 tokens registers its first block under the hash of 2 tokens.",
        patch=Patch(_POSITIONS, "return hash_index(slot_end(slot, block_size), hash_block_size)", "return slot"),
    ),
    Mutant(
        name="view_counts_the_begun_slot",
        clauses=("POS-UNIT-1",),
        fault="F07",
        harm="The view of a group claims one block more than the hashes cover, and reading it fails.",
        patch=Patch(
            _POSITIONS,
            "return num_hashes * hash_block_size // block_size",
            "return -(-num_hashes * hash_block_size // block_size)",
        ),
    ),
)
