"""The event log: the net change of the resident set over one operation (clauses EVENT-*)."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.reference.hashing import make_key, split_key
from kvproof.reference.index import CachedBlockIndex
from kvproof.reference.positions import overlap
from kvproof.reference.request import Request
from kvproof.spec.events import Cleared, Event, PrefixHash, Removed, Stored
from kvproof.spec.vocabulary import ExtraKey, Key, PoolConfig, Residency

Resident = Key | tuple[Key, int]
"""What is resident: a key, or with one event per copy an entry (key, block)."""


@dataclass(slots=True)
class Registration:
    """One entry that the current operation added."""

    key: Key
    block_id: int
    request: Request
    group: int
    position: int


class EventLog:
    """Collects what the current operation drops and registers, and turns the net change into events when it ends."""

    def __init__(self, config: PoolConfig, index: CachedBlockIndex) -> None:
        self._config = config
        self._index = index
        self._pending: list[Event] = []
        self._was_resident: dict[Resident, bool] = {}
        self._dropped: dict[Resident, None] = {}
        self._registered: list[Registration] = []

    @property
    def pending(self) -> tuple[Event, ...]:
        """The events since the last drain."""
        return tuple(self._pending)

    def drain(self) -> list[Event]:
        """Hand over the events since the last drain, once (EVENT-DRAIN-1)."""
        drained, self._pending = self._pending, []
        return drained

    def note_drop(self, key: Key, block_id: int) -> None:
        """The operation is about to drop an entry."""
        resident = self._resident(key, block_id)
        self._was_resident.setdefault(resident, True)
        self._dropped.pop(resident, None)
        self._dropped[resident] = None

    def note_registration(self, registration: Registration) -> None:
        """The operation is about to add an entry."""
        resident = self._resident(registration.key, registration.block_id)
        self._was_resident.setdefault(resident, self._is_resident(resident))
        self._registered.append(registration)

    def note_clear(self) -> None:
        """The operation emptied the index."""
        self._pending.append(Cleared())

    def discard(self) -> None:
        """The operation failed: what it noted did not happen."""
        self._was_resident.clear()
        self._dropped.clear()
        self._registered.clear()

    def end_operation(self) -> None:
        """Emit the net change: what left, in the order it was dropped, then what came, in runs."""
        if not self._was_resident:
            return
        for resident in self._dropped:
            if not self._is_resident(resident):
                group, digest = split_key(resident if isinstance(resident, bytes) else resident[0])
                self._pending.append(Removed(group, digest))
        for run in self._runs():
            self._pending.append(self._stored(run))
        self.discard()

    def clone(self, index: CachedBlockIndex) -> EventLog:
        """An independent copy between operations, over a copy of the index."""
        twin = EventLog(self._config, index)
        twin._pending = list(self._pending)
        return twin

    def _resident(self, key: Key, block_id: int) -> Resident:
        return key if self._config.residency is Residency.LOGICAL else (key, block_id)

    def _is_resident(self, resident: Resident) -> bool:
        return self._index.is_cached(resident) if isinstance(resident, bytes) else self._index.contains(*resident)

    def _runs(self) -> list[list[Registration]]:
        """The registrations that made something resident, split where a slot is missing between two of them."""
        runs: list[list[Registration]] = []
        for new in self._registered:
            if self._was_resident[self._resident(new.key, new.block_id)]:
                continue
            if runs and new.position == runs[-1][-1].position + self._config.groups[new.group].block_size:
                runs[-1].append(new)
            else:
                runs.append([new])
        return runs

    def _stored(self, run: list[Registration]) -> Stored:
        request = run[0].request
        parent = self._nearest_resident_ancestor(request, run[0].position)
        start, end = (parent.position if parent else 0), run[-1].position
        return Stored(
            group=run[0].group,
            hashes=tuple(PrefixHash(split_key(new.key)[1], new.position) for new in run),
            parent=parent,
            tokens=tuple(request.tokens[start:end]),
            extra_keys=tuple(extra for extra in request.extra_keys if covers(extra, start, end)),
        )

    def _nearest_resident_ancestor(self, request: Request, position: int) -> PrefixHash | None:
        """The longest shorter prefix of the request that is resident in any group (EVENT-PARENT-1).

        Slots are registered in ascending order, so an ancestor that this operation stored was stored earlier.
        """
        h = self._config.hash_block_size
        for ancestor in range(position - h, 0, -h):
            digest = request.hash_at(ancestor)
            assert digest is not None, "a registered position has a hash, so every shorter one has"
            if any(self._index.is_cached(make_key(group, digest)) for group in range(len(self._config.groups))):
                return PrefixHash(digest, ancestor)
        return None


def covers(extra: ExtraKey, start: int, end: int) -> bool:
    """Whether an extra key covers one of the tokens start .. end-1."""
    first, last = overlap(extra.start, extra.end, start, end)
    return first < last
