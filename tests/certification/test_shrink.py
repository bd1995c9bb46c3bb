from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from kvproof.conformance.backends.interface import AdapterError, Level
from kvproof.conformance.backends.wire import Answer, Step
from kvproof.conformance.certification.candidates import plain_names
from kvproof.conformance.certification.findings import Finding, failures
from kvproof.conformance.certification.follow import items_of, with_blocks
from kvproof.conformance.certification.lockstep import Divergence, Lockstep
from kvproof.conformance.certification.shrink import PASSES, shrink
from kvproof.conformance.certification.spoil import spoiled
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Append,
    CacheFullBlocks,
    CachePartialBlock,
    Evict,
    Free,
    Hashes,
    KeyRef,
    Lookup,
    Operation,
    Touch,
    Truncate,
    Write,
)
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig, Residency
from tests.certification.doubles import Changed, with_mutant

MUTANT = "touched_block_stays_queued"

CONFIG = PoolConfig(
    9,
    2,
    (GroupConfig(GroupKind.RECURRENT, 2), GroupConfig(GroupKind.FULL_ATTENTION, 6)),
    hash_seed=b"",
    residency=Residency.PER_COPY,
)

LONG: tuple[Operation, ...] = (
    AddRequest("nobody", (1, 1)),
    Allocate("nobody", 2),
    AddRequest("author", (77, 12)),
    Append("author", (9, 12, 5, 6)),
    Allocate("author", 1),
    Allocate("author", 3),
    Write("author", 4, 6, 1),
    Lookup((KeyRef("author", 1, 6), KeyRef("nobody", 0, 2))),
    CacheFullBlocks("author", (4,), 0, 1, 1),
    Free("author", (3, 5)),
    Free("author", (4, 6)),
    AddRequest("reader", (77, 12, 9, 12, 5, 6)),
    Touch("reader", 4, KeyRef("reader", 1, 6)),
)
"""The last operation shows the fault: the block is touched, and is free all the same."""


def short(operations: tuple[Operation, ...] = LONG, config: PoolConfig = CONFIG, mutant: str = MUTANT) -> Divergence:
    backend = with_mutant(mutant)
    capabilities = backend.identify()[1]
    lockstep = Lockstep(backend, capabilities, config)
    lockstep.run(operations)
    assert lockstep.divergence is not None
    return shrink(backend, capabilities, lockstep.divergence)


def test_nothing_is_left_that_is_not_needed() -> None:
    found = short()
    assert found.operations == (
        AddRequest("r1", (0,)),
        Allocate("r1", 1),
        Write("r1", 1, 1, 0),
        CacheFullBlocks("r1", (1,), 0, 1, 0),
        Free("r1", (1,)),
        Touch("r1", 1, KeyRef("r1", 0, 1)),
    )
    assert (found.config.num_blocks, found.config.hash_block_size) == (2, 1)
    assert found.config.groups == (GroupConfig(GroupKind.FULL_ATTENTION, 1),)
    assert found.config.residency is Residency.LOGICAL


def test_a_failure_is_shown_as_it_was_found_where_the_adapter_breaks_on_something_shorter() -> None:
    class BreaksIfHurried(Changed):
        def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
            if len(operations) < len(LONG):
                raise AdapterError("it is gone")
            return super().run(operations, observe)

    def wrong(operation: Operation, step: Step) -> Step:
        return msgspec.structs.replace(step, answer=Answer(7)) if isinstance(operation, Touch) else step

    backend = BreaksIfHurried(wrong)
    capabilities = backend.identify()[1]
    lockstep = Lockstep(backend, capabilities, CONFIG)
    lockstep.run(LONG)
    assert lockstep.divergence is not None
    [shown] = failures(backend, capabilities, [Finding(lockstep.divergence, "random")], Counter())
    assert shown.divergence == lockstep.divergence
    assert shown.clause.startswith("POOL-TOUCH-")


def test_it_is_the_same_clause_and_the_same_operation() -> None:
    found = short()
    assert {difference.what for difference in found.differences} >= {"free_queue"}
    assert isinstance(found.operations[-1], Touch)


def test_a_block_is_what_its_allocation_gave() -> None:
    items = items_of(short().config, short().operations)
    assert [dict(item.blocks) for item in items] == [{}, {}, *[{1: (1, 0)}] * 4]
    assert with_blocks(Evict((1, 2, 1)), {1: 7}) == Evict((7, 2, 7))


