from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvproof.conformance.certification import control, examine, trials
from kvproof.conformance.certification.control import ControlBeside, last_control, planted, record_of
from kvproof.conformance.certification.profiles import Profile
from kvproof.conformance.certification.trace import Trace
from kvproof.conformance.certification.trials import Trial, Trials, attempt, complaints_about, load, mutant_named, save
from kvproof.conformance.certification.trials_page import page_of
from kvproof.conformance.cli import app
from kvproof.conformance.commands import certify_mutants as command
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.mutant import FAULT_KINDS, Mutant
from kvproof.conformance.mutation.patch import Patch
from kvproof.conformance.mutation.unseen import Unseen, listed, seen_as, why_unseen
from kvproof.conformance.vectors import DamagedVectors, vectors_of
from kvproof.spec.clauses import clauses

SHORT = Profile("short", walks=2, illegal_walks=2, operations=100, exhaustive=False, workloads=False)

HARMLESS = Mutant(
    name="text_of_an_error_differs",
    clauses=("POOL-ALLOC-3",),
    fault="F03",
    harm="None: it is a reference that is right.",
    patch=Patch("kvproof.reference.references", "blocks asked for, ", "blocks were asked for, "),
)

SAMPLE = [mutant for mutant in planted() if mutant.patch.module != "kvproof.reference.content"][::11]
"""Mutants from all over the catalogue. The vectors of content are of level D, so that others have to notice its own."""

TWO = [mutant_named("stale_hash_is_not_seen"), mutant_named("mask_is_ignored")]
"""The first one is noticed by no vector; nobody could."""

HARD_TO_NAME = [
    "blocks_are_allocated_before_hits_are_touched",
    "key_moves_away_from_its_reader",
    "state_that_was_left_stays_held",
    "aborted_request_is_only_freed",
]
"""Mutants whose failures look like those of a neighbouring clause."""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "STANDARD", SHORT)
    monkeypatch.setattr(trials, "UNSEEN", SHORT)
    monkeypatch.setattr(trials, "PATIENCE", 0.1)


# Which mutants a certification has to notice


def test_every_mutant_that_is_listed_exists_and_every_reason_is_given_for_one() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert listed() <= names
    assert {why_unseen(mutant) for mutant in MUTANTS} == {*Unseen, None}
    assert all(reason.value.endswith(".") for reason in Unseen)


def test_what_is_of_the_suite_alone_needs_no_list_and_what_is_of_the_pool_has_to_be_noticed() -> None:
    assert {why_unseen(m) for m in MUTANTS if m.patch.module == "kvproof.reference.invariants"} == {Unseen.CHECKER}
    assert why_unseen(mutant_named("mask_is_ignored")) is None
    assert len(planted()) > 200


def test_every_clause_that_a_mutant_has_to_fail_by_exists() -> None:
    assert {clause for mutant in planted() for clause in seen_as(mutant)} <= set(clauses())


# A sample of them


