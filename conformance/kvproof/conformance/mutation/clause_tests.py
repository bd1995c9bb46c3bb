"""Runs the clause tests in this process, on the reference as it has it, and sees which clauses they find broken; and
the backend's own tests, on the backend as it has it.

The tests belong to the checkout, not to the installed package; `find_tests` says where they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvproof.spec.clauses import clauses

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


CHAPTERS_ABOUT_REQUESTS = ("86-joint-hit", "87-split", "88-admission", "89-scheduling")
"""What must hold where requests run over all groups of a model."""


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
    for root in (Path(), _CHECKOUT):
        if (folder := root / "tests" / "clauses").is_dir():
            return folder.absolute()
    raise TestsNotFound("the clause tests are not installed with kvproof; run this in a checkout of it")


def clauses_about_requests() -> tuple[str, ...]:
    """The clauses of the chapters about requests that run."""
    return tuple(clause.id for clause in clauses().values() if clause.chapter in CHAPTERS_ABOUT_REQUESTS)


def run_clause_tests(folder: Path, clause_ids: Collection[str] | None) -> ClauseRun:
    """Run the tests that carry one of the clauses until each of these was found broken.

    Without clauses, run all tests until the first failure.
    """
    return _run(_files(folder, clause_ids), _ClausePlugin(clause_ids))


def run_request_tests(folder: Path) -> ClauseRun:
    """Run the tests of the chapters about requests that run, of threads and of types, until the first failure."""
    about = (*clauses_about_requests(), "ERR-OWNER-1", "ERR-TYPE-1")
    return _run(_files(folder, about), _ClausePlugin(about, ends_at_once=True))


def run_backend_tests(folder: Path) -> ClauseRun:
    """Run the backend's own tests of requests that run, beside the folder of clause tests, until the first failure."""
    return _run([folder.parent / "gpu_backend" / "test_hybrid.py"], _ClausePlugin(None))


def _run(files: Sequence[Path], plugin: _ClausePlugin) -> ClauseRun:
    try:
        import pytest
    except ImportError as missing:
        raise TestsNotFound("the clause tests need pytest: pip install 'kvproof[dev]'") from missing
    if not files:
        return ClauseRun()
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
    """Selects the tests by their clauses, notes whose tests fail, and ends the run as soon as all is known.

    All is known at the first failure if it `ends_at_once`, as it does without clauses.
    """

    def __init__(self, clause_ids: Collection[str] | None, ends_at_once: bool = False) -> None:
        self.found = ClauseRun()
        self._ends_at_once = ends_at_once or clause_ids is None
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
        if self._ends_at_once:  # without a mutant it can be loaded
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
        if self._ends_at_once or (self._wanted or frozenset()) <= self.found.broken:
            self._session.shouldfail = "all is known"


def _test_name(node_id: str) -> str:
    return node_id.rpartition("/")[2]


def _reason(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return str(text).strip().partition("\n")[0]


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]
