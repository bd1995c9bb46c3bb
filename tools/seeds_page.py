"""Makes docs/seeds.md of docs/seeds.toml and checks every clause and test that it names.

The reports that kvproof grew out of name symbols, risks and test scenarios; the page says where each is answered.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvproof.conformance.evidence import Evidence, gather
from kvproof.spec.clauses import clauses

ROOT = Path(__file__).parents[1]
KINDS = {"symbol": "Symbols", "risk": "Risks", "review": "Review remarks", "test": "Tests", "scenario": "Scenarios"}
TABLE_HEAD = ("| named there | clauses | tests | here |", "|---|---|---|---|")
TESTS_SHOWN = 3
"""A row that names no tests shows so many of those that carry its clauses; `kvproof spec` prints them all."""


@dataclass(frozen=True, slots=True)
class Item:
    """One row: something that a report names, and where it is answered."""

    source: str
    kind: str
    name: str
    answer: str
    clauses: tuple[str, ...]
    tests: tuple[str, ...] = ()


def load(path: Path) -> tuple[dict[str, str], list[Item]]:
    """The titles of the sources, and the rows in order."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    titles = {name: source["title"] for name, source in data["sources"].items()}
    return titles, [_item(row) for row in data["item"]]


def _item(row: dict[str, Any]) -> Item:
    return Item(**{**row, "clauses": tuple(row["clauses"]), "tests": tuple(row.get("tests", ()))})


def complaints(titles: Mapping[str, str], items: list[Item], evidence: Mapping[str, Evidence]) -> Iterator[str]:
    """What the lint finds: unknown names, tests of other clauses, and rows that are answered by nothing."""
    for item in items:
        if item.source not in titles or item.kind not in KINDS:
            yield f"{item.name}: unknown source or kind"
        yield from (f"{item.name}: no clause {name}" for name in item.clauses if name not in clauses())
        carrying = {test for name in item.clauses if name in evidence for test in evidence[name].tests}
        yield from (f"{item.name}: no test {name} carries its clauses" for name in item.tests if name not in carrying)
        if not carrying:
            yield f"{item.name}: no test carries its clauses"


def tests_of(item: Item, evidence: Mapping[str, Evidence]) -> list[str]:
    """The tests that answer a row: those that carry most of its clauses first."""
    if item.tests:
        return list(item.tests)
    carried = [test for name in item.clauses if name in evidence for test in evidence[name].tests]
    return sorted(dict.fromkeys(carried), key=lambda test: -carried.count(test))


def page(titles: Mapping[str, str], items: list[Item], evidence: Mapping[str, Evidence]) -> str:
    """The generated page."""
    lines = [
        "# From the seeds",
        "",
        "kvproof grew out of two public reports on vLLM pull requests. Every symbol, risk, review remark and test that",
        "they name stands here with the clauses that answer it, tests that carry them, and what we do differently and",
        "why; so do the scenarios of vLLM's own tests of what they describe. Generated from `docs/seeds.toml`.",
    ]
    for source, title in titles.items():
        lines += ["", f"## {title}"]
        for kind, heading in KINDS.items():
            rows = [_row(item, evidence) for item in items if (item.source, item.kind) == (source, kind)]
            if rows:
                lines += ["", f"### {heading}", "", *TABLE_HEAD, *rows]
    return "\n".join(lines) + "\n"


def _row(item: Item, evidence: Mapping[str, Evidence]) -> str:
    links = ", ".join(_link(name) for name in item.clauses)
    tests = [test.removeprefix("tests/").replace("::", ": ") for test in tests_of(item, evidence)]
    most = len(tests) if item.tests else TESTS_SHOWN
    shown = "<br>".join(f"`{test}`" for test in tests[:most])
    more = f"<br>and {len(tests) - most} more" if len(tests) > most else ""
    return f"| {item.name} | {links} | {shown}{more} | {item.answer} |"


def _link(name: str) -> str:
    clause = clauses()[name]
    return f"[{name}](spec/{clause.chapter}.md#{name.lower()}-{clause.level.value.lower()})"


def main() -> None:
    """Write the page; refuse if the lint finds anything."""
    titles, items = load(ROOT / "docs/seeds.toml")
    evidence = gather(ROOT)
    if found := list(complaints(titles, items, evidence)):
        raise SystemExit("\n".join(found))
    (ROOT / "docs/seeds.md").write_text(page(titles, items, evidence), encoding="utf-8")


if __name__ == "__main__":
    main()
