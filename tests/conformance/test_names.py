from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kvproof.conformance.backends.interface import OWN_HASHES, Capabilities, Identity
from kvproof.conformance.backends.names import HASH_CONFLICT, NamedBackend
from kvproof.conformance.backends.reference import CAPABILITIES, ReferenceBackend
from kvproof.conformance.backends.wire import Observation, Step, StoredEvent
from kvproof.conformance.certification.attribution import clause_of
from kvproof.conformance.certification.lockstep import Divergence, Lockstep
from kvproof.conformance.operations import AddRequest, Allocate, Append, Extra, FullKey, Hashes, Operation
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig
from tests.backend_walks import drive

CONFIG = PoolConfig(4, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 4),))


class Renaming(ReferenceBackend):
    """The reference with hashes of its own: wherever a digest stood there is the name that `name` gives it."""

    def identify(self) -> tuple[Identity, Capabilities]:
        identity, _ = super().identify()
        return identity, msgspec.structs.replace(CAPABILITIES, hashes=(OWN_HASHES,))

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        steps = super().run(operations, observe)
        return [msgspec.convert(self.renamed(msgspec.to_builtins(step)), Step) for step in steps]

    def renamed(self, value: Any) -> Any:
        if isinstance(value, str) and len(value) == 64:
            return self.name(value)
        if isinstance(value, dict):
            return {key: self.renamed(item) for key, item in value.items()}
        return [self.renamed(item) for item in value] if isinstance(value, list | tuple) else value

    def name(self, digest: str) -> str:
        return f"p{int(digest[:12], 16)}"


class OneNameForAll(Renaming):
    def name(self, digest: str) -> str:
        return "p"


class AnotherNameEachTime(Renaming):
    given = 0

    def name(self, digest: str) -> str:
        self.given += 1
        return f"{digest[:8]}-{self.given}"


class ForgetsExtraKeys(Renaming):
    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        plain = [msgspec.structs.replace(o, extra_keys=()) if isinstance(o, AddRequest) else o for o in operations]
        return super().run(plain, observe)


class LosesTheLastHash(Renaming):
    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        steps = super().run(operations, observe)
        for place, operation in enumerate(operations):
            result = steps[place].answer.result
            if isinstance(operation, Hashes) and isinstance(result, list):
                answer = msgspec.structs.replace(steps[place].answer, result=result[:-1])
                steps[place] = msgspec.structs.replace(steps[place], answer=answer)
        return steps


