"""Finds the native core and loads it: the one in the wheel, else one that is built at first use and kept.

Standard library only: the build hook of the wheel loads this file by path.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType

SOURCES = Path(__file__).with_name("native")

MODULE = "kvproof.gpu_backend._core"

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))

FLAGS = ("-O2", "-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra")

COMPILERS = ("c++", "g++", "clang++")

CACHE = "KVPROOF_CACHE"
"""The environment variable that names the folder of built cores; without it they are in the user's cache."""

SHOWN_CHARACTERS = 2000
"""A failed compilation shows no more of what the compiler said."""


class NativeCoreUnavailable(ImportError):
    """The native core can be neither found nor built; the text says what is missing."""


def load() -> ModuleType:
    """The native core, built first if need be. Raises `NativeCoreUnavailable`."""
    if MODULE in sys.modules:
        return sys.modules[MODULE]
    found = _try(shipped_file()) if not os.environ.get("CXXFLAGS") else None  # those ask for another core
    found = found or _try(kept := cached_file())
    if found is None:
        compile_core(kept)
        found = _loaded(kept)
    sys.modules[MODULE] = found
    return found


def _try(file: Path) -> ModuleType | None:
    """The core in a file; None if there is none, or none that this machine can load, which a new one replaces."""
    try:
        return _loaded(file) if file.is_file() else None
    except ImportError:
        return None


def _loaded(file: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(file))
    spec = importlib.util.spec_from_file_location(MODULE, file, loader=loader)
    assert spec is not None, "a loader was given"
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def shipped_file() -> Path:
    """Where a wheel has the core that was built from these sources; one of other sources has another name."""
    return Path(__file__).with_name(f"_core-{digest()}{SUFFIX}")


def cached_file() -> Path:
    """Where the core lies that is built from these sources, with these flags, for this interpreter."""
    return cache_folder() / f"_core-{digest(os.environ.get('CXX'), os.environ.get('CXXFLAGS'))}{SUFFIX}"


def cache_folder() -> Path:
    """The folder of built cores. Raises `NativeCoreUnavailable` if there is no home for it."""
    if chosen := os.environ.get(CACHE):
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvproof"
    except RuntimeError as error:
        raise NativeCoreUnavailable(f"{error}; set {CACHE} to a folder that can be written") from None


def digest(*choices: str | None) -> str:
    """Identify sources, flags, interpreter and machine, and what else was chosen."""
    found = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        if path.suffix in {".h", ".cpp"}:
            found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    found.update(repr((FLAGS, SUFFIX, platform.machine(), choices)).encode())
    return found.hexdigest()[:16]


def compile_core(target: Path, more_flags: tuple[str, ...] = ()) -> None:
    """Compile to `target`, whole or not at all, so that processes that start at once do no harm to each other.

    Raises `NativeCoreUnavailable`.
    """
    command = [*_compiler(), *FLAGS, *more_flags, f"-I{_headers_of_python()}", str(SOURCES / "module.cpp"), *_linking()]
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # what is in it will be executed
        handle, name = tempfile.mkstemp(suffix=SUFFIX, dir=target.parent)
    except OSError as error:
        raise NativeCoreUnavailable(
            f"the native core cannot be stored in {target.parent}: {error.strerror}; "
            f"set {CACHE} to a folder that can be written"
        ) from error
    os.close(handle)
    try:
        run = subprocess.run([*command, "-o", name], capture_output=True, text=True)
        if run.returncode:
            raise NativeCoreUnavailable(f"{shlex.join(command)} failed:\n{run.stderr[-SHOWN_CHARACTERS:]}")
        os.chmod(name, 0o755)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


def _compiler() -> list[str]:
    chosen = shlex.split(os.environ.get("CXX", ""))
    known = chosen[:1] or [name for name in COMPILERS if shutil.which(name)][:1]
    if not known or not shutil.which(known[0]):
        raise NativeCoreUnavailable(
            "the native core has to be built, and there is no C++ compiler "
            f"(tried {', '.join(chosen[:1] or COMPILERS)}); install one (Debian: apt-get install g++), "
            "or name it in the environment variable CXX"
        )
    return chosen or known


def _headers_of_python() -> str:
    folder = sysconfig.get_paths()["include"]
    if not Path(folder, "Python.h").is_file():
        raise NativeCoreUnavailable(
            f"the native core has to be built, and {folder}/Python.h is missing; "
            "install it (Debian: apt-get install python3-dev)"
        )
    return folder


def _linking() -> list[str]:
    shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    return [*shared, *shlex.split(os.environ.get("CXXFLAGS", ""))]
