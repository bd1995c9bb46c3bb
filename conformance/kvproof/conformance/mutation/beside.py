"""The backend of this project where requests run over all groups: beside the vectors, and beside the reference.

Backend and reference share no code, so that either may be the one with the mutant in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kvproof.conformance.mutation.clause_tests import clauses_about_requests
from kvproof.conformance.mutation.parts import Part
from kvproof.conformance.time_limit import TooLong, time_limit

if TYPE_CHECKING:
    from kvproof.conformance.certification.lockstep import Divergence
    from kvproof.conformance.certification.stages import Outcome, Subject
    from kvproof.conformance.certification.trace import Trace

BACKEND = "gpu"
"""Opened in this process, where the mutant is."""

WALKS, OPERATIONS = 24, 300

PART_SECONDS = 20
"""A vector or a walk that takes longer does not end: without a mutant it takes a second at most."""


def shipped_vectors() -> Iterator[Part]:
    """The vectors of the clauses about requests that run, as a certification runs them; a step is an operation."""
    from kvproof.conformance.vectors import is_draining, vectors_of

    subject = _subject()

    def run(vector: Trace) -> Part:
        lockstep = subject.beside_the_reference(vector.header.config, watch=not is_draining(vector))
        lockstep.replay(vector.operations, reads=True)
        return _part_of(len(lockstep.operations), lockstep.divergence, f"{vector.header.name}: ")

    for vector in vectors_of(clauses_about_requests()):
        yield in_time(partial(run, vector))


def backend_walks() -> Iterator[Part]:
    """Random operations, then such as have to be refused; a step is an operation."""
    from kvproof.conformance.certification.stages import near_misses, random_walks

    subject = _subject()

    def run(stage: Callable[..., Outcome], seed: int) -> Part:
        done = stage(subject, seed, walks=0, operations=OPERATIONS, tell=lambda done: None, hybrid=1)
        return _part_of(done.operations.total(), next(iter(done.divergences), None))

    for stage in (random_walks, near_misses):
        for seed in range(WALKS):
            yield in_time(partial(run, stage, seed))


def in_time(part: Callable[[], Part]) -> Part:
    """The part; that it does not end is a finding."""
    try:
        with time_limit(PART_SECONDS):
            return part()
    except TooLong:
        return Part(1, f"it takes more than {PART_SECONDS} s")


def _subject() -> Subject:
    from kvproof.conformance.backends.targets import open_backend
    from kvproof.conformance.certification.stages import Subject

    backend = open_backend(BACKEND)
    return Subject(backend, backend.identify()[1])


def _part_of(steps: int, found: Divergence | None, what: str = "") -> Part:
    from kvproof.conformance.operations import describe

    if found is None:
        return Part(steps, None)
    return Part(steps, f"{what}{describe(found.operations[-1])} differs in {', '.join(found.where)}")
