"""Without memory an operation fails with MemoryError; what it was to change is as it was, and the pool goes on."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kvproof.gpu_backend import BlockPool, Request, _core
from kvproof.gpu_backend import pool as pool_module
from kvproof.gpu_backend.hybrid import HybridCache, TornCache
from kvproof.spec.errors import PoolError
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HybridConfig, PoolConfig
from tests.gpu_backend.pools import config
from tests.gpu_backend.striking import struck
from tests.gpu_backend.tools import PROJECT, script

CrampedPool = script("fuzz_core").CrampedPool

LIMITED = """
import resource, sys
from kvproof.gpu_backend import BlockPool, Request, _core
from kvproof.spec.vocabulary import GroupConfig, GroupKind, HolderMode, PoolConfig

class Small(BlockPool):
    def _first_rows(self):
        rows = list(super()._first_rows())
        rows[list(self._regions).index("entries")] = 64
        return tuple(rows)

from kvproof.gpu_backend.arena import REGIONS
Small._regions = REGIONS
pool = Small(PoolConfig(400_001, 1, (GroupConfig(GroupKind.FULL_ATTENTION, 1),), holders=HolderMode.CALLER))
request = pool.request("r1", list(range(400_000)))
taken = pool.allocate(400_000)
pool.cache_full_blocks(request, taken, 0, 50, 0)
before = pool.arena.clone()

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + 2**22, hard))
try:
    pool.cache_full_blocks(request, taken, 0, 400_000, 0)
except MemoryError as error:
    refused = str(error)
else:
    sys.exit("it had memory")
try:
    Small(PoolConfig(2**26, 1, (GroupConfig(GroupKind.FULL_ATTENTION, 1),)))
except MemoryError:
    pass
else:
    sys.exit("a pool of 2**26 blocks had memory")
