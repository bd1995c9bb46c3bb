"""What is made of the numbers: goals, tables, the page, the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from kvproof.conformance.bench import run as runner
from kvproof.conformance.bench.calls import Slowest
from kvproof.conformance.bench.goals import Verdict, mean_ratio, missed, verdicts
from kvproof.conformance.bench.hybrid import HybridCost
from kvproof.conformance.bench.memory import Collector, Memory
from kvproof.conformance.bench.page import page_of, write
from kvproof.conformance.bench.plan import LARGE
from kvproof.conformance.bench.replay import Replay
from kvproof.conformance.bench.results import Machine, Report, load, save
from kvproof.conformance.bench.show import show_report
from kvproof.conformance.bench.sides import BenchError
from kvproof.conformance.bench.speed import COMPARED, OPERATIONS, Cell
from kvproof.conformance.cli import app
from kvproof.spec.vocabulary import HashAlgorithm
from tests.terminal import squeezed

TIMES = {1: 4.0, 16: 16.0, 512: 12.0}


def cells(times: dict[int, float] = TIMES, events: bool = False) -> list[Cell]:
    return [
        Cell(operation, LARGE, k, events, (10.0, 12.0, 11.0), (11.0 * each, 10.0 * each, 12.0 * each))
        for operation in OPERATIONS
        for k, each in times.items()
    ]


def memory(algorithm: HashAlgorithm, resident: float, tracked: int = 3) -> Memory:
    return Memory(
        "kvproof", LARGE, algorithm, 1, resident, 120.0, tracked, 2, 0.1, 0.2, Collector(0.01, 3, 4.0, 2.0), 7.5
    )


def slowest(worst: float) -> Slowest:
    return Slowest("kvproof", "free", LARGE, 512, 5.0, 50.0, worst, 34_000)


def report(**changed: object) -> Report:
    full = Report(
        date="2026-12-01",
        quick=False,
        machine=Machine("a processor", 2, "a system"),
        versions={"Python": "3.11.7", "vLLM": "0.33.0", "torch": "2.13.0"},
        peer_missing=None,
        load_before=0.1,
        load=1.2,
        seconds=300.0,
        cells=[*cells(), *cells({1: 2.0, 16: 4.0, 512: 4.0}, events=True)],
        memory=[memory(HashAlgorithm.XXH3_128, 126.4), memory(HashAlgorithm.SHA256, 157.8)],
        slowest=[],
        replays=[Replay("a workload", 400, 50, 0, 1_000, 780, (5.0,), (20.0,))],
        hybrid=[HybridCost("a model", 1_000, 992, [5.0], [6.0, 8.0, 7.0], [3.0], [4.0], [9.0])],
    )
    return msgspec.structs.replace(full, **{"slowest": [slowest(400.0)], **changed})


def of(found: list[Verdict], about: str) -> Verdict:
    [verdict] = [each for each in found if about in each.about]
    return verdict


def shown(of_a_run: Report) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        show_report(console, of_a_run)
    return squeezed(capture.get())


def test_a_report_that_reaches_all_goals_misses_none() -> None:
    found = verdicts(report())
    assert [verdict.met for verdict in found] == [True] * len(found)


def test_the_mean_is_that_of_the_compared_operations_alone() -> None:
    changed = [
        msgspec.structs.replace(cell, theirs=(11.0,)) if cell.operation not in COMPARED else cell for cell in cells()
    ]
    assert mean_ratio(changed, LARGE, 16, False) == pytest.approx(16.0)
    halved = [
        msgspec.structs.replace(cell, theirs=(11.0 * 16.0 / 32,)) if cell.operation == "free" else cell
        for cell in cells()
    ]
    assert mean_ratio(halved, LARGE, 16, False) == pytest.approx(16.0 / 32 ** (1 / 5))


@pytest.mark.parametrize(
    ("changed", "about", "measured"),
    [
        ({"cells": cells({1: 2.9, 16: 16.0})}, "k=1", "2.9"),
        ({"cells": cells({1: 4.0, 16: 9.9})}, "k=16", "9.9"),
        ({"cells": cells({1: 0.9})}, "alone", "0.9 (allocate and evict, 1,000,000 blocks, k=1)"),
        ({"memory": [memory(HashAlgorithm.XXH3_128, 128.1)]}, "xxh3_128", "128.1"),
        ({"memory": [memory(HashAlgorithm.SHA256, 176.1)]}, "sha256", "176.1"),
        ({"memory": [memory(HashAlgorithm.SHA256, 100.0, tracked=LARGE)]}, "tracks", "1,000,002 in all"),
        ({"slowest": [slowest(1_000.0)]}, "slowest single call", "1.00 (free)"),
    ],
)
def test_a_missed_goal_is_marked_in_terminal_and_page(changed: dict[str, object], about: str, measured: str) -> None:
    verdict = of(missed(verdicts(report(**changed))), about)
    assert verdict.measured == measured
    assert f"{measured} MISSED" in shown(report(**changed))
    assert f"| {measured} | **MISSED** |" in page_of(report(**changed), None)


def test_a_quick_run_and_one_without_vllm_are_not_judged() -> None:
    assert of(verdicts(report(quick=True, cells=cells({1: 0.5}))), "alone").met is None
    alone = [msgspec.structs.replace(cell, theirs=None) for cell in cells()]
    found = verdicts(report(cells=alone, replays=[], peer_missing="not there"))
    assert {each.about for each in found if each.met is None} >= {"hits of each recorded request"}
    assert not missed(found)


def test_the_terminal_shows_median_minimum_and_times_and_the_load() -> None:
    text = shown(report())
    assert "allocate and evict 11 (10) 44 (40) 4.0 11 (10) 176 (160) 16.0 11 (10) 132 (120) 12.0" in text
    assert "geometric mean, without touch 4.0 16.0 12.0" in text
    assert "Load average before the run 0.1, at most 1.2" in text
    assert "a processor, 2 cores, a system; Python 3.11.7, torch 2.13.0, vLLM 0.33.0" in text
    assert "0 goals of 9 missed" in text
    assert "five operations, events on, 1,000,000 blocks, k=16 none 4.0 -" in text
    assert "a model 1,000 992 5.0 (5.0) 7.0 (6.0) 3.0 (3.0) 4.0 (4.0) 9.0 (9.0)" in text
    assert "xxh3_128, 1 additional key 126.4 120.0 7.5" in text


def test_the_page_has_tables_and_a_plot_where_vllm_was_measured(tmp_path: Path) -> None:
    write(report(), tmp_path / "bench.md")
    page = (tmp_path / "bench.md").read_text(encoding="utf-8")
    assert "(bench.svg)" in page
    assert "| free | 11 (10) | 44 (40) | 4.0 |" in page
    assert "1,000,000 blocks" in (tmp_path / "bench.svg").read_text(encoding="utf-8")
    alone = [msgspec.structs.replace(cell, theirs=None) for cell in cells()]
    write(report(cells=alone, peer_missing="not there"), tmp_path / "alone.md")
    assert not (tmp_path / "alone.svg").exists()
    page = (tmp_path / "alone.md").read_text(encoding="utf-8")
    assert "svg" not in page
    assert "vLLM was not measured: not there." in page
    assert "| free | 11 (10) | - | - |" in page


def test_a_report_is_read_as_it_was_written_and_nothing_else_is(tmp_path: Path) -> None:
    save(report(), tmp_path / "new" / "bench.json")
    assert load(tmp_path / "new" / "bench.json") == report()
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(BenchError, match=r"other.json is no report of kvproof bench"):
        load(tmp_path / "other.json")
    with pytest.raises(BenchError, match="cannot be read"):
        load(tmp_path / "nowhere.json")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setattr(runner, "environment", lambda: None)
    return lambda *arguments: CliRunner().invoke(app, ["bench", *map(str, arguments)])


def test_without_vllm_a_quick_run_measures_us_and_says_how_to_get_it(
    bench: Callable[..., Result], tmp_path: Path
) -> None:
    result = bench("--quick", "--json", tmp_path / "bench.json")
    assert result.exit_code == 0, result.output
    text = squeezed(result.stdout)
    assert "vLLM was not measured: vLLM's environment is not there; `make vllm`" in text
    assert "replay of lmcache_taubench, 400 blocks:" in text
    assert "MISSED" not in text
    found = load(tmp_path / "bench.json")
    assert found.quick
    assert {cell.operation for cell in found.cells} == set(OPERATIONS)
    assert all(cell.theirs is None and min(cell.ours) > 0 for cell in found.cells)
    assert found.memory
    assert found.slowest
    assert found.replays[0].requests == 50


def test_a_python_that_cannot_be_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVPROOF_VLLM", "/nowhere/python")
    result = CliRunner().invoke(app, ["bench", "--quick"])
    assert result.exit_code == 3
    assert "/nowhere/python cannot be run: No such file or directory; KVPROOF_VLLM" in squeezed(result.output)


def test_a_file_that_is_a_folder_is_refused_before_anything_is_measured(
    bench: Callable[..., Result], tmp_path: Path
) -> None:
    result = bench("--quick", "--json", tmp_path)
    assert result.exit_code == 2
    assert "is a folder; name a file" in squeezed(result.output)
