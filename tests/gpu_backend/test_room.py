"""Room: what happens when a table is full, and when there is no memory for a larger one."""

from __future__ import annotations

import threading

import pytest

from kvproof.gpu_backend import BlockPool
from kvproof.gpu_backend import pool as pool_module
from kvproof.gpu_backend.arena import REGIONS
from kvproof.spec.errors import ConcurrentUse, InvalidArgument, OutOfBlocks, OutOfRange
from kvproof.spec.events import Removed, Stored
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HolderMode, PoolConfig
from tests.gpu_backend.pools import config, full_pool
from tests.gpu_backend.tools import script

CrampedPool = script("fuzz_core").CrampedPool


def fill(pool: BlockPool) -> list[int]:
    """Register eight keys."""
    taken = pool.allocate(8, "r1")
    pool.cache_full_blocks(pool.request("r1", list(range(32))), taken, 0, 8, 0)
    return taken


def test_a_pool_without_room_grows_and_loses_nothing() -> None:
    cramped, roomy = CrampedPool(config()), BlockPool(config())
    first = cramped.arena.numel()
    for pool in (cramped, roomy):
        pool.free(fill(pool), "r1")
    assert cramped.arena.numel() > first
    assert cramped.observe() == roomy.observe()
    cramped.check()


@pytest.mark.clause("ERR-ATOMIC-1")
def test_without_memory_to_grow_the_operation_fails_and_the_pool_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = CrampedPool(config())
    before = pool.observe()

    def no_memory(words: int) -> object:
        raise MemoryError(f"no {words} words")

    taken = pool.allocate(8, "r1")
    before = pool.observe()
    monkeypatch.setattr(pool_module, "new_arena", no_memory)
    with pytest.raises(MemoryError):
        pool.cache_full_blocks(pool.request("r1", list(range(32))), taken, 0, 8, 0)
    assert pool.observe() == before
    pool.cache_full_blocks(pool.request("r1", list(range(32))), taken, 0, 2, 0)
    monkeypatch.undo()
    pool.cache_full_blocks(pool.request("r1", list(range(32))), taken, 0, 8, 0)
    assert len(pool.observe().index) == 8
    pool.check()


def test_events_wait_outside_the_ring_when_it_is_full() -> None:
    pool = CrampedPool(config())
    for turn in range(50):
        taken = pool.allocate(8, "r1")
        pool.cache_full_blocks(pool.request("r1", [turn] * 32), taken, 0, 8, 0, [True, False] * 4)
        pool.free(taken, "r1")
    events = pool.take_events()
    assert sum(isinstance(event, Stored) for event in events) == 4 * 50
    assert sum(isinstance(event, Removed) for event in events) == 4 * 49
    assert pool.take_events() == []


def test_a_pool_that_tells_nobody_works_the_same() -> None:
    told, silent = BlockPool(config()), BlockPool(config(), events=False)
    assert fill(told) == fill(silent)
    assert silent.take_events() == []
    told.take_events()
    assert told.observe() == silent.observe()


def test_names_that_nobody_needs_make_room_for_others() -> None:
    pool = BlockPool(config())
    for number in range(5000):
        name = f"request {number}"
        pool.free(pool.allocate(2, name), name)
    assert len(pool._names) < 1000
    kept = pool.allocate(1, "keeps its block")
    for number in range(5000):
        pool.free(pool.allocate(1, f"another {number}"), f"another {number}")
    assert pool.observe().blocks[kept[0]].writer == "keeps its block"


def test_texts_that_no_event_names_are_let_go() -> None:
    pool = BlockPool(config())
    for _ in range(5000):
        taken = pool.allocate(1, "r1")
        pool.cache_full_blocks(pool.request("r1", [1, 2, 3, 4]), taken, 0, 1, 0)
        pool.free(taken, "r1")
        pool.take_events()
    assert len(pool._behind()[1]) < 3000