assert "does not fit into memory" in refused, refused
assert pool.arena.equal(before)
pool.cache_full_blocks(request, taken, 50, 60, 0)
pool.free(taken[:10])
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
pool.cache_full_blocks(request, taken, 10, 400_000, 0)
pool.check()
assert len(pool.lookup_longest([request.key_at(0, n + 1) for n in range(400_000)])) == 400_000
print("goes on")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has is read as Linux shows it")
@pytest.mark.clause("ERR-ATOMIC-1")
def test_a_pool_that_the_system_gives_no_memory_to_is_as_it_was_and_goes_on() -> None:
    run = subprocess.run([sys.executable, "-c", LIMITED], cwd=PROJECT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "goes on\n"


@pytest.fixture(scope="module")
def alone() -> Iterator[ProcessPoolExecutor]:
    """A process of one thread: CPython's fault injection takes the memory from whichever thread asks for it.

    One thread of those that run these tests receives the next tests; without memory it ends, and its process later.
    """
    pytest.importorskip("_testcapi", reason="CPython's own fault injection is not installed")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        yield process


@contextmanager
def without_allocation(number: int) -> Iterator[None]:
    """The allocation of Python of this number fails, all others succeed."""
    if threading.active_count() > 1:
        raise RuntimeError("another thread could be the one that finds no memory; run it `alone`")
    allocations = import_module("_testcapi")  # not every build of Python has it
    allocations.set_nomemory(number, number + 1)
    try:
        yield
    finally:
        allocations.remove_mem_hooks()


def begun(cramped: bool) -> BlockPool:
    pool: BlockPool = (CrampedPool if cramped else BlockPool)(config(commit=CommitMode.STEPS))
    request = pool.request("r1", list(range(16)))
    pool.begin_step()
    pool.cache_full_blocks(request, pool.allocate(4, "r1"), 0, 2, 0)
    pool.commit(1)
    pool.begin_step()
    return pool


CALLS: dict[str, Callable[[BlockPool, list[bytes], Request], object]] = {
    "touch": lambda pool, keys, _: pool.touch(1, keys[0], "somebody new"),
    "touch_all": lambda pool, keys, _: pool.touch_all([1, 2], keys, "somebody new"),
    "cache_full_blocks": lambda pool, _, request: pool.cache_full_blocks(request, [1, 2, 3, 4], 0, 4, 0),
    "cache_slots": lambda pool, _, request: pool.cache_slots(request, [3, 4], 2, 0),
    "cache_partial_block": lambda pool, _, request: pool.cache_partial_block(request, 3, 10, 0),
    "free": lambda pool, *_: pool.free([4, 3, 2], "r1"),
    "copy": lambda pool, *_: pool.copy(1, 4, "r1"),
    "evict": lambda pool, *_: pool.evict([1, 2]),
    "commit": lambda pool, *_: pool.commit(2),
    "lookup": lambda pool, keys, _: pool.lookup(keys * 20),
    "lookup_longest": lambda pool, keys, _: pool.lookup_longest(keys[:1] * 20),
    "find": lambda pool, keys, _: pool.find(keys * 20),
    "find_matrix": lambda pool, _, request: pool.find_matrix(request),
    "uses": lambda pool, *_: pool.uses([1, 2, 3, 4] * 5, "r1"),
    "num_held": lambda pool, *_: pool.num_held("r1"),
    "write": lambda pool, _, request: pool.write(request, 3, 12, 0),
    "read": lambda pool, *_: pool.read(1, "r1"),
}
"""What changes a pool and answers nothing, or answers and changes nothing."""

NEEDS_LITTLE = {"touch", "touch_all", "free", "evict", "commit", "num_held", "write", "read"}
"""Operations that may get by without an allocation."""


@pytest.mark.clause("ERR-ATOMIC-1")
@pytest.mark.parametrize("cramped", [False, True])
@pytest.mark.parametrize("operation", CALLS)
def test_wherever_memory_is_lacking_the_operation_has_not_happened(
    alone: ProcessPoolExecutor, operation: str, cramped: bool
) -> None:
    alone.submit(refuse_every_allocation, operation, cramped).result()


def refuse_every_allocation(operation: str, cramped: bool) -> None:
    done, pool = begun(cramped), begun(cramped)
    call, request = CALLS[operation], pool.request("r1", list(range(16)))
    keys = [request.key_at(0, position) or b"" for position in (4, 8)]
    right = repr(call(done, keys, request))
    before, expected, failures = pool.observe(), done.observe(), 0
    for number in range(1, 2000):
        try:
            with without_allocation(number):
                answer = call(pool, keys, request)
        except MemoryError:
            failures += 1
            pool.check()
            assert pool.observe() == before, number
        else:
            break
    assert repr(answer) == right
    assert pool.observe() == expected
    assert failures > 0 or operation in NEEDS_LITTLE


class Hybrid:
    """A cache of attention and states, with a request that waits, one that runs, and blocks cached by a third."""

    def __init__(self) -> None:
        groups = (GroupConfig(GroupKind.FULL_ATTENTION, 4), GroupConfig(GroupKind.RECURRENT, 4))
        self.pool: BlockPool = CrampedPool(PoolConfig(40, 2, groups, commit=CommitMode.STEPS, hybrid=HybridConfig()))
        self.cache = HybridCache(self.pool)
        self.waits, self.runs, third = [self.pool.request(name, list(range(14))) for name in ("r1", "r2", "r3")]
        for request in (third, self.runs):
            step = self.pool.begin_step()
            self.cache.admit(request, 10)
            self.cache.commit(step)
        self.cache.release("r3")
        self.pool.begin_step()

    def state(self) -> tuple[object, ...]:
        return self.pool.observe(), repr(self.cache.running), repr(self.cache._moved_to), self.runs.num_tokens


CHANGES: dict[str, Callable[[Hybrid], object]] = {
    "admit": lambda model: model.cache.admit(model.waits, 12),
    "advance": lambda model: model.cache.advance(model.runs, 12),
    "release": lambda model: model.cache.release("r2"),
    "truncate": lambda model: model.cache.truncate(model.runs, 9),
    "fail": lambda model: model.cache.fail(model.pool.current_step),
}


def is_inside(file: Path, function: str) -> bool:
    """Whether it is a function of the hybrid layer that runs inside an operation."""
    return file.parent.name == "hybrid" and function != "run_alone"


@pytest.mark.clause("ERR-ATOMIC-1")
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("operation", CHANGES)
def test_a_change_of_a_cache_is_whole_or_not_begun_or_the_last_one(operation: str, error: type[BaseException]) -> None:
    change, unchanged, torn = CHANGES[operation], 0, 0
    for line in range(1, 2000):
        model = Hybrid()
        if operation == "fail":
            model.cache.advance(model.runs, 11)
        before = model.state()
        try:
            with struck(line, "line", error("from outside"), is_inside):
                change(model)
        except error:
            if model.cache._torn_by:
                torn += 1
                for call in CHANGES.values():
                    with pytest.raises(TornCache, match=f"{operation} ended in its middle; make a new pool"):
                        call(model)
            else:
                unchanged += 1
                assert model.state() == before, line
                change(model)
                model.pool.check()
        else:
            break
    assert unchanged > 0
    assert torn > 5


STEPS: dict[str, Callable[[Hybrid, bool], object]] = {
    "commit": lambda model, right: model.cache.commit(model.pool.current_step if right else 99),
    "rollback": lambda model, right: model.cache.rollback(["r2" if right else ""]),
}


@pytest.mark.clause("ERR-ATOMIC-1")
@pytest.mark.parametrize("operation", STEPS)
def test_what_the_pool_has_done_and_could_not_tell_of_is_the_last_change(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, call = Hybrid(), STEPS[operation]
    model.cache.advance(model.runs, 12)
    with pytest.raises(PoolError):
        call(model, False)
    model.cache.match(model.waits)  # a refusal tears nothing
    right = getattr(_core.Hand, operation)

    def without_an_answer(hand: _core.Hand, argument: Any) -> None:
        right(hand, argument)
        raise MemoryError

    monkeypatch.setattr(_core.Hand, operation, without_an_answer)
    with pytest.raises(MemoryError):
        call(model, True)
    with pytest.raises(TornCache, match=f"{operation} ended in its middle"):
        model.cache.match(model.waits)


@pytest.mark.parametrize("cramped", [False, True])
def test_events_that_could_not_be_told_are_told_the_next_time(alone: ProcessPoolExecutor, cramped: bool) -> None:
    alone.submit(refuse_while_events_are_told, cramped).result()


def refuse_while_events_are_told(cramped: bool) -> None:
    pool = begun(cramped)
    expected = pool.observe().pending_events
    for number in range(1, 2000):
        try:
            with without_allocation(number):
                events = pool.take_events()
        except MemoryError:
            assert pool.observe().pending_events == expected, number
        else:
            break
    assert tuple(events) == expected
    assert number > 5
    assert pool.take_events() == []


def test_names_that_found_no_memory_are_no_obstacle_later(alone: ProcessPoolExecutor) -> None:
    alone.submit(refuse_names).result()


def refuse_names() -> None:
    pool = begun(False)
    for number in range(1, 200):
        try:
            with without_allocation(number):
                pool.touch_all([], [], f"name {number}")
        except MemoryError:
            continue
        if number > 50:
            break
    for number in range(3000):
        pool.touch_all([], [], f"another {number}")
    pool.check()
    assert len(pool._names) < 1000
    assert pool_module.FIRST_HOLDERS < 1000


def test_memory_is_refused_in_a_process_of_one_thread_only(alone: ProcessPoolExecutor) -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    with pytest.raises(RuntimeError, match="another thread could be"), without_allocation(1):
        pass
    done.set()
    other.join()
    assert alone.submit(threading.active_count).result() == 1
