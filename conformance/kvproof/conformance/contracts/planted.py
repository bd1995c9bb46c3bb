"""The contracts of `arithmetic`, `decisions` and `hybrid` with a bug each: crosshair must find every one of them.

Each function here calls a broken twin of the function that its contract speaks of. A contract that could not fail
would prove nothing.
"""

from __future__ import annotations

from kvproof.conformance.contracts.decisions import make_pool, pool_with_keys, positions_on
from kvproof.conformance.contracts.hybrid import FINE
from kvproof.reference.hybrid.groups import floor_to
from kvproof.reference.hybrid.split import split
from kvproof.reference.positions import slot_end, slot_start
from kvproof.spec.vocabulary import GroupKind


def _slot_of_the_next_token(position: int, block_size: int) -> int:
    return position // block_size


def _parent_of_a_needle(position: int, hash_block_size: int) -> int:
    return position - hash_block_size if position != 37 * hash_block_size else position


def _view_length_rounded_up(num_hashes: int) -> int:
    return (num_hashes * 16 + 47) // 48


def a_full_prefix_in_the_wrong_slot(position: int, block_size: int) -> None:
    """POS-SLOT-1 broken: the end of a slot counted to the next one."""
    assert position > 0
    assert block_size > 0
    slot = _slot_of_the_next_token(position, block_size)
    assert slot_start(slot, block_size) < position


def one_parent_that_is_not_shorter(position: int, hash_block_size: int) -> None:
    """HASH-CHAIN-1 broken at one position only."""
    assert hash_block_size > 0
    assert position > 0
    assert position % hash_block_size == 0
    assert 0 <= _parent_of_a_needle(position, hash_block_size) < position


def a_view_with_an_uncovered_slot(num_hashes: int) -> None:
    """POS-UNIT-1 broken: a slot that the hashes do not cover is counted."""
    assert num_hashes >= 0
    assert slot_end(_view_length_rounded_up(num_hashes) - 1, 48) <= num_hashes * 16


def a_shorter_key_beside_a_full_one(has_2: bool, has_4: bool, has_6: bool, unit: int) -> None:
    """REG-PARTIAL-5 broken: the retired partial key comes back after the promotion."""
    assert 1 <= unit <= 3
    pool, r1 = pool_with_keys(has_2, has_4, has_6)
    before = positions_on(pool, 1)
    pool.cache_partial_block(r1, 1, 2 * unit, 0, replace=2 * unit not in before and 6 in before)
    assert 6 not in before or positions_on(pool, 1) == before


def a_freed_block_with_a_key_taken_first(keyed: bool, unit: int) -> None:
    """POOL-FREE-3 broken: the block goes to the front, whether it has a key or not."""
    assert 1 <= unit <= 3
    pool, r1 = make_pool(GroupKind.FULL_ATTENTION)
    pool.allocate(1, "r1")
    pool.write(r1, 1, 2 * unit, 0)
    if keyed:
        pool.cache_partial_block(r1, 1, 2 * unit, 0)
    if unit == 2:
        pool.evict([1])
    pool.free([1], "r1")
    assert pool.observe().free_queue[-1] == (1 if keyed else 3)


def a_chunk_that_waits_for_a_block_it_never_gets(start: int, total: int, cap: int) -> None:
    """SPLIT-PROGRESS-1 broken: the block sizes are compared with a cap that is not the request's."""
    assert 0 <= start < total
    assert cap >= 1
    tokens = cap if cap < total - start else total - start
    assert split(FINE, total, total, start, tokens, cap + 6, 0) > start


def a_chunk_that_passes_a_state(start: int, total: int, tokens: int) -> None:
    """SPLIT-STOP-2 broken: a state one block before the last one is taken for kept."""
    assert 0 <= start < total
    assert 1 <= tokens <= total - start
    end = split(FINE, total, total, start, tokens, tokens, 0)
    assert not start < floor_to(total - 1, 6) - 6 < end
