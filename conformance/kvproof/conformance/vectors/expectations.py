"""Makes vectors of tapes: the reference, run anew, says what is expected of each operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from kvproof.conformance.backends.reference import CAPABILITIES
from kvproof.conformance.backends.views import view
from kvproof.conformance.backends.wire import PARTS, Answer, Step
from kvproof.conformance.certification.lockstep import compare
from kvproof.conformance.certification.model import Expected, Model
from kvproof.conformance.certification.reads import reads_after
from kvproof.conformance.certification.trace import TRACE_VERSION, Expect, Header, Trace, TraceStep
from kvproof.conformance.operations import Lookup, TakeEvents
from kvproof.conformance.vectors.tape import Said, Tape

DRAINS = ("EVENT-DRAIN-1", "EVENT-CLEARED-1")
"""Clauses of when events come. Others are shown by vectors whose events are drained after every operation."""

RUN = 20
"""A tape of so many operations is a run: it is worth something up to where it comes to what is undefined."""


class Rejected(Exception):
    """A tape that gives no vector; the text says why."""


def drained_vector(tape: Tape, name: str, clauses: tuple[str, ...]) -> Trace:
    """The vector in which events are drained after every operation; raises `Rejected`."""
    said = [each for each in tape.said if not isinstance(each.operation, TakeEvents)]
    expected = _expectations(tape, said or [Said(Lookup(()), [])], drains=True)
    last = len(expected) - 1
    steps = tuple(_step(each, bool(each.errors) or number == last) for number, each in enumerate(expected))
    return Trace(Header(TRACE_VERSION, tape.config, name, clauses), steps)


def draining_vector(tape: Tape, name: str, clauses: tuple[str, ...]) -> Trace:
    """The vector in which only `take_events` drains; it shows events and results alone. Raises `Rejected`."""
    if not any(isinstance(each.operation, TakeEvents) for each in tape.said):
        raise Rejected("nothing is drained")
    steps = tuple(_step(each, False) for each in _expectations(tape, tape.said, drains=False))
    return Trace(Header(TRACE_VERSION, tape.config, name, clauses), steps)


def _expectations(tape: Tape, said: Sequence[Said], drains: bool) -> list[Expected]:
    if tape.trouble:
        raise Rejected(tape.trouble)
    model = Model(tape.config, CAPABILITIES, watches=drains)
    expected: list[Expected] = []
    for each in said:
        if model.is_undefined(each.operation):
            if len(expected) < RUN:
                raise Rejected("what the specification leaves undefined")
            break
        expected.append(model.expect(each.operation))
        whole = replace(expected[-1], seen=view(model.world.whole_state(), PARTS))
        step = Step(Answer(each.result, each.error), each.seen, expected[-1].events)
        if compare(whole, step, observes=each.seen is not None):
            raise Rejected("the pool was changed behind its back")
        if drains:  # by what blocks hold after this, a backend that owns memory is judged
            expected += [model.expect(read) for read in reads_after(model.world, each.operation)]
    return expected


def _step(expected: Expected, shows_state: bool) -> TraceStep:
    """An operation with what is expected of it: what goes without saying in a vector is left out."""
    return TraceStep(
        expected.operation,
        Expect(
            result=msgspec.UNSET if expected.errors or expected.result is None else expected.result,
            errors=tuple(sorted(expected.errors)),
            events=expected.events or None,
            state=expected.seen if shows_state else None,
        ),
    )
