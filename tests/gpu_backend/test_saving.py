"""A saved pool is the same pool; what is no saved pool is refused."""

from __future__ import annotations

from random import Random

import pytest

from kvproof.gpu_backend import BlockPool, CorruptedState, _core
from kvproof.gpu_backend.arena import HEADER, region_of
from tests.gpu_backend.pools import config, full_pool
from tests.gpu_backend.tools import script

fuzz = script("fuzz_core")


@pytest.mark.parametrize("seed", range(200, 208))
def test_a_restored_pool_goes_on_as_if_nothing_had_happened(seed: int) -> None:
    pair = fuzz.Pair(seed)
    for turn in range(120):
        pair.call()
        pair.ours.check()
        if turn % 20 == 19:
            pair.ours = type(pair.ours).restore(pair.ours.save())


def test_saving_changes_nothing_and_the_events_are_saved_too() -> None:
    pool = full_pool()
    before = pool.observe()
    again = BlockPool.restore(pool.save())
    assert pool.observe() == again.observe() == before
    assert pool.take_events() == again.take_events() != []


def test_every_change_of_a_saved_state_is_noticed() -> None:
    saved, random = full_pool().save(), Random(1)
    for _ in range(200):
        at = random.randrange(len(saved))
        with pytest.raises(CorruptedState):
            BlockPool.restore(saved[:at] + bytes([saved[at] ^ 1 << random.randrange(8)]) + saved[at + 1 :])
    for end in (0, 1, 20, len(saved) // 2, len(saved) - 1):
        with pytest.raises(CorruptedState):
            BlockPool.restore(saved[:end])


@pytest.mark.parametrize("junk", [None, "text", b"", b"{}\n", bytearray(b"x" * 100), 7])
def test_what_is_no_saved_state_is_refused(junk: object) -> None:
    with pytest.raises(CorruptedState):
        BlockPool.restore(junk)  # type: ignore[arg-type]


def sealed(saved: bytes, at: int, word: int) -> bytes:
    """A saved state in which one word of the arena is another, with the right digest all the same."""
    start = saved.index(b"\n") + 1 + 4 * at
    changed = saved[:start] + word.to_bytes(4, "little", signed=True) + saved[start + 4 : -16]
    return changed + _core.digest(4, changed)


def test_an_arena_that_breaks_an_invariant_is_refused_whatever_its_digest_says() -> None:
    pool = full_pool()
    saved, random = pool.save(), Random(2)
    refused, end = 0, region_of(pool.arena, "readers", 9).start  # from here on all is empty
    for _ in range(400):
        at = random.randrange(end)
        word = random.choice([-1, -2, 0, 1, 3, 100, 2**31 - 1, -(2**31)])
        try:
            restored = BlockPool.restore(sealed(saved, at, word))
        except CorruptedState:
            refused += 1
            continue
        restored.check()  # what was changed is read by nobody, or is a value like another
        restored.free(restored.allocate(restored.num_free, "r3"), "r3")
    assert refused > 100


@pytest.mark.parametrize("field", ["references", "place", "first_entry", "writer", "readers"])
def test_each_field_of_a_block_is_checked(field: str) -> None:
    pool = full_pool()
    columns = ("references", "place", "first_entry", "group", "slot", "writer", "readers")
    pool.views().blocks[3, columns.index(field)] += 1
    with pytest.raises(CorruptedState):
        pool.check()


@pytest.mark.parametrize("column", range(5))
def test_each_link_of_an_entry_is_checked(column: int) -> None:
    pool = full_pool()
    pool.views().entries[0, 4 + column] += 1
    with pytest.raises(CorruptedState):
        pool.check()


@pytest.mark.parametrize(
    ("name", "change"),
    [("num_free", 1), ("ring_head", 1), ("ring_span", -1), ("num_entries", 1), ("num_readers", 1), ("committed", 1)],
)
def test_each_count_is_checked(name: str, change: int) -> None:
    pool = full_pool()
    pool.views().header[HEADER[name]] += change
    with pytest.raises(CorruptedState):
        pool.check()


def test_a_state_of_another_configuration_is_refused() -> None:
    pool = BlockPool(config(9))
    saved = pool.save().replace(b'"num_blocks": 9', b'"num_blocks": 8', 1)[:-16]
    with pytest.raises(CorruptedState):
        BlockPool.restore(saved + _core.digest(4, saved))
