from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import pytest

from kvproof.conformance.backends.guarded import GuardedBackend
from kvproof.conformance.backends.interface import AdapterError, Level
from kvproof.conformance.backends.messages import Failed, Reply, Run, Steps, encode, read_reply
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.backends.serve import serve
from kvproof.conformance.backends.wire import Answer, Observation, Step
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.operations import AddRequest, Allocate, Free
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, PoolConfig
from tests.certification.doubles import Changed

CONFIG = PoolConfig(4, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 4),), hash_seed=b"")


class Does(ReferenceBackend):
    """The reference, but one of its methods does something else."""

    def __init__(self, method: str, what: Any) -> None:
        setattr(self, method, what)


def raising(error: BaseException) -> Any:
    def do(*arguments: object, **named: object) -> None:
        raise error

    return do


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("r1"), SystemExit(0)], ids=repr)
@pytest.mark.parametrize("method", ["identify", "start", "run", "close"])
def test_whatever_a_method_raises_is_the_adapters_error(method: str, error: BaseException) -> None:
    backend = GuardedBackend(Does(method, raising(error)))
    calls: dict[str, Any] = {
        "identify": backend.identify,
        "start": lambda: backend.start(CONFIG),
        "run": lambda: backend.run([Allocate("r1", 1)], True),
        "close": backend.close,
    }
    with pytest.raises(AdapterError, match=rf"{method}\(\) raised {type(error).__name__}"):
        calls[method]()


@pytest.mark.parametrize(
    ("answers", "says"),
    [([], "0 answers came back"), ([{"answer": {}}], "objects of Step"), (None, "raised TypeError")],
)
def test_what_is_no_list_of_steps_is_the_adapters_error(answers: object, says: str) -> None:
    with pytest.raises(AdapterError, match=says):
        GuardedBackend(Does("run", lambda operations, observe: answers)).run([Allocate("r1", 1)], True)


class Unshown:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_how_a_stranger_is_shown_does_not_matter() -> None:
    with pytest.raises(AdapterError, match="objects of Step, not of Unshown"):
        GuardedBackend(Does("run", lambda operations, observe: [Unshown()])).run([Allocate("r1", 1)], True)
    with pytest.raises(AdapterError, match=r"run\(\) raised Wordless: \(its text cannot be shown\)"):
        GuardedBackend(Does("run", raising(Wordless()))).run([Allocate("r1", 1)], True)


@dataclass
class Named:
    blocks: object


def cyclic() -> list[object]:
    holds: list[object] = []
    holds.append(holds)
    return holds


def nested(depth: int) -> list[object]:
    deep: list[object] = []
    for _ in range(depth):
        deep = [deep]
    return deep


NAN = float("nan")

WRONG: dict[str, tuple[Any, str]] = {
    "no number": (Step(Answer(NAN)), "nan is no number of JSON"),
    "no number inside": (Step(Answer((1, [2, {"a": -float("inf")}]))), "-inf is no number of JSON"),
    "no number in an object": (Step(Answer(Named(NAN))), "nan is no number of JSON"),
    "no number seen": (Step(Answer((1,)), Observation(num_free=NAN)), "nan is no number"),  # type: ignore[arg-type]
    "a set": (Step(Answer(frozenset({1}))), "a frozenset has no order; make it a list"),
    "a set seen": (Step(Answer((1,)), Observation(holders=((), {"r1"}))), "a set has no order"),  # type: ignore[arg-type]
    "a set of events": (Step(Answer((1,)), None, set()), "a set has no order"),  # type: ignore[arg-type]
    "a cycle": (Step(Answer(cyclic())), "it is nested too deeply, or holds itself"),
    "too deep": (Step(Answer(nested(100_000))), "it is nested too deeply, or holds itself"),
    "no JSON at all": (Step(Answer(object())), "unsupported"),
}


def reply_to(*steps: Step) -> Reply:
    """What the suite reads when these are the answers to allocations."""
    backend, answers = GuardedBackend(Does("run", lambda operations, observe: list(steps))), io.BytesIO()
    operations = tuple(Allocate(f"r{number}", 1) for number, _ in enumerate(steps))
    serve(backend, [encode(Run(operations, observe=True))], answers)
    return read_reply(answers.getvalue())


@pytest.mark.parametrize(("step", "says"), WRONG.values(), ids=WRONG)
def test_what_json_cannot_hold_is_the_adapters_error_and_names_the_operation(step: Step, says: str) -> None:
    reply = reply_to(Step(Answer((1,))), step)
    assert isinstance(reply, Failed)
    assert reply.reason.startswith("the answer to allocate(1, holder r1): it cannot be written as JSON: ")
    assert says in reply.reason


@pytest.mark.parametrize("result", [[1, 2], (1, (2, None)), {"hit": 1, "tables": [[1]]}, Named([1]), True, "a", 1.5])
def test_what_json_can_hold_is_passed_on(result: object) -> None:
    assert isinstance(reply_to(Step(Answer(result), Observation(holders=((), ("r1",))))), Steps)


def test_modes_may_be_claimed_by_their_names() -> None:
    _, claimed = GuardedBackend(Changed(commit=("immediate",), levels=("P",))).identify()
    assert (claimed.commit, claimed.levels) == ((CommitMode.IMMEDIATE,), (Level.POOL,))


@pytest.mark.parametrize("claims", [{"levels": ("P", "X")}, {"operations": 3}, {"most_groups": "many"}], ids=repr)
def test_claims_of_a_wrong_type_are_the_adapters_error(claims: Any) -> None:
    with pytest.raises(AdapterError, match="identify"):
        GuardedBackend(Changed(**claims)).identify()


def test_what_has_to_be_refused_is_not_sent_to_a_backend_that_does_not_claim_to() -> None:
    backend = Changed(levels=(Level.POOL,))
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    lockstep.run([AddRequest("r1", (1, 2)), Free("r1", (1,)), Allocate("r1", 9), Allocate("r1", 1)])
    assert lockstep.operations == [AddRequest("r1", (1, 2)), Allocate("r1", 1, took=(1,))]
    assert lockstep.divergence is None
