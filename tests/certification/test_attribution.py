from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest

from kvproof.conformance.backends.interface import Backend
from kvproof.conformance.backends.reference import CAPABILITIES
from kvproof.conformance.backends.wire import Answer, Step, StoredEvent
from kvproof.conformance.certification.attribution import clause_of, clauses_of
from kvproof.conformance.certification.attribution.tables import REFUSALS, RESULTS, STATES, USUAL_REFUSALS
from kvproof.conformance.certification.findings import Finding, failures
from kvproof.conformance.certification.lockstep import Divergence, Lockstep
from kvproof.conformance.certification.settings import plain_pool
from kvproof.conformance.certification.trials import mutant_named
from kvproof.conformance.mutation.unseen import seen_as
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    CacheFullBlocks,
    CachePartialBlock,
    Evict,
    Free,
    KeyRef,
    Lookup,
    Operation,
    Reset,
    TakeEvents,
    Write,
    name_of,
    names_of_operations,
)
from kvproof.conformance.vectors import is_draining, vectors, vectors_of
from kvproof.spec.clauses import clauses
from tests.certification.doubles import Changed, with_mutant

CONFIG = plain_pool(CAPABILITIES)
"""Three blocks of four tokens, hashed by two."""


def divergence(backend: Backend, operations: Iterable[Operation], watch: bool = True) -> Divergence:
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG, watch)
    lockstep.run(operations)
    assert lockstep.divergence is not None
    return lockstep.divergence


LONG = AddRequest("r1", (1, 2, 3, 4))

FULL = CacheFullBlocks("r1", (1,), 0, 1, 0)

HALF = CachePartialBlock("r1", 1, 2, 0)


def block_with(*registrations: Operation) -> list[Operation]:
    return [LONG, Allocate("r1", 1), Write("r1", 1, 4, 0), *registrations]


@pytest.mark.parametrize(
    ("mutant", "operations", "clause"),
    [
        ("new_queue_is_reversed", [Lookup(())], "POOL-INIT-1"),
        ("last_free_block_is_kept_back", [LONG, Allocate("r1", 3)], "POOL-ALLOC-3"),
        ("first_boundary_is_not_registered", block_with(HALF), "REG-PARTIAL-1"),
        ("promotion_keeps_the_shorter_keys", block_with(HALF, FULL), "REG-FULL-3"),
        ("retired_partial_key_comes_back", block_with(FULL, HALF), "REG-PARTIAL-5"),
        ("key_is_registered_twice", block_with(FULL, Free("r1", (1,)), FULL), "REG-DUPLICATE-1"),
        ("freed_cached_blocks_go_first", block_with(FULL, Free("r1", (1,))), "POOL-FREE-3"),
        ("evicted_block_goes_first", block_with(FULL, Free("r1", (1,)), Evict((1,))), "POOL-EVICT-2"),
        ("events_are_delivered_again", block_with(FULL, Evict((1,))), "EVENT-DRAIN-1"),
        ("null_block_is_freed", [LONG, Free("r1", (0,))], "POOL-NULL-1"),
    ],
)
def test_what_differs_says_which_clause_is_broken(mutant: str, operations: list[Operation], clause: str) -> None:
    assert clause_of(divergence(with_mutant(mutant), operations)) == clause


@pytest.mark.parametrize("keeps_the_right_one", [True, False])
def test_a_stored_event_without_a_key_is_told_from_a_wrong_run(keeps_the_right_one: bool) -> None:
    def with_empty_event(operation: Operation, step: Step) -> Step:
        if not isinstance(operation, CacheFullBlocks) or not step.events:
            return step
        empty = StoredEvent(0, (), None, ())
        return msgspec.structs.replace(step, events=(*step.events, empty) if keeps_the_right_one else (empty,))

    assert clauses_of(divergence(Changed(with_empty_event), block_with(FULL))) == ("EVENT-STORED-1",)


def test_a_stored_event_without_a_key_is_told_when_it_is_taken() -> None:
    def with_empty_event(operation: Operation, step: Step) -> Step:
        if not isinstance(operation, TakeEvents) or not isinstance(step.answer.result, list):
            return step
        answer = Answer([*step.answer.result, StoredEvent(0, (), None, ())])
        return msgspec.structs.replace(step, answer=answer)

    found = divergence(Changed(with_empty_event), [*block_with(FULL), TakeEvents()], watch=False)
    assert clauses_of(found) == ("EVENT-STORED-1",)


