"""How the program ends, whatever happens within: never with 1, which says that what was examined is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvproof.conformance.cli import app

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

FULL = Path("/dev/full")

INSTEAD = """
import errno, os, sys, types

class Commands(types.ModuleType):
    @property
    def app(self):
        {loading}
        return self.run

    def run(self, prog_name):
        {running}

sys.modules["kvproof.conformance.cli"] = Commands("cli")
from kvproof.conformance.__main__ import main
sys.exit(main())
"""
"""The program around other commands."""


def instead(running: str, loading: str = "pass") -> subprocess.CompletedProcess[str]:
    script = INSTEAD.format(running=running, loading=loading)
    return subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True)


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["--version", "--help", "spec", "certify reference --profile quick"])
def test_output_on_a_full_disk_is_no_verdict(command: str) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kvproof.conformance", *command.split()],
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == "kvproof: standard output cannot be written: No space left on device\n"


def test_output_that_nobody_reads_any_more_is_the_end_without_a_word() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kvproof.conformance", "spec"],
            env=ENVIRONMENT,
            stdout=writes,
            stderr=subprocess.PIPE,
        )
    finally:
        os.close(writes)
    assert (done.returncode, done.stderr) == (141, b"")


def test_complaints_that_cannot_be_written_leave_the_exit_code_as_it_is() -> None:
    if not FULL.exists():
        pytest.skip("needs /dev/full")
    with FULL.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kvproof.conformance", "replay", "nothing"], env=ENVIRONMENT, stderr=full
        )
    assert done.returncode == 2


@pytest.mark.parametrize(
    "error", ["RecursionError('deep')", "OSError(errno.EPIPE, 'of an adapter')", "FileNotFoundError('.')"]
)
def test_what_nobody_expected_is_an_error_of_kvproof_and_shows_where(error: str) -> None:
    done = instead(f"raise {error}")
    assert done.returncode == 70
    assert f"raise {error}" not in done.stdout
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("please report it\n")
    assert "says nothing about what was to be examined" in done.stderr


def test_an_endless_recursion_is_shown_by_its_end() -> None:
    done = instead("self.run(self.app)")
    assert done.returncode == 70
    assert len(done.stderr) < 20_000


def test_the_exit_code_of_a_command_is_that_of_the_program() -> None:
    assert instead("sys.exit(4)").returncode == 4
    assert instead("return 0").returncode == 0


@pytest.mark.parametrize(
    ("running", "loading"),
    [
        ("pass", "raise KeyboardInterrupt"),
        ("raise KeyboardInterrupt", "pass"),
        ("sys.exit(130)", "pass"),
    ],
    ids=["while modules load", "in a command", "as typer ends"],
)
def test_ctrl_c_has_one_text_and_one_code(running: str, loading: str) -> None:
    done = instead(running, loading)
    assert (done.returncode, done.stderr) == (130, "kvproof: interrupted\n")


TOO_LONG = "f" * 5000


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("replay {0}", "there is no file"),
        ("explain {0}", "File name too long"),
        ("explain /dev/zero", "/dev/zero is a device, not a file"),
        ("verify-certificate {0}", "there is no"),
        ("new-adapter {0}", "File name too long"),
        ("certify reference --out {0}", "a name is too long"),
        ("certify reference --known {0}", "File name too long"),
    ],
)
def test_a_name_that_no_file_can_have_is_wrong_usage(command: str, says: str) -> None:
    result = CliRunner().invoke(app, command.format(TOO_LONG).split())
    assert result.exit_code == 2, result.exception
    assert says in result.stderr


@pytest.mark.parametrize("command", ["certify reference", "certify exec:cat", "certify some.module:make"])
def test_a_current_folder_that_is_gone_is_wrong_usage(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 2, result.exception
    assert "the current folder cannot be used (No such file or directory); go to another one" in result.stderr
