from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from kvproof.conformance.commands import prove as command
from kvproof.spec.proofs import run as proofs
from kvproof.spec.proofs.catalogue import MACHINE_MUTANTS
from kvproof.spec.proofs.mutants import mutated
from kvproof.spec.proofs.obligations import MACHINE, Prover
from tests.terminal import squeezed

Run = Callable[..., Any]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in this process; the jobs are those of one transition, as all would take too long here."""
    app = typer.Typer()
    app.command()(command.prove)
    complete = proofs.all_jobs

    def few(timeout_s: float) -> list[proofs.Job]:
        return [job for job in complete(timeout_s) if job.subject in {"initial", "touch", "serve_reserved"}]

    monkeypatch.setattr(command, "WORKERS", 1)
    monkeypatch.setattr(proofs, "all_jobs", few)
    # What is not asked of the other transitions is not missed.
    monkeypatch.setattr(proofs.Report, "_complaints_about_axioms", lambda report: [])
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def plant(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Put a mutant in the place of the machine."""
    [mutant] = [mutant for mutant in MACHINE_MUTANTS if mutant.name == name]
    transitions = mutated(mutant)
    monkeypatch.setattr(proofs, "machine", lambda: transitions)
    monkeypatch.setattr(proofs, "prover", lambda: Prover(transitions))


def test_a_proved_machine_ends_with_0_and_says_what_is_proved_and_assumed(run: Run) -> None:
    result = run()
    assert result.exit_code == 0
    text = squeezed(result.stdout)
    assert "17 INV-SOUND-1 From its ready step on" in text
    assert "touch ····· ····· ····· ····· ····· ·" in text
    assert "· POOL-TOUCH-3 touch: Touching leaves keys" in text
    assert "a key tells its prefix: Keys of different prefixes are different: the hash has no collisions." in text
    assert "operations are atomic: " in text
    assert "1 of 1 transitions can happen in: a recurrent state is read" in text
    assert "1 of 1 planted mutants are refuted by a counterexample" in text
    assert "Proved: 54 of 54 obligations, and none of it vacuous." in text


def test_json_has_the_counts_and_everything_else(run: Run, tmp_path: Path) -> None:
    result = run("--json", str(tmp_path / "proofs.json"))
    assert result.exit_code == 0
    found = json.loads((tmp_path / "proofs.json").read_text(encoding="utf-8"))
    assert found["obligations"] == found["proved"] == len(found["results"]) == 54
    assert set(found) >= {"complaints", "seconds", "z3", "assumptions", "vacuity", "mutants"}
    assert set(found["vacuity"]) == {"guards", "without_axioms", "theorems_without_mutant"}
    assert found["results"][0] == found["results"][0] | {"transition": "initial", "kind": "invariant"}
    assert found["mutants"] == [
        {
            "name": "serve_reserved",
            "transition": "touch",
            "theorem": "INV-SERVED-2",
            "kind": "invariant",
            "refuted": True,
        }
    ]


def test_json_on_the_standard_output_stands_alone(run: Run) -> None:
    result = run("--json", "-")
    assert json.loads(result.stdout)["proved"] == 54
    assert "Proved: 54 of 54" in result.stderr


def test_a_refuted_obligation_ends_with_1_and_shows_the_counterexample(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "touch_a_held_block")
    result = run()
    assert result.exit_code == 1
    text = squeezed(result.stdout)
    assert "touch ·X" in text
    assert "touch / INV-COUNT-1: refuted: there is a counterexample" in text
    assert "The state before satisfies every invariant, the state after breaks this one." in text
    assert re.search(r"» \d", text)
    assert re.search(r"Not accepted: \d\d of 54 obligations are proved, and \d+ complaints", text)


def test_z3_without_an_answer_ends_with_1_and_says_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvproof.spec.proofs.counterexample.find", lambda *arguments: None)
    result = run("--timeout", "0.001")
    assert result.exit_code == 1
    text = squeezed(result.stdout)
    assert re.search(r"touch / INV-\w+-1: unknown: z3 ran into its time-out", text)
    assert "it had 0.001 s for each question" in text
    assert "A slow or busy machine may be the reason: try `kvproof prove --timeout" in text


