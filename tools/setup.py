#!/usr/bin/env python3
"""Make `.venv` with everything that the tests need: `python3 tools/setup.py`, or `make setup`.

The standard library has to do, since this runs before anything is installed. Every Python from 3.6 on must be able to
parse the file, so that an old one says in one line what is wrong: keep newer syntax out of it.
"""

import sys

OLDEST_PYTHON = (3, 11)


def too_old_message(major: int, minor: int) -> str:
    """Return the line for a Python that is too old, or an empty one."""
    if (major, minor) >= OLDEST_PYTHON:
        return ""
    return (
        "setup: kvproof needs Python {}.{} or later and this is {}.{}; install a newer one and name it, as in "
        "make setup PYTHON=python3.12".format(*OLDEST_PYTHON, major, minor)
    )


if too_old_message(*sys.version_info[:2]):
    sys.exit(too_old_message(*sys.version_info[:2]))

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
import tomllib
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLD = ROOT / ".venv.old"
"""Keeps the finished environment while another one is made in its place: scripts hold their path, so the new one cannot
be made elsewhere and moved."""
STAMP = ".kvproof-ready"
"""Lies in a finished environment, and says from what it was made."""
CONSTRAINTS = ROOT / "constraints.txt"
TORCH_PINS = "# --- torch and what only torch needs"
"""Starts the line of constraints.txt below which the pins hold for the default torch only."""

MB = 10**6
GB = 10**9
# Measured with torch 2.13.0 on Linux x86-64: its CPU build, then its CUDA build with the libraries that this needs.
DOWNLOAD = 345 * MB
TORCH_DOWNLOAD = 190 * MB
CUDA_TORCH_DOWNLOAD = 2700 * MB
CUDA_DISK = 5400 * MB
DISK_NEED = 2 * GB
""".venv takes 1.5 GB; the rest is pip's cache and the files that it unpacks on the way."""

HEARTBEAT_S = 10.0
"""pip is silent while it works; a dot this often tells a terminal, and a CI with a limit on silence, that it lives."""

REMEDY = (
    "check the network, the free disk space and `pip config list`, or choose another torch with TORCH=; then try again"
)


class SetupFailed(Exception):
    """A step failed; the message is for the person at the terminal."""


class Lack(NamedTuple):
    """Something that the machine lacks, and the Debian package that brings it ('' if none does)."""

    what: str
    package: str


class Stamp(NamedTuple):
    """What a finished environment was made from."""

    digest: str
    torch: str


def say(line: str) -> None:
    """Print a line at once: pip's output and ours must not change places in a log."""
    print("setup: " + line, flush=True)


# What the environment is made from.


def torch_choice(asked: str, made_with: Stamp | None) -> str:
    """Return the requirement, path or URL of another torch than the pinned one, '' for the pinned one.

    A choice holds until the next: `make test` after `make setup TORCH=...` must not make the environment anew.
    """
    if not asked:
        return made_with.torch if made_with else ""
    named = Path(asked)
    is_path = named.is_file() or (os.sep in asked and named.exists())
    return str(named.absolute()) if is_path else asked


def local_path(choice: str) -> Path | None:
    """Return the path on this machine that a choice of torch means, None for a requirement or another URL."""
    reference = re.fullmatch(r"[\w.-]+(?:\[[^\]]*\])?\s*@\s*([A-Za-z][\w+.-]*:.*)", choice)
    place = reference[1] if reference else choice
    if place.lower().startswith("file:"):
        return Path(urllib.parse.unquote(urllib.parse.urlsplit(place).path))
    if re.match(r"[A-Za-z][\w+.-]*://", place):
        return None
    path = re.sub(r"\[[^\]]*\]$", "", place)  # the extras
    return Path(path) if path.endswith(".whl") or os.sep in path else None


def refuse_missing_torch(choice: str, remembered: bool) -> None:
    """Find a mistyped path before anything is done for it."""
    path = local_path(choice)
    if path is None or path.exists() or Path(choice).exists():
        return
    whose = "the torch that .venv was made with" if remembered else f"TORCH={choice}"
    way_out = "choose another with TORCH=, or run `make clean` for the pinned one; " if remembered else ""
    raise SetupFailed(f"setup: {whose} does not exist: {path.absolute()}; {way_out}nothing was changed")


def torch_identity(choice: str) -> str:
    """Name the chosen torch; a wheel that was built again under the same path is another one."""
    wheel = Path(choice)
    if not wheel.is_file():
        return choice
    status = wheel.stat()
    return f"{choice} {status.st_size} {status.st_mtime_ns}"


