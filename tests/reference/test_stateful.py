from __future__ import annotations

import unittest

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kvproof.conformance.scope import Scope
from kvproof.conformance.stateful import pool_machine
from kvproof.reference import BlockPool
from kvproof.spec.errors import OutOfBlocks, StillReferenced
from kvproof.spec.vocabulary import CommitMode, GroupKind, Residency
from tests.broken_pools import keep_the_last_key


def case(scope: Scope) -> type[unittest.TestCase]:
    found: type[unittest.TestCase] = pool_machine(scope).TestCase
    return found


TestNestedKeys = case(Scope(3, ("a", "aa"), 2))
TestKeysThatBranch = case(Scope(4, ("a", "aa", "ab", "b"), 2))
TestAdditionalKeysInOneBlock = case(Scope(3, ("a", "aa", "aaa"), 2, block_size=4))
TestSeveralSlots = case(Scope(4, ("a", "aa", "aaa", "aaaa"), 2, block_size=2))
TestOneEventPerCopy = case(Scope(3, ("a", "aa", "aaa"), 3, residency=Residency.PER_COPY))
TestRecurrent = case(Scope(3, ("a", "aa", "aaa"), 2, GroupKind.RECURRENT, block_size=2))
TestStepsWithReaders = case(Scope(3, ("a", "aa"), 2, commit=CommitMode.STEPS, in_flight=2))
TestStepsOfARecurrentGroup = case(
    Scope(3, ("a", "aa", "aaa"), 2, GroupKind.RECURRENT, block_size=2, commit=CommitMode.STEPS, in_flight=3)
)
TestSlidingWindow = case(Scope(3, ("a", "aa", "aaa"), 2, GroupKind.SLIDING_WINDOW, block_size=2))


def run_machine(scope: Scope) -> None:
    """Many examples, and none of the time that shrinking one takes."""
    quick = settings(max_examples=500, phases=[Phase.generate], report_multiple_bugs=False, print_blob=False)
    run_state_machine_as_test(pool_machine(scope), settings=quick)


def test_the_machine_finds_a_pool_that_keeps_a_key_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPool, "_drop_keys", keep_the_last_key)
    with pytest.raises(Exception, match=r"INV-|EVENT-"):
        run_machine(Scope(2, ("a", "aa"), 1, block_size=3))


def test_the_machine_finds_a_pool_that_changes_something_before_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    allocate = BlockPool.allocate

    def take_what_there_is(self: BlockPool, n: int, holder: str | None = None) -> list[int]:
        if isinstance(n, int) and n > self.num_free:
            allocate(self, self.num_free, holder)
            raise OutOfBlocks("took some all the same")
        return allocate(self, n, holder)

    monkeypatch.setattr(BlockPool, "allocate", take_what_there_is)
    with pytest.raises(AssertionError, match="changed something"):
        run_machine(Scope(2, ("a",), 1))


def test_the_machine_finds_a_pool_that_commits_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = BlockPool.commit

    def commit_the_first(self: BlockPool, step: int) -> None:
        first = self.last_committed_step + 1
        commit(self, first if type(step) is int and step > first else step)

    monkeypatch.setattr(BlockPool, "commit", commit_the_first)
    with pytest.raises(AssertionError, match=r"commit\(.*\) was not refused"):
        run_machine(Scope(1, ("a",), 1, commit=CommitMode.STEPS, in_flight=2))


def test_the_machine_finds_a_pool_that_raises_the_wrong_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reset = BlockPool.reset

    def misname(self: BlockPool) -> None:
        try:
            reset(self)
        except StillReferenced:
            raise OutOfBlocks("blocks are in use") from None

    monkeypatch.setattr(BlockPool, "reset", misname)
    with pytest.raises(AssertionError, match=r"reset\(\) raised OutOfBlocks"):
        run_machine(Scope(1, ("a",), 1))
