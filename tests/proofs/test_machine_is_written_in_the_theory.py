"""The machine means the same to z3 and to Python only if it never asks for the truth of a term."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

MACHINE = Path(__file__).resolve().parents[2] / "spec/kvproof/spec/machine"
MODULES = ("transitions", "immediate", "invariants", "facts", "axioms", "tables", "hit_loop", "chunks")

STATEMENTS = (ast.If, ast.IfExp, ast.BoolOp, ast.While, ast.Assert, ast.Match)
COMPARISONS = (ast.In, ast.NotIn, ast.Is, ast.IsNot)
BUILTINS = {"all", "any", "bool", "filter", "max", "min", "sorted"}


def decides_in_python(node: ast.AST) -> bool:
    """Whether Python would take a term for true or false here, whatever the term means."""
    match node:
        case ast.UnaryOp(op=ast.Not()) | ast.comprehension(ifs=[_, *_]):
            return True
        case ast.Compare(ops=ops):
            return len(ops) > 1 or isinstance(ops[0], COMPARISONS)
        case ast.Call(func=ast.Name(id=name)):
            return name in BUILTINS
    return isinstance(node, STATEMENTS)


def faults(source: str) -> list[int]:
    return [getattr(node, "lineno", 0) for node in ast.walk(ast.parse(source)) if decides_in_python(node)]


@pytest.mark.parametrize("module", MODULES)
def test_no_module_of_the_machine_decides_in_python(module: str) -> None:
    assert faults((MACHINE / f"{module}.py").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "planted",
    [
        "if s.entry(k, b): pass",
        "x = p if s.entry(k, b) else q",
        "x = s.entry(k, b) and s.committed(k, b)",
        "x = s.entry(k, b) or s.committed(k, b)",
        "x = not s.entry(k, b)",
        "x = 0 <= n < m",
        "x = b in blocks",
        "x = p is q",
        "while s.entry(k, b): pass",
        "assert s.entry(k, b)",
        "x = [b for b in blocks if s.is_free(b)]",
        "x = all(s.is_free(b) for b in blocks)",
        "x = max(n, m)",
    ],
)
def test_a_planted_decision_is_found(planted: str) -> None:
    assert faults(planted)


def test_combinators_and_single_comparisons_are_left_alone() -> None:
    assert faults("x = t.all_of(t.no(s.entry(k, b)), n <= m, t.where(b == c, p, q))") == []
