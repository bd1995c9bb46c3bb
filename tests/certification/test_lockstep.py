from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec
import pytest

from kvproof.conformance.backends.interface import AdapterError, Answers, ConcurrentBackend, Level
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.backends.wire import Answer, Observation, Step
from kvproof.conformance.certification.attribution import clause_of
from kvproof.conformance.certification.lockstep import BATCH, AdapterCrash, Divergence, Lockstep
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    CachePartialBlock,
    Evict,
    Free,
    KeyRef,
    Lookup,
    Operation,
    TakeEvents,
    Touch,
    Write,
    name_of,
)
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig
from tests.certification.doubles import Changed, without

CONFIG = PoolConfig(4, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 4),), hash_seed=b"")
LIFE: tuple[Operation, ...] = (
    AddRequest("r1", (1, 2, 3, 4)),
    AddRequest("r2", (1, 2, 3, 4)),
    Allocate("r1", 1),
    Write("r1", 1, 4, 0),
    CachePartialBlock("r1", 1, 4, 0),
    Lookup((KeyRef("r2", 0, 4),)),
    Touch("r2", 1, KeyRef("r2", 0, 4)),
    Allocate("r1", 9),
    Free("r1", (1,)),
    Free("r2", (1,)),
    Evict((1,)),
)


def driven(backend: ReferenceBackend, *operations: Operation) -> Lockstep:
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    lockstep.run(operations or LIFE)
    return lockstep


def divergence(backend: ReferenceBackend, *operations: Operation) -> Divergence:
    found = driven(backend, *operations).divergence
    assert found is not None
    return found


def test_the_reference_does_not_diverge_from_itself() -> None:
    lockstep = driven(ReferenceBackend())
    assert lockstep.divergence is None
    assert lockstep.operations == list(LIFE)
    assert lockstep.refused == 1  # there are not nine blocks


@pytest.mark.parametrize(
    ("operation", "change", "what", "clause"),
    [
        ("allocate", {"answer": Answer([2])}, "answer", "POOL-ALLOC-1"),
        ("allocate", {"answer": Answer(error="OutOfBlocks")}, "answer", "POOL-ALLOC-3"),
        ("lookup", {"answer": Answer([None])}, "answer", "POOL-LOOKUP-1"),
        ("touch", {"events": None}, "events", "EVENT-DRAIN-1"),
        ("evict", {"events": ()}, "events", "EVENT-RESIDENCY-1"),
        ("cache_partial_block", {"events": ()}, "events", "EVENT-RESIDENCY-1"),
        ("evict", {"seen": Observation(num_free=3)}, "free_queue", "POOL-EVICT-2"),
        ("add_request", {"seen": Observation()}, "num_free", "POOL-INIT-1"),
    ],
)
def test_what_a_backend_does_otherwise_is_a_difference_under_a_clause(
    operation: str, change: dict[str, object], what: str, clause: str
) -> None:
    def changed(run: Operation, step: Step) -> Step:
        return msgspec.structs.replace(step, **change) if name_of(run) == operation else step

    found = divergence(Changed(changed))
    assert name_of(found.operations[-1]) == operation
    assert what in [difference.what for difference in found.differences]
    assert clause_of(found) == clause


def test_what_should_be_refused_and_is_not_is_a_difference() -> None:
    def granted(run: Operation, step: Step) -> Step:
        return msgspec.structs.replace(step, answer=Answer([1])) if step.answer.error else step

    found = divergence(Changed(granted))
    assert [(d.what, d.expected, d.got) for d in found.differences] == [("answer", "OutOfBlocks", [1])]
    assert clause_of(found) == "POOL-ALLOC-3"


def test_what_changes_although_it_was_refused_breaks_atomicity() -> None:
    def leaking(run: Operation, step: Step) -> Step:
        return msgspec.structs.replace(step, seen=Observation(num_free=0)) if step.answer.error else step

    assert clause_of(divergence(Changed(leaking))) == "ERR-ATOMIC-1"


def test_any_of_several_errors_will_do() -> None:
    wrong_twice = Touch("", 1, KeyRef("r1", 0, 2))

    def other(run: Operation, step: Step) -> Step:
        return msgspec.structs.replace(step, answer=Answer(error="NotCached")) if run == wrong_twice else step

    assert driven(Changed(other), *LIFE[:5], wrong_twice).divergence is None
    assert driven(Changed(), *LIFE[:5], wrong_twice).divergence is None


def test_a_backend_is_judged_by_what_it_shows() -> None:
    def blind(run: Operation, step: Step) -> Step:
        return msgspec.structs.replace(step, seen=Observation(num_free=step.seen.num_free if step.seen else None))

    assert driven(Changed(blind, observes=("num_free",))).divergence is None
    assert driven(Changed(blind)).divergence is not None


def test_events_are_left_alone_where_they_are_not_claimed() -> None:
    def silent(run: Operation, step: Step) -> Step:
        return msgspec.structs.replace(step, events=None)

    assert driven(Changed(silent, levels=(Level.POOL,))).divergence is None


def test_operations_of_content_that_are_not_offered_are_run_by_the_reference_alone() -> None:
    backend = Changed(operations=without("write"))
    lockstep = driven(backend)
    assert lockstep.divergence is None
    assert lockstep.operations == list(LIFE)
    assert [o for batch in backend.batches for o in batch] == [o for o in LIFE if not isinstance(o, Write)]


