"""What a consumer of the event stream knows: the fold of the events, with everything it may insist on (EVENT-*)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kvproof.reference.hashing import PrefixHasher, make_key
from kvproof.spec.events import Cleared, Event, PrefixHash, Removed, Stored
from kvproof.spec.vocabulary import Key, PoolConfig, Residency


class EventFault(Exception):
    """An event contradicts the stream before it, or itself; `clause` names what it breaks."""

    def __init__(self, clause: str, text: str) -> None:
        super().__init__(f"{clause}: {text}")
        self.clause = clause


class EventMirror:
    """A consumer that knows the hash contract and believes nothing it cannot check."""

    def __init__(self, config: PoolConfig, hasher: PrefixHasher) -> None:
        self.resident: Counter[Key] = Counter()
        self._config = config
        self._hasher = hasher

    def fold(self, events: Iterable[Event]) -> None:
        """Apply events in order; raises `EventFault` at the first one that cannot be right."""
        for event in events:
            match event:
                case Stored():
                    self._fold_stored(event)
                case Removed():
                    self._fold_removed(event)
                case Cleared():
                    self.resident.clear()

    def clone(self) -> EventMirror:
        """An independent copy."""
        twin = EventMirror(self._config, self._hasher)
        twin.resident = self.resident.copy()
        return twin

    def _fold_removed(self, event: Removed) -> None:
        key = make_key(event.group, event.digest)
        if not self.resident[key]:
            raise EventFault("EVENT-REMOVED-1", f"Removed for a key that is not resident: {event}")
        self.resident[key] -= 1
        if not self.resident[key]:
            del self.resident[key]

    def _fold_stored(self, event: Stored) -> None:
        if not event.hashes:
            raise EventFault("EVENT-STORED-1", f"a Stored event without a hash: {event}")
        if event.parent is not None and not self._knows(event.parent):
            raise EventFault("EVENT-PARENT-1", f"the parent was never announced, or is gone: {event}")
        if self._recompute(event) != list(event.hashes):
            raise EventFault("EVENT-STORED-2", f"parent and tokens do not give the hashes: {event}")
        for prefix in event.hashes:
            key = make_key(event.group, prefix.digest)
            if self._config.residency is Residency.LOGICAL and self.resident[key]:
                raise EventFault("EVENT-STORED-3", f"Stored for a key that is resident already: {event}")
            self.resident[key] += 1

    def _knows(self, prefix: PrefixHash) -> bool:
        return any(make_key(group, prefix.digest) in self.resident for group in range(len(self._config.groups)))

    def _recompute(self, event: Stored) -> list[PrefixHash]:
        """The hashes at the event's positions, computed from its parent, tokens and extra keys alone."""
        h = self._hasher.hash_block_size
        start = event.parent.position if event.parent else 0
        digest = event.parent.digest if event.parent else self._hasher.seed_digest
        wanted = {prefix.position for prefix in event.hashes}
        found = []
        for offset in range(0, len(event.tokens) - h + 1, h):
            digest = self._hasher.extend(digest, event.tokens[offset : offset + h], start + offset, event.extra_keys)
            if start + offset + h in wanted:
                found.append(PrefixHash(digest, start + offset + h))
        return found if start + len(event.tokens) == event.hashes[-1].position else []
