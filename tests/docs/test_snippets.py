from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(page: str) -> list[str]:
    return BLOCK.findall((PROJECT / "docs" / page).read_text(encoding="utf-8"))


def test_the_code_on_the_page_of_the_backend_runs_from_top_to_bottom() -> None:
    names: dict[str, object] = {"prompt_tokens": list(range(1_000))}
    found = snippets("gpu-backend.md")
    assert len(found) >= 3
    for code in found:
        exec(code, names)
    assert len(names["hits"]) == 62  # type: ignore[arg-type]
    assert names["cache"].running["r1"].settled == 1_000  # type: ignore[attr-defined]


def test_a_snippet_that_does_not_run_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("```python\nnobody()\n```\n")
    monkeypatch.setattr("tests.docs.test_snippets.PROJECT", tmp_path)
    [code] = snippets("page.md")
    with pytest.raises(NameError):
        exec(code, {})
