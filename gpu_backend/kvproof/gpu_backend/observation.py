"""The pool's state as a value, read from its arena (OBSERVE-1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, cast

import torch

from kvproof.gpu_backend.arena import FIELDS, HEADER, NONE, Views, column_of
from kvproof.gpu_backend.hashing import make_key
from kvproof.spec.events import Event, PrefixHash
from kvproof.spec.vocabulary import NULL_BLOCK, Holder, Key

if TYPE_CHECKING:
    from typing_extensions import Buffer

HOLE = NULL_BLOCK
"""What stands in the ring where a block has left it."""

ABSENT = tuple([NONE if field == "readers" else 0 for field in FIELDS["blocks"]])
"""What stands for the columns of a block that the pool's modes do not need: no writer, no readers, no age."""


def numbers_of(region: str, *fields: str, digest_words: int = 0) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """Takes these fields out of a row of a region."""
    columns = [column_of(region, field, digest_words) for field in fields]
    return itemgetter(*columns)


GROUP = column_of("blocks", "group")

BLOCK = numbers_of("blocks", "references", "first_entry", "group", "slot", "writer", "readers", "born")
PENDING = numbers_of("pendings", "position", "step", "owner")
DEPENDENCY = numbers_of("dependencies", "reader", "writer", "step")
ADMISSION = numbers_of("admissions", "step", "request")
COPY = numbers_of("copies", "step", "source", "target", "holder")


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


def plain_numbers(region: torch.Tensor) -> memoryview:
    """The numbers of a region, one after the other, without a copy."""
    return memoryview(cast("Buffer", region.numpy().reshape(-1)))


class Rows:
    """A region of an arena: rows of numbers. Reads plain numbers, which is cheaper than tensors."""

    __slots__ = ("_width", "_words")

    def __init__(self, region: torch.Tensor) -> None:
        self._words = plain_numbers(region)
        self._width = region.shape[1]

    def __getitem__(self, row: int) -> list[int]:
        """The numbers of one row."""
        at = row * self._width
        return self._words[at : at + self._width].tolist()

    def first(self, rows: int) -> list[list[int]]:
        """The rows from the beginning on."""
        width, numbers = self._width, self._words[: rows * self._width].tolist()
        return [numbers[at : at + width] for at in range(0, len(numbers), width)]

    def digest(self, row: int, column: int, words: int) -> bytes:
        """The digest that begins at a column."""
        at = row * self._width + column
        return self._words[at : at + words].tobytes()


