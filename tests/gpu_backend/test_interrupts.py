"""Ctrl-C can come between any two steps of the interpreter. Nobody may be locked out by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kvproof.gpu_backend import BlockPool
from kvproof.gpu_backend.hybrid import HybridCache
from kvproof.gpu_backend.hybrid.cache import TornCache
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HybridConfig, PoolConfig
from tests.gpu_backend.striking import struck

GROUPS = (GroupConfig(GroupKind.FULL_ATTENTION, 4), GroupConfig(GroupKind.RECURRENT, 4))


class Engine:
    """A cache in which one request runs and another one waits."""

    def __init__(self) -> None:
        config = PoolConfig(40, 2, GROUPS, commit=CommitMode.STEPS, hybrid=HybridConfig())
        self.pool = BlockPool(config)
        self.cache = HybridCache(self.pool)
        self.runs, self.waits = [self.pool.request(name, list(range(12))) for name in ("r1", "r2")]
        self.pool.begin_step()
        self.cache.admit(self.runs, 8)
        self.cache.commit(1)
        self.pool.begin_step()

    def program(self) -> list[object]:
        program = self.pool.program()
        program.allocate(1, "r3")
        return program.run()


OPERATIONS: dict[str, Callable[[Engine], object]] = {
    "match": lambda engine: engine.cache.match(engine.waits),
    "split": lambda engine: engine.cache.split(engine.waits, 0, 12, 12, 0),
    "admit": lambda engine: engine.cache.admit(engine.waits, 10),
    "advance": lambda engine: engine.cache.advance(engine.runs, 10),
    "release": lambda engine: engine.cache.release("r1"),
    "truncate": lambda engine: engine.cache.truncate(engine.runs, 3),
    "commit": lambda engine: engine.cache.commit(2),
    "rollback": lambda engine: engine.cache.rollback(["r1"]),
    "fail": lambda engine: engine.cache.fail(2),
    "observe": lambda engine: engine.pool.observe(),
    "take_events": lambda engine: engine.pool.take_events(),
    "save": lambda engine: engine.pool.save(),
    "reserve": lambda engine: engine.pool.reserve(500),
    "program": lambda engine: engine.program(),
}

ENTERED_IN = {"run_alone", "observe", "take_events", "save", "reserve", "run"}
"""The functions that enter a pool for several calls. What they call is inside; see `test_no_memory` for that."""


def enters(file: Path, function: str) -> bool:
    return function in ENTERED_IN and "gpu_backend" in file.parts


@pytest.mark.clause("ERR-OWNER-1")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupt_at_any_time_leaves_nobody_inside_the_pool(operation: str) -> None:
    interrupted, torn = 0, 0
    for step in range(1, 5000):
        engine = Engine()
        try:
            with struck(step, "opcode", KeyboardInterrupt(), enters):
                OPERATIONS[operation](engine)
        except KeyboardInterrupt:
            interrupted += 1
        else:
            break
        engine.pool.check()
        engine.pool.observe()
        try:
            engine.cache.match(engine.waits)
        except TornCache:
            torn += 1
    assert interrupted > 10
    assert torn < interrupted
