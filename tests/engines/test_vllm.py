"""The adapter to vLLM: cases computed by hand, in the environment that `make vllm` builds."""

from __future__ import annotations

import hashlib
import pickle
import shlex
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from kvproof.conformance.backends.claims import check_claims
from kvproof.conformance.backends.interface import Level
from kvproof.conformance.backends.names import NamedBackend
from kvproof.conformance.backends.process import ProcessBackend
from kvproof.conformance.backends.wire import (
    ClearedEvent,
    Entry,
    Holders,
    Observation,
    PrefixName,
    RemovedEvent,
    Step,
    StoredEvent,
)
from kvproof.conformance.certification.smoke import smoke
from kvproof.conformance.certification.stages import Subject
from kvproof.conformance.engines.vllm import __main__ as command
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Append,
    CacheFullBlocks,
    CachePartialBlock,
    Contains,
    Evict,
    Extra,
    Free,
    Hashes,
    KeyRef,
    Lookup,
    Move,
    Operation,
    Reset,
    TakeEvents,
    Touch,
)
from kvproof.spec.vocabulary import GroupConfig, GroupKind, HolderMode, PoolConfig, Residency

WORDS = [sys.executable, "-m", "kvproof.conformance.engines.vllm"]

CONFIG = PoolConfig(
    num_blocks=5,
    hash_block_size=2,
    groups=(GroupConfig(GroupKind.FULL_ATTENTION, 4), GroupConfig(GroupKind.FULL_ATTENTION, 2)),
    residency=Residency.PER_COPY,
    holders=HolderMode.CALLER,
)

R1 = AddRequest("r1", (1, 2, 3, 4, 5, 6, 7, 8))


def hashes(tokens: tuple[int, ...], first: object = None, rest: object = None) -> list[str]:
    """vLLM's `sha256` hashes with h = 2, computed here; `first` and `rest` are the extra keys of the spans.

    The seed is the text of PYTHONHASHSEED, which the adapter sets to 0.
    """
    digest, found = _sha256("0"), []
    for start in range(0, len(tokens) - 1, 2):
        digest = _sha256((digest, tokens[start : start + 2], rest if start else first))
        found.append(digest.hex())
    return found


def _sha256(value: object) -> bytes:
    return hashlib.sha256(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)).digest()


H2, H4, H6, H8 = hashes(R1.tokens)


@pytest.fixture(scope="module")
def engine() -> Iterator[ProcessBackend]:
    if command.environment() is None:
        pytest.skip("needs vLLM; `make vllm` builds its environment")
    backend = ProcessBackend(shlex.join(WORDS))
    yield backend
    backend.close()


@pytest.fixture
def run(engine: ProcessBackend) -> Run:
    engine.start(CONFIG)
    return Run(engine)


class Run:
    """Operations on a new pool."""

    def __init__(self, backend: ProcessBackend) -> None:
        self._backend = backend

    def __call__(self, *operations: Operation) -> list[object]:
        """Their results, refusals by name."""
        answers = [step.answer for step in self._backend.run(operations, False)]
        return [answer.error or msgspec.json.decode(msgspec.json.encode(answer.result)) for answer in answers]

    def last(self, *operations: Operation) -> Step:
        """What is shown after the last one."""
        return self._backend.run(operations, True)[-1]

    def seen(self, *operations: Operation) -> Observation:
        """The state after the last one."""
        seen = self.last(*operations).seen
        assert seen is not None
        return seen


def key(position: int, group: int = 0, request: str = "r1") -> KeyRef:
    return KeyRef(request, group, position)


def full(blocks: tuple[int, ...], first: int = 0, mask: tuple[bool, ...] | None = None) -> CacheFullBlocks:
    return CacheFullBlocks("r1", blocks, first, len(blocks), 0, mask)


def test_smoke_accepts_the_adapter(engine: ProcessBackend) -> None:
    _, claimed = engine.identify()
    check_claims(claimed)
    assert smoke(Subject(NamedBackend(engine), claimed)).pools == 2


def test_it_says_what_it_drives_and_what_it_cannot_be_asked(engine: ProcessBackend) -> None:
    identity, claimed = engine.identify()
    assert identity.name == "vLLM BlockPool"
    assert any(file.endswith("vllm/v1/core/block_pool.py") for file in identity.files)
    assert claimed.levels == (Level.POOL, Level.EVENTS, Level.ORDER)
    assert (claimed.residency, claimed.holders) == ((Residency.PER_COPY,), (HolderMode.CALLER,))
    assert not {"truncate", "full_key"} & set(claimed.operations)
    assert "cache_full_blocks.replace" in claimed.without


def test_hashes_are_those_of_vllms_contract(run: Run) -> None:
    assert run(R1, Hashes("r1"))[-1] == [H2, H4, H6, H8]
    assert run(AddRequest("r2", (1, 2, 3)), Append("r2", (4, 5)), Hashes("r2"))[-1] == [H2, H4]


def test_extra_keys_are_those_of_vllm(run: Run) -> None:
    tokens = (1, 2, 3, 4)
    lora, salt = ("lora", "y", "y"), ("cache_salt", "x")
    extras = (Extra("salt", "x"), Extra("adapter", "y"), Extra("media", "cat", 1, 4))
    wanted = hashes(tokens, (lora, ("mm", "cat", 1), salt), (lora, ("mm", "cat", -1)))
    assert run(AddRequest("e", tokens, extras), Hashes("e"))[-1] == wanted


