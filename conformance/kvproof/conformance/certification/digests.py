"""SHA-256 digests of what a certificate speaks of: the driven files and the text of the clauses."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from kvproof.conformance.backends.interface import AdapterError, Identity
from kvproof.conformance.certification.result import DrivenFile
from kvproof.spec.clauses import chapters


def sha256(data: bytes) -> str:
    """The digest in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def spec_digest() -> str:
    """The digest of all chapters of the specification."""
    return sha256("\0".join(f"{chapter.name}\0{chapter.text}" for chapter in chapters()).encode())


def suite_digest() -> str:
    """The digest of what decides which broken references are noticed: specification, reference and suite.

    Left out is the record of what was noticed.
    """
    ours = Identity("kvproof", "", "Python", files=("kvproof.spec", "kvproof.reference", "kvproof.conformance"))
    named = [f"{file.name}\0{file.sha256}" for file in driven_files(ours) if not file.name.endswith("/control.json")]
    return sha256("\0".join(sorted(named)).encode())


def driven_files(identity: Identity) -> tuple[DrivenFile, ...]:
    """The files that an identity names: a file, a folder with a slash in its name, or an importable module or package.

    Raises `AdapterError` for a name that is none of these, or a file that cannot be read.
    """
    found: dict[str, DrivenFile] = {}
    for name in identity.files:
        try:
            for shown, file in _files(name):
                found[shown] = DrivenFile(shown, sha256(file.read_bytes()))
        except OSError as error:
            raise AdapterError(f"the driven file {error.filename or name} cannot be read: {error.strerror}") from None
    return tuple(found.values())


def _files(name: str) -> Iterator[tuple[str, Path]]:
    path = Path(name)
    if path.is_file():
        yield name, path
        return
    folders, module = ([path], None) if "/" in name and path.is_dir() else _module(name)
    if module is not None:
        yield f"{name}/{module.name}", module
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield f"{name}/{file.relative_to(folder).as_posix()}", file


def _module(name: str) -> tuple[list[Path], Path | None]:
    """The folders of a package, or the file of a module that is none."""
    with _as_the_backend_finds_them():
        spec = _spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        return [Path(folder) for folder in spec.submodule_search_locations], None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise AdapterError(f"the backend says that it drives {name!r}, which is no file, no folder and no module")
    return [], Path(spec.origin)


@contextmanager
def _as_the_backend_finds_them() -> Iterator[None]:
    """Modules are looked for in the current folder first, as `python -m` does; only the backend may import them so."""
    before = list(sys.path)
    with suppress(OSError):  # without a current folder there are no modules in it
        sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path[:] = before


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is; nothing is imported, not even the packages around it, as they are the backend's to run."""
    outermost, *inner = name.split(".")
    try:
        spec = find_spec(outermost)
        for number, _ in enumerate(inner, 2):
            if spec is None or spec.submodule_search_locations is None:
                return None
            full = ".".join(name.split(".")[:number])
            spec = PathFinder.find_spec(full, list(spec.submodule_search_locations))
    except (ImportError, ValueError):
        return None
    return spec
