from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from kvproof.conformance.cli import app
from kvproof.conformance.commands import explore as command
from kvproof.reference.event_log import EventLog
from tests.terminal import squeezed

run = CliRunner().invoke


def test_a_complete_exploration_ends_with_0_and_says_how_much_was_visited() -> None:
    result = run(app, ["explore", "--blocks", "2"])
    assert result.exit_code == 0
    text = squeezed(result.stdout)
    assert "Complete: every reachable state was visited" in text
    assert "states 1,028" in text
    assert "transitions 17,219" in text
    assert "touch 908" in text


def test_options_choose_the_scope() -> None:
    options = ["--keys", "a,aa", "--refs", "1", "--kind", "recurrent", "--block-size", "1", "--residency", "per_copy"]
    result = run(app, ["explore", "--blocks", "1", *options])
    assert result.exit_code == 0
    text = squeezed(result.stdout)
    assert "1 blocks of 1, keys a,aa, refs 1, recurrent, per_copy" in text


def test_options_choose_steps() -> None:
    result = run(app, ["explore", "--blocks", "1", "--commit", "steps", "--in-flight", "1"])
    assert result.exit_code == 0
    text = squeezed(result.stdout)
    assert "1 blocks of 2, keys a,aa, refs 2, full_attention, logical, 1 steps in flight" in text
    assert "states 742" in text
    assert "never" not in text


def test_an_operation_that_never_fired_is_marked() -> None:
    result = run(app, ["explore", "--blocks", "1", "--keys", "a", "--refs", "1"])
    assert "move never" not in squeezed(result.stdout)
    result = run(app, ["explore", "--blocks", "1", "--keys", "aa", "--block-size", "3", "--max-seconds", "0"])
    assert "touch never" in squeezed(result.stdout)


def test_a_violation_ends_with_1_and_shows_the_trace_and_the_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventLog, "note_drop", lambda self, key, block_id: None)
    result = run(app, ["explore", "--blocks", "1", "--keys", "a", "--refs", "1"])
    assert result.exit_code == 1
    text = squeezed(result.stdout)
    assert "Violation: after 5 operations" in text
    assert "INV-EVENTS-1" in text
    assert "1 add_request(request r1, tokens [0]) 2 allocate(1, holder r1) 3 write(request r1, block 1" in text
    assert "before the last operation" in text
    assert "r1 writes" in text
    assert "r1[0:1]@g0" in text


def test_running_out_of_time_ends_with_4_and_promises_nothing() -> None:
    result = run(app, ["explore", "--max-seconds", "0"])
    assert result.exit_code == 4
    assert "Out of time: nothing wrong so far, but 1 states were not visited." in squeezed(result.stdout)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--blocks", "0"], "blocks is 0; allowed is 1 to 16"),
        (["--blocks", "17"], "blocks is 17; allowed is 1 to 16"),
        (["--keys", "a,,b"], "key '' is not made of the letters a to z"),
        (["--keys", "a,a"], "names a key twice"),
        (["--refs", "0"], "refs is 0"),
        (["--block-size", "0"], "block size is 0"),
        (["--in-flight", "2"], "in flight is 2; steps are in flight only with commit steps"),
    ],
)
def test_a_scope_that_makes_no_sense_ends_with_2_and_one_line(options: list[str], text: str) -> None:
    result = run(app, ["explore", *options])
    assert result.exit_code == 2
    assert text in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "options", [["--kind", "mamba"], ["--blocks", "three"], ["--depth", "3"], ["--commit", "later"]]
)
def test_a_wrong_option_ends_with_2(options: list[str]) -> None:
    assert run(app, ["explore", *options]).exit_code == 2


def test_a_long_exploration_logs_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LOG_INTERVAL", 0.1)
    result = run(app, ["explore", "--blocks", "2"])
    assert re.search(r"[\d,]+ states, [\d,]+ of them to be visited, depth \d+, [\d,]+ states/s, \d+ s", result.stdout)


def test_help_has_examples() -> None:
    result = run(app, ["explore", "--help"])
    assert result.exit_code == 0
    assert "kvproof explore --blocks 2" in squeezed(result.stdout)


def test_the_version_is_printed() -> None:
    result = run(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("kvproof")