def test_what_the_backend_does_not_claim_is_not_tried() -> None:
    backend = with_mutant(MUTANT)
    claimed = backend.identify()[1]
    config = PoolConfig(4, 2, (GroupConfig(GroupKind.RECURRENT, 2),), hash_seed=b"", residency=Residency.PER_COPY)
    claimed = msgspec.structs.replace(claimed, group_kinds=(GroupKind.RECURRENT,), residency=(Residency.PER_COPY,))
    lockstep = Lockstep(backend, claimed, config)
    lockstep.run(
        (
            AddRequest("r", (1, 2)),
            Allocate("r", 1),
            Write("r", 1, 2, 0),
            CachePartialBlock("r", 1, 2, 0),
            Free("r", (1,)),
            Touch("r", 1, KeyRef("r", 0, 2)),
        )
    )
    assert lockstep.divergence is not None
    found = shrink(backend, claimed, lockstep.divergence)
    assert found.config.groups[0].kind is GroupKind.RECURRENT
    assert found.config.residency is Residency.PER_COPY


def test_a_registration_ends_earlier_with_its_table_and_its_mask() -> None:
    config = PoolConfig(5, 1, (GroupConfig(GroupKind.FULL_ATTENTION, 1),), hash_seed=b"")
    found = short(
        (
            AddRequest("r", (0, 0, 0)),
            Allocate("r", 1),
            Write("r", 1, 1, 0),
            CacheFullBlocks("r", (1, 0, 0), 0, 3, 0, (True, True, True)),
            Free("r", (1,)),
            Touch("r", 1, KeyRef("r", 0, 1)),
        ),
        config,
    )
    assert found.operations[0] == AddRequest("r1", (0,))
    assert found.operations[3] == CacheFullBlocks("r1", (1,), 0, 1, 0)


THREE_COPIES: tuple[Operation, ...] = (
    *(AddRequest(name, (0,)) for name in ("r1", "r2", "r3")),
    Allocate("r3", 3),
    Write("r3", 2, 1, 0),
    CacheFullBlocks("r3", (2,), 0, 1, 0),
    Write("r3", 1, 1, 0),
    Touch("r1", 2, KeyRef("r3", 0, 1)),
    CacheFullBlocks("r3", (1,), 0, 1, 0),
    Allocate("r1", 2),
    Touch("r2", 1, KeyRef("r2", 0, 1)),
    Touch("r1", 1, KeyRef("r2", 0, 1)),
    Allocate("r2", 1),
    Write("r2", 6, 1, 0),
    CacheFullBlocks("r2", (6,), 0, 1, 0),
    Free("r1", (1, 2)),
    Free("r2", (1, 6)),
    Touch("r3", 6, KeyRef("r3", 0, 1)),
    Free("r3", (6, 1, 3, 2)),
    Allocate("r3", 1),
    Allocate("r2", 1),
    Allocate("r1", 2),
    Lookup((KeyRef("r1", 0, 1),)),
)
"""Every copy has to be taken before the lookup misses, and the pool is full, so that no one operation can go alone."""


def test_a_block_goes_with_all_that_was_done_with_it() -> None:
    backend = with_mutant("reused_block_keeps_its_keys")
    answers_only = msgspec.structs.replace(backend.identify()[1], observes=(), levels=(Level.POOL,))
    config = PoolConfig(7, 1, (GroupConfig(GroupKind.FULL_ATTENTION, 1),), hash_seed=b"")
    lockstep = Lockstep(backend, answers_only, config)
    lockstep.replay(THREE_COPIES)
    assert lockstep.divergence is not None
    found = shrink(backend, answers_only, lockstep.divergence)
    assert (len(found.operations), found.config.num_blocks) == (7, 2)


@pytest.mark.parametrize("n", [2**70, "many", True])
def test_an_operation_that_is_illegal_is_made_smaller_too(n: object) -> None:
    operations = (AddRequest("r", (1, 2)), Evict((3,)), Allocate("r", n))  # type: ignore[arg-type]
    config = PoolConfig(4, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 2),), hash_seed=b"")
    found = short((*operations, *LONG[2:3]), config, "new_queue_is_reversed")
    assert len(found.operations) == 1


def test_names_are_plain_even_if_that_takes_more_letters() -> None:
    found = short((AddRequest("q", (5,)), Append("q", (6,)), Hashes("q")), mutant="appended_tokens_are_not_hashed")
    assert {operation.request for operation in found.operations} == {"r1"}  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(6))
def test_traces_with_junk_in_every_field_have_candidates_too(seed: int) -> None:
    random = Random(seed)
    plain = [each for each in short().operations for _ in range(3)]
    plain += [Append("r1", (1, 2)), Truncate("r1", 1), Append("r1", (3,)), Truncate("r1", 0)] * 8
    junk = [spoiled(each, random) for each in plain for _ in range(6)]
    for begin in range(0, len(junk), 12):
        operations = [AddRequest("r1", (1, 2, 3)), *junk[begin : begin + 12]]
        items = items_of(CONFIG, operations)
        for candidates in (*PASSES, plain_names):
            for config, smaller in candidates(CONFIG, items):
                assert len(smaller) <= len(items)
                items_of(config, [item.operation for item in smaller])
