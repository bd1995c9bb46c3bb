"""The language of operations: plain values that every driver speaks and that can be written as JSON.

Names and fields are those of the pool's operations. A field holds only what JSON can hold, so a key is named by whose
prefix it is (`KeyRef`) and not by its digest. Nothing is checked here: an illegal operation is a sentence of the
language too, and it is the pool that has to refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal, cast, get_args, get_origin, get_type_hints

import msgspec


class KeyRef(msgspec.Struct, frozen=True):
    """The key (group, H(position)) of a request."""

    request: str
    group: int
    position: int


class Extra(msgspec.Struct, frozen=True, omit_defaults=True):
    """An extra key of a request; `value` is text, hashed as UTF-8."""

    source: Literal["adapter", "salt", "media", "embedding"]
    value: str
    start: int = 0
    end: int | None = None


def _tag(class_name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in class_name).lstrip("_")


class _Operation(msgspec.Struct, frozen=True, tag_field="op", tag=_tag, omit_defaults=True):
    """What all operations share: the field "op" holds the name of the pool's operation."""


class AddRequest(_Operation, frozen=True):
    """A request arrives."""

    request: str
    tokens: tuple[int, ...]
    extra_keys: tuple[Extra, ...] = ()


class Append(_Operation, frozen=True):
    """A request gets more tokens."""

    request: str
    tokens: tuple[int, ...]


class Truncate(_Operation, frozen=True):
    """A request keeps its first `num_tokens` tokens."""

    request: str
    num_tokens: int


class Allocate(_Operation, frozen=True):
    """Take n free blocks.

    `took` says in a recorded trace which ones they were, so that the trace means the same where others are taken: later
    operations name them so. No backend is shown it.
    """

    holder: str | None
    n: int
    took: tuple[int, ...] | None = None


class Touch(_Operation, frozen=True):
    """Add a reference to a block found under a key."""

    holder: str | None
    block: int
    key: KeyRef


class Free(_Operation, frozen=True):
    """Drop one reference for each block named."""

    holder: str | None
    blocks: tuple[int, ...]


class Lookup(_Operation, frozen=True):
    """Which blocks have these keys."""

    keys: tuple[KeyRef, ...]


class Find(_Operation, frozen=True):
    """Which blocks have these keys, or will have them once what is reserved is committed."""

    keys: tuple[KeyRef, ...]


class Contains(_Operation, frozen=True):
    """Whether a block has a key."""

    key: KeyRef
    block: int


class FullKey(_Operation, frozen=True):
    """The key at the end of the block's slot."""

    block: int


class Hashes(_Operation, frozen=True):
    """The hashes of a request's prefixes of h, 2h, ... tokens."""

    request: str


class CacheFullBlocks(_Operation, frozen=True):
    """Register the full keys of the slots first .. last-1 of a block table."""

    request: str
    blocks: tuple[int, ...]
    first: int
    last: int
    group: int
    mask: tuple[bool, ...] | None = None
    replace: bool = False


class CachePartialBlock(_Operation, frozen=True):
    """Register one key, inside or at the end of the block's slot."""

    request: str
    block: int
    position: int
    group: int
    replace: bool = False


class Evict(_Operation, frozen=True):
    """Drop all keys of the blocks."""

    blocks: tuple[int, ...]


class Move(_Operation, frozen=True):
    """Hand content and keys of one block to another."""

    src: int
    dst: int


class Reset(_Operation, frozen=True):
    """Forget every key."""


class TakeEvents(_Operation, frozen=True):
    """Take the events since the last time."""


class Write(_Operation, frozen=True):
    """The request's forward pass leaves its first `position` tokens in the block.

    `rows` is what it computed, a number for each row of the slot up to there, or one for a state. A trace goes without:
    the suite says it to backends that claim level D.
    """

    request: str
    block: int
    position: int
    group: int
    rows: tuple[int, ...] | None = None


class Copy(_Operation, frozen=True):
    """Copy content to a block that the holder writes."""

    holder: str | None
    src: int
    dst: int


class Read(_Operation, frozen=True):
    """What the block holds."""

    holder: str | None
    block: int


class BeginStep(_Operation, frozen=True):
    """Open the next step."""


class Commit(_Operation, frozen=True):
    """The work of a step is done; steps have the numbers that the pool gave them."""

    step: int


class Attach(_Operation, frozen=True):
    """Add a reference to a block that has a key reserved."""

    holder: str
    block: int
    key: KeyRef


class Rollback(_Operation, frozen=True):
    """Take back what these requests have not committed."""

    requests: tuple[str, ...]


class Finish(_Operation, frozen=True):
    """Roll a request back, then drop its reference to each block named."""

    request: str
    blocks: tuple[int, ...]


class Match(_Operation, frozen=True):
    """Where a request would begin over all groups, and its junction."""

    request: str


class Split(_Operation, frozen=True):
    """Where a request's chunk ends that begins at `start`, with so many `tokens` now and at most `cap` ever."""

    request: str
    start: int
    tokens: int
    cap: int
    junction: int


