from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from kvproof.conformance.cli import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "proofs.md"

END_OF_THE_FINDING = "The state before satisfies every invariant"


def test_the_counterexample_on_the_page_is_what_the_command_shows() -> None:
    [command] = [
        line[2:]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("$ kvproof prove --show adv")
    ]
    shown = CliRunner().invoke(app, command.split()[1:]).output
    finding = shown[: shown.index(END_OF_THE_FINDING)]
    assert len(finding) > 300
    assert finding.strip() in PAGE.read_text(encoding="utf-8")
