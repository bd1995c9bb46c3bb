"""Anonymous mutants: statements of the reference, deleted or with their condition negated, drawn at random.

Left out is what cannot matter or fails at once: docstrings, imports, annotations, the declarations of modules and
classes, the deletion of an `assert`, which changes nothing while it holds, and of a `return None` at the end.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kvproof.conformance.mutation.patch import Edit, PatchError, modules_of, source_of

Kind = Literal["delete", "negate"]

PACKAGE = "kvproof.reference"

_Node = ast.stmt | ast.expr

_NEVER_DELETED = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef | ast.Assert | ast.Pass


@dataclass(frozen=True, slots=True, order=True)
class StatementMutant:
    """One statement or condition of a module, and what is done to it; `text` is its source in one line."""

    module: str
    line: int
    column: int
    kind: Kind
    text: str

    @property
    def name(self) -> str:
        """A short name, unique for one state of the source: two nodes that begin together differ in length."""
        return f"{self.module.removeprefix(PACKAGE + '.')}:{self.line}:{self.column}+{len(self.text)}:{self.kind}"

    def edit(self, source: str) -> Edit:
        """Replace the statement by `pass`, or the condition by its negation."""
        node = _sites(self.module, source).get(self)
        if node is None:
            raise PatchError(f"{self.module} has no such statement any more: {self.text}")
        start, end = _span(source, node)
        return Edit(start, end, "pass" if self.kind == "delete" else f"(not ({source[start:end]}))")


def draw(number: int, seed: int) -> list[StatementMutant]:
    """`number` different mutants, or all if there are fewer; the same ones for the same seed and source."""
    everything = all_statement_mutants()
    return sorted(random.Random(seed).sample(everything, min(number, len(everything))))


def all_statement_mutants() -> list[StatementMutant]:
    """Every statement mutant of the reference, in the order of the source."""
    return sorted(m for module in modules_of(PACKAGE) for m in statement_mutants_of(module, source_of(module)))


def statement_mutants_of(module: str, source: str) -> list[StatementMutant]:
    """Every mutant of one module's source."""
    return list(_sites(module, source))


def _sites(module: str, source: str) -> dict[StatementMutant, _Node]:
    """Every place in the functions of a module that can be mutated."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    sites: dict[StatementMutant, _Node] = {}
    for function in functions:
        for node in _own_nodes(function):
            if isinstance(node, ast.stmt) and _is_worth_deleting(node, function):
                sites[_mutant(module, source, node, "delete")] = node
            for condition in _conditions(node, function):
                sites[_mutant(module, source, condition, "negate")] = condition
    return sites


def _own_nodes(node: ast.AST) -> Iterator[_Node | ast.comprehension | ast.match_case]:
    """What lies inside a function, without functions inside it, whose turn comes, and without f-strings.

    Python 3.11 does not say where inside an f-string an expression stands.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.JoinedStr | ast.arguments):
            continue
        if isinstance(child, ast.stmt | ast.expr | ast.comprehension | ast.match_case):
            yield child
        yield from _own_nodes(child)


def _is_worth_deleting(statement: ast.stmt, function: ast.FunctionDef) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.AnnAssign(value=None):
            return False
        case ast.Return(value=None | ast.Constant(value=None)):
            return statement is not function.body[-1]
    return not isinstance(statement, _NEVER_DELETED)


def _conditions(node: ast.AST, function: ast.FunctionDef) -> list[ast.expr]:
    """The expressions of a node whose truth decides something."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            return [test]
        case ast.comprehension(ifs=conditions):
            return conditions
        case ast.match_case(guard=ast.expr() as guard):
            return [guard]
        case ast.Compare():
            return [node]
        case ast.Return(value=ast.expr() as value) if ast.unparse(function.returns or value) == "bool":
            return [value]
    return []


def _mutant(module: str, source: str, node: _Node, kind: Kind) -> StatementMutant:
    start, end = _span(source, node)
    return StatementMutant(module, node.lineno, node.col_offset, kind, " ".join(source[start:end].split()))


def _span(source: str, node: _Node) -> tuple[int, int]:
    """First and one past the last character of a node; Python counts columns in bytes."""
    assert node.end_lineno is not None, "parsed nodes know where they end"
    assert node.end_col_offset is not None, "parsed nodes know where they end"
    return _offset(source, node.lineno, node.col_offset), _offset(source, node.end_lineno, node.end_col_offset)


def _offset(source: str, line: int, column: int) -> int:
    lines = source.splitlines(keepends=True)
    return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())
