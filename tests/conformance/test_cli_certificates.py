from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from kvproof.conformance.backends.interface import Identity, Level
from kvproof.conformance.certification import trace as traces
from kvproof.conformance.certification.html import report
from kvproof.conformance.certification.output import write_output
from kvproof.conformance.certification.result import Failure, KnownDivergence, Run, StageRow, Status
from kvproof.conformance.certification.show import show_run
from kvproof.conformance.cli import app
from kvproof.conformance.commands import list_names as listing
from tests.conformance import runs
from tests.terminal import squeezed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert write_output(runs.run([runs.failure()]), tmp_path / "out")
    return tmp_path / "out"


def invoke(arguments: Sequence[object]) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def shown(run: Run, folder: Path | None = None) -> str:
    console = Console(width=140)
    with console.capture() as capture:
        show_run(console, run, folder)
    return squeezed(capture.get())


# verify-certificate


def test_a_whole_certificate_ends_with_0_and_its_verdict(folder: Path) -> None:
    result = invoke(["verify-certificate", folder])
    assert result.exit_code == 0
    assert "4 files and 32 driven files are as they were on 2026-12-01" in squeezed(result.stdout)
    assert "kvproof-reference" in result.stdout
    assert "is not conformant, says kvproof 0.1.0" in squeezed(result.stdout)


def test_a_changed_file_ends_with_1_and_is_named(folder: Path) -> None:
    (folder / "report.html").write_text("better")
    result = invoke(["verify-certificate", folder])
    assert result.exit_code == 1
    assert "report.html was changed after it was written" in squeezed(result.stdout)
    assert "Not valid: 1 problem" in squeezed(result.stdout)


def test_a_cut_certificate_ends_with_1(folder: Path) -> None:
    file = folder / "certificate.json"
    file.write_bytes(file.read_bytes()[:-100])
    assert invoke(["verify-certificate", folder]).exit_code == 1


def test_a_folder_without_certificate_ends_with_2_and_one_line(tmp_path: Path) -> None:
    result = invoke(["verify-certificate", tmp_path])
    assert result.exit_code == 2
    assert result.stderr == f"kvproof verify-certificate: there is no {tmp_path}/certificate.json\n"


def test_driven_files_that_are_not_here_end_with_4(tmp_path: Path) -> None:
    identity = Identity("engine", "1", files=("/no/such/pool.py",))
    assert write_output(runs.run(identity=identity), tmp_path / "out")
    result = invoke(["verify-certificate", tmp_path / "out"])
    assert result.exit_code == 4
    assert "not checked: the driven files" in squeezed(result.stdout)
    assert "engine 1 is conformant" in squeezed(result.stdout)


# explain


@pytest.mark.parametrize("name", ["", "trace.jsonl"])
def test_a_saved_failure_is_explained(folder: Path, name: str) -> None:
    result = invoke(["explain", folder / "failures" / runs.failure().id / name])
    text = squeezed(result.stdout)
    assert result.exit_code == 0
    assert "Blocks that reach 0 with a key go to the tail of the queue" in text
    assert "5 free(blocks [1], holder r1)" in text
    assert "free_queue, expected: [2 3 1] free_queue, got: [1 2 3]" in text
    assert "» 3" in text
    assert "kind of fault: F16" in text
    trace = folder / "failures" / runs.failure().id / "trace.jsonl"
    assert f"kvproof replay {trace} --target doubles:frees" in text


def test_a_trace_alone_is_shown_as_it_should_go(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(traces.write(traces.trace_of(runs.CONFIG, runs.TRACE)))
    result = invoke(["explain", file])
    text = squeezed(result.stdout)
    assert result.exit_code == 0
    assert "2 allocate(1, holder r1) → [1]" in text
    assert "stored in group 0: r1[0:2], no parent, tokens 7 8" in text
    assert "free queue, next victim first: 3 1" in text


def test_a_trace_with_clauses_shows_them_in_words(tmp_path: Path) -> None:
    header = traces.Header(1, runs.CONFIG, name="tail", clauses=("POOL-FREE-3", "NO-SUCH-1"))
    steps = tuple(map(traces.TraceStep, runs.TRACE))
    (tmp_path / "vector.jsonl").write_text(traces.write(traces.Trace(header, steps)))
    text = squeezed(invoke(["explain", tmp_path / "vector.jsonl"]).stdout)
    assert text.startswith("tail POOL-FREE-3 (MUST): Blocks that reach 0 with a key")


@pytest.mark.parametrize("content", [None, "", "{}", "no json"])
def test_what_is_no_trace_ends_with_2_and_one_line(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "file").write_text(content)
    result = invoke(["explain", tmp_path / "file"])
    assert result.exit_code == 2
    assert result.stderr.startswith("kvproof explain: ")
    assert len(result.stderr.splitlines()) == 1


# list


def test_backends_and_levels_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = [EntryPoint("engine", "engine.kv:backend", listing.GROUP)]
    monkeypatch.setattr(listing, "entry_points", lambda group: offered if group == listing.GROUP else [])
    text = squeezed(invoke(["list"]).stdout)
    assert "engine engine.kv:backend" in text
    assert "O 7 order: which block is taken next" in text
    assert "D 11 data: what blocks really hold" in text


def test_no_backend_is_said_to_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "entry_points", lambda group: [])
    assert "none installed" in squeezed(invoke(["list"]).stdout)


