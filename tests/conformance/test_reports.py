from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from kvproof.conformance.certification.show import show_trace
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.named_tests import clause_tests
from kvproof.conformance.vectors import vectors
from kvproof.conformance.vectors.noticed import NoticeOfReports
from kvproof.conformance.vectors.reports import Part, Report, Reports, Verdict, complaints, reports
from kvproof.conformance.vectors.reports_page import page

ROOT = Path(__file__).parents[2]
VECTORS = {vector.header.name for vector in vectors()}
KNOWN = {"vector": VECTORS, "test": set(clause_tests()), "mutant": {mutant.name for mutant in MUTANTS}}


SOME_TEST = "scheduling/nobody_overtakes_a_request_that_waits_for_blocks"


def found(table: Reports) -> list[str]:
    return list(complaints(table, KNOWN))


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
        ({"tests": ("nobody",), "verdict": Verdict.SCHEDULER, "vectors": ()}, "no test nobody"),
        ({"verdict": Verdict.SCHEDULER, "vectors": ()}, "it is shown by no test, or proved by no mutant"),
        ({"tests": (SOME_TEST,)}, "it has tests, and is not a scheduler's"),
        ({"verdict": Verdict.SCHEDULER, "tests": (SOME_TEST,)}, "it has vectors, and is not shown"),
        ({"verdict": Verdict.ALLOWED, "vectors": (), "mutants": ()}, "it is not shown, and no reason is given"),
        ({"verdict": Verdict.OUTSIDE, "vectors": (), "why": "It is."}, "it has mutants, and nothing that notices them"),
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


def noticing_tests(beside: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    asked = [f"{mutant}={','.join(tests)}" for mutant, tests in beside.items()]
    command = [sys.executable, "-m", "kvproof.conformance.mutation.named_tests", *asked]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return {line.split()[0]: set(line.split()[1:]) for line in run.stdout.splitlines()}


def test_every_mutant_beside_a_schedulers_report_is_noticed_by_a_test_beside_it_and_every_test_notices_one() -> None:
    of_schedulers = [report for report in reports().entries if report.verdict is Verdict.SCHEDULER]
    beside: dict[str, set[str]] = {}
    for report in of_schedulers:
        for mutant in report.mutants:
            beside.setdefault(mutant, set()).update(report.tests)
    assert not beside["nobody_is_preempted"] & {SOME_TEST}
    beside["nobody_is_preempted"].add(SOME_TEST)
    noticing = noticing_tests(beside)
    for report in of_schedulers:
        assert [mutant for mutant in report.mutants if not noticing[mutant] & set(report.tests)] == []
        assert set(report.tests) <= {test for mutant in report.mutants for test in noticing[mutant]}, report.name
    assert SOME_TEST not in noticing["nobody_is_preempted"], "a test of something else notices it"


def test_a_mutant_or_a_test_that_there_is_not_is_said() -> None:
    command = [sys.executable, "-m", "kvproof.conformance.mutation.named_tests"]
    for wrong in (f"nobody={SOME_TEST}", "nobody_is_preempted=scheduling/nobody"):
        run = subprocess.run([*command, wrong], capture_output=True, text=True, timeout=120)
        assert (run.returncode, run.stdout) == (2, "")
        assert wrong.partition("=")[0] in run.stderr


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
