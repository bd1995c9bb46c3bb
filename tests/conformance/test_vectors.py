from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from kvproof.conformance.backends.interface import Capabilities, Identity
from kvproof.conformance.backends.reference import CAPABILITIES, ReferenceBackend
from kvproof.conformance.backends.wire import PARTS, Answer, Entry, Step
from kvproof.conformance.certification.lockstep import MOST_OBSERVED, Lockstep
from kvproof.conformance.certification.trace import Trace, TraceError, write
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.mutant import FAULT_KINDS
from kvproof.conformance.operations import AddRequest, Allocate, CachePartialBlock, Free, Hashes, Operation, TakeEvents
from kvproof.conformance.vectors import is_draining, read_vectors, vectors, vectors_of
from kvproof.conformance.vectors.expectations import Rejected, drained_vector, draining_vector
from kvproof.conformance.vectors.limits import LIMITS, POOL, Limit
from kvproof.conformance.vectors.not_shown import NOT_SHOWN
from kvproof.conformance.vectors.noticed import Notice
from kvproof.conformance.vectors.replay import replay
from kvproof.conformance.vectors.tape import Tape, Unsayable, request_operation, sayable
from kvproof.reference import BlockPool, Ghost, Request
from kvproof.spec.clauses import Level, clauses
from kvproof.spec.vocabulary import ExtraKey, ExtraKeySource, PoolConfig

MUST = {clause.id for clause in clauses().values() if clause.level is Level.MUST}


def run_module(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"kvproof.conformance.vectors.{name}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_shipped_vectors_are_those_that_the_clause_tests_give() -> None:
    run = run_module("generate", "--check")
    assert run.returncode == 0, run.stdout + run.stderr


# What they are


def test_every_clause_of_level_must_has_a_vector_or_a_reason() -> None:
    carried = {clause_id for vector in vectors() for clause_id in vector.header.clauses}
    assert carried & MUST == MUST - NOT_SHOWN.keys()
    assert carried <= clauses().keys()
    assert NOT_SHOWN.keys() <= MUST
    assert len(NOT_SHOWN) * 9 < len(MUST)


def test_every_vector_has_a_name_of_its_own_clauses_a_kind_of_fault_and_its_harm() -> None:
    names = Counter(vector.header.name for vector in vectors())
    assert [name for name, number in names.items() if number > 1 or not name] == []
    for vector in vectors():
        header = vector.header
        assert header.clauses, header.name
        if not MUST.isdisjoint(header.clauses):
            assert header.fault in FAULT_KINDS, header.name
            assert header.harm, header.name


def test_every_vector_shows_what_it_should() -> None:
    for vector in vectors():
        shown = [number for number, step in enumerate(vector.steps) if step.expect.state is not None]
        refused = [number for number, step in enumerate(vector.steps) if step.expect.errors]
        assert vector.header.config.num_blocks <= MOST_OBSERVED
        assert vector.steps
        if is_draining(vector):
            assert shown == []
        else:
            assert shown == sorted({*refused, len(vector.steps) - 1}), vector.header.name
            for step in vector.steps:
                assert step.expect.state is None or all(getattr(step.expect.state, part) is not None for part in PARTS)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.what)
def test_a_limit_is_shown_from_both_sides(limit: Limit) -> None:
    [vector] = [vector for vector in vectors() if vector.header.name == limit.name]
    assert set(limit.clauses) <= set(vector.header.clauses)
    refused = [step.operation for step in vector.steps if step.expect.errors]
    assert refused == list(limit.outside)
    assert [step.operation for step in vector.steps if not step.expect.errors] == [*limit.before, *limit.inside]
    assert limit.inside


# What they are good for


