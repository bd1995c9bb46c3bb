"""The native core beside the reference, call by call, the whole state compared after each.

    python tools/fuzz_core.py --calls 10000000 [--seed N] [--processes N] [--log FILE]

The suite certifies what a backend shows; this compares what it does not show too: what each reader was served, who
depends on whom, which copies are queued. The calls are those of a busy engine, most of them legal: blocks fill up with
keys, many holders share them, and every table of the core is used. Half of the pools begin with room for next to
nothing, so that every table has to grow. With CXXFLAGS=-DKVPROOF_FEW_HOLES=0 small pools are swept all the time too.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from kvproof import gpu_backend, reference
from kvproof.conformance.walk import random_config
from kvproof.gpu_backend.arena import HEADER, REGIONS
from kvproof.gpu_backend.build import digest
from kvproof.gpu_backend.hashing import make_key
from kvproof.reference.observation import BlockState
from kvproof.spec.errors import PoolError
from kvproof.spec.vocabulary import CommitMode, ExtraKey, ExtraKeySource, HashAlgorithm, HolderMode, Key, PoolConfig

CALLS_OF_A_POOL = 600

MOST_CPU_SECONDS = 120
"""Of one pool, which takes less than one: the system ends a core that does not end, however busy the machine is."""

PROGRESS_SECONDS = 60

SIZES = (2, 3, 5, 9, 17, 40, 150)
"""Numbers of blocks; the null block is one of them."""

REQUESTS = ("r0", "r1", "r2", "r3", "r4")
COPIES = ("copy:0", "copy:1")

LONGEST = 30
"""Tokens of a request; there are two different ones, so that prefixes are shared."""

MOST_BLOCKS = 8
"""Blocks of one call."""


class CrampedPool(gpu_backend.BlockPool):
    """A pool that begins with next to no room, and has to grow whatever is done with it."""

    def _first_rows(self) -> tuple[int, ...]:
        full = zip(REGIONS, super()._first_rows(), strict=True)
        return tuple([rows if region == "blocks" else min(rows, 2) for region, rows in full])


class Mismatch(Exception):
    """The core and the reference disagree; the text says about what."""


class Pair:
    """Both pools, the same requests for each, and calls that are drawn by what the reference shows."""

    pools: tuple[type[gpu_backend.BlockPool], ...] = (gpu_backend.BlockPool, CrampedPool)

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.config = self._draw_config()
        self.theirs = reference.BlockPool(self.config)
        self.ours = random.choice(self.pools)(self.config)
        self.state = self.theirs.observe()
        self.named = self.config.holders is HolderMode.NAMED
        self.steps = self.config.commit is CommitMode.STEPS
        self.requests = {name: self._draw_request(name) for name in REQUESTS}
        self.last_call = ""

    def call(self) -> str:
        """Draw one call, make it on both pools, and compare everything; its name. Raises `Mismatch`."""
        calls = self._calls()
        [drawn] = self.random.choices(list(calls), [weight for weight, _ in calls.values()])
        arguments = calls[drawn][1]()
        if arguments is not None:
            self._compare(drawn, arguments)
        return drawn

    # What is drawn

    def _draw_config(self) -> PoolConfig:
        config = random_config(self.random)
        return replace(
            config,
            num_blocks=self.random.choice(SIZES),
            hash_algorithm=self.random.choice(list(HashAlgorithm)),
            hash_seed=b"a seed of both",
        )

    def _draw_request(self, name: str) -> tuple[reference.Request, gpu_backend.Request]:
        tokens = [self.random.randrange(2) for _ in range(self.random.randint(0, LONGEST))]
        extras = [ExtraKey(ExtraKeySource.SALT, b"s", 5)] * (self.random.random() < 0.2)
        return reference.Request(name, tokens, self.theirs.hasher, extras), self.ours.request(name, tokens, extras)

    def _calls(self) -> dict[str, tuple[int, Callable[[], tuple[object, ...] | None]]]:
        """Every call with its weight and what draws its arguments, None where there is nothing to call it with."""
        calls: dict[str, tuple[int, Callable[[], tuple[object, ...] | None]]] = {
            "allocate": (
                12,
                lambda: (self.random.randint(0, min(MOST_BLOCKS, self.theirs.num_free + 1)), self._holder()),
            ),
            "cache_full_blocks": (10, self._full),
            "cache_slots": (6, self._slots),
            "cache_partial_block": (18, self._partial),
            "touch": (12, self._touch),
            "free": (10, self._free),
            "evict": (2, lambda: (self._some(range(1, self.config.num_blocks)),)),
            "move": (
                3,
                lambda: (self._block(_has_keys), self._block(lambda b: (b.writer or "copy:").startswith("copy:"))),
            ),
            "copy": (3, self._copy),
            "write": (2, lambda: (self._request(), self._block(), self.random.randint(1, LONGEST), self._group())),
            "append": (
                3,
                lambda: (self._request(), [self.random.randrange(2) for _ in range(self.random.randint(0, 9))]),
            ),
            "truncate": (2, lambda: (self._request(), self.random.randint(0, LONGEST))),
            "lookup": (1, lambda: (list(self.state.index),)),
            "find": (3, lambda: (list(self.state.index),)),
            "lookup_longest": (1, lambda: ([self._key() for _ in range(self.random.randint(0, MOST_BLOCKS))],)),
            "find_matrix": (3, lambda: (self._request(),)),
            "uses": (3, lambda: (self._some(range(self.config.num_blocks)), self._holder())),
            "num_held": (2, lambda: (self._holder(),)),
            "read": (1, lambda: (self._block(), self._holder())),
            "full_key": (1, lambda: (self._block(),)),
            "contains": (1, lambda: (self._key(), self._block())),
            "take_events": (2, tuple),
            "reset": (1, tuple),
        }
        if self.named:
            calls["finish"] = (2, lambda: (request := self._request().request_id, self._held(request)))
        if self.steps:
            calls |= {
                "begin_step": (5 if self.state.steps.open else 60, tuple),
                "commit": (5, lambda: (self.theirs.last_committed_step + 1,)),
                "attach": (10, self._attach),
                "rollback": (2, lambda: (self.random.sample(REQUESTS, self.random.randint(0, 2)),)),
            }
        return calls

    def _holder(self) -> str | None:
        return self.random.choice((*REQUESTS, *COPIES)) if self.named else None

    def _request(self) -> reference.Request:
        return self.requests[self.random.choice(REQUESTS)][0]

    def _group(self) -> int:
        return self.random.randrange(len(self.config.groups))

    def _block(self, wanted: Callable[[BlockState], bool] = lambda block: True) -> int:
        """A block as wanted, mostly; any block if there is none."""
        fit = [b for b, state in enumerate(self.state.blocks) if wanted(state)]
        return (
            self.random.choice(fit)
            if fit and self.random.random() < 0.9
            else self.random.randrange(len(self.state.blocks))
        )

    def _some(self, blocks: Sequence[int]) -> list[int]:
        """Some of the blocks, in any order; now and then one of them twice."""
        chosen = self.random.sample(blocks, self.random.randint(0, min(len(blocks), MOST_BLOCKS)))
        return [*chosen, *chosen[:1]] if self.random.random() < 0.1 else chosen

    def _anything(self) -> int:
        """The null block, mostly."""
        return 0 if self.random.random() < 0.95 else self._block()

    def _written(self, request: reference.Request) -> list[int]:
        """The blocks that the request may register keys on."""
        writers = (request.request_id,) if self.named else (None,)
        return [b for b, block in enumerate(self.state.blocks) if block.ref_cnt and block.writer in writers]

    def _held(self, holder: str | None) -> list[int]:
        if holder is None:
            return self._some([b for b, block in enumerate(self.state.blocks) if block.ref_cnt])
        return self._some([b for b, block in enumerate(self.state.blocks) if holder in dict(block.holders)])

    def _key(self) -> Key:
        keys = list(self.state.index) or [bytes(self.theirs.hasher.digest_size + 4)]
        return self.random.choice(keys)

    def _full(self) -> tuple[Any, ...]:
        """Slots of one group, on blocks that the request writes and that are these slots, or none yet."""
        request, group = self._request(), self._group()
        most = request.hashed_length // self.config.groups[group].block_size
        table = []
        for slot in range(most):
            identities = ((group, slot), (None, None))
            mine = [
                b for b in self._written(request) if _identity(self.state.blocks[b]) in identities and b not in table
            ]
            table.append(self.random.choice(mine) if mine and self.random.random() < 0.95 else self._anything())
        first, last = sorted((self.random.randint(0, most), self.random.randint(0, most)))
        mask = [self.random.random() < 0.8 for _ in range(last - first)] if self.random.random() < 0.3 else None
        return request, table, first, last, group, mask, self.random.random() < 0.15

    def _slots(self) -> tuple[object, ...]:
        """The part of a table that `cache_full_blocks` would read, now and then a block more."""
        request, table, first, last, group, _, replaces = self._full()
        blocks = [*table[first:last], *[self._anything()] * (self.random.random() < 0.05)]
        return request, blocks, first, group, replaces

    def _partial(self) -> tuple[object, ...]:
        request = self._request()
        block_id = self.random.choice(self._written(request) or [self._block()])
        block, h = self.state.blocks[block_id], self.config.hash_block_size
        group = self._group() if block.group is None else block.group
        size = self.config.groups[group].block_size
        slot = block.slot if block.slot is not None else self.random.randint(0, max(0, request.hashed_length // size))
        position = slot * size + h * self.random.randint(1, size // h)
        return request, block_id, position, group, self.random.random() < 0.15

    def _touch(self) -> tuple[object, ...]:
        key = self._key()
        return self.random.choice(self.state.index.get(key, (1 % self.config.num_blocks,))), key, self._holder()

    def _attach(self) -> tuple[object, ...]:
        block = self._block(lambda b: any(entry.owner for entry in b.entries))
        keys = [entry.key for entry in self.state.blocks[block].entries] or [self._key()]
        return block, self.random.choice(keys), self.random.choice(REQUESTS)

    def _free(self) -> tuple[object, ...]:
        holder = self._holder()
        return self._held(holder), holder

    def _copy(self) -> tuple[object, ...]:
        holder = self._holder()

        def is_mine(block: BlockState) -> bool:
            return holder is None or holder in dict(block.holders)

        return self._block(is_mine), self._block(lambda b: is_mine(b) and not b.entries), holder

    # What is compared

    def _compare(self, name: str, arguments: tuple[object, ...]) -> None:
        self.last_call = f"{name}{arguments}"
        expected = self._expected(name, arguments)
        translated = [self.requests[a.request_id][1] if isinstance(a, reference.Request) else a for a in arguments]
        got = _outcome(self.ours, name, translated)
        if isinstance(expected, PoolError) and isinstance(got, PoolError):
            return self._compare_state()
        if name == "find" and isinstance(expected, list):
            expected = [(hit.block, hit.reserved, hit.writer, hit.pending) for hit in expected]
        if expected != got:
            raise Mismatch(f"{self.last_call}: the reference answers {expected!r}, the core {got!r}")
        self._compare_state()

    def _expected(self, name: str, arguments: tuple[Any, ...]) -> object:
        """What the call has to answer: what the reference does, or what follows from it where it has no such call."""
        if name == "lookup_longest":
            return list(takewhile(lambda block: block is not None, self.theirs.lookup(*arguments)))
        if name == "cache_slots":
            request, blocks, first, group, *replaces = arguments
            table = [0] * first + blocks
            return _outcome(
                self.theirs, "cache_full_blocks", (request, table, first, len(table), group, None, *replaces)
            )
        if name == "find_matrix":
            return self._matrix(*arguments)
        if name == "uses":
            return [self._use(self.state.blocks[block], arguments[1]) for block in arguments[0]]
        if name == "num_held":
            return sum(self._is_held(block, *arguments) for block in self.state.blocks[1:])
        return _outcome(self.theirs, name, arguments)

    def _matrix(self, request: reference.Request) -> bytes:
        """For all keys of a request who serves them, who has them reserved, and who would serve them; -1 for nobody."""
        groups = range(len(self.config.groups))
        hits = self.theirs.find([make_key(group, digest) for group in groups for digest in request.hashes])
        found = [getattr(hit, part) for part in ("block", "reserved", "pending") for hit in hits]
        return array("i", [-1 if block is None else block for block in found]).tobytes()

    def _is_held(self, block: BlockState, holder: str | None) -> bool:
        return any(name == holder for name, _ in block.holders) if self.named else block.ref_cnt > 0

    def _use(self, block: BlockState, holder: str | None) -> tuple[int, bool, bool, int, int]:
        """References, whether the holder holds and writes the block, how far its keys and its other readers reach."""
        named = max([position for _, position in block.keys], default=0)
        read = max([served.position for name, served in block.holders if served and name != holder], default=0)
        writes = self.named and block.writer == holder
        return block.ref_cnt, self._is_held(block, holder), writes, named, read

    def _compare_state(self) -> None:
        self.state = state = self.theirs.observe()
        seen = self.ours.observe()
        for part in ("blocks", "free_queue", "index", "pending_events"):
            if getattr(seen, part) != getattr(state, part):
                both = f"of the reference is\n{getattr(state, part)}\nof the core\n{getattr(seen, part)}"
                raise Mismatch(f"{self.last_call}: {part} {both}")
        steps = (state.steps.open, state.steps.depends, state.steps.copies, state.steps.admitted)
        if tuple(seen.steps) != steps:
            raise Mismatch(f"{self.last_call}: the steps of the reference are {steps}, of the core {seen.steps}")
        for theirs, ours in self.requests.values():
            if theirs.hashes != ours.hashes:
                raise Mismatch(f"{self.last_call}: the hashes of {theirs.request_id} differ")


def header_of(pool: gpu_backend.BlockPool, name: str) -> int:
    """One number of the header of a pool's arena."""
    return int(pool.views().header[HEADER[name]])


