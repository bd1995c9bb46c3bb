"""Which mutants of the reference the vectors notice: `python -m kvproof.conformance.vectors.noticed [NAME ...]`.

One JSON line a mutant, by default all named ones. The vectors of the clauses that the mutant claims are replayed first;
if they all hold, the other ones. With `--reports` it is one line for each mutant that stands beside a public report,
and which of the vectors beside it notice it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator

import msgspec

from kvproof.conformance.backends.interface import Backend
from kvproof.conformance.certification.trace import Trace
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.twin import mutated_reference
from kvproof.conformance.time_limit import TooLong, time_limit
from kvproof.conformance.vectors import vectors, vectors_of
from kvproof.conformance.vectors.replay import replay
from kvproof.conformance.vectors.reports import reports

SECONDS = 60
"""A mutant that takes longer is given up; it may loop for ever."""


class Notice(msgspec.Struct, frozen=True):
    """What the vectors make of a mutant.

    `vectors_of_clauses` counts those that carry one of its clauses, `first` is one that noticed it, `of_clauses` says
    whether it is among them. `error` is why nobody knows.
    """

    mutant: str
    vectors_of_clauses: int = 0
    first: str | None = None
    of_clauses: bool = False
    error: str = ""


class NoticeOfReports(msgspec.Struct, frozen=True):
    """Which of the vectors that stand beside a mutant in the table of reports notice it."""

    mutant: str
    vectors: tuple[str, ...] = ()
    error: str = ""


def main(arguments: list[str]) -> None:
    """Print what the vectors make of the named mutants, or of those beside reports."""
    known = {mutant.name: mutant for mutant in MUTANTS}
    found: Iterable[msgspec.Struct]
    if arguments == ["--reports"]:
        found = (notice_of_reports(known[name], beside) for name, beside in _beside_mutants().items())
    else:
        found = (notice(known[name]) for name in arguments or known)
    for line in found:
        print(msgspec.json.encode(line).decode(), flush=True)


def notice(mutant: Mutant) -> Notice:
    """Replay the vectors on the reference that the mutant makes, until one notices."""
    claimed = vectors_of(mutant.clauses)
    others = [vector for vector in vectors() if set(mutant.clauses).isdisjoint(vector.header.clauses)]
    backend = mutated_reference(mutant.patch)
    try:
        with time_limit(SECONDS):
            first = next(_broken(claimed, backend), None)
            return Notice(mutant.name, len(claimed), first or next(_broken(others, backend), None), first is not None)
    except TooLong:
        return Notice(mutant.name, len(claimed), error=f"it took more than {SECONDS} s")


def notice_of_reports(mutant: Mutant, names: Collection[str]) -> NoticeOfReports:
    """Replay the named vectors on the reference that the mutant makes."""
    chosen, backend = [each for each in vectors() if each.header.name in names], mutated_reference(mutant.patch)
    try:
        with time_limit(SECONDS):
            return NoticeOfReports(mutant.name, tuple(_broken(chosen, backend)))
    except TooLong:
        return NoticeOfReports(mutant.name, error=f"it took more than {SECONDS} s")


def _beside_mutants() -> dict[str, list[str]]:
    """For each mutant in the table of reports that has vectors beside it, the vectors in its rows."""
    beside: dict[str, list[str]] = {}
    for report in reports().entries:
        for name in report.mutants if report.vectors else ():
            beside.setdefault(name, []).extend(report.vectors)
    return beside


def _broken(chosen: list[Trace], backend: Backend) -> Iterator[str]:
    """The names of the vectors that do not hold; a reference that breaks down holds none."""
    for vector in chosen:
        try:
            holds = replay(vector, backend) is None
        except Exception:
            holds = False
        if not holds:
            yield vector.header.name


if __name__ == "__main__":
    main(sys.argv[1:])
