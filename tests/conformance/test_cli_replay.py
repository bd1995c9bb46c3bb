from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.backends.targets import TargetError
from kvproof.conformance.cli import app
from kvproof.conformance.commands import replay as command
from tests.certification.doubles import with_mutant
from tests.conformance.workload_backends import Breaks, KeepsKeys, MiscountsReferences, OnlyPlain, TakesOneMore
from tests.terminal import squeezed

run = CliRunner().invoke

CONFIG = {"num_blocks": 4, "hash_block_size": 2, "groups": [{"kind": "full_attention", "block_size": 2}]}

OPERATIONS: list[dict[str, object]] = [
    {"op": "add_request", "request": "r1", "tokens": [1, 2, 3, 4]},
    {"op": "allocate", "holder": "r1", "n": 2, "expect": {"result": [1, 2]}},
    {"op": "write", "request": "r1", "block": 1, "position": 2, "group": 0},
    {"op": "cache_full_blocks", "request": "r1", "blocks": [1, 2], "first": 0, "last": 1, "group": 0},
    {"op": "allocate", "holder": "r1", "n": 2, "expect": {"errors": ["OutOfBlocks"]}},
    {"op": "free", "holder": "r1", "blocks": [2, 1], "expect": {"state": {"free_queue": [2, 3, 1]}}},
]


def a_trace(
    folder: Path, operations: list[dict[str, object]] = OPERATIONS, version: int = 1, blocks: int = 4, end: int = 0
) -> str:
    header = {"kvproof_trace": version, "config": {**CONFIG, "num_blocks": blocks}}
    lines = [header, *operations, {"end": end or len(operations)}]
    file = folder / "trace.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(file)


def expecting(number: int, **expect: object) -> list[dict[str, object]]:
    changed = [dict(operation) for operation in OPERATIONS]
    changed[number]["expect"] = expect
    return changed


def use(monkeypatch: pytest.MonkeyPatch, backend: type[ReferenceBackend]) -> None:
    monkeypatch.setattr(command, "open_subject", lambda target: backend())


# Traces


@pytest.mark.parametrize("blocks", [4, 4 + 64])
def test_a_trace_without_a_difference_ends_with_0(tmp_path: Path, blocks: int) -> None:
    operations = OPERATIONS if blocks == 4 else [*OPERATIONS[:4], *expecting(5)[5:]]
    result = run(app, ["replay", a_trace(tmp_path, operations, blocks=blocks)])
    assert result.exit_code == 0, result.stdout
    assert f"No difference: {len(operations)} operations compared" in squeezed(result.stdout)


def test_expectations_that_hold_are_counted(tmp_path: Path) -> None:
    result = run(app, ["replay", a_trace(tmp_path)])
    assert "expectations that hold: 3." in squeezed(result.stdout)


def test_a_backend_that_diverges_ends_with_1_and_the_operation_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, TakesOneMore)
    result = run(app, ["replay", a_trace(tmp_path)])
    assert result.exit_code == 1
    text = squeezed(result.stdout)
    assert "Divergence: at operation 2 allocate(2, holder r1)" in text
    assert "num_free expected: 1 got: 0" in text
    assert "ref_cnt[3] expected: 0 got: 1" in text


def test_only_the_state_of_a_large_pool_may_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MiscountsReferences)
    result = run(app, ["replay", a_trace(tmp_path, OPERATIONS[:2], blocks=70)])
    assert result.exit_code == 1
    text = squeezed(result.stdout)
    assert "in the whole state, which is compared only now and then in so large a pool" in text
    assert "ref_cnt[69] expected: 0 got: 1" in text


def test_what_the_backend_does_not_offer_is_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, OnlyPlain)
    result = run(app, ["replay", a_trace(tmp_path)])
    assert result.exit_code == 0
    assert "left out: 2 operations, undefined" in squeezed(result.stdout)


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        (expecting(1, result=[1, 3]), "operation 2: allocate(2, holder r1) answer the trace expects: [1 3]"),
        (expecting(1, errors=["OutOfBlocks"]), "operation 2: allocate(2, holder r1) answer the trace expects: OutOfBl"),
        (expecting(4, errors=["NotOwner"]), "operation 5: allocate(2, holder r1) answer the trace expects: NotOwner"),
        (expecting(4, result=[3]), "operation 5: allocate(2, holder r1) answer the trace expects: [3]"),
        (expecting(3, events=[]), "operation 4: cache_full_blocks("),
        (expecting(5, state={"num_free": 2}), "num_free the trace expects: 2 the reference says: 3"),
        (expecting(5, state={"free_queue": [2, 1, 3]}), "free_queue[1] the trace expects: 1 the reference says: 3"),
    ],
    ids=range(7),
)
def test_an_expectation_that_the_reference_does_not_meet_ends_with_1(
    tmp_path: Path, operations: list[dict[str, object]], text: str
) -> None:
    result = run(app, ["replay", a_trace(tmp_path, operations)])
    assert result.exit_code == 1
    assert "The trace expects what the specification does not say, at operation" in squeezed(result.stdout)
    assert text in squeezed(result.stdout)


