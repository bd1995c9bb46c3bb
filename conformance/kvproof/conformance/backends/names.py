"""Backends with hashes of their own: the suite learns which name stands for which prefix, and compares in one language.

A name means nothing in itself; what counts is that equal prefixes have one name and different prefixes have two
(HASH-CHAIN-1, HASH-EXTRA-1). So after everything that gives a request hashes the backend is asked for them, and from
then on its names are replaced by the reference's digests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from kvproof.conformance.backends.interface import (
    EVERY_POOL,
    Answers,
    Backend,
    Capabilities,
    ConcurrentBackend,
    Identity,
    begin,
)
from kvproof.conformance.backends.wire import (
    Answer,
    Entry,
    Holders,
    Observation,
    PrefixName,
    RemovedEvent,
    Step,
    StoredEvent,
    WireEvent,
    as_events,
)
from kvproof.conformance.operations import AddRequest, Append, FullKey, Hashes, Operation, TakeEvents, Truncate
from kvproof.conformance.world import World
from kvproof.spec.errors import PoolError
from kvproof.spec.vocabulary import PoolConfig

HASH_CONFLICT = "HashConflict"
"""The error of a step after which the backend's names contradict what they named before; no pool raises it."""


class NamedBackend(ConcurrentBackend):
    """See `Backend`; the backend within has hashes of its own, and what comes out has the reference's.

    A name that stands for no prefix of a request so far is left as it is, so that it shows as a difference.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        _, capabilities = backend.identify()
        self._asks = "hashes" in {*EVERY_POOL, *capabilities.operations}

    def identify(self) -> tuple[Identity, Capabilities]:
        """See `Backend`."""
        return self._backend.identify()

    def start(self, config: PoolConfig) -> None:
        """See `Backend`."""
        self._names = Names()
        self._requests = World(dataclasses.replace(config, num_blocks=1))  # only its requests are used
        self._backend.start(config)

    def begin(self, operations: Sequence[Operation], observe: bool) -> Answers:
        """See `ConcurrentBackend`; whether it works while others go on is for the backend within to say."""
        asked: list[Operation] = []
        digests: list[list[str] | None] = []
        """For each operation the digests that the question after it should find, None if no question follows."""
        for operation in operations:
            digests.append(self._digests_after(operation))
            asked.append(operation)
            if digests[-1] is not None:
                asked.append(Hashes(_request_of(operation)))
        answers = begin(self._backend, asked, observe)

        def translated() -> list[Step]:
            steps = iter(answers())
            return [
                self._translated(operation, next(steps), found, next(steps) if found is not None else None)
                for operation, found in zip(operations, digests, strict=True)
            ]

        return translated

    def close(self) -> None:
        """See `Backend`."""
        self._backend.close()

    def _digests_after(self, operation: Operation) -> list[str] | None:
        """The reference's digests of the request that the operation changes, None if it changes none."""
        if not self._asks or not isinstance(operation, AddRequest | Append | Truncate):
            return None
        try:
            self._requests.apply(operation)
        except PoolError:
            return None
        return [digest.hex() for digest in self._requests.requests[operation.request].hashes]

    def _translated(self, operation: Operation, step: Step, digests: list[str] | None, reply: Step | None) -> Step:
        if digests is None or reply is None:
            return self._names.step(operation, step)
        conflict = "" if step.answer.error else self._names.learn(digests, reply.answer)
        if conflict:
            step = msgspec.structs.replace(step, answer=Answer(error=HASH_CONFLICT, message=conflict))
        if step.events is not None or reply.events is not None:  # what the question caused is not lost
            step = msgspec.structs.replace(step, events=(*(step.events or ()), *(reply.events or ())))
        return self._names.step(operation, step)


class Names:
    """A backend's names of prefixes, and the reference's digests of the same."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def learn(self, digests: Sequence[str], answer: Answer) -> str:
        """Take note of a request's names; what contradicts the reference, empty if nothing does."""
        if answer.error is not None:
            return f"the request's hashes are refused with {answer.error}: {answer.message}"
        names = answer.result
        if not isinstance(names, list | tuple) or len(names) != len(digests):
            return f"the request has {len(digests)} hashes, not {names!r}"
        for place, (digest, name) in enumerate(zip(digests, names, strict=True), 1):
            known_digest, known_name = self._digests.setdefault(name, digest), self._names.setdefault(digest, name)
            if known_digest != digest:
                return f"the request's hash {place} is {name!r}, which names another prefix already"
            if known_name != name:
                return f"the request's hash {place} is {name!r}, but the same prefix had the name {known_name!r} before"
        return ""

    def digest(self, name: str) -> str:
        """The digest of what a name stands for; the name itself if nobody gave it."""
        return self._digests.get(name, name)

    def step(self, operation: Operation, step: Step) -> Step:
        """A step in the reference's names."""
        answer, seen, events = step.answer, step.seen, step.events
        if answer.error is None and isinstance(operation, Hashes | FullKey | TakeEvents):
            answer = msgspec.structs.replace(answer, result=self._result(operation, answer.result))
        if seen is not None:
            seen = self._observation(seen)
        if events is not None:
            events = tuple(map(self._event, events))
        return Step(answer, seen, events)

    def _result(self, operation: Hashes | FullKey | TakeEvents, result: object) -> object:
        match operation, result:
            case Hashes(), list() | tuple():
                return [self.digest(name) for name in result]
            case FullKey(), [group, str(name)]:
                return [group, self.digest(name)]
            case TakeEvents(), list() | tuple():
                events = as_events(result)
                return [self._event(event) for event in events] if isinstance(events, list) else result
        return result

    def _observation(self, seen: Observation) -> Observation:
        if seen.keys is not None:
            seen = msgspec.structs.replace(seen, keys=tuple([tuple(map(self._entry, keys)) for keys in seen.keys]))
        if seen.index is not None:
            rows = sorted((row.group, self.digest(row.hash), row.blocks) for row in seen.index)
            seen = msgspec.structs.replace(seen, index=tuple([Holders(*row) for row in rows]))
        return seen

    def _entry(self, entry: Entry) -> Entry:
        return Entry(entry.group, self.digest(entry.hash), entry.position, entry.ahead, entry.owner)

    def _event(self, event: WireEvent) -> WireEvent:
        match event:
            case StoredEvent():
                parent = None if event.parent is None else self._prefix(event.parent)
                hashes = tuple(map(self._prefix, event.hashes))
                return msgspec.structs.replace(event, hashes=hashes, parent=parent)
            case RemovedEvent():
                return msgspec.structs.replace(event, hash=self.digest(event.hash))
        return event

    def _prefix(self, prefix: PrefixName) -> PrefixName:
        return PrefixName(self.digest(prefix.hash), prefix.position)


def _request_of(operation: Operation) -> str:
    return operation.request if isinstance(operation, AddRequest | Append | Truncate) else ""
