"""Anonymous mutants: single places of a module's source, deleted or negated, drawn at random.

What a place is, a target says: in Python code a statement or a condition. Left out is what cannot matter or fails at
once: docstrings, imports, annotations, the declarations of modules and classes, the deletion of an `assert`, which
changes nothing while it holds, and of a `return None` at the end.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kvproof.conformance.mutation.patch import Edit, PatchError

Kind = Literal["delete", "negate"]

_Node = ast.stmt | ast.expr | ast.keyword

_NEVER_DELETED = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef | ast.Assert | ast.Pass


class Place(NamedTuple):
    """A node, what is done to it, and what stands in its place afterwards; {} there is its source."""

    node: _Node
    kind: Kind
    replacement: str


Finder = Callable[[ast.Module], Iterable[Place]]
"""Finds the places of a module that can be mutated."""


@dataclass(frozen=True, slots=True, order=True)
class StatementMutant:
    """One place of a module, inside a function, and what is done to it; `text` is its source in one line."""

    module: str
    line: int
    column: int
    kind: Kind
    text: str
    function: str
    replacement: str = "pass"

    @property
    def name(self) -> str:
        """A short name, unique for one state of the source: two nodes that begin together differ in length."""
        return f"{short(self.module)}:{self.line}:{self.column}+{len(self.text)}:{self.kind}"

    def edit(self, source: str) -> Edit:
        """Replace the place's source."""
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, _Node) and (node.lineno, node.col_offset) == (self.line, self.column):
                start, end = _span(source, node)
                if _one_line(source[start:end]) == self.text:
                    return Edit(start, end, self.replacement.format(source[start:end]))
        raise PatchError(f"{self.module} has no such statement any more: {self.text}")


def short(module: str) -> str:
    """What a mutant's name calls its module."""
    return module.removeprefix("kvproof.")


def mutants_of(module: str, source: str, finder: Finder) -> list[StatementMutant]:
    """Every mutant of one module's source, each once."""
    found: dict[StatementMutant, None] = {}
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node, kind, replacement in finder(tree):
        start, end = _span(source, node)
        text, function = _one_line(source[start:end]), _innermost(functions, node.lineno)
        found[StatementMutant(module, node.lineno, node.col_offset, kind, text, function, replacement)] = None
    return list(found)


def statements_and_conditions(tree: ast.Module) -> Iterator[Place]:
    """Every statement of a function is deleted, every condition negated."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in _own_nodes(function):
            if isinstance(node, ast.stmt) and _is_worth_deleting(node, function):
                yield Place(node, "delete", "pass")
            for condition in _conditions(node, function):
                yield Place(condition, "negate", "(not ({}))")


def _own_nodes(node: ast.AST) -> Iterator[ast.stmt | ast.expr | ast.comprehension | ast.match_case]:
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


def _innermost(functions: Iterable[ast.FunctionDef], line: int) -> str:
    """The name of the function that a line is in; the innermost one begins last."""
    around = [function for function in functions if function.lineno <= line <= (function.end_lineno or line)]
    return max(around, key=lambda function: function.lineno).name


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _span(source: str, node: _Node) -> tuple[int, int]:
    """First and one past the last character of a node; Python counts columns in bytes."""
    assert node.end_lineno is not None, "parsed nodes know where they end"
    assert node.end_col_offset is not None, "parsed nodes know where they end"
    return _offset(source, node.lineno, node.col_offset), _offset(source, node.end_lineno, node.end_col_offset)


def _offset(source: str, line: int, column: int) -> int:
    lines = source.splitlines(keepends=True)
    return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())
