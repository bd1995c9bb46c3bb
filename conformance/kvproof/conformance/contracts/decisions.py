"""One operation from a whole flat state: every part of the state is an argument (POOL-*, REG-*).

The pools have three blocks and the null block, h = 2, B = 6; request r1 has six tokens. The asserts in front of the
first statement are preconditions.
"""

from __future__ import annotations

from kvproof.reference.ghost import Ghost
from kvproof.reference.invariants import check_invariants
from kvproof.reference.pool import BlockPool
from kvproof.reference.request import Request
from kvproof.spec.errors import ContentConflict, NotOwner, NotReferenced, OutOfBlocks, OutOfRange, PoolError
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig

TOKENS = (1, 2, 3, 4, 5, 6)


def make_pool(kind: GroupKind) -> tuple[BlockPool, Request]:
    """An empty pool and request r1."""
    pool = BlockPool(PoolConfig(4, 2, (GroupConfig(kind, 6),)), Ghost())
    return pool, Request("r1", TOKENS, pool.hasher)


def pool_with_keys(has_2: bool, has_4: bool, has_6: bool) -> tuple[BlockPool, Request]:
    """Block 1 is written by r1 and has some keys, the longest registered first, so that shorter ones are added."""
    pool, r1 = make_pool(GroupKind.FULL_ATTENTION)
    pool.allocate(1, "r1")
    pool.write(r1, 1, 6, 0)
    for position, wanted in ((6, has_6), (4, has_4), (2, has_2)):
        if wanted:
            pool.cache_partial_block(r1, 1, position, 0)
    return pool, r1


def positions_on(pool: BlockPool, block_id: int) -> list[int]:
    """The positions of a block's keys in registration order."""
    return [position for _, position in pool.observe().blocks[block_id].keys]


def allocate_takes_n_or_nothing(n: int) -> None:
    """POOL-ALLOC-1, POOL-ALLOC-3: n blocks from the front, or an error and no change."""
    assert -3 <= n <= 6
    pool, _ = make_pool(GroupKind.FULL_ATTENTION)
    before = pool.observe()
    raised: type[PoolError] | None = None
    taken: list[int] = []
    try:
        taken = pool.allocate(n, "r1")
    except (OutOfBlocks, OutOfRange) as error:
        raised = type(error)
    assert raised is (OutOfRange if n < 0 else OutOfBlocks if n > 3 else None)
    assert taken == ([1, 2, 3][:n] if raised is None else [])
    assert pool.num_free == 3 - len(taken)
    assert raised is None or pool.observe() == before


def a_partial_key_replaces_shorter_ones_and_joins_longer_ones(has_2: bool, has_4: bool, has_6: bool, unit: int) -> None:
    """REG-DUPLICATE-1, REG-FULL-3, REG-PARTIAL-*: what the block has afterwards, for every set of keys and position."""
    assert 1 <= unit <= 3
    pool, r1 = pool_with_keys(has_2, has_4, has_6)
    before = positions_on(pool, 1)
    position = 2 * unit
    pool.cache_partial_block(r1, 1, position, 0)
    after = positions_on(pool, 1)
    if position in before or 6 in before:
        assert after == before
    elif not before or position > max(before):
        assert after == [position]
    else:
        assert after == [*before, position]
    check_invariants(pool, [r1])


def replace_leaves_the_new_key_alone(has_2: bool, has_4: bool, has_6: bool, unit: int) -> None:
    """REG-REPLACE-1."""
    assert 1 <= unit <= 3
    pool, r1 = pool_with_keys(has_2, has_4, has_6)
    pool.cache_partial_block(r1, 1, 2 * unit, 0, replace=True)
    assert positions_on(pool, 1) == [2 * unit]
    check_invariants(pool, [r1])


def only_the_writer_registers(has_2: bool, has_4: bool, reader: bool, unit: int) -> None:
    """REG-OWNER-1, REG-OWNER-2, REG-DUPLICATE-1: a reader or the former writer gets an error, or nothing happens."""
    assert 1 <= unit <= 3
    pool, r1 = pool_with_keys(has_2, has_4, False)
    before = positions_on(pool, 1)
    key = r1.key_at(0, max(before)) if before else None
    r2 = Request("r2", TOKENS, pool.hasher)
    touched = reader and key is not None
    if touched and key is not None:
        pool.touch(1, key, "r2")
    pool.free([1], "r1")
    raised: type[PoolError] | None = None
    try:
        pool.cache_partial_block(r2, 1, 2 * unit, 0)
    except (NotOwner, NotReferenced) as error:
        raised = type(error)
    assert raised is (None if 2 * unit in before else NotOwner if touched else NotReferenced)
    assert positions_on(pool, 1) == before


def a_recurrent_block_has_one_key(first_unit: int, second_unit: int, replace: bool) -> None:
    """REG-RECURRENT-1, REG-REPLACE-1."""
    assert 1 <= first_unit <= 3
    assert 1 <= second_unit <= 3
    pool, r1 = make_pool(GroupKind.RECURRENT)
    pool.allocate(1, "r1")
    pool.write(r1, 1, 2 * first_unit, 0)
    pool.cache_partial_block(r1, 1, 2 * first_unit, 0)
    refused = False
    try:
        pool.cache_partial_block(r1, 1, 2 * second_unit, 0, replace=replace)
    except ContentConflict:
        refused = True
    assert refused == (first_unit != second_unit and not replace)
    assert positions_on(pool, 1) == [2 * (first_unit if refused else second_unit)]


def freed_blocks_take_their_places(keyed_1: bool, keyed_2: bool, first_freed: int) -> None:
    """POOL-FREE-2, POOL-FREE-3: without a key to the front as a group, with a key to the tail, in the order given."""
    assert 1 <= first_freed <= 2
    pool, r1 = make_pool(GroupKind.FULL_ATTENTION)
    pool.allocate(2, "r1")
    for block_id, keyed in ((1, keyed_1), (2, keyed_2)):
        if keyed:
            pool.write(r1, block_id, 6, 0)
            pool.cache_partial_block(r1, block_id, 6, 0)
    order = [1, 2] if first_freed == 1 else [2, 1]
    pool.free(order, "r1")
    keyed_blocks = [block for block, keyed in ((1, keyed_1), (2, keyed_2)) if keyed]
    front = [block for block in order if block not in keyed_blocks]
    tail = [block for block in order if block in keyed_blocks]
    assert list(pool.observe().free_queue) == [*front, 3, *tail]
    check_invariants(pool, [r1])


def writing_keeps_what_keys_cover(key_unit: int, kept_units: int, other_text: bool, written_units: int) -> None:
    """CONTENT-WRITE-1: after truncation and a continuation, a write succeeds only where no key covers a change."""
    assert 1 <= key_unit <= 3
    assert 0 <= kept_units <= 2
    assert 1 <= written_units <= 3
    pool, r1 = make_pool(GroupKind.FULL_ATTENTION)
    pool.allocate(1, "r1")
    pool.write(r1, 1, 6, 0)
    pool.cache_partial_block(r1, 1, 2 * key_unit, 0)
    kept = 2 * kept_units
    r1.truncate(kept)
    r1.append([9] * (6 - kept) if other_text else TOKENS[kept:])
    changed = other_text and kept_units < key_unit
    refused = False
    try:
        pool.write(r1, 1, 2 * written_units, 0)
    except ContentConflict:
        refused = True
    assert refused == (changed or written_units < key_unit)
    check_invariants(pool, [r1])