def _identity(block: BlockState) -> tuple[int | None, int | None]:
    return block.group, block.slot


def _has_keys(block: BlockState) -> bool:
    return bool(block.entries)


def _outcome(pool: object, name: str, arguments: Sequence[object]) -> object:
    """What a call returns, or the error that refuses it."""
    if name in ("append", "truncate"):
        pool, arguments = arguments[0], arguments[1:]
    try:
        return getattr(pool, name)(*arguments)
    except PoolError as error:
        return error


@contextmanager
def an_end(seconds: int = MOST_CPU_SECONDS) -> Iterator[None]:
    """The process ends with SIGXCPU if this takes more CPU time."""
    before, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (before, most))


def run_pool(seed: int, calls: int = CALLS_OF_A_POOL) -> Counter[str]:
    """Drive one random pool; how often each call was made. Raises `Mismatch`."""
    pair = Pair(seed)
    try:
        with an_end():
            return Counter(pair.call() for _ in range(calls))
    except Mismatch as mismatch:
        raise Mismatch(f"seed {seed}, {pair.config}: {mismatch}") from None


def run_pools(seeds: Iterable[int], processes: int) -> Iterator[Counter[str]]:
    """What was called on the pool of each seed, in order. Raises `Mismatch`; BrokenProcessPool if the core crashes."""
    if processes == 1:
        yield from map(run_pool, seeds)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as executor:
        try:
            yield from executor.map(run_pool, seeds)
        finally:
            executor.shutdown(cancel_futures=True)


