"""Single arguments of operations, judged: what can be made out of a value, and which errors it may cause (ERR-TYPE-1).

Part of `preconditions`, and like it independent of the reference's own checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvproof.conformance.operations import Extra, KeyRef
from kvproof.reference import PoolState, Request
from kvproof.reference.observation import BlockState
from kvproof.spec.errors import InvalidArgument, InvalidBlock, InvalidGroup, NotAligned, OutOfRange, PoolError
from kvproof.spec.vocabulary import (
    GROUP_ID_BYTES,
    MAX_TOKEN,
    NULL_BLOCK,
    POOL_COPY_PREFIX,
    CommitMode,
    HolderMode,
    Key,
    PoolConfig,
)

MAX_OFFSET = 2**63 - 1
"""Extra keys cover tokens up to here (HASH-EXTRA-2)."""

SOURCES = ("adapter", "salt", "media", "embedding")


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that decides whether an operation is legal; `begun` is the last number that `begin_step` returned."""

    state: PoolState
    config: PoolConfig
    requests: Mapping[str, Request]
    begun: int = 0


def hash_at(request: Request, position: int) -> bytes | None:
    """H(position), None where the request has no hash."""
    units, rest = divmod(position, request.hasher.hash_block_size)
    return request.hashes[units - 1] if rest == 0 and 1 <= units <= len(request.hashes) else None


def key_of(request: Request, group: int, position: int) -> Key | None:
    """The request's key at a position, None where it has no hash."""
    digest = hash_at(request, position)
    return None if digest is None else digest + group.to_bytes(GROUP_ID_BYTES, "big")


def is_null(block_id: object) -> bool:
    """Whether a value names the null block."""
    return block_id == NULL_BLOCK and type(block_id) is int


@dataclass(slots=True)
class Arguments:
    """Collects the errors of one operation's arguments; None stands for a value that could not be made out."""

    situation: Situation
    errors: set[type[PoolError]] = field(default_factory=set)

    @property
    def h(self) -> int:
        """The hash block size."""
        return self.situation.config.hash_block_size

    def require(self, holds: bool, error: type[PoolError]) -> None:
        """Note an error unless something holds."""
        if not holds:
            self.errors.add(error)

    def require_bool(self, value: object) -> None:
        """A bool."""
        self.require(isinstance(value, bool), InvalidArgument)

    def name(self, value: object) -> None:
        """A non-empty string."""
        self.require(isinstance(value, str) and value != "", InvalidArgument)

    def number(self, value: object, low: int, high: int | None = None) -> int | None:
        """An integer within limits."""
        if not isinstance(value, int) or isinstance(value, bool):
            self.errors.add(InvalidArgument)
            return None
        if value < low or (high is not None and value > high):
            self.errors.add(OutOfRange)
            return None
        return value

    def position(self, value: object, request: Request | None) -> int | None:
        """A position at which the request has a hash."""
        position = self.number(value, 1, None if request is None else len(request.hashes) * self.h)
        if isinstance(value, int) and not isinstance(value, bool):
            self.require(value % self.h == 0, NotAligned)
        return position if position is not None and position % self.h == 0 else None

    def sequence(self, value: object) -> Sequence[object]:
        """A list or tuple."""
        if isinstance(value, list | tuple):
            return value
        self.errors.add(InvalidArgument)
        return ()

    def holder(self, value: object) -> None:
        """A name, or None where references are anonymous."""
        if self.situation.config.holders is HolderMode.NAMED:
            self.name(value)
            if isinstance(value, str) and self.situation.config.commit is CommitMode.STEPS:
                self.require(not value.startswith(POOL_COPY_PREFIX), InvalidArgument)
        else:
            self.require(value is None, InvalidArgument)

    def request(self, name: object) -> Request | None:
        """The request of this name."""
        found = self.situation.requests.get(name) if isinstance(name, str) else None
        self.require(found is not None, InvalidArgument)
        return found

    def key(self, ref: object) -> Key | None:
        """The key that a KeyRef names."""
        if not isinstance(ref, KeyRef):
            self.errors.add(InvalidArgument)
            return None
        request = self.request(ref.request)
        size = self.block_size(ref.group)
        position = self.position(ref.position, request)
        if request is None or size is None or position is None:
            return None
        return key_of(request, ref.group, position)

    def block_size(self, group: object) -> int | None:
        """The block size of a group."""
        groups = self.situation.config.groups
        if not isinstance(group, int) or isinstance(group, bool):
            self.errors.add(InvalidArgument)
            return None
        if not 0 <= group < len(groups):
            self.errors.add(InvalidGroup)
            return None
        return groups[group].block_size

    def block(self, block_id: object) -> BlockState | None:
        """A block of the pool."""
        if not isinstance(block_id, int) or isinstance(block_id, bool):
            self.errors.add(InvalidArgument)
            return None
        if not 0 <= block_id < len(self.situation.state.blocks):
            self.errors.add(InvalidBlock)
            return None
        return self.situation.state.blocks[block_id]

    def block_list(self, block_ids: object) -> list[tuple[int, BlockState]]:
        """The blocks that exist, each with its id."""
        found = []
        for block_id in self.sequence(block_ids):
            block = self.block(block_id)
            if block is not None:
                assert isinstance(block_id, int)
                found.append((block_id, block))
        return found

    def two_blocks(self, src_id: object, dst_id: object) -> tuple[BlockState | None, BlockState | None]:
        """Source and destination: two blocks, neither of them null."""
        src, dst = self.block(src_id), self.block(dst_id)
        self.require(not is_null(src_id) and not is_null(dst_id), InvalidBlock)
        self.require(src is None or dst is None or src_id != dst_id, InvalidBlock)
        return (None if is_null(src_id) else src), (None if is_null(dst_id) else dst)

    def mask(self, value: object, length: int | None) -> set[int]:
        """One bool for each slot, or None; the places that it leaves out."""
        if value is None:
            return set()
        entries = self.sequence(value)
        self.require(all(isinstance(entry, bool) for entry in entries), InvalidArgument)
        if isinstance(value, list | tuple):
            self.require(length is None or len(entries) == length, OutOfRange)
        return {place for place, entry in enumerate(entries) if entry is False}

    def tokens(self, value: object) -> None:
        """Numbers that can be hashed as tokens."""
        for token in self.sequence(value):
            self.number(token, 0, MAX_TOKEN)

    def extra_keys(self, value: object) -> None:
        """Well-formed extra keys without repetition."""
        known = [extra for extra in self.sequence(value) if isinstance(extra, Extra)]
        self.require(not isinstance(value, list | tuple) or len(known) == len(value), InvalidArgument)
        for extra in known:
            self.require(extra.source in SOURCES, InvalidArgument)
            self.require(isinstance(extra.value, str), InvalidArgument)
            start = self.number(extra.start, 0, MAX_OFFSET)
            if extra.end is not None:
                self.number(extra.end, 0 if start is None else start + 1, MAX_OFFSET)
        self.require(all(extra not in known[:i] for i, extra in enumerate(known)), InvalidArgument)
