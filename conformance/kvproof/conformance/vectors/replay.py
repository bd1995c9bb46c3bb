"""Replays vectors on a backend that shows its whole state; the vector says what is expected, not the reference."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from kvproof.conformance.backends.interface import Backend
from kvproof.conformance.backends.wire import Observation, Step
from kvproof.conformance.certification.lockstep import Difference, compare
from kvproof.conformance.certification.model import Expected
from kvproof.conformance.certification.trace import Trace, TraceStep
from kvproof.conformance.vectors import is_draining


@dataclass(frozen=True, slots=True)
class Broken:
    """A vector that does not hold: the number of the first operation that shows it, from 0, and what differs."""

    vector: Trace
    number: int
    differences: tuple[Difference, ...]


def replay(vector: Trace, backend: Backend) -> Broken | None:
    """Run a vector, as `vectors` gives it, on a new pool of the backend; what does not hold first, None if all does."""
    backend.start(vector.header.config)
    steps = backend.run(vector.operations, observe=not is_draining(vector))
    for number, (wanted, step) in enumerate(zip(vector.steps, steps, strict=True)):
        shown = wanted.expect.state is not None
        if differences := compare(_expected(wanted), _as_read(step), observes=shown):
            return Broken(vector, number, differences)
    return None


def _expected(step: TraceStep) -> Expected:
    expect = step.expect
    state = expect.state or Observation()
    return Expected(step.operation, expect.result, frozenset(expect.errors), state, expect.events)


def _as_read(step: Step) -> Step:
    """With the result as JSON brings it: so it stands in the vector."""
    result = msgspec.json.decode(msgspec.json.encode(step.answer.result))
    return msgspec.structs.replace(step, answer=msgspec.structs.replace(step.answer, result=result))
