"""Drives random pools and prints a digest of each arena after every call; so two builds of the core are compared.

python tools/arena_digests.py SEED POOLS CALLS
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from pathlib import Path


def main() -> None:
    """The same seeds give the same lines, whatever executes the core."""
    os.urandom = lambda size: bytes(range(size))  # the seed of the buckets; it decides where entries lie
    spec = importlib.util.spec_from_file_location("fuzz_core", Path(__file__).with_name("fuzz_core.py"))
    assert spec is not None and spec.loader is not None  # noqa: PT018
    fuzz = sys.modules["fuzz_core"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    seed, pools, calls = map(int, sys.argv[1:])
    for number in range(seed, seed + pools):
        pair = fuzz.Pair(number)
        for _ in range(calls):
            name = pair.call()
            print(number, name, hashlib.sha256(pair.ours.arena.numpy().tobytes()).hexdigest()[:16])


if __name__ == "__main__":
    main()
