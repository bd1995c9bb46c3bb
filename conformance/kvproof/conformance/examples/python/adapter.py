"""An adapter: it lets the kvproof conformance suite drive a block pool. It works as it is; make it yours step by step.

    kvproof certify adapter:Adapter

1. `Pool` below is a tiny pool of dictionaries. Replace it by your engine's, and its calls in `Adapter._apply` by calls
   of yours. One operation of the suite is one call of the pool; a refusal is an error of `kvproof.spec.errors`.
2. Say in `IDENTITY` who is certified.
3. Claim more in `CAPABILITIES`: everything that is claimed is tested, and nothing else. `observes` lets the suite look
   at your pool after every operation, which finds faults earlier and explains them better.

An engine that cannot be imported here, as it has an environment of its own: install kvproof there too, and run

    kvproof certify "exec:/path/to/its/python -m kvproof.conformance.backends.serve adapter:Adapter"
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvproof.conformance.backends.interface import AdapterError, Capabilities, Identity, Level
from kvproof.conformance.backends.wire import Answer, Step
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    CacheFullBlocks,
    Free,
    KeyRef,
    Lookup,
    Operation,
    Reset,
    Touch,
    name_of,
)
from kvproof.spec.errors import (
    AlreadyHeld,
    ContentConflict,
    NotCached,
    NotOwner,
    NotReferenced,
    OutOfBlocks,
    OutOfRange,
    StillReferenced,
)
from kvproof.spec.vocabulary import NULL_BLOCK, PoolConfig

IDENTITY = Identity("my-pool", "0", "Python", files=("adapter",))

# Level P is the least that can be certified. `hashes` is left as it is, "own": the suite does not ask for digests.
CAPABILITIES = Capabilities(levels=(Level.POOL,))


class Adapter:
    """What the suite calls; see `kvproof.conformance.backends.interface.Backend`."""

    def identify(self) -> tuple[Identity, Capabilities]:
        """Who this is, and what it claims."""
        return IDENTITY, CAPABILITIES

    def start(self, config: PoolConfig) -> None:
        """A new pool; the old one is forgotten. The suite asks only for what the capabilities claim."""
        self._pool = Pool(config.num_blocks, config.groups[0].block_size)
        self._requests: dict[str, AddRequest] = {}

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        """Run operations in order. With `observe` a step also has `seen` and `events`, if they are claimed."""
        return [Step(self._answer(operation)) for operation in operations]

    def close(self) -> None:
        """There are no more calls; let go of what the engine holds."""

    def _answer(self, operation: Operation) -> Answer:
        try:
            return Answer(self._apply(operation))
        except AdapterError:
            raise
        except Exception as error:  # a refusal; or a crash, which is an answer too, and a wrong one
            return Answer(error=type(error).__name__, message=str(error))

    def _apply(self, operation: Operation) -> object:
        """One operation of the suite as one call of the pool; what it returns is the operation's result."""
        match operation:
            case AddRequest(request=name):
                self._requests[name] = operation
            case Allocate(holder=holder, n=n):
                return self._pool.allocate(str(holder), n)
            case Touch(holder=holder, block=block, key=ref):
                self._pool.touch(str(holder), block, self._key(ref))
            case Free(holder=holder, blocks=blocks):
                self._pool.free(str(holder), blocks)
            case Lookup(keys=refs):
                return [self._pool.lookup(self._key(ref)) for ref in refs]
            case CacheFullBlocks():
                self._cache_full_blocks(operation)
            case Reset():
                self._pool.reset()
            case _:
                raise AdapterError(f"{name_of(operation)} is not claimed, so it should not be asked for")
        return None

    def _cache_full_blocks(self, operation: CacheFullBlocks) -> None:
        size, wanted = self._pool.block_size, []
        for slot in range(operation.first, operation.last):
            block = operation.blocks[slot]
            masked = operation.mask is not None and not operation.mask[slot - operation.first]
            if block != NULL_BLOCK and not masked:
                ref = KeyRef(operation.request, operation.group, (slot + 1) * size)
                wanted.append((block, slot, self._key(ref)))
        self._pool.register(operation.request, wanted, operation.replace)

    def _key(self, ref: KeyRef) -> Key:
        """What names a prefix: its tokens, and the parts of extra keys that cover them. Engines take a hash of it."""
        request, end = self._requests[ref.request], ref.position
        extras = [
            (extra.source, extra.value, extra.start, end if extra.end is None else min(extra.end, end))
            for extra in request.extra_keys
            if extra.start < end
        ]
        return request.tokens[:end], tuple(sorted(extras))