# The result of a run


def test_a_run_ends_with_its_verdict_and_the_seed() -> None:
    assert shown(runs.run()).endswith("kvproof-reference 0.1.0: conformant (seed 1)")
    assert shown(runs.run([runs.failure()])).endswith("kvproof-reference 0.1.0: not conformant (seed 1)")


def test_the_table_counts_and_names_what_was_not_exercised() -> None:
    statuses = dict.fromkeys(("EVENT-NET-1", "POOL-MOVE-2"), Status.SKIP)
    text = shown(runs.run(statuses=statuses, not_claimed=Level.DATA))
    assert "P pool yes skip 65 of 66 POOL-MOVE-2" in text
    assert "E events yes skip 12 of 13 EVENT-NET-1" in text
    assert "D data no disabled 0 of 11 all 11" in text
    assert "2 claimed clauses were not exercised (skip): POOL-MOVE-2, EVENT-NET-1" in text


def test_more_than_a_few_missing_clauses_are_counted() -> None:
    missing = [f"POOL-ALLOC-{number}" for number in (1, 2, 4)] + ["POOL-EVICT-1", "POOL-EVICT-2", "POOL-EVICT-3"]
    text = shown(runs.run(statuses=dict.fromkeys(missing, Status.SKIP)))
    assert "POOL-ALLOC-1, POOL-ALLOC-2, POOL-ALLOC-4, POOL-EVICT-1 and 2 more" in text


def test_text_from_a_backend_is_no_markup() -> None:
    failure: Failure = runs.failure("[bold]doubles[/bold]")
    assert "--target '[bold]doubles[/bold]'" in shown(runs.run([failure]), Path("out"))


def test_the_line_that_replays_is_for_the_current_folder() -> None:
    line = "kvproof replay 'my out/failures/POOL-FREE-3.free.free_queue/trace.jsonl' --target doubles:frees"
    assert line in shown(runs.run([runs.failure()]), Path("my out"))
    assert "kvproof replay" not in shown(runs.run([runs.failure()])), "no trace was written"


def test_controls_in_texts_of_a_backend_are_spelled_out() -> None:
    evil = Identity("\x1b[2Jname", "\x9b1\u202e\r")
    text = shown(runs.run(identity=evil, stages=(StageRow("smoke", Status.ERROR, reason="\x1b]0;title\x07"),)))
    assert "\\x1b[2Jname \\x9b1\\u202e\\r" in text
    assert "smoke: \\x1b]0;title\\x07" in text
    assert not any(unicodedata.category(letter) == "Cc" for letter in text)


def test_a_long_text_of_a_backend_is_cut_in_the_terminal_alone() -> None:
    reason = f"begin{'x' * 10**7}end"
    run = runs.run(stages=(StageRow("smoke", Status.ERROR, reason=reason),))
    text = shown(run)
    assert len(text) < 20_000
    assert "begin" in text
    assert "characters are left out here" in text
    assert "xend" in text
    assert reason in report(run)


def test_a_broken_adapter_is_the_last_word() -> None:
    run = runs.run(stages=(StageRow("smoke", Status.ERROR, reason="it ended"),), non_vacuity={"the pool was full": 0})
    assert "never happened" not in shown(run)


def test_counts_have_the_right_number_and_what_is_not_done_its_reason() -> None:
    ran = StageRow("smoke", Status.PASS, {"operations": 1, "pools": 2})
    text = shown(runs.run(stages=(ran, StageRow("illegal", Status.DISABLED, reason="level R is not claimed"))))
    assert "smoke: pass, 1 operation, 2 pools," in text
    assert "illegal: disabled, level R is not claimed" in text


def test_a_known_divergence_that_has_expired_is_said_to_have() -> None:
    known = (KnownDivergence("POOL-FREE-3", "Soon.", until="2026-11-30"), KnownDivergence("POOL-FREE-2", "Later."))
    run = runs.run([runs.failure()], {"POOL-FREE-2": Status.FAIL}, known=known)
    assert "known to fail until 2026-11-30, which has expired: POOL-FREE-3" in shown(run)
    assert "POOL-FREE-2" not in shown(run).partition("which has expired")[2]
    assert report(run).count("It has expired.") == 1


def test_a_failure_says_what_pool_it_is_in(folder: Path) -> None:
    words = "In a pool of 4 blocks, the null block included; a hash after every 1 token; "
    words += "group 0: full_attention, blocks of 2 tokens; residency logical, holders named, commit immediate:"
    assert words in shown(runs.run([runs.failure()]))
    assert words.rstrip(":") in report(runs.run([runs.failure()]))


def test_a_state_that_is_as_expected_is_shown_once() -> None:
    failure = runs.failure()
    text = shown(runs.run([msgspec.structs.replace(failure, got=failure.expected)]))
    assert "after it, as expected" in text
    assert "got instead" not in text
    assert "got instead" in shown(runs.run([failure]))
