"""Workloads as they were recorded: who arrives, in which order, and which prompts share which prefix.

The format is described in `data/README.md`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

WORKLOAD_VERSION = 1

SUFFIX = ".jsonl.gz"

MOST_ID = 2**31 - 1
"""Block ids go up to here, so that two tokens can be made of each."""


class WorkloadError(ValueError):
    """A file that is no workload of this version; the text says where and why."""


class Arrival(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A request: when it came (milliseconds), how many tokens its prompt and its reply have, its prompt's blocks.

    `runs` are the ids of the prompt's blocks, as (first id, count). An id names a whole prefix.
    """

    milliseconds: int
    input_tokens: int
    output_tokens: int
    runs: tuple[tuple[int, int], ...]

    @property
    def blocks(self) -> list[int]:
        """The ids of the prompt's blocks, the first one first."""
        return [block for first, count in self.runs for block in range(first, first + count)]


class Workload(msgspec.Struct, frozen=True):
    """Requests in the order of their arrival, and how many tokens a block of theirs has."""

    name: str
    block: int
    arrivals: tuple[Arrival, ...]


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kvproof_workload: int
    name: str
    block: int


def shipped() -> tuple[str, ...]:
    """The names of the workloads that come with kvproof."""
    return tuple(sorted(file.name.removesuffix(SUFFIX) for file in _data().iterdir() if file.name.endswith(SUFFIX)))


def load(name: str) -> Workload:
    """A workload that comes with kvproof."""
    return parse((_data() / (name + SUFFIX)).read_bytes(), name)


def read_workload(file: Path) -> Workload:
    """Read a file; raises `WorkloadError`."""
    try:
        packed = file.read_bytes()
    except OSError as error:
        raise WorkloadError(f"{file} cannot be read: {error.strerror}") from None
    return parse(packed, str(file))


def parse(packed: bytes, where: str) -> Workload:
    """The workload in the bytes of a file; raises `WorkloadError`."""
    try:
        lines = gzip.decompress(packed).splitlines()
    except EOFError:
        raise WorkloadError(f"{where} was cut: its gzip stream has no end") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise WorkloadError(f"{where} is not gzip, or damaged: {error}") from None
    if not lines:
        raise WorkloadError(f"{where} is empty")
    header = _header(lines[0], f"{where}:1")
    arrivals = tuple(_arrivals(lines[1:], header.block, where))
    return Workload(header.name, header.block, arrivals)


def _data() -> Traversable:
    return files("kvproof.conformance.workloads") / "data"


def _header(line: bytes, where: str) -> _Header:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WorkloadError(f"{where}: no JSON: {error}") from None
    if not isinstance(found, dict) or "kvproof_workload" not in found:
        raise WorkloadError(f'{where}: a workload begins with {{"kvproof_workload": {WORKLOAD_VERSION}, ...}}')
    if (version := found["kvproof_workload"]) != WORKLOAD_VERSION:
        raise WorkloadError(f"{where}: version {version!r} of workloads; this reads {WORKLOAD_VERSION}")
    try:
        header = msgspec.convert(found, _Header)
    except msgspec.ValidationError as error:
        raise WorkloadError(f"{where}: {error}") from None
    if header.block < 1:
        raise WorkloadError(f"{where}: a block has {header.block} tokens; it needs one at least")
    return header


def _arrivals(lines: list[bytes], block: int, where: str) -> Iterator[Arrival]:
    count = len(lines) - 1
    if not lines or lines[-1].replace(b" ", b"") != b'{"end":%d}' % count:
        raise WorkloadError(f'{where} was cut or changed: its last line is not {{"end": {max(count, 0)}}}')
    decode = msgspec.json.Decoder(Arrival).decode
    previous: dict[int, int] = {}
    for number, line in enumerate(lines[:-1], 2):
        try:
            arrival = decode(line)
        except msgspec.DecodeError as error:
            raise WorkloadError(f"{where}:{number}: {error}") from None
        if reason := _wrong(arrival, block, previous):
            raise WorkloadError(f"{where}:{number}: {reason}")
        yield arrival


def _wrong(arrival: Arrival, block: int, previous: dict[int, int]) -> str | None:
    """What makes no sense of an arrival; `previous` has, for each id so far, the one before it."""
    if arrival.input_tokens < 1 or arrival.output_tokens < 0 or arrival.milliseconds < 0:
        return "a prompt has one token at least; no length or time is negative"
    if any(first < 0 or count < 1 or first + count - 1 > MOST_ID for first, count in arrival.runs):
        return f"block ids are 0 to {MOST_ID}, and a run has one at least"
    full, rest = divmod(arrival.input_tokens, block)
    count = sum(count for _, count in arrival.runs)
    if count not in (full, full + bool(rest)):
        return f"{count} blocks of {block} for {arrival.input_tokens} tokens"
    before = -1
    for found in arrival.blocks:
        if previous.setdefault(found, before) != before:
            return f"block {found} follows {previous[found]} and {before}; an id names one prefix"
        before = found
    return None
