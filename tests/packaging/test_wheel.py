"""The core comes with the wheel: one that was built from these sources, or none; a source archive gives the same."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from kvproof.gpu_backend import build

PROJECT = Path(__file__).resolve().parents[2]

QUICK = {"CXXFLAGS": "-O0"}

NO_COMPILER = {"PATH": "/nowhere"}

LOAD = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("build", sys.argv[1])
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)
print(build.load().__file__)
"""


def hatchling(target: str, folder: Path, environment: dict[str, str], project: Path = PROJECT) -> tuple[Path, str]:
    """Build a wheel or a source archive without a network; the file, and what was said."""
    run = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)],
        cwd=project,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    [built] = folder.iterdir()
    return built, run.stdout + run.stderr


def cores(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.endswith(build.SUFFIX)]


def is_pure(wheel: Path) -> bool:
    with zipfile.ZipFile(wheel) as archive:
        [described] = [name for name in archive.namelist() if name.endswith(".dist-info/WHEEL")]
        return "Root-Is-Purelib: true" in archive.read(described).decode()


def load(site: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A new process loads the core of an installed wheel."""
    module = site / "kvproof" / "gpu_backend" / "build.py"
    return subprocess.run(
        [sys.executable, "-c", LOAD, str(module)], env={**os.environ, **environment}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hatchling("wheel", tmp_path_factory.mktemp("wheel"), QUICK)[0]


@pytest.fixture
def site(wheel: Path, tmp_path: Path) -> Path:
    """Where the wheel is installed."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    return tmp_path / "site"


def test_a_wheel_with_the_core_is_of_one_interpreter_and_platform(wheel: Path) -> None:
    interpreter = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert wheel.name.split("-")[2:4] == [interpreter, interpreter]
    assert not wheel.name.endswith("-any.whl")
    assert not is_pure(wheel)
    assert cores(wheel) == [f"kvproof/gpu_backend/{build.shipped_file().name}"]


def test_without_a_compiler_the_wheel_has_no_core_and_says_so(tmp_path: Path) -> None:
    built, said = hatchling("wheel", tmp_path, NO_COMPILER)
    assert built.name.endswith("-py3-none-any.whl")
    assert is_pure(built)
    assert cores(built) == []
    assert "without the native core" in said
    assert "no C++ compiler" in said


def test_the_core_of_the_wheel_needs_neither_compiler_nor_cache(site: Path) -> None:
    run = load(site, **NO_COMPILER, **{build.CACHE: "/proc/no/such/folder"})
    assert run.returncode == 0, run.stderr
    assert Path(run.stdout.strip()).parent == site / "kvproof" / "gpu_backend"


def test_the_core_of_other_sources_is_not_loaded(site: Path, tmp_path: Path) -> None:
    source = site / "kvproof" / "gpu_backend" / "native" / "core.h"
    source.write_text(source.read_text() + "// changed\n")
    run = load(site, **NO_COMPILER, **{build.CACHE: str(tmp_path / "cache")})
    assert run.returncode != 0
    assert "no C++ compiler" in run.stderr
    run = load(site, **{build.CACHE: str(tmp_path / "cache")}, **QUICK)
    assert run.returncode == 0, run.stderr
    assert Path(run.stdout.strip()).parent == tmp_path / "cache"


def test_who_asks_for_other_flags_gets_a_core_with_them(site: Path, tmp_path: Path) -> None:
    run = load(site, **{build.CACHE: str(tmp_path / "cache")}, **QUICK)
    assert run.returncode == 0, run.stderr
    assert Path(run.stdout.strip()).parent == tmp_path / "cache"


def test_a_wheel_from_a_source_archive_is_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    archive, _ = hatchling("sdist", tmp_path / "sdist", {})
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "sources", filter="data")
    [sources] = (tmp_path / "sources").iterdir()
    assert list(sources.rglob(f"*{build.SUFFIX}")) == []
    again, _ = hatchling("wheel", tmp_path / "wheel", QUICK, sources)
    assert again.name == wheel.name
    with zipfile.ZipFile(again) as one, zipfile.ZipFile(wheel) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())


def test_pip_installs_it_with_the_core(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    run = subprocess.run(
        [*command, "--target", str(tmp_path / "site"), str(PROJECT)],
        env={**os.environ, **QUICK},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    loaded = load(tmp_path / "site", **NO_COMPILER, **{build.CACHE: str(tmp_path / "cache")}, CXXFLAGS="")
    assert loaded.returncode == 0, loaded.stderr
    assert not (tmp_path / "cache").exists()


def test_an_editable_install_has_no_core_of_yesterday(tmp_path: Path) -> None:
    program = "import sys; from hatchling.build import build_editable; print(build_editable(sys.argv[1]))"
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    built = tmp_path / run.stdout.split()[-1]
    assert built.name.endswith("-py3-none-any.whl")
    assert cores(built) == []
    with zipfile.ZipFile(built) as archive:
        [paths] = [name for name in archive.namelist() if name.endswith(".pth")]
        roots = archive.read(paths).decode().split()
    assert sorted(roots) == [str(PROJECT / root) for root in ("conformance", "gpu_backend", "reference", "spec")]
    assert list((PROJECT / "gpu_backend").rglob(f"_core-*{build.SUFFIX}")) == []
