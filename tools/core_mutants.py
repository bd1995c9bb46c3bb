"""Builds the core with one fault after the other, and lets the fuzz find each.

    python tools/core_mutants.py [--only NAME] [--calls N] [--processes N]

A mutant is killed if the core differs from the reference, crashes, or does not end. Ends with 1 if one survives.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]

CATALOGUE = Path(__file__).with_suffix(".toml")

FLAGS = "-O0 -DKVPROOF_FEW_HOLES=0"
"""Quick to compile; the fuzz spends its time in Python. Small pools are swept too."""

MOST_CALLS = 600_000


@dataclass(frozen=True, slots=True)
class Mutant:
    """One text of one file of `native/` that becomes another; `fault` says what is wrong then."""

    name: str
    file: str
    right: str
    wrong: str
    fault: str

    def apply(self, root: Path) -> None:
        """Change the sources under the root of a copy of the backend. Raises ValueError if they are not as expected."""
        source = root / "kvproof" / "gpu_backend" / "native" / self.file
        text = source.read_text(encoding="utf-8")
        if text.count(self.right) != 1:
            raise ValueError(f"{self.name}: {self.file} has {text.count(self.right)} times {self.right!r}")
        source.write_text(text.replace(self.right, self.wrong), encoding="utf-8")


def catalogue() -> list[Mutant]:
    """All mutants."""
    entries = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))
    return [Mutant(name, **fields) for name, fields in entries.items()]


def is_killed(mutant: Mutant, calls: int = MOST_CALLS) -> tuple[bool, str]:
    """Whether the fuzz notices the mutant, and how."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "gpu_backend")
        shutil.copytree(PROJECT / "gpu_backend", root, ignore=shutil.ignore_patterns("__pycache__"))
        mutant.apply(root)
        roots = [str(PROJECT / part) for part in ("spec", "reference", "conformance")] + [str(root)]
        environment = {"PYTHONPATH": os.pathsep.join(roots), "CXXFLAGS": FLAGS, "KVPROOF_CACHE": folder}
        fuzz = str(PROJECT / "tools" / "fuzz_core.py")
        run = subprocess.run(
            [sys.executable, fuzz, "--processes", "1", "--calls", str(calls)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )
    if run.returncode == -signal.SIGXCPU:
        return True, "it does not end"
    if "NativeCoreUnavailable" in run.stderr:
        raise ValueError(f"{mutant.name} does not compile: {run.stderr[-1000:]}")
    if run.returncode < 0:
        return True, f"it crashes (signal {-run.returncode})"
    return run.returncode != 0, "mismatch" if run.returncode else "survives"


def main() -> int:
    """Run them all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only")
    parser.add_argument("--calls", type=int, default=MOST_CALLS)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    survivors = 0

    def try_one(mutant: Mutant) -> tuple[Mutant, bool, str, float]:
        started = time.monotonic()
        return mutant, *is_killed(mutant, chosen.calls), time.monotonic() - started

    mutants = [mutant for mutant in catalogue() if chosen.only in (None, mutant.name)]
    with ThreadPoolExecutor(chosen.processes) as executor:  # each waits for a process
        for mutant, killed, how, seconds in executor.map(try_one, mutants):
            survivors += not killed
            print(f"{how:28} {seconds:6.0f} s  {mutant.name}: {mutant.fault}", flush=True)
    print(f"{survivors} of {len(mutants)} survive")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
