"""The mutants of the core are up to date; all of them are killed by `make core-mutants`, one of them here."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu_backend.tools import PROJECT, script

mutants = script("core_mutants")

FEWEST = 20


def test_every_mutant_changes_the_sources_as_they_are(tmp_path: Path) -> None:
    known = mutants.catalogue()
    assert len(known) >= FEWEST
    for mutant in known:
        root = tmp_path / mutant.name
        native = Path("kvproof", "gpu_backend", "native", mutant.file)
        (root / native).parent.mkdir(parents=True)
        shutil.copy(PROJECT / "gpu_backend" / native, root / native)
        mutant.apply(root)
        assert mutant.fault


def test_a_mutant_is_killed() -> None:
    [mutant] = [each for each in mutants.catalogue() if each.name == "keyless_blocks_go_last"]
    assert mutants.is_killed(mutant, 6000) == (True, "mismatch")


ENDLESS = """
import fuzz_core
with fuzz_core.an_end(1):
    pass
while fuzz_core.time.process_time() < 2:  # outside of it there is no bound
    pass
with fuzz_core.an_end(1):
    while True:
        pass
"""


def test_a_core_that_does_not_end_is_ended() -> None:
    run = subprocess.run([sys.executable, "-c", ENDLESS], cwd=PROJECT / "tools", capture_output=True)
    assert run.returncode == -signal.SIGXCPU


def test_a_mutant_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, -signal.SIGXCPU, "", "")

    monkeypatch.setattr(mutants.subprocess, "run", run)
    assert mutants.is_killed(mutants.catalogue()[0]) == (True, "it does not end")
