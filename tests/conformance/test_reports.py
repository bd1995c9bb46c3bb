from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from kvproof.conformance.certification.show import show_trace
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.vectors import vectors
from kvproof.conformance.vectors.noticed import NoticeOfReports
from kvproof.conformance.vectors.reports import Part, Report, Reports, Verdict, complaints, reports
from kvproof.conformance.vectors.reports_page import page

ROOT = Path(__file__).parents[2]
VECTORS = {vector.header.name for vector in vectors()}
MUTANT_NAMES = {mutant.name for mutant in MUTANTS}


def found(table: Reports) -> list[str]:
    return list(complaints(table, VECTORS, MUTANT_NAMES))


def with_first(**changes: object) -> Reports:
    first, *others = reports().entries
    return replace(reports(), entries=(replace(first, **changes), *others))  # type: ignore[arg-type]


def test_every_report_of_the_corpus_has_one_entry_with_its_grounds() -> None:
    table = reports()
    assert (len(table.of(Part.REPORT)), len(table.of(Part.TRACE))) == (103, 10)
    assert found(table) == []


def test_an_entry_that_is_missing_double_or_not_asked_for_is_noticed() -> None:
    first, *others = reports().entries
    assert found(replace(reports(), entries=tuple(others))) == ["report 1 has 0 entries"]
    assert found(replace(reports(), entries=(first, first, *others))) == ["report 1 has 2 entries"]
    stranger = replace(first, number=3)
    assert found(replace(reports(), entries=(first, stranger, *others))) == ["report 3 is not in the list of numbers"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"vectors": ("nobody",)}, "no vector nobody"),
        ({"mutants": ("nobody",)}, "no mutant nobody"),
        ({"vectors": ()}, "it is shown by no vector, or proved by no mutant"),
        ({"mutants": ()}, "it is shown by no vector, or proved by no mutant"),
        ({"verdict": Verdict.SCHEDULER, "why": "It waits."}, "it has vectors or mutants, and is not shown"),
        ({"verdict": Verdict.ALLOWED, "vectors": (), "mutants": ()}, "it is not shown, and no reason is given"),
        ({"threads": ("nowhere#1",)}, "no thread, or one of an unknown repository"),
        ({"threads": ()}, "no thread, or one of an unknown repository"),
        ({"fault": "F99"}, "no kind of fault F99"),
        ({"what": ""}, "what happened is not said in a sentence"),
    ],
)
def test_an_entry_without_grounds_is_noticed(changes: dict[str, object], complaint: str) -> None:
    assert found(with_first(**changes)) == [f"report 1: {complaint}"]


def test_every_mutant_beside_a_report_is_noticed_by_a_vector_beside_it_and_every_vector_notices_one() -> None:
    command = [sys.executable, "-m", "kvproof.conformance.vectors.noticed", "--reports"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    notices = [msgspec.json.decode(line, type=NoticeOfReports) for line in run.stdout.splitlines()]
    assert [notice for notice in notices if notice.error] == []
    by_mutant = {notice.mutant: set(notice.vectors) for notice in notices}

    def unproved(report: Report) -> list[str]:
        noticing = {mutant: by_mutant[mutant] & set(report.vectors) for mutant in report.mutants}
        return [
            *(f"{report.name}: {mutant}" for mutant, which in noticing.items() if not which),
            *(
                f"{report.name}: {vector}"
                for vector in report.vectors
                if not any(vector in w for w in noticing.values())
            ),
        ]

    shown = [report for report in reports().entries if report.verdict is Verdict.SHOWN]
    assert [problem for report in shown for problem in unproved(report)] == []
    other = replace(shown[0], vectors=("limits/tokens",))
    assert unproved(other) == [f"report 1: {shown[0].mutants[0]}", "report 1: limits/tokens"]


def test_vectors_carry_the_reports_that_they_show() -> None:
    table = reports()
    assert all(vector.header.reports == table.shown_by(vector.header.name) for vector in vectors())
    [vector] = [
        vector for vector in vectors() if vector.header.name == "reports/what_two_prompts_have_in_common_is_stored_once"
    ]
    assert vector.header.reports == ("sglang#13488",)


def test_explaining_a_vector_names_its_reports() -> None:
    vector = next(vector for vector in vectors() if "vllm#55092" in vector.header.reports)
    written = io.StringIO()
    console = Console(width=120, file=written)
    show_trace(console, vector)
    assert "publicly reported: vllm#55092" in written.getvalue()


def test_the_page_is_up_to_date() -> None:
    shipped = ROOT / "docs/evidence/reports.md"
    assert shipped.read_text(encoding="utf-8") == page(reports()), "run `make evidence`"


def test_the_page_links_to_threads_and_clauses() -> None:
    text = page(reports())
    assert "[llama.cpp#23970](https://github.com/ggml-org/llama.cpp/issues/23970)" in text
    assert "[POOL-ALLOC-3](../spec/30-blocks.md#pool-alloc-3-must)" in text
    assert text.count("\n| ") >= 103 + 10
