"""A backend beside the reference, operation by operation, up to the first difference."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from msgspec import structs

from kvproof.conformance.backends.interface import (
    AdapterError,
    Answers,
    Backend,
    Capabilities,
    ConcurrentBackend,
    begin,
)
from kvproof.conformance.backends.wire import PARTS, Admitted, Hit, Matched, Observation, Step, WireEvent, as_events
from kvproof.conformance.certification.attribution.tested import Tested
from kvproof.conformance.certification.choices import step_without_order
from kvproof.conformance.certification.events_apart import with_drains, without_drains
from kvproof.conformance.certification.follow import followed, items_of
from kvproof.conformance.certification.model import Expected, Model
from kvproof.conformance.certification.reads import reads_after, reads_before
from kvproof.conformance.operations import Allocate, Lookup, Operation, Read, TakeEvents
from kvproof.conformance.preconditions import violations
from kvproof.conformance.terminal import counted
from kvproof.spec.vocabulary import PoolConfig

BATCH = 16
"""Operations that are sent at a time."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs: `what` is "answer", "events", or a part of the state."""

    what: str
    expected: object
    got: object


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a backend parts from the specification: the operations up to there, the last of which shows it.

    `before` is what the reference showed before that operation, `heard` its events of the operation before; nobody
    looked at more than answers unless `watched`.
    """

    config: PoolConfig
    operations: tuple[Operation, ...]
    differences: tuple[Difference, ...]
    expected: Expected
    before: Observation
    watched: bool = True
    heard: tuple[WireEvent, ...] = ()

    @property
    def where(self) -> tuple[str, ...]:
        """What differs, sorted; of what had to be refused and was granted only that, as all else comes of it."""
        parts = {each.what for each in self.differences}
        return ("answer",) if self.expected.errors and "answer" in parts else tuple(sorted(parts))


class AdapterCrash(AdapterError):
    """The adapter broke while it ran these operations, in a pool of this configuration, or as that was made."""

    def __init__(self, text: str, config: PoolConfig, operations: tuple[Operation, ...], watched: bool = True) -> None:
        super().__init__(text)
        self.config, self.operations, self.watched = config, operations, watched


class Lockstep:
    """Runs operations on a backend and on the reference; the first difference sets `divergence` and ends it.

    They go to the backend in batches: it works on the next one while the reference runs what follows, and while what it
    answered before is compared. At the end of each run all is compared.
    State and events are looked at after every operation, unless it is not to `watch`: then only answers are compared.
    In a pool of more than `MOST_OBSERVED` blocks the state is compared after about as many operations as there are
    blocks, and when `compare_state` is called, as it should be at the end.
    """

    def __init__(self, backend: Backend, capabilities: Capabilities, config: PoolConfig, watch: bool = True) -> None:
        self.model = Model(config, capabilities, watch)
        self.divergence: Divergence | None = None
        self.operations: list[Operation] = []
        """What was run and compared; operations of content that the backend does not offer, by the reference alone."""
        self.refused = 0
        self.tested = Tested(config)
        self._backend, self._config, self._watches = backend, config, watch
        self._can_observe = watch and bool(capabilities.observes)
        self._observes = self._can_observe and self.model.shows_all
        self._not_observed = 0
        self._before = self.model.glance()
        self._heard: tuple[WireEvent, ...] = ()
        self._waiting: list[Expected] = []
        self._sent: deque[Operation] = deque()
        """What was sent and is not compared."""
        self._under_way: tuple[list[Expected], Answers] = [], list
        with self._crashes():
            backend.start(config)

    def replay(self, operations: Iterable[Operation], reads: bool = False) -> None:
        """Run what was recorded, on the blocks that this backend takes where it chooses for itself."""
        self.run(self.recorded(list(operations)), reads)

    def recorded(self, operations: Sequence[Operation]) -> Iterable[Operation]:
        """What was recorded, on the blocks that are taken here, if they may be others."""
        if self.model.in_order and not any(isinstance(each, Allocate) and each.took for each in operations):
            return operations
        return followed(items_of(self._config, operations), self.model.world)

    def run(self, operations: Iterable[Operation], reads: bool = False) -> None:
        """Run what is defined and offered, in batches. Operations are asked for one by one, as the model goes on.

        With `reads` a backend that owns memory is also asked what blocks hold, see `reads_after`.
        """
        for operation in operations:
            if reads and self.model.owns_memory:
                for read in reads_before(self.model.world, operation):
                    self._take(read)
            self._take(operation)
            if reads and self.model.owns_memory and self.divergence is None:
                for read in reads_after(self.model.world, operation):
                    self._take(read)
            if len(self._waiting) >= BATCH:
                self._send_waiting()
            if self.divergence is not None:
                return
        self._settle()

    def _take(self, operation: Operation) -> None:
        model = self.model
        if isinstance(operation, Allocate):
            operation = structs.replace(operation, took=None)
        if not model.refuses and violations(model.world.situation, operation):
            return  # what has to be refused is for backends that claim to
        if model.is_undefined(operation) or not model.is_run(operation):
            return
        if isinstance(operation, Allocate | Lookup) and not model.in_order:
            self._follow(operation)
        else:
            self._waiting.append(model.expect(operation))

    def _follow(self, operation: Allocate | Lookup) -> None:
        """Run an operation in which the backend chooses: its answer comes first, and the reference follows."""
        self._settle()
        if self.divergence is None:
            answers = self._ask([operation])
            self._sent.append(operation)
            [step] = answers()
            self._judge(self.model.follow(operation, step.answer), step)
            self._not_observed += 1

    def _settle(self) -> None:
        """Have all that was taken so far answered and compared."""
        if self._waiting:
            self._send_waiting()
        if self.divergence is None:
            self._compare(*self._under_way)
            self._under_way = [], list

    def _send_waiting(self) -> None:
        """Send what waits; the backend has answered what was sent before, which is compared while it goes on.

        A divergence stays one, even if the adapter breaks in what was sent after it.
        """
        waiting, self._waiting = self._waiting, []
        before = self._under_way
        try:
            answers = self._ask([each.sent for each in waiting if self.model.is_offered(each.operation)])
        except AdapterError:
            with suppress(AdapterError):  # unless it broke before it had answered that
                self._compare(*before)
            raise
        self._under_way = waiting, answers
        self._sent += [each.operation for each in waiting]
        self._compare(*before)
        if self.divergence is not None:
            if isinstance(self._backend, ConcurrentBackend):
                answers()  # whatever they are: what has begun has to end before another pool does
        elif self._not_observed + len(waiting) >= self._config.num_blocks and not self._observes:
            self._settle()
            self.compare_state()  # before the model goes on

    def _compare(self, expected: Sequence[Expected], answers: Answers) -> None:
        """Wait for the answers to what was sent, and compare them."""
        steps = iter(answers())
        for each in expected:
            self._judge(each, next(steps) if self.model.is_offered(each.operation) else None)
            if self.divergence is not None:
                return
        self._not_observed += len(expected)

    def _judge(self, expected: Expected, step: Step | None) -> None:
        """Note an operation, and what differs if it was the backend's too."""
        self._sent.popleft()
        self.operations.append(expected.operation)
        if step is not None:
            self.refused += bool(expected.errors)
            self.tested.note(self._divergence((expected.operation,), (), expected))
            self._note(expected, compare(expected, step, self._observes))
        if self.divergence is None:
            self._before, self._heard = expected.seen, expected.events or ()

    def _note(self, expected: Expected, differences: tuple[Difference, ...]) -> None:
        if differences:
            self.divergence = self._divergence(tuple(self.operations), differences, expected)

    def _divergence(
        self, operations: tuple[Operation, ...], differences: tuple[Difference, ...], expected: Expected
    ) -> Divergence:
        return Divergence(self._config, operations, differences, expected, self._before, self._watches, self._heard)

    def _ask(self, operations: Sequence[Operation]) -> Answers:
        """Send operations; the steps have their events if the backend tells any, and the state of a small pool."""
        if self._observes or not (self.model.tells_events and self.model.takes_events):
            return self._begin(operations, self._observes or self.model.tells_events)
        return self._begin(operations, False, drains=True)

    def _begin(self, operations: Sequence[Operation], observe: bool, drains: bool = False) -> Answers:
        asked = with_drains(operations) if drains else operations
        with self._crashes():
            answers = begin(self._backend, asked, observe)

        def steps() -> list[Step]:
            with self._crashes():
                steps = answers()
                if len(steps) != len(asked):
                    sent, back = counted(len(asked), "operations"), counted(len(steps), "answers")
                    raise AdapterError(f"{sent} sent, and {back} came back")
                if drains:
                    steps = without_drains(steps)
            if self.model.in_order:
                return steps
            return [step_without_order(operation, step) for operation, step in zip(operations, steps, strict=True)]

        return steps

    @contextmanager
    def _crashes(self) -> Iterator[None]:
        """An adapter that breaks may have run all that it was sent."""
        try:
            yield
        except AdapterError as error:
            ran = (*self.operations, *self._sent)
            raise AdapterCrash(str(error), self._config, ran, self._watches) from error

    def compare_state(self) -> None:
        """Compare the whole state of a large pool; that of a small one was compared after each operation."""
        if self._observes or not self._can_observe or self.divergence is not None:
            return
        self._not_observed = 0
        question = Lookup(())
        expected = replace(self.model.expect(question), seen=self.model.show())
        [step] = self._begin([question], True)()
        if differences := compare(expected, step, True):
            self.operations.append(question)
            self._note(expected, differences)


