from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvproof.conformance.mutation.patch import Patch, PatchError, install, modules_of, origin_of, source_of

SOURCE = '''"""A module."""

import sys


def double(number):
    return number * 2


def fail():
    raise ValueError(
        "line 12"
    )


class Kept:
    attribute = "é"; other = double(1)
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package with one module that nobody has imported; afterwards it never was."""
    (tmp_path / "patchable").mkdir()
    (tmp_path / "patchable" / "__init__.py").write_text("from patchable import inner\n")
    (tmp_path / "patchable" / "inner.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)
    yield "patchable.inner"
    sys.meta_path[:] = finders
    for name in ("patchable", "patchable.inner"):
        sys.modules.pop(name, None)


def imported(name: str) -> dict[str, object]:
    __import__(name)
    return vars(sys.modules[name])


def line_of_failure(name: str) -> int | None:
    fail = imported(name)["fail"]
    assert callable(fail)
    with pytest.raises(ValueError, match="line 12") as caught:
        fail()
    return traceback.extract_tb(caught.value.__traceback__)[-1].lineno


def test_the_module_runs_as_patched_and_its_file_stays_as_it_is(module: str) -> None:
    install(Patch(module, "return number * 2", "return number * 3"))
    double = imported(module)["double"]
    assert callable(double)
    assert double(2) == 6
    assert Path(origin_of(module)).read_text() == SOURCE
    assert sys.modules[module].__file__ == origin_of(module)


def test_a_patch_leaves_no_bytecode_behind(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    install(Patch(module, "return number * 2", "return number * 3"))
    imported(module)
    assert not list(Path(origin_of(module)).parent.glob("__pycache__/inner.*"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return number * 2", "return number * 3"),
        ("return number * 2", "number += 1\n    number += 1\n    return number"),
        ("def double(number):\n    return number * 2", "double = abs"),
        ('"""A module."""\n\nimport sys\n', ""),
    ],
    ids=["as many", "more", "fewer", "lines before all"],
)
def test_line_numbers_behind_the_patch_are_those_of_the_original(module: str, old: str, new: str) -> None:
    install(Patch(module, old, new))
    assert line_of_failure(module) == 11


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("raise ValueError(\n        ", "raise ValueError(\n        \n\n\n        "),
        ('(\n        "line 12"\n    )', '("line 12")'),
        ("    raise ValueError(\n", "    1\n    2\n    3; raise ValueError(\n"),
    ],
)
def test_statements_that_a_patch_cuts_in_two_still_compile(module: str, old: str, new: str) -> None:
    install(Patch(module, old, new))
    assert line_of_failure(module) is not None


@pytest.mark.parametrize("old", ["return number * 4", "double"])
def test_a_text_that_does_not_stand_exactly_once_is_refused(module: str, old: str) -> None:
    with pytest.raises(PatchError, match="times, not once"):
        install(Patch(module, old, ""))


def test_a_patch_that_comes_too_late_is_refused(module: str) -> None:
    imported(module)
    with pytest.raises(PatchError, match="imported already"):
        install(Patch(module, "number * 2", "number * 3"))


def test_a_patch_that_makes_no_python_is_refused(module: str) -> None:
    with pytest.raises(PatchError, match="no Python"):
        install(Patch(module, "return number * 2", "return number *"))


def test_a_module_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PatchError, match="no module"):
        install(Patch("kvproof.reference.nothing", "a", "b"))


def test_source_and_modules_are_found_without_importing_anything(module: str) -> None:
    assert source_of(module) == SOURCE
    assert modules_of("patchable") == [module]
    assert "patchable" not in sys.modules


def test_a_module_of_the_reference_is_patched_under_its_own_name() -> None:
    program = (
        "from kvproof.conformance.mutation.patch import Patch, install;"
        "install(Patch('kvproof.reference.positions', '(position - 1) // block_size', 'position // block_size'));"
        "import kvproof.reference.positions as positions, kvproof.reference.registration as user;"
        "print(positions.slot_of(4, 4), user.slot_of is positions.slot_of)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "True"]
