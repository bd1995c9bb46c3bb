"""Arithmetic of positions and slots, for all integers (POS-SLOT-1, POS-FULL-1, POS-ALIGN-1, POS-UNIT-1)."""

from __future__ import annotations

from kvproof.reference.positions import (
    hash_index,
    is_full,
    overlap,
    parent_position,
    slot_end,
    slot_of,
    slot_start,
    view_index,
    view_length,
)


def position_lies_in_its_slot(position: int, block_size: int) -> None:
    """POS-SLOT-1: the last token of a prefix is a token of the slot in which the prefix ends."""
    assert position > 0
    assert block_size > 0
    slot = slot_of(position, block_size)
    assert slot_start(slot, block_size) < position
    assert position <= slot_end(slot, block_size)


def slots_follow_each_other(slot: int, block_size: int) -> None:
    """POS-SLOT-1: a slot ends where the next one starts, and its end belongs to it."""
    assert slot >= 0
    assert block_size > 0
    assert slot_end(slot, block_size) == slot_start(slot + 1, block_size)
    assert slot_of(slot_end(slot, block_size), block_size) == slot


def full_means_at_the_end_of_the_slot(position: int, block_size: int) -> None:
    """POS-FULL-1."""
    assert position > 0
    assert block_size > 0
    assert is_full(position, block_size) == (position == slot_end(slot_of(position, block_size), block_size))


def hash_index_counts_units(position: int, hash_block_size: int) -> None:
    """POS-ALIGN-1: the index of H(n) is the number of whole units before the last one."""
    assert hash_block_size > 0
    assert position > 0
    assert position % hash_block_size == 0
    index = hash_index(position, hash_block_size)
    assert index >= 0
    assert (index + 1) * hash_block_size == position


def parent_is_one_unit_shorter(position: int, hash_block_size: int) -> None:
    """HASH-CHAIN-1: the parent is aligned too, and is the seed exactly for the first unit."""
    assert hash_block_size > 0
    assert position > 0
    assert position % hash_block_size == 0
    parent = parent_position(position, hash_block_size)
    assert 0 <= parent < position
    assert parent % hash_block_size == 0
    assert (parent == 0) == (hash_index(position, hash_block_size) == 0)


def view_has_as_many_items_as_whole_slots_16_48(num_hashes: int) -> None:
    """POS-UNIT-1, h = 16 and B = 48: no slot that the hashes do not cover, none left out."""
    assert num_hashes >= 0
    length = view_length(num_hashes, 16, 48)
    assert 0 <= slot_end(length - 1, 48) <= num_hashes * 16
    assert num_hashes * 16 < slot_end(length, 48)


def view_item_is_the_hash_at_the_slot_end_16_48(slot: int) -> None:
    """POS-UNIT-1, h = 16 and B = 48: item i is H((i + 1) * B)."""
    assert slot >= 0
    assert (view_index(slot, 16, 48) + 1) * 16 == slot_end(slot, 48)


def overlap_is_inside_both(start: int, end: int, span_start: int, span_end: int, token: int) -> None:
    """HASH-EXTRA-2: a token is in the overlap exactly if it is in the extra key and in the span."""
    assert start < end
    assert span_start < span_end
    first, last = overlap(start, end, span_start, span_end)
    assert (first <= token < last) == (start <= token < end and span_start <= token < span_end)


def open_overlap_is_inside_both(start: int, span_start: int, span_end: int, token: int) -> None:
    """HASH-EXTRA-2, for an extra key without an end."""
    assert span_start < span_end
    first, last = overlap(start, None, span_start, span_end)
    assert (first <= token < last) == (start <= token and span_start <= token < span_end)
