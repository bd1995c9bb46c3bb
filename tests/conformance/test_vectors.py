from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvproof.conformance.backends.interface import Capabilities, Identity
from kvproof.conformance.backends.reference import CAPABILITIES, ReferenceBackend
from kvproof.conformance.backends.wire import PARTS, Admitted, Answer, Step
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.trace import Trace, TraceError, TraceStep, write
from kvproof.conformance.large import MOST_OBSERVED
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.mutant import FAULT_KINDS
from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Allocate,
    BeginStep,
    CachePartialBlock,
    Fail,
    KeyRef,
    Lookup,
    Operation,
    Read,
    TakeEvents,
    Touch,
    Write,
)
from kvproof.conformance.vectors import (
    DATA,
    DIGESTS,
    DamagedVectors,
    is_draining,
    read_vectors,
    vectors,
    vectors_of,
)
from kvproof.conformance.vectors.expectations import Rejected, drained_vector, draining_vector
from kvproof.conformance.vectors.generate import FOLDER, made_of
from kvproof.conformance.vectors.limits.hybrid_kinds import ROWS
from kvproof.conformance.vectors.limits.kinds import POOL
from kvproof.conformance.vectors.not_shown import NOT_SHOWN
from kvproof.conformance.vectors.noticed import Notice
from kvproof.conformance.vectors.recorder import Recording
from kvproof.conformance.vectors.replay import replay
from kvproof.conformance.vectors.tape import Tape, Unsayable, sayable
from kvproof.reference import BlockPool, Ghost, PrefixHasher, Request
from kvproof.reference.hybrid import HybridCache
from kvproof.spec.clauses import Level, clauses
from kvproof.spec.errors import PoolError
from kvproof.spec.vocabulary import HashAlgorithm, PoolConfig

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
            runs = vector.header.config.hybrid is not None
            parts = [part for part in PARTS if runs or part != "running"]
            for step in vector.steps:
                assert step.expect.state is None or all(getattr(step.expect.state, part) is not None for part in parts)


# What they are good for


class Changed:
    """The reference, with one thing done to each step."""

    def __init__(self, **changes: Any) -> None:
        self._inner = ReferenceBackend()
        self._changes = changes

    def identify(self) -> tuple[Identity, Capabilities]:
        return self._inner.identify()

    def start(self, config: PoolConfig) -> None:
        self._inner.start(config)

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        return [msgspec.structs.replace(step, **self._changes) for step in self._inner.run(operations, observe)]

    def close(self) -> None:
        self._inner.close()


def test_every_vector_holds_on_the_reference() -> None:
    backend = ReferenceBackend()
    assert [found.vector.header.name for vector in vectors() if (found := replay(vector, backend))] == []


def test_every_vector_runs_in_lockstep_without_a_difference() -> None:
    for vector in vectors():
        lockstep = Lockstep(ReferenceBackend(), CAPABILITIES, vector.header.config)
        lockstep.run(vector.operations)
        assert lockstep.divergence is None, vector.header.name
        assert lockstep.operations == vector.operations, vector.header.name


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"answer": Answer(error="OutOfBlocks")}, "answer"),
        ({"answer": Answer(result=[3])}, "answer"),
        ({"events": ()}, "events"),
    ],
)
def test_a_vector_does_not_hold_if_anything_is_otherwise(changes: dict[str, Any], what: str) -> None:
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
    other = 9 if part == "num_free" else ((),)
    state = msgspec.structs.replace(last.expect.state, **{part: other})
    changed = TraceStep(last.operation, msgspec.structs.replace(last.expect, state=state))
    wrong = Trace(vector.header, (*vector.steps[:-1], changed))
    found = replay(wrong, ReferenceBackend())
    assert found is not None
    assert (found.number, [difference.what for difference in found.differences]) == (len(vector.steps) - 1, [part])


