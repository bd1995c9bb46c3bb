"""The pool's state as a value, read from its arena (OBSERVE-1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import torch

from kvproof.gpu_backend.arena import (
    BLOCK_FIELDS,
    ENTRY_FIELDS,
    HEADER,
    NONE,
    PENDING_FIELDS,
    READER_FIELDS,
    Views,
)
from kvproof.gpu_backend.hashing import make_key
from kvproof.spec.events import Event, PrefixHash
from kvproof.spec.vocabulary import NULL_BLOCK, Holder, Key

if TYPE_CHECKING:
    from typing_extensions import Buffer

HOLE = NULL_BLOCK
"""What stands in the ring where a block has left it."""


class EntryState(NamedTuple):
    """A key of a block; `ahead` counts the commits until it is servable, `owner` reserved it, if it is reserved."""

    key: Key
    position: int
    ahead: int = 0
    owner: Holder | None = None


class BlockState(NamedTuple):
    """One block: its references, its identity, its entries in registration order, who attached what, and its age."""

    ref_cnt: int
    holders: tuple[tuple[Holder, PrefixHash | None], ...]
    writer: Holder | None
    group: int | None
    slot: int | None
    entries: tuple[EntryState, ...]
    attached: tuple[tuple[Holder, int], ...] = ()
    age: int = 0


class StepState(NamedTuple):
    """How many steps are open, and what belongs to them; steps are counted in commits until they are committed."""

    open: int = 0
    depends: tuple[tuple[Holder, Holder, int], ...] = ()
    copies: tuple[tuple[int, int, int, Holder], ...] = ()
    admitted: tuple[tuple[int, tuple[Holder, ...]], ...] = ()


NO_STEPS = StepState()


@dataclass(frozen=True, slots=True)
class PoolState:
    """Everything that a pool decides by; `index` maps a key to its blocks, first registered first."""

    blocks: Sequence[BlockState]
    free_queue: Sequence[int]
    index: dict[Key, tuple[int, ...]]
    pending_events: tuple[Event, ...]
    steps: StepState = NO_STEPS


def observe(views: Views, names: Sequence[Holder | None], events: Sequence[Event]) -> PoolState:
    """The state that an arena holds."""
    return _Observer(views, names).state(tuple(events))


def plain_numbers(region: torch.Tensor) -> memoryview:
    """The numbers of a region, one after the other, without a copy."""
    return memoryview(cast("Buffer", region.numpy().reshape(-1)))


class Rows:
    """A region of an arena: rows of numbers with named columns. Reads plain numbers, which is cheaper than tensors."""

    __slots__ = ("_at", "_width", "_words")

    def __init__(self, region: torch.Tensor, fields: Sequence[str]) -> None:
        self._words = plain_numbers(region)
        self._width = region.shape[1]
        self._at = {field: column for column, field in enumerate(fields)}

    def __call__(self, row: int, field: str) -> int:
        """One number."""
        number: int = self._words[row * self._width + self._at[field]]
        return number

    def digest(self, row: int, column: int, words: int) -> bytes:
        """The digest that begins at a column."""
        at = row * self._width + column
        return self._words[at : at + words].tobytes()

    def has(self, field: str) -> bool:
        """Whether the pool's modes need this column."""
        return self._at[field] < self._width