# From here on: the tiny pool. Yours takes its place.

Key = tuple[tuple[int, ...], tuple[tuple[str, str, int, int], ...]]


@dataclass
class Block:
    """One block: who holds it, who writes it, which slot of its writer's table it is, and the key that it has."""

    holders: set[str] = field(default_factory=set)
    writer: str = ""
    slot: int | None = None
    key: Key | None = None


class Pool:
    """Blocks of one size; block 0 stands for "nothing here". Every operation checks all, then changes."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self._blocks = [Block() for _ in range(num_blocks)]
        self._free = OrderedDict.fromkeys(range(1, num_blocks))
        self._index: dict[Key, dict[int, None]] = {}

    def allocate(self, holder: str, n: int) -> list[int]:
        """Take the first n free blocks, which lose their keys."""
        if n > len(self._free):
            raise OutOfBlocks(f"{n} blocks asked for, {len(self._free)} are free")
        taken = [self._free.popitem(last=False)[0] for _ in range(n)]
        for block_id in taken:
            self._drop(block_id)
            self._blocks[block_id] = Block({holder}, holder)
        return taken

    def touch(self, holder: str, block_id: int, key: Key) -> None:
        """Share a block that has the key."""
        block = self._blocks[block_id]
        if block_id == NULL_BLOCK:
            return
        if block.key != key:
            raise NotCached(f"block {block_id} does not have the key; look it up again")
        if holder in block.holders:
            raise AlreadyHeld(f"{holder} holds block {block_id} already")
        self._free.pop(block_id, None)
        block.holders.add(holder)

    def free(self, holder: str, block_ids: Sequence[int]) -> None:
        """Let go of blocks: those that nobody holds now go to the front without a key, to the tail with one."""
        released = [block_id for block_id in block_ids if block_id != NULL_BLOCK]
        if len(set(released)) < len(released) or any(holder not in self._blocks[b].holders for b in released):
            raise NotReferenced(f"{holder} does not hold all of {released}, or not so often")
        front = []
        for block_id in released:
            block = self._blocks[block_id]
            block.holders.remove(holder)
            block.writer = "" if block.writer == holder else block.writer
            if not block.holders:
                self._free[block_id] = None
                front += [block_id] * (block.key is None)
        for block_id in reversed(front):
            self._free.move_to_end(block_id, last=False)

    def lookup(self, key: Key) -> int | None:
        """The block that has had the key for the longest time."""
        return next(iter(self._index.get(key, ())), None)

    def register(self, author: str, wanted: Sequence[tuple[int, int, Key]], replace: bool) -> None:
        """Name blocks, each given with its slot, by what their author wrote into them; all of them or none."""
        coming = [each for each in wanted if replace or self._blocks[each[0]].key != each[2]]
        for block_id, slot, _ in coming:
            block = self._blocks[block_id]
            if not block.holders:
                raise NotReferenced(f"block {block_id} is free")
            if block.writer != author:
                raise NotOwner(f"block {block_id} is not written by {author}")
            if block.slot not in (None, slot):
                raise OutOfRange(f"block {block_id} is slot {block.slot} until it is allocated again")
            if block.key is not None and not replace:
                raise ContentConflict(f"block {block_id} has another key")
        for block_id, slot, key in coming:
            self._drop(block_id)
            self._blocks[block_id].slot, self._blocks[block_id].key = slot, key
            self._index.setdefault(key, {})[block_id] = None

    def reset(self) -> None:
        """Forget every key, if no block is in use."""
        if len(self._free) < len(self._blocks) - 1:
            raise StillReferenced("some blocks are in use")
        for block in self._blocks:
            block.key = None
        self._index.clear()

    def _drop(self, block_id: int) -> None:
        block = self._blocks[block_id]
        if block.key is not None:
            blocks = self._index[block.key]
            del blocks[block_id]
            if not blocks:
                del self._index[block.key]
            block.key = None
