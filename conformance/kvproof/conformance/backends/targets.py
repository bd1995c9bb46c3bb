"""Finds a backend by the name that a user gives."""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
from importlib.metadata import entry_points
from typing import cast

from kvproof.conformance.backends.claims import check_claims
from kvproof.conformance.backends.guarded import words_of
from kvproof.conformance.backends.interface import OWN_HASHES, AdapterError, Backend
from kvproof.conformance.backends.names import NamedBackend
from kvproof.conformance.backends.process import ProcessBackend
from kvproof.conformance.terminal import did_you_mean

EXEC = "exec:"

ENTRY_POINTS = "kvproof.backends"
"""The group of entry points under which packages name their backends."""

REFERENCE = {"reference": "kvproof.conformance.backends.reference:ReferenceBackend"}
"""Known even where the suite is run from its sources, and so has no entry points."""

NO_BACKEND = 2
"""The exit code of a server (see `serve`) whose target is no backend; it says so after `SAYS`."""

SAYS = "serve: "

_SERVER = """
import sys
target, *sys.path = sys.argv[1:]
from kvproof.conformance.backends.serve import main
sys.exit(main([target]))
"""
"""Serves a target where the same modules are found as here."""

METHODS = ("identify", "start", "run", "close")

WAYS = "a target is a name (`reference`, or one that an installed package offers), `module:factory` or `exec:COMMAND`"


class TargetError(ValueError):
    """What a user named is no backend; the text says why, and what to do."""


def open_backend(target: str) -> Backend:
    """The backend that a target names; what is Python runs in this process.

    Raises `TargetError`, or `AdapterError` if its process cannot be started.
    """
    if target.startswith(EXEC):
        return _process(target.removeprefix(EXEC))
    return _made(_factory(target))


def open_subject(target: str) -> Backend:
    """The backend that a target names, as the suite drives it: its claims make sense, its hashes have names.

    Whatever is not the suite's own has a process of its own, so that it cannot end, hold up or change the suite.
    Raises `TargetError` or `AdapterError`.
    """
    _current_folder()
    backend = open_backend(target) if target in REFERENCE or target.startswith(EXEC) else _served(target)
    _, claimed = backend.identify()
    check_claims(claimed)
    return NamedBackend(backend) if OWN_HASHES in claimed.hashes else backend


def named_backends() -> dict[str, str]:
    """The names that need no more than themselves, each with its `module:factory`."""
    return {**REFERENCE, **{entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}}


def _factory(target: str) -> str:
    """The `module:factory` that a target names; raises `TargetError` if there is no such name."""
    if ":" in target:
        return target
    known = named_backends()
    if target not in known:
        otherwise = f"known are {', '.join(sorted(known))}; {WAYS}"
        raise TargetError(f"there is no backend {target!r}; {did_you_mean(target, known, otherwise)}")
    return known[target]


def _served(target: str) -> Backend:
    """The backend that a factory makes in a process of its own; raises `TargetError` if that says it makes none."""
    command = [sys.executable, "-c", _SERVER, _factory(target), *sys.path]
    backend = ProcessBackend(command, called=target)
    try:
        backend.identify()
    except AdapterError:
        code, words = backend.how_it_ended()
        before, says, reason = words.rpartition(SAYS)
        if code == NO_BACKEND and says:
            raise TargetError(f"{reason.rstrip()}\n{before}".rstrip()) from None
        raise
    return backend


def _process(command: str) -> Backend:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise TargetError(f"the command {command!r} cannot be split into words: {error}") from None
    if not words:
        raise TargetError(f"{EXEC} needs a command, as in `{EXEC}./pool_adapter`")
    if shutil.which(words[0]) is None:
        raise TargetError(f"there is no program {words[0]!r} that can be run; {_way_out(words[0])}")
    return ProcessBackend(command)


def _way_out(program: str) -> str:
    if os.path.isdir(program):
        return "it is a folder"
    if os.path.exists(program):
        runs = os.access(program, os.X_OK)
        return f"did you mean ./{program}?" if runs else f"make the file executable (chmod +x {shlex.quote(program)})"
    return "build it, or give its path from the current folder"


def _made(target: str) -> Backend:
    """The backend that `module:factory` makes."""
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        raise TargetError(f"{target!r} is no `module:factory`; {WAYS}")
    factory = _attribute(_module(module_name), path, target)
    if not callable(factory):
        raise TargetError(f"{target} is a {type(factory).__name__} and makes nothing; name a class or a function")
    try:
        backend = factory()
    except AdapterError:
        raise
    except (Exception, SystemExit) as error:
        raise TargetError(f"{target}() failed: {type(error).__name__}: {words_of(error)}") from error
    if missing := [name for name in METHODS if not callable(getattr(backend, name, None))]:
        raise TargetError(
            f"{target}() made a {type(backend).__name__}, which is no backend: it has no {', '.join(missing)}; "
            "see kvproof.conformance.backends.interface.Backend"
        )
    return cast("Backend", backend)


def _current_folder() -> str:
    """The folder in which every backend runs; raises `TargetError` if it is gone."""
    try:
        return os.getcwd()
    except OSError as error:
        raise TargetError(f"the current folder cannot be used ({error.strerror}); go to another one") from None


def _module(name: str) -> object:
    """Import a module, also one of the current folder, as `python -m` would."""
    here = _current_folder()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise TargetError(
                f"there is no module {error.name!r}, neither installed nor in {here}; install it, or go to its folder"
            ) from None
        raise TargetError(f"the module {name!r} needs {error.name!r}, which is not installed") from error
    except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is imported
        raise TargetError(
            f"the module {name!r} cannot be imported: {type(error).__name__}: {words_of(error)}"
        ) from error


def _attribute(module: object, path: str, target: str) -> object:
    found = module
    for name in path.split("."):
        if not hasattr(found, name):
            public = [known for known in vars(found) if not known.startswith("_")]
            hint = did_you_mean(name, public, f"there are {', '.join(public) or 'no names at all'}")
            raise TargetError(f"{target} does not exist: there is no {name!r}; {hint}")
        found = getattr(found, name)
    return found