class Observer:
    """Reads the state of a pool from its arena; once made it can look again and again, until the arena moves."""

    def __init__(self, views: Views) -> None:
        self._numbers = plain_numbers(views.header)
        self._words = self._header("digest_words")
        entries = partial(numbers_of, "entries", digest_words=self._words)
        self._of_block, self._of_key = entries("next_of_block", "position"), entries("block", "next_of_key")
        self._next_in_bucket = column_of("entries", "next_in_bucket", self._words)
        self._entry_digest = column_of("entries", "digest", self._words)
        self._reader = numbers_of("readers", "holder", "next", "position", "attached", digest_words=self._words)
        self._reader_digest = column_of("readers", "digest", self._words)
        self._ring, self._buckets = plain_numbers(views.ring), plain_numbers(views.buckets)
        self._blocks, self._entries = Rows(views.blocks), Rows(views.entries)
        self._readers, self._pendings = Rows(views.readers), Rows(views.pendings)
        self._absent = ABSENT[views.blocks.shape[1] :]
        self._dependencies, self._admissions, self._copies = map(
            Rows, (views.dependencies, views.admissions, views.copies)
        )
        self._committed = 0
        self._names: Sequence[Holder | None] = ()

    def state(self, names: Sequence[Holder | None], events: Sequence[Event]) -> PoolState:
        """All of it; `names` are those of the holders by number, `events` are pending."""
        self._committed, self._names = self._header("committed"), names
        rows = self._blocks.first(self._header("num_blocks"))
        blocks = tuple([self._block([*row, *self._absent]) for row in rows])
        return PoolState(blocks, self._free_queue(), self._index(rows), tuple(events), self._steps())

    def _header(self, name: str) -> int:
        number: int = self._numbers[HEADER[name]]
        return number

    def _free_queue(self) -> tuple[int, ...]:
        ring, head, span = self._ring, self._header("ring_head"), self._header("ring_span")
        places = [*ring[head : head + span], *ring[: max(0, head + span - len(ring))]]
        return tuple([block for block in places if block != HOLE])

    def _block(self, row: list[int]) -> BlockState:
        references, first_entry, group, slot, kept_writer, first_reader, born = BLOCK(row)
        writer = self._name(kept_writer)
        holders, attached = self._holders(first_reader, writer)
        return BlockState(
            ref_cnt=references,
            holders=holders,
            writer=writer,
            group=None if group == NONE else group,
            slot=None if slot == NONE else slot,
            entries=self._entries_of(first_entry, group) if first_entry != NONE else (),
            attached=attached,
            age=max(0, born - self._committed),
        )

    def _holders(
        self, reader: int, writer: Holder | None
    ) -> tuple[tuple[tuple[Holder, PrefixHash | None], ...], tuple[tuple[Holder, int], ...]]:
        """Who holds the block and what each was served; who attached what is not committed."""
        holders: list[tuple[Holder, PrefixHash | None]] = [] if writer is None else [(writer, None)]
        if reader == NONE:
            return tuple(holders), ()
        attached: list[tuple[Holder, int]] = []
        while reader != NONE:
            holder, following, position, step = self._reader(self._readers[reader])
            name = self._named(holder)
            digest = self._readers.digest(reader, self._reader_digest, self._words)
            holders.append((name, PrefixHash(digest, position) if position else None))
            if step > self._committed:
                attached.append((name, step - self._committed))
            reader = following
        return tuple(sorted(holders, key=_by_name)), tuple(sorted(attached))

    def _entries_of(self, entry: int, group: int) -> tuple[EntryState, ...]:
        """The entries of a block from its first one on."""
        found = []
        while entry != NONE:
            following, position = self._of_block(self._entries[entry])
            key = make_key(group, self._entries.digest(entry, self._entry_digest, self._words))
            found.append(EntryState(key, position) if position >= 0 else self._reserved(key, ~position))
            entry = following
        return tuple(found)

    def _reserved(self, key: Key, row: int) -> EntryState:
        """An entry that waits for its step."""
        position, step, owner = PENDING(self._pendings[row])
        return EntryState(key, position, step - self._committed, self._name(owner))

    def _index(self, blocks: Sequence[Sequence[int]]) -> dict[Key, tuple[int, ...]]:
        """Every key with its blocks, in the order in which they registered it."""
        index = {}
        for first in self._buckets:
            while first != NONE:
                row = self._entries[first]
                block, entry = self._of_key(row)
                found = [block]
                while entry != NONE:
                    other, entry = self._of_key(self._entries[entry])
                    found.append(other)
                group = blocks[block][GROUP]
                index[make_key(group, self._entries.digest(first, self._entry_digest, self._words))] = tuple(found)
                first = row[self._next_in_bucket]
        return index

    def _steps(self) -> StepState:
        committed = self._committed
        open_steps = self._header("current") - committed
        if not open_steps:
            return NO_STEPS
        admitted: dict[int, list[Holder]] = {}
        for step, request in map(ADMISSION, self._admissions.first(self._header("num_admissions"))):
            admitted.setdefault(step - committed, []).append(self._named(request))
        dependencies = map(DEPENDENCY, self._dependencies.first(self._header("num_dependencies")))
        copies = map(COPY, self._copies.first(self._header("num_copies")))
        return StepState(
            open_steps,
            tuple(sorted([(self._named(r), self._named(w), s - committed) for r, w, s in dependencies])),
            tuple([(step - committed, src, dst, self._named(h)) for step, src, dst, h in copies]),
            tuple([(step, tuple(names)) for step, names in admitted.items()]),
        )

    def _name(self, holder: int) -> Holder | None:
        return self._names[holder // 2] if holder else None

    def _named(self, holder: int) -> Holder:
        name = self._name(holder)
        assert name is not None, "whoever holds or is in flight has a name"
        return name


def _by_name(holder: tuple[Holder, PrefixHash | None]) -> Holder:
    return holder[0]
