"""A report as tables of text, which the terminal and the page share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kvproof.conformance.bench.goals import mean_ratio, measured_apart, ratio, verdicts
from kvproof.conformance.bench.memory import Memory
from kvproof.conformance.bench.plan import keys_of
from kvproof.conformance.bench.results import Report
from kvproof.conformance.bench.speed import COMPARED, OPERATIONS, TOUCH, Cell
from kvproof.spec.vocabulary import HashAlgorithm

NOTHING = "-"

JUDGED = {True: "yes", False: "**MISSED**", None: "not judged"}


@dataclass(frozen=True, slots=True)
class Table:
    """The first column holds words, all others numbers, unless `words` says that all hold words."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: bool = False


def conditions(report: Report) -> list[str]:
    """What has to be known to read the numbers, one sentence each."""
    lines = [
        f"{report.date}, {report.machine.processor}, {report.machine.cores} cores, {report.machine.system}; "
        + ", ".join(f"{name} {version}" for name, version in sorted(report.versions.items()))
        + f"; {report.seconds / 60:.1f} minutes.",
        f"Load average before the run {report.load_before:.1f}, at most {report.load:.1f} during it "
        "(the run itself makes 1).",
    ]
    if report.peer_missing:
        lines.append(f"vLLM was not measured: {report.peer_missing}.")
    if report.quick:
        lines.append("A quick run: it shows that everything works, and its numbers say little.")
    return lines


def tables(report: Report) -> list[Table]:
    """All tables of a report; what was not measured has none."""
    found = [goals(report)]
    for events in (False, True):
        found += [_speed(report, events, num_blocks) for num_blocks in _pools(report)]
    found += [_memory(report), _collector(report), _slowest(report), _replays(report), _hybrid(report)]
    return [table for table in found if table.rows]


def goals(report: Report) -> Table:
    """What was to be reached, and what was."""
    rows = [(each.about, each.goal, each.measured, JUDGED[each.met]) for each in verdicts(report)]
    rows += [(each.about, each.goal, each.measured, NOTHING) for each in measured_apart(report)]
    return Table("Goals", ("what", "goal", "measured", "reached"), rows, words=True)


def _pools(report: Report) -> list[int]:
    return sorted({cell.num_blocks for cell in report.cells})


def _speed(report: Report, events: bool, num_blocks: int) -> Table:
    cells = {
        (cell.operation, cell.k): cell
        for cell in report.cells
        if cell.events == events and cell.num_blocks == num_blocks
    }
    sizes = sorted({k for _, k in cells})
    columns = ["operation"]
    for k in sizes:
        columns += [f"kvproof, k={k}", "vLLM", "times"]
    rows = [[name, *(text for k in sizes for text in _cell(cells[name, k]))] for name in OPERATIONS]
    means = [mean_ratio(report.cells, num_blocks, k, events) for k in sizes]
    if all(means):
        row = [f"geometric mean, without {TOUCH}", *(text for mean in means for text in ("", "", f"{mean:.1f}"))]
        rows.insert(len(COMPARED), row)
    return Table(
        f"{num_blocks:,} blocks, events {'on' if events else 'off'}: ns for each block, median (minimum)", columns, rows
    )


def _cell(cell: Cell) -> tuple[str, str, str]:
    times = ratio(cell)
    return _ns(cell.ours), _ns(cell.theirs), NOTHING if times is None else f"{times:.1f}"


def _ns(rounds: Sequence[float] | None) -> str:
    return NOTHING if rounds is None else f"{median(rounds):,.0f} ({min(rounds):,.0f})"


def _memory(report: Report) -> Table:
    sides = sorted({each.side for each in report.memory})
    columns = ["bytes for each block", *sides, "of it the arena"]
    columns += [f"longest registration, ms: {side}" for side in sides]
    rows = []
    for (blocks, algorithm, additional), found in _by_kind(report).items():
        own = next((each.own for each in found.values() if each.own is not None), None)
        rows.append(
            [
                keys_of(blocks, algorithm, additional),
                *(_bytes(found[s].resident) if s in found else NOTHING for s in sides),
                _bytes(own),
                *(f"{found[s].longest_ms:.1f}" if s in found else NOTHING for s in sides),
            ]
        )
    return Table("Memory of the process, every block cached", columns, rows)


def _bytes(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def _by_kind(report: Report) -> dict[tuple[int, HashAlgorithm, int], dict[str, Memory]]:
    kinds: dict[tuple[int, HashAlgorithm, int], dict[str, Memory]] = {}
    for each in report.memory:
        kinds.setdefault((each.num_blocks, each.algorithm, each.additional), {})[each.side] = each
    return kinds


def _collector(report: Report) -> Table:
    columns = (
        "pool",
        "objects of the pool",
        "to collect, ms",
        "of its keys",
        "to collect, ms",
        "collections while it is filled",
        "longest, ms",
        "of all time",
    )
    rows = []
    for each in report.memory:
        run = each.while_filled
        rows.append(
            (
                f"{each.side}, {keys_of(each.num_blocks, each.algorithm, each.additional)}",
                f"{each.tracked:,}",
                f"{each.collect_ms:.1f}",
                f"{each.tracked_with_keys:,}",
                f"{each.collect_ms_with_keys:.1f}",
                f"{run.collections:,}",
                f"{run.longest_ms:.1f}",
                f"{100 * run.seconds / run.of_seconds:.1f} %",
            )
        )
    return Table("What the garbage collector tracks, and what that costs", columns, rows)


def _slowest(report: Report) -> Table:
    columns = ["operation"]
    sides = list(dict.fromkeys(each.side for each in report.slowest))
    for side in sides:
        columns += [f"{side}, median", "99.9 %", "slowest"]
    found = {(each.side, each.operation): each for each in report.slowest}
    rows = []
    for operation in dict.fromkeys(each.operation for each in report.slowest):
        row: list[str] = [operation]
        for side in sides:
            each = found[side, operation]
            row += [f"{each.median:.1f}", f"{each.tail:.1f}", f"{each.worst:,.1f}"]
        rows.append(row)
    first = report.slowest[0] if report.slowest else None
    size = f"{first.num_blocks:,} blocks: {first.calls:,} calls of each, k up to {first.most_blocks}" if first else ""
    return Table(f"Single calls, {size}, in microseconds; median and 99.9 % of the largest", columns, rows)


def _replays(report: Report) -> Table:
    columns = ("workload", "blocks", "requests", "hits", "kvproof, µs for each request", "vLLM", "times")
    rows = []
    for each in report.replays:
        times = NOTHING if each.theirs is None else f"{median(each.theirs) / median(each.ours):.1f}"
        share = f"{100 * each.hits / max(1, each.blocks):.2f} %"
        ours, theirs = _us(each.ours), NOTHING if each.theirs is None else _us(each.theirs)
        rows.append((each.workload, f"{each.num_blocks:,}", f"{each.requests:,}", share, ours, theirs, times))
    return Table("Recorded requests, served one after the other; hits are those of both", columns, rows)


def _hybrid(report: Report) -> Table:
    columns = ("model", "context", "hit", "first match", "first prefill", "decode a token", "match", "prefill")
    rows = []
    for each in report.hybrid:
        times = (each.first_match, each.first_prefill, each.decode, each.match, each.prefill)
        rows.append((each.model, f"{each.context:,}", f"{each.hit:,}", *map(_us, times)))
    return Table("Requests over all groups of a model, kvproof, in microseconds; median (minimum)", columns, rows)


def _us(rounds: Sequence[float]) -> str:
    return f"{median(rounds):.1f} ({min(rounds):.1f})"
