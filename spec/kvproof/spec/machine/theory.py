"""What the machine is written in: a few combinators with two interpretations.

A transition is written once against a `Theory`. Over z3 its values are terms and its quantifiers are quantifiers over
sorts of any size; over Python they are plain values and loops over a finite scope. So a transition may use only +, -,
<, <=, == and != on values, and the combinators below. Python's own `if`, `and`, `or`, `not` and `in` would decide on
the shape of a term instead of its meaning, silently; a lint forbids them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

Term = Any
"""A value of the theory: a z3 term, or a plain Python value. The two share no base class."""


class Theory(Protocol):
    """The combinators. Sorts are given by their letters, separated by spaces: `"B R"`."""

    def true(self) -> Term:
        """The true proposition."""

    def all_of(self, *terms: Term) -> Term:
        """Conjunction."""

    def any_of(self, *terms: Term) -> Term:
        """Disjunction."""

    def no(self, term: Term) -> Term:
        """Negation."""

    def implies(self, premise: Term, conclusion: Term) -> Term:
        """Implication."""

    def iff(self, left: Term, right: Term) -> Term:
        """Equivalence."""

    def where(self, condition: Term, then: Term, otherwise: Term) -> Term:
        """`then` if the condition holds, else `otherwise`."""

    def every(self, sorts: str, body: Callable[..., Term]) -> Term:
        """Universal quantification."""

    def some(self, sorts: str, body: Callable[..., Term]) -> Term:
        """Existential quantification."""


class State:
    """A state is a record of functions; `but` returns another one in which some of them are replaced."""

    def __init__(self, functions: Mapping[str, Callable[..., Term]]) -> None:
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> Callable[..., Term]:
        raise AttributeError(f"the machine's state has no function {name}")

    def but(self, **functions: Callable[..., Term]) -> State:
        """This state with some functions replaced."""
        return State({**self.__dict__, **functions})


class PythonTheory:
    """The theory over Python values: quantifiers are loops over a finite scope."""

    def __init__(self, scope: Mapping[str, Sequence[Term]]) -> None:
        self._scope = scope

    def true(self) -> bool:
        """See `Theory`."""
        return True

    def all_of(self, *terms: Term) -> bool:
        """See `Theory`."""
        return all(terms)

    def any_of(self, *terms: Term) -> bool:
        """See `Theory`."""
        return any(terms)

    def no(self, term: Term) -> bool:
        """See `Theory`."""
        return not term

    def implies(self, premise: Term, conclusion: Term) -> bool:
        """See `Theory`."""
        return not premise or bool(conclusion)

    def iff(self, left: Term, right: Term) -> bool:
        """See `Theory`."""
        return bool(left) == bool(right)

    def where(self, condition: Term, then: Term, otherwise: Term) -> Term:
        """See `Theory`."""
        return then if condition else otherwise

    def every(self, sorts: str, body: Callable[..., Term]) -> bool:
        """See `Theory`."""
        return all(body(*values) for values in self._tuples(sorts))

    def some(self, sorts: str, body: Callable[..., Term]) -> bool:
        """See `Theory`."""
        return any(body(*values) for values in self._tuples(sorts))

    def _tuples(self, sorts: str) -> itertools.product[tuple[Term, ...]]:
        return itertools.product(*(self._scope[sort] for sort in sorts.split()))
