"""The pool as `kvproof bench` measures it, see `kvproof.conformance.bench.sides`; the suite loads it by name.

What is timed is a loop over calls of the pool, with lists of integers and keys in and lists of integers out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvproof.gpu_backend.hashing import make_key
from kvproof.gpu_backend.hybrid import HybridCache
from kvproof.gpu_backend.pool import BlockPool
from kvproof.gpu_backend.request import Request
from kvproof.spec.events import Event, Removed, Stored
from kvproof.spec.vocabulary import (
    CommitMode,
    GroupConfig,
    GroupKind,
    HashAlgorithm,
    HolderMode,
    HybridConfig,
    Key,
    PoolConfig,
)

GROUP = 0

SEED = b"kvproof"


class Side:
    """A pool with one group of full attention and anonymous references, as vLLM's are."""

    name = "kvproof"

    def __init__(
        self, num_blocks: int, block_tokens: int, hash_tokens: int, algorithm: HashAlgorithm, events: bool
    ) -> None:
        groups = (GroupConfig(GroupKind.FULL_ATTENTION, block_tokens),)
        config = PoolConfig(num_blocks, hash_tokens, groups, algorithm, SEED, holders=HolderMode.CALLER)
        self.pool = BlockPool(config, events=events)
        self._block_tokens, self._hash_tokens, self._tells = block_tokens, hash_tokens, events

    @staticmethod
    def versions() -> dict[str, str]:
        """What it stands on."""
        return {"torch": str(torch.__version__)}

    def request(self, tokens: list[int], digests: Sequence[bytes] | None) -> Request:
        """A request; the pool computes its digests, whoever else has some."""
        return self.pool.request("a request", tokens)

    def digests(self, request: Request) -> list[bytes]:
        """The digests H(h), H(2h), ... of a request."""
        return request.hashes

    def keys(self, digests: Sequence[bytes]) -> list[Key]:
        """What a lookup takes."""
        return [make_key(GROUP, digest) for digest in digests]

    def num_free(self) -> int:
        """How many blocks can be allocated."""
        return self.pool.num_free

    def allocate(self, calls: int, k: int) -> tuple[list[list[int]], list[list[Event]]]:
        """The tables that were allocated, and the events of each call."""
        allocate, take = self.pool.allocate, self.pool.take_events
        if not self._tells:
            return [allocate(k) for _ in range(calls)], []
        tables, told = [], []
        for _ in range(calls):
            tables.append(allocate(k))
            told.append(take())
        return tables, told

    def cache(self, requests: Sequence[Request], tables: Sequence[list[int]], first: int = 0) -> list[list[Event]]:
        """Register every block of each table from slot `first` on; the events of each call."""
        register, take, told = self.pool.cache_full_blocks, self.pool.take_events, []
        for request, table in zip(requests, tables, strict=True):
            register(request, table, first, len(table), GROUP)
            if self._tells:
                told.append(take())
        return told

    def cache_partial(self, request: Request, table: Sequence[int], ends: Sequence[int]) -> None:
        """Register each block of a table at these ends, which count from the beginning of its slot."""
        for slot, block in enumerate(table):
            for end in ends:
                self.pool.cache_partial_block(request, block, slot * self._block_tokens + end, GROUP)

    def look_up(self, batches: Sequence[list[Key]]) -> list[list[int | None]]:
        """Which block serves each key."""
        lookup = self.pool.lookup
        return [lookup(keys) for keys in batches]

    def touch(self, tables: Sequence[list[int]], batches: Sequence[list[Key]]) -> None:
        """Take one more reference of each block."""
        touch = self.pool.touch_all
        for table, keys in zip(tables, batches, strict=True):
            touch(table, keys)

    def free(self, tables: Sequence[list[int]]) -> None:
        """Release a reference of each block."""
        free = self.pool.free
        for table in tables:
            free(table)

    def longest(self, keys: list[Key]) -> list[int]:
        """The blocks of the longest run of cached blocks from the beginning."""
        return self.pool.lookup_longest(keys)

    def ids(self, blocks: Sequence[int | None]) -> list[int | None]:
        """What was answered, as numbers of blocks."""
        return list(blocks)

    def told(self, events: Sequence[Event]) -> list[object]:
        """Events in a form that can be compared; of a digest the 64 bits that vLLM publishes."""
        return [self._plain(event) for event in events]

    @staticmethod
    def _plain(event: Event) -> object:
        match event:
            case Stored():
                return "stored", event.group, [_published(prefix.digest) for prefix in event.hashes], list(event.tokens)
            case Removed():
                return "removed", event.group, _published(event.digest)
        return ("cleared",)

    def own_bytes(self) -> int:
        """The arena's size."""
        return self.pool.arena.nbytes


class HybridSide:
    """A cache over all groups of a model, see `kvproof.conformance.bench.hybrid`; each call is a step of its own."""

    def __init__(self, groups: Sequence[GroupConfig], block_tokens: int, num_blocks: int) -> None:
        config = PoolConfig(
            num_blocks,
            block_tokens,
            tuple(groups),
            HashAlgorithm.XXH3_128,
            SEED,
            commit=CommitMode.STEPS,
            hybrid=HybridConfig(),
        )
        self.pool = BlockPool(config, events=False)
        self.cache = HybridCache(self.pool)

    def request(self, name: str, tokens: list[int]) -> Request:
        """A request that waits."""
        return self.pool.request(name, tokens)

    def match(self, request: Request) -> int:
        """The tokens of its joint hit."""
        return self.cache.match(request).hit

    def prefill(self, request: Request) -> None:
        """Begin it where it can, and compute its prompt in as few chunks as may be."""
        step, cache, total = self.pool.begin_step(), self.cache, request.num_tokens
        found = cache.match(request)
        end = cache.split(request, found.hit, total - found.hit, total - found.hit, found.junction)
        cache.admit(request, end)
        cache.commit(step)
        while end < total:
            step = self.pool.begin_step()
            end = cache.split(request, end, total - end, total - end, found.junction)
            cache.advance(request, end)
            cache.commit(step)

    def append(self, request: Request, token: int) -> None:
        """It got a token."""
        request.append([token])

    def decode(self, request: Request) -> None:
        """Compute the token that it got."""
        step = self.pool.begin_step()
        self.cache.advance(request, request.num_tokens)
        self.cache.commit(step)


def _published(digest: bytes) -> int:
    return int.from_bytes(digest, "big") & (1 << 64) - 1
