"""Makes the shipped vectors: `python -m kvproof.conformance.vectors.generate` rewrites them, the same ones every time.

With `--check` nothing is written; the exit code is 1 if the files are not what they should be.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from kvproof.conformance.certification.trace import Trace, write
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.clause_tests import find_tests
from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.vectors import DATA, DIGESTS, digests_of
from kvproof.conformance.vectors.expectations import DRAINS, Rejected, drained_vector, draining_vector
from kvproof.conformance.vectors.limits import limit_tapes
from kvproof.conformance.vectors.not_shown import NOT_SHOWN
from kvproof.conformance.vectors.recorder import Recording, record
from kvproof.conformance.vectors.reports import reports
from kvproof.conformance.vectors.tape import Tape
from kvproof.spec.clauses import clauses

Maker = Callable[[Tape, str, tuple[str, ...]], Trace]

UNNOTICED = "The checks pass in a state in which "

FOLDER = Path(__file__).parent / DATA


def main(arguments: list[str]) -> int:
    """Make the vectors, and write them or compare them with what is there; the exit code."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        recorder = record(find_tests())
    lost = Counter(recorder.lost)
    limits = [Recording(limit.name, limit.clauses, tape) for limit, tape in limit_tapes()]
    files = files_of(made_of([*recorder.recordings, *limits], lost))
    files[DIGESTS] = digests_of(files)
    if arguments == ["--check"]:
        stale = [name for name in sorted({*files, *_present()}) if files.get(name) != _present().get(name)]
        print("\n".join(f"{name} is not what the clause tests give; make the vectors anew" for name in stale))
        return 1 if stale else 0
    _write(files)
    print(f"{recorder.tests} tests run, {len(recorder.recordings)} tapes")
    for reason, number in lost.most_common():
        print(f"{number:6} not used: {reason}")
    return 0


def made_of(recordings: Iterable[Recording], lost: Counter[str]) -> list[Trace]:
    """The vectors that recordings give, in their order; what is the same is one vector, with the clauses of all."""
    found: dict[str, Trace] = {}
    of_test: Counter[str] = Counter()
    for recording in recordings:
        for make, carried in _kinds(recording):
            try:
                made = make(recording.tape, recording.test, carried)
            except Rejected as rejected:
                lost[str(rejected)] += 1
                continue
            content = write(_with_header(made, name="", clauses=()))
            if (same := found.get(content)) is not None:
                lost["the same as another vector"] += 1
                merged = tuple(dict.fromkeys((*same.header.clauses, *carried)))
                found[content] = _with_header(same, clauses=merged)
                continue
            of_test[recording.test] += 1
            number = of_test[recording.test]
            found[content] = _with_header(made, name=recording.test + (f" #{number}" if number > 1 else ""))
        if not set(recording.clauses) - NOT_SHOWN.keys():
            lost["only of clauses that no vector shows"] += 1
    return [_labelled(vector) for vector in found.values()]


def _kinds(recording: Recording) -> Iterator[tuple[Maker, tuple[str, ...]]]:
    """How a recording can be made a vector, and which clauses it then shows."""
    shown = [clause_id for clause_id in recording.clauses if clause_id not in NOT_SHOWN]
    if of_state := tuple(clause_id for clause_id in shown if clause_id != "EVENT-DRAIN-1"):
        yield drained_vector, of_state
    if of_draining := tuple(clause_id for clause_id in shown if clause_id in DRAINS):
        yield draining_vector, of_draining


def files_of(made: Iterable[Trace]) -> dict[str, str]:
    """The text of each file, by its name: one for each chapter that a vector's first clause is of."""
    files: dict[str, str] = {}
    for vector in made:
        name = f"{clauses()[vector.header.clauses[0]].chapter}.jsonl"
        files[name] = files.get(name, "") + write(vector)
    return files


def _labelled(vector: Trace) -> Trace:
    """With the reports that it shows, and the kind of fault, and its harm, of the first mutant of its first clauses.

    A mutant of the pool comes before one of the checks, whose harm is what the pool then may do unnoticed.
    """
    vector = _with_header(vector, reports=reports().shown_by(vector.header.name))
    mutants = [mutant for clause_id in vector.header.clauses for mutant in _mutants_of(clause_id)]
    for mutant in sorted(mutants, key=lambda mutant: mutant.harm.startswith(UNNOTICED)):
        harm = mutant.harm.removeprefix(UNNOTICED)
        return _with_header(vector, fault=mutant.fault, harm=harm[0].upper() + harm[1:])
    return vector


@cache
def _mutants_of(clause_id: str) -> list[Mutant]:
    return [mutant for mutant in MUTANTS if clause_id in mutant.clauses]


def _with_header(vector: Trace, **changes: object) -> Trace:
    return Trace(msgspec.structs.replace(vector.header, **changes), vector.steps)


def _present() -> Mapping[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in FOLDER.iterdir()}


def _write(files: Mapping[str, str]) -> None:
    for name in _present():
        (FOLDER / name).unlink()
    for name, text in files.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
