from __future__ import annotations

from pathlib import Path

import pytest

from kvproof.conformance import deep
from kvproof.conformance.deep import EXPLORATIONS, TIES, main
from kvproof.conformance.scope import Scope
from kvproof.conformance.tie.standard import SCOPES
from kvproof.reference import BlockPool
from kvproof.spec.vocabulary import CommitMode
from tests.broken_pools import keep_the_last_key

SMALL = Scope(1, ("a", "aa"), 1, block_size=3), Scope(1, ("a",), 1, commit=CommitMode.STEPS)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "EXPLORATIONS", SMALL)
    monkeypatch.setattr(deep, "TIES", SMALL)
    monkeypatch.setattr(deep, "SEEDS", 2)
    monkeypatch.setattr(deep, "STEPS_OF_A_WALK", 20)


def test_the_page_has_a_row_for_every_scope_with_what_was_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(tmp_path / "new" / "deep.md") == 0
    rows = [line for line in (tmp_path / "new" / "deep.md").read_text().splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[1:]] == ["| explored"] * 2 + ["| compared"] * 3
    assert rows[1].startswith("| explored | 1 blocks of 3, keys a,aa, refs 1, full_attention, logical | 19 | 92 | ")
    assert all(row.endswith("| nothing |") for row in rows[1:])
    assert capsys.readouterr().out.count(" states, ") == 5


def test_what_is_found_is_on_the_page_and_in_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPool, "_drop_keys", keep_the_last_key)
    assert main(tmp_path / "deep.md") == 1
    page = (tmp_path / "deep.md").read_text()
    assert "INV-" in page
    assert "the machine" in page or "machine " in page


def test_no_deep_scope_is_compared_in_every_test_run() -> None:
    assert set(TIES).isdisjoint(SCOPES)
    assert len(set(EXPLORATIONS)) == len(EXPLORATIONS)
