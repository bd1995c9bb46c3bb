"""Tapes: what was called on a pool and its requests, said in the language of operations.

Not all that Python can pass can be said: what JSON does not hold, keys of no request, requests that share a name. A
refused call that cannot be said is left out, since it changed nothing; any other ends the tape's use (`trouble`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from kvproof.conformance.backends.views import view, view_of_result
from kvproof.conformance.backends.wire import PARTS, Observation
from kvproof.conformance.fingerprints import Fingerprints
from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Advance,
    Append,
    Hashes,
    KeyRef,
    Operation,
    Read,
    names_of_operations,
    operation_of,
)
from kvproof.reference import BlockPool, Ghost, PrefixHasher, Request
from kvproof.reference.hashing import split_key
from kvproof.reference.hybrid import HybridCache
from kvproof.reference.request import Prefix
from kvproof.spec.vocabulary import ExtraKey, PoolConfig

MOST_OPERATIONS = 60
"""A tape ends here; only random runs are longer."""

MOST_TOKENS = 1024
"""More in one operation make a vector too large to ship."""

QUESTIONS = ("lookup", "find", "contains", "full_key", "read", "match", "split")
"""They change nothing, so one that cannot be said can be left out."""

_FIELDS = {
    "block_id": "block",
    "block_ids": "blocks",
    "src_id": "src",
    "dst_id": "dst",
    "request_id": "request",
}
"""What the language calls an argument of a pool's method, where the names differ."""

_WHOLE_NUMBERS = range(-(2**63), 2**63)
"""What every reader of JSON can be asked to take for an integer."""


class Unsayable(Exception):
    """A call that the language has no words for; the text says why."""


@dataclass(frozen=True, slots=True)
class Said:
    """A call in the language, and what became of it when it was recorded."""

    operation: Operation
    result: object = None
    error: str | None = None
    seen: Observation | None = None


@dataclass(slots=True)
class Tape:
    """Everything said to one pool; without a pool, to requests alone that are hashed by `hasher`.

    `cache` is what runs requests over the pool. With `asks_hashes` every change of a request is followed by the
    question for its hashes. `whole` is all that there is to see of the pool, also what the wire does not show, when it
    was looked at last. `left_out` counts the calls that could not be said and changed nothing; `trouble` is why the
    tape cannot be used.
    """

    config: PoolConfig
    hasher: PrefixHasher
    pool: BlockPool | None
    asks_hashes: bool
    said: list[Said] = field(default_factory=list)
    requests: dict[str, Request] = field(default_factory=dict)
    refs: dict[bytes, KeyRef] = field(default_factory=dict)
    cache: HybridCache | None = None
    whole: object = None
    left_out: int = 0
    trouble: str = ""

    def twin(self, pool: BlockPool) -> Tape:
        """A tape for a clone of the pool: what has been said so far was said to it, too."""
        return replace(
            self, pool=pool, cache=None, said=list(self.said), requests=dict(self.requests), refs=dict(self.refs)
        )

    def sentence(self, method: str, arguments: Mapping[str, object]) -> Operation:
        """The operation that a call of a pool's method is, arguments by name; raises `Unsayable`."""
        if method not in names_of_operations():
            raise Unsayable(f"{method}, which is no operation of the language")
        fields = {_FIELDS.get(name, name): self._argument(name, value) for name, value in arguments.items()}
        return _operation({"op": method, **fields})

    def note(self, operation: Operation, result: object = None, error: str | None = None) -> None:
        """Add what was said and what became of it."""
        tokens = operation.tokens if isinstance(operation, AddRequest | Append) else ()
        if isinstance(tokens, tuple) and len(tokens) > MOST_TOKENS:
            self.trouble = f"more than {MOST_TOKENS} tokens in one operation"
        if isinstance(operation, Read):
            result = self._rows(operation, result)
        if error is None and isinstance(operation, Admit | Advance) and self.cache is not None:
            tables = self.cache.tables(operation.request)
            result = (result, tables) if isinstance(operation, Admit) else tables
        self.said.append(Said(operation, view_of_result(operation, result), error, self.look()))

    def _rows(self, read: Read, prefix: object) -> tuple[int, ...]:
        """The numbers of what was read."""
        content = self.pool.ghost.content(read.block) if self.pool is not None and self.pool.ghost is not None else None
        if content is None or not isinstance(prefix, Prefix):
            return ()
        return Fingerprints(self.config).rows(prefix, content.group)

    def note_unsaid(self, method: str, reason: str, refused: bool) -> None:
        """A call could not be said."""
        if refused or method in QUESTIONS:
            self.left_out += 1
        else:
            self.trouble = self.trouble or reason

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to note."""
        return bool(self.trouble) or len(self.said) >= MOST_OPERATIONS

    def look(self) -> Observation | None:
        """The pool's state as it is now."""
        if self.pool is None:
            return None
        try:
            state = (self.cache or self.pool).observe()
        except Exception:
            self.trouble = self.trouble or "the pool cannot be observed"
            return None
        ghost = self.pool.ghost or Ghost()
        self.whole = (state, self.pool.num_free, ghost.contents, dict(ghost.served))
        return view(state, PARTS)

    def name_of(self, request: Request) -> str | None:
        """What a request is called on this tape, None if it is not on it."""
        return next((name for name, known in self.requests.items() if known is request), None)

    def arrive(self, request: Request) -> str:
        """A request arrives as it is now, under its own name; without a pool any name will do. Raises `Unsayable`."""
        name = request.request_id
        while name in self.requests:
            if self.pool is not None:
                raise Unsayable("two requests of one name")
            name += "'"
        operation = request_operation(name, request.tokens, request.extra_keys)
        self.requests[name] = request
        self.note(operation)
        self.ask_hashes(name)
        return name

    def ask_hashes(self, name: str) -> None:
        """Where hashes are what it is about, ask for them."""
        if self.asks_hashes:
            self.note(Hashes(name), list(self.requests[name].hashes))

    def remember(self, request: Request, key: bytes, group: int, position: int) -> None:
        """Somebody made this key from the request, and may use it."""
        if (name := self.name_of(request)) is not None:
            self.refs[key] = KeyRef(name, group, position)

    def _argument(self, name: str, value: object) -> object:
        match name, value:
            case "key", bytes():
                return self._ref(value)
            case "keys", list() | tuple():
                return [self._ref(item) if isinstance(item, bytes) else sayable(item) for item in value]
            case "request", Request():
                return self._request(value)
            case "request", str():
                raise Unsayable("a name in place of a request")
        return sayable(value)

    def _request(self, request: Request) -> str:
        if request.hasher != self.hasher:
            raise Unsayable("a request of another hash contract")
        return self.name_of(request) or self.arrive(request)

    def _ref(self, key: bytes) -> dict[str, object]:
        """A KeyRef that names the key now: as somebody made it, else of the newest request that has it."""
        made = self.refs.get(key)
        if made is not None and self.requests[made.request].key_at(made.group, made.position) == key:
            return msgspec.structs.asdict(made)
        group, digest = split_key(key)
        for name, request in reversed(self.requests.items()):
            if digest in request.hashes:
                position = (request.hashes.index(digest) + 1) * self.config.hash_block_size
                return {"request": name, "group": group, "position": position}
        raise Unsayable("a key of no request")


