"""How fast the core's operations are on the CPU, in nanoseconds for each block: a first look, no comparison.

    python tools/core_speed.py [--blocks N] [--events] [--named]

One process; every call is made from Python with lists of integers and digests, and checked. CPU time, median of five
rounds; the load average is printed, since other programs empty the caches all the same.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from collections.abc import Callable
from random import Random

from kvproof.gpu_backend import BlockPool, Request
from kvproof.spec.vocabulary import GroupConfig, GroupKind, HashAlgorithm, HolderMode, PoolConfig

BLOCK = 16
ROUNDS = 5
BATCHES = (1, 16, 512)

MOST_CALLS = 2000
"""Calls of one round."""


def timed(calls: int, blocks: int, run: Callable[[int], object]) -> float:
    """Nanoseconds for each block of so many calls."""
    started = time.thread_time_ns()
    for i in range(calls):
        run(i)
    return (time.thread_time_ns() - started) / (calls * blocks)


class Bench:
    """A pool full of cached blocks, and new requests for each round."""

    def __init__(self, blocks: int, batch: int, events: bool, named: bool) -> None:
        holders = HolderMode.NAMED if named else HolderMode.CALLER
        group = GroupConfig(GroupKind.FULL_ATTENTION, BLOCK)
        config = PoolConfig(blocks, BLOCK, (group,), HashAlgorithm.XXH3_128, holders=holders)
        self.pool, self.batch, self.random = BlockPool(config, events=events), batch, Random(1)
        self.calls = min(MOST_CALLS, (blocks - 1) // batch)
        self.holder = "a request" if named else None
        for request in self.requests((blocks - 1) // batch):
            ids = self.pool.allocate(batch, self.holder)
            self.pool.cache_full_blocks(request, ids, 0, batch, 0)
            self.pool.free(ids[::-1], self.holder)
        self.pool.take_events()

    def requests(self, count: int) -> list[Request]:
        """Requests of one batch of blocks, all different."""
        tokens = [[self.random.getrandbits(31) for _ in range(BLOCK * self.batch)] for _ in range(count)]
        return [self.pool.request(self.holder or "a request", each) for each in tokens]

    def round(self) -> dict[str, float]:
        """Every operation, on as many new requests as there are calls."""
        pool, batch, calls, holder = self.pool, self.batch, self.calls, self.holder
        fresh = self.requests(calls)
        keys = [[digest + bytes(4) for digest in request.hashes] for request in fresh]
        taken: list[list[int]] = []
        done = {
            "lookup miss": timed(calls, batch, lambda i: pool.lookup(keys[i])),
            "alloc+evict": timed(calls, batch, lambda i: taken.append(pool.allocate(batch, holder))),
            "cache_full": timed(calls, batch, lambda i: pool.cache_full_blocks(fresh[i], taken[i], 0, batch, 0)),
        }
        order = list(range(calls))
        self.random.shuffle(order)
        done["lookup hit"] = timed(calls, batch, lambda i: pool.lookup(keys[order[i]]))
        done["free"] = timed(calls, batch, lambda i: pool.free(taken[i], holder))
        pool.take_events()
        return done


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--named", action="store_true")
    chosen = parser.parse_args()
    print(f"{chosen.blocks:,} blocks, events {chosen.events}, named {chosen.named}, load {os.getloadavg()[0]:.1f}")
    gc.disable()  # what the bench itself keeps would be walked again and again
    columns = {}
    for batch in BATCHES:
        bench = Bench(chosen.blocks, batch, chosen.events, chosen.named)
        rounds = [bench.round() for _ in range(ROUNDS)]
        columns[batch] = {name: [each[name] for each in rounds] for name in rounds[0]}
        arena = bench.pool.arena
        print(f"k={batch}: {4 * arena.numel() / chosen.blocks:.0f} bytes of arena for each block")
    print(f"{'ns/block, median (min)':24}" + "".join(f"{f'k={batch}':>18}" for batch in BATCHES))
    for name in columns[BATCHES[0]]:
        cells = [columns[batch][name] for batch in BATCHES]
        print(f"{name:24}" + "".join(f"{statistics.median(cell):>9.0f} ({min(cell):.0f})".rjust(18) for cell in cells))


if __name__ == "__main__":
    main()
