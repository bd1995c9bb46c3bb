"""The pool as a hypothesis state machine: random legal operations, and illegal ones that must change nothing."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from kvproof.conformance.attempts import QUESTIONS, attempt
from kvproof.conformance.enabled import EnabledOperations
from kvproof.conformance.illegal import operations
from kvproof.conformance.operations import Operation, TakeEvents, describe
from kvproof.conformance.preconditions import violations
from kvproof.conformance.scope import Scope


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
        operation = data.draw(self.attempts)
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
