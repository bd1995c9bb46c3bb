"""What implements and what checks each clause: gathered from the sources, shipped as `evidence.json`.

Tests name their clauses by the marker `clause`, mutants in the catalogue, contracts and implementations in their
docstrings; there, `POOL-FREE-*` stands for every clause of that name. Nothing here is written by hand.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path

from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.spec.clauses import Clause, Level, clauses
from kvproof.spec.machine.systems import SYSTEMS

EVIDENCE_FILE = "evidence.json"

CONTRACT_DEPTH = "kvproof.conformance.contracts.module.function".count(".")
"""Docstrings of whole modules name no clause in particular."""

_FAMILIES = "|".join(sorted({clause_id.split("-")[0] for clause_id in clauses()}))
_MENTION = re.compile(rf"\b(?:{_FAMILIES})(?:-[A-Z0-9]+)*-(?:[0-9]+\b|\*)")


@dataclass(slots=True)
class Evidence:
    """Where one clause is implemented, and what would notice if it were broken."""

    implementation: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    contracts: list[str] = field(default_factory=list)
    proofs: list[str] = field(default_factory=list)
    mutants: list[str] = field(default_factory=list)


class UnknownClause(ValueError):
    """Something names a clause that does not exist."""


def mentions(text: str) -> list[str]:
    """The clauses that a text names, in order; `POOL-FREE-*` is spelled out. Raises `UnknownClause`."""
    found: dict[str, None] = {}
    for name in _MENTION.findall(text):
        matching = [i for i in clauses() if i == name or (name.endswith("*") and i.startswith(name[:-1]))]
        if not matching:
            raise UnknownClause(f"there is no clause {name}")
        found.update(dict.fromkeys(matching))
    return list(found)


def gather(root: Path) -> dict[str, Evidence]:
    """The evidence for every clause, from the checkout at `root`."""
    evidence = {clause_id: Evidence() for clause_id in clauses()}
    for place, text in _docstrings(root, "reference/kvproof/reference"):
        for clause_id in mentions(text):
            evidence[clause_id].implementation.append(place)
    for place, text in _docstrings(root, "conformance/kvproof/conformance/contracts"):
        if ".planted" not in place and place.count(".") == CONTRACT_DEPTH:
            for clause_id in mentions(text):
                evidence[clause_id].contracts.append(place)
    for test, named in _marked_tests(root):
        for clause_id in named:
            if clause_id not in evidence:
                raise UnknownClause(f"{test} names {clause_id}, which is no clause")
            evidence[clause_id].tests.append(test)
    for theorem, statement in _theorems():
        evidence[theorem].proofs.append(statement)
    for mutant in MUTANTS:
        for clause_id in mutant.clauses:
            evidence[clause_id].mutants.append(mutant.name)
    return evidence


def _theorems() -> Iterator[tuple[str, str]]:
    """The theorems that z3 proves of the abstract machine; their names are clause ids."""
    for system in SYSTEMS:
        for name in system.invariants:
            yield name, "invariant of every transition"
        for fact in system.facts:
            yield fact.theorem, f"{fact.transition}: {fact.sentence}"


def unchecked(evidence: Mapping[str, Evidence]) -> list[str]:
    """What the lint complains of: a MUST clause without a test, or without a mutant."""
    return [
        f"{clause.id} has no {what}"
        for clause in clauses().values()
        if clause.level is Level.MUST
        for what, there in (("test", evidence[clause.id].tests), ("mutant", evidence[clause.id].mutants))
        if not there
    ]


def shipped() -> dict[str, Evidence]:
    """The evidence as it was when this version was made; empty for clauses added since."""
    text = (resources.files("kvproof.conformance") / EVIDENCE_FILE).read_text(encoding="utf-8")
    return {clause_id: Evidence(**lists) for clause_id, lists in json.loads(text).items()}


def as_json(evidence: Mapping[str, Evidence]) -> str:
    """The text of `evidence.json`."""
    return json.dumps({clause_id: asdict(lists) for clause_id, lists in evidence.items()}, indent=1) + "\n"


def as_table(evidence: Mapping[str, Evidence]) -> str:
    """The generated page: clause, level, how many checks of each kind, and the names of the mutants."""
    lines = [
        "# Clauses and their checks",
        "",
        "Generated from the sources by `make evidence`. `kvproof spec ID` prints the tests by name.",
        "",
        "| clause | level | tests | contracts | proofs | mutants that its tests kill |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(clause, evidence[clause.id]) for clause in clauses().values()]
    return "\n".join(lines) + "\n"


def _row(clause: Clause, evidence: Evidence) -> str:
    link = f"[{clause.id}](../spec/{clause.chapter}.md#{clause.id.lower()}-{clause.level.value.lower()})"
    mutants = ", ".join(f"`{name}`" for name in evidence.mutants)
    counts = (len(evidence.tests), len(evidence.contracts), len(evidence.proofs))
    return f"| {link} | {clause.level.value} | {' | '.join(map(str, counts))} | {mutants} |"


def _docstrings(root: Path, folder: str) -> Iterator[tuple[str, str]]:
    """Dotted name and docstring of every module, class and function below a folder."""
    for path in sorted((root / folder).rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts[1:]).removesuffix(".__init__")
        yield from _docstrings_of(ast.parse(path.read_text(encoding="utf-8")), module)


def _docstrings_of(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str) -> Iterator[tuple[str, str]]:
    if text := ast.get_docstring(node):
        yield name, text
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from _docstrings_of(child, f"{name}.{child.name}")


def _marked_tests(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Every test function with the clauses that its marker names."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and (named := list(_marker_arguments(node.decorator_list))):
                yield f"{path.relative_to(root).as_posix()}::{node.name}", named


def _marker_arguments(decorators: Iterable[ast.expr]) -> Iterator[str]:
    for decorator in decorators:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.clause":
            for argument in decorator.args:
                if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                    raise UnknownClause(f"a clause marker needs literal ids, not {ast.unparse(argument)}")
                yield argument.value


def write(root: Path) -> list[Path]:
    """Write the shipped file and the page; returns what was written."""
    evidence = gather(root)
    outputs = {
        root / "conformance/kvproof/conformance" / EVIDENCE_FILE: as_json(evidence),
        root / "docs/evidence/clauses.md": as_table(evidence),
    }
    for path, text in outputs.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(outputs)
