"""How long each operation takes, side by side."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any, TypeVar

import msgspec

from kvproof.conformance.bench.contents import BLOCK_TOKENS, Contents, Given, compare
from kvproof.conformance.bench.plan import Batch, SpeedPart
from kvproof.conformance.bench.sides import BenchError, MakeSide, Side
from kvproof.spec.vocabulary import HashAlgorithm

ALLOCATE, CACHE, HIT, MISS, FREE, TOUCH = (
    "allocate and evict",
    "cache_full_blocks",
    "lookup, hit",
    "lookup, miss",
    "free",
    "touch",
)

COMPARED = (ALLOCATE, CACHE, HIT, MISS, FREE)
"""The operations that the goals are about."""

OPERATIONS = (*COMPARED, TOUCH)
"""vLLM's touch takes no key: it does not ask whether the block still holds what was looked up."""


T = TypeVar("T")


class Cell(msgspec.Struct, frozen=True):
    """Nanoseconds of CPU time for each block, round by round; for each side that was measured."""

    operation: str
    num_blocks: int
    k: int
    events: bool
    ours: tuple[float, ...]
    theirs: tuple[float, ...] | None


@dataclass(slots=True)
class Answers:
    """What one side answered in one pass, in its own form."""

    missed: list[Any] = field(default_factory=list)
    tables: list[Any] = field(default_factory=list)
    found: list[Any] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)


class Stopwatch:
    """CPU time of this thread by operation, in nanoseconds, one number for each time; the clock's own time is off."""

    def __init__(self) -> None:
        self.spent: dict[str, list[int]] = {operation: [] for operation in OPERATIONS}
        self._own = min(_of_the_clock() for _ in range(1_000))

    def time(self, operation: str, run: Callable[[], T]) -> T:
        """Run something and note how long it took."""
        started = time.thread_time_ns()
        answer = run()
        self.spent[operation].append(max(0, time.thread_time_ns() - started - self._own))
        return answer


def _of_the_clock() -> int:
    started = time.thread_time_ns()
    return time.thread_time_ns() - started


def measure(makes: Sequence[MakeSide], part: SpeedPart) -> list[Cell]:
    """Every operation with every batch, events off and on. Raises `BenchError` if answers differ."""
    cells: list[Cell] = []
    for events in (False, True):
        sides = [make(part.num_blocks, BLOCK_TOKENS, BLOCK_TOKENS, HashAlgorithm.XXH3_128, events) for make in makes]
        contents = Contents(sides, part.num_blocks, Random(part.num_blocks))
        with quiet_collector():
            for batch in part.batches:
                cells += _cells(contents, batch, part.rounds, events)
        compare("free blocks at the end", sides, [[side.num_free()] for side in sides])
    return cells


@contextmanager
def quiet_collector() -> Iterator[None]:
    """The garbage collector does not run, and will never look at what is there now."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _cells(contents: Contents, batch: Batch, rounds: int, events: bool) -> list[Cell]:
    """All rounds of one batch; which side begins changes from round to round."""
    blocks = batch.calls * batch.k
    spent: list[dict[str, list[float]]] = [{operation: [] for operation in OPERATIONS} for _ in contents.sides]
    for number in range(rounds):
        for side, watch in enumerate(run_round(contents, batch, backwards=number % 2 == 1)):
            for operation in OPERATIONS:
                spent[side][operation].append(sum(watch.spent[operation]) / blocks)
    return [
        Cell(
            operation,
            contents.num_blocks,
            batch.k,
            events,
            tuple(spent[0][operation]),
            tuple(spent[1][operation]) if len(spent) > 1 else None,
        )
        for operation in OPERATIONS
    ]


def run_round(contents: Contents, batch: Batch, backwards: bool) -> list[Stopwatch]:
    """The calls of a batch, first all on one side and then on the other; the time of each side."""
    passes = contents.passes(batch.calls, batch.k)
    watches = [Stopwatch() for _ in contents.sides]
    answers: list[list[Answers]] = [[] for _ in contents.sides]
    order = range(len(contents.sides))
    for number in reversed(order) if backwards else order:
        answers[number] = [run_pass(contents.sides[number], given[number], watches[number]) for given in passes]
    for of_a_pass in zip(*answers, strict=True):
        check(contents.sides, of_a_pass)
    return watches


def run_pass(side: Side, given: Given, watch: Stopwatch) -> Answers:
    """Every operation, each in its own loop; afterwards as many blocks are free as before."""
    calls, k = given.calls, given.k
    answers = Answers()
    answers.missed = watch.time(MISS, lambda: side.look_up(given.new))
    answers.tables, told = watch.time(ALLOCATE, lambda: side.allocate(calls, k))
    answers.told += told
    answers.told += watch.time(CACHE, lambda: side.cache(given.requests, answers.tables))
    answers.found = watch.time(HIT, lambda: side.look_up(given.cached))
    last_first = [table[::-1] for table in answers.tables]
    watch.time(FREE, lambda: side.free(last_first))
    watch.time(TOUCH, lambda: side.touch(answers.tables, given.new))
    side.free(last_first)
    return answers


def check(sides: Sequence[Side], answers: Sequence[Answers]) -> None:
    """Raise `BenchError` unless all sides answered the same, item by item, and what was to be found was found."""
    both = list(zip(sides, answers, strict=True))
    found = [[side.ids(call) for call in each.found] for side, each in both]
    missed = [[side.ids(call) for call in each.missed] for side, each in both]
    _compare_calls("allocate", sides, [[side.ids(call) for call in each.tables] for side, each in both])
    _compare_calls("lookup of cached keys", sides, found)
    _compare_calls("lookup of new keys", sides, missed)
    _compare_calls("events", sides, [[side.told(call) for call in each.told] for side, each in both])
    if None in chain.from_iterable(found[0]):
        raise BenchError(f"{sides[0].name} does not find a key that is cached")
    if any(block is not None for block in chain.from_iterable(missed[0])):
        raise BenchError(f"{sides[0].name} finds a key that nobody has registered")


def _compare_calls(what: str, sides: Sequence[Side], calls: Sequence[Sequence[Sequence[object]]]) -> None:
    compare(f"number of answers of {what}", sides, [[len(of_a_side)] for of_a_side in calls])
    for number, of_a_call in enumerate(zip(*calls, strict=True)):
        compare(f"{what}, call {number}", sides, of_a_call)
