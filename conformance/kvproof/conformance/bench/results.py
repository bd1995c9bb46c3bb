"""What a run found, as `--json` writes it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvproof.conformance.bench.calls import Slowest
from kvproof.conformance.bench.hybrid import HybridCost
from kvproof.conformance.bench.memory import Memory
from kvproof.conformance.bench.replay import Replay
from kvproof.conformance.bench.sides import BenchError
from kvproof.conformance.bench.speed import Cell


class Answer(msgspec.Struct, frozen=True):
    """What one worker found. `load` is the load average before and after; `versions` by the name of a package."""

    cells: list[Cell] = []
    memory: list[Memory] = []
    slowest: list[Slowest] = []
    replays: list[Replay] = []
    hybrid: list[HybridCost] = []
    versions: dict[str, str] = {}
    load: tuple[float, float] = (0.0, 0.0)
    error: str | None = None


class Machine(msgspec.Struct, frozen=True):
    """Where it was measured."""

    processor: str
    cores: int
    system: str


class Report(msgspec.Struct, frozen=True):
    """A whole run. Without `peer_missing` vLLM was measured beside; `load` is the greatest load average of the run."""

    date: str
    quick: bool
    machine: Machine
    versions: dict[str, str]
    peer_missing: str | None
    load_before: float
    load: float
    seconds: float
    cells: list[Cell]
    memory: list[Memory]
    slowest: list[Slowest]
    replays: list[Replay]
    hybrid: list[HybridCost]


def save(report: Report, file: Path) -> None:
    """Write a report. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")


def load(file: Path) -> Report:
    """Read a report. Raises `BenchError`."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Report)
    except OSError as error:
        raise BenchError(f"{file} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise BenchError(f"{file} is no report of kvproof bench: {error}") from None
