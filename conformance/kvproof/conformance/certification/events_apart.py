"""Events without the state: in a large pool they are taken after each operation, and nothing else is shown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvproof.conformance.backends.interface import AdapterError
from kvproof.conformance.backends.wire import Answer, Step, WireEvent
from kvproof.conformance.operations import Operation, TakeEvents


def with_drains(operations: Sequence[Operation]) -> list[Operation]:
    """The operations, and after each one that takes its events."""
    return [each for operation in operations for each in (operation, TakeEvents())]


def without_drains(steps: Sequence[Step]) -> list[Step]:
    """The steps of operations with drains, as if the events had been shown with them. Raises `AdapterError`."""
    answers, drains = steps[::2], steps[1::2]
    return [Step(step.answer, None, _events(drain.answer)) for step, drain in zip(answers, drains, strict=True)]


def _events(answer: Answer) -> tuple[WireEvent, ...] | None:
    if answer.error is not None:
        return None
    try:
        return msgspec.convert(answer.result, tuple[WireEvent, ...])
    except msgspec.ValidationError as error:
        raise AdapterError(f"take_events answered what are no events: {error}") from None
