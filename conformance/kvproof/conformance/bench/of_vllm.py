"""vLLM's `BlockPool` as the benchmark measures it. Imported in vLLM's environment only.

It keeps its own objects: turning them into numbers and back, which an engine does not do, is never timed. A lookup is a
list comprehension over `get_cached_block`, which is less than the loop that vLLM's managers have around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import vllm
from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored
from vllm.sampling_params import SamplingParams
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.request import Request

from kvproof.spec.vocabulary import HashAlgorithm

GROUP = 0
GROUPS = [GROUP]

SAMPLING = SamplingParams(max_tokens=1)


class Side:
    """See `Side` of `.sides`."""

    name = "vLLM"

    def __init__(
        self, num_blocks: int, block_tokens: int, hash_tokens: int, algorithm: HashAlgorithm, events: bool
    ) -> None:
        self.pool = BlockPool(num_blocks, True, hash_tokens, enable_kv_cache_events=events)
        self._block_tokens, self._tells = block_tokens, events

    @staticmethod
    def versions() -> dict[str, str]:
        """See `Side`."""
        return {"vLLM": vllm.__version__, "torch": str(torch.__version__)}

    def request(self, tokens: list[int], digests: Sequence[bytes] | None) -> Any:
        """See `Side`: vLLM's own request, which is given its hashes."""
        return Request(
            request_id="a request",
            prompt_token_ids=tokens,
            sampling_params=SAMPLING,
            pooling_params=None,
            block_hasher=lambda request: list(digests or ()),
        )

    def digests(self, request: Any) -> list[bytes]:
        """See `Side`."""
        return list(request.block_hashes)

    def keys(self, digests: Sequence[bytes]) -> list[bytes]:
        """See `Side`: `get_cached_block` takes a digest."""
        return list(digests)

    def num_free(self) -> int:
        """See `Side`."""
        return int(self.pool.get_num_free_blocks())

    def allocate(self, calls: int, k: int) -> tuple[list[Any], list[Any]]:
        """See `Side`."""
        allocate, take = self.pool.get_new_blocks, self.pool.take_events
        if not self._tells:
            return [allocate(k) for _ in range(calls)], []
        tables, told = [], []
        for _ in range(calls):
            tables.append(allocate(k))
            told.append(take())
        return tables, told

    def cache(self, requests: Sequence[Any], tables: Sequence[Any], first: int = 0) -> list[Any]:
        """See `Side`."""
        register, take, size = self.pool.cache_full_blocks, self.pool.take_events, self._block_tokens
        told: list[Any] = []
        for request, table in zip(requests, tables, strict=True):
            register(request, table, first, len(table), size, GROUP)
            if self._tells:
                told.append(take())
        return told

    def cache_partial(self, request: Any, table: Any, ends: Sequence[int]) -> None:
        """See `Side`."""
        size = self._block_tokens
        for slot, block in enumerate(table):
            for end in ends:
                self.pool.cache_partial_block(request, block, slot * size + end, GROUP, size)

    def look_up(self, batches: Sequence[list[bytes]]) -> list[Any]:
        """See `Side`."""
        get = self.pool.get_cached_block
        return [[get(digest, GROUPS) for digest in batch] for batch in batches]

    def touch(self, tables: Sequence[Any], batches: Sequence[list[bytes]]) -> None:
        """See `Side`: vLLM takes no keys."""
        touch = self.pool.touch
        for table in tables:
            touch(table)

    def free(self, tables: Sequence[Any]) -> None:
        """See `Side`."""
        free = self.pool.free_blocks
        for table in tables:
            free(table)

    def longest(self, keys: list[bytes]) -> list[Any]:
        """See `Side`: the loop of `FullAttentionManager.find_longest_cache_hit` for one group."""
        get, blocks = self.pool.get_cached_block, []
        for digest in keys:
            found = get(digest, GROUPS)
            if not found:
                break
            blocks.append(found[0])
        return blocks

    def ids(self, blocks: Sequence[Any]) -> list[int | None]:
        """See `Side`: of blocks, or of what `get_cached_block` returns."""
        return [None if found is None else (found[0] if type(found) is list else found).block_id for found in blocks]

    def told(self, events: Sequence[Any]) -> list[object]:
        """See `Side`."""
        return [_plain(event) for event in events]

    def own_bytes(self) -> None:
        """See `Side`: vLLM's pool does not say."""
        return None


def _plain(event: Any) -> object:
    match event:
        case BlockStored():
            return "stored", event.group_idx, list(event.block_hashes), list(event.token_ids)
        case BlockRemoved(block_hashes=[published]):
            return "removed", event.group_idx, published
        case AllBlocksCleared():
            return ("cleared",)
    raise TypeError(f"an event that vLLM is not known to emit: {event!r}")
