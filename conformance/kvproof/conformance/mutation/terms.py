"""Where the abstract machine can be mutated. A transition is one term; what a statement is elsewhere is a part of it.

A conjunct, a disjunct, the premise of an implication or a whole guard is deleted or negated, a condition, a conclusion
or the body of a quantifier negated, an effect on the state deleted. To delete Python's own statements would leave
programs that do not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kvproof.conformance.mutation.statements import Place

_TRUE, _FALSE = "t.true()", "t.no(t.true())"
"""The machine calls its theory t everywhere."""

_NO_EFFECT = "**{{}}"
"""Stands where an effect stood, with its braces doubled: `s.but(**{}, ...)`."""


def places_in_terms(tree: ast.Module) -> Iterator[Place]:
    """Every place in the terms of a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Return(value=ast.Tuple(elts=[guard, _])):
                yield from _proposition(guard, _TRUE)
            case ast.Call(func=ast.Attribute(attr="all_of"), args=conjuncts):
                for conjunct in conjuncts:
                    yield from _proposition(conjunct, _TRUE)
            case ast.Call(func=ast.Attribute(attr="any_of"), args=disjuncts):
                for disjunct in disjuncts:
                    yield from _proposition(disjunct, _FALSE)
            case ast.Call(func=ast.Attribute(attr="implies"), args=[premise, conclusion]):
                yield from _proposition(premise, _TRUE)
                yield _negation(conclusion)
            case ast.Call(func=ast.Attribute(attr="where"), args=[condition, _, _]):
                yield _negation(condition)
            case ast.Call(func=ast.Attribute(attr="every" | "some"), args=[_, ast.Lambda(body=body)]):
                yield _negation(body)
            case ast.Call(func=ast.Attribute(attr="but"), keywords=effects):
                yield from (Place(effect, "delete", _NO_EFFECT) for effect in effects)


def _proposition(term: ast.expr, neutral: str) -> Iterator[Place]:
    yield Place(term, "delete", neutral)
    yield _negation(term)


def _negation(term: ast.expr) -> Place:
    return Place(term, "negate", "t.no({})")
