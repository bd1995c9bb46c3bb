"""Which of a few clause tests notice a mutant: `python -m kvproof.conformance.mutation.named_tests MUTANT=TEST,...`.

Tests are named like vectors, "scheduling/nobody_overtakes_a_request_that_waits_for_blocks"; one that has parameters
notices if it does with any of them. Prints for each mutant a line: its name, then the tests that notice it. The exit
code is 2 if there is no such mutant or test.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.clause_tests import PYTEST_ARGUMENTS, TEST_SECONDS, find_tests
from kvproof.conformance.mutation.one import load_what_all_mutants_need
from kvproof.conformance.mutation.patch import Patch, install

_FORK = multiprocessing.get_context("fork")
"""A mutant comes before what it changes is imported, so each has a process of its own."""


class NotRun(Exception):
    """The tests could not be run to their end on a mutant."""


def main(arguments: list[str]) -> int:
    """Print which of its tests notice each mutant; the exit code."""
    patches = {mutant.name: mutant.patch for mutant in MUTANTS}
    asked = {name: tests.split(",") for name, _, tests in (argument.partition("=") for argument in arguments)}
    known = set(clause_tests())
    if unknown := [name for name, tests in asked.items() if name not in patches or not known.issuperset(tests)]:
        print(f"there is no such mutant, or no such test for it: {', '.join(unknown)}", file=sys.stderr)
        return 2
    load_what_all_mutants_need()
    for name, tests in asked.items():
        print(name, *failing_with(patches[name], tests), flush=True)
    return 0


def clause_tests() -> Iterator[str]:
    """The names of all clause tests."""
    for file in sorted(find_tests().glob("test_*.py")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("def test_"):
                yield f"{file.stem.removeprefix('test_')}/{line[len('def test_') : line.index('(')]}"


def failing_with(patch: Patch, tests: Sequence[str]) -> list[str]:
    """Those of the tests that fail on the reference with this patch, run in a child. Raises `NotRun`."""
    answers = _FORK.SimpleQueue()
    child = _FORK.Process(target=_answer, args=(patch, tests, answers))
    child.start()
    child.join()
    if answers.empty():
        raise NotRun(f"the process of {', '.join(tests)} ended with status {child.exitcode}")
    found: list[str] = answers.get()
    return found


def _answer(patch: Patch, tests: Sequence[str], answers: Any) -> None:
    import pytest

    install(patch)
    folder, plugin = find_tests(), _Failures()
    nodes = [f"{folder}/test_{chapter}.py::test_{test}" for chapter, _, test in (name.partition("/") for name in tests)]
    with open("/dev/null", "w") as nowhere:
        sys.stdout = nowhere
        pytest.main([*nodes, *PYTEST_ARGUMENTS, "-o", f"timeout={TEST_SECONDS}"], plugins=[plugin])
    answers.put([test for test, node in zip(tests, nodes, strict=True) if node.rpartition("/")[2] in plugin.failed])


class _Failures:
    """Notes which test functions fail."""

    def __init__(self) -> None:
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid.rpartition("/")[2].partition("[")[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
