"""Which files a backend says that it drives: whatever it names, the suite goes on, or says what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kvproof.conformance.backends.interface import AdapterError, Identity
from kvproof.conformance.certification.digests import driven_files, sha256


def driven(name: str) -> dict[str, str]:
    return {file.name: file.sha256 for file in driven_files(Identity("n", "1", files=(name,)))}


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    (tmp_path / "pool.cpp").write_bytes(b"x")
    assert driven(str(tmp_path)) == {f"{tmp_path}/pool.cpp": sha256(b"x")}


def test_the_suite_itself_does_not_look_for_modules_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_pool.py").write_text("")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert list(driven("own_pool")) == ["own_pool/own_pool.py"]
    assert sys.path == before


def test_packages_are_found_where_there_is_no_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert any(name.endswith("pool.py") for name in driven("kvproof.reference"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("f" * 5000, "ff cannot be read: File name too long"),
        ("folder/" + "f" * 5000, "ff cannot be read: File name too long"),
        ("nothing", "'nothing', which is no file, no folder and no module"),
        ("", "'', which is no file"),
        ("a\0b", "which is no file"),
    ],
)
def test_a_name_of_no_file_is_the_adapters_error(name: str, says: str) -> None:
    with pytest.raises(AdapterError, match=says):
        driven(name)