def installation_tables(pyproject: str) -> str:
    """Return what pyproject.toml says about installing: a new rule for ruff is no reason to install anew."""
    tables = tomllib.loads(pyproject)
    parts = [tables["build-system"], tables["project"], tables.get("tool", {}).get("hatch")]
    return json.dumps(parts, sort_keys=True)


def digest(choice: str) -> str:
    """Identify everything that decides what lies in the environment, its place included: scripts hold its path."""
    inputs = [
        installation_tables((ROOT / "pyproject.toml").read_text(encoding="utf-8")),
        CONSTRAINTS.read_text(encoding="utf-8"),
        torch_identity(choice),
        platform.python_version(),
        sys.base_prefix,
        str(VENV),
    ]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def read_stamp(environment: Path) -> Stamp | None:
    """Return what a finished environment was made from; None where there is none, or where it was not finished."""
    stamp = environment / STAMP
    if not stamp.is_file():
        return None
    recorded, _, torch = stamp.read_text(encoding="utf-8").partition("\n")
    return Stamp(recorded, torch.strip())


def write_stamp(stamp: Stamp) -> None:
    """Call the environment finished, at one blow: the last act before the old one goes."""
    draft = VENV / (STAMP + ".draft")
    draft.write_text(f"{stamp.digest}\n{stamp.torch}\n", encoding="utf-8")
    draft.replace(VENV / STAMP)


def works() -> bool:
    """Tell whether the environment still has its interpreter: that goes when the system's Python does."""
    return (VENV / "bin/python").exists()


# What the machine must have.


def lacks_venv() -> list[Lack]:
    """Debian takes ensurepip out of Python and ships it apart."""
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return []
    return [Lack("Python's venv and ensurepip", f"{versioned_python()}-venv")]


def lacks_compiler() -> list[Lack]:
    """Look for the compiler that CXX names, else for the usual ones."""
    named = shlex.split(os.environ.get("CXX", ""))[:1]
    if any(shutil.which(compiler) for compiler in named or ("c++", "g++", "clang++")):
        return []
    if named:
        return [Lack(f"the C++ compiler that CXX names ({named[0]}; unset CXX for the system's)", "")]
    return [Lack("a C++ compiler", "g++")]


def lacks_header() -> list[Lack]:
    """Look for the header that an extension module is compiled with."""
    if Path(sysconfig.get_path("include"), "Python.h").is_file():
        return []
    return [Lack("Python.h", f"{versioned_python()}-dev")]


def lacks_space() -> list[Lack]:
    """Compare the free space with what a setup was measured to take, here and where pip puts its downloads."""
    needs = {ROOT: DISK_NEED, Path(tempfile.gettempdir()): DOWNLOAD}
    lacks = []
    for place, need in needs.items():
        free = shutil.disk_usage(place).free
        if free < need:
            lacks.append(Lack(f"disk space under {place} ({size(need)} needed, {size(free)} free)", ""))
    return lacks


def versioned_python() -> str:
    """Return the stem of this Python's Debian packages."""
    return "python{}.{}".format(*sys.version_info[:2])


def size(count: int) -> str:
    """Write a number of bytes for people."""
    return f"{count / GB:.1f} GB" if count >= GB else f"{count // MB} MB"


def missing_line(lacks: list[Lack]) -> str:
    """Put all that is missing, and how to get it, into one line."""
    packages = [lack.package for lack in lacks if lack.package]
    advice = f"; on Debian or Ubuntu: apt-get install {' '.join(packages)}" if packages else ""
    return "missing: " + "; ".join(lack.what for lack in lacks) + advice


# Making it.


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let setups in one checkout follow each other. The lock lies on this file, so none is left behind.

    pip inherits the lock: should this process be killed alone, the next one still waits until nobody writes to .venv.
    """
    with open(__file__, "rb") as lock:
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup runs here; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Print a step's title, and on the same line how long it took."""
    print(f"setup: {title} ", end="", flush=True)
    started = time.monotonic()
    try:
        yield
    except BaseException:
        print(flush=True)
        raise
    print(f"{time.monotonic() - started:.0f} s", flush=True)


def remove(environment: Path) -> None:
    """Remove an environment, its stamp first: half of it must not pass for all of it."""
    if environment.is_symlink():
        environment.unlink()
    elif environment.exists():
        (environment / STAMP).unlink(missing_ok=True)
        shutil.rmtree(environment)


def set_aside() -> None:
    """Make room for a new environment; one that was finished is kept."""
    if read_stamp(VENV):
        say(f"keeps the old .venv as {OLD.name} until the new one is ready")
        (VENV / ".gitignore").write_text("*\n", encoding="utf-8")
        VENV.rename(OLD)
    elif VENV.is_symlink() or VENV.exists():
        say("removes the .venv that is there: no setup finished it")
        remove(VENV)


