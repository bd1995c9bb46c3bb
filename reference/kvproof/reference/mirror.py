"""What a consumer of the event stream knows: the fold of the events, with everything it may insist on (EVENT-*)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kvproof.reference.event_log import covers
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
        self._position: dict[Key, int] = {}
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
                    self._position.clear()

    def clone(self) -> EventMirror:
        """An independent copy."""
        twin = EventMirror(self._config, self._hasher)
        twin.resident = self.resident.copy()
        twin._position = dict(self._position)
        return twin

    def _fold_removed(self, event: Removed) -> None:
        key = make_key(event.group, event.digest)
        if not self.resident[key]:
            raise EventFault("EVENT-REMOVED-1", f"Removed for a key that is not resident: {event}")
        self.resident[key] -= 1
        if not self.resident[key]:
            del self.resident[key], self._position[key]

    def _fold_stored(self, event: Stored) -> None:
        positions = [prefix.position for prefix in event.hashes]
        if not positions or positions != sorted(set(positions)):
            raise EventFault("EVENT-STORED-1", f"a Stored event without hashes, or not in ascending order: {event}")
        if event.parent is not None and not self._knows(event.parent):
            raise EventFault("EVENT-PARENT-1", f"the parent was never announced, or is gone: {event}")
        start = event.parent.position if event.parent else 0
        if not all(covers(extra, start, positions[-1]) for extra in event.extra_keys):
            raise EventFault("EVENT-STORED-2", f"an extra key covers none of the tokens: {event}")
        chain = self._recompute(event)
        if [prefix for prefix in chain if prefix.position in positions] != list(event.hashes):
            raise EventFault("EVENT-STORED-2", f"parent and tokens do not give the hashes: {event}")
        if any(self._knows(prefix) for prefix in chain if prefix.position < positions[0]):
            raise EventFault("EVENT-PARENT-1", f"a longer prefix than the parent is resident: {event}")
        for prefix in event.hashes:
            key = make_key(event.group, prefix.digest)
            if self._config.residency is Residency.LOGICAL and self.resident[key]:
                raise EventFault("EVENT-STORED-3", f"Stored for a key that is resident already: {event}")
            self.resident[key] += 1
            self._position[key] = prefix.position

    def _knows(self, prefix: PrefixHash) -> bool:
        keys = [make_key(group, prefix.digest) for group in range(len(self._config.groups))]
        return any(self._position.get(key) == prefix.position for key in keys)

    def _recompute(self, event: Stored) -> list[PrefixHash]:
        """All hashes behind the parent, computed from the event alone; none if its tokens end where no hash is."""
        h = self._hasher.hash_block_size
        start = event.parent.position if event.parent else 0
        digest = event.parent.digest if event.parent else self._hasher.seed_digest
        found = []
        for offset in range(0, len(event.tokens) - h + 1, h):
            digest = self._hasher.extend(digest, event.tokens[offset : offset + h], start + offset, event.extra_keys)
            found.append(PrefixHash(digest, start + offset + h))
        return found if start + len(event.tokens) == event.hashes[-1].position else []
