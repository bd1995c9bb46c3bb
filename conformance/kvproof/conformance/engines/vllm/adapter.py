"""vLLM's `BlockPool` and `Request` as a backend. Runs in vLLM's environment; `..vllm` starts it from the suite's.

One operation of the suite is one call of vLLM. Nothing is repaired and nothing is filtered:

* Blocks are numbers here and objects there. A number that names none cannot be given to vLLM, so the adapter refuses it
  (`InvalidBlock`), as it does a request that was never added (`InvalidArgument`).
* `touch` has no key there; the key is not passed on.
* `evict` takes a set there, so the order in which blocks are given is lost.
* What vLLM says in its own way is said in the suite's: too few blocks is `OutOfBlocks`, a reset that returns False is
  `StillReferenced`. Whatever else it raises keeps its own name.
* Of the keys of a block vLLM knows which one is first; the others are a set, and are shown in its order.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import floor
from typing import Any, ClassVar

import vllm
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import get_block_hash, get_group_id, get_request_block_hasher, init_none_hash
from vllm.v1.core.kv_cache_utils import make_block_hash_with_group_id as cache_key

from kvproof.conformance.backends.interface import AdapterError, Capabilities, Identity, Level
from kvproof.conformance.backends.wire import Answer, Entry, Holders, Observation, Step, WireEvent
from kvproof.conformance.engines.vllm.translation import Prefixes, event_of, request_of
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Append,
    CacheFullBlocks,
    CachePartialBlock,
    Contains,
    Evict,
    Extra,
    Free,
    Hashes,
    KeyRef,
    Lookup,
    Move,
    Operation,
    Reset,
    TakeEvents,
    Touch,
    name_of,
)
from kvproof.spec.errors import InvalidArgument, InvalidBlock, InvalidGroup, NotAligned, OutOfBlocks, StillReferenced
from kvproof.spec.vocabulary import GroupKind, HolderMode, PoolConfig, Residency

DRIVEN = (
    "vllm.v1.core.block_pool",
    "vllm.v1.core.kv_cache_utils",
    "vllm.v1.request",
    "vllm.distributed.kv_events",
    "vllm.utils.hashing",
)
"""The modules of vLLM that are driven."""

REPLACES = "replace_existing_hashes"
"""The parameter by which a partial block's keys are replaced; older releases do not have it."""

MOST_GROUPS = 8


def identity() -> Identity:
    """Which vLLM is driven, from which files; their names are relative to the current folder if they lie in it."""
    origins = [spec.origin for name in DRIVEN if (spec := find_spec(name)) is not None and spec.origin is not None]
    here = os.getcwd() + os.sep
    files = tuple(origin.removeprefix(here) for origin in origins)
    return Identity(
        "vLLM BlockPool",
        vllm.__version__,
        "Python",
        "https://github.com/vllm-project/vllm",
        "kvproof",
        (*files, "kvproof.conformance.engines.vllm"),
    )


def capabilities(levels: Sequence[Level], residency: Residency) -> Capabilities:
    """What this vLLM can be asked; `levels` and `residency` say by what it is judged."""
    moves = ["move"] if hasattr(BlockPool, "move_block_hashes") else []
    takes = ["take_events"] if Level.EVENTS in levels else []
    replaces = REPLACES in inspect.signature(BlockPool.cache_partial_block).parameters
    return Capabilities(
        levels=tuple(levels),
        operations=("append", "contains", "hashes", "cache_partial_block", "evict", *moves, *takes),
        observes=("num_free", "free_queue", "ref_cnt", "keys", "index"),
        residency=(residency,),
        holders=(HolderMode.CALLER,),
        group_kinds=tuple(GroupKind),
        most_groups=MOST_GROUPS,
        without=(
            "cache_full_blocks.replace",
            *([] if replaces else ["cache_partial_block.replace"]),
            "extra_keys.embedding",
            "extra_keys.part_of_request",
            "extra_keys.two_of_a_source",
            "extra_keys.endless_media",
            "extra_keys.overlapping_media",
            "extra_keys.empty_value",
        ),
    )


@dataclass(slots=True)
class Pool:
    """A pool of vLLM with the requests of its caller.

    `author` has the extra keys of the request that is being registered, `authors` the same for each event that vLLM has
    queued.
    """

    config: PoolConfig
    pool: Any
    hasher: Any
    prefixes: Prefixes
    requests: dict[str, Any]
    extras: dict[str, tuple[Extra, ...]]
    author: tuple[Extra, ...]
    authors: list[tuple[Extra, ...]]


