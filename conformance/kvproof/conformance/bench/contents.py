"""Pools that were filled alike, and what they are asked next; every answer is compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from random import Random

from kvproof.conformance.bench.sides import BenchError, Keys, Request, Side

BLOCK_TOKENS = 16

FILLED_WITH = 512
"""Blocks of a request that fills a pool."""


@dataclass(slots=True)
class Given:
    """What one side is asked in one pass: `calls` times k blocks, for as many new requests."""

    calls: int
    k: int
    requests: list[Request]
    new: list[Keys]
    """The keys of the requests; nothing has them yet."""
    cached: list[Keys]
    """As many keys, which are all cached when the requests are; those of older requests, where any are left."""


@dataclass(slots=True)
class _Freed:
    """A request that was registered and freed; its first `left` blocks have not been evicted."""

    digests: list[bytes]
    left: int


class Contents:
    """Sides whose pools hold the same. Every block is cached and free, in an order that has nothing to do with age.

    The first side computes the prefix hashes of all.
    """

    def __init__(self, sides: Sequence[Side], num_blocks: int, random: Random) -> None:
        self.sides, self.num_blocks, self._random = sides, num_blocks, random
        self._freed: deque[_Freed] = deque()
        """In the order in which they will be evicted."""
        self._fill()

    def passes(self, calls: int, k: int) -> list[tuple[Given, ...]]:
        """So many calls, in passes of which none needs more than half of the pool; for each side what it is given.

        They are to be run at once and in this order: what is cached then is known beforehand.
        """
        most = max(1, (self.num_blocks - 1) // (2 * k))
        return [self._pass(min(most, calls - done), k) for done in range(0, calls, most)]

    def _pass(self, calls: int, k: int) -> tuple[Given, ...]:
        fresh = [self._new_request(k) for _ in range(calls)]
        self._evict(calls * k)
        new = [_Freed(digests, k) for _, digests in fresh]
        present = [freed for freed in self._freed if freed.left >= k] or new
        chosen = [self._part_of(freed, k) for freed in self._random.choices(present, k=calls)]
        self._freed.extend(new)
        return tuple(
            Given(
                calls,
                k,
                [requests[number] for requests, _ in fresh],
                [side.keys(digests) for _, digests in fresh],
                [side.keys(digests) for digests in chosen],
            )
            for number, side in enumerate(self.sides)
        )

    def _new_request(self, k: int) -> tuple[list[Request], list[bytes]]:
        """A request of k blocks for each side, and its digests."""
        tokens = random_tokens(self._random, k * BLOCK_TOKENS)
        first = self.sides[0].request(tokens, None)
        digests = self.sides[0].digests(first)
        return [first, *(side.request(tokens, digests) for side in self.sides[1:])], digests

    def _fill(self) -> None:
        tables = []
        for taken in range(1, self.num_blocks, FILLED_WITH):
            k = min(FILLED_WITH, self.num_blocks - taken)
            requests, digests = self._new_request(k)
            allocated = [side.allocate(1, k)[0] for side in self.sides]
            for side, request, table in zip(self.sides, requests, allocated, strict=True):
                side.cache([request], table)
            tables.append((allocated, _Freed(digests, k)))
        self._random.shuffle(tables)
        for allocated, freed in tables:
            for side, [table] in zip(self.sides, allocated, strict=True):
                side.free([table[::-1]])
            self._freed.append(freed)

    def _evict(self, count: int) -> None:
        while count:
            front = self._freed[0]
            gone = min(count, front.left)
            front.left -= gone
            count -= gone
            if not front.left:
                self._freed.popleft()

    def _part_of(self, freed: _Freed, k: int) -> list[bytes]:
        """The digests of k blocks in a row. They are new objects, as those of a request that just came are."""
        first = self._random.randrange(freed.left - k + 1)
        return [bytes(bytearray(digest)) for digest in freed.digests[first : first + k]]


def random_tokens(random: Random, count: int) -> list[int]:
    """Tokens of which no two prompts share a prefix."""
    return memoryview(random.randbytes(4 * count)).cast("I").tolist()


def compare(what: str, sides: Sequence[Side], answers: Sequence[Sequence[object]]) -> None:
    """Raise `BenchError` at the first item of which two sides do not say the same."""
    for side, other in zip(sides[1:], answers[1:], strict=True):
        for number, (mine, theirs) in enumerate(zip_longest(answers[0], other)):
            if mine != theirs:
                raise BenchError(f"{what}, item {number}: {sides[0].name} says {mine!r}, {side.name} {theirs!r}")
