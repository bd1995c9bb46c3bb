"""The test vectors: short traces that say what is expected after every operation, shipped as JSON lines.

One file a chapter of the specification, below `data`; a file holds many traces, each from its header, which names the
vector, its clauses, the kind of fault that it would find, the usual harm, and the public reports (`reports`, threads as
in "vllm#49125") whose fault a backend that passes does not have, to its end line. They need no Python: in a vector an
operation without `errors` has to be accepted, without `result` it returns nothing (null), without `events` it emits
none; `state` is given after each refusal and at the end. Events are drained after every operation, but not in a vector
that has the operation `take_events`: that one drains them itself, and shows no state.

`generate` makes the files of what the clause tests do (`recorder`, `tape`), of the limits that clauses name (`limits`)
and of what the reference says to that (`expectations`); nothing in them is written by hand. `reports` says which public
reports the vectors show, and why they do not show the others. `replay` runs a vector on a backend, `noticed` says which
mutants the vectors notice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources

import msgspec

from kvproof.conformance.certification.trace import Trace, TraceStep, read
from kvproof.conformance.operations import TakeEvents

DATA = "data"
"""The folder of the files, below this package."""

DIGESTS = "SHA256SUMS"
"""The file in it that names the others, as `sha256sum` writes it."""

_END = '{"end":'


class DamagedVectors(Exception):
    """The files are not as they were shipped, so that a backend could pass by what is missing."""


@cache
def vectors() -> tuple[Trace, ...]:
    """All shipped vectors, chapter by chapter; what goes without saying in the files is said. Raises DamagedVectors."""
    return tuple(vector for name, text in _files().items() for vector in read_vectors(text, name))


def _files() -> dict[str, str]:
    """The texts of all files, by their names."""
    folder = resources.files(__name__) / DATA
    found = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    texts = {name: found[name].decode(errors="replace") for name in sorted(found) if name != DIGESTS}
    shipped = found.get(DIGESTS, b"").decode(errors="replace")
    if digests_of(texts) != shipped:
        lines, names = set(shipped.splitlines()), {line.partition("  ")[2] for line in shipped.splitlines()}
        other = {line.partition("  ")[2] for line in digests_of(texts).splitlines() if line not in lines}
        wrong = ", ".join(sorted(other | (names - texts.keys()))) or DIGESTS
        raise DamagedVectors(f"vectors are missing, or other ones than were shipped ({wrong}); install kvproof again")
    return texts


def digests_of(texts: dict[str, str]) -> str:
    """The text of the file of digests."""
    return "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(texts.items()))


def vectors_of(clauses: Iterable[str]) -> list[Trace]:
    """The shipped vectors that carry one of these clauses."""
    wanted = frozenset(clauses)
    return [vector for vector in vectors() if not wanted.isdisjoint(vector.header.clauses)]


def read_vectors(text: str, name: str) -> Iterator[Trace]:
    """The vectors in a file's text; raises `TraceError`."""
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        if line.startswith(_END):
            trace = read("\n".join(lines), name)
            drained = not is_draining(trace)
            yield Trace(trace.header, tuple(_said(step, drained) for step in trace.steps))
            lines = []
    if lines:
        read("\n".join(lines), name)  # it was cut, which this says


def is_draining(vector: Trace) -> bool:
    """Whether the vector takes its events itself, so that nobody else may."""
    return any(isinstance(operation, TakeEvents) for operation in vector.operations)


def _said(step: TraceStep, drained: bool) -> TraceStep:
    """An operation of a vector with all that is expected of it, also what goes without saying."""
    expect = step.expect
    result = None if expect.result is msgspec.UNSET else expect.result
    events = expect.events or () if drained else None
    return TraceStep(step.operation, msgspec.structs.replace(expect, result=result, events=events))
