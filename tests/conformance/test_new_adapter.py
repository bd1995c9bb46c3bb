from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvproof.conformance.backends.claims import check_claims
from kvproof.conformance.backends.interface import AdapterError, Backend, Level
from kvproof.conformance.backends.targets import open_backend
from kvproof.conformance.cli import app
from kvproof.conformance.operations import Evict
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig
from tests.backend_walks import drive
from tests.terminal import squeezed

run = CliRunner().invoke


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, whose modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "adapter", raising=False)
    return tmp_path


@pytest.fixture
def skeleton(folder: Path) -> Iterator[Backend]:
    assert run(app, ["new-adapter", "."]).exit_code == 0
    backend = open_backend("adapter:Adapter")
    yield backend
    backend.close()
    sys.modules.pop("adapter", None)


def test_the_skeleton_claims_level_p_and_no_more(skeleton: Backend) -> None:
    _, claimed = skeleton.identify()
    check_claims(claimed)
    assert claimed.levels == (Level.POOL,)
    assert claimed.operations == ()


@pytest.mark.parametrize("seed", range(20))
def test_the_skeleton_does_as_the_reference(skeleton: Backend, seed: int) -> None:
    assert drive(skeleton, seed, 200) is None


def test_a_skeleton_that_was_broken_is_found(folder: Path) -> None:
    run(app, ["new-adapter", "."])
    file = folder / "adapter.py"
    text = file.read_text()
    reset = "            self._blocks[block_id] = Block("
    broken = text.replace(f"            self._drop(block_id)\n{reset}", reset)
    assert broken != text
    file.write_text(broken)
    backend = open_backend("adapter:Adapter")
    assert any(drive(backend, seed, 200) for seed in range(20))
    sys.modules.pop("adapter", None)


def test_the_skeleton_works_in_a_process_of_its_own(folder: Path) -> None:
    run(app, ["new-adapter", "."])
    backend = open_backend(f"exec:{sys.executable} -m kvproof.conformance.backends.serve adapter:Adapter")
    assert [drive(backend, seed, 100) for seed in range(3)] == [None] * 3
    backend.close()


def test_the_skeleton_says_what_it_does_not_offer(skeleton: Backend) -> None:
    skeleton.start(PoolConfig(2, 1, (GroupConfig(GroupKind.FULL_ATTENTION, 1),)))
    with pytest.raises(AdapterError, match="evict is not claimed"):
        skeleton.run((Evict(()),), observe=False)


@pytest.mark.parametrize(
    ("language", "files"),
    [("python", {"adapter.py"}), ("cpp", {"README.md", "json.hpp", "pool.hpp", "pool_adapter.cpp"})],
)
def test_each_language_has_its_files_and_says_what_is_next(folder: Path, language: str, files: set[str]) -> None:
    result = run(app, ["new-adapter", "a/b", "--language", language])
    assert result.exit_code == 0
    assert {file.name for file in (folder / "a" / "b").iterdir()} == files
    text = squeezed(result.stdout)
    assert all(f"wrote a/b/{name}" in text for name in files)
    assert "next: cd a/b && " in text
    assert "kvproof certify" in text


def test_no_file_is_overwritten(folder: Path) -> None:
    (folder / "json.hpp").write_text("mine")
    result = run(app, ["new-adapter", ".", "--language", "cpp"])
    assert result.exit_code == 2
    assert "json.hpp exists already and is not overwritten" in result.stderr
    assert [file.name for file in folder.iterdir()] == ["json.hpp"]
    assert (folder / "json.hpp").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_said(folder: Path) -> None:
    (folder / "file").write_text("")
    result = run(app, ["new-adapter", "file/below"])
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_a_language_that_there_is_not_is_wrong_usage(folder: Path) -> None:
    result = run(app, ["new-adapter", ".", "--language", "rust"])
    assert result.exit_code == 2
    assert "'python', 'cpp'" in squeezed(result.stderr)
