"""Traces: operations as JSON lines, written by programs and by people.

    {"kvproof_trace": 1, "config": {"num_blocks": 4, "hash_block_size": 2, "groups": [...]}}
    {"op": "add_request", "request": "r1", "tokens": [1, 2, 3, 4]}
    {"op": "allocate", "holder": "r1", "n": 1, "expect": {"result": [1]}}
    {"end": 2}

The first line says how the pool is configured, the last one how many operations there are, so that a trace that was cut
is known as one. An operation may say what is expected of it; the reference says the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from kvproof.conformance.backends.wire import Observation, Wire, WireEvent, without_hybrid
from kvproof.conformance.operations import Operation, UnknownOperation, operation_of
from kvproof.spec.vocabulary import PoolConfig

T = TypeVar("T")

TRACE_VERSION = 1


class TraceError(ValueError):
    """A file that is no trace of this version; the text says where and why."""


class Header(Wire, frozen=True, omit_defaults=True):
    """The first line. A vector says more: its name, the clauses it shows, the kind of fault and its usual harm."""

    kvproof_trace: int
    config: PoolConfig
    name: str = ""
    clauses: tuple[str, ...] = ()
    fault: str = ""
    harm: str = ""
    reports: tuple[str, ...] = ()


class Expect(Wire, frozen=True, omit_defaults=True):
    """What is expected of an operation. `errors`: it is refused with one of these, and changes nothing."""

    result: object = msgspec.UNSET
    errors: tuple[str, ...] = ()
    events: tuple[WireEvent, ...] | None = None
    state: Observation | None = None


class TraceStep(msgspec.Struct, frozen=True):
    """An operation, and what is expected of it."""

    operation: Operation
    expect: Expect = Expect()


class Trace(msgspec.Struct, frozen=True):
    """A whole trace."""

    header: Header
    steps: tuple[TraceStep, ...]

    @property
    def operations(self) -> list[Operation]:
        """The operations alone."""
        return [step.operation for step in self.steps]


def trace_of(config: PoolConfig, operations: Iterable[Operation]) -> Trace:
    """Operations as a trace."""
    return Trace(Header(TRACE_VERSION, config), tuple(map(TraceStep, operations)))


def write(trace: Trace) -> str:
    """The lines of a trace."""
    lines = [msgspec.json.encode(without_hybrid(trace.header))]
    for step in trace.steps:
        fields = msgspec.to_builtins(step.operation)
        expect = msgspec.to_builtins(step.expect)
        lines.append(msgspec.json.encode({**fields, "expect": expect} if expect else fields))
    lines.append(msgspec.json.encode({"end": len(trace.steps)}))
    return "".join(line.decode() + "\n" for line in lines)


def read_file(file: Path) -> Trace:
    """Read a trace; raises `TraceError`."""
    try:
        if file.is_char_device():  # some have no end
            raise TraceError(f"{file} is a device, not a file")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TraceError(f"{file} is no UTF-8 text") from None
    return read(text, str(file))


def read(text: str, name: str = "trace") -> Trace:
    """Read the lines of a trace; raises `TraceError`."""
    lines = _objects(text, name)
    number, first = next(lines, (1, {}))
    if "kvproof_trace" not in first:
        raise TraceError(f'{name}:{number}: a trace begins with {{"kvproof_trace": {TRACE_VERSION}, "config": ...}}')
    if first["kvproof_trace"] != TRACE_VERSION:
        raise TraceError(f"{name}:{number}: version {first['kvproof_trace']!r} of traces; this reads {TRACE_VERSION}")
    header = _converted(first, Header, f"{name}:{number}")
    steps: list[TraceStep] = []
    for number, line in lines:
        if "end" in line and "op" not in line:  # operations have ends too
            if line["end"] != len(steps):
                raise TraceError(f"{name}:{number}: {line['end']!r} operations at the end, but {len(steps)} before it")
            if (after := next(lines, None)) is not None:
                raise TraceError(f"{name}:{after[0]}: there is more after the end")
            return Trace(header, tuple(steps))
        steps.append(_step(line, f"{name}:{number}"))
    raise TraceError(f'{name} was cut: its last line is not {{"end": {len(steps)}}}')


def _objects(text: str, name: str) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            raise TraceError(f"{name}:{number}: no JSON: {error}") from None
        except RecursionError:
            raise TraceError(f"{name}:{number}: JSON that is nested too deeply") from None
        if not isinstance(found, dict):
            raise TraceError(f"{name}:{number}: not a JSON object")
        yield number, found


def _step(line: dict[str, object], where: str) -> TraceStep:
    expect = _converted(line.pop("expect", {}), Expect, where)
    try:
        return TraceStep(operation_of(line), expect)
    except UnknownOperation as error:
        raise TraceError(f"{where}: {error}") from None


def _converted(value: object, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise TraceError(f"{where}: {error}") from None
