"""Changes the source of one module in this process, before the module is imported.

The changed text is compiled with the line numbers of the original, so that a traceback shows the right places outside
the change itself, and nothing is written to disk: the module's file and its cached bytecode stay what they are.
"""

from __future__ import annotations

import ast
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Protocol


class PatchError(Exception):
    """A change does not fit its module, or comes too late."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters `start` up to `end` of a source by `text`."""

    start: int
    end: int
    text: str

    def applied_to(self, source: str) -> str:
        """The source with the edit made."""
        return source[: self.start] + self.text + source[self.end :]


class SourceChange(Protocol):
    """One edit of one module."""

    @property
    def module(self) -> str:
        """The module's full name."""

    def edit(self, source: str) -> Edit:
        """The edit of the module's source; raises `PatchError` if it does not fit."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Replaces `old`, which stands exactly once in the module's source, by `new`."""

    module: str
    old: str
    new: str

    def edit(self, source: str) -> Edit:
        """Where `old` stands."""
        found = source.count(self.old)
        if found != 1:
            raise PatchError(f"{self.module} holds this text {found} times, not once:\n{self.old}")
        start = source.index(self.old)
        return Edit(start, start + len(self.old), self.new)


def install(change: SourceChange) -> None:
    """From now on importing the module imports the changed one; raises `PatchError` if it was imported already."""
    sys.meta_path.insert(0, _finder_of(change))


@contextmanager
def installed(change: SourceChange) -> Iterator[None]:
    """Inside the block importing the module imports the changed one; raises `PatchError` as `install` does."""
    finder = _finder_of(change)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def _finder_of(change: SourceChange) -> _ChangedModuleFinder:
    if change.module in sys.modules:
        raise PatchError(f"{change.module} is imported already; a change has to come first")
    return _ChangedModuleFinder(
        change.module, compile_changed(source_of(change.module), change, origin_of(change.module))
    )


def compile_changed(source: str, change: SourceChange, filename: str) -> CodeType:
    """The code of the changed source, with the line numbers of the original outside the edit."""
    edit = change.edit(source)
    try:
        tree = ast.parse(edit.applied_to(source), filename)
    except SyntaxError as error:
        raise PatchError(f"{change.module} changed is no Python any more: {error}") from error
    _restore_line_numbers(tree, source, edit)
    return compile(tree, filename, "exec", dont_inherit=True)


def source_of(module: str) -> str:
    """The module's source, found without importing the module or any of its parents."""
    source = _source_loader(_find(module)).get_source(module)
    if source is None:
        raise PatchError(f"{module} has no source")
    return source


def origin_of(module: str) -> str:
    """The path of the module's file."""
    return _source_loader(_find(module)).path


def modules_of(package: str) -> list[str]:
    """The full names of the modules in a package, found without importing it."""
    folders = _find(package).submodule_search_locations or []
    return sorted(f"{package}.{module.name}" for module in pkgutil.iter_modules(folders) if not module.ispkg)


def _restore_line_numbers(tree: ast.Module, source: str, edit: Edit) -> None:
    """Move everything behind the edit back to the line on which it stands in the original."""
    surplus = edit.text.count("\n") - source.count("\n", edit.start, edit.end)
    if surplus == 0:
        return
    last_changed_line = source.count("\n", 0, edit.start) + 1 + edit.text.count("\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr | ast.excepthandler | ast.arg | ast.keyword | ast.alias | ast.pattern):
            if node.lineno > last_changed_line:
                node.lineno -= surplus
            if node.end_lineno is not None and node.end_lineno > last_changed_line:
                node.end_lineno = max(node.lineno, node.end_lineno - surplus)
            if node.end_lineno == node.lineno and node.end_col_offset is not None:
                # A node that begins inside the edit and ends behind it may have shrunk to one line.
                node.end_col_offset = max(node.col_offset, node.end_col_offset)


def _find(module: str) -> ModuleSpec:
    """The module's spec. `importlib.util.find_spec` will not do: it imports the parents."""
    path: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        spec = _ask_the_finders(".".join(parts[:depth]), path)
        if spec is None:
            raise PatchError(f"there is no module {module}")
        path = spec.submodule_search_locations
    assert spec is not None, "a name has at least one part"
    return spec


def _ask_the_finders(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if not isinstance(finder, _ChangedModuleFinder) and (spec := finder.find_spec(name, path)) is not None:
            return spec
    return None


def _source_loader(spec: ModuleSpec) -> SourceFileLoader:
    if not isinstance(spec.loader, SourceFileLoader):
        raise PatchError(f"{spec.name} is not loaded from a source file")
    return spec.loader


class _ChangedModuleFinder:
    """Finds the one module, and gives it the code compiled from its changed source."""

    def __init__(self, module: str, code: CodeType) -> None:
        self._module = module
        self._code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = _ask_the_finders(fullname, path)
        if spec is not None:
            spec.loader = _ChangedModuleLoader(fullname, _source_loader(spec).path, self._code)
        return spec


class _ChangedModuleLoader(SourceFileLoader):
    """Loads a module as usual, from the given code; neither reads nor writes its cached bytecode."""

    def __init__(self, fullname: str, path: str, code: CodeType) -> None:
        super().__init__(fullname, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code
