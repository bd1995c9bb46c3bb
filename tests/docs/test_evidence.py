from collections.abc import Iterator
from pathlib import Path

import pytest

from kvproof.conformance.evidence import (
    EVIDENCE_FILE,
    Evidence,
    UnknownClause,
    as_json,
    as_table,
    gather,
    mentions,
    unchecked,
)
from kvproof.spec.clauses import Level, clauses

ROOT = Path(__file__).parents[2]
TEXT_FOLDERS = ("spec", "reference", "gpu_backend", "conformance", "tests", "docs")


def text_files() -> Iterator[Path]:
    for folder in TEXT_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".md", ".toml"} and path != Path(__file__):
                yield path
    yield from (ROOT / "README.md", ROOT / "CHANGELOG.md")


@pytest.fixture(scope="module")
def evidence() -> dict[str, Evidence]:
    return gather(ROOT)


def test_every_must_clause_has_a_test_and_a_mutant(evidence: dict[str, Evidence]) -> None:
    assert unchecked(evidence) == []


def test_the_contracts_of_a_clause_are_found(evidence: dict[str, Evidence]) -> None:
    contract = "kvproof.conformance.contracts.arithmetic.position_lies_in_its_slot"

    assert contract in evidence["POS-SLOT-1"].contracts


def test_a_must_clause_without_checks_is_complained_of(evidence: dict[str, Evidence]) -> None:
    bare = {**evidence, "POOL-FREE-2": Evidence()}

    assert unchecked(bare) == ["POOL-FREE-2 has no test", "POOL-FREE-2 has no mutant"]


def test_every_clause_that_anything_names_exists() -> None:
    unknown = []
    for path in text_files():
        try:
            mentions(path.read_text(encoding="utf-8"))
        except UnknownClause as error:
            unknown.append(f"{path.relative_to(ROOT)}: {error}")

    assert unknown == []


@pytest.mark.parametrize("name", ["POOL-FREE-99", "POOL-FREED-1", "POOL-FREED-*", "EVENT-99"])
def test_a_clause_that_does_not_exist_is_noticed(name: str) -> None:
    with pytest.raises(UnknownClause, match=name.replace("*", r"\*")):
        mentions(f"see {name} for this")


def test_a_family_of_clauses_is_spelled_out() -> None:
    assert mentions("(POOL-LOOKUP-*)") == ["POOL-LOOKUP-1", "POOL-LOOKUP-2"]


def test_every_must_clause_names_its_implementation_or_is_an_invariant(evidence: dict[str, Evidence]) -> None:
    musts = [clause.id for clause in clauses().values() if clause.level is Level.MUST]
    bare = [clause_id for clause_id in musts if not evidence[clause_id].implementation]

    assert [clause_id for clause_id in bare if not clause_id.startswith(("INV-", "CONTENT-SOUND-"))] == []


def test_the_shipped_evidence_and_its_page_are_up_to_date(evidence: dict[str, Evidence]) -> None:
    shipped = ROOT / "conformance/kvproof/conformance" / EVIDENCE_FILE
    page = ROOT / "docs/evidence/clauses.md"

    assert shipped.read_text(encoding="utf-8") == as_json(evidence), "run `make evidence`"
    assert page.read_text(encoding="utf-8") == as_table(evidence), "run `make evidence`"