def main() -> int:
    """Run pool after pool."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first pool; so a run that was ended goes on")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--log", type=Path, help="write the result here, as a page of the documentation")
    chosen = parser.parse_args()
    counted: Counter[str] = Counter()
    started = told = time.monotonic()
    seeds = range(chosen.seed, chosen.seed + math.ceil(chosen.calls / CALLS_OF_A_POOL))
    try:
        for seed, calls in zip(seeds, run_pools(seeds, chosen.processes), strict=True):
            counted += calls
            if time.monotonic() - told >= PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"{counted.total():,} calls, seeds {seeds[0]} to {seed}, {told - started:,.0f} s", flush=True)
    except (Mismatch, BrokenProcessPool) as found:
        print(found, file=sys.stderr)
        return 1
    done = (
        f"{counted.total():,} calls on {len(seeds):,} pools (seeds {seeds[0]} to {seeds[-1]}), "
        f"{chosen.processes} processes, {time.monotonic() - started:,.0f} s, core {digest()}: 0 mismatches"
    )
    print(done, *[f"{count:>12,} {name}" for name, count in counted.most_common()], sep="\n")
    if chosen.log is not None:
        rows = "\n".join(f"| `{name}` | {count:,} |" for name, count in counted.most_common())
        chosen.log.write_text(f"# The core beside the reference\n\n{done}.\n\n| call | made |\n|---|--:|\n{rows}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
