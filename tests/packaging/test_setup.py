"""What tools/setup.py decides, without a network and without making an environment."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SETUP = PROJECT / "tools" / "setup.py"
OLDEST_PARSED = (3, 6)

PYPROJECT = """
[build-system]
requires = ["hatchling"]
[project]
name = "kvproof"
[tool.hatch.build]
dev-mode-dirs = ["spec"]
[tool.ruff]
line-length = 120
"""


class Disk(NamedTuple):
    total: int
    used: int
    free: int


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kvproof_setup", SETUP)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load setup.py with a checkout of its own in `tmp_path`, on a machine that has all it needs."""
    module = load()
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "constraints.txt").write_text("numpy==1\n# --- torch and what only torch needs\ntorch==2.13.0\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "OLD", tmp_path / ".venv.old")
    monkeypatch.setattr(module, "CONSTRAINTS", tmp_path / "constraints.txt")
    for check in ("lacks_venv", "lacks_compiler", "lacks_header", "lacks_space"):
        monkeypatch.setattr(module, check, list)
    return module


@pytest.fixture
def made(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the making of an environment; collect the torch of each one that is made."""
    torches: list[str] = []

    def make(choice: str) -> None:
        torches.append(choice)
        (setup.VENV / "bin").mkdir(parents=True, exist_ok=True)
        (setup.VENV / "bin" / "python").touch()

    monkeypatch.setattr(setup, "make_environment", make)
    return torches


def test_a_finished_environment_is_not_made_again(setup: ModuleType, made: list[str]) -> None:
    setup.setup("")
    setup.setup("")
    assert made == [""]


def test_a_first_try_that_broke_does_not_pass_for_finished(
    setup: ModuleType, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(choice: str) -> None:
        (setup.VENV / "bin").mkdir(parents=True)
        (setup.VENV / "bin" / "python").touch()
        raise setup.SetupFailed("no network")

    with monkeypatch.context() as first_try:
        first_try.setattr(setup, "make_environment", broken)
        with pytest.raises(setup.SetupFailed):
            setup.setup("")
    setup.setup("")
    assert made == [""]


def test_other_constraints_make_it_anew(setup: ModuleType, made: list[str]) -> None:
    setup.setup("")
    setup.CONSTRAINTS.write_text("numpy==2\n")
    setup.setup("")
    assert len(made) == 2


@pytest.mark.parametrize(
    ("old", "new", "times"),
    [
        ('name = "kvproof"', 'name = "kvproof"\ndependencies = ["rich"]', 2),
        ("line-length = 120", "line-length = 99", 1),
    ],
    ids=["a dependency", "a lint rule"],
)
def test_pyproject_makes_it_anew_only_where_it_says_what_to_install(
    setup: ModuleType, made: list[str], old: str, new: str, times: int
) -> None:
    setup.setup("")
    (setup.ROOT / "pyproject.toml").write_text(PYPROJECT.replace(old, new))
    setup.setup("")
    assert len(made) == times


def test_another_python_makes_it_anew(setup: ModuleType, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    setup.setup("")
    monkeypatch.setattr(setup.platform, "python_version", lambda: "3.99.0")
    setup.setup("")
    assert len(made) == 2


def test_an_environment_whose_python_is_gone_is_made_anew(setup: ModuleType, made: list[str]) -> None:
    setup.setup("")
    (setup.VENV / "bin" / "python").unlink()
    setup.setup("")
    assert len(made) == 2


def test_the_torch_that_was_chosen_stays_chosen(setup: ModuleType, made: list[str]) -> None:
    setup.setup("torch==2.8.0")
    setup.setup("")
    assert made == ["torch==2.8.0"]


def test_another_torch_makes_it_anew(setup: ModuleType, made: list[str]) -> None:
    setup.setup("")
    setup.setup("torch==2.8.0")
    assert made == ["", "torch==2.8.0"]


def test_a_wheel_that_was_built_again_makes_it_anew(setup: ModuleType, made: list[str], tmp_path: Path) -> None:
    wheel = tmp_path / "torch.whl"
    wheel.write_bytes(b"first build")
    setup.setup(str(wheel))
    wheel.write_bytes(b"the second build")
    setup.setup("")
    assert made == [str(wheel)] * 2


def break_off(setup: ModuleType, monkeypatch: pytest.MonkeyPatch, asked: str, end: BaseException) -> None:
    """Run a setup that ends in `end` halfway through the new environment."""

    def broken(choice: str) -> None:
        (setup.VENV / "bin").mkdir(parents=True)
        (setup.VENV / "half").touch()
        raise end

    with monkeypatch.context() as this_try:
        this_try.setattr(setup, "make_environment", broken)
        with pytest.raises(type(end)):
            setup.setup(asked)


@pytest.mark.parametrize("end", [OSError("disk full"), KeyboardInterrupt()], ids=["failure", "Ctrl-C"])
def test_a_finished_environment_outlives_a_failed_try_and_so_does_its_torch(
    setup: ModuleType, made: list[str], monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    setup.setup("torch==2.8.0")
    (setup.VENV / "mine").touch()
    break_off(setup, monkeypatch, "torch==99.0", end)
    assert (setup.VENV / "mine").exists()
    assert not (setup.VENV / "half").exists()
    assert not setup.OLD.exists()
    setup.setup("")
    assert made == ["torch==2.8.0"]


def test_the_torch_stays_chosen_after_a_failed_try_where_python_is_gone(
    setup: ModuleType, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.setup("torch==2.8.0")
    (setup.VENV / "bin" / "python").unlink()
    break_off(setup, monkeypatch, "", setup.SetupFailed("no network"))
    setup.setup("")
    assert made == ["torch==2.8.0"] * 2


def test_the_old_environment_goes_when_the_new_one_is_finished(setup: ModuleType, made: list[str]) -> None:
    setup.setup("")
    (setup.VENV / "mine").touch()
    setup.setup("torch==2.8.0")
    assert not (setup.VENV / "mine").exists()
    assert not setup.OLD.exists()


def test_a_finished_environment_is_not_called_unfinished(
    setup: ModuleType, made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    setup.setup("")
    setup.setup("torch==2.8.0")
    said = capsys.readouterr().out
    assert "keeps the old .venv" in said
    assert "no setup finished it" not in said


@pytest.mark.parametrize("half", [False, True], ids=["nothing new yet", "half a new one"])
def test_a_setup_that_was_killed_is_recovered_from(setup: ModuleType, made: list[str], half: bool) -> None:
    setup.setup("torch==2.8.0")
    setup.set_aside()
    if half:
        (setup.VENV / "bin").mkdir(parents=True)
    setup.setup("")
    assert made == ["torch==2.8.0"]
    assert setup.read_stamp(setup.VENV)
    assert not setup.OLD.exists()


def test_a_setup_that_was_killed_after_its_stamp_keeps_the_new_environment(setup: ModuleType, made: list[str]) -> None:
    setup.setup("")
    shutil.copytree(setup.VENV, setup.OLD)
    (setup.VENV / "new").touch()
    setup.setup("")
    assert (setup.VENV / "new").exists()
    assert not setup.OLD.exists()
    assert made == [""]


def test_a_half_removed_environment_is_not_put_back(
    setup: ModuleType, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    setup.setup("")
    setup.set_aside()
    with monkeypatch.context() as this_try:
        this_try.setattr(setup.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            setup.remove(setup.OLD)
    setup.setup("")
    assert made == ["", ""]
    assert not setup.OLD.exists()


@pytest.mark.parametrize(
    "asked", ["nope.whl", "no/torch", "./nope.whl[opt]", "file:///no/torch.whl", "torch @ file:///no/torch.whl"]
)
def test_a_local_torch_that_does_not_exist_is_refused_before_anything_is_done(
    setup: ModuleType, made: list[str], asked: str
) -> None:
    setup.setup("")
    before = {path: path.stat().st_mtime_ns for path in setup.ROOT.rglob("*")}
    with pytest.raises(setup.SetupFailed, match="does not exist") as failure:
        setup.setup(asked)
    assert f"TORCH={asked} " in str(failure.value)
    assert "\n" not in str(failure.value)
    assert {path: path.stat().st_mtime_ns for path in setup.ROOT.rglob("*")} == before
    assert made == [""]


@pytest.mark.parametrize(
    "asked",
    [
        "torch",
        "torch==2.8.0",
        "torch[opt]>=2,<3",
        "https://example.org/torch.whl",
        "torch @ https://example.org/torch.whl",
        "git+https://example.org/torch",
    ],
)
def test_a_requirement_or_a_url_is_no_local_path(asked: str) -> None:
    assert load().local_path(asked) is None


@pytest.mark.parametrize("form", ["{}", "{}[opt]", "file://{}", "torch @ file://{}"])
def test_a_local_torch_that_exists_is_accepted(setup: ModuleType, made: list[str], tmp_path: Path, form: str) -> None:
    wheel = tmp_path / "torch@2.whl"
    wheel.touch()
    setup.setup(form.format(wheel))
    assert made == [form.format(wheel)]


def test_a_wheel_that_went_after_the_setup_is_named(setup: ModuleType, made: list[str], tmp_path: Path) -> None:
    wheel = tmp_path / "torch.whl"
    wheel.touch()
    setup.setup(str(wheel))
    wheel.unlink()
    with pytest.raises(setup.SetupFailed, match=r"that \.venv was made with does not exist"):
        setup.setup("")
    assert made == [str(wheel)]
    assert setup.read_stamp(setup.VENV)


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("python", ["/bin/true", "/bin/echo", "python9", "/bin/sh", ""])
def test_make_says_in_one_line_that_python_is_none(tmp_path: Path, python: str) -> None:
    shutil.copy(PROJECT / "Makefile", tmp_path)
    # These tests are themselves run by make, which tells the makes below it to report where they are.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    run = subprocess.run(
        ["make", "setup", f"PYTHON={python}"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert run.returncode
    assert run.stdout == ""
    said = [line for line in run.stderr.splitlines() if not line.startswith("make")]
    assert len(said) == 1
    assert f"'{python}' is not a Python 3 that runs" in said[0]


def test_the_pins_of_the_default_torch_do_not_bind_another_one(setup: ModuleType) -> None:
    setup.VENV.mkdir()
    assert "torch==" in setup.constraints_for("").read_text()
    assert setup.constraints_for("torch==2.8.0").read_text() == "numpy==1\n"


def test_the_constraints_have_the_line_that_parts_torch_from_the_rest() -> None:
    setup = load()
    general, marker, pins_of_torch = setup.CONSTRAINTS.read_text().partition(setup.TORCH_PINS)
    assert marker
    assert "\ntorch==" in pins_of_torch
    assert "\ntorch==" not in general


def test_all_that_is_missing_comes_in_one_line_before_anything_is_made(
    setup: ModuleType, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "lacks_compiler", lambda: [setup.Lack("a C++ compiler", "g++")])
    monkeypatch.setattr(setup, "lacks_header", lambda: [setup.Lack("Python.h", "python3.11-dev")])
    with pytest.raises(setup.SetupFailed) as failure:
        setup.setup("")
    assert str(failure.value) == (
        "setup: missing: a C++ compiler; Python.h; on Debian or Ubuntu: apt-get install g++ python3.11-dev"
    )
    assert made == []
    assert not setup.VENV.exists()


def test_a_python_without_ensurepip_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = load()
    monkeypatch.setattr(setup.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name)
    (lack,) = setup.lacks_venv()
    assert lack.package == "python{}.{}-venv".format(*sys.version_info)


def test_a_machine_without_a_compiler_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (lack,) = load().lacks_compiler()
    assert lack.package == "g++"


def test_a_compiler_that_cxx_names_in_vain_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    (lack,) = load().lacks_compiler()
    assert "no-such-compiler" in lack.what


def test_a_python_without_its_header_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    setup = load()
    monkeypatch.setattr(setup.sysconfig, "get_path", lambda name: str(tmp_path))
    (lack,) = setup.lacks_header()
    assert lack.package == "python{}.{}-dev".format(*sys.version_info)


def test_a_full_disk_is_noticed_with_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = load()
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda place: Disk(10**12, 10**12, 10**9))
    (lack,) = setup.lacks_space()
    assert "2.0 GB needed, 1.0 GB free" in lack.what


def test_a_disk_with_room_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = load()
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda place: Disk(10**12, 0, 10**12))
    assert setup.lacks_space() == []


def test_a_too_old_python_is_named_in_one_line() -> None:
    line = load().too_old_message(3, 10)
    assert "3.11 or later" in line
    assert "this is 3.10" in line
    assert "\n" not in line


def test_a_supported_python_is_let_through() -> None:
    assert not load().too_old_message(3, 11)


def test_an_old_python_can_parse_the_file_to_say_so() -> None:
    ast.parse(SETUP.read_text(encoding="utf-8"), feature_version=OLDEST_PARSED)


def test_without_a_compiler_the_program_ends_in_one_line_and_makes_nothing(tmp_path: Path) -> None:
    shutil.copytree(SETUP.parent, tmp_path / "tools")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(PROJECT / name, tmp_path)
    before = set(tmp_path.rglob("*"))
    run = subprocess.run(
        [sys.executable, str(tmp_path / "tools" / "setup.py")],
        env={**os.environ, "CXX": "no-such-compiler"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    assert "no-such-compiler" in run.stderr
    assert set(tmp_path.rglob("*")) == before
