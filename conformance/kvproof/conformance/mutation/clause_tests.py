"""Runs the clause tests in this process, on the reference as it has it, and sees which clauses they find broken.

The tests belong to the checkout, not to the installed package; `find_tests` says where they are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

TEST_SECONDS = 20
"""A clause test that runs longer than this fails: a mutant may loop for ever."""

PYTEST_ARGUMENTS = ("-q", "--tb=native", *("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:unraisableexception"))
"""Nothing is written or distributed, and what makes a short run slow is left out; of a traceback the end is enough."""

_TIMEOUT = ("-o", f"timeout={TEST_SECONDS}")

_USUAL_ENDINGS = (0, 1, 5)
"""pytest's exit codes for: all passed, some failed, none selected."""

_CHECKOUT = Path(__file__).resolve().parents[4]


class TestsNotFound(Exception):
    """The clause tests, or pytest, are not here; the text says what to do."""


@dataclass(slots=True)
class ClauseRun:
    """What the tests found: the clauses of which a test failed, and the first failure."""

    broken: set[str] = field(default_factory=set)
    tests: int = 0
    first_failure: str = ""
    error: str = ""
    """Why the tests could not be run; then nothing that was found means anything."""


def find_tests() -> Path:
    """The checkout's folder of clause tests: below the current folder, or beside this module."""
    for root in (Path.cwd(), _CHECKOUT):
        if (folder := root / "tests" / "clauses").is_dir():
            return folder
    raise TestsNotFound("the clause tests are not installed with kvproof; run this in a checkout of it")


def run_clause_tests(folder: Path, clause_ids: Collection[str] | None) -> ClauseRun:
    """Run the tests that carry one of the clauses until each of these was found broken.

    Without clauses, run all tests until the first failure.
    """
    try:
        import pytest
    except ImportError as missing:
        raise TestsNotFound("the clause tests need pytest: pip install 'kvproof[dev]'") from missing
    if not (files := _files(folder, clause_ids)):
        return ClauseRun()
    plugin = _ClausePlugin(clause_ids)
    status = pytest.main([*map(str, files), *PYTEST_ARGUMENTS, *_TIMEOUT], plugins=[plugin])
    if status not in _USUAL_ENDINGS and not plugin.found.first_failure:
        plugin.found.error = plugin.found.error or f"pytest ended with {pytest.ExitCode(status).name}"
    return plugin.found


def _files(folder: Path, clause_ids: Collection[str] | None) -> list[Path]:
    """The test files worth loading: those whose text names one of the clauses."""
    files = sorted(folder.glob("test_*.py"))
    if clause_ids is None:
        return files
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    return [file for file, text in texts.items() if any(f'"{clause_id}"' in text for clause_id in clause_ids)]


class _ClausePlugin:
    """Selects the tests by their clauses, notes whose tests fail, and ends the run as soon as all is known."""

    def __init__(self, clause_ids: Collection[str] | None) -> None:
        self.found = ClauseRun()
        self._wanted = None if clause_ids is None else frozenset(clause_ids)
        self._clauses_of: dict[str, frozenset[str]] = {}
        self._session: pytest.Session | None = None

    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        self._session = session
        chosen = []
        for item in items:
            named = frozenset(name for marker in item.iter_markers("clause") for name in marker.args)
            if self._wanted is None or named & self._wanted:
                chosen.append(item)
                self._clauses_of[item.nodeid] = named
        items[:] = chosen

    def pytest_collectreport(self, report: Any) -> None:
        if not report.failed:
            return
        text = f"{report.nodeid} cannot be loaded: {_last_line(report.longreprtext)}"
        if self._wanted is None:  # without a mutant it can be loaded
            self.found.first_failure = self.found.first_failure or text
        else:
            self.found.error = text

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            self.found.tests += 1
        if report.failed:
            self.found.broken |= self._clauses_of[report.nodeid] & (self._wanted or self._clauses_of[report.nodeid])
            self.found.first_failure = self.found.first_failure or f"{_test_name(report.nodeid)}: {_reason(report)}"
            self._stop_if_all_is_known()

    def _stop_if_all_is_known(self) -> None:
        assert self._session is not None, "tests run after their collection"
        if self._wanted is None or self._wanted <= self.found.broken:
            self._session.shouldfail = "all is known"


def _test_name(node_id: str) -> str:
    return node_id.rpartition("/")[2]


def _reason(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return str(text).strip().partition("\n")[0]


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]
