"""Makes docs/evidence/reports.md: `python -m kvproof.conformance.vectors.reports_page FILE`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from kvproof.conformance.evidence import mentions
from kvproof.conformance.mutation.mutant import FAULT_KINDS
from kvproof.conformance.vectors.reports import Part, Report, Reports, Verdict, reports
from kvproof.spec.clauses import clauses

VERDICTS = {
    Verdict.SHOWN: "shown",
    Verdict.SCHEDULER: "a scheduler's",
    Verdict.ALLOWED: "allowed here",
    Verdict.OUTSIDE: "out of reach",
}

TABLE_HEAD = (
    "| no. | report | what happened | verdict | vectors or tests, or why none | mutants |",
    "|---|---|---|---|---|---|",
)


def page(table: Reports) -> str:
    """The generated page: the numbered reports by kind of fault, then the worked traces."""
    lines = [
        "# Public reports and their vectors",
        "",
        "Generated from `vectors/reports.toml` by `make evidence`. Reports of faults in block pools and prefix caches,",
        "found on public trackers in November 2026, in our words; causes are those that the reports claim and were not",
        "verified.",
        "",
        "| verdict | meaning | reports | worked traces |",
        "|---|---|---|---|",
        *_counts(table),
        "",
        "Each mutant is the reference with the fault of the report; that the vectors in its row notice it, or the",
        "tests, is a test. A vector carries the reports that it shows in its header, field `reports`. The language of",
        "vectors speaks to the cache, not to its scheduler: what schedulers owe, the clause tests in `tests/clauses`",
        "ask of the reference's own.",
    ]
    for fault, meaning in FAULT_KINDS.items():
        rows = [_row(table, report) for report in table.of(Part.REPORT) if report.fault == fault]
        lines += [
            "",
            f"## {fault}: {meaning.partition(':')[0]}",
            "",
            f"{meaning.partition(':')[2].strip().capitalize()}.",
        ]
        lines += ["", *TABLE_HEAD, *rows]
    lines += [
        "",
        "## Worked traces",
        "",
        "Reports that were worked out as short traces, with what has to come of them.",
    ]
    lines += ["", *TABLE_HEAD, *(_row(table, report) for report in table.of(Part.TRACE))]
    return "\n".join(lines) + "\n"


def _counts(table: Reports) -> list[str]:
    meanings = {
        Verdict.SHOWN: "a backend with this fault fails the vectors",
        Verdict.SCHEDULER: "a scheduler with this fault fails the tests of its clauses",
        Verdict.ALLOWED: "the clauses allow it",
        Verdict.OUTSIDE: "no operation of a block pool has this fault, or shows it",
    }
    found = Counter((report.part, report.verdict) for report in table.entries)
    return [
        f"| {VERDICTS[verdict]} | {meaning} | {found[Part.REPORT, verdict]} | {found[Part.TRACE, verdict]} |"
        for verdict, meaning in meanings.items()
    ]


def _row(table: Reports, report: Report) -> str:
    threads = ", ".join(f"[{thread}]({table.link(thread)})" for thread in report.threads)
    grounds = [_code((*report.vectors, *report.tests))] if report.vectors or report.tests else []
    grounds += [_linked(report.why)] if report.why else []
    cells = (str(report.number), threads, report.what, VERDICTS[report.verdict])
    return f"| {' | '.join(cells)} | {'<br>'.join(grounds)} | {_code(report.mutants)} |"


def _code(names: tuple[str, ...]) -> str:
    return "<br>".join(f"`{name}`" for name in names)


def _linked(text: str) -> str:
    """With links to the clauses that the text names."""
    for name in mentions(text):
        clause = clauses()[name]
        link = f"[{name}](../spec/{clause.chapter}.md#{name.lower()}-{clause.level.value.lower()})"
        text = text.replace(name, link)
    return text


def main(arguments: list[str]) -> None:
    """Write the page."""
    [file] = arguments
    Path(file).write_text(page(reports()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
