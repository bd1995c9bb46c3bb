"""The theory over small finite sorts: every quantifier is spelled out, so the solver can also find states.

z3 answers `unknown` when it is asked to find a model of the unbounded machine. Here a few values of each sort stand for
all, and quantified integers range over a small window; `bounds` keeps every quantity inside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import z3

from kvproof.spec.machine.state import SIGNATURE, Signature
from kvproof.spec.machine.theory import State, Term
from kvproof.spec.proofs.solver import SolverTheory

Sizes = dict[str, int]
"""How many values of each sort there are."""

SMALL: Sizes = {"B": 3, "K": 3, "P": 3, "R": 2, "G": 1, "D": 3}
LADDER: tuple[Sizes, ...] = (SMALL, SMALL | {"K": 4, "P": 4, "D": 4}, SMALL | {"G": 2}, SMALL | {"B": 4})
"""What a search tries in turn: small, then with more keys, more groups, more blocks."""

WINDOW = 4
"""Quantified integers are 0 .. WINDOW."""

NEVER_QUANTIFIED = {"place", "front", "back", "released_at", "clock", "rank", "next_rank"}
"""Integers that are only compared with each other; no quantifier ranges over them."""


class FiniteTheory(SolverTheory):
    """See `Theory`; values are z3 terms over enumerated sorts."""

    _count = itertools.count()

    def __init__(self, sizes: Sizes, signature: Signature = SIGNATURE, window: int = WINDOW) -> None:
        super().__init__(signature)
        self.window = window
        run = next(self._count)  # z3 wants a new name for every enumerated sort
        self.values: dict[str, list[Term]] = {}
        for name, size in sizes.items():
            sort, values = z3.EnumSort(f"{name}_{run}", [f"{name.lower()}{i}_{run}" for i in range(size)])
            self.sorts[name], self.values[name] = sort, values
        self.values["Int"] = [z3.IntVal(i) for i in range(window + 1)]
        self.values["Bool"] = [z3.BoolVal(False), z3.BoolVal(True)]

    def every(self, sorts: str, body: Callable[..., Term]) -> Term:
        """See `Theory`."""
        return z3.And(*(body(*values) for values in self._tuples(sorts)))

    def some(self, sorts: str, body: Callable[..., Term]) -> Term:
        """See `Theory`."""
        return z3.Or(*(body(*values) for values in self._tuples(sorts)))

    def bounds(self, state: State) -> list[Term]:
        """Every integer of the state that a quantifier may range over lies inside the window."""
        limits = [state.now() < self.window] if "now" in self.signature else []
        for name, (arguments, value) in self.signature.items():
            if value == "Int" and name not in NEVER_QUANTIFIED:
                function = getattr(state, name)
                limits += [
                    z3.And(function(*values) >= 0, function(*values) <= self.window)
                    for values in self._tuples(" ".join(arguments))
                ]
        return limits

    def _tuples(self, sorts: str) -> Iterator[tuple[Term, ...]]:
        return itertools.product(*(self.values[sort] for sort in sorts.split()))