@pytest.mark.parametrize("mutant", [*SAMPLE, *map(mutant_named, HARD_TO_NAME)], ids=lambda mutant: mutant.name)
def test_a_mutant_fails_by_a_clause_that_it_breaks(
    short: None, monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    monkeypatch.setattr(examine, "vectors", lambda: vectors_of(seen_as(mutant)))
    trial = attempt(mutant, 1)
    assert complaints_about(trial) == []
    assert trial.operations > 0


def test_the_sample_is_spread_over_the_catalogue() -> None:
    assert len(SAMPLE) >= 18
    assert len({mutant.fault for mutant in SAMPLE}) >= 8
    assert len({mutant.patch.module for mutant in SAMPLE}) >= 8


# A survivor


def test_a_mutant_that_gets_away_is_red(
    short: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def in_this_process(names: list[str], seed: int, workers: int, report: object) -> Trials:
        return Trials(seed=seed, patience=0.1, trials=tuple(attempt(mutant_named(name), seed) for name in names))

    monkeypatch.setattr(trials, "MUTANTS", (HARMLESS,))
    monkeypatch.setattr("kvproof.conformance.commands.mutants.MUTANTS", (HARMLESS,))
    monkeypatch.setattr(command, "run_trials", in_this_process)
    file = tmp_path / "results.json"
    result = CliRunner().invoke(app, ["certify-mutants", "--json", str(file)])
    assert result.exit_code == 1, result.output
    assert f"{HARMLESS.name}: no stage noticed it" in result.output
    assert [trial.kill_seconds for trial in load(file).trials] == [None]
    assert "**not noticed**" in page_of(load(file))


KILLED = Trial(
    mutant="mask_is_ignored",
    noticed_after={"vectors": 0.5, "random": 0.25},
    kill_seconds=0.5,
    clauses=("REG-FULL-2",),
    operations=4,
)
SPARED = Trial(mutant="stale_hash_is_not_seen")
RUN = Trials(seed=3, patience=0.5, trials=(KILLED, SPARED))


@pytest.mark.parametrize(
    ("trial", "says"),
    [
        (KILLED, []),
        (SPARED, []),
        (Trial(mutant="mask_is_ignored"), ["no stage noticed it"]),
        (Trial(mutant="mask_is_ignored", error="stage smoke: it broke"), ["stage smoke: it broke"]),
        (
            Trial(mutant="mask_is_ignored", noticed_after={"random": 1.0}, clauses=("REG-FULL-1",)),
            ["it breaks REG-FULL-2, but its failures are of REG-FULL-1"],
        ),
        (
            Trial(mutant="stale_hash_is_not_seen", noticed_after={"random": 1.0}),
            ["it is listed as unseen (CHECKER), but stage random noticed it"],
        ),
    ],
)
def test_what_is_wrong_with_a_trial_is_said(trial: Trial, says: list[str]) -> None:
    assert complaints_about(trial) == says


def test_a_mutant_that_loops_is_an_error_and_no_kill(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for_ever = Patch(
        "kvproof.reference.references", "        taken = [", "        while n:\n            pass\n        taken = ["
    )
    monkeypatch.setattr(trials, "MOST_SECONDS", 1)
    trial = attempt(Mutant("it_loops", ("POOL-ALLOC-1",), "F03", "It never answers.", for_ever), 1)
    assert (trial.error, trial.kill_seconds) == ("it took more than 1 s", None)


def test_mutants_are_certified_in_processes_of_their_own() -> None:
    heard: list[str] = []
    run = trials.run_trials(["stale_hash_is_not_seen"], 1, 1, lambda trial: heard.append(trial.mutant))
    assert [(trial.mutant, trial.error, trial.noticed_after) for trial in run.trials] == [(heard[0], "", {})]
    assert run.trials[0].cpu_seconds > 0


def test_a_mutant_that_does_not_exist_is_a_usage_error() -> None:
    result = CliRunner().invoke(app, ["certify-mutants", "--only", "mask_is_ignord"], env={"COLUMNS": "160"})
    assert result.exit_code == 2
    assert "mask_is_ignored" in result.output


# What is written


def test_results_survive_their_file_and_the_page_shows_them(tmp_path: Path) -> None:
    save(RUN, tmp_path / "new" / "results.json")
    assert load(tmp_path / "new" / "results.json") == RUN
    page = page_of(RUN)
    assert "| `mask_is_ignored` | REG-FULL-2 | **REG-FULL-2** | 4 | 0.50 | - | 0.25 | - | - | 0.50 |" in page
    assert "1 of 1 are noticed. First by: vectors 1. Noticed at all by: vectors 1, exhaustive 0, random 1" in page
    assert "Kill: median 0.50 CPU s, at most 0.50." in page
    assert "**checker** (1)" in page
    assert "`stale_hash_is_not_seen`." in page


def test_quick_cites_the_last_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(control, "RECORD", tmp_path / "control.json")
    assert last_control() is None
    (tmp_path / "control.json").write_bytes(record_of(RUN))
    cited = last_control()
    assert cited is not None
    assert (cited.planted, cited.caught, cited.missed, cited.median_seconds) == (1, 1, (), 0.5)
    assert [(fault.mutant, fault.stage) for fault in cited.faults] == [("mask_is_ignored", "vectors")]
    assert "changed" not in cited.source

    monkeypatch.setattr(control, "suite_digest", lambda: "another")
    cited = last_control()
    assert cited is not None
    assert cited.source.endswith("; files of kvproof itself have changed since then")


def test_the_record_that_is_shipped_has_most_mutants_and_none_that_got_away() -> None:
    shipped = last_control()
    assert shipped is not None
    assert shipped.missed == ()
    assert shipped.planted >= 0.9 * len(planted())
    assert shipped.median_seconds <= 3


def test_what_got_away_is_in_the_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(control, "RECORD", tmp_path / "control.json")
    missed = Trials(seed=3, patience=0.5, trials=(KILLED, Trial(mutant="last_slot_is_left_out")))
    (tmp_path / "control.json").write_bytes(record_of(missed))
    cited = last_control()
    assert cited is not None
    assert (cited.planted, cited.caught, cited.missed) == (2, 1, ("last_slot_is_left_out",))


# The control of a run


def test_the_control_plants_every_kind_of_fault_and_says_how_fast_each_was_caught() -> None:
    assert {mutant.fault for mutant in planted()} == set(FAULT_KINDS) - {"F17"}
    with ControlBeside(SAMPLE) as beside:
        found = beside.control()
    assert (found.planted, found.caught, found.missed) == (len(SAMPLE), len(SAMPLE), ())
    assert [fault.mutant for fault in found.faults] == [mutant.name for mutant in SAMPLE]
    assert 0 < found.median_seconds <= found.most_seconds


def test_the_control_says_what_it_missed() -> None:
    with ControlBeside(TWO) as beside:
        found = beside.control()
    assert (found.planted, found.caught, found.missed) == (2, 1, ("stale_hash_is_not_seen",))


def test_what_the_process_beside_leaves_open_is_run_here() -> None:
    with ControlBeside(TWO) as beside:
        beside._process.kill()
        found = beside.control()
    assert (found.planted, found.caught, found.missed) == (2, 1, ("stale_hash_is_not_seen",))


def test_what_is_wrong_with_the_suite_itself_is_told_where_the_rest_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(clauses: object) -> list[Trace]:
        raise DamagedVectors("torn")

    monkeypatch.setattr(control, "vectors_of", damaged)
    with ControlBeside(TWO) as beside:
        beside._process.kill()
        with pytest.raises(DamagedVectors):
            beside.control()


@pytest.mark.parametrize("name", ["random.py", "msgspec.py", "kvproof.py", "sitecustomize.py"])
def test_the_process_beside_imports_nothing_of_the_current_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text("open('imported', 'w').close()\nraise RuntimeError\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with ControlBeside(TWO) as beside:
        assert beside.control().caught == 1
        assert beside._process.wait() == 0
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_the_process_beside_ends_when_the_run_is_left_early() -> None:
    with ControlBeside() as beside:
        assert beside._process.poll() is None
    assert beside._process.returncode == -signal.SIGKILL


def test_an_interrupt_of_all_processes_of_a_command_is_not_for_the_one_beside() -> None:
    with ControlBeside(TWO) as beside:
        assert os.getpgid(beside._process.pid) != os.getpgid(0)
        beside.control()
        assert beside._process.wait() == 0


ENDS_AT_ONCE = """
import os, sys
sys.path[:] = {path!r}
from kvproof.conformance.certification.control import ControlBeside
print(ControlBeside().__enter__()._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process does is read as Linux shows it")
def test_the_process_beside_does_not_outlive_a_run_that_is_killed() -> None:
    started = [sys.executable, "-c", ENDS_AT_ONCE.format(path=sys.path)]
    run = subprocess.run(started, capture_output=True, text=True, timeout=30)
    assert (run.returncode, run.stderr) == (-signal.SIGKILL, "")
    beside = Path("/proc", run.stdout.strip(), "cmdline")
    ends = time.monotonic() + 30
    while beside.exists() and beside.read_bytes():  # one that has ended, and that nobody waits for, has no command
        assert time.monotonic() < ends
        time.sleep(0.1)


CERTIFY_MUTANTS = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background of a shell
sys.path[:] = {path!r}
from kvproof.conformance.__main__ import main
if __name__ == "__main__":
    sys.exit(main())
"""


def test_an_interrupt_ends_all_trials_at_once() -> None:
    command = [sys.executable, "-c", CERTIFY_MUTANTS.format(path=sys.path), "certify-mutants"]
    running = subprocess.Popen(
        [*command, "--only", "mask_is_ignored", "--only", "null_block_is_evicted"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    time.sleep(4)  # until the trials have begun; each takes longer than a minute
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    said, _ = running.communicate(timeout=20)
    assert (running.returncode, said) == (130, b"kvproof: interrupted\n")
