"""The block pool on the native core: all operations of the specification (POOL-*, REG-*, STEP-*, EVENT-*).

The operations themselves are methods of `_core.PoolBase`, entered without a detour; here is what surrounds them: the
configuration, the arena and its growth, events and the state as values.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import torch

from kvproof.gpu_backend import _core, saving
from kvproof.gpu_backend.arena import (
    HEADER,
    REGIONS,
    WORD_BYTES,
    Views,
    header_of,
    new_arena,
    region_of,
)
from kvproof.gpu_backend.checks import check_config, check_int
from kvproof.gpu_backend.hashing import PrefixHasher
from kvproof.gpu_backend.observation import Observer, PoolState
from kvproof.gpu_backend.program import StepProgram
from kvproof.gpu_backend.refusals import concurrent, out_of_range, refusal, shown, wrong_type
from kvproof.gpu_backend.request import Request
from kvproof.gpu_backend.saving import CorruptedState, SavedState
from kvproof.spec.errors import InvalidArgument, OutOfRange, PoolError
from kvproof.spec.events import Cleared, Event, PrefixHash, Removed, Stored
from kvproof.spec.vocabulary import (
    CommitMode,
    ExtraKey,
    GroupKind,
    Holder,
    HolderMode,
    Key,
    PoolConfig,
    Residency,
)

_core.word(wrong_type, out_of_range, refusal, concurrent)

STORED, REMOVED = 1, 2
"""Kinds of events as the core numbers them; what remains is Cleared."""

KINDS = {GroupKind.FULL_ATTENTION: 0, GroupKind.SLIDING_WINDOW: 1, GroupKind.RECURRENT: 2}

GROWTH = 8
"""A region grows by at least one row in so many."""

MOST_KEYS = 2**30 - 1
"""A region has fewer rows than `kMostRows` in native/layout.h."""

FIRST_EVENTS = 2**12
FIRST_HOLDERS = 2**8
FIRST_IN_FLIGHT = 2**8
"""Rows to begin with, of regions that grow with the work in flight and not with the pool."""


class Hit(NamedTuple):
    """What the pool knows of a key (STEP-LOOKUP-1, STEP-LOOKUP-2).

    `block` serves it now. If none does, `reserved` has it reserved by `writer`, and a reader of the same batch may
    attach. `pending` would serve it if everything reserved were committed.
    """

    block: int | None
    reserved: int | None
    writer: Holder | None
    pending: int | None


class BlockPool(_core.PoolBase):
    """`config.num_blocks` blocks, block 0 the null block; all others start free, in ascending order (POOL-INIT-1).

    Block ids are plain integers in and out, keys are bytes. `events=False` makes a pool that tells nobody what is
    resident, and saves the cost of it.
    """

    _observer: Observer | None = None
    """Made when somebody looks, for the arena that there is then."""

    _has_cache = False
    """Whether a `HybridCache` was made of the pool. There is no second one, which would not know what runs."""

    def __init__(self, config: PoolConfig, device: str = "cpu", *, events: bool = True) -> None:
        if self._is_made:
            raise InvalidArgument("the pool is made already; BlockPool(config) makes another one")
        self.config = check_config(config)
        if type(device) is not str or device != "cpu":
            raise InvalidArgument(f"device is {shown(device)}; this backend runs on 'cpu'")
        if not isinstance(events, bool):
            raise InvalidArgument(f"events must be True or False, not {shown(events)}")
        self._begin(PrefixHasher.of(config), events, None)

    @classmethod
    def restore(cls, saved: bytes) -> Self:
        """The pool that was saved, in the state that it had then. Raises `CorruptedState` if that is not what it is."""
        state = saving.read(saved)
        pool = cls.__new__(cls)
        try:
            pool.config = check_config(state.config)
            pool._begin(state.hasher, state.tells_events, state.rows, len(state.arena))
        except (PoolError, *saving.NOT_READABLE) as error:
            raise CorruptedState(f"no pool can be made of it: {error}") from error
        groups = region_of(pool.arena, "groups")
        fixed = pool._fixed_part(groups)
        pool._memory[:] = np.frombuffer(state.arena, np.int32)
        if pool._fixed_part(groups) != fixed:
            raise CorruptedState("its arena is that of a pool with another configuration")
        if problem := pool._put_behind(state.names, state.texts, state.told):
            raise CorruptedState(problem)
        return pool

    def save(self) -> bytes:
        """The whole state as bytes, for `restore`; it changes nothing.

        Whoever has them can compute the pool's hashes: with `xxh3_128` they are a secret like the seed.
        """
        with self._hold("save"):
            names, texts, told = self._behind()
            arena = self._memory.tobytes()
            return saving.write(
                SavedState(self.config, self._tells_events, self.hasher, self._rows(), arena, names, texts, told)
            )

    def check(self) -> None:
        """Raise `CorruptedState` if the arena breaks an invariant. It takes time in proportion to the pool."""
        if problem := self._problem():
            raise CorruptedState(problem)

    def request(self, request_id: str, tokens: Sequence[int], extra_keys: Sequence[ExtraKey] = ()) -> Request:
        """A request that is hashed by this pool's contract."""
        return Request(request_id, tokens, self.hasher, extra_keys)

    def program(self) -> StepProgram:
        """A program of operations on this pool, to be filled and run."""
        return StepProgram(self)

    def find(self, keys: Sequence[Key]) -> list[Hit]:  # type: ignore[override] # a Hit is such a tuple, with names
        """For each key who serves it now, who has it reserved, and who would serve it (STEP-LOOKUP-*)."""
        return [Hit(*hit) for hit in super().find(keys)]

    def take_events(self) -> list[Event]:
        """Everything since the last time, once (EVENT-DRAIN-1)."""
        with self._hold("take_events"):
            events = [self._event(raw) for raw in self._events()]
            self._drop_events()
            return events

    def observe(self) -> PoolState:
        """The whole state as a value, for comparison; it changes nothing (OBSERVE-1)."""
        with self._hold("observe"):
            if self._observer is None:
                self._observer = Observer(self.views())
            return self._observer.state(self._names, [self._event(raw) for raw in self._events()])

    def reserve(self, keys: int) -> None:
        """Make room for so many keys in all, so that no later call has to, which lays the whole arena out anew.

        A pool begins with room for an eighth more keys than it has blocks. Raises OutOfRange and MemoryError.
        """
        check_int("keys", keys, 0, MOST_KEYS)
        with self._hold("reserve"):
            if keys > self._rows()[REGIONS["entries"]]:
                self._grow(REGIONS["entries"], keys)

    @property
    def arena(self) -> torch.Tensor:
        """A tensor over the memory that holds the whole state, as it is now. When the pool grows it goes on elsewhere.

        What torch does to the tensor, setting, resizing or sharing it, the memory stays the pool's.
        """
        if not self._is_made:
            raise InvalidArgument("the pool was never made; BlockPool(config) makes one")
        return torch.from_numpy(self._memory)

    def views(self) -> Views:
        """Named views of the arena as it is now; once the pool has grown they raise `StaleViews`."""
        return Views(self.arena, self._is_memory)

    def _is_memory(self, arena: torch.Tensor) -> bool:
        """Whether the pool's state still lies there."""
        return arena.data_ptr() == self._memory.ctypes.data

    def _begin(
        self, hasher: PrefixHasher, events: bool, rows: tuple[int, ...] | None, wanted_bytes: int | None = None
    ) -> None:
        """Make the arena of a new pool, with so many rows in its regions, or of a saved one, which has its size."""
        self.hasher, self._tells_events = hasher, events
        groups = tuple([(KINDS[group.kind], group.block_size) for group in self.config.groups])
        rows = self._first_rows() if rows is None else rows
        words = self._plan(rows)
        if wanted_bytes not in (None, WORD_BYTES * words):
            raise CorruptedState(f"its arena has {wanted_bytes:,} bytes, not {WORD_BYTES * words:,}")
        self._memory = new_arena(words)
        self._observer = None
        seed = struct.unpack("QQ", os.urandom(16))
        self._open(self._memory, self._settings, groups, rows, seed, hasher.seed_digest)

    def _fixed_part(self, groups: slice) -> tuple[list[int], list[int], list[int]]:
        """What an arena does not change: sizes and modes, where its regions are, and the groups."""
        header = header_of(self.arena)
        return (
            header[: HEADER["seed"]].tolist(),
            header[HEADER["offset"] : HEADER["num_free"]].tolist(),
            self.arena[groups].tolist(),
        )

    @property
    def _settings(self) -> tuple[int, ...]:
        config = self.config
        return (
            config.num_blocks,
            config.hash_block_size,
            self.hasher.digest_words,
            config.holders is HolderMode.NAMED,
            config.commit is CommitMode.STEPS,
            config.residency is Residency.PER_COPY,
            self._tells_events,
        )

    def _first_rows(self) -> tuple[int, ...]:
        """How many rows each region has to begin with."""
        blocks, steps = self.config.num_blocks, self.config.commit is CommitMode.STEPS
        named = self.config.holders is HolderMode.NAMED
        in_flight = FIRST_IN_FLIGHT if steps else 0
        rows = {
            "entries": blocks + blocks // GROWTH + 1,
            "readers": (blocks // GROWTH + FIRST_HOLDERS) if named else 0,
            "holders": FIRST_HOLDERS if named else 0,
            "events": FIRST_EVENTS if self._tells_events else 0,
            "pendings": in_flight,
            "dependencies": in_flight,
            "attachments": in_flight,
            "admissions": in_flight,
            "copies": in_flight,
        }
        return tuple([rows.get(region, 0) for region in REGIONS])

    def _plan(self, rows: tuple[int, ...]) -> int:
        """How many words an arena with so many rows needs. Raises OutOfRange."""
        try:
            return _core.plan(self._settings, len(self.config.groups), rows)
        except OverflowError as error:
            raise OutOfRange(f"a pool of {self.config.num_blocks:,} blocks is too large: {error}") from None

    def _grow(self, region: int, wanted: int) -> None:
        """Go on in a larger arena, in which this region has at least so many rows. The core calls it.

        Raises MemoryError and OutOfRange; then the pool is as it was.
        """
        rows = list(self._rows())
        rows[region] = max(wanted, rows[region] + rows[region] // GROWTH + 1)
        larger = new_arena(self._plan(tuple(rows)))
        self._adopt(larger, self._settings, len(self.config.groups), tuple(rows))
        self._memory, self._observer = larger, None

    def _event(self, raw: tuple[int, int, _core.Text, int, int, int] | tuple[int, int, bytes]) -> Event:
        """An event of the core as a value of the specification."""
        if len(raw) == 3:
            kind, group, digest = raw
            return Removed(group, digest) if kind == REMOVED else Cleared()
        _, group, text, first, count, parent = raw
        h, size = self.config.hash_block_size, self.config.groups[group].block_size
        positions = range(first, first + count * size, size)
        end = positions[-1]
        return Stored(
            group=group,
            hashes=tuple([PrefixHash(text.digest(n // h - 1), n) for n in positions]),
            parent=PrefixHash(text.digest(parent // h - 1), parent) if parent else None,
            tokens=text.tokens(parent, end),
            extra_keys=tuple([extra for extra in text.extra_keys if _covers(extra, parent, end)]),
        )


def _covers(extra: ExtraKey, start: int, end: int) -> bool:
    """Whether an extra key covers one of the tokens start .. end-1."""
    return extra.start < end and (extra.end is None or extra.end > start)