def request_operation(name: object, tokens: Sequence[int], extra_keys: Sequence[ExtraKey]) -> Operation:
    """A request's arrival; raises `Unsayable`."""
    if not isinstance(extra_keys, list | tuple):
        raise Unsayable("extra keys that are no list")
    extras = [_extra(extra) for extra in extra_keys]
    fields = {"op": "add_request", "request": sayable(name), "tokens": sayable(tokens), "extra_keys": extras}
    operation = _operation(fields)
    assert isinstance(operation, AddRequest), "that is what it was asked for"
    return operation


def request_change(method: str, name: str, argument: str, value: object) -> Operation:
    """Tokens of a request come or go; raises `Unsayable`."""
    return _operation({"op": method, "request": name, argument: sayable(value)})


def sayable(value: object) -> object:
    """A value that JSON holds, and that comes back as it was in whatever language; raises `Unsayable` otherwise."""
    if isinstance(value, list | tuple):
        return _sayable_list(value)
    if value is None or type(value) is bool or (type(value) is int and value in _WHOLE_NUMBERS):
        return value
    if type(value) is str and value.isprintable():
        return value
    raise Unsayable(f"a {type(value).__name__} that JSON does not hold")


def _sayable_list(value: Sequence[object]) -> list[object]:
    try:
        return [sayable(item) for item in value]
    except RecursionError:
        raise Unsayable("a list too deep for JSON") from None


def _extra(extra: object) -> dict[str, object]:
    if not isinstance(extra, ExtraKey):
        raise Unsayable("an extra key that is none")
    try:
        value = extra.value.decode()
        source = extra.source.name.lower()
    except (AttributeError, UnicodeDecodeError):
        raise Unsayable("an extra key whose value is no text") from None
    bounds = {"start": sayable(extra.start), "end": sayable(extra.end)}
    return {"source": source, "value": value, **bounds}


def _operation(fields: Mapping[str, object]) -> Operation:
    """The operation, if it comes back from JSON as it was."""
    operation = operation_of(fields)
    read = operation_of(msgspec.json.decode(msgspec.json.encode(operation)))
    if repr(read) != repr(operation):
        raise Unsayable("a value that JSON takes for another")
    return operation
