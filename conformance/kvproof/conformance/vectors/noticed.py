"""Which mutants of the reference the vectors notice: `python -m kvproof.conformance.vectors.noticed [NAME ...]`.

One JSON line a mutant, by default all named ones. The vectors of the clauses that the mutant claims are replayed first;
if they all hold, the other ones. Like the mutation worker this loads nothing of the reference, and forks for each
mutant: the child puts it in place first.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import NoReturn

import msgspec

from kvproof.conformance.certification.trace import Trace
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import install
from kvproof.conformance.vectors import vectors, vectors_of

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


def main(names: list[str]) -> None:
    """Print what the vectors make of the named mutants."""
    known = {mutant.name: mutant for mutant in MUTANTS}
    for mutant in [known[name] for name in names] if names else MUTANTS:
        print(msgspec.json.encode(notice(mutant)).decode(), flush=True)


def notice(mutant: Mutant) -> Notice:
    """Replay the vectors on the reference that the mutant makes, in a child, until one notices."""
    vectors()  # read once, by the parent
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        _answer_and_exit(mutant, writable)
    os.close(writable)
    with open(readable, "rb") as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        return Notice(mutant.name, error=f"the child ended with status {os.waitstatus_to_exitcode(status)}")
    return msgspec.json.decode(answer, type=Notice)


def _answer_and_exit(mutant: Mutant, writable: int) -> NoReturn:
    signal.alarm(SECONDS)
    try:
        install(mutant.patch)
        claimed = vectors_of(mutant.clauses)
        others = [vector for vector in vectors() if set(mutant.clauses).isdisjoint(vector.header.clauses)]
        first = next(_broken(claimed), None)
        found = Notice(mutant.name, len(claimed), first or next(_broken(others), None), first is not None)
    except BaseException as broken:
        found = Notice(mutant.name, error=f"{type(broken).__name__}: {broken}")
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