class _Observer:
    def __init__(self, views: Views, names: Sequence[Holder | None]) -> None:
        header = views.header.tolist()
        self._header = {name: header[at] for name, at in HEADER.items()}
        self._words = words = self._header["digest_words"]
        self._committed = self._header["committed"]
        self._views, self._names = views, names
        self._blocks = Rows(views.blocks, BLOCK_FIELDS)
        self._entries = Rows(views.entries, ("",) * words + ENTRY_FIELDS)
        self._readers = Rows(views.readers, READER_FIELDS)
        self._pendings = Rows(views.pendings, PENDING_FIELDS)

    def state(self, events: tuple[Event, ...]) -> PoolState:
        """All of it."""
        blocks = tuple([self._block(block) for block in range(self._header["num_blocks"])])
        return PoolState(blocks, self._free_queue(), self._index(), events, self._steps())

    def _free_queue(self) -> tuple[int, ...]:
        ring = plain_numbers(self._views.ring)
        head, span = self._header["ring_head"], self._header["ring_span"]
        places = [*ring[head : head + span], *ring[: max(0, head + span - len(ring))]]
        return tuple([block for block in places if block != HOLE])

    def _block(self, block: int) -> BlockState:
        get = self._blocks
        group, slot = get(block, "group"), get(block, "slot")
        writer = self._name(get(block, "writer")) if get.has("writer") else None
        holders, attached = self._holders(block, writer)
        return BlockState(
            ref_cnt=get(block, "references"),
            holders=holders,
            writer=writer,
            group=None if group == NONE else group,
            slot=None if slot == NONE else slot,
            entries=tuple([self._entry(e) for e in self._entries_of(block)]),
            attached=attached,
            age=max(0, get(block, "born") - self._committed) if get.has("born") else 0,
        )

    def _holders(
        self, block: int, writer: Holder | None
    ) -> tuple[tuple[tuple[Holder, PrefixHash | None], ...], tuple[tuple[Holder, int], ...]]:
        """Who holds the block and what each was served; who attached what is not committed."""
        holders: list[tuple[Holder, PrefixHash | None]] = [] if writer is None else [(writer, None)]
        attached: list[tuple[Holder, int]] = []
        reader = self._blocks(block, "readers") if self._blocks.has("readers") else NONE
        while reader != NONE:
            name = self._name(self._readers(reader, "holder"))
            assert name is not None, "a reader has a name"
            position, ahead = self._readers(reader, "position"), self._readers(reader, "attached") - self._committed
            digest = self._readers.digest(reader, len(READER_FIELDS), self._words)
            holders.append((name, PrefixHash(digest, position) if position else None))
            if ahead > 0:
                attached.append((name, ahead))
            reader = self._readers(reader, "next")
        return tuple(sorted(holders, key=_by_name)), tuple(sorted(attached))

    def _entries_of(self, block: int) -> Iterator[int]:
        entry = self._blocks(block, "first_entry")
        while entry != NONE:
            yield entry
            entry = self._entries(entry, "next_of_block")

    def _key(self, entry: int) -> Key:
        group = self._blocks(self._entries(entry, "block"), "group")
        return make_key(group, self._entries.digest(entry, 0, self._words))

    def _entry(self, entry: int) -> EntryState:
        position = self._entries(entry, "position")
        if position >= 0:
            return EntryState(self._key(entry), position)
        row, get = ~position, self._pendings
        owner = self._name(get(row, "owner"))
        return EntryState(self._key(entry), get(row, "position"), get(row, "step") - self._committed, owner)

    def _index(self) -> dict[Key, tuple[int, ...]]:
        """Every key with its blocks, in the order in which they registered it."""
        index = {}
        for first in self._views.buckets.tolist():
            while first != NONE:
                blocks, entry = [], first
                while entry != NONE:
                    blocks.append(self._entries(entry, "block"))
                    entry = self._entries(entry, "next_of_key")
                index[self._key(first)] = tuple(blocks)
                first = self._entries(first, "next_in_bucket")
        return index

    def _steps(self) -> StepState:
        open_steps = self._header["current"] - self._committed
        if not open_steps:
            return NO_STEPS
        admitted: dict[int, list[Holder]] = {}
        for step, request in self._table("admissions"):
            admitted.setdefault(step - self._committed, []).append(self._named(request))
        depends = [(self._named(r), self._named(w), s - self._committed) for r, w, s in self._table("dependencies")]
        copies = [(step - self._committed, src, dst, self._named(h)) for step, src, dst, h in self._table("copies")]
        return StepState(
            open_steps,
            tuple(sorted(depends)),
            tuple(copies),
            tuple([(step, tuple(names)) for step, names in admitted.items()]),
        )

    def _table(self, region: str) -> list[list[int]]:
        """The used rows of a table of what is in flight."""
        rows: list[list[int]] = getattr(self._views, region)[: self._header[f"num_{region}"]].tolist()
        return rows

    def _name(self, holder: int) -> Holder | None:
        return self._names[holder // 2] if holder else None

    def _named(self, holder: int) -> Holder:
        name = self._name(holder)
        assert name is not None, "whoever is in flight has a name"
        return name


def _by_name(holder: tuple[Holder, PrefixHash | None]) -> Holder:
    return holder[0]
