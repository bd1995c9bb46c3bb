"""What tools/vllm_environment.py decides, without a network and without making an environment."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kvproof.conformance.engines.vllm import __main__ as command

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the tool with a checkout of its own in `tmp_path`, on a machine that has all it needs."""
    monkeypatch.syspath_prepend(str(PROJECT / "tools"))
    spec = importlib.util.spec_from_file_location("kvproof_vllm", PROJECT / "tools/vllm_environment.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "lacks", list)
    monkeypatch.delenv("TORCH", raising=False)
    monkeypatch.setattr(module.setup, "VENV", tmp_path / ".venv")
    return module


@pytest.fixture
def made(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Replace the making of an environment; collect the release and the torch of each one that is made."""
    found: list[tuple[str, str]] = []

    def make(venv: Path, release: str, torch: str) -> None:
        found.append((release, torch))
        (venv / "bin").mkdir(parents=True)
        (venv / "bin/python").touch()

    monkeypatch.setattr(tool, "make_environment", make)
    return found


def test_a_finished_environment_is_not_made_again(tool: ModuleType, made: list[tuple[str, str]]) -> None:
    assert [tool.main([]), tool.main([])] == [0, 0]
    assert made == [(tool.RELEASE, "")]


def test_a_first_try_that_broke_does_not_pass_for_finished(
    tool: ModuleType, made: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(venv: Path, release: str, torch: str) -> None:
        (venv / "bin").mkdir(parents=True)
        (venv / "bin/python").touch()
        raise tool.SetupFailed("vllm: no network")

    with monkeypatch.context() as first:
        first.setattr(tool, "make_environment", broken)
        assert tool.main([]) == 1
    assert capsys.readouterr().err == "vllm: no network\n"
    assert tool.main([]) == 0
    assert made == [(tool.RELEASE, "")]


def test_it_is_made_anew_when_its_requirements_change(
    tool: ModuleType, made: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "requirements.txt").write_text("numpy==1\n")
    monkeypatch.setattr(tool, "REQUIREMENTS", tmp_path / "requirements.txt")
    tool.main([])
    (tmp_path / "requirements.txt").write_text("numpy==2\n")
    tool.main([])
    assert len(made) == 2


def test_every_release_has_its_own_place_and_the_certified_one_the_adapters(tool: ModuleType) -> None:
    assert tool.environment("0.24.0") == tool.ROOT / "build/vllm-0.24.0/.venv"
    assert tool.environment(tool.RELEASE) / "bin/python" == tool.ROOT / command.BUILT
    assert command.CHECKOUT == PROJECT
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    assert f"VLLM := {tool.RELEASE}\n" in makefile


@pytest.mark.parametrize(
    ("release", "says"), [("0.23.1", "0.23.1 has no partial blocks"), ("new", "'new' is no release")]
)
def test_a_release_that_cannot_be_driven_is_refused_in_one_line(
    tool: ModuleType, made: list[tuple[str, str]], capsys: pytest.CaptureFixture[str], release: str, says: str
) -> None:
    assert tool.main([release]) == 1
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert made == []


def test_what_is_missing_is_said_in_one_line(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "lacks", lambda: [tool.Lack("Python's venv and ensurepip", "python3.11-venv")])
    assert tool.main([]) == 1
    expected = "missing: Python's venv and ensurepip; on Debian or Ubuntu: apt-get install python3.11-venv\n"
    assert capsys.readouterr().err == "vllm: " + expected


def test_why_the_block_pool_does_not_import_is_pythons_last_word(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    assert "No module named" in tool.why_not(tmp_path)


def test_every_requirement_is_pinned(tool: ModuleType) -> None:
    lines = tool.REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    named = [line for line in lines if line and not line.startswith("#")]
    assert len(named) > 40
    assert [line for line in named if line.count("==") != 1] == []
