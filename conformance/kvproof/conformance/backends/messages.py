"""The protocol between the suite and a backend in a process of its own, version 1.

One message a line, each a JSON object. The suite writes a request to the adapter's standard input and waits for the one
answer on its standard output; standard error is for people. `docs/protocol.md` says the same in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from kvproof.conformance.backends.interface import Capabilities, Identity
from kvproof.conformance.backends.wire import Admitted, Hit, Matched, Step, Wire, WireEvent, without_hybrid
from kvproof.conformance.operations import Operation, UnknownOperation, operation_of
from kvproof.spec.vocabulary import PoolConfig

PROTOCOL_VERSION = 1

LONGEST_LINE = 64 * 2**20
"""Bytes that a line may have; a batch is cut so that its answer stays far below."""

SHOWN_BYTES = 200
"""An error shows no more of a line than this."""

TOO_DEEP = "is nested too deeply"

T = TypeVar("T")


class MessageError(ValueError):
    """A line that is no message of this protocol; the text says why."""


class Message(Wire, frozen=True, tag_field="message"):
    """What all messages share: the field "message" holds their name."""


class Hello(Message, frozen=True, tag="hello"):
    """The first request: which protocol is spoken, and by which version of the suite."""

    protocol: int
    suite: str


class Start(Message, frozen=True, tag="start"):
    """Make a new pool; the old one is forgotten, with its requests."""

    config: PoolConfig


class Run(Message, frozen=True, tag="run"):
    """Run operations in order, whatever becomes of each; `observe`: show state and events after each."""

    operations: tuple[Operation, ...]
    observe: bool = False


class Stop(Message, frozen=True, tag="stop"):
    """The last request, which has no answer: the adapter ends."""


class Introduction(Message, frozen=True, tag="introduction"):
    """The answer to `hello`."""

    protocol: int
    identity: Identity
    capabilities: Capabilities


class Started(Message, frozen=True, tag="started"):
    """The answer to `start`."""


class Steps(Message, frozen=True, tag="steps"):
    """The answer to `run`: one step for each operation."""

    steps: tuple[Step, ...]


class Failed(Message, frozen=True, tag="failed"):
    """The answer to any request by an adapter that cannot go on; the reason is for people."""

    reason: str


Request = Hello | Start | Run | Stop
Reply = Introduction | Started | Steps | Failed

RESULTS: Mapping[str, object] = {
    "allocate": tuple[int, ...],
    "lookup": tuple[int | None, ...],
    "find": tuple[Hit, ...],
    "contains": bool,
    "full_key": tuple[int, str] | None,
    "hashes": tuple[str, ...],
    "read": tuple[int, ...],
    "take_events": tuple[WireEvent, ...],
    "begin_step": int,
    "rollback": tuple[str, ...],
    "finish": tuple[str, ...],
    "match": Matched,
    "split": int,
    "admit": Admitted,
    "advance": tuple[tuple[int, ...], ...],
    "release": tuple[str, ...],
    "fail": tuple[str, ...],
}
"""What operations return; those that are not listed return nothing, which is null."""

_REPLIES = msgspec.json.Decoder(Reply)


def encode(message: Request | Reply) -> bytes:
    """The line of a message, its end included. Raises `MessageError` for a value that JSON cannot hold."""
    try:
        return msgspec.json.encode(without_hybrid(message) if isinstance(message, Start) else message) + b"\n"
    except (TypeError, ValueError) as error:
        raise MessageError(f"it cannot be written as JSON: {error}") from None
    except RecursionError:
        raise MessageError(f"it cannot be written as JSON: it {TOO_DEEP}, or holds itself") from None


def read_reply(line: bytes) -> Reply:
    """The answer in a line. Raises `MessageError`."""
    if not line.strip():
        raise MessageError("an empty line")
    try:
        return _REPLIES.decode(line)
    except msgspec.ValidationError as error:
        raise MessageError(f"{error}; the line was {shown(line)}") from None
    except msgspec.DecodeError as error:
        raise MessageError(f"no JSON: {error}; the line was {shown(line)}") from None
    except RecursionError:
        raise MessageError(f"JSON that {TOO_DEEP}; the line was {shown(line)}") from None


def read_request(line: bytes) -> Request:
    """The request in a line; fields of operations may hold junk. Raises `MessageError`."""
    try:
        fields = msgspec.json.decode(line)
        if not isinstance(fields, dict) or fields.get("message") != "run":
            found: Request = msgspec.convert(fields, Request)
            return found
        run = msgspec.convert({**fields, "operations": ()}, Run)
        operations = msgspec.convert(fields.get("operations"), tuple[dict[str, object], ...])
        return msgspec.structs.replace(run, operations=tuple(map(operation_of, operations)))
    except (msgspec.DecodeError, UnknownOperation) as error:
        raise MessageError(f"{error}; the line was {shown(line)}") from None


def checked_result(name: str, result: object) -> object:
    """What the operation of this name returned, in its own type. Raises `MessageError` for another type."""
    try:
        return msgspec.convert(result, RESULTS.get(name, None))
    except msgspec.ValidationError as error:
        raise MessageError(f"{name} returned {_shown_value(result)}, which is no result of it: {error}") from None


def _shown_value(value: object) -> str:
    try:
        return shown(msgspec.json.encode(value))
    except RecursionError:  # it could just be read, but we are deeper now
        return f"what {TOO_DEEP}"


def shown(line: bytes) -> str:
    """The beginning of a line, for the text of an error."""
    text = line[:SHOWN_BYTES].decode(errors="backslashreplace").rstrip("\n")
    return f"{text!r}{'...' if len(line) > SHOWN_BYTES else ''}"
