"""Which mutants of the reference the vectors notice: `python -m kvproof.conformance.vectors.noticed [NAME ...]`.

One JSON line a mutant, by default all named ones. The vectors of the clauses that the mutant claims are replayed first;
if they all hold, the other ones. With `--reports` it is one line for each mutant that stands beside a public report,
and which of the vectors beside it notice it. Like the mutation worker this loads nothing of the reference, and forks
for each mutant: the child puts it in place first.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NoReturn, TypeVar

import msgspec

from kvproof.conformance.certification.trace import Trace
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import install
from kvproof.conformance.vectors import vectors, vectors_of
from kvproof.conformance.vectors.reports import reports

N = TypeVar("N", "Notice", "NoticeOfReports")

SECONDS = 60
"""A child that takes longer is ended; a mutant may loop for ever."""


class Notice(msgspec.Struct, frozen=True):
    """What the vectors make of a mutant.

    `vectors_of_clauses` counts those that carry one of its clauses, `first` is one that noticed it, `of_clauses` says
    whether it is among them. `error` is why the child could not finish.
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
    """Replay the vectors on the reference that the mutant makes, in a child, until one notices."""

    def look() -> Notice:
        claimed = vectors_of(mutant.clauses)
        others = [vector for vector in vectors() if set(mutant.clauses).isdisjoint(vector.header.clauses)]
        first = next(_broken(claimed), None)
        return Notice(mutant.name, len(claimed), first or next(_broken(others), None), first is not None)

    return _in_child(mutant, Notice, look)


def notice_of_reports(mutant: Mutant, names: Collection[str]) -> NoticeOfReports:
    """Replay the named vectors on the reference that the mutant makes, in a child."""

    def look() -> NoticeOfReports:
        chosen = [vector for vector in vectors() if vector.header.name in names]
        return NoticeOfReports(mutant.name, tuple(_broken(chosen)))

    return _in_child(mutant, NoticeOfReports, look)


def _beside_mutants() -> dict[str, list[str]]:
    """For each mutant in the table of reports the vectors in its rows."""
    beside: dict[str, list[str]] = {}
    for report in reports().entries:
        for name in report.mutants:
            beside.setdefault(name, []).extend(report.vectors)
    return beside


def _in_child(mutant: Mutant, kind: type[N], look: Callable[[], N]) -> N:
    """What `look` finds in a child in which the mutant is in place; `kind` makes the answer of one that failed."""
    vectors()  # read once, by the parent
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        _answer_and_exit(mutant, kind, look, writable)
    os.close(writable)
    with open(readable, "rb") as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        return kind(mutant.name, error=f"the child ended with status {os.waitstatus_to_exitcode(status)}")
    return msgspec.json.decode(answer, type=kind)


def _answer_and_exit(mutant: Mutant, kind: type[N], look: Callable[[], N], writable: int) -> NoReturn:
    signal.alarm(SECONDS)
    try:
        install(mutant.patch)
        found = look()
    except BaseException as broken:
        found = kind(mutant.name, error=f"{type(broken).__name__}: {broken}")
    os.write(writable, msgspec.json.encode(found))
    os._exit(0)


def _broken(chosen: list[Trace]) -> Iterator[str]:
    """The names of the vectors that do not hold; a reference that breaks down holds none."""
    from kvproof.conformance.backends.reference import ReferenceBackend
    from kvproof.conformance.vectors.replay import replay

    backend = ReferenceBackend()
    for vector in chosen:
        try:
            holds = replay(vector, backend) is None
        except Exception:
            holds = False
        if not holds:
            yield vector.header.name


if __name__ == "__main__":
    main(sys.argv[1:])