def settle() -> None:
    """Leave one environment of two: the new one if it is finished, else the old one.

    Right after a success, after a failure, and when a setup that was killed left both.
    """
    if not (OLD.is_symlink() or OLD.exists()):
        return
    if read_stamp(VENV) or not read_stamp(OLD):
        with step("removing the old environment"):
            remove(OLD)
        return
    remove(VENV)
    OLD.rename(VENV)
    say("put the old .venv back in its place")


@contextlib.contextmanager
def replacing() -> Iterator[None]:
    """Give up the old environment only when the new one is finished."""
    try:
        set_aside()
        yield
    finally:
        settle()


def make_venv() -> None:
    """Make an empty environment from the base interpreter, even when this runs in an environment itself."""
    import venv  # some systems ship Python without it; lacks_venv() has told them by now

    try:
        venv.EnvBuilder(with_pip=True, symlinks=True, prompt="kvproof").create(VENV)
    except subprocess.CalledProcessError as error:
        raise SetupFailed(f"could not make {VENV}: {error}") from error


def constraints_for(choice: str) -> Path:
    """Return the constraints file: for another torch, one without the pins that belong to the default one."""
    if not choice:
        return CONSTRAINTS
    general, _, _ = CONSTRAINTS.read_text(encoding="utf-8").partition(TORCH_PINS)
    path = VENV / "constraints-without-torch.txt"
    path.write_text(general, encoding="utf-8")
    return path


def pip_install(constraints: Path, *arguments: str) -> None:
    """Run pip with the user's own configuration; show what it says only when it fails."""
    pip = [str(VENV / "bin/python"), "-I", "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]
    command = [*pip, "install", "--constraint", str(constraints), *arguments]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        code = run_with_heartbeat(command, output.fileno())
        if code:
            output.seek(0)
            said = output.read().rstrip()
            raise SetupFailed(f"{said}\nsetup: pip could not install {arguments[-1]} (see above); {REMEDY}")


def run_with_heartbeat(command: list[str], output: int) -> int:
    """Run a command, print a dot now and then, return its exit status."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        close_fds=False,  # hands on the one file that is inheritable, the lock
    )
    try:
        while True:
            try:
                return process.wait(HEARTBEAT_S)
            except subprocess.TimeoutExpired:
                print(".", end="", flush=True)
    except BaseException:
        process.terminate()
        process.wait()
        raise


def make_environment(choice: str) -> None:
    """Make the environment where none is. Without a stamp it counts for nothing until the last step is done."""
    with step("[1/4] empty .venv"):
        make_venv()
    constraints = constraints_for(choice)
    torch = choice or "torch"
    with step("[2/4] build backend"):
        pip_install(constraints, "hatchling")
    with step(f"[3/4] {torch}"):
        pip_install(constraints, torch)
    with step("[4/4] kvproof and its development tools"):
        # Without isolation the build uses the pinned backend from above, not whatever is newest.
        pip_install(constraints, "--no-build-isolation", "--editable", ".[dev]")


def announce(choice: str) -> None:
    """Say what is about to be downloaded."""
    if choice:
        say(f"downloads about {size(DOWNLOAD - TORCH_DOWNLOAD)}, and {choice} with what it needs")
        return
    say(f"downloads about {size(DOWNLOAD)}; torch is {size(TORCH_DOWNLOAD)} of it")
    say(
        f"where pip is not served the CPU wheel, torch is {size(CUDA_TORCH_DOWNLOAD)} and .venv {size(CUDA_DISK)}: "
        "set TORCH=... to choose a wheel or a requirement"
    )


def setup(asked: str) -> None:
    """Bring the environment up to date; do nothing if it is."""
    settle()
    made_with = read_stamp(VENV)
    choice = torch_choice(asked, made_with)
    refuse_missing_torch(choice, remembered=not asked)
    wanted = Stamp(digest(choice), choice)
    if made_with == wanted and works():
        say(".venv is ready")
        return
    lacks = [*lacks_venv(), *lacks_compiler(), *lacks_header(), *lacks_space()]
    if lacks:
        raise SetupFailed("setup: " + missing_line(lacks))
    announce(choice)
    started = time.monotonic()
    with replacing():
        make_environment(choice)
        write_stamp(wanted)
    say(f".venv is ready after {time.monotonic() - started:.0f} s")


def main() -> int:
    """Run a setup; return the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as on Ctrl-C, and pip with us
    try:
        with one_at_a_time():
            setup(os.environ.get("TORCH", "").strip())
    except SetupFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: interrupted; run it again to start over", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
