"""A pool has one owner: whoever calls it while it is inside an operation is refused, and the operation goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kvproof.gpu_backend import BlockPool
from kvproof.spec.errors import ConcurrentUse
from kvproof.spec.vocabulary import CommitMode
from tests.gpu_backend.pools import config
from tests.gpu_backend.tools import script

CrampedPool = script("fuzz_core").CrampedPool

KEY = bytes(20)

INTRUSIONS: dict[str, Callable[[BlockPool], object]] = {
    "allocate": lambda pool: pool.allocate(1, "r2"),
    "touch": lambda pool: pool.touch(1, KEY, "r2"),
    "touch_all": lambda pool: pool.touch_all([1], [KEY], "r2"),
    "free": lambda pool: pool.free([1], "r1"),
    "lookup": lambda pool: pool.lookup([KEY]),
    "lookup_longest": lambda pool: pool.lookup_longest([KEY]),
    "find_matrix": lambda pool: pool.find_matrix(pool.request("r1", [1] * 4)),
    "uses": lambda pool: pool.uses([1], "r1"),
    "num_held": lambda pool: pool.num_held("r1"),
    "find": lambda pool: pool.find([KEY]),
    "contains": lambda pool: pool.contains(KEY, 1),
    "full_key": lambda pool: pool.full_key(1),
    "cache_full_blocks": lambda pool: pool.cache_full_blocks(pool.request("r1", [1] * 4), [1], 0, 1, 0),
    "cache_slots": lambda pool: pool.cache_slots(pool.request("r1", [1] * 4), [1], 0, 0),
    "cache_partial_block": lambda pool: pool.cache_partial_block(pool.request("r1", [1] * 4), 1, 2, 0),
    "evict": lambda pool: pool.evict([1]),
    "move": lambda pool: pool.move(1, 2),
    "copy": lambda pool: pool.copy(1, 2, "r1"),
    "write": lambda pool: pool.write(pool.request("r1", [1] * 4), 1, 2, 0),
    "read": lambda pool: pool.read(1, "r1"),
    "reset": lambda pool: pool.reset(),
    "begin_step": lambda pool: pool.begin_step(),
    "commit": lambda pool: pool.commit(1),
    "attach": lambda pool: pool.attach(1, KEY, "r2"),
    "rollback": lambda pool: pool.rollback(["r1"]),
    "finish": lambda pool: pool.finish("r1", [1]),
    "run": lambda pool: pool.program().run(),
    "take_events": lambda pool: pool.take_events(),
    "observe": lambda pool: pool.observe(),
    "save": lambda pool: pool.save(),
    "check": lambda pool: pool.check(),
}


class Watched(CrampedPool):  # type: ignore[misc, valid-type]
    """Lets somebody in while it grows, inside an operation."""

    intrude: Callable[[], object] | None = None
    outcomes: list[object]

    def _grow(self, region: int, wanted: int) -> None:
        if self.intrude is not None:
            self.outcomes.append(outcome_of(self.intrude))
        super()._grow(region, wanted)


def outcome_of(call: Callable[[], object]) -> object:
    try:
        return call()
    except Exception as error:
        return error


def in_a_thread(call: Callable[[], object]) -> object:
    outcomes: list[object] = []
    thread = threading.Thread(target=lambda: outcomes.append(outcome_of(call)))
    thread.start()
    thread.join()
    return outcomes[0]


def one_by_one(pool: BlockPool) -> None:
    """Single operations that make the pool grow."""
    taken = pool.allocate(8, "r1")
    pool.cache_full_blocks(pool.request("r1", list(range(32))), taken, 0, 8, 0)


def at_once(pool: BlockPool) -> None:
    """The same as a program."""
    program = pool.program()
    program.allocate(8, "r1")
    program.cache_slots(pool.request("r1", list(range(32))), list(range(1, 9)), 0, 0)
    program.run()


@pytest.mark.clause("ERR-OWNER-1")
@pytest.mark.parametrize("work", [one_by_one, at_once])
@pytest.mark.parametrize("enter", [in_a_thread, lambda call: call()], ids=["another thread", "the same thread"])
@pytest.mark.parametrize("operation", INTRUSIONS)
def test_nobody_enters_a_pool_that_is_inside_an_operation(
    operation: str, enter: Callable[[Callable[[], object]], object], work: Callable[[BlockPool], None]
) -> None:
    pools = [Watched(config(commit=CommitMode.STEPS)) for _ in range(2)]
    pool, alone = pools
    for each in pools:
        each.begin_step()
    pool.outcomes = []
    pool.intrude = lambda: enter(lambda: INTRUSIONS[operation](pool))
    work(pool)
    work(alone)
    assert pool.outcomes
    for outcome in pool.outcomes:
        assert isinstance(outcome, ConcurrentUse), outcome
        assert str(outcome).startswith(f"{operation} was called while the pool is inside another operation")
    pool.intrude = None
    assert pool.observe() == alone.observe()
    pool.check()
    assert not isinstance(outcome_of(lambda: INTRUSIONS[operation](pool)), ConcurrentUse)


@pytest.mark.clause("ERR-OWNER-1")
def test_threads_that_share_a_pool_are_refused_or_served_one_after_the_other() -> None:
    pool = BlockPool(config(2000))
    request = pool.request("r1", list(range(4 * 1999)))
    pool.cache_full_blocks(request, pool.allocate(1999, "r1"), 0, 1999, 0)
    keys = [request.key_at(0, 4 * (slot + 1)) or b"" for slot in range(1999)] * 2  # enough to let other threads run
    expected = list(range(1, 2000)) * 2
    outcomes: list[Any] = []

    def ask() -> None:
        for _ in range(30):
            outcomes.append(outcome_of(lambda: pool.lookup(keys)))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 90
    assert any(outcome == expected for outcome in outcomes)
    assert all(outcome == expected or type(outcome) is ConcurrentUse for outcome in outcomes)
    pool.check()
