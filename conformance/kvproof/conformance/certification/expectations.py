"""What a trace expects of its operations, beside what the reference says of them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from kvproof.conformance.backends.reference import CAPABILITIES
from kvproof.conformance.backends.wire import Answer, Observation, Step
from kvproof.conformance.certification.lockstep import Difference, compare
from kvproof.conformance.certification.model import Expected, Model
from kvproof.conformance.certification.trace import Expect, Trace
from kvproof.conformance.operations import Operation


@dataclass(frozen=True, slots=True)
class Unmet:
    """An operation of a trace, by its number from 1, of which the trace expects what the reference does not say."""

    number: int
    operation: Operation
    differences: tuple[Difference, ...]


def unmet_expectation(trace: Trace) -> Unmet | None:
    """The first expectation that the reference does not meet. What is undefined is left out, as it is never run."""
    model = Model(trace.header.config, CAPABILITIES)
    for number, step in enumerate(trace.steps, 1):
        if model.is_undefined(step.operation):
            continue
        expected = model.expect(step.operation)
        seen = model.show() if step.expect.state is not None else None
        if differences := _differences(step.expect, expected, seen):
            return Unmet(number, step.operation, differences)
    return None


def _differences(wanted: Expect, said: Expected, seen: Observation | None) -> tuple[Difference, ...]:
    result = said.result if wanted.result is msgspec.UNSET else wanted.result
    errors = frozenset(wanted.errors)
    if wanted.result is msgspec.UNSET and not errors:
        errors = said.errors  # the trace leaves the answer open
    error = min(said.errors & errors or said.errors, default=None)
    step = Step(Answer(said.result, error), seen, said.events)
    return compare(Expected(said.operation, result, errors, wanted.state or Observation(), wanted.events), step, True)


def expectations(trace: Trace) -> int:
    """Of how many operations the trace says what to expect."""
    return sum(step.expect != Expect() for step in trace.steps)
