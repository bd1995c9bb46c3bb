from __future__ import annotations

from typing import Any

import pytest

from kvproof.conformance.backends.guarded import GuardedBackend
from kvproof.conformance.backends.interface import AdapterError, Level
from kvproof.conformance.backends.reference import ReferenceBackend
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
