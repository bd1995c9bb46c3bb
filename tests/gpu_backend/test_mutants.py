"""The mutants of the core are up to date; all of them are killed by `make core-mutants`, one of them here."""

from __future__ import annotations

import shutil
from pathlib import Path

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