def test_blocks_are_taken_from_the_front_and_come_back_where_they_belong(run: Run) -> None:
    assert run(R1, Allocate(None, 3), Allocate(None, 2)) == [None, [1, 2, 3], "OutOfBlocks"]
    seen = run.seen(full((1, 2)), Free(None, (3, 0, 2, 1)))
    assert (seen.free_queue, seen.num_free, seen.ref_cnt) == ((3, 4, 2, 1), 4, (0, 0, 0, 0, 0))


def test_keys_are_found_touched_moved_and_evicted(run: Run) -> None:
    run(R1, Allocate(None, 2), full((1,)))
    assert run(Lookup((key(4), key(4, 1), key(8))), Contains(key(4), 1), Contains(key(4), 2)) == [
        [1, None, None],
        True,
        False,
    ]
    assert run.seen(Free(None, (1,)), Touch(None, 1, key(4))).ref_cnt == (0, 1, 1, 0, 0)
    assert run.seen(Move(1, 2)).index == (Holders(0, H4, (2,)),)
    assert run.seen(Evict((2,))).index == ()


def test_a_block_shows_its_first_key_with_vllms_own_position(run: Run) -> None:
    seen = run.seen(R1, Allocate(None, 1), CachePartialBlock("r1", 1, 4, 0), CachePartialBlock("r1", 1, 2, 0))
    assert seen.keys is not None
    assert seen.keys[1] == (Entry(0, H4, 4), Entry(0, H2, 2))


def test_events_say_what_vllms_say(run: Run) -> None:
    run(R1, Allocate(None, 2), full((1, 2)), Evict((1,)), Free(None, (1, 2)), Reset())
    assert run.last(Lookup(())).events == (
        StoredEvent(0, (PrefixName(H4, 4), PrefixName(H8, 8)), None, R1.tokens),
        RemovedEvent(0, H4),
        ClearedEvent(),
    )


def test_events_are_taken_once(run: Run) -> None:
    first, second = run(R1, Allocate(None, 1), full((1,)), TakeEvents(), TakeEvents())[-2:]
    assert isinstance(first, list)
    assert len(first) == 1
    assert second == []


def test_events_carry_the_extra_keys_that_vllm_publishes(run: Run) -> None:
    salt, adapter, media = Extra("salt", "x"), Extra("adapter", "y"), Extra("media", "cat", 5, 7)
    run(AddRequest("r1", R1.tokens, (salt, adapter, media)), Allocate(None, 2))
    [first] = run.last(full((1,))).events or ()
    [second] = run.last(full((1, 2), first=1)).events or ()
    assert isinstance(first, StoredEvent)
    assert isinstance(second, StoredEvent)
    assert (first.extra_keys, second.extra_keys) == ((salt, adapter), (adapter, media))


def test_nothing_is_repaired(run: Run) -> None:
    """What differs from the specification arrives as it is: an empty event, an assertion, a prefix nobody has."""
    run(R1, Allocate(None, 2))
    [empty] = run.last(full((1,), mask=(False,))).events or ()
    assert empty == StoredEvent(0, (), None, (1, 2, 3, 4))
    assert run(full((1,)), full((1,))) == [None, "AssertionError"]
    run(TakeEvents())
    [partial] = run.last(CachePartialBlock("r1", 2, 8, 0)).events or ()
    assert partial == StoredEvent(0, (PrefixName(H8, 8),), PrefixName(H6, 6), (7, 8))


def test_a_reset_that_vllm_declines_is_refused(run: Run) -> None:
    assert run(Allocate(None, 1), Reset()) == [[1], "StillReferenced"]


def test_names_that_stand_for_nothing_are_refused_by_the_adapter(run: Run) -> None:
    assert run(Free(None, (9,)), Hashes("nobody"), R1, R1, Lookup((key(2, 7),)), Lookup((key(3),))) == [
        "InvalidBlock",
        "InvalidArgument",
        None,
        "InvalidArgument",
        "InvalidGroup",
        "NotAligned",
    ]


def test_a_mode_says_by_what_the_same_pool_is_judged(engine: ProcessBackend) -> None:
    backend = ProcessBackend(shlex.join([*WORDS, "logical"]))
    try:
        _, claimed = backend.identify()
    finally:
        backend.close()
    _, usual = engine.identify()
    assert claimed == msgspec.structs.replace(usual, residency=(Residency.LOGICAL,))


def test_an_unknown_mode_is_a_usage_error() -> None:
    ended = subprocess.run([*WORDS, "loud"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "usage: python -m kvproof.conformance.engines.vllm [per_copy|" in ended.stderr


def test_a_missing_environment_is_said_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(command.VARIABLE, "/nowhere/python")
    assert command.main([]) == (
        "/nowhere/python cannot be run: No such file or directory; set KVPROOF_VLLM to the Python of vLLM's environment"
    )
    monkeypatch.delenv(command.VARIABLE)
    monkeypatch.setattr(command, "BUILT", "build/nowhere")
    assert "`make vllm` in a checkout of kvproof builds it" in command.main([])
