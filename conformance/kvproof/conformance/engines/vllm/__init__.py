"""vLLM's block pool as a backend: `make vllm` builds its environment, `kvproof certify vllm` drives it.

Another environment that has vLLM is named by the variable KVPROOF_VLLM, the path of its Python. kvproof need not be
installed there.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import kvproof
from kvproof.conformance.backends.interface import AdapterError
from kvproof.conformance.backends.process import ProcessBackend

VARIABLE = "KVPROOF_VLLM"

BUILT = Path("build/vllm/.venv/bin/python")
"""Where `make vllm` builds it, in a checkout."""


def per_copy() -> ProcessBackend:
    """The pool as it is: one event for each copy of a key."""
    return _backend("Adapter")


def logical() -> ProcessBackend:
    """The same, judged by what a consumer needs that keeps a set of keys."""
    return _backend("Logical")


def xxhash() -> ProcessBackend:
    """The same as `per_copy`, with vLLM's other hash contract."""
    return _backend("Xxhash")


def refusals() -> ProcessBackend:
    """The same as `per_copy`, asked for what is illegal too."""
    return _backend("Refusals")


def environment() -> Path:
    """The Python of the environment that has vLLM. Raises `AdapterError` with the way out if there is none."""
    named = os.environ.get(VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise AdapterError(f"{VARIABLE} is {named}, and there is no such program; name the Python that has vLLM")
        return Path(named).absolute()
    checkouts = [Path(root).parent.parent for root in kvproof.__path__]
    found = [checkout / BUILT for checkout in checkouts if (checkout / BUILT).exists()]
    if not found:
        raise AdapterError(
            f"vLLM's environment is not there; `make vllm` in a checkout of kvproof builds it, or set {VARIABLE} "
            "to the Python of an environment that has vLLM"
        )
    return found[0]


def _backend(name: str) -> ProcessBackend:
    """The adapter in vLLM's environment.

    The order of Python's sets is fixed, as vLLM keeps keys in sets: a run can then be repeated. Its seed of hashes is
    that number, too.
    """
    roots = os.pathsep.join(str(Path(root).parent) for root in kvproof.__path__ if not _is_installed(Path(root)))
    words = [
        "env",
        "PYTHONHASHSEED=0",
        f"PYTHONPATH={roots}",
        "VLLM_LOGGING_LEVEL=ERROR",
        str(environment()),
        "-m",
        "kvproof.conformance.backends.serve",
        f"kvproof.conformance.engines.vllm.adapter:{name}",
    ]
    return ProcessBackend(shlex.join(words))


def _is_installed(package: Path) -> bool:
    """Whether it lies among the packages of an environment, which are not for another one."""
    return package.parent.name == "site-packages"