def test_a_mutant_that_survives_ends_with_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvproof.spec.proofs.vacuity.mutated", lambda mutant: MACHINE)
    result = run()
    assert result.exit_code == 1
    assert "mutant serve_reserved: touch / INV-SERVED-2 stands: there is no counterexample" in squeezed(result.stdout)


def test_a_theorem_without_a_mutant_ends_with_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "unbroken", lambda: ["INV-NULL-1"])
    result = run()
    assert result.exit_code == 1
    assert "INV-NULL-1: no mutant breaks it" in squeezed(result.stdout)


def test_without_z3_it_ends_with_3_and_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    result = run()
    assert result.exit_code == 3
    assert result.stderr.startswith("kvproof prove: z3 cannot be used (")
    assert result.stderr.endswith("; remedy: pip install 'kvproof[proofs]'\n")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--timeout", "0"], "Invalid value for '--timeout'"),
        (["--timeout", "soon"], "Invalid value for '--timeout'"),
        (["--show", "serve_reserve"], "did you mean serve_reserved"),
        (["--show", "xyz"], "there are serve_reserved"),
        (["--json", "/nowhere/proofs.json"], "cannot be written"),
        (["--fast"], "No such option"),
    ],
)
def test_wrong_usage_ends_with_2(run: Run, arguments: list[str], text: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert text in squeezed(result.stderr)


def test_a_mutant_is_shown_with_its_patch_and_its_counterexample(run: Run) -> None:
    result = run("--show", "write_under_a_reader")
    assert result.exit_code == 0
    text = squeezed(result.stdout)
    assert "+ allowed = t.all_of(is_open(t, s), s.writes(b, r), own_text, own_slot, keys_kept)" in text
    assert "write / INV-SERVED-1 does not hold: What a reader was served stays in the block" in text
    assert re.search(r"write\(block \d, r\d, \w+, g0\)", text)
    assert "»" in text


def test_a_mutant_without_a_counterexample_ends_with_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvproof.spec.proofs.counterexample.find", lambda *arguments: None)
    result = run("--show", "serve_reserved")
    assert result.exit_code == 1
    assert "z3 finds no counterexample" in squeezed(result.stdout)


def test_progress_is_a_line_now_and_then(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LOG_INTERVAL", 0.0)
    result = run()
    assert re.search(r"\d of 6 jobs, \d+ s", result.stdout)


def test_several_processes_find_the_same_as_one() -> None:
    jobs = [proofs.Job("proofs", "evict"), proofs.Job("mutants", "serve_reserved")]
    alone, together = (proofs.run_jobs(jobs, workers, lambda done: None) for workers in (1, 2))
    assert [(p.obligation, p.verdict) for p in together.proofs] == [(p.obligation, p.verdict) for p in alone.proofs]
    assert [(r.mutant, r.found) for r in together.refutations] == [("serve_reserved", True)]


def test_the_jobs_cover_everything() -> None:
    jobs = proofs.all_jobs()
    assert len(set(jobs)) == len(jobs)
    assert {job.kind for job in jobs} == set(proofs.KINDS)
    assert {job.subject for job in jobs if job.kind == "mutants"} == {mutant.name for mutant in MACHINE_MUTANTS}


def test_help_has_examples(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "kvproof prove --json proofs.json" in squeezed(result.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has blocked is read as Linux shows it")
def test_an_interrupt_is_for_the_command_and_not_for_each_of_its_workers() -> None:
    deaf: list[bool] = []

    def look(done: int) -> None:
        for worker in active_children():
            status = Path(f"/proc/{worker.pid}/status").read_text()
            [blocked] = re.findall(r"SigBlk:\s*([0-9a-f]+)", status)
            deaf.append(bool(int(blocked, 16) >> (signal.SIGINT - 1) & 1))

    proofs.run_jobs([proofs.Job("proofs", "evict"), proofs.Job("proofs", "free")], 2, look)
    assert deaf
    assert all(deaf)