class NamesTheWrongKey(Renaming):
    """Its events tell of a prefix that nobody has."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        steps = super().run(operations, observe)
        return [msgspec.structs.replace(step, events=tuple(map(self.wrong, step.events or ()))) for step in steps]

    def wrong(self, event: Any) -> Any:
        if not isinstance(event, StoredEvent):
            return event
        [first, *others] = event.hashes
        return msgspec.structs.replace(event, hashes=(msgspec.structs.replace(first, hash="nobody's"), *others))


def start(backend: ReferenceBackend) -> NamedBackend:
    named = NamedBackend(backend)
    named.start(CONFIG)
    return named


@pytest.mark.parametrize("seed", range(12))
def test_names_of_its_own_are_no_difference(seed: int) -> None:
    assert drive(NamedBackend(Renaming()), seed, 200) is None


def test_without_the_names_everything_differs() -> None:
    found = next(found for seed in range(30) if (found := drive(Renaming(), seed, 200)) is not None)
    assert isinstance(found.operations[-1], Hashes)
    assert [difference.what for difference in found.differences] == ["answer"]


def test_one_step_comes_back_for_each_operation() -> None:
    named = start(Renaming())
    steps = named.run((AddRequest("r", (1, 2, 3, 4)), Append("r", (5,)), Hashes("r"), FullKey(1)), observe=True)
    assert len(steps) == 4
    assert steps[2].answer.result == hashes_of_the_reference((1, 2, 3, 4))
    assert steps[3].answer.result is None


def hashes_of_the_reference(tokens: tuple[int, ...]) -> object:
    reference = ReferenceBackend()
    reference.start(CONFIG)
    return reference.run((AddRequest("r", tokens), Hashes("r")), observe=False)[1].answer.result


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        (OneNameForAll(), "names another prefix already"),
        (AnotherNameEachTime(), "the same prefix had the name"),
        (LosesTheLastHash(), "the request has 2 hashes, not"),
    ],
)
def test_names_that_contradict_what_they_named_are_a_conflict(backend: ReferenceBackend, said: str) -> None:
    named = start(backend)
    steps = named.run((AddRequest("a", (1, 2, 3, 4)), AddRequest("b", (1, 2, 3, 4))), observe=False)
    conflicts = [step.answer for step in steps if step.answer.error == HASH_CONFLICT]
    assert conflicts
    assert said in conflicts[0].message


def test_extra_keys_that_are_not_hashed_are_a_conflict() -> None:
    named = start(ForgetsExtraKeys())
    steps = named.run((AddRequest("a", (1, 2)), AddRequest("b", (1, 2), (Extra("salt", "x"),))), observe=False)
    assert [step.answer.error for step in steps] == [None, HASH_CONFLICT]


def test_a_refused_request_is_not_asked_for_its_hashes() -> None:
    named = start(Renaming())
    steps = named.run((AddRequest("", (1, 2)), Append("nobody", (1,)), AddRequest("a", (1, 2))), observe=False)
    assert [step.answer.error for step in steps] == ["InvalidArgument", "InvalidArgument", None]


PLAIN, SALTED = AddRequest("a", (1, 2, 3, 4)), AddRequest("b", (1, 2, 3, 4), (Extra("salt", "x"),))


@pytest.mark.parametrize(
    ("backend", "operations", "clause"),
    [
        (OneNameForAll(), [PLAIN], "HASH-CHAIN-1"),
        (LosesTheLastHash(), [PLAIN], "HASH-CHAIN-1"),
        (ForgetsExtraKeys(), [PLAIN, SALTED], "HASH-EXTRA-1"),
    ],
)
def test_a_conflict_is_a_difference_under_a_clause_as_soon_as_it_is_there(
    backend: ReferenceBackend, operations: list[Operation], clause: str
) -> None:
    found = differs(backend, [*operations, Allocate("a", 1)])
    assert len(found.operations) == len(operations)
    [difference] = [each for each in found.differences if each.what == "answer"]
    assert str(difference.got).startswith(HASH_CONFLICT)
    assert clause_of(found) == clause


def test_a_name_that_changes_from_question_to_question_is_a_difference() -> None:
    found = differs(AnotherNameEachTime(), [PLAIN, Hashes("a")])
    assert isinstance(found.operations[-1], Hashes)
    assert clause_of(found) == "HASH-CHAIN-1"


@pytest.mark.parametrize("backend", [OneNameForAll(), AnotherNameEachTime(), ForgetsExtraKeys(), LosesTheLastHash()])
def test_random_operations_find_each_backend_that_names_wrongly(backend: ReferenceBackend) -> None:
    named = NamedBackend(backend)
    assert any(drive(named, seed, 200) for seed in range(30))


def differs(backend: ReferenceBackend, operations: list[Operation]) -> Divergence:
    lockstep = Lockstep(NamedBackend(backend), backend.identify()[1], CONFIG)
    lockstep.run(operations)
    assert lockstep.divergence is not None
    return lockstep.divergence


def test_a_name_that_nobody_gave_shows_as_it_is() -> None:
    names = NamedBackend(NamesTheWrongKey())
    found = next(found for seed in range(1, 30) if (found := drive(names, seed, 200)) is not None and found.watched)
    [difference] = found.differences
    assert difference.what == "events"
    assert "nobody's" in str(difference.got)


class Talkative(Renaming):
    """Shows a change only when it is asked for hashes."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        steps = super().run(operations, observe)
        stored = StoredEvent(0, (), None, ())
        return [
            msgspec.structs.replace(step, events=(stored,)) if isinstance(operation, Hashes) else step
            for operation, step in zip(operations, steps, strict=True)
        ]


def test_what_the_question_for_hashes_caused_is_not_lost() -> None:
    [step] = start(Talkative()).run((AddRequest("a", (1, 2)),), observe=True)
    assert step.events is not None
    assert len(step.events) == 1
    assert isinstance(step.seen, Observation)


def test_names_are_learned_in_the_order_in_which_operations_began() -> None:
    pool = NamedBackend(Renaming())
    pool.start(CONFIG)
    answers = [
        pool.begin([AddRequest(name, tokens), Hashes(name)], observe=False)
        for name, tokens in (("r1", (1, 2)), ("r2", (1, 2, 3, 4)))
    ]
    first, second = ([step.answer for step in each()] for each in answers)
    assert first[0].error is None is second[0].error
    assert first[1].result == second[1].result[:1]  # type: ignore[index]
    assert len(second[1].result[1]) == 64  # type: ignore[index]