def test_a_list_that_differs_is_shown_by_its_first_places(tmp_path: Path) -> None:
    counts = [9] * 70
    operations = [*OPERATIONS[:1], {**OPERATIONS[1], "expect": {"state": {"ref_cnt": counts}}}]
    result = run(app, ["replay", a_trace(tmp_path, operations, blocks=70)])
    text = squeezed(result.stdout)
    assert "ref_cnt[2] the trace expects: 9 the reference says: 1" in text
    assert "67 more places differ" in text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda text: text.replace('{"end": 6}\n', ""), "was cut"),
        (lambda text: text[: len(text) // 2], "no JSON"),
        (lambda text: text.replace('"kvproof_trace": 1', '"kvproof_trace": 7'), "version 7 of traces; this reads 1"),
        (lambda text: text.replace("cache_full_blocks", "cache_all"), "there is no operation 'cache_all'"),
        (lambda text: "\0\1", "no JSON"),
    ],
    ids=["cut", "cut inside a line", "version", "operation", "garbage"],
)
def test_a_broken_trace_ends_with_2_and_one_line(tmp_path: Path, change: object, text: str) -> None:
    assert callable(change)
    file = Path(a_trace(tmp_path))
    file.write_text(change(file.read_text()))
    result = run(app, ["replay", str(file)])
    assert result.exit_code == 2
    assert text in result.stderr
    assert len(result.stderr.splitlines()) == 1


# Workloads


def test_a_workload_is_replayed_at_each_pool_size_and_summarized() -> None:
    options = ["--requests", "30", "--blocks", "20", "--blocks", "100"]
    result = run(app, ["replay", "lmcache_taubench", *options])
    assert result.exit_code == 0, result.stdout
    text = squeezed(result.stdout)
    assert "blocks mode requests hit evicted full operations" in text
    assert "20 immediate logical named" in text
    assert "100 steps logical named 30" in text
    assert "requests, which need more than 20 blocks" in text
    assert "No difference: " in text


def test_a_workload_of_a_file_is_replayed_whatever_its_name(tmp_path: Path) -> None:
    lines = [{"kvproof_workload": 1, "name": "mine", "block": 4}, [0, 9, 1, [[1, 2]]], [1, 9, 1, [[1, 2]]], {"end": 2}]
    file = tmp_path / "mine"
    file.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    result = run(app, ["replay", str(file)])
    assert result.exit_code == 0, result.stdout
    text = squeezed(result.stdout)
    assert "mine: hit is the share of prompt tokens" in text
    assert "1,000 immediate logical named 2 44.4%" in text


def test_a_divergence_on_a_workload_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, KeepsKeys)
    result = run(app, ["replay", "lmcache_taubench", "--requests", "60", "--blocks", "70"])
    assert result.exit_code == 1
    text = squeezed(result.stdout)
    assert "Divergence: at operation" in text
    assert "events expected: removed from group 0: " in text
    assert "got: []" in text


def test_an_adapter_that_breaks_ends_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Breaks)
    result = run(app, ["replay", "lmcache_taubench"])
    assert result.exit_code == 3
    assert "the adapter failed: the process ended with code 139" in result.stderr


def test_a_long_replay_logs_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LOG_INTERVAL", 0.0)
    result = run(app, ["replay", "lmcache_taubench", "--requests", "60", "--blocks", "100"])
    assert "lmcache_taubench, 100 blocks:" in squeezed(result.stdout)


def test_a_broken_workload_ends_with_2(tmp_path: Path) -> None:
    file = tmp_path / "w.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"kvproof_workload": 9, "name": "w", "block": 4}\n{"end": 0}\n'))
    result = run(app, ["replay", str(file)])
    assert result.exit_code == 2
    assert "version 9 of workloads; this reads 1" in result.stderr
    file.write_bytes(file.read_bytes()[:-10])
    assert "was cut" in run(app, ["replay", str(file)]).stderr


# Usage


def test_an_unknown_name_ends_with_2_and_a_hint() -> None:
    result = run(app, ["replay", "mooncake_sinthetic"])
    assert result.exit_code == 2
    assert "there is no file mooncake_sinthetic; did you mean mooncake_synthetic" in result.stderr


def test_a_folder_ends_with_2(tmp_path: Path) -> None:
    result = run(app, ["replay", str(tmp_path)])
    assert result.exit_code == 2
    assert "is a folder" in result.stderr


@pytest.mark.parametrize("options", [["--blocks", "10"], ["--requests", "3"]])
def test_options_of_workloads_do_not_go_with_a_trace(tmp_path: Path, options: list[str]) -> None:
    result = run(app, ["replay", a_trace(tmp_path), *options])
    assert result.exit_code == 2
    assert "--blocks and --requests are for workloads" in result.stderr


def test_a_target_that_is_no_backend_ends_with_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(target: str) -> None:
        raise TargetError(f"there is no backend {target!r}")

    monkeypatch.setattr(command, "open_subject", refuse)
    result = run(app, ["replay", a_trace(tmp_path), "--target", "nobody"])
    assert result.exit_code == 2
    assert "there is no backend 'nobody'" in result.stderr


def test_the_backend_is_closed_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Closing(Breaks):
        def close(self) -> None:
            closed.append("closed")

    use(monkeypatch, Closing)
    run(app, ["replay", a_trace(tmp_path)])
    assert closed == ["closed"]


def test_help_has_examples() -> None:
    result = run(app, ["replay", "--help"])
    assert result.exit_code == 0
    assert "kvproof replay mooncake_conversation --requests 500" in squeezed(result.stdout)


def test_a_fault_that_shows_only_while_events_wait_is_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "open_subject", lambda target: with_mutant("events_of_the_last_operation_only"))
    two_events: list[dict[str, object]] = [*OPERATIONS[:4], {"op": "evict", "blocks": [1]}]
    result = run(app, ["replay", a_trace(tmp_path, [*two_events, {"op": "take_events"}])])
    assert result.exit_code == 1, result.stdout
    assert "Divergence: at operation 6 take_events()" in squeezed(result.stdout)
    assert run(app, ["replay", a_trace(tmp_path, two_events)]).exit_code == 0
