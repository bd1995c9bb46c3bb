from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ADAPTER = """
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.twin import mutated_reference

whole = ReferenceBackend

def broken():
    [mutant] = [mutant for mutant in MUTANTS if mutant.name == "mask_is_ignored"]
    return mutated_reference(mutant.patch)
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "adapter.py").write_text(ADAPTER)
    (folder / "test_own.py").write_text("def test_own(): pass\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, sys.path)])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "kvproof.conformance.pytest_plugin",
    ]
    return subprocess.run([*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True)


def test_a_conformant_backend_passes_among_the_tests_of_its_project(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--kvproof", "adapter:whole", "-rs")
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d{3} passed, \d+ skipped", done.stdout)
    assert "not how long it takes" in done.stdout


def test_a_broken_clause_fails_with_its_shortest_trace(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--kvproof", "adapter:broken")
    assert done.returncode == 1
    assert "kvproof REG-FULL-2" in done.stdout
    assert "cache_full_blocks(" in done.stdout
    assert "Traceback" not in done.stdout


def test_without_a_target_nothing_is_added(tmp_path: Path) -> None:
    done = run_pytest(tmp_path)
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["adapter:none"], "there is no 'none'"), (["adapter:whole", "--kvproof-profile", "quik"], "profiles are quick")],
)
def test_what_cannot_be_run_is_an_error_of_every_test(tmp_path: Path, arguments: list[str], says: str) -> None:
    done = run_pytest(tmp_path, "--kvproof", *arguments)
    assert done.returncode != 0
    assert says in done.stdout + done.stderr
