"""The core without Python, as it is run on other machines, does what the core does here, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvproof.gpu_backend import build
from tests.gpu_backend.tools import script
from tests.gpu_backend.variants import sabotaged

replay_core = script("replay_core")

needs_a_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")


@pytest.fixture(scope="module")
def recording() -> object:
    """Eight pools of different kinds, in small and large rooms."""
    return replay_core.record(range(1, 9), 100)


@needs_a_compiler
def test_the_replayed_core_leaves_the_same_arenas(recording: object) -> None:
    expected = recording.expected  # type: ignore[attr-defined]
    assert len(expected) > 300 + len(replay_core.LENGTHS)
    assert replay_core.replay(recording) == expected


@needs_a_compiler
def test_another_core_leaves_other_arenas(recording: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = sabotaged(tmp_path, {"queue.h": ("  p.ring[block.place] = kHole;\n  block.place", "  block.place")})
    monkeypatch.setattr(build, "SOURCES", wrong / "kvproof" / "gpu_backend" / "native")
    assert replay_core.replay(recording) != recording.expected  # type: ignore[attr-defined]


def test_every_operation_is_recorded(recording: object) -> None:
    numbers, operations = recording.numbers, set()  # type: ignore[attr-defined]
    at = 0
    while (at := _next(numbers, replay_core.RUN, at)) >= 0:
        operations.add(numbers[at + 2])
        at += 1
    missing = {name for name, number in replay_core.OPCODES.items() if number not in operations}
    assert missing <= {"write", "read"}


def _next(numbers: object, number: int, at: int) -> int:
    try:
        return numbers.index(number, at)  # type: ignore[attr-defined, no-any-return]
    except (ValueError, IndexError):
        return -1


def test_what_is_missing_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.argv", ["replay_core.py", "--arm64"])
    assert replay_core.main() == 2
    assert capsys.readouterr().err == ("the core cannot be replayed: apt-get install g++-aarch64-linux-gnu qemu-user\n")
