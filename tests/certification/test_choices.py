"""Backends that do not claim level O choose for themselves, and are judged by their own choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec
import pytest

from kvproof.conformance.backends.interface import Capabilities, Identity, Level
from kvproof.conformance.backends.reference import CAPABILITIES, ReferenceBackend
from kvproof.conformance.backends.wire import Step
from kvproof.conformance.certification.examine import Examination, examine
from kvproof.conformance.certification.failure import failure_of, run_again
from kvproof.conformance.certification.follow import followed, items_of
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.profiles import Profile
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    CacheFullBlocks,
    Evict,
    Free,
    KeyRef,
    Lookup,
    Operation,
    Write,
)
from kvproof.conformance.world import World
from kvproof.spec.errors import OutOfBlocks
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig

CONFIG = PoolConfig(5, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 2),), hash_seed=b"")
WITHOUT_ORDER = tuple(level for level in CAPABILITIES.levels if level is not Level.ORDER)
SHORT = Profile("short", walks=20, illegal_walks=0, operations=100, exhaustive=False, workloads=False)
KEY = KeyRef("r1", 0, 2)

Choose = Callable[[Sequence[int]], Sequence[int]]
"""The free blocks in the order in which they are taken."""


def last(queue: Sequence[int]) -> Sequence[int]:
    return queue[::-1]


def lowest(queue: Sequence[int]) -> Sequence[int]:
    return sorted(queue)


class Choosing(ReferenceBackend):
    """A pool with an order of its own."""

    def __init__(self, choose: Choose, levels: Sequence[Level] = WITHOUT_ORDER) -> None:
        self._choose, self._levels = choose, tuple(levels)

    def identify(self) -> tuple[Identity, Capabilities]:
        identity, claimed = super().identify()
        return identity, msgspec.structs.replace(claimed, levels=self._levels)

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        done: list[Step] = []
        for operation in operations:
            if isinstance(operation, Allocate) and type(operation.n) is int:
                free = self._choose(tuple(self._world.state.free_queue))
                operation = msgspec.structs.replace(operation, took=tuple(free[: operation.n]))
            done += super().run([operation], observe)
        return done


def examined(backend: ReferenceBackend) -> Examination:
    return examine(backend, SHORT, seed=1)


@pytest.mark.parametrize("choose", [last, lowest])
def test_a_pool_with_another_order_conforms_without_level_o(choose: Choose) -> None:
    found = examined(Choosing(choose))
    assert found.shown == []
    assert found.met["an allocation evicted a cached block"] > 10


@pytest.mark.usefixtures("few_vectors")
def test_a_pool_with_another_order_does_not_conform_with_level_o() -> None:
    found = examined(Choosing(last, CAPABILITIES.levels))
    assert "POOL-ALLOC-1" in {shown.clause for shown in found.shown}


def test_without_level_o_another_copy_may_serve() -> None:
    def other_copy(operation: Operation, step: Step) -> Step:
        return changed_answer(step, [2]) if isinstance(operation, Lookup) else step

    copies = both_register()
    assert run(Answering(other_copy, WITHOUT_ORDER), *copies, Lookup((KEY,))).divergence is None
    assert run(Answering(other_copy, CAPABILITIES.levels), *copies, Lookup((KEY,))).divergence is not None


@pytest.mark.parametrize("wrong", [0, 3, 99, -1, None])
def test_a_block_that_does_not_have_the_key_may_not_serve(wrong: object) -> None:
    def other_block(operation: Operation, step: Step) -> Step:
        return changed_answer(step, [wrong]) if isinstance(operation, Lookup) else step

    found = run(Answering(other_block, WITHOUT_ORDER), *both_register(), Lookup((KEY,))).divergence
    assert found is not None
    assert found.differences[0].expected == [1]


@pytest.mark.parametrize("wrong", [[1], [2, 2], [2], [0, 2], [2, 99], [2, 3, 4], None, "two"])
def test_blocks_that_are_not_free_or_not_as_many_are_no_choice(wrong: object) -> None:
    def taking(operation: Operation, step: Step) -> Step:
        return changed_answer(step, wrong) if operation == Allocate("r2", 2) else step

    requests = AddRequest("r1", (1, 2)), AddRequest("r2", (1, 2))
    found = run(Answering(taking, WITHOUT_ORDER), *requests, Allocate("r1", 1), Allocate("r2", 2)).divergence
    assert found is not None
    assert found.differences[0].what == "answer"


def test_a_trace_names_blocks_as_they_were_taken_when_it_was_recorded() -> None:
    backend = Choosing(last)
    recorded: list[Operation] = [AddRequest("r1", (1, 2)), Allocate("r1", 2), Write("r1", 2, 2, 0)]
    recorded += [CacheFullBlocks("r1", (2,), 0, 1, 0), Lookup((KEY,)), Free("r1", (1, 2))]
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    lockstep.replay(recorded)
    assert lockstep.divergence is None
    assert lockstep.operations[1] == Allocate("r1", 2, took=(4, 3))
    assert lockstep.operations[2:4] == [Write("r1", 3, 2, 0), CacheFullBlocks("r1", (3,), 0, 1, 0)]
    assert lockstep.operations[5] == Free("r1", (4, 3))


@pytest.mark.usefixtures("few_vectors")
def test_a_failure_of_a_pool_with_another_order_is_short_and_can_be_run_again() -> None:
    found = examined(Forgetful(last))
    shown = found.shown[0]
    assert len(shown.divergence.operations) == 6
    failure = failure_of(
        shown.divergence, clause=shown.clause, stage="random", target="here", seed=1, found_operations=9
    )
    assert run_again(failure, Forgetful(last)) is None
    assert run_again(failure, Choosing(last)) == "nothing differs"


def test_events_of_one_operation_may_come_in_any_order_without_level_o() -> None:
    def turned(operation: Operation, step: Step) -> Step:
        return msgspec.structs.replace(step, events=step.events and step.events[::-1])

    operations = [*both_register(), Evict((1, 2))]
    longer = (AddRequest("r3", (5, 6, 7, 8)), Allocate("r3", 2), Write("r3", 3, 2, 0), Write("r3", 4, 4, 0))
    operations += [*longer, CacheFullBlocks("r3", (3, 4), 0, 2, 0), Evict((3, 4))]
    assert run(Answering(turned, WITHOUT_ORDER), *operations).divergence is None
    assert run(Answering(turned, CAPABILITIES.levels), *operations).divergence is not None


def test_blocks_are_followed_to_where_their_allocations_take_them() -> None:
    recorded: list[Operation] = [Allocate("r1", 2), Allocate("r1", 9), Allocate("r1", 1, took=(4,))]
    recorded += [Free("r1", (2, 4)), Allocate("r2", 1), Free("r2", (2,)), Evict((1, 3))]
    world = World(CONFIG)
    run: list[Operation] = []
    for operation in followed(items_of(CONFIG, recorded), world):
        chosen = {0: (3, 1), 1: None, 2: (2,), 4: (1,)}
        run.append(operation)
        if isinstance(operation, Allocate):
            operation = msgspec.structs.replace(operation, took=chosen[len(run) - 1])
        with suppress(OutOfBlocks):
            world.apply(operation)
    assert run[:3] == [Allocate("r1", 2), Allocate("r1", 9), Allocate("r1", 1)]
    assert run[3:] == [Free("r1", (1, 2)), Allocate("r2", 1), Free("r2", (1,)), Evict((3, 3))]


# What the tests are made of


class Answering(ReferenceBackend):
    """The reference with its steps changed."""

    def __init__(self, change: Callable[[Operation, Step], Step], levels: Sequence[Level]) -> None:
        self._change, self._levels = change, tuple(levels)

    def identify(self) -> tuple[Identity, Capabilities]:
        identity, claimed = super().identify()
        return identity, msgspec.structs.replace(claimed, levels=self._levels)

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        steps = super().run(operations, observe)
        return [self._change(operation, step) for operation, step in zip(operations, steps, strict=True)]


class Forgetful(Choosing):
    """A pool with an order of its own that does not find free blocks."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        steps = super().run(operations, observe)
        return [
            changed_answer(step, [None if block in self._world.state.free_queue else block for block in found])
            if isinstance(operation, Lookup) and isinstance(found := step.answer.result, list)
            else step
            for operation, step in zip(operations, steps, strict=True)
        ]


def changed_answer(step: Step, result: object) -> Step:
    return msgspec.structs.replace(step, answer=msgspec.structs.replace(step.answer, result=result))


def both_register() -> list[Operation]:
    """Two requests with the same prompt register it side by side: blocks 1 and 2 have its key."""
    operations: list[Operation] = []
    for number, name in enumerate(("r1", "r2"), 1):
        operations += [AddRequest(name, (1, 2)), Allocate(name, 1), Write(name, number, 2, 0)]
        operations.append(CacheFullBlocks(name, (number,), 0, 1, 0))
    return operations


def run(backend: ReferenceBackend, *operations: Operation) -> Lockstep:
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    lockstep.run(operations)
    return lockstep
