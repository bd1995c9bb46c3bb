"""The slowest single calls of full pools. Construction, growth and reset do not happen here."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from kvproof.conformance.bench.contents import BLOCK_TOKENS, Contents, Given
from kvproof.conformance.bench.plan import Batch, CallsPart
from kvproof.conformance.bench.sides import MakeSide
from kvproof.conformance.bench.speed import OPERATIONS, Answers, Stopwatch, check, quiet_collector, run_pass
from kvproof.spec.vocabulary import HashAlgorithm

AT_A_TIME = 100
"""Calls that are prepared together."""


class Slowest(msgspec.Struct, frozen=True):
    """Microseconds of CPU time of one operation's calls on one side; median and tail are those of the largest batch."""

    side: str
    operation: str
    num_blocks: int
    most_blocks: int
    """Of a call."""
    median: float
    tail: float
    """One call in a thousand took longer."""
    worst: float
    """Of all calls, of whatever size."""
    calls: int


def measure(makes: Sequence[MakeSide], part: CallsPart) -> list[Slowest]:
    """Time every call by itself. Raises `BenchError` if answers differ."""
    sides = [make(part.num_blocks, BLOCK_TOKENS, BLOCK_TOKENS, HashAlgorithm.XXH3_128, False) for make in makes]
    contents = Contents(sides, part.num_blocks, Random(part.num_blocks))
    spent: list[dict[str, dict[int, list[int]]]] = [{operation: {} for operation in OPERATIONS} for _ in sides]
    with quiet_collector():
        for batch in part.batches:
            watches = [Stopwatch() for _ in sides]
            for done in range(0, batch.calls, AT_A_TIME):
                _run(contents, Batch(batch.k, min(AT_A_TIME, batch.calls - done)), watches)
            for of_a_side, watch in zip(spent, watches, strict=True):
                for operation in OPERATIONS:
                    of_a_side[operation][batch.k] = watch.spent[operation]
    return [
        _slowest(side.name, operation, part.num_blocks, by_size)
        for side, of_a_side in zip(sides, spent, strict=True)
        for operation, by_size in of_a_side.items()
    ]


def _run(contents: Contents, batch: Batch, watches: Sequence[Stopwatch]) -> None:
    passes = contents.passes(batch.calls, batch.k)
    answers: list[list[Answers]] = []
    for number, side in enumerate(contents.sides):
        single = [one for given in passes for one in _one_by_one(given[number])]
        answers.append([run_pass(side, given, watches[number]) for given in single])
    for of_a_pass in zip(*answers, strict=True):
        check(contents.sides, of_a_pass)


def _one_by_one(given: Given) -> list[Given]:
    """A pass for each call of a pass."""
    return [
        Given(1, given.k, [request], [new], [cached])
        for request, new, cached in zip(given.requests, given.new, given.cached, strict=True)
    ]


def _slowest(side: str, operation: str, num_blocks: int, by_size: dict[int, list[int]]) -> Slowest:
    largest = sorted(by_size[max(by_size)])
    return Slowest(
        side=side,
        operation=operation,
        num_blocks=num_blocks,
        most_blocks=max(by_size),
        median=1e-3 * largest[len(largest) // 2],
        tail=1e-3 * largest[len(largest) - 1 - len(largest) // 1_000],
        worst=1e-3 * max(max(spent) for spent in by_size.values()),
        calls=sum(len(spent) for spent in by_size.values()),
    )
