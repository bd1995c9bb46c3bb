"""Arithmetic of positions, slots and hash units (clauses POS-*).

A *position* n counts tokens: it stands behind the n-th token. Slot i of a group with block size B holds the tokens
i*B .. (i+1)*B - 1, so the positions that end inside it are i*B + 1 .. (i+1)*B. H(n) exists for multiples n of h.
The callers have validated their arguments; the contracts of these functions are checked by crosshair.
"""

from __future__ import annotations


def slot_of(position: int, block_size: int) -> int:
    """Index of the slot in which the prefix of `position` > 0 tokens ends."""
    return (position - 1) // block_size


def slot_start(slot: int, block_size: int) -> int:
    """Number of tokens before the slot."""
    return slot * block_size


def slot_end(slot: int, block_size: int) -> int:
    """Position at which the slot is full."""
    return (slot + 1) * block_size


def is_full(position: int, block_size: int) -> bool:
    """Whether a key at this position names a full slot (POS-FULL-1)."""
    return position % block_size == 0


def hash_index(position: int, hash_block_size: int) -> int:
    """Index of H(position) in the list H(h), H(2h), ... for a positive multiple of h."""
    return position // hash_block_size - 1


def parent_position(position: int, hash_block_size: int) -> int:
    """Position of the hash that H(position) is chained to; 0 is the seed."""
    return position - hash_block_size


def view_length(num_hashes: int, hash_block_size: int, block_size: int) -> int:
    """How many slots of `block_size` tokens a list of `num_hashes` hashes covers completely."""
    return num_hashes * hash_block_size // block_size


def view_index(slot: int, hash_block_size: int, block_size: int) -> int:
    """Index, in the list of hashes, of the hash that names slot `slot` of `block_size` tokens."""
    return hash_index(slot_end(slot, block_size), hash_block_size)


def overlap(start: int, end: int | None, span_start: int, span_end: int) -> tuple[int, int]:
    """First and one past the last token that both start .. end-1 and the span have; first >= last if there is none."""
    return max(start, span_start), span_end if end is None else min(end, span_end)