def test_other_operations_that_are_not_offered_are_left_out() -> None:
    lockstep = driven(Changed(operations=without("evict")))
    assert lockstep.operations == list(LIFE[:-1])


def test_undefined_operations_are_left_out() -> None:
    unwritten = CachePartialBlock("r1", 1, 4, 0)
    assert driven(ReferenceBackend(), LIFE[0], LIFE[2], unwritten).operations == [LIFE[0], LIFE[2]]


def test_operations_are_sent_in_batches_and_asked_for_one_by_one() -> None:
    backend = Changed()
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    drawn: list[int] = []

    def operations() -> object:
        for _ in range(BATCH + 3):
            drawn.append(len(lockstep.model.world.state.free_queue))
            yield Allocate("r1", 1) if lockstep.model.world.state.free_queue else Free("r1", (1, 2, 3))

    lockstep.run(operations())  # type: ignore[arg-type]
    assert [len(batch) for batch in backend.batches] == [BATCH, 3]
    assert drawn[:5] == [3, 2, 1, 0, 3]


class Concurrent(Changed, ConcurrentBackend):
    """Takes down what it is told, and when its answers are asked for."""

    breaks_in: int | None = None

    def __init__(self, change: Callable[[Operation, Step], Step] = lambda operation, step: step) -> None:
        super().__init__(change)
        self.log: list[str] = []

    def begin(self, operations: Sequence[Operation], observe: bool) -> Answers:
        number = len(self.batches)
        steps = super().run(operations, observe)
        self.log.append(f"begin {number}")

        def answers() -> list[Step]:
            self.log.append(f"answers {number}")
            if number == self.breaks_in:
                raise AdapterError("it is gone")
            return steps

        return answers


def long(lockstep: Lockstep, log: list[str]) -> Iterator[Operation]:
    """Three batches and a bit; takes down when each batch is drawn."""
    for number in range(3 * BATCH + 3):
        if number % BATCH == 0:
            log.append(f"draw {number // BATCH}")
        yield Allocate("r1", 1) if lockstep.model.world.state.free_queue else Free("r1", (1, 2, 3))


def test_a_backend_works_on_a_batch_while_the_next_one_is_drawn_and_the_last_one_compared() -> None:
    backend = Concurrent()
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    lockstep.run(long(lockstep, backend.log))
    assert backend.log == [
        *("draw 0", "begin 0", "draw 1", "begin 1", "answers 0", "draw 2", "begin 2", "answers 1"),
        *("draw 3", "begin 3", "answers 2", "answers 3"),
    ]
    assert lockstep.divergence is None
    assert lockstep.operations == [operation for batch in backend.batches for operation in batch]


def wrong_once_full(run: Operation, step: Step) -> Step:
    return msgspec.structs.replace(step, answer=Answer([0])) if isinstance(run, Free) else step


def test_after_a_divergence_no_answer_is_left_behind() -> None:
    backend = Concurrent(wrong_once_full)
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    lockstep.run(long(lockstep, backend.log))
    assert lockstep.divergence is not None
    assert len(lockstep.operations) == 4
    assert backend.log == ["draw 0", "begin 0", "draw 1", "begin 1", "answers 0", "answers 1"]


@pytest.mark.parametrize("together", [True, False], ids=["works while others go on", "runs in the same thread"])
@pytest.mark.parametrize("breaks_in", [1, 2, 3])
def test_a_divergence_stays_one_whatever_the_adapter_does_after_it(breaks_in: int, together: bool) -> None:
    class Breaks(Changed):
        def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
            if len(self.batches) == breaks_in:
                raise AdapterError("it is gone")
            return super().run(operations, observe)

    backend = Concurrent(wrong_once_full) if together else Breaks(wrong_once_full)
    if isinstance(backend, Concurrent):
        backend.breaks_in = breaks_in
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    with suppress(AdapterCrash):
        lockstep.run(long(lockstep, []))
    assert lockstep.divergence is not None
    assert lockstep.divergence.operations == tuple(lockstep.operations[:4])


def test_an_adapter_that_cannot_be_asked_on_was_not_sent_what_waits() -> None:
    class Gone(Concurrent):
        def begin(self, operations: Sequence[Operation], observe: bool) -> Answers:
            if self.batches:
                raise AdapterError("it did not answer what it was asked before")
            return super().begin(operations, observe)

    backend = Gone()
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    with pytest.raises(AdapterCrash) as crash:
        lockstep.run(long(lockstep, backend.log))
    assert list(crash.value.operations) == backend.batches[0]


@pytest.mark.parametrize(("breaks_in", "ran"), [(0, 2 * BATCH), (2, 3 * BATCH + 3), (3, 3 * BATCH + 3)])
def test_a_backend_that_breaks_may_have_run_all_that_it_was_sent(breaks_in: int, ran: int) -> None:
    backend = Concurrent()
    backend.breaks_in = breaks_in
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    with pytest.raises(AdapterCrash, match="it is gone") as crash:
        lockstep.run(long(lockstep, backend.log))
    assert len(crash.value.operations) == ran
    assert crash.value.operations == tuple(operation for batch in backend.batches for operation in batch)


def test_a_missing_answer_is_the_adapters_fault() -> None:
    class Mute(Changed):
        def run(self, operations: object, observe: bool) -> list[Step]:
            return []

    with pytest.raises(AdapterCrash, match="11 operations sent, and 0 answers came back"):
        driven(Mute())


def test_drained_events_come_once() -> None:
    assert driven(ReferenceBackend(), *LIFE[:5], TakeEvents(), TakeEvents()).divergence is None