def compare(expected: Expected, step: Step, observes: bool) -> tuple[Difference, ...]:
    """What differs between what is expected and what a backend did."""
    found: list[Difference] = []
    answer = step.answer
    if expected.errors:
        if answer.error not in expected.errors:
            found.append(Difference("answer", " or ".join(sorted(expected.errors)), answer.error or answer.result))
    elif answer.error is not None:
        found.append(Difference("answer", expected.result, f"{answer.error}: {answer.message}"))
    elif isinstance(expected.operation, TakeEvents):
        if as_events(answer.result) != as_events(expected.result):
            found.append(Difference("answer", expected.result, answer.result))
    elif isinstance(expected.operation, Read):
        if not _begins_with(answer.result, expected.result):
            found.append(Difference("answer", expected.result, answer.result))
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


def _begins_with(rows: object, expected: object) -> bool:
    """Whether what was read begins with the rows that are known; what lies past them is nobody's."""
    known = list(expected) if isinstance(expected, list | tuple) else [expected]
    return isinstance(rows, list | tuple) and list(rows[: len(known)]) == known


def _plain(value: object) -> object:
    """Results as JSON would bring them: what is a hit here is an object there."""
    match value:
        case list() | tuple():
            return [_plain(item) for item in value]
        case Hit():
            return {"block": value.block, "reserved": value.reserved, "writer": value.writer, "pending": value.pending}
        case Matched() | Admitted():
            return {field: _plain(getattr(value, field)) for field in value.__struct_fields__}
        case dict() if "hit" in value:
            return {field: _plain(item) for field, item in value.items()}
        case dict():
            return {"block": None, "reserved": None, "writer": None, "pending": None, **value}
    return value
