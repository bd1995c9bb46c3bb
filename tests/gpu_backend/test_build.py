"""The core is built at first use: once, whole, and with a clear word where that is impossible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from kvproof.gpu_backend import build

LOAD = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("build", sys.argv[1])
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)
print(build.load().__file__)
"""
"""Loads the core alone, without torch."""


def python(cache: Path, **environment: str) -> subprocess.Popen[str]:
    """A new process that loads the core with this cache."""
    return subprocess.Popen(
        [sys.executable, "-c", LOAD, str(Path(build.__file__))],
        env={**os.environ, build.CACHE: str(cache), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_what_is_built_already_is_not_built_again(tmp_path: Path) -> None:
    shutil.copy(build.cached_file(), tmp_path)
    run = python(tmp_path, PATH="/nowhere")
    out, err = run.communicate()
    assert run.returncode == 0, err
    assert Path(out.strip()).parent == tmp_path


def test_two_processes_that_start_at_once_do_each_other_no_harm(tmp_path: Path) -> None:
    quick = "-O0"  # of two flags for optimisation the last one counts
    runs = [python(tmp_path, CXXFLAGS=quick) for _ in range(2)]
    for run in runs:
        out, err = run.communicate()
        assert run.returncode == 0, err
        assert Path(out.strip()).parent == tmp_path
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"PATH": "/nowhere"}, "no C++ compiler"),
        ({"CXX": "no-such-compiler"}, "no-such-compiler"),
        ({"CXXFLAGS": "-no-such-flag"}, "no-such-flag"),
    ],
)
def test_a_core_that_cannot_be_built_says_why(tmp_path: Path, environment: dict[str, str], text: str) -> None:
    run = python(tmp_path, **environment)
    _, err = run.communicate()
    assert run.returncode != 0
    assert "NativeCoreUnavailable" in err
    assert text in err
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_says_how_to_choose_another(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(build.NativeCoreUnavailable, match=build.CACHE):
        build.compile_core(tmp_path / "file" / "core.so")


@pytest.mark.parametrize("rest", [b"", b"no library"])
def test_a_kept_core_that_cannot_be_loaded_is_built_again(tmp_path: Path, rest: bytes) -> None:
    quick = {"CXXFLAGS": "-O0"}
    first = python(tmp_path, **quick)
    out, err = first.communicate()
    assert first.returncode == 0, err
    core = Path(out.strip())
    core.write_bytes(rest)
    again = python(tmp_path, **quick)
    out, err = again.communicate()
    assert again.returncode == 0, err
    assert Path(out.strip()) == core
    assert core.stat().st_size > 10_000


@pytest.mark.parametrize("environment", [{"PATH": "/nowhere"}, {build.CACHE: "/proc/no/such/folder"}])
def test_what_is_missing_is_said_in_one_line_with_the_way_out(tmp_path: Path, environment: dict[str, str]) -> None:
    run = python(tmp_path, **environment)
    _, err = run.communicate()
    assert run.returncode != 0
    last = err.splitlines()[-1]
    assert "NativeCoreUnavailable: " in last
    assert any(way_out in last for way_out in ("apt-get install", f"set {build.CACHE}"))


def test_without_a_home_a_cache_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in (build.CACHE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(build.NativeCoreUnavailable, match=f"home directory.; set {build.CACHE}"):
        build.cached_file()


def test_a_missing_header_of_python_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(build.NativeCoreUnavailable, match=r"Python\.h is missing; install it .*python3-dev"):
        build.compile_core(tmp_path / "core.so")


def test_a_changed_source_is_another_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.digest()
    sources = tmp_path / "native"
    shutil.copytree(build.SOURCES, sources)
    monkeypatch.setattr(build, "SOURCES", sources)
    assert build.digest() == before
    (sources / "core.h").write_text("// another\n")
    assert build.digest() != before
