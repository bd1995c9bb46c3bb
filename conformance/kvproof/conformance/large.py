"""A world that is not observed as a whole after every operation: for pools too large for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from kvproof.conformance.fingerprints import Fingerprints
from kvproof.conformance.operations import Operation, TakeEvents
from kvproof.conformance.world import DirectedPool, World, cache_over
from kvproof.reference import EventMirror, Ghost, PoolState
from kvproof.reference.hybrid import HybridCache
from kvproof.reference.observation import BlockState, RunningState, StepState
from kvproof.spec.events import Event
from kvproof.spec.vocabulary import Key, PoolConfig

MOST_OBSERVED = 64
"""Blocks up to which a pool is observed in full after every operation."""


class _ShownPool(DirectedPool):
    """A reference that shows the parts of its state one by one."""

    def block_state(self, block_id: int) -> BlockState:
        """What `observe` would show of a block."""
        return self._observe_block(self._blocks[block_id])

    def step_state(self) -> StepState:
        """What `observe` would show of the steps."""
        return self._observe_steps()

    def queue(self) -> Iterator[int]:
        """The free blocks, the next victim first."""
        return iter(self._free)

    def pending(self) -> tuple[Event, ...]:
        """The events since the last drain."""
        return self._log.pending


class _Blocks(Sequence[BlockState]):
    """The blocks as they are when they are looked at."""

    def __init__(self, pool: _ShownPool) -> None:
        self._pool = pool

    def __len__(self) -> int:
        return self._pool.config.num_blocks

    @overload
    def __getitem__(self, index: int) -> BlockState: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[BlockState]: ...
    def __getitem__(self, index: int | slice) -> BlockState | Sequence[BlockState]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._pool.block_state(range(len(self))[index])


class _Queue(Sequence[int]):
    """The free queue as it is when it is looked at; its front and its length cost nothing."""

    def __init__(self, pool: _ShownPool) -> None:
        self._pool = pool

    def __len__(self) -> int:
        return self._pool.num_free

    def __iter__(self) -> Iterator[int]:
        return self._pool.queue()

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        return tuple(self)[index]


class _LiveState(PoolState):
    """The state of a pool at the moment of looking, part by part; a `PoolState` that was not copied out."""

    __slots__ = ("_blocks", "_cache", "_pool", "_queue")
    _pool: _ShownPool
    _cache: HybridCache | None
    _blocks: _Blocks
    _queue: _Queue

    def __init__(self, pool: _ShownPool, cache: HybridCache | None) -> None:
        values = {"_pool": pool, "_cache": cache, "_blocks": _Blocks(pool), "_queue": _Queue(pool)}
        for name, value in values.items():
            object.__setattr__(self, name, value)  # the class is frozen

    @property
    def blocks(self) -> Sequence[BlockState]:
        """See `PoolState`."""
        return self._blocks

    @property
    def free_queue(self) -> Sequence[int]:
        """See `PoolState`."""
        return self._queue

    @property
    def index(self) -> dict[Key, tuple[int, ...]]:
        """See `PoolState`; this part is copied out."""
        return self._pool.observe().index

    @property
    def pending_events(self) -> tuple[Event, ...]:
        """See `PoolState`."""
        return self._pool.pending()

    @property
    def steps(self) -> StepState:
        """See `PoolState`."""
        return self._pool.step_state()

    @property
    def running(self) -> tuple[RunningState, ...] | None:
        """See `PoolState`; this part is copied out."""
        return None if self._cache is None else self._cache.observe_running()


class LargeWorld(World):
    """A world whose cost per operation does not grow with the pool.

    `state` shows what is at the moment of looking, not what was when the last operation ended; so a state that is to
    be kept comes from `whole_state`. Nobody clones a large world.
    """

    def __init__(self, config: PoolConfig) -> None:
        shown = _ShownPool(config, Ghost())
        self.pool, self.taken, self.fingerprints = shown, (), Fingerprints(config)
        self.cache = cache_over(shown)
        self.requests = {}
        self.mirror = EventMirror(config, self.pool.hasher)
        self.state = _LiveState(shown, self.cache)
        self.begun = 0
        self._folded = 0
        self._shares_requests = False

    def apply(self, operation: Operation) -> object:
        """Run one operation and fold the events that it added; a typed error propagates."""
        result = self._run(operation)
        if isinstance(operation, TakeEvents):
            self._folded = 0
        elif new := self.state.pending_events[self._folded :]:
            self._folded += len(new)
            self.mirror.fold(new)
        return result

    def whole_state(self) -> PoolState:
        """See `World`; its cost grows with the pool."""
        return self.observe()

    def look_again(self) -> None:
        """See `World`; what is here is looked at every time."""

    def drain(self) -> None:
        """Forget the pending events, which the mirror has folded already."""
        if self._folded:
            self.pool.take_events()
            self._folded = 0

    def clone(self) -> World:
        """Not for a large world."""
        raise NotImplementedError("a large world is not cloned; explore small ones")


def world_of(config: PoolConfig) -> World:
    """A new world that fits the size of the pool."""
    return World(config) if config.num_blocks <= MOST_OBSERVED else LargeWorld(config)
