"""A pytest plugin: certify a backend among the tests of its own project, one test for each clause.

    pytest -p kvproof.conformance.pytest_plugin --kvproof my_engine.adapter:make

It is loaded where it is asked for, and not in every project in which kvproof is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kvproof.conformance.certification.result import ClauseRow, Run


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the certification."""
    group = parser.getgroup("kvproof", "certification of a KV cache backend")
    group.addoption("--kvproof", metavar="TARGET", help="certify this backend: module:factory or exec:COMMAND")
    group.addoption("--kvproof-profile", default="quick", metavar="PROFILE", help="quick (default) or standard")
    group.addoption("--kvproof-seed", type=int, default=1, metavar="N", help="decides everything that is random")


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add a test for each clause, if a target is named."""
    target = session.config.getoption("--kvproof")
    if target is None:
        return
    from kvproof.conformance.backends.interface import AdapterError
    from kvproof.conformance.backends.targets import TargetError, open_subject
    from kvproof.conformance.certification.levels import levels

    try:
        open_subject(target).close()
    except (TargetError, AdapterError) as error:
        raise pytest.UsageError(f"--kvproof {target}: {error}") from None
    certification = Certification(
        target, session.config.getoption("--kvproof-profile"), session.config.getoption("--kvproof-seed")
    )
    items += [ClauseTest.of(session, clause, certification) for clause in levels()]


class Certification:
    """One run of the suite, made when the first test asks for it."""

    def __init__(self, target: str, profile: str, seed: int) -> None:
        self._target, self._profile, self._seed = target, profile, seed

    @cached_property
    def run(self) -> Run:
        """Everything that the run found out. Raises `TargetError` or `AdapterError`."""
        from kvproof.conformance.backends.targets import open_subject
        from kvproof.conformance.certification.account import run_of
        from kvproof.conformance.certification.examine import examine
        from kvproof.conformance.certification.profiles import PROFILES

        if self._profile not in PROFILES:
            raise pytest.UsageError(f"--kvproof-profile {self._profile}: profiles are {', '.join(PROFILES)}")
        profile, backend = PROFILES[self._profile], open_subject(self._target)
        try:
            return run_of(examine(backend, profile, self._seed), self._target, profile, self._seed, ())
        finally:
            backend.close()

    def row(self, clause: str) -> ClauseRow:
        """What became of a clause."""
        return next(row for row in self.run.clauses if row.clause == clause)


class NotConformant(Exception):
    """The backend breaks the clause; the text is the page of each failure."""


class ClauseTest(pytest.Item):
    """Whether the backend keeps one clause."""

    _certification: Certification

    @classmethod
    def of(cls, session: pytest.Session, clause: str, certification: Certification) -> ClauseTest:
        """The test of a clause."""
        test: ClauseTest = cls.from_parent(session, name=clause, nodeid=f"kvproof::{clause}")
        test._certification = certification
        return test

    def runtest(self) -> None:
        """Fail with the shortest traces, skip with the reason."""
        from kvproof.conformance.certification.result import Status

        row = self._certification.row(self.name)
        if row.status is Status.FAIL:
            raise NotConformant("\n\n".join(self._pages()))
        if row.status is not Status.PASS:
            pytest.skip(row.reason or row.status.value)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """The pages alone: a traceback of the plugin helps nobody."""
        return (
            f"{'' if isinstance(excinfo.value, NotConformant) else type(excinfo.value).__name__ + ': '}{excinfo.value}"
        )

    def reportinfo(self) -> tuple[Path, None, str]:
        """What the report calls the test."""
        return self.path, None, f"kvproof {self.name}"

    def _pages(self) -> Iterator[str]:
        from io import StringIO

        from rich.console import Console

        from kvproof.conformance.certification.show import show_failure

        for failure in self._certification.run.failures:
            if failure.clause == self.name:
                page = StringIO()
                show_failure(Console(file=page, width=120), failure)
                yield page.getvalue().rstrip()
