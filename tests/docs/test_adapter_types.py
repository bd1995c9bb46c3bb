"""The Python types that `docs/certify.md` shows are those that there are."""

from __future__ import annotations

import ast
from pathlib import Path

from kvproof.conformance.backends import wire

ROOT = Path(__file__).parents[2]


def fields(source: str) -> dict[str, list[str]]:
    """The fields of each class, as they are written."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    return {each.name: [ast.unparse(line) for line in each.body if isinstance(line, ast.AnnAssign)] for each in classes}


def test_the_types_in_the_documentation_are_those_of_the_wire() -> None:
    page = (ROOT / "docs" / "certify.md").read_text(encoding="utf-8")
    [block] = [each for each in page.split("```python\n")[1:] if "class Answer" in each]
    shown, real = fields(block.split("```")[0]), fields(Path(wire.__file__).read_text(encoding="utf-8"))
    assert shown == {name: real[name] for name in shown}
    assert set(real) - set(shown) == {"Wire"}
