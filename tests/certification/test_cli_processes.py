"""`kvproof certify` and backends that do not behave: they run in processes of their own, which end with the command."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvproof.conformance.backends import targets
from kvproof.conformance.backends.interface import AdapterError
from kvproof.conformance.backends.process import ProcessBackend
from kvproof.conformance.backends.targets import TargetError, open_subject
from kvproof.conformance.certification.crash import kind_of
from kvproof.conformance.certification.trace import read_file
from kvproof.conformance.cli import app
from kvproof.conformance.operations import name_of

STRANGERS = """
import os, signal, sys, time
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.backends.wire import Answer, Step

class Stranger(ReferenceBackend):
    def run(self, operations, observe):
        self.misbehave()
        return super().run(operations, observe)

class Leaves(Stranger):
    def misbehave(self):
        os._exit(0)

class Crashes(Stranger):
    def misbehave(self):
        os.kill(os.getpid(), signal.SIGSEGV)

class Raises(Stranger):
    def misbehave(self):
        raise KeyError("r1")

class Prints(Stranger):
    def misbehave(self):
        print("loading", flush=True)
        os.write(1, b"weights")

class Sleeps(Stranger):
    def misbehave(self):
        time.sleep(600)

class Torn(ReferenceBackend):
    # Breaks at the second reset of a pool in which something was allocated.

    def start(self, config):
        super().start(config)
        self.allocated, self.resets = False, 0

    def run(self, operations, observe):
        names = [type(each).__name__ for each in operations]
        self.allocated |= "Allocate" in names
        self.resets += names.count("Reset")
        if self.allocated and self.resets > 1:
            raise RuntimeError("the pool is torn " + "x" * 10**5)
        return super().run(operations, observe)

class Once(ReferenceBackend):
    # Breaks after so many operations, wherever that is.

    ran = 0

    def run(self, operations, observe):
        self.ran += len(operations)
        if self.ran > 100:
            os._exit(7)
        return super().run(operations, observe)

class NoJson(ReferenceBackend):
    def run(self, operations, observe):
        return [Step(Answer(object() if "Allocate" in repr(each) else None)) for each in operations]

class NoNumber(ReferenceBackend):
    # Answers so where nothing is to be answered.

    def run(self, operations, observe):
        steps = super().run(operations, observe)
        return [Step(Answer(float("nan")), s.seen, s.events) if s.answer.result is None else s for s in steps]

class Wordless(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class RaisesWordless(Stranger):
    def misbehave(self):
        raise Wordless

def wordless():
    raise Wordless

def leaves():
    os._exit(0)

def fails():
    raise OSError("no device")
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "strangers.py").write_text(STRANGERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


@pytest.mark.parametrize(
    ("target", "code", "says"),
    [
        ("strangers:Leaves", 3, "it ended with exit code 0"),
        ("strangers:leaves", 3, "gave no answer to `hello`: it ended with exit code 0"),
        ("strangers:Crashes", 3, "it was killed by signal 11"),
        ("strangers:Raises", 3, "run() raised KeyError: 'r1'"),
        ("strangers:NoJson", 3, "the answer to allocate(1, holder r1): it cannot be written as JSON"),
        (
            "strangers:NoNumber",
            3,
            "it cannot be written as JSON: nan is no number",
        ),
        ("strangers:RaisesWordless", 3, "run() raised Wordless: (its text cannot be shown)"),
        ("strangers:wordless", 2, "strangers:wordless() failed: Wordless: (its text cannot be shown)"),
        ("strangers:fails", 2, "strangers:fails() failed: OSError: no device"),
        ("strangers:fail", 2, "did you mean fails"),
    ],
)
def test_a_backend_in_python_cannot_end_the_suite(target: str, code: int, says: str) -> None:
    result = CliRunner().invoke(app, ["certify", target, "--profile", "quick"])
    assert result.exit_code == code, result.output
    assert says in result.output


def test_where_a_backend_in_python_broke_is_shown() -> None:
    result = CliRunner().invoke(app, ["certify", "strangers:Raises", "--profile", "quick"])
    assert 'strangers.py", line' in result.output


def test_an_adapter_that_breaks_leaves_the_operations_that_led_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["certify", "strangers:Torn", "--profile", "quick", "--out", "out"])
    assert result.exit_code == 3
    assert "the pool is torn" in result.output
    assert len(result.output) < 20_000
    assert "Where the adapter broke: in stage vectors, after 3 operations" in result.output
    assert "it breaks there again" in result.output
    assert "x" * 10**5 in (tmp_path / "out" / "crash" / "error.txt").read_text()
    trace = read_file(tmp_path / "out" / "crash" / "trace.jsonl")
    assert sorted(map(name_of, trace.operations)) == ["allocate", "reset", "reset"]

    [line] = [line for line in result.output.splitlines() if line.startswith("kvproof replay")]
    again = CliRunner().invoke(app, shlex.split(line)[1:])
    assert again.exit_code == 3
    assert "the pool is torn" in again.output


