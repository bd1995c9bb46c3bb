"""The pool as a hypothesis state machine: random legal operations, and illegal ones that must change nothing."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from kvproof.conformance.attempts import QUESTIONS, attempt
from kvproof.conformance.enabled import EnabledOperations
from kvproof.conformance.illegal import operations
from kvproof.conformance.operations import Commit, Operation, TakeEvents, describe
from kvproof.conformance.preconditions import violations
from kvproof.conformance.scope import Scope
from kvproof.spec.vocabulary import CommitMode


class PoolMachine(RuleBasedStateMachine):
    """The reference pool in one scope; `pool_machine` makes machines for other scopes.

    One rule picks among the enabled operations, so that no step is wasted on what the state does not allow, and the
    number that it draws shrinks well. Everything is checked after every step, within the rules.
    """

    scope: ClassVar[Scope] = Scope(blocks=3, keys=("a", "aa"), refs=2)
    enabled: ClassVar[EnabledOperations] = EnabledOperations(scope)
    attempts: ClassVar[st.SearchStrategy[Operation]] = operations(scope.config, tuple(scope.positions))

    def __init__(self) -> None:
        super().__init__()
        self.world = self.scope.start()

    @rule(pick=st.integers(0, 2**16 - 1))
    def step(self, pick: int) -> None:
        """Run one enabled operation, or take the events."""
        enabled = [*self.enabled.of(self.world), TakeEvents()]
        operation = enabled[pick % len(enabled)]
        note(describe(operation))
        self.world.apply(operation)
        self.world.check()

    @rule(data=st.data())
    def attempt(self, data: st.DataObject) -> None:
        """Run an operation that is illegal, or only asks: nothing may change. Legal changes are left to `step`."""
        self._attempt(data.draw(self.attempts))

    @precondition(lambda self: self.scope.commit is CommitMode.STEPS)
    @rule(ahead=st.integers(-1, 3))
    def commit_out_of_turn(self, ahead: int) -> None:
        """Commit a step near the one whose turn it is; the numbers of steps grow, and those of `attempt` do not."""
        self._attempt(Commit(self.world.pool.last_committed_step + ahead))

    def _attempt(self, operation: Operation) -> None:
        if isinstance(operation, QUESTIONS) or violations(self.world.situation, operation):
            note(describe(operation))
            finding = attempt(self.world, operation)
            assert finding is None, finding


def pool_machine(scope: Scope) -> type[PoolMachine]:
    """A machine for a scope."""
    parts = {
        "scope": scope,
        "enabled": EnabledOperations(scope),
        "attempts": operations(scope.config, tuple(scope.positions)),
    }
    return type("PoolMachine", (PoolMachine,), parts)
