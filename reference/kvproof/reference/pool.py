"""The block pool: allocation, references, lookup, registration, eviction (clauses POOL-*, REG-*, CONTENT-*).

Every public operation validates completely, then mutates (ERR-ATOMIC-1); its events are its net change; it costs time
in proportion to its arguments (COST-1). A pool has a single owner: a second thread inside an operation gets
`ConcurrentUse` (ERR-OWNER-1).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from kvproof.reference.block import FreeBlockQueue, KVCacheBlock
from kvproof.reference.event_log import EventLog, Registration
from kvproof.reference.ghost import Content, Ghost, Prefix
from kvproof.reference.hashing import PrefixHasher, split_key
from kvproof.reference.index import CachedBlockIndex
from kvproof.reference.observation import BlockState, PoolState
from kvproof.reference.positions import is_full, slot_end, slot_of
from kvproof.reference.registration import (
    Plan,
    check_identity,
    check_writable,
    check_writer,
    plan_registration,
)
from kvproof.reference.request import Request
from kvproof.reference.validate import (
    check_bool,
    check_config,
    check_index,
    check_int,
    check_list,
    check_name,
    check_position,
    shown,
)
from kvproof.spec.errors import (
    AlreadyHeld,
    ConcurrentUse,
    ContentConflict,
    InvalidArgument,
    InvalidBlock,
    InvalidGroup,
    NotCached,
    NotOwner,
    NotReferenced,
    OutOfBlocks,
    OutOfRange,
    StillReferenced,
)
from kvproof.spec.events import Event, PrefixHash
from kvproof.spec.vocabulary import GROUP_ID_BYTES, NULL_BLOCK, Holder, HolderMode, Key, PoolConfig

P = ParamSpec("P")
R = TypeVar("R")


def operation(method: Callable[Concatenate[BlockPool, P], R]) -> Callable[Concatenate[BlockPool, P], R]:
    """Make a method one operation of the pool: entered by one thread at a time, its net change logged at its end."""

    @functools.wraps(method)
    def guarded(self: BlockPool, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self._busy.acquire(blocking=False):
            raise ConcurrentUse(f"{method.__name__} was called while the pool is inside another operation")
        try:
            result = method(self, *args, **kwargs)
            self._log.end_operation()
            return result
        except BaseException:
            self._log.discard()
            raise
        finally:
            self._busy.release()

    return guarded


class BlockPool:
    """`config.num_blocks` blocks, block 0 being the null block; all others start free, in ascending order.

    Block ids are plain integers in and out. With a `Ghost` the pool also tracks what the blocks really hold.
    """

    def __init__(self, config: PoolConfig, ghost: Ghost | None = None) -> None:
        self.config = check_config(config)
        if ghost is not None and not isinstance(ghost, Ghost):
            raise InvalidArgument(f"ghost must be a Ghost or None, not {shown(ghost)}")
        if ghost is not None:
            ghost.claim()
        self.hasher = PrefixHasher.of(config)
        self.ghost = ghost
        self._blocks = [KVCacheBlock(block_id) for block_id in range(config.num_blocks)]
        self._free = FreeBlockQueue(range(NULL_BLOCK + 1, config.num_blocks))
        self._index = CachedBlockIndex()
        self._log = EventLog(config, self._index)
        self._busy = threading.Lock()

    @operation
    def allocate(self, n: int, holder: Holder | None = None) -> list[int]:
        """Take n blocks from the front of the queue for `holder`, who becomes their writer (POOL-ALLOC-*).

        Each loses all its keys first. Raises OutOfRange (n < 0) and OutOfBlocks.
        """
        check_int("n", n, 0)
        self._check_holder(holder)
        if n > len(self._free):
            raise OutOfBlocks(f"{shown(n)} blocks asked for, {len(self._free)} are free")
        taken = [self._free.popleft() for _ in range(n)]
        for block_id in taken:
            self._drop_keys(block_id)
            self._blocks[block_id].start_life(holder)
            if self.ghost is not None:
                self.ghost.contents.pop(block_id, None)
        return taken

    @operation
    def touch(self, block_id: int, key: Key, holder: Holder | None = None) -> None:
        """Add a reference to a block that has `key`; a free block leaves the queue (POOL-TOUCH-*).

        The null block is left alone. Raises NotCached and AlreadyHeld.
        """
        block = self._block(block_id)
        self._check_key(key)
        self._check_holder(holder)
        if block.is_null:
            return
        if not self._index.contains(key, block_id):
            raise NotCached(f"block {block_id} does not have the key {key.hex()} (any more); look it up again")
        if holder is not None and holder in block.holders:
            raise AlreadyHeld(f"{holder!r} holds block {block_id} already; a holder holds a block at most once")
        if block.ref_cnt == 0:
            self._free.remove(block_id)
        block.add_holder(holder, PrefixHash(split_key(key)[1], self._index.position_of(key)))
        if self.ghost is not None and holder is not None:
            self.ghost.served[block_id, holder] = self.ghost.prefixes[key]

    @operation
    def free(self, block_ids: Sequence[int], holder: Holder | None = None) -> None:
        """Drop one reference for each id in the order given; null blocks are skipped (POOL-FREE-*).

        Blocks that reach 0 without a key go to the front of the queue as one group, with a key to its tail.
        Raises NotReferenced if there are more releases than references.
        """
        blocks = [block for block in self._block_list(block_ids) if not block.is_null]
        self._check_holder(holder)
        self._check_releases(blocks, holder)
        without_key: list[int] = []
        for block in blocks:
            block.remove_holder(holder)
            if self.ghost is not None and holder is not None:
                self.ghost.served.pop((block.block_id, holder), None)
            if block.ref_cnt == 0:
                if self._index.has_keys(block.block_id):
                    self._free.append(block.block_id)
                else:
                    without_key.append(block.block_id)
        self._free.prepend(without_key)

    @property
    def num_free(self) -> int:
        """How many blocks can be allocated now."""
        return len(self._free)

    # Lookup

    @operation
    def lookup(self, keys: Sequence[Key]) -> list[int | None]:
        """For each key the block that registered it first, or None; changes nothing (POOL-LOOKUP-*)."""
        return [self._index.first_block(self._check_key(key)) for key in check_list("keys", keys)]

    @operation
    def contains(self, key: Key, block_id: int) -> bool:
        """Whether the block has the key; says nothing about the slot being full (POOL-CONTAINS-1)."""
        self._check_key(key)
        return self._index.contains(key, self._block(block_id).block_id)

    @operation
    def full_key(self, block_id: int) -> Key | None:
        """The block's key at the end of its slot, if it has one (POOL-CONTAINS-2)."""
        block = self._block(block_id)
        for key in self._index.keys_of(block_id):
            assert block.group is not None, "a block with a key has a group"
            if is_full(self._index.position_of(key), self.config.groups[block.group].block_size):
                return key
        return None

    # Registration

    @operation
    def cache_full_blocks(
        self,
        request: Request,
        block_ids: Sequence[int],
        first: int,
        last: int,
        group: int,
        mask: Sequence[bool] | None = None,
        replace: bool = False,
    ) -> None:
        """Register the full keys of the slots first .. last-1 of the request's block table (REG-FULL-*).

        `block_ids` is the table, indexed by slot; `mask` has one bool for each of the slots, False skips it, and null
        blocks are skipped. All-or-nothing. Raises OutOfRange and whatever registering one of the slots raises.
        """
        self._check_request(request)
        blocks = self._block_list(block_ids)
        block_size = self._group_block_size(group)
        check_int("first", first, 0)
        check_int("last", last, first, min(len(blocks), request.hashed_length // block_size))
        chosen = self._check_mask(mask, last - first)
        check_bool("replace", replace)
        slots = [slot for slot in range(first, last) if chosen[slot - first] and not blocks[slot].is_null]
        if len({blocks[slot].block_id for slot in slots}) != len(slots):
            raise InvalidBlock(f"a block stands in two of the slots {slots}; a block has one slot")
        ends = {slot: slot_end(slot, block_size) for slot in slots}
        self._register([self._plan(blocks[slot], request, group, end, replace) for slot, end in ends.items()])

    @operation
    def cache_partial_block(
        self, request: Request, block_id: int, position: int, group: int, replace: bool = False
    ) -> None:
        """Register the request's key at `position`, inside or at the end of the block's slot (REG-PARTIAL-*).

        Raises NotAligned, OutOfRange, InvalidBlock (null), NotReferenced, NotOwner and ContentConflict.
        """
        self._check_request(request)
        block = self._block(block_id)
        self._group_block_size(group)
        check_int("position", position, 1, request.hashed_length)
        check_position("position", position, self.config.hash_block_size)
        check_bool("replace", replace)
        if block.is_null:
            raise InvalidBlock("block 0 is the null block; it is never registered")
        self._register([self._plan(block, request, group, position, replace)])

    @operation
    def evict(self, block_ids: Sequence[int]) -> None:
        """Drop all keys of the blocks; references and queue positions stay (POOL-EVICT-*). Null is refused."""
        blocks = self._block_list(block_ids)
        if any(block.is_null for block in blocks):
            raise InvalidBlock("block 0 is the null block; it has no keys to evict")
        for block in blocks:
            self._drop_keys(block.block_id)

    @operation
    def move(self, src_id: int, dst_id: int) -> None:
        """Copy the content of `src` to `dst` and hand its keys over, ranks kept, without an event (POOL-MOVE-*).

        `dst` is another block, referenced, without keys and readers. Raises InvalidBlock, NotCached, NotReferenced,
        OutOfRange (dst is another slot) and ContentConflict.
        """
        src, dst = self._two_blocks(src_id, dst_id)
        if not self._index.has_keys(src_id):
            raise NotCached(f"block {src_id} has no key to move")
        if dst.ref_cnt == 0:
            raise NotReferenced(f"block {dst_id} is free; allocate it first")
        assert src.group is not None, "a block with a key has a group"
        assert src.slot is not None, "a block with a key has a slot"
        check_identity(dst, src.group, src.slot)
        self._check_overwritable(dst)
        self._index.move_keys(src_id, dst_id)
        dst.group, dst.slot = src.group, src.slot
        if self.ghost is not None:
            self.ghost.copy_content(src_id, dst_id, None)

    @operation
    def reset(self) -> None:
        """Forget every key and emit Cleared (POOL-RESET-*). Raises StillReferenced while a block is referenced."""
        in_use = self.config.num_blocks - 1 - len(self._free)
        if in_use > 0:
            raise StillReferenced(f"{in_use} blocks are referenced; the cache is reset only when none is")
        self._index.clear()
        if self.ghost is not None:
            self.ghost.prefixes.clear()
        self._log.note_clear()

    @operation
    def take_events(self) -> list[Event]:
        """Everything since the last drain, once (EVENT-DRAIN-1)."""
        return self._log.drain()

    # Content (ghost operations)

    @operation
    def write(self, request: Request, block_id: int, position: int, group: int) -> None:
        """The request's forward pass leaves its first `position` tokens in the block (CONTENT-WRITE-*).

        Afterwards the block holds the rows of those tokens that fall into its slot, or the state after exactly them.
        Raises OutOfRange, InvalidBlock (null), NotReferenced, NotOwner and ContentConflict.
        """
        self._check_request(request)
        block = self._block(block_id)
        block_size = self._group_block_size(group)
        check_int("position", position, 1, request.num_tokens)
        check_writer(self.config, block, request.request_id)
        check_identity(block, group, slot_of(position, block_size))
        check_writable(self.config, self._index, block, request, group, position)
        if self.ghost is not None:
            self.ghost.contents[block_id] = Content(Prefix(request, position), group)

    @operation
    def copy(self, src_id: int, dst_id: int, holder: Holder | None = None) -> None:
        """Copy to `dst`, which `holder` writes, what `holder` may read of `src`; keys stay (CONTENT-COPY-*).

        Raises InvalidBlock, NotReferenced (both must be held), NotOwner and ContentConflict.
        """
        src, dst = self._two_blocks(src_id, dst_id)
        self._check_holder(holder)
        self._check_held(src, holder)
        self._check_held(dst, holder)
        if holder is not None and dst.writer != holder:
            raise NotOwner(f"block {dst_id} is written by {dst.writer!r}, not by {holder!r}")
        self._check_overwritable(dst)
        if self.ghost is not None:
            self.ghost.copy_content(src_id, dst_id, holder)

    @operation
    def read(self, block_id: int, holder: Holder | None = None) -> Prefix | None:
        """What the block holds, None if nothing was written; only for its holders (CONTENT-READ-1)."""
        block = self._block(block_id)
        self._check_holder(holder)
        if block.is_null:
            raise InvalidBlock("block 0 is the null block; it holds nothing")
        self._check_held(block, holder)
        content = self.ghost.contents.get(block_id) if self.ghost is not None else None
        return None if content is None else content.prefix

    # Observation

    @operation
    def observe(self) -> PoolState:
        """The whole state as a value, for comparison (OBSERVE-1)."""
        return PoolState(
            blocks=tuple(self._observe_block(block) for block in self._blocks),
            free_queue=tuple(self._free),
            index={key: tuple(self._index.blocks_of(key)) for key in self._index.cached_keys()},
            pending_events=self._log.pending,
        )

    @operation
    def clone(self) -> BlockPool:
        """An independent copy of the pool and its ghost, for exploring what could happen next."""
        twin = BlockPool.__new__(BlockPool)
        twin.config, twin.hasher = self.config, self.hasher
        twin.ghost = None if self.ghost is None else self.ghost.clone()
        twin._blocks = [block.clone() for block in self._blocks]
        twin._free = FreeBlockQueue(self._free)
        twin._index = self._index.clone()
        twin._log = self._log.clone(twin._index)
        twin._busy = threading.Lock()
        return twin

    def _observe_block(self, block: KVCacheBlock) -> BlockState:
        return BlockState(
            ref_cnt=block.ref_cnt,
            holders=tuple(sorted(block.holders.items())),
            writer=block.writer,
            group=block.group,
            slot=block.slot,
            keys=tuple((key, self._index.position_of(key)) for key in self._index.keys_of(block.block_id)),
        )

    # Mutation shared by the operations

    def _drop_keys(self, block_id: int) -> None:
        for key in self._index.keys_of(block_id):
            self._log.note_drop(key, block_id)
        for key in self._index.drop_keys(block_id):
            if self.ghost is not None and not self._index.is_cached(key):
                del self.ghost.prefixes[key]

    def _plan(self, block: KVCacheBlock, request: Request, group: int, position: int, replace: bool) -> Plan | None:
        return plan_registration(self.config, self._index, block, request, group, position, replace)

    def _register(self, plans: Sequence[Plan | None]) -> None:
        for plan in plans:
            if plan is None:
                continue
            block_id = plan.block.block_id
            if plan.drop_others:
                self._drop_keys(block_id)
            self._log.note_registration(Registration(plan.key, block_id, plan.request, plan.group, plan.position))
            self._index.add(plan.key, plan.position, block_id)
            plan.block.group, plan.block.slot = plan.group, plan.slot
            if self.ghost is not None:
                self.ghost.prefixes[plan.key] = Prefix(plan.request, plan.position)

    # Validation shared by the operations

    def _block(self, block_id: object) -> KVCacheBlock:
        index = check_index("a block id", block_id)
        if not 0 <= index < self.config.num_blocks:
            raise InvalidBlock(f"block {shown(index)} does not exist; ids are 0 to {self.config.num_blocks - 1}")
        return self._blocks[index]

    def _block_list(self, block_ids: object) -> list[KVCacheBlock]:
        return [self._block(block_id) for block_id in check_list("blocks", block_ids)]

    def _two_blocks(self, src_id: int, dst_id: int) -> tuple[KVCacheBlock, KVCacheBlock]:
        src, dst = self._block(src_id), self._block(dst_id)
        if src.is_null or dst.is_null:
            raise InvalidBlock("block 0 is the null block; nothing is copied or moved from it or to it")
        if src is dst:
            raise InvalidBlock(f"block {src_id} cannot be copied or moved onto itself")
        return src, dst

    def _check_key(self, key: object) -> Key:
        size = self.hasher.digest_size + GROUP_ID_BYTES
        if type(key) is not bytes or len(key) != size:
            raise InvalidArgument(f"a key must be {size} bytes (digest, then group), not {shown(key)}")
        return key

    def _check_holder(self, holder: object) -> None:
        if self.config.holders is HolderMode.NAMED:
            check_name("holder", holder)
        elif holder is not None:
            raise InvalidArgument(f"this pool's references are anonymous; holder must be None, not {shown(holder)}")

    def _check_held(self, block: KVCacheBlock, holder: Holder | None) -> None:
        if block.ref_cnt == 0 or (holder is not None and holder not in block.holders):
            raise NotReferenced(f"block {block.block_id} is not held by {holder!r}; held by {sorted(block.holders)}")

    def _check_releases(self, blocks: Sequence[KVCacheBlock], holder: Holder | None) -> None:
        releases: dict[int, int] = {}
        for block in blocks:
            self._check_held(block, holder)
            releases[block.block_id] = releases.get(block.block_id, 0) + 1
            if releases[block.block_id] > (1 if holder is not None else block.ref_cnt):
                raise NotReferenced(f"block {block.block_id} is released more often than it is held")

    def _check_overwritable(self, block: KVCacheBlock) -> None:
        """Nobody but its writer has anything to lose when the block's content is overwritten as a whole."""
        if self._index.has_keys(block.block_id):
            raise ContentConflict(f"block {block.block_id} has keys, which its content must keep serving")
        readers = sorted(name for name, served in block.holders.items() if served is not None)
        if readers:
            raise ContentConflict(f"block {block.block_id} is read by {readers}")

    def _check_request(self, request: object) -> None:
        if not isinstance(request, Request):
            raise InvalidArgument(f"request must be a Request, not {shown(request)}")
        if request.hasher != self.hasher:
            raise InvalidArgument(f"request {request.request_id!r} is hashed by another contract, size or seed")

    def _group_block_size(self, group: object) -> int:
        index = check_index("group", group)
        if not 0 <= index < len(self.config.groups):
            raise InvalidGroup(f"group {shown(index)} does not exist; groups are 0 to {len(self.config.groups) - 1}")
        return self.config.groups[index].block_size

    def _check_mask(self, mask: object, length: int) -> list[bool]:
        if mask is None:
            return [True] * length
        chosen = [check_bool("a mask entry", entry) for entry in check_list("mask", mask)]
        if len(chosen) != length:
            raise OutOfRange(f"mask has {len(chosen)} entries for {length} slots; it needs one for each")
        return chosen
