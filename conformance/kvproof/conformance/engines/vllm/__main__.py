"""Starts the adapter in vLLM's environment: `python -m kvproof.conformance.engines.vllm [MODE]`.

That environment is the one that `make vllm` builds, or the one whose Python the variable KVPROOF_VLLM names. kvproof
need not be installed there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "KVPROOF_VLLM"

BUILT = "build/vllm/.venv/bin/python"
"""Where `make vllm` puts it, in a checkout."""

CHECKOUT = Path(__file__).resolve().parents[5]
"""The checkout that this file lies in, if it lies in one."""

MODES = {"per_copy": "Adapter", "pool": "PoolAlone", "logical": "Logical", "xxhash": "Xxhash", "refusals": "Refusals"}
"""What the pool is judged by, see the classes of `adapter`."""

NOT_THERE = (
    "vLLM's environment is not there; `make vllm` in a checkout of kvproof builds it, "
    f"or set {VARIABLE} to the Python of an environment that has vLLM"
)

USAGE = 2


def main(arguments: list[str]) -> str:
    """Become the adapter; returns only to say why that cannot be."""
    mode = arguments[0] if arguments else "per_copy"
    if len(arguments) > 1 or mode not in MODES:
        return f"usage: python -m kvproof.conformance.engines.vllm [{'|'.join(MODES)}]"
    python = environment()
    if python is None:
        return NOT_THERE
    target = f"kvproof.conformance.engines.vllm.adapter:{MODES[mode]}"
    try:
        os.execve(python, [str(python), "-m", "kvproof.conformance.backends.serve", target], variables())
    except OSError as error:
        return f"{python} cannot be run: {error.strerror}; set {VARIABLE} to the Python of vLLM's environment"


def environment() -> Path | None:
    """The Python of the environment that has vLLM, None if there is none."""
    if named := os.environ.get(VARIABLE):
        return Path(named).absolute()
    built = CHECKOUT / BUILT
    return built if built.exists() else None


def variables() -> dict[str, str]:
    """The environment variables: where this kvproof is, and a fixed order of Python's sets.

    vLLM keeps keys in sets, so that without it a run could not be repeated; its seed of hashes is this number, too.
    """
    roots = [entry for entry in sys.path if Path(entry, "kvproof").is_dir() and Path(entry).name != "site-packages"]
    return {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(roots), "VLLM_LOGGING_LEVEL": "ERROR"}


if __name__ == "__main__":
    print(f"kvproof.conformance.engines.vllm: {main(sys.argv[1:])}", file=sys.stderr)
    sys.exit(USAGE)
