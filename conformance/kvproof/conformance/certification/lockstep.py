"""A backend beside the reference, operation by operation, up to the first difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvproof.conformance.backends.interface import AdapterError, Backend, Capabilities
from kvproof.conformance.backends.wire import PARTS, Hit, Observation, Step
from kvproof.conformance.certification.model import Expected, Model
from kvproof.conformance.operations import Operation
from kvproof.spec.vocabulary import PoolConfig

BATCH = 64
"""Operations that are sent at a time."""

MOST_OBSERVED = 64
"""Blocks up to which a pool is observed in full after every operation."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs: `what` is "answer", "events", or a part of the state."""

    what: str
    expected: object
    got: object


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a backend parts from the specification: the operations up to there, the last of which shows it.

    `before` is what the reference showed before that operation; nobody looked at more than answers unless `watched`.
    """

    config: PoolConfig
    operations: tuple[Operation, ...]
    differences: tuple[Difference, ...]
    expected: Expected
    before: Observation
    watched: bool = True


class Lockstep:
    """Runs operations on a backend and on the reference; the first difference sets `divergence` and ends it.

    State and events are looked at after every operation, unless it is not to `watch`: then only answers are compared.
    """

    def __init__(self, backend: Backend, capabilities: Capabilities, config: PoolConfig, watch: bool = True) -> None:
        self.model = Model(config, capabilities, watch)
        self.divergence: Divergence | None = None
        self.operations: list[Operation] = []
        """What was run and compared; operations of content that the backend does not offer, by the reference alone."""
        self.refused = 0
        self._backend, self._config, self._watches = backend, config, watch
        self._observes = watch and bool(capabilities.observes) and config.num_blocks <= MOST_OBSERVED
        self._before = self.model.show()
        self._waiting: list[Expected] = []
        backend.start(config)

    def run(self, operations: Iterable[Operation]) -> None:
        """Run what is defined and offered, in batches. Operations are asked for one by one, as the model goes on."""
        for operation in operations:
            self._take(operation)
            if len(self._waiting) == BATCH:
                self._compare()
            if self.divergence is not None:
                return
        self._compare()

    def _take(self, operation: Operation) -> None:
        if not self.model.is_undefined(operation) and self.model.is_run(operation):
            self._waiting.append(self.model.expect(operation))

    def _compare(self) -> None:
        """Send what waits, and compare what comes back."""
        waiting, self._waiting = self._waiting, []
        sent = [each for each in waiting if self.model.is_offered(each.operation)]
        steps = self._backend.run([each.operation for each in sent], self._observes or self.model.tells_events)
        if len(steps) != len(sent):
            raise AdapterError(f"{len(sent)} operations were sent, and {len(steps)} answers came back")
        answers = iter(steps)
        for each in waiting:
            self.operations.append(each.operation)
            if self.model.is_offered(each.operation):
                self.refused += bool(each.errors)
                if differences := compare(each, next(answers), self._observes):
                    operations = tuple(self.operations)
                    self.divergence = Divergence(
                        self._config, operations, differences, each, self._before, self._watches
                    )
                    return
            self._before = each.seen


def compare(expected: Expected, step: Step, observes: bool) -> tuple[Difference, ...]:
    """What differs between what is expected and what a backend did."""
    found: list[Difference] = []
    answer = step.answer
    if expected.errors:
        if answer.error not in expected.errors:
            found.append(Difference("answer", " or ".join(sorted(expected.errors)), answer.error or answer.result))
    elif answer.error is not None:
        found.append(Difference("answer", expected.result, f"{answer.error}: {answer.message}"))
    elif _plain(answer.result) != _plain(expected.result):
        found.append(Difference("answer", expected.result, answer.result))
    if expected.events is not None and step.events != expected.events:
        found.append(Difference("events", expected.events, step.events))
    if observes and step.seen != expected.seen:
        found += _parts_that_differ(expected.seen, step.seen or Observation())
    return tuple(found)


def _parts_that_differ(expected: Observation, seen: Observation) -> list[Difference]:
    both = ((part, getattr(expected, part), getattr(seen, part)) for part in PARTS)
    return [Difference(part, wanted, got) for part, wanted, got in both if wanted is not None and wanted != got]


def _plain(value: object) -> object:
    """Results as JSON would bring them: what is a hit here is an object there."""
    match value:
        case list() | tuple():
            return [_plain(item) for item in value]
        case Hit():
            return {"block": value.block, "reserved": value.reserved, "writer": value.writer, "pending": value.pending}
        case dict():
            return {"block": None, "reserved": None, "writer": None, "pending": None, **value}
    return value
