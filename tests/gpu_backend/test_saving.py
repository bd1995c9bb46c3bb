"""A saved pool is the same pool; what is no saved pool is refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from kvproof.gpu_backend import BlockPool, CorruptedState, _core
from kvproof.gpu_backend.arena import HEADER, column_of, region_of
from kvproof.spec.errors import PoolError
from kvproof.spec.vocabulary import HolderMode
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
    refused, end = 0, region_of(pool.arena, "readers").start  # from here on all is empty
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
    pool.views().blocks[3, column_of("blocks", field)] += 1
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


@pytest.fixture(scope="module")
def saved_states() -> list[bytes]:
    """States of busy pools of all kinds."""
    states = []
    for seed in range(300, 312):
        pair = fuzz.Pair(seed)
        for _ in range(60):
            pair.call()
        states.append(pair.ours.save())
    return states


def test_a_flipped_bit_is_noticed_wherever_it_is(saved_states: list[bytes]) -> None:
    random = Random(3)
    for _ in range(3000):
        saved = bytearray(random.choice(saved_states))
        saved[random.randrange(len(saved))] ^= 1 << random.randrange(8)
        with pytest.raises(CorruptedState):
            BlockPool.restore(bytes(saved))


def test_a_state_that_was_cut_or_added_to_is_noticed(saved_states: list[bytes]) -> None:
    random = Random(4)
    for _ in range(300):
        saved = random.choice(saved_states)
        for changed in (saved[: random.randrange(len(saved))], saved + bytes(random.randrange(1, 40)), saved * 2):
            with pytest.raises(CorruptedState):
                BlockPool.restore(changed)


def signed(body: bytes) -> bytes:
    """A state with the digest of what it is, as somebody would write it who means harm."""
    return body + _core.digest(4, body)


def use(pool: BlockPool) -> None:
    """Do everything with a pool, whoever wrote its state; each call is done or refused."""
    pool.check()
    state = pool.observe()
    holder = None if pool.config.holders is not HolderMode.NAMED else "r9"
    calls: list[Callable[[], object]] = [
        pool.begin_step,
        lambda: pool.allocate(pool.num_free, holder),
        lambda: pool.free(list(range(1, pool.config.num_blocks)), holder),
        lambda: pool.lookup(list(state.index)),
        lambda: pool.find(list(state.index)),
        lambda: pool.rollback(["r0", "r1", "r2", "r3", "r4"]),
        lambda: pool.commit(pool.last_committed_step + 1),
        lambda: pool.evict(list(range(1, pool.config.num_blocks))),
        pool.reset,
        pool.take_events,
        lambda: BlockPool.restore(pool.save()),
    ]
    for call in calls:
        with suppress(PoolError):
            call()
    pool.observe()


def test_a_state_that_somebody_made_up_is_refused_or_is_a_state(saved_states: list[bytes]) -> None:
    random, refused = Random(5), 0
    for _ in range(1200):
        body = bytearray(random.choice(saved_states)[:-16])
        # The description is a small part of most states, and the most delicate one.
        end = body.index(b"\n") if random.random() < 0.5 else len(body)
        for _ in range(random.randint(1, 3)):
            at = random.randrange(end)
            body[at] = random.choice([body[at] ^ 1 << random.randrange(8), 0, 255, ord("9"), ord("-")])
        try:
            pool = BlockPool.restore(signed(bytes(body)))
        except CorruptedState:
            refused += 1
        else:
            use(pool)
    assert 500 < refused < 1200


@pytest.mark.parametrize(
    ("right", "wrong", "text"),
    [
        ('"kvproof_pool": 2', '"kvproof_pool": 3', "version 3; this reads 2"),
        ('"kvproof_pool": 2', '"kvproof_pool": "2"', "version '2'; this reads 2"),
        ('"kvproof_pool": 2, ', "", "kvproof_pool"),
        ('"num_blocks": 9', '"num_blocks": 1000000000000', "num_blocks is 1000000000000"),
        ('"num_blocks": 9', '"num_blocks": 1e999', "num_blocks must be an integer"),
        ('"hash_block_size": 2', '"hash_block_size": 4', "another configuration"),
        ('"holders": "named"', '"holders": "nobody"', "nobody"),
        ('"holders": "named"', '"holders": []', "holders|HolderMode|\\[\\]"),
        ('"commit": "immediate"', '"commit": "steps"', "bytes"),
        ('"rows": [', '"rows": [1.5, ', "numbers"),
        ('"rows": [', '"rows": [1000000000000000000000000, ', "too large|rows|int"),
        ('"rows": [1, 9,', '"rows": [1, 9, 1073741824,', "bytes|rows"),
        ('"rows": [', '"rows": [[', "JSON"),
        ('"tells_events": true', '"tells_events": "no"', "numbers"),
        ('"arena": ', '"arena": -', "after its end"),
        ('"arena": ', '"ARENA": ', "arena"),
        ('"seed_digest": "', '"seed_digest": "00', "contract"),
        ('"names": [null', '"names": [null, "r1"', "name"),
        ('"names": [null', '"names": ["x"', "name"),
        ('"names": [null', '"names": [' + "[" * 100_000, "recursion|JSON"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused_with_what_is_wrong(right: str, wrong: str, text: str) -> None:
    saved = full_pool().save()
    assert saved.count(right.encode()) == 1
    with pytest.raises(CorruptedState, match=f"(?i){text}"):
        BlockPool.restore(signed(saved[:-16].replace(right.encode(), wrong.encode())))


def test_references_that_are_counted_wrong_are_found() -> None:
    pool = BlockPool(config())
    pool.allocate(3, "r1")
    at = region_of(pool.arena, "holders")
    pool.arena[at].view(-1, 3)[1, 0] += 1
    with pytest.raises(CorruptedState, match="references of a holder"):
        pool.check()