class Admit(_Operation, frozen=True):
    """Begin a request at its joint hit, and schedule its first chunk up to `end`.

    `rows` is what the chunk's forward pass computes, group by group: for attention a number for each of the
    chunk's tokens, for a recurrent group one for the state at its end. A trace goes without, as for `Write`.
    """

    request: str
    end: int
    rows: tuple[tuple[int, ...], ...] | None = None


class Advance(_Operation, frozen=True):
    """Schedule the next chunk of a request that runs, up to `end`; `rows` are those of `Admit`."""

    request: str
    end: int
    rows: tuple[tuple[int, ...], ...] | None = None


class Release(_Operation, frozen=True):
    """A request that runs is finished, aborted or preempted: it drops all that it holds."""

    request: str


class Fail(_Operation, frozen=True):
    """The forward pass of a step failed: take the step back, and close it."""

    step: int


Operation = (
    AddRequest
    | Append
    | Truncate
    | Allocate
    | Touch
    | Free
    | Lookup
    | Find
    | Contains
    | FullKey
    | Hashes
    | CacheFullBlocks
    | CachePartialBlock
    | Evict
    | Move
    | Reset
    | TakeEvents
    | Write
    | Copy
    | Read
    | BeginStep
    | Commit
    | Attach
    | Rollback
    | Finish
    | Match
    | Split
    | Admit
    | Advance
    | Release
    | Fail
)


SAID_BY_THE_SUITE = ("took", "rows")
"""Fields that are no arguments: what was taken when a trace was recorded, and what a forward pass computed."""


class UnknownOperation(ValueError):
    """A value that is no operation of the language; the text says why."""


def operation_of(fields: Mapping[str, object]) -> Operation:
    """The operation that a JSON object stands for. A field may hold junk, as it may in an illegal operation.

    Raises `UnknownOperation` if the object names no operation, or has other fields than this one.
    """
    name = fields.get("op")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise UnknownOperation(f"there is no operation {name!r}; there are {', '.join(_KINDS)}")
    given = {field: value for field, value in fields.items() if field != "op"}
    if wrong := _wrong_fields(kind, given):
        raise UnknownOperation(f"{name} has the fields {', '.join(kind.__struct_fields__)}; wrong or missing: {wrong}")
    return cast("Operation", _made(kind, given))


def _wrong_fields(kind: type[msgspec.Struct], given: Mapping[str, object]) -> list[str]:
    """The fields that are given and do not exist, and those that are missing."""
    return [*(given.keys() - set(kind.__struct_fields__)), *(_required(kind) - given.keys())]


def _made(kind: type[msgspec.Struct], given: Mapping[str, object]) -> object:
    hints = _hints(kind)
    return kind(**{field: _value(value, hints[field]) for field, value in given.items()})


def _value(value: object, wanted: object) -> object:
    """The value in the wanted type; what is not of it stays as it is, but the rest of a list or of a key is converted.

    So an illegal operation means the same whether it was read or made: a key with junk in one field is still a key.
    """
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        pass
    if get_origin(wanted) is tuple and isinstance(value, list):
        return tuple(_value(item, get_args(wanted)[0]) for item in value)
    if wanted is KeyRef or wanted is Extra:
        kind = cast("type[msgspec.Struct]", wanted)
        if isinstance(value, dict) and not _wrong_fields(kind, value):
            return _made(kind, value)
    return value


@cache
def _required(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(kind) if field.required)


@cache
def _hints(kind: type[msgspec.Struct]) -> dict[str, object]:
    return get_type_hints(kind)


def name_of(operation: Operation) -> str:
    """The operation's name, as in its field "op"."""
    return str(operation.__struct_config__.tag)


def names_of_operations() -> list[str]:
    """The names of all operations."""
    return list(_KINDS)


_KINDS: dict[str, type[_Operation]] = {_tag(kind.__name__): kind for kind in get_args(Operation)}


def describe(operation: Operation) -> str:
    """The operation in one line, as traces show it. Never fails, whatever junk an illegal operation holds."""
    return f"{name_of(operation)}({', '.join(_arguments(operation))})"


def _arguments(operation: Operation) -> list[str]:
    shown = []
    for field in sorted(operation.__struct_fields__, key="holder".__eq__):  # who acts is said last
        value = getattr(operation, field)
        if field == "n":
            shown.append(_text(value))
        elif field == "replace" and isinstance(value, bool):
            shown += ["replace"] * value
        elif not ((field in {"mask", *SAID_BY_THE_SUITE} and value is None) or (field == "extra_keys" and value == ())):
            shown.append(f"{field} {_text(value)}")
    return shown


def _text(value: object) -> str:
    match value:
        case KeyRef(request=request, group=group, position=position):
            return f"{request}[0:{position}]@g{group}"
        case Extra(source=source, value=text, start=start, end=end):
            return f"{source} {_text(text)}[{_text(start)}:{'' if end is None else _text(end)}]"
        case tuple() | list():
            return "[" + " ".join(_text(item) for item in value) + "]"
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case _:
            return repr(value)
