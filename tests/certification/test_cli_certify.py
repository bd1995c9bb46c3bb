from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kvproof.conformance.certification import examine, profiles
from kvproof.conformance.certification.profiles import Profile
from kvproof.conformance.certification.trace import read_file, trace_of, write
from kvproof.conformance.cli import app
from kvproof.conformance.commands import certify as command
from kvproof.conformance.operations import Allocate, CachePartialBlock, Evict, Free, KeyRef, Operation, Touch, Write
from kvproof.conformance.scope import Scope
from kvproof.conformance.streams import NotWritten
from kvproof.conformance.vectors import DamagedVectors

SHORT = Profile("quick", walks=3, illegal_walks=2, operations=100, exhaustive=False, workloads=False, hybrid_walks=40)

SCOPE = Scope(2, ("a", "aa"), 1)

LIFE = (
    Write("r1", 1, 2, 0),
    CachePartialBlock("r1", 1, 2, 0),
    Free("r1", (1,)),
    Touch("r1", 1, KeyRef("r1", 0, 2)),
)

BROKEN = "tests.certification.doubles:broken"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(profiles.PROFILES, "quick", SHORT)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["certify", *arguments], env={"COLUMNS": "160", "TERM": "dumb"})


@pytest.mark.usefixtures("few_vectors")
def test_a_failure_is_shown_with_its_clause_and_its_trace(tmp_path: Path) -> None:
    result = run(BROKEN, "--profile", "quick", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1, result.output
    assert "POOL-TOUCH-1" in result.output
    assert "not conformant" in result.output
    folders = list((tmp_path / "out" / "failures").iterdir())
    assert folders
    assert all((folder / "trace.jsonl").exists() for folder in folders)
    assert "<script" in (tmp_path / "out" / "report.html").read_text()

    again = CliRunner().invoke(app, ["replay", str(folders[0] / "trace.jsonl"), "--target", BROKEN])
    assert again.exit_code == 1, again.output


def test_without_all_vectors_nothing_is_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged() -> tuple[()]:
        raise DamagedVectors("vectors are missing (86-joint-hit.jsonl)")

    monkeypatch.setattr(examine, "vectors", damaged)
    result = run("reference", "--profile", "quick")
    assert result.exit_code == 4
    assert result.stderr == "kvproof certify: vectors are missing (86-joint-hit.jsonl)\n"


def test_a_trace_is_made_short(tmp_path: Path) -> None:
    long: list[Operation] = [*SCOPE.arrivals, Allocate("r1", 1), Evict((1,)), *LIFE, Allocate("r1", 1)]
    (tmp_path / "long.jsonl").write_text(write(trace_of(SCOPE.config, long)))
    arguments = ["shrink", str(tmp_path / "long.jsonl"), "--target"]
    result = CliRunner().invoke(app, [*arguments, BROKEN, "--out", str(tmp_path / "short.jsonl")])
    assert result.exit_code == 0, result.output
    assert "POOL-TOUCH-1" in result.output
    short = read_file(tmp_path / "short.jsonl")
    assert len(short.steps) < len(long)
    assert CliRunner().invoke(app, ["replay", str(tmp_path / "short.jsonl"), "--target", BROKEN]).exit_code == 1

    assert CliRunner().invoke(app, [*arguments, "reference"]).exit_code == 4
    assert CliRunner().invoke(app, [*arguments, "nobody"]).exit_code == 2
    assert CliRunner().invoke(app, ["shrink", str(tmp_path / "none"), "--target", "reference"]).exit_code == 2


def test_known_divergences_are_read_before_anything_is_run(tmp_path: Path) -> None:
    result = run("reference", "--known", str(tmp_path / "none.toml"))
    assert result.exit_code == 2
    assert "none.toml cannot be read" in result.output


@pytest.mark.usefixtures("few_vectors")
def test_a_full_disk_is_said_and_leaves_nothing_that_looks_like_a_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    result = run("reference", "--profile", "quick", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2, result.output
    assert "out cannot be written: the disk is full. Name another folder with --out." in result.output
    assert "inconclusive" in result.output  # what was found out is said all the same
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_written_before_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise NotWritten(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    monkeypatch.setattr(command, "show_run", broken)
    monkeypatch.setitem(profiles.PROFILES, "quick", replace(SHORT, walks=0, illegal_walks=0, hybrid_walks=0))
    monkeypatch.setattr(examine, "vectors", tuple)
    with pytest.raises(NotWritten):
        run("reference", "--profile", "quick", "--out", str(tmp_path / "out"))
    assert (tmp_path / "out" / "report.html").exists()


def test_a_run_that_put_nothing_to_the_test_has_an_exit_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(profiles.PROFILES, "quick", replace(SHORT, walks=0, illegal_walks=0, hybrid_walks=0))
    monkeypatch.setattr(examine, "vectors", tuple)
    result = run("reference", "--profile", "quick", "--out", str(tmp_path / "out"))
    assert result.exit_code == 5, result.output
    assert "nothing ran" in result.output
    assert "no certificate: nothing was exercised" in result.output
    assert not (tmp_path / "out" / "certificate.json").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nobody"], 2, "no backend 'nobody'"),
        (["no.such.module:make"], 2, "no module"),
        (["exec:false"], 3, "exit code 1"),
        (["reference", "--profile", "quik"], 2, "quick, standard, deep"),
        (["reference", "--profile", "quick", "--seed", "-1"], 2, "seed"),
        (["reference", "--profile", "quick", "--budget", "3"], 2, "--budget is for --profile deep"),
    ],
)
def test_what_cannot_be_run_is_said_with_the_right_exit_code(arguments: list[str], code: int, says: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert says in result.output


def test_a_folder_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    result = run("reference", "--profile", "quick", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "exists already" in result.output


def test_an_interrupted_run_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "examine", interrupt)
    result = run("reference", "--profile", "quick", "--out", str(tmp_path / "out"))
    assert result.exit_code == 130
    assert list(tmp_path.iterdir()) == []


def test_a_certificate_can_be_verified_and_an_edited_one_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(profiles.PROFILES, "quick", profiles.QUICK)
    out = tmp_path / "out"
    result = run("reference", "--profile", "quick", "--out", str(out))
    assert result.exit_code == 0, result.output
    certificate = json.loads((out / "certificate.json").read_text())
    assert certificate["run"]["seed"] == 1
    verify = ["verify-certificate", str(out)]
    assert CliRunner().invoke(app, verify).exit_code == 0
    (out / "report.html").write_text("nothing")
    assert CliRunner().invoke(app, verify).exit_code != 0