CHOSEN = (
    "full_position_counts_to_the_next_slot",
    "unaligned_position_is_rounded_down",
    "tokens_are_cut_to_16_bits",
    "extra_key_is_hashed_where_it_begins_only",
    "writer_survives_its_free",
    "sibling_is_removed_too",
    "last_registered_block_is_found",
    "mask_is_ignored",
    "free_block_is_registered",
    "moved_key_loses_its_rank",
    "readers_do_not_stop_a_write",
    "events_of_the_last_operation_only",
    "stored_comes_before_removed",
    "touch_takes_a_reserved_key",
    "rollback_leaves_older_reservations",
    "slots_are_registered_one_by_one",
    "string_passes_for_a_list",
)
"""Of the invariants the mutants are those of their check, which no vector runs."""


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


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda folder: (folder / "86-joint-hit.jsonl").unlink(), "86-joint-hit.jsonl"),
    "empty": (lambda folder: (folder / "86-joint-hit.jsonl").write_text(""), "86-joint-hit.jsonl"),
    "more than there were": (lambda folder: (folder / "99.jsonl").write_text(""), "99.jsonl"),
    "changed": (lambda folder: (folder / "30-blocks.jsonl").open("ab").write(b"\xff"), "30-blocks.jsonl"),
    "without digests": (lambda folder: (folder / DIGESTS).unlink(), "10-positions.jsonl, 20-hashes.jsonl"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_vectors_that_are_not_as_they_were_shipped_are_named(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(FOLDER, tmp_path / DATA)
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    assert len(vectors.__wrapped__()) == len(vectors())
    do, named = DAMAGES[damage]
    do(tmp_path / DATA)
    with pytest.raises(DamagedVectors, match=rf"\({re.escape(named)}.*\); install kvproof again"):
        vectors.__wrapped__()


# Making


class Rig:
    """A pool with a request of three blocks, and the tape of what is said to them."""

    def __init__(self) -> None:
        self.pool = BlockPool(POOL, Ghost())
        self.r1 = Request("r1", [1, 2, 3, 4, 5, 6, 7, 8], self.pool.hasher)
        self.tape = Tape(POOL, self.pool.hasher, self.pool, asks_hashes=False)
        self.tape.arrive(self.r1)

    def say(self, method: str, **arguments: object) -> None:
        operation = self.tape.sentence(method, arguments)
        try:
            result = getattr(self.pool, method)(**arguments)
        except PoolError as refusal:
            self.tape.note(operation, error=type(refusal).__name__)
        else:
            self.tape.note(operation, result)

    def fill(self) -> None:
        self.say("allocate", n=1, holder="r1")
        self.say("write", request=self.r1, block_id=1, position=4, group=0)
        self.say("cache_partial_block", request=self.r1, block_id=1, position=4, group=0, replace=False)


def test_a_tape_gives_the_vector_of_what_was_said() -> None:
    rig = Rig()
    rig.fill()
    rig.say("touch", block_id=1, key=rig.r1.key_at(0, 4), holder="r1")
    made = drained_vector(rig.tape, "a", ("POOL-HOLDER-1",))
    assert made.operations == [
        AddRequest("r1", (1, 2, 3, 4, 5, 6, 7, 8)),
        Allocate("r1", 1),
        Write("r1", 1, 4, 0),
        CachePartialBlock("r1", 1, 4, 0),
        Touch("r1", 1, KeyRef("r1", 0, 4)),
        Read("r1", 1),
    ]
    assert [step.expect.errors for step in made.steps] == [(), (), (), (), ("AlreadyHeld",), ()]
    assert (made.steps[1].expect.result, made.steps[2].expect.result) == ([1], msgspec.UNSET)
    assert [len(step.expect.events or ()) for step in made.steps] == [0, 0, 0, 1, 0, 0]
    assert [step.expect.state is not None for step in made.steps] == [False] * 4 + [True] * 2
    rows = made.steps[5].expect.result
    assert isinstance(rows, list)
    assert len(rows) == 4


def test_a_vector_that_drains_has_the_events_where_they_are_taken_and_one_that_is_drained_does_not() -> None:
    rig = Rig()
    rig.fill()
    rig.say("take_events")
    drains = draining_vector(rig.tape, "a", ("EVENT-DRAIN-1",))
    assert drains.operations[-1] == TakeEvents()
    taken = drains.steps[-1].expect.result
    assert isinstance(taken, list)
    assert len(taken) == 1
    assert all(step.expect.events is None and step.expect.state is None for step in drains.steps)
    assert TakeEvents() not in drained_vector(rig.tape, "a", ("EVENT-DRAIN-1",)).operations


def test_a_key_is_named_by_the_request_that_it_was_made_of_while_that_has_it() -> None:
    rig = Rig()
    r2 = Request("r2", [1, 2, 3, 4], rig.pool.hasher)
    rig.tape.arrive(r2)
    key = rig.r1.key_at(0, 4)
    assert key is not None
    assert rig.tape.sentence("lookup", {"keys": [key]}) == Lookup((KeyRef("r2", 0, 4),))
    rig.tape.remember(rig.r1, key, 0, 4)
    assert rig.tape.sentence("lookup", {"keys": [key]}) == Lookup((KeyRef("r1", 0, 4),))
    rig.r1.truncate(2)
    assert rig.tape.sentence("lookup", {"keys": [key]}) == Lookup((KeyRef("r2", 0, 4),))


@pytest.mark.parametrize(
    "value",
    [1.0, float("nan"), b"1", {1}, {"a": 1}, 2**70, [1, [2.5]], "\ud800", Level.MUST],
    ids=lambda value: repr(value)[:20],
)
def test_what_json_does_not_hold_is_not_said(value: object) -> None:
    with pytest.raises(Unsayable):
        sayable(value)
    with pytest.raises(Unsayable):
        Rig().tape.sentence("free", {"block_ids": [1, value], "holder": "r1"})


@pytest.mark.parametrize("value", [None, True, 1, -(2**63), "", "r1", [1, [None]]], ids=repr)
def test_what_json_holds_is_said_however_illegal(value: object) -> None:
    assert sayable(value) == value
    operation = Rig().tape.sentence("evict", {"block_ids": value})
    assert msgspec.json.encode(operation) == msgspec.json.encode({"op": "evict", "blocks": value})


def test_what_was_refused_may_be_left_out_and_so_may_questions_but_no_change() -> None:
    tape = Rig().tape
    tape.note_unsaid("free", "a set", refused=True)
    tape.note_unsaid("lookup", "a key of no request", refused=False)
    assert (tape.left_out, tape.trouble) == (2, "")
    tape.note_unsaid("touch", "a key of no request", refused=False)
    with pytest.raises(Rejected, match="a key of no request"):
        drained_vector(tape, "a", ())


def test_what_runs_is_said_with_its_tables_and_what_changes_it_unheard_is_noticed() -> None:
    pool = BlockPool(ROWS, Ghost())
    cache, r1 = HybridCache(pool), Request("r1", [1, 2, 3, 4, 5, 6], pool.hasher)
    tape = Tape(ROWS, pool.hasher, pool, asks_hashes=False, cache=cache)
    tape.arrive(r1)
    tape.note(BeginStep(), pool.begin_step())
    operation = tape.sentence("admit", {"request": r1, "end": 5})
    tape.note(operation, cache.admit(r1, 5))
    admit = drained_vector(tape, "a", ()).steps[2]
    assert (admit.operation, admit.expect.result) == (Admit("r1", 5), Admitted(0, 0, 0, ((1, 2),)))
    assert tape.sentence("fail", {"step": 1}) == Fail(1)
    with pytest.raises(Unsayable, match="no operation"):
        tape.sentence("tables", {"request": r1})
    cache.commit(1)
    tape.note(tape.sentence("match", {"request": r1}), cache.match(r1))
    with pytest.raises(Rejected, match="behind its back"):
        drained_vector(tape, "a", ())


def test_a_second_request_of_a_name_is_not_said_to_a_pool() -> None:
    rig = Rig()
    with pytest.raises(Unsayable, match="two requests of one name"):
        rig.tape.arrive(Request("r1", [7, 8], rig.pool.hasher))


def test_a_request_hashed_otherwise_is_not_said() -> None:
    other = Request("r2", [1, 2, 3, 4], PrefixHasher(HashAlgorithm.SHA256, 4))
    with pytest.raises(Unsayable, match="another hash contract"):
        Rig().tape.sentence("write", {"request": other, "block_id": 1, "position": 4, "group": 0})


def test_a_pool_that_was_changed_behind_its_back_gives_no_vector() -> None:
    rig = Rig()
    rig.fill()
    rig.pool.evict([1])
    rig.say("allocate", n=1, holder="r1")
    with pytest.raises(Rejected, match="behind its back"):
        drained_vector(rig.tape, "a", ())


def test_what_is_undefined_gives_no_vector() -> None:
    rig = Rig()
    rig.say("allocate", n=1, holder="r1")
    rig.say("cache_partial_block", request=rig.r1, block_id=1, position=4, group=0, replace=False)
    with pytest.raises(Rejected, match="undefined"):
        drained_vector(rig.tape, "a", ())


def test_what_several_tests_do_is_one_vector_of_all_their_clauses() -> None:
    lost: Counter[str] = Counter()
    recordings = [
        Recording(test, clauses, Rig().tape)
        for test, clauses in (("a", ("POOL-ALLOC-1",)), ("b", ("COST-1",)), ("c", ("POOL-ALLOC-1", "POOL-INIT-1")))
    ]
    [vector] = made_of(recordings, lost)
    assert (vector.header.name, vector.header.clauses) == ("a", ("POOL-ALLOC-1", "POOL-INIT-1"))
    assert lost == {"the same as another vector": 1, "only of clauses that no vector shows": 1}