class Adapter:
    """See `Backend`: the pool as it is, with one event for each copy of a key."""

    levels: ClassVar[tuple[Level, ...]] = (Level.POOL, Level.EVENTS, Level.ORDER)
    residency: ClassVar[Residency] = Residency.PER_COPY
    hash_name: ClassVar[str] = "sha256"

    def __init__(self) -> None:
        self._hash = get_hash_fn_by_name(self.hash_name)
        init_none_hash(self._hash)

    def identify(self) -> tuple[Identity, Capabilities]:
        """See `Backend`."""
        return identity(), capabilities(self.levels, self.residency)

    def start(self, config: PoolConfig) -> None:
        """See `Backend`."""
        h = config.hash_block_size
        pool = BlockPool(config.num_blocks, True, h, enable_kv_cache_events=True)
        self._of = Pool(config, pool, get_request_block_hasher(h, self._hash), Prefixes(h), {}, {}, (), [])

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        """See `Backend`."""
        return [self._step(operation, observe) for operation in operations]

    def close(self) -> None:
        """See `Backend`."""

    def _step(self, operation: Operation, observe: bool) -> Step:
        answer = self._answer(operation)
        self._note_author()
        if not observe:
            return Step(answer)
        return Step(answer, self._seen(), self._take_events() if Level.EVENTS in self.levels else None)

    def _answer(self, operation: Operation) -> Answer:
        self._of.author = ()
        try:
            return Answer(self._apply(operation))
        except AdapterError:
            raise
        except Exception as error:  # a refusal; or a crash, which is an answer too
            return Answer(error=type(error).__name__, message=str(error))

    def _apply(self, operation: Operation) -> object:
        pool = self._of.pool
        if getattr(operation, "holder", None) is not None:
            raise InvalidArgument("vLLM knows no holders, so that none can be named")
        match operation:
            case AddRequest() | Append() | Hashes():
                return self._of_a_request(operation)
            case Allocate(n=n):
                return self._allocate(n)
            case Touch(block=block):
                pool.touch([self._block(block)])
            case Free(blocks=blocks):
                pool.free_blocks([self._block(block) for block in blocks])
            case Lookup(keys=refs):
                return [self._lookup(ref) for ref in refs]
            case Contains(key=ref, block=block):
                held = pool.cached_block_hash_to_block.contain(self._key(ref), self._block(block).block_id)
                return bool(held)
            case CacheFullBlocks() | CachePartialBlock():
                self._register(operation)
            case Evict(blocks=blocks):
                pool.evict_blocks(set(blocks))
            case Move(src=src, dst=dst):
                pool.move_block_hashes(self._block(src), self._block(dst))
            case Reset():
                if not pool.reset_prefix_cache():
                    raise StillReferenced("reset_prefix_cache returned False")
            case TakeEvents():
                return self._take_events()
            case _:
                raise AdapterError(f"{name_of(operation)} is not claimed, so it should not be asked for")
        return None

    # What the operations are there

    def _of_a_request(self, operation: AddRequest | Append | Hashes) -> list[str] | None:
        of, name = self._of, operation.request
        if isinstance(operation, AddRequest):
            if name in of.requests:
                raise InvalidArgument(f"there is a request {name!r} already")
            of.requests[name] = request_of(operation, of.hasher)
            of.extras[name] = operation.extra_keys
        request = self._request(name)
        if isinstance(operation, Append):
            request.append_output_token_ids(list(operation.tokens))
        if isinstance(operation, Hashes):
            return [digest.hex() for digest in request.block_hashes]
        of.prefixes.learn(request)
        return None

    def _allocate(self, n: int) -> list[int]:
        try:
            return [block.block_id for block in self._of.pool.get_new_blocks(n)]
        except ValueError as error:
            raise OutOfBlocks(str(error)) from error

    def _lookup(self, ref: KeyRef) -> int | None:
        found = self._of.pool.get_cached_block(get_block_hash(self._key(ref)), [ref.group])
        return None if found is None else int(found[0].block_id)

    def _register(self, operation: CacheFullBlocks | CachePartialBlock) -> None:
        pool, group = self._of.pool, operation.group
        request, size = self._request(operation.request), self._block_size(group)
        self._of.author = self._of.extras[operation.request]
        if isinstance(operation, CacheFullBlocks):
            blocks = [self._block(block) for block in operation.blocks]
            mask = None if operation.mask is None else list(operation.mask)
            pool.cache_full_blocks(request, blocks, operation.first, operation.last, size, group, mask)
            return
        options = {REPLACES: True} if operation.replace else {}
        pool.cache_partial_block(request, self._block(operation.block), operation.position, group, size, **options)

    # What names stand for

    def _request(self, name: str) -> Any:
        if name not in self._of.requests:
            raise InvalidArgument(f"there is no request {name!r}")
        return self._of.requests[name]

    def _block(self, block_id: int) -> Any:
        blocks = self._of.pool.blocks
        if type(block_id) is not int or not 0 <= block_id < len(blocks):
            raise InvalidBlock(f"there is no block {block_id!r}")
        return blocks[block_id]

    def _block_size(self, group: int) -> int:
        groups = self._of.config.groups
        if type(group) is not int or not 0 <= group < len(groups):
            raise InvalidGroup(f"there is no group {group!r}")
        return groups[group].block_size

    def _key(self, ref: KeyRef) -> bytes:
        """The key of a request's prefix, as vLLM makes it of one of the request's hashes."""
        self._block_size(ref.group)
        number, rest = divmod(ref.position, self._of.config.hash_block_size)
        if rest or number < 1:
            raise NotAligned(f"a request has no hash at {ref.position}")
        key: bytes = cache_key(self._request(ref.request).block_hashes[number - 1], ref.group)
        return key

    # What is shown

    def _note_author(self) -> None:
        of = self._of
        of.authors += [of.author] * (len(of.pool.kv_event_queue) - len(of.authors))

    def _take_events(self) -> tuple[WireEvent, ...]:
        of, authors = self._of, self._of.authors
        of.authors = []
        return tuple(event_of(e, of.prefixes, x) for e, x in zip(of.pool.take_events(), authors, strict=True))

    def _seen(self) -> Observation:
        pool = self._of.pool
        return Observation(
            num_free=floor(pool.get_num_free_blocks()),
            free_queue=tuple(self._free_queue()),
            ref_cnt=tuple(block.ref_cnt for block in pool.blocks),
            keys=tuple(map(self._keys, pool.blocks)),
            index=tuple(self._index()),
        )

    def _free_queue(self) -> list[int]:
        """The blocks of the list, front first; one that runs in a circle ends a block too late."""
        queue, found = self._of.pool.free_block_queue, list[int]()
        block = queue.fake_free_list_head.next_free_block
        while block is not None and block is not queue.fake_free_list_tail and len(found) <= len(self._of.pool.blocks):
            found.append(block.block_id)
            block = block.next_free_block
        return found

    def _keys(self, block: Any) -> tuple[Entry, ...]:
        """The first key with the position that the block has for it, then the others."""
        of, entries = self._of, []
        if block.block_hash is not None:
            digest = get_block_hash(block.block_hash)
            entries.append(Entry(get_group_id(block.block_hash), digest.hex(), block.block_hash_num_tokens))
        for key in of.pool.cached_block_hashes_by_block.get(block.block_id, ()):
            digest = get_block_hash(key)
            entries.append(Entry(get_group_id(key), digest.hex(), of.prefixes.position(digest)))
        return tuple(entries)

    def _index(self) -> list[Holders]:
        rows = []
        for key, holders in self._of.pool.cached_block_hash_to_block._cache.items():
            blocks = tuple(holders) if isinstance(holders, dict) else (holders.block_id,)
            rows.append((get_group_id(key), get_block_hash(key).hex(), blocks))
        return [Holders(*row) for row in sorted(rows)]


class PoolAlone(Adapter):
    """The same pool, judged without its events: what differs in them ends a run, and hides what comes later."""

    levels: ClassVar[tuple[Level, ...]] = (Level.POOL, Level.ORDER)


class Logical(Adapter):
    """The same pool, judged by what a consumer needs that keeps a set of keys."""

    residency = Residency.LOGICAL


class Xxhash(Adapter):
    """The same pool, with vLLM's own contract of that name."""

    hash_name = "xxhash"


class Refusals(PoolAlone):
    """The same, asked for what is illegal too; an event of a token that is no number could not be told."""

    levels = (*PoolAlone.levels, Level.ROBUSTNESS)
