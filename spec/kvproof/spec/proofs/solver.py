"""The theory over z3 terms: sorts of any size, quantifiers left to the solver."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import z3

from kvproof.spec.machine.state import SIGNATURE, Signature
from kvproof.spec.machine.theory import State, Term

SORTS = "BKPRGD"


class SolverTheory:
    """See `Theory`; values are z3 terms."""

    def __init__(self, signature: Signature = SIGNATURE) -> None:
        self.signature = signature
        self.sorts = {name: z3.DeclareSort(name) for name in SORTS}
        self.sorts |= {"Int": z3.IntSort(), "Bool": z3.BoolSort()}
        self._fresh = itertools.count()

    def true(self) -> Term:
        """See `Theory`."""
        return z3.BoolVal(True)

    def all_of(self, *terms: Term) -> Term:
        """See `Theory`."""
        return z3.And(*terms)

    def any_of(self, *terms: Term) -> Term:
        """See `Theory`."""
        return z3.Or(*terms)

    def no(self, term: Term) -> Term:
        """See `Theory`."""
        return z3.Not(term)

    def implies(self, premise: Term, conclusion: Term) -> Term:
        """See `Theory`."""
        return z3.Implies(premise, conclusion)

    def iff(self, left: Term, right: Term) -> Term:
        """See `Theory`."""
        return left == right

    def where(self, condition: Term, then: Term, otherwise: Term) -> Term:
        """See `Theory`."""
        return z3.If(condition, then, otherwise)

    def every(self, sorts: str, body: Callable[..., Term]) -> Term:
        """See `Theory`."""
        variables = self._variables(sorts)
        return z3.ForAll(variables, body(*variables))

    def some(self, sorts: str, body: Callable[..., Term]) -> Term:
        """See `Theory`."""
        variables = self._variables(sorts)
        return z3.Exists(variables, body(*variables))

    def constant(self, name: str, sort: str) -> Term:
        """An argument of a transition; the sort X is a set of requests, given by its predicate."""
        if sort == "X":
            return z3.Function(name, self.sorts["R"], z3.BoolSort())
        return z3.Const(name, self.sorts[sort])

    def state(self) -> State:
        """A state about which nothing is known."""
        functions: dict[str, Callable[..., Term]] = {}
        for name, (arguments, value) in self.signature.items():
            functions[name] = z3.Function(name, *(self.sorts[sort] for sort in arguments), self.sorts[value])
        return State(functions)

    def bounds(self, state: State) -> list[Term]:
        """What has to hold of a state for the theory to speak of it: nothing here."""
        return []

    def _variables(self, sorts: str) -> list[Term]:
        return [z3.Const(f"{sort.lower()}!{next(self._fresh)}", self.sorts[sort]) for sort in sorts.split()]
