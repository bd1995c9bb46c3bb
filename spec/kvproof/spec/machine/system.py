"""A machine together with all that is assumed and all that is proved of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kvproof.spec.machine.facts import Fact
from kvproof.spec.machine.invariants import Invariant
from kvproof.spec.machine.state import Signature
from kvproof.spec.machine.theory import State, Term, Theory
from kvproof.spec.machine.transitions import Transition


@dataclass(frozen=True, slots=True)
class System:
    """A machine; `module` is the source of its transitions.

    `inherited` are invariants that are proved elsewhere of the transitions that this machine takes over, and here of
    those in `own`. The names of the transitions differ from those of every other system.
    """

    name: str
    module: str
    signature: Signature
    axioms: Callable[[Theory, State], dict[str, Term]]
    initial: Invariant
    transitions: tuple[Transition, ...]
    invariants: Mapping[str, Invariant]
    facts: tuple[Fact, ...]
    inherited: Mapping[str, Invariant]
    own: frozenset[str] = frozenset()

    @property
    def initial_row(self) -> str:
        """The name under which the initial state stands among the transitions."""
        return f"{self.name} initial".strip()
