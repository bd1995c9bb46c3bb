"""What a pool weighs with every block cached, and what the garbage collector makes of it."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec

from kvproof.conformance.bench.contents import BLOCK_TOKENS, FILLED_WITH, random_tokens
from kvproof.conformance.bench.plan import MemoryPart
from kvproof.conformance.bench.sides import MakeSide, Side
from kvproof.spec.vocabulary import HashAlgorithm

HASH_TOKENS = 2

ENDS = (10, 8, 6, 4, 2)
"""Where the keys of a block end, the first one first; each later one is an additional key."""

DIGEST_BYTES = {HashAlgorithm.XXH3_128: 16, HashAlgorithm.SHA256: 32}

STATM = Path("/proc/self/statm")


class Collector(msgspec.Struct, frozen=True):
    """What the garbage collector did while the pool was filled, in CPU time."""

    seconds: float
    collections: int
    longest_ms: float
    of_seconds: float
    """What the filling took, requests and hashes included."""


class Memory(msgspec.Struct, frozen=True):
    """One pool with so many keys on each block.

    `tracked` and `collect_ms` are of the pool as it was made. vLLM's engine has the collector never look at that again
    (`gc.freeze`), and so had this process: the same `with_keys` is what came with the keys, and on top of that.
    """

    side: str
    num_blocks: int
    algorithm: HashAlgorithm
    additional: int
    resident: float | None
    """Bytes of the process for each block; None where the system does not tell."""
    own: float | None
    """Bytes that the pool says it takes, for each block."""
    tracked: int
    tracked_with_keys: int
    collect_ms: float
    """Of a full collection."""
    collect_ms_with_keys: float
    while_filled: Collector
    longest_ms: float
    """The longest registration of the keys of one request, which may have to make the pool larger."""


def measure(make: MakeSide, part: MemoryPart) -> Memory:
    """Fill one pool."""
    _make(make, 1_000, part.algorithm)  # what is imported and built at first use is not the pool's
    before = _resident()
    with _frozen():
        side = _make(make, part.num_blocks, part.algorithm)
        tracked, collect_ms = len(gc.get_objects()), _collect_ms()
        with _frozen():
            registrations: list[float] = []
            while_filled = _watch(lambda: registrations.extend(_fill(side, part, Random(part.num_blocks))))
            after, own = _resident(), side.own_bytes()
            return Memory(
                side=side.name,
                num_blocks=part.num_blocks,
                algorithm=part.algorithm,
                additional=part.additional,
                resident=None if before is None or after is None else (after - before) / part.num_blocks,
                own=None if own is None else own / part.num_blocks,
                tracked=tracked,
                tracked_with_keys=len(gc.get_objects()),
                collect_ms=collect_ms,
                collect_ms_with_keys=_collect_ms(),
                while_filled=while_filled,
                longest_ms=1e3 * max(registrations, default=0.0),
            )


@contextmanager
def _frozen() -> Iterator[None]:
    """The collector does not look at what is there now."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _make(make: MakeSide, num_blocks: int, algorithm: HashAlgorithm) -> Side:
    return make(num_blocks, BLOCK_TOKENS, HASH_TOKENS, algorithm, False)


def _fill(side: Side, part: MemoryPart, random: Random) -> Iterator[float]:
    """Fill the pool; the seconds of each registration.

    Each request is freed at once: blocks that were never used are taken first, so that all get their keys.
    """
    for k in _requests_of(part.num_blocks - 1):
        tokens, digests = _prompt(part, k, random)
        [table], _ = side.allocate(1, k)
        yield _register(side, tokens, digests, table, part.additional)
        side.free([table[::-1]])


def _requests_of(blocks: int) -> Iterator[int]:
    """How many blocks each request has, until all have so many."""
    for done in range(0, blocks, FILLED_WITH):
        yield min(FILLED_WITH, blocks - done)


def _prompt(part: MemoryPart, k: int, random: Random) -> tuple[list[int], list[bytes]]:
    """Tokens of k blocks, and digests for a pool that computes none."""
    size, count = DIGEST_BYTES[part.algorithm], k * BLOCK_TOKENS // HASH_TOKENS
    noise = random.randbytes(size * count)
    digests = [noise[at : at + size] for at in range(0, size * count, size)]
    return random_tokens(random, k * BLOCK_TOKENS), digests


def _register(side: Side, tokens: list[int], digests: list[bytes], table: list[object], additional: int) -> float:
    """How many seconds it takes, the request apart."""
    request, started = side.request(tokens, digests), time.thread_time()
    if additional:
        side.cache_partial(request, table, ENDS[len(ENDS) - 1 - additional :])
    else:
        side.cache([request], [table])
    return time.thread_time() - started


def _watch(run: Callable[[], None]) -> Collector:
    """Run something while the collector works as Python sets it up."""
    pauses: list[float] = []
    clock = time.thread_time
    began = 0.0

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = clock()
        else:
            pauses.append(clock() - began)

    gc.callbacks.append(note)
    started = clock()
    try:
        run()
        spent = clock() - started
    finally:
        gc.callbacks.remove(note)
    return Collector(sum(pauses), len(pauses), 1e3 * max(pauses, default=0.0), spent)


def _collect_ms() -> float:
    """How long a full collection takes, the shorter of two."""
    times = []
    for _ in range(2):
        started = time.thread_time()
        gc.collect()
        times.append(1e3 * (time.thread_time() - started))
    return min(times)


def _resident() -> int | None:
    """Bytes of the process that are in memory, after what is free was given back to the system."""
    if not STATM.exists():
        return None
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
