"""Level D: a backend that owns memory is read after every hit, copy, move and rollback."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from kvproof.conformance.backends.claims import check_claims
from kvproof.conformance.backends.interface import RUN_REQUESTS, AdapterError, Capabilities, Identity, Level
from kvproof.conformance.backends.reference import CAPABILITIES, ReferenceBackend
from kvproof.conformance.backends.wire import IF_HYBRID, Step
from kvproof.conformance.certification.examine import Examination, examine
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.profiles import Profile
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Append,
    BeginStep,
    CacheFullBlocks,
    Copy,
    Extra,
    KeyRef,
    Move,
    Operation,
    Read,
    Touch,
    Truncate,
    Write,
)
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig
from tests.certification.doubles import Changed, without

SHORT = Profile("short", walks=30, illegal_walks=0, operations=200, exhaustive=False, workloads=False)
ATTENTION, STATE = GroupConfig(GroupKind.FULL_ATTENTION, 4), GroupConfig(GroupKind.RECURRENT, 4)
CONFIG = PoolConfig(5, 2, (ATTENTION, STATE), hash_seed=b"")


class Memory(ReferenceBackend):
    """A reference that keeps what is written in memory of its own, row by row, and reads it from there.

    A copy reads what was there before the current step's writes. `fault` leaves one thing out.
    """

    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    def identify(self) -> tuple[Identity, Capabilities]:
        """Without requests that run: their chunks are written elsewhere."""
        identity, claimed = super().identify()
        return identity, msgspec.structs.replace(
            claimed,
            levels=tuple(level for level in claimed.levels if level is not Level.HYBRID),
            operations=tuple(name for name in claimed.operations if name not in RUN_REQUESTS),
            observes=tuple(part for part in claimed.observes if part != IF_HYBRID),
        )

    def start(self, config: PoolConfig) -> None:
        super().start(config)
        self._rows: dict[int, list[int]] = {}
        self._before: dict[int, list[int]] = {}

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        done: list[Step] = []
        for operation in operations:
            [step] = super().run([operation], observe)
            done.append(self._with_memory(operation, step))
        return done

    def _with_memory(self, operation: Operation, step: Step) -> Step:
        if step.answer.error is not None:
            return step
        match operation:
            case BeginStep():
                self._before = {}
            case Write(block=block, position=position, group=group, rows=rows):
                assert rows is not None
                self._before.setdefault(block, self._held(block))
                self._write(block, position, group, rows)
            case Copy(src=src, dst=dst):
                self._before.setdefault(dst, self._held(dst))
                now = self.fault == "copies what is written in this step"
                self._rows[dst] = self._held(src) if now else list(self._before.get(src, self._held(src)))
            case Move(src=src, dst=dst) if self.fault != "moves keys alone":
                self._rows[dst] = self._held(src)
            case Read(block=block):
                return with_result(step, self._held(block))
        if self._world.state.steps.open == 0:
            self._before = {}
        return step

    def _write(self, block: int, position: int, group: int, rows: Sequence[int]) -> None:
        config = self._world.config.groups[group]
        held = self._held(block)
        if config.kind is GroupKind.RECURRENT:
            held[:1] = rows
        else:
            end = (position - 1) % config.block_size + 1
            first = end - 1 if self.fault == "writes the last row alone" else 0
            held[first:end] = rows[first:]
        self._rows[block] = held

    def _held(self, block: int) -> list[int]:
        return list(self._rows.get(block, [0] * 16))


def with_result(step: Step, result: object) -> Step:
    return msgspec.structs.replace(step, answer=msgspec.structs.replace(step.answer, result=result))


def examined(backend: ReferenceBackend) -> Examination:
    return examine(backend, SHORT, seed=1)


def clauses_of(found: Examination) -> set[str]:
    return {shown.clause for shown in found.shown}


def test_a_pool_with_memory_conforms() -> None:
    found = examined(Memory())
    assert found.shown == []
    assert found.met["a reader read what another request had written"] > 100
    assert found.met["content was copied"] > 10
    assert found.operations["random"]["read"] > 300


@pytest.mark.parametrize(
    ("fault", "clause"),
    [
        ("moves keys alone", "CONTENT-MOVE-1"),
        ("copies what is written in this step", "STEP-COPY-1"),
        ("writes the last row alone", "CONTENT-READ-1"),
    ],
)
def test_a_pool_whose_memory_is_wrong_does_not_conform(fault: str, clause: str) -> None:
    found = examined(Memory(fault))
    assert clause in clauses_of(found)
    [shown, *_] = [each for each in found.shown if each.clause == clause]
    assert len(shown.divergence.operations) <= 10


def test_rows_past_those_that_are_known_are_nobodys() -> None:
    def longer(operation: Operation, step: Step) -> Step:
        rows = step.answer.result
        if not isinstance(operation, Read) or not isinstance(rows, list):
            return step
        return with_result(step, [*rows, 7])

    def shorter(operation: Operation, step: Step) -> Step:
        rows = step.answer.result
        if not isinstance(operation, Read) or not isinstance(rows, list):
            return step
        return with_result(step, rows[:-1])

    assert examined(Changed(longer)).shown == []
    assert examined(Changed(shorter)).shown != []


def test_reads_follow_what_changes_content_and_are_part_of_the_trace() -> None:
    operations: list[Operation] = [AddRequest("r1", (1, 2)), AddRequest("r2", (1, 2)), Allocate("r1", 1)]
    operations.append(Write("r1", 1, 2, 0))
    config = PoolConfig(5, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 2),), hash_seed=b"")
    operations += [CacheFullBlocks("r1", (1,), 0, 1, 0), Touch("r2", 1, KeyRef("r1", 0, 2))]
    backend = ReferenceBackend()
    lockstep = Lockstep(backend, backend.identify()[1], config)
    lockstep.run(operations, reads=True)
    assert lockstep.operations == [*operations, Read("r2", 1)]
    again = Lockstep(backend, backend.identify()[1], config)
    again.replay(lockstep.operations)
    assert again.operations == lockstep.operations


def test_rows_are_said_to_those_who_own_memory_alone() -> None:
    for levels in (CAPABILITIES.levels, (Level.POOL,)):
        operations = () if Level.DATA in levels else without("read")
        backend = Changed(levels=levels, operations=operations or CAPABILITIES.operations)
        lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
        lockstep.run([AddRequest("r1", (1, 2, 3)), Allocate("r1", 1), Write("r1", 1, 3, 0)])
        [sent] = [each.rows for batch in backend.batches for each in batch if isinstance(each, Write)]
        assert (sent is not None) == (Level.DATA in levels)
        assert lockstep.operations[-1] == Write("r1", 1, 3, 0)


@pytest.mark.parametrize("missing", ["write", "read", "copy"])
def test_level_d_needs_its_operations(missing: str) -> None:
    with pytest.raises(AdapterError, match=f"level D needs the operations {missing}"):
        check_claims(msgspec.structs.replace(CAPABILITIES, operations=without(missing)))


def test_read_needs_level_d() -> None:
    with pytest.raises(AdapterError, match="`read` is level D's"):
        check_claims(msgspec.structs.replace(CAPABILITIES, levels=(Level.POOL,)))


# Fingerprints


def rows(tokens: Sequence[int], position: int, group: int = 0, extras: tuple[Extra, ...] = ()) -> tuple[int, ...]:
    world = World(CONFIG)
    world.apply(AddRequest("r1", tuple(tokens), extras))
    return world.rows("r1", position, group)


def test_a_row_depends_on_every_token_up_to_it() -> None:
    assert rows((1, 2, 3, 4, 5, 6), 6) == rows((1, 2, 3, 4, 5, 6, 7), 7)[:2]
    assert len(rows((1, 2, 3), 3)) == 3
    assert len(set(rows((0, 0, 0, 0), 4))) == 4
    for place in range(6):
        changed = [1, 2, 3, 4, 5, 6]
        changed[place] = 9
        assert rows(changed, 6)[-1] != rows((1, 2, 3, 4, 5, 6), 6)[-1]


def test_a_state_is_one_number_that_follows_from_the_one_before() -> None:
    assert len(rows((1, 2, 3), 3, group=1)) == 1
    assert rows((1, 2), 2, group=1) != rows((1, 2, 0), 3, group=1)
    assert rows((1, 2), 2, group=1) != rows((1, 2), 2, group=0)[-1:]


def test_a_row_depends_on_the_extra_keys_that_cover_a_token_up_to_it() -> None:
    plain, salted = rows((1, 2, 3, 4), 4), rows((1, 2, 3, 4), 4, extras=(Extra("salt", "x", 2),))
    assert plain[:2] == salted[:2]
    assert plain[2] != salted[2]
    assert plain[3] != salted[3]
    assert rows((1, 2), 2, extras=(Extra("salt", "x"),)) != rows((1, 2), 2, extras=(Extra("adapter", "x"),))


def test_numbers_stay_those_of_a_request_that_was_truncated_and_grew_otherwise() -> None:
    world = World(CONFIG)
    world.apply(AddRequest("r1", (1, 2, 3, 4)))
    before = world.rows("r1", 4, 0)
    world.apply(Truncate("r1", 2))
    world.apply(Append("r1", (8, 9)))
    assert world.rows("r1", 4, 0)[:2] == before[:2]
    assert world.rows("r1", 4, 0)[2] != before[2]
    assert world.rows("r1", 4, 0) == rows((1, 2, 8, 9), 4)


def test_numbers_are_exact_in_every_reader_of_json() -> None:
    assert all(0 <= number < 2**53 for number in rows([2**32 - 1] * 100, 100))