def test_events_that_were_not_looked_at_are_read_when_they_are_taken() -> None:
    operations = block_with(FULL, Evict((1,)), TakeEvents())
    found = divergence(with_mutant("newest_events_come_first"), operations, watch=False)
    assert clause_of(found) == "EVENT-DRAIN-1"


@pytest.mark.parametrize(
    ("before", "clause"),
    [
        ([FULL, Free("r1", (1,)), Allocate("r1", 3)], "POOL-ALLOC-2"),
        ([FULL, Evict((1,))], "POOL-EVICT-1"),
        ([FULL, Evict((1,)), HALF], "POOL-EVICT-1"),
        ([FULL, Free("r1", (1,)), Reset()], "POOL-RESET-1"),
        ([], "POOL-LOOKUP-1"),
    ],
)
def test_a_key_that_is_found_though_it_is_gone_is_blamed_on_what_should_have_taken_it_away(
    before: list[Operation], clause: str
) -> None:
    def find_it(operation: Operation, step: Step) -> Step:
        return msgspec.structs.replace(step, answer=Answer([1])) if isinstance(operation, Lookup) else step

    operations = [*block_with(*before), Lookup((KeyRef("r1", 0, 4),))]
    assert clause_of(divergence(Changed(find_it, observes=()), operations)) == clause


def test_a_backend_that_shows_nothing_is_judged_by_its_answers() -> None:
    class Shy(Changed):
        def __init__(self, mutant: str) -> None:
            super().__init__(observes=())
            self._broken = with_mutant(mutant)
            self.start, self.run = self._broken.start, self._broken.run  # type: ignore[method-assign]

    operations = block_with(FULL, Free("r1", (1,)), Allocate("r1", 1))
    assert clause_of(divergence(Shy("freed_cached_blocks_go_first"), operations)) == "POOL-ALLOC-1"


def test_every_clause_of_the_tables_exists_and_every_operation_has_one() -> None:
    named = {*REFUSALS.values(), *USUAL_REFUSALS.values(), *RESULTS.values(), *STATES.values()}
    assert named <= set(clauses())
    assert set(RESULTS) == set(names_of_operations())


@pytest.mark.parametrize("watch", [True, False])
def test_whatever_differs_has_a_clause(watch: bool) -> None:
    seen, backend = set(), with_mutant("null_block_is_queued")
    for vector in vectors()[::7]:
        lockstep = Lockstep(backend, backend.identify()[1], vector.header.config, watch and not is_draining(vector))
        lockstep.run(vector.operations)
        if lockstep.divergence is not None:
            seen |= set(clauses_of(lockstep.divergence))
    assert seen
    assert seen <= set(clauses())


def test_the_vectors_tell_clauses_apart_that_say_the_same_of_what_is_seen() -> None:
    backend = with_mutant("xxh3_digest_is_little_endian")
    findings, counted = [], {clause: len(vectors_of([clause])) for clause in clauses()}
    for vector in vectors_of(["HASH-ALGORITHM-1", "HASH-CHAIN-1", "HASH-TOKEN-1"]):
        lockstep = Lockstep(backend, backend.identify()[1], vector.header.config, not is_draining(vector))
        lockstep.run(vector.operations)
        if lockstep.divergence is not None:
            findings.append(Finding(lockstep.divergence, "vectors", vector.header.clauses))
    shown = failures(backend, backend.identify()[1], findings, Counter(counted))
    assert shown[0].clause in seen_as(mutant_named("xxh3_digest_is_little_endian"))
    assert clause_of(shown[0].divergence) == "HASH-CHAIN-1"


def test_a_call_that_breaks_on_a_key_that_is_there_registers_it_again() -> None:
    counts = Counter[str]()

    def asserts(operation: Operation, step: Step) -> Step:
        counts[name_of(operation)] += 1
        again = isinstance(operation, CacheFullBlocks) and counts["cache_full_blocks"] > 1
        return msgspec.structs.replace(step, answer=Answer(error="AssertionError")) if again else step

    assert clause_of(divergence(Changed(asserts), block_with(FULL, FULL))) == "REG-DUPLICATE-1"
    other = CacheFullBlocks("r1", (1, 2), 1, 2, 0)
    begun: list[Operation] = [AddRequest("r1", (1, 2, 3, 4, 5, 6, 7, 8)), Allocate("r1", 2), Write("r1", 1, 4, 0), FULL]
    counts.clear()
    assert clause_of(divergence(Changed(asserts), [*begun, Write("r1", 2, 8, 0), other])) == "REG-FULL-1"
