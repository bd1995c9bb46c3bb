"""The event log: the net change of the resident set over one operation (clauses EVENT-*)."""

from __future__ import annotations

from kvproof.reference.hashing import make_key, split_key
from kvproof.reference.index import CachedBlockIndex, Registration
from kvproof.reference.positions import overlap
from kvproof.reference.request import Prefix
from kvproof.spec.events import Cleared, Event, PrefixHash, Removed, Stored
from kvproof.spec.vocabulary import ExtraKey, Key, PoolConfig, Residency

Resident = Key | tuple[Key, int]
"""What is resident: a key, or with one event per copy an entry (key, block)."""


class EventLog:
    """Collects what the current operation drops and publishes, and turns the net change into events when it ends."""

    def __init__(self, config: PoolConfig, index: CachedBlockIndex) -> None:
        self._config = config
        self._index = index
        self._pending: list[Event] = []
        self._was_resident: dict[Resident, bool] = {}
        self._dropped: dict[Resident, None] = {}
        self._published: list[Registration] = []
        self._unannounced: set[Key] = set()
        """Keys that the operation published and a consumer has not heard of yet."""

    @property
    def pending(self) -> tuple[Event, ...]:
        """The events since the last drain."""
        return tuple(self._pending)

    def drain(self) -> list[Event]:
        """Hand over the events since the last drain, once (EVENT-DRAIN-1)."""
        drained, self._pending = self._pending, []
        return drained

    def note_drop(self, key: Key, block_id: int) -> None:
        """The operation is about to drop a committed entry."""
        resident = self._resident(key, block_id)
        self._was_resident.setdefault(resident, True)
        self._dropped.pop(resident, None)
        self._dropped[resident] = None

    def note_publication(self, registration: Registration, block_id: int) -> None:
        """The operation is about to commit an entry; it is news unless what it makes resident was so, or is by now."""
        resident = self._resident(registration.key, block_id)
        if self._was_resident.setdefault(resident, self._is_resident(resident)) or self._is_resident(resident):
            return
        if not self._index.is_resident(registration.key):
            self._unannounced.add(registration.key)
        self._published.append(registration)

    def note_clear(self) -> None:
        """The operation emptied the index."""
        self._pending.append(Cleared())

    def discard(self) -> None:
        """Forget what the operation noted: it has been told, or the operation failed and it did not happen."""
        for structure in (self._was_resident, self._dropped, self._published, self._unannounced):
            structure.clear()

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
            self._unannounced.difference_update(new.key for new in run)
        self.discard()

    def clone(self, index: CachedBlockIndex) -> EventLog:
        """An independent copy between operations, over a copy of the index."""
        twin = EventLog(self._config, index)
        twin._pending = list(self._pending)
        return twin

    def _resident(self, key: Key, block_id: int) -> Resident:
        return key if self._config.residency is Residency.LOGICAL else (key, block_id)

    def _is_resident(self, resident: Resident) -> bool:
        return self._index.is_resident(resident) if isinstance(resident, bytes) else self._index.is_committed(*resident)

    def _is_known(self, key: Key) -> bool:
        return self._index.is_resident(key) and key not in self._unannounced

    def _runs(self) -> list[list[Registration]]:
        """The publications that made something resident, split between calls and where a slot is missing."""
        runs: list[list[Registration]] = []
        for new in self._published:
            if runs and self._follows(runs[-1][-1], new):
                runs[-1].append(new)
            else:
                runs.append([new])
        return runs

    def _follows(self, last: Registration, new: Registration) -> bool:
        next_slot = last.position + self._config.groups[new.group].block_size
        return (new.call, new.position) == (last.call, next_slot)

    def _stored(self, run: list[Registration]) -> Stored:
        prefix = run[-1].prefix
        parent = self._nearest_resident_ancestor(run[0].prefix)
        start, end = (parent.position if parent else 0), prefix.length
        return Stored(
            group=run[0].group,
            hashes=tuple(PrefixHash(split_key(new.key)[1], new.position) for new in run),
            parent=parent,
            tokens=tuple(prefix.tokens[start:end]),
            extra_keys=tuple(extra for extra in prefix.extra_keys if covers(extra, start, end)),
        )

    def _nearest_resident_ancestor(self, prefix: Prefix) -> PrefixHash | None:
        """The longest shorter prefix that is resident for a consumer by now, in any group (EVENT-PARENT-1)."""
        h = self._config.hash_block_size
        for ancestor in range(prefix.length - h, 0, -h):
            digest = prefix.hash_at(ancestor)
            if any(self._is_known(make_key(group, digest)) for group in range(len(self._config.groups))):
                return PrefixHash(digest, ancestor)
        return None


def covers(extra: ExtraKey, start: int, end: int) -> bool:
    """Whether an extra key covers one of the tokens start .. end-1."""
    first, last = overlap(extra.start, extra.end, start, end)
    return first < last