class Changed:
    """The reference, with one thing done to each step."""

    def __init__(self, **changes: object) -> None:
        self._inner = ReferenceBackend()
        self._changes = changes

    def identify(self) -> tuple[Identity, Capabilities]:
        return self._inner.identify()

    def start(self, config: PoolConfig) -> None:
        self._inner.start(config)

    def run(self, operations: list[Operation], observe: bool) -> list[Step]:
        return [msgspec.structs.replace(step, **self._changes) for step in self._inner.run(operations, observe)]

    def close(self) -> None:
        self._inner.close()


def test_every_vector_holds_on_the_reference() -> None:
    backend = ReferenceBackend()
    assert [found.vector.header.name for vector in vectors() if (found := replay(vector, backend))] == []


def test_every_vector_runs_in_lockstep_without_a_difference() -> None:
    for vector in vectors():
        lockstep = Lockstep(ReferenceBackend(), CAPABILITIES, vector.header.config)
        assert lockstep.run(vector.operations) == len(vector.steps), vector.header.name
        assert lockstep.divergence is None, vector.header.name


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"answer": Answer(error="OutOfBlocks")}, "answer"),
        ({"answer": Answer(result=[3])}, "answer"),
        ({"events": ()}, "events"),
    ],
)
def test_a_vector_does_not_hold_if_anything_is_otherwise(changes: dict[str, object], what: str) -> None:
    told = (vector for vector in vectors_of(["EVENT-STORED-2"]) if any(step.expect.events for step in vector.steps))
    vector = next(told)
    found = replay(vector, Changed(**changes))
    assert found is not None
    assert [difference.what for difference in found.differences] == [what]


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_state_counts(part: str) -> None:
    [vector] = [vector for vector in vectors() if vector.header.name == "limits/releases"]
    last = vector.steps[-1]
    assert last.expect.state is not None
    other = 9 if part == "num_free" else (Entry(0, "", 2),) if part in ("index",) else ((),)
    state = msgspec.structs.replace(last.expect.state, **{part: other})
    wrong = Trace(vector.header, (*vector.steps[:-1], replace_expect(last, state=state)))
    found = replay(wrong, ReferenceBackend())
    assert found is not None
    assert (found.number, [difference.what for difference in found.differences]) == (len(vector.steps) - 1, [part])


def replace_expect(step, **changes):  # type: ignore[no-untyped-def]
    return msgspec.structs.replace(step, expect=msgspec.structs.replace(step.expect, **changes))


CHOSEN = ()


def test_mutants_of_every_chapter_are_noticed_by_the_vectors_of_their_clauses() -> None:
    run = run_module("noticed", *CHOSEN)
    assert run.returncode == 0, run.stderr
    found = [msgspec.json.decode(line, type=Notice) for line in run.stdout.splitlines()]
    assert [notice.mutant for notice in found] == list(CHOSEN)
    assert [notice for notice in found if notice.error or not notice.of_clauses] == []
    of_chapters = {
        clauses()[clause_id].chapter for mutant in MUTANTS if mutant.name in CHOSEN for clause_id in mutant.clauses
    }
    assert len(of_chapters) >= 10


def test_a_mutant_that_vectors_cannot_show_is_noticed_by_none() -> None:
    run = run_module("noticed", "copy_takes_more_than_was_served")
    notice = msgspec.json.decode(run.stdout, type=Notice)
    assert (notice.first, notice.of_clauses, notice.error) == (None, False, "")
    assert notice.vectors_of_clauses > 0


# Reading


def test_vectors_are_read_as_they_were_written() -> None:
    some = vectors()[::100]
    assert list(read_vectors("".join(map(write, some)), "some")) == list(some)


def test_a_file_that_was_cut_is_no_file_of_vectors() -> None:
    text = "".join(map(write, vectors()[:2]))
    cut = text[: text.rindex('{"end"')]
    with pytest.raises(TraceError, match=r"a\.jsonl was cut"):
        list(read_vectors(cut, "a.jsonl"))


# Making


def tape(config: PoolConfig = POOL) -> tuple[Tape, BlockPool]:
    pool = BlockPool(config, Ghost())
    return Tape(config, pool.hasher, pool, asks_hashes=False), pool