def test_an_adapter_that_does_not_break_there_again_is_said_not_to(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["certify", "strangers:Once", "--profile", "quick"])
    assert result.exit_code == 3
    assert "it did not break again when they were repeated" in result.output
    assert "With --out DIR the traces are kept" in result.output


def test_errors_of_one_kind_differ_in_names_and_numbers_alone() -> None:
    def kind(text: str) -> str:
        return kind_of(AdapterError(text))

    assert kind("run() raised KeyError: 'r1'\nmore") == kind("run() raised KeyError: 'r2'")
    assert kind("run() raised KeyError: 'r1'") != kind("run() raised IndexError: 1")
    assert kind("gave no answer in 10 s") == kind("gave no answer in 9 s") != kind("it ended with exit code 1")


def test_a_backend_in_python_that_is_late_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def impatient(command: list[str], called: str) -> ProcessBackend:
        return ProcessBackend(command, timeout_s=0.2, called=called)

    monkeypatch.setattr(targets, "ProcessBackend", impatient)
    result = CliRunner().invoke(app, ["certify", "strangers:Sleeps", "--profile", "quick"])
    assert result.exit_code == 3
    assert "'strangers:Sleeps' gave no answer to `run` in 0.2 s" in result.output


def test_what_a_backend_prints_is_not_in_the_way(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = open_subject("strangers:Prints")
    backend.identify()
    assert backend.run((), observe=False) == []
    backend.close()
    assert capfd.readouterr() == ("", "")


def test_a_target_that_is_none_is_no_fault_of_an_adapter() -> None:
    with pytest.raises(TargetError, match="there is no module 'stranger'"):
        open_subject("stranger:Leaves")
    with pytest.raises(AdapterError, match="exit code 0"):
        open_subject("strangers:leaves")


ADAPTER = """
import fcntl, json, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)  # a child that inherits the file holds the lock too
subprocess.Popen(["sleep", "600"], close_fds=False, pass_fds=(lock.fileno(),))
sys.stdin.readline()
claims = {"levels": ["P"]}
print(json.dumps({"message": "introduction", "protocol": 1, "identity": {"name": "n", "version": "1"},
                  "capabilities": claims}), flush=True)
open("waits", "w").close()
time.sleep(600)
"""

CERTIFY = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests under nohup
signal.signal(signal.SIGINT, signal.default_int_handler)  # or in the background of a shell
sys.path[:] = {path!r}
from kvproof.conformance.__main__ import main
sys.exit(main())
"""

SILENT = 'open("waits", "w").close()\ntime.sleep(600)\n'


@pytest.mark.parametrize("silent", [False, True], ids=["in a stage", "while hello is awaited"])
@pytest.mark.parametrize(
    ("number", "says"),
    [
        (signal.SIGTERM, b"kvproof certify: ended by SIGTERM\n"),
        (signal.SIGHUP, b"kvproof certify: ended by SIGHUP\n"),
        (signal.SIGINT, b"kvproof: interrupted\n"),
    ],
    ids=["SIGTERM", "SIGHUP", "SIGINT"],
)
def test_a_signal_ends_the_adapter_too(tmp_path: Path, number: signal.Signals, says: bytes, silent: bool) -> None:
    asked = "sys.stdin.readline()\n"
    (tmp_path / "adapter.py").write_text(ADAPTER.replace(asked, asked + SILENT) if silent else ADAPTER)
    certify = [sys.executable, "-c", CERTIFY.format(path=sys.path), "certify"]
    running = subprocess.Popen(
        [*certify, f"exec:{sys.executable} adapter.py", "--out", "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
        start_new_session=True,
    )
    while not (tmp_path / "waits").exists():
        assert running.poll() is None, running.communicate()
    os.killpg(running.pid, number)  # a terminal tells every process of the command
    said, _ = running.communicate(timeout=20)
    assert running.returncode == 128 + number
    assert said.endswith(says)
    assert b"Traceback" not in said
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits until nobody is left
    assert sorted(each.name for each in tmp_path.iterdir()) == ["adapter.py", "lock", "strangers.py", "waits"]
