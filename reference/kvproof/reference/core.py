"""What all operations of the pool share: its state, the frame of an operation, changes and checks in common."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Concatenate, ParamSpec, Self, TypeVar

from kvproof.reference.block import FreeBlockQueue, KVCacheBlock
from kvproof.reference.event_log import EventLog
from kvproof.reference.ghost import Ghost
from kvproof.reference.hashing import PrefixHasher
from kvproof.reference.index import CachedBlockIndex, Registration, Unready
from kvproof.reference.request import Request
from kvproof.reference.steps import StepLedger
from kvproof.reference.validate import check_config, check_index, check_list, check_name, shown
from kvproof.spec.errors import (
    ConcurrentUse,
    ContentConflict,
    InvalidArgument,
    InvalidBlock,
    InvalidGroup,
    NoOpenStep,
    NotReferenced,
)
from kvproof.spec.vocabulary import (
    COPY_PREFIX,
    GROUP_ID_BYTES,
    NULL_BLOCK,
    POOL_COPY_PREFIX,
    CommitMode,
    Holder,
    HolderMode,
    Key,
    PoolConfig,
)

P = ParamSpec("P")
R = TypeVar("R")
Core = TypeVar("Core", bound="PoolCore")


def operation(method: Callable[Concatenate[Core, P], R]) -> Callable[Concatenate[Core, P], R]:
    """Make a method one operation of the pool: entered by one thread at a time, its net change logged at its end."""

    @functools.wraps(method)
    def guarded(self: Core, /, *args: P.args, **kwargs: P.kwargs) -> R:
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


def step_operation(method: Callable[Concatenate[Core, P], R]) -> Callable[Concatenate[Core, P], R]:
    """Make a method an operation that belongs to a step (STEP-OPEN-2); with immediate commit, to one of its own."""

    @functools.wraps(method)
    def within_step(self: Core, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.config.commit is CommitMode.STEPS:
            if self._steps.current == self._steps.committed:
                raise NoOpenStep(f"{method.__name__} belongs to a step; call begin_step first")
            return method(self, *args, **kwargs)
        self._steps.begin()
        try:
            result = method(self, *args, **kwargs)
        except BaseException:
            self._steps.cancel()
            raise
        self._commit_next_step()
        return result

    return operation(within_step)


class PoolCore:
    """The state of a pool, and what its operations share (POOL-INIT-1, POOL-NULL-1, POOL-HOLDER-*)."""

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
        self._steps = StepLedger()
        self._log = EventLog(config, self._index)
        self._busy = threading.Lock()

    @property
    def num_free(self) -> int:
        """How many blocks can be allocated now."""
        return len(self._free)

    @property
    def last_committed_step(self) -> int:
        """The number of the last committed step, 0 before the first."""
        return self._steps.committed

    @property
    def current_step(self) -> int:
        """The number of the step that was begun last; it is open if it is not the last committed one."""
        return self._steps.current

    @operation
    def clone(self) -> Self:
        """An independent copy of the pool and its ghost, for exploring what could happen next."""
        twin = type(self).__new__(type(self))
        twin.config, twin.hasher = self.config, self.hasher
        twin.ghost = None if self.ghost is None else self.ghost.clone()
        twin._blocks = [block.clone() for block in self._blocks]
        twin._free = FreeBlockQueue(self._free)
        twin._index = self._index.clone()
        twin._steps = self._steps.clone()
        twin._log = self._log.clone(twin._index)
        twin._busy = threading.Lock()
        return twin

    # Changes that several operations make

    def _drop_keys(self, block_id: int, keys: Iterable[Key] | None = None) -> None:
        """Remove all or some keys of a block."""
        for key in self._index.keys_of(block_id) if keys is None else keys:
            if self._index.is_committed(key, block_id):
                self._log.note_drop(key, block_id)
            self._index.drop(key, block_id)
            if self.ghost is not None and not self._index.blocks_of(key):
                del self.ghost.prefixes[key]

    def _release(self, blocks: Iterable[KVCacheBlock], holder: Holder | None) -> None:
        """Drop one reference for each; those that reach 0 take their places in the queue."""
        without_key: list[int] = []
        freed: list[tuple[int, bool]] = []
        for block in blocks:
            block.remove_holder(holder)
            if holder is not None:
                self._steps.attached.pop((block.block_id, holder), None)
                if self.ghost is not None:
                    self.ghost.served.pop((block.block_id, holder), None)
            if block.ref_cnt == 0:
                freed.append((block.block_id, self._index.has_keys(block.block_id)))
                if self._index.has_keys(block.block_id):
                    self._free.append(block.block_id)
                else:
                    without_key.append(block.block_id)
        self._free.prepend(without_key)
        if self.ghost is not None:
            self.ghost.release(freed)

    def _commit_next_step(self) -> None:
        """Publish what is due; then release the ends of the step's copies."""
        step = self._steps.committed + 1
        due = [(key, block, status) for key, block, status in self._index.unready_entries() if status.step == step]
        if due:
            self._publish(due, list(self._steps.admitted.get(step, ())))
        for block_id, holder in self._steps.close():
            self._release([self._blocks[block_id]], holder)
        if self.ghost is not None:
            self.ghost.commit(step)

    def _publish(self, due: Iterable[tuple[Key, int, Unready]], admitted: Sequence[Holder]) -> None:
        """What the entries of a step supersede is dropped; then they are ready, in the order of STEP-COMMIT-3."""
        order = {owner: i for i, owner in enumerate(admitted)}

        def turn(entry: tuple[Registration, int]) -> tuple[int, int, int, int]:
            new, block_id = entry
            # An entry that moved into this step may be of a request that registered nothing in it.
            admission = order.get(new.owner, -1)
            return admission, new.group, new.position, self._index.rank_of(new.key, block_id)

        reserved = [(status.reservation, block) for _, block, status in due if status.reservation is not None]
        reserved.sort(key=turn)
        for registration, block_id in reserved:
            self._drop_superseded(registration, block_id)
        for registration, block_id in reserved:
            self._log.note_publication(registration, block_id)
            self._index.set_ready(registration.key, block_id)
        for key, block_id, status in due:
            if status.reservation is None:
                self._index.set_ready(key, block_id)

    def _drop_superseded(self, registration: Registration, block_id: int) -> None:
        """The shorter committed keys that a longest key came to replace go (STEP-UPGRADE-2).

        A key that was registered below a longer one replaces nothing; that one still stands before it.
        """
        keys = self._index.keys_of(block_id)
        earlier = keys[: keys.index(registration.key)]
        if any(self._index.position_of(key) > registration.position for key in earlier):
            return
        self._drop_keys(block_id, [key for key in earlier if self._index.is_committed(key, block_id)])

    # Checks of arguments

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
            name = check_name("holder", holder)
            if self.config.commit is CommitMode.STEPS and name.startswith(POOL_COPY_PREFIX):
                raise InvalidArgument(
                    f"holder is {name!r}; names that begin with {POOL_COPY_PREFIX} are the pool's own"
                )
        elif holder is not None:
            raise InvalidArgument(f"this pool's references are anonymous; holder must be None, not {shown(holder)}")

    def _check_held(self, block: KVCacheBlock, holder: Holder | None) -> None:
        if block.ref_cnt == 0 or (holder is not None and holder not in block.holders):
            raise NotReferenced(f"block {block.block_id} is not held by {holder!r}; held by {sorted(block.holders)}")

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
        if self.config.commit is CommitMode.STEPS and request.request_id.startswith(COPY_PREFIX):
            raise InvalidArgument(f"request {request.request_id!r} has the name of a copy, which is never rolled back")

    def _group_block_size(self, group: object) -> int:
        index = check_index("group", group)
        if not 0 <= index < len(self.config.groups):
            raise InvalidGroup(f"group {shown(index)} does not exist; groups are 0 to {len(self.config.groups) - 1}")
        return self.config.groups[index].block_size
