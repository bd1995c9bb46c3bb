"""The four roots are one namespace, and the wheel ships exactly what they hold, and the native core."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kvproof.gpu_backend import build

PROJECT = Path(__file__).resolve().parents[2]
PARTS = ("spec", "reference", "gpu_backend", "conformance")


def package(part: str) -> Path:
    return PROJECT / part / "kvproof" / part


def files_of_checkout(folder: Path) -> set[Path]:
    """List what git tracks or would track: caches and compiled files are no part of a checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", str(folder)]
    listed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("needs a git checkout, to tell sources from build products")
    return {path for name in listed.stdout.split("\0") if name and (path := PROJECT / name).is_file()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build the wheel without a network and list its files."""
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
    quick = {**os.environ, "CXXFLAGS": "-O0"}
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, env=quick)
    (built,) = target.glob("kvproof-*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize("part", PARTS)
def test_no_root_makes_kvproof_a_regular_package(part: str) -> None:
    assert not (PROJECT / part / "kvproof" / "__init__.py").exists(), "it would hide the other three roots"


@pytest.mark.parametrize("part", PARTS)
def test_a_root_holds_its_own_package_and_no_other(part: str) -> None:
    folders = {path.name for path in (PROJECT / part / "kvproof").iterdir() if path.name != "__pycache__"}
    assert folders == {part}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ["__init__.py", "py.typed"])
def test_each_package_is_regular_and_typed(part: str, name: str) -> None:
    assert (package(part) / name).is_file()


def test_the_wheel_holds_every_file_of_the_four_packages_the_core_and_nothing_else(wheel: set[str]) -> None:
    shipped = {name for name in wheel if not name.split("/")[0].endswith(".dist-info")}
    expected = {
        path.relative_to(PROJECT / part).as_posix() for part in PARTS for path in files_of_checkout(package(part))
    }
    assert shipped == expected | {f"kvproof/gpu_backend/{build.shipped_file().name}"}


def test_the_wheel_ships_the_license(wheel: set[str]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel)
