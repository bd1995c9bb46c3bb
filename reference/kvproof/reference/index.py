"""Which block has which key: forward index, reverse index, positions, and the status of what is not ready yet.

Every structure is a dict of plain values, so a cached block costs the garbage collector nothing beyond the block. Only
the entries of open steps have a row of their own (clauses INDEX-*, STEP-*).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from kvproof.reference.hashing import make_key
from kvproof.reference.request import Prefix
from kvproof.spec.vocabulary import Holder, Key


@dataclass(frozen=True, slots=True)
class Registration:
    """A request named a block by one of its prefixes; `call` numbers the registering calls of the pool."""

    owner: Holder
    prefix: Prefix
    group: int
    call: int
    key: Key = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", make_key(self.group, self.prefix.hash_at(self.position)))

    @property
    def position(self) -> int:
        """How many tokens the key stands for."""
        return self.prefix.length


@dataclass(frozen=True, slots=True)
class Unready:
    """An entry that is not servable yet: its ready step is open.

    It is reserved if its registration waits to be committed; a committed entry that moved in the step has none.
    """

    step: int
    reservation: Registration | None


class CachedBlockIndex:
    """The entries (key, block), each with its registration rank.

    The rank says who registered first. A moved entry keeps its rank, so a key's blocks are kept by rank and not in the
    order of insertion (POOL-MOVE-2).
    """

    __slots__ = ("_block_of", "_blocks_of", "_keys_of", "_next_rank", "_position_of", "_unready")

    def __init__(self) -> None:
        self._block_of: dict[Key, int] = {}
        """key -> the one block that has it; a dict of plain values, which the garbage collector passes over."""
        self._blocks_of: dict[Key, dict[int, int]] = {}
        """key -> rank -> block id, for the keys that several blocks have; ranks ascend."""
        self._keys_of: dict[int, dict[Key, int]] = {}
        """block id -> key -> rank; ranks ascend."""
        self._position_of: dict[Key, int] = {}
        self._unready: dict[Key, dict[int, Unready]] = {}
        """key -> block id -> status, for the entries of open steps."""
        self._next_rank = 0

    def contains(self, key: Key, block_id: int) -> bool:
        """Whether the block has the key, servable or not; says nothing about the slot being full."""
        return key in self._keys_of.get(block_id, ())

    def cached_keys(self) -> list[Key]:
        """All keys that some block has."""
        return [*self._block_of, *self._blocks_of]

    def keys_of(self, block_id: int) -> list[Key]:
        """The block's keys in registration order."""
        return list(self._keys_of.get(block_id, ()))

    def has_keys(self, block_id: int) -> bool:
        """Whether the block has any key."""
        return block_id in self._keys_of

    def blocks_of(self, key: Key) -> list[int]:
        """The blocks that have the key, first registered first."""
        return list(self._in_order(key))

    def position_of(self, key: Key) -> int:
        """How many tokens a cached key stands for."""
        return self._position_of[key]

    def rank_of(self, key: Key, block_id: int) -> int:
        """The registration rank of an entry."""
        return self._keys_of[block_id][key]

    def unready(self, key: Key, block_id: int) -> Unready | None:
        """The status of an entry that is not servable yet, None for one that is, or is none."""
        rows = self._unready.get(key)
        return rows.get(block_id) if rows else None

    def unready_of(self, block_id: int) -> list[Unready]:
        """The statuses of the block's entries that are not servable yet."""
        if not self._unready:
            return []
        return [status for key in self.keys_of(block_id) if (status := self.unready(key, block_id)) is not None]

    def is_reserved(self, key: Key, block_id: int) -> bool:
        """Whether the entry waits for its commit."""
        status = self.unready(key, block_id)
        return status is not None and status.reservation is not None

    def is_servable(self, key: Key, block_id: int) -> bool:
        """Whether a reader may be served by the entry (STEP-SERVE-1)."""
        return self.contains(key, block_id) and self.unready(key, block_id) is None

    def is_committed(self, key: Key, block_id: int) -> bool:
        """Whether a consumer was told of the entry."""
        return self.contains(key, block_id) and not self.is_reserved(key, block_id)

    def is_resident(self, key: Key) -> bool:
        """Whether some block has the key committed."""
        holders, rows = self._in_order(key), self._unready.get(key)
        if not holders or not rows:
            return bool(holders)
        return len(holders) > sum(status.reservation is not None for status in rows.values())

    def first_block(self, key: Key, allowed: Callable[[Key, int], bool]) -> int | None:
        """The block that registered the key first, among those with an allowed entry."""
        return next((block for block in self._in_order(key) if allowed(key, block)), None)

    def unready_entries(self) -> Iterable[tuple[Key, int, Unready]]:
        """All entries of open steps, in the order of their keys' first reservation."""
        return [(key, block, status) for key, rows in self._unready.items() for block, status in rows.items()]

    def reserve(self, registration: Registration, block_id: int, step: int) -> None:
        """Register a new entry, last in both orders, that waits for the commit of its step."""
        key, rank = registration.key, self._next_rank
        self._next_rank += 1
        self._list(key, rank, block_id)
        self._keys_of.setdefault(block_id, {})[key] = rank
        self._position_of[key] = registration.position
        self._unready.setdefault(key, {})[block_id] = Unready(step, registration)

    def set_ready(self, key: Key, block_id: int) -> None:
        """The entry's ready step is committed: from now on it is servable."""
        self._forget_status(key, block_id)

    def drop(self, key: Key, block_id: int) -> None:
        """Remove one entry; other blocks keep theirs (INDEX-SIBLING-1)."""
        keys = self._keys_of[block_id]
        self._unlist(key, keys.pop(key))
        if not keys:
            del self._keys_of[block_id]
        self._forget_status(key, block_id)

    def move_keys(self, src: int, dst: int, step: int) -> None:
        """Hand all entries of `src` to `dst`, which has none; ranks and statuses stay, the ready step is `step`."""
        ranks = self._keys_of.pop(src)
        self._keys_of[dst] = ranks
        for key, rank in ranks.items():
            if key in self._block_of:
                self._block_of[key] = dst
            else:
                self._blocks_of[key][rank] = dst
            rows = self._unready.setdefault(key, {})
            before = rows.pop(src, None)
            rows[dst] = Unready(step, before.reservation if before else None)

    def clear(self) -> None:
        """Forget everything."""
        for structure in (self._block_of, self._blocks_of, self._keys_of, self._position_of, self._unready):
            structure.clear()

    def clone(self) -> CachedBlockIndex:
        """An independent copy."""
        twin = CachedBlockIndex.__new__(CachedBlockIndex)
        twin._block_of = dict(self._block_of)
        twin._blocks_of = {key: dict(blocks) for key, blocks in self._blocks_of.items()}
        twin._keys_of = {block_id: dict(keys) for block_id, keys in self._keys_of.items()}
        twin._position_of = dict(self._position_of)
        twin._unready = {key: dict(rows) for key, rows in self._unready.items()}
        twin._next_rank = self._next_rank
        return twin

    def _in_order(self, key: Key) -> Collection[int]:
        """The blocks that have the key, first registered first, without copying them."""
        block = self._block_of.get(key)
        return self._blocks_of.get(key, {}).values() if block is None else (block,)

    def _list(self, key: Key, rank: int, block_id: int) -> None:
        """The block comes last among those that have the key."""
        if key in self._blocks_of:
            self._blocks_of[key][rank] = block_id
        elif (first := self._block_of.pop(key, None)) is not None:
            self._blocks_of[key] = {self._keys_of[first][key]: first, rank: block_id}
        else:
            self._block_of[key] = block_id

    def _unlist(self, key: Key, rank: int) -> None:
        """The block that registered the key with this rank has it no more."""
        if key in self._block_of:
            del self._block_of[key], self._position_of[key]
            return
        blocks = self._blocks_of[key]
        del blocks[rank]
        if len(blocks) == 1:
            [self._block_of[key]] = self._blocks_of.pop(key).values()

    def _forget_status(self, key: Key, block_id: int) -> None:
        if (rows := self._unready.get(key)) and rows.pop(block_id, None) and not rows:
            del self._unready[key]
