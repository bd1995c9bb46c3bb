"""The goals, and what was measured beside each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from kvproof.conformance.bench.plan import LARGE
from kvproof.conformance.bench.results import Report
from kvproof.conformance.bench.speed import COMPARED, Cell
from kvproof.spec.vocabulary import HashAlgorithm

TIMES = {1: 3.0, 16: 10.0, 512: 10.0}
"""By blocks of a call: how many times faster than vLLM, as the geometric mean over the compared operations."""

MOST_BYTES = {HashAlgorithm.XXH3_128: 128.0, HashAlgorithm.SHA256: 176.0}
"""For each block, with one additional key."""

FEW = 100
"""So many objects have nothing to do with the number of blocks."""

WORST_MS = 1.0

OURS = "kvproof"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One goal; `met` is None where nothing was measured that could tell, as in a quick run."""

    about: str
    goal: str
    measured: str
    met: bool | None


def ratio(cell: Cell) -> float | None:
    """How many times longer vLLM takes, by medians."""
    return None if cell.theirs is None else median(cell.theirs) / median(cell.ours)


def mean_ratio(cells: Iterable[Cell], num_blocks: int, k: int, events: bool) -> float | None:
    """The geometric mean of the ratios of the compared operations; None if there are none."""
    found = [
        ratio(cell)
        for cell in cells
        if (cell.num_blocks, cell.k, cell.events) == (num_blocks, k, events) and cell.operation in COMPARED
    ]
    known = [each for each in found if each is not None]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None


def verdicts(report: Report) -> list[Verdict]:
    """Every goal."""
    times = [*_speed(report, events=False), _slowest_cell(report)]
    if report.quick:
        times = [replace(verdict, met=None) for verdict in times]
    return [*times, *_memory(report), _tracked(report), _worst_call(report), _hits(report)]


def measured_apart(report: Report) -> list[Verdict]:
    """What has no goal, and is to be known beside the goals: the same with events on."""
    return [replace(verdict, goal="none", met=None) for verdict in _speed(report, events=True)]


def _speed(report: Report, events: bool) -> Iterator[Verdict]:
    for num_blocks in sorted({cell.num_blocks for cell in report.cells}):
        for k in sorted({cell.k for cell in report.cells} & set(TIMES)):
            found = mean_ratio(report.cells, num_blocks, k, events)
            yield _verdict(
                f"times vLLM, geometric mean of five operations, events {'on' if events else 'off'}, "
                f"{num_blocks:,} blocks, k={k}",
                f">= {TIMES[k]:.0f}",
                found,
                _least(TIMES[k]),
                "{:.1f}",
            )


def _slowest_cell(report: Report) -> Verdict:
    cells = [cell for cell in report.cells if not cell.events and cell.operation in COMPARED and cell.theirs]
    worst = min(cells, key=lambda cell: ratio(cell) or 0.0, default=None)
    where = f" ({worst.operation}, {worst.num_blocks:,} blocks, k={worst.k})" if worst else ""
    return _verdict(
        "times vLLM, any of the five operations alone, events off",
        ">= 1",
        ratio(worst) if worst else None,
        _least(1.0),
        "{:.1f}" + where,
    )


def _memory(report: Report) -> Iterator[Verdict]:
    for algorithm, most in MOST_BYTES.items():
        found = [
            each.resident
            for each in report.memory
            if (each.side, each.num_blocks, each.algorithm, each.additional) == (OURS, LARGE, algorithm, 1)
        ]
        yield _verdict(
            f"bytes for each of {LARGE:,} cached blocks, {algorithm.value}, one additional key each",
            f"<= {most:.0f}",
            found[0] if found else None,
            _most(most),
            "{:.1f}",
        )


def _tracked(report: Report) -> Verdict:
    found = [
        each.tracked + each.tracked_with_keys
        for each in report.memory
        if each.side == OURS and each.num_blocks == LARGE
    ]
    return _verdict(
        f"objects that the garbage collector tracks, {LARGE:,} cached blocks",
        "none for each block",
        float(max(found)) if found else None,
        _most(FEW),
        "{:,.0f} in all",
    )


def _worst_call(report: Report) -> Verdict:
    found = [each for each in report.slowest if each.side == OURS and each.num_blocks == LARGE]
    worst = max(found, key=lambda each: each.worst, default=None)
    return _verdict(
        f"slowest single call, {LARGE:,} blocks, up to 512 in a call, ms",
        f"< {WORST_MS:.0f}",
        1e-3 * worst.worst if worst else None,
        lambda value: value < WORST_MS,
        "{:.2f}" + (f" ({worst.operation})" if worst else ""),
    )


def _hits(report: Report) -> Verdict:
    compared = [each for each in report.replays if each.theirs is not None]
    count = sum(each.requests for each in compared)
    return Verdict(
        "hits of each recorded request",
        "equal to vLLM's",
        f"equal, {count:,} requests" if compared else "not measured",
        True if compared else None,
    )


def _least(bound: float) -> Callable[[float], bool]:
    return lambda value: value >= bound


def _most(bound: float) -> Callable[[float], bool]:
    return lambda value: value <= bound


def _verdict(about: str, goal: str, value: float | None, is_met: Callable[[float], bool], shown: str) -> Verdict:
    if value is None:
        return Verdict(about, goal, "not measured", None)
    return Verdict(about, goal, shown.format(value), is_met(value))


def missed(found: Sequence[Verdict]) -> list[Verdict]:
    """The goals that were measured and not reached."""
    return [verdict for verdict in found if verdict.met is False]
