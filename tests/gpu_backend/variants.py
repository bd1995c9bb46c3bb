"""Runs the core as it is built with other flags, or from sabotaged sources, in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ROOTS = ("spec", "reference", "conformance", "gpu_backend")


def run_tool(
    tool: str, arguments: list[str], backend: Path | None = None, before: Sequence[str] = (), **environment: str
) -> str:
    """What a script of `tools/` prints; `backend` is the root of another copy of the backend.

    `before` is a command that runs another one.
    """
    roots = [str(PROJECT / root) for root in ROOTS[:-1]] + [str(backend or PROJECT / ROOTS[-1])]
    run = subprocess.run(
        [*before, sys.executable, str(PROJECT / "tools" / tool), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(roots), **environment},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-10_000:]
    return run.stdout


def sabotaged(folder: Path, changes: Mapping[str, tuple[str, str]]) -> Path:
    """A copy of the backend in which one text of each file is replaced."""
    root = folder / "gpu_backend"
    shutil.copytree(PROJECT / "gpu_backend", root, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (right, wrong) in changes.items():
        source = root / "kvproof" / "gpu_backend" / "native" / name
        text = source.read_text(encoding="utf-8")
        assert text.count(right) == 1, f"{name} has {text.count(right)} times {right!r}"
        source.write_text(text.replace(right, wrong), encoding="utf-8")
    return root