def test_the_queue_is_swept_before_its_ring_is_full() -> None:
    blocks = 1200
    pool, keys = full_pool(blocks), {}
    for key, (block,) in pool.observe().index.items():
        keys[block] = key
    for turn in range(40):
        chosen = [b for b in range(1, blocks) if (b + turn) % 3]
        pool.touch_all(chosen, [keys[b] for b in chosen], "r2")
        pool.free(chosen, "r2")
        pool.check()
    queue = pool.observe().free_queue
    assert sorted(queue) == list(range(1, blocks))
    assert queue[-len(chosen) :] == tuple(chosen)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"config": config(2**31 - 1)}, OutOfRange),
        ({"config": "a pool"}, InvalidArgument),
        ({"config": config(0)}, OutOfRange),
        ({"config": config(), "device": "cuda:99"}, InvalidArgument),
        ({"config": config(), "device": 7}, InvalidArgument),
        ({"config": config(), "events": 1}, InvalidArgument),
        ({"config": config(holders=HolderMode.CALLER, commit=CommitMode.STEPS)}, InvalidArgument),
    ],
)
def test_what_no_pool_can_be_made_of_is_refused(arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        BlockPool(**arguments)  # type: ignore[arg-type]


def test_block_sizes_beyond_any_request_are_no_harm() -> None:
    huge = 2**62
    pool = BlockPool(PoolConfig(3, 1, (GroupConfig(GroupKind.FULL_ATTENTION, huge),)))
    request = pool.request("r1", [1, 2, 3])
    [block] = pool.allocate(1, "r1")
    pool.cache_partial_block(request, block, 3, 0)
    with pytest.raises(OutOfRange):
        pool.cache_full_blocks(request, [block], 0, 1, 0)
    assert pool.lookup([request.key_at(0, 3) or b""]) == [block]
    assert pool.full_key(block) is None


@pytest.mark.clause("ERR-OWNER-1")
def test_a_second_thread_inside_an_operation_is_refused_and_the_operation_goes_on() -> None:
    refused: list[BaseException] = []

    class Watched(CrampedPool):  # type: ignore[misc, valid-type]
        def _grow(self, region: int, wanted: int) -> None:
            def intrude() -> None:
                try:
                    self.allocate(1, "intruder")
                except BaseException as error:
                    refused.append(error)

            thread = threading.Thread(target=intrude)
            thread.start()
            thread.join()
            super()._grow(region, wanted)

    pool = Watched(config())
    fill(pool)
    assert refused
    assert {type(error) for error in refused} == {ConcurrentUse}
    assert len(pool.observe().index) == 8


@pytest.mark.clause("ERR-TEXT-1")
def test_an_error_says_what_was_wrong_and_what_is_allowed() -> None:
    pool = full_pool(5)
    with pytest.raises(OutOfBlocks, match=r"allocate\(9, 'r2'\).*4 blocks are free"):
        pool.allocate(9, "r2")


class WatchedPool(CrampedPool):  # type: ignore[misc, valid-type]
    """Notes which regions grow."""

    def __init__(self) -> None:
        self.grown: list[int] = []
        super().__init__(config(9))

    def _grow(self, region: int, wanted: int) -> None:
        self.grown.append(region)
        super()._grow(region, wanted)


def test_room_that_was_reserved_is_not_made_later() -> None:
    without, pool, entries = WatchedPool(), WatchedPool(), REGIONS["entries"]
    fill(without)
    assert entries in without.grown
    pool.reserve(8)
    assert pool.grown == [entries]
    pool.reserve(8)
    fill(pool)
    assert pool.grown.count(entries) == 1
    pool.check()


@pytest.mark.parametrize("keys", [-1, 2**40, 2**70])
def test_room_for_an_impossible_number_of_keys_is_refused(keys: int) -> None:
    pool = BlockPool(config(9))
    before = pool.arena.clone()
    with pytest.raises(OutOfRange):
        pool.reserve(keys)
    assert pool.arena.equal(before)
    fill(pool)
