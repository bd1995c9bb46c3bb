"""Public reports of faults, and what the vectors make of each: `reports.toml`, read and checked."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources
from typing import Any

from kvproof.conformance.mutation.mutant import FAULT_KINDS

FILE = "reports.toml"


class Verdict(Enum):
    """What becomes of a report."""

    SHOWN = "shown"
    SCHEDULER = "scheduler"
    ALLOWED = "allowed"
    OUTSIDE = "outside"


class Part(Enum):
    """Where a report stands: in the numbered list, or among the traces that were worked out."""

    REPORT = "report"
    TRACE = "trace"


@dataclass(frozen=True, slots=True)
class Report:
    """One report: what happened, which vectors a backend with this fault fails, and which mutants have it.

    `threads` are the public ones, as in "vllm#49125"; `tests` are those that a scheduler with the fault fails, named
    like vectors; `why` is the reason where neither shows the fault.
    """

    part: Part
    number: int
    threads: tuple[str, ...]
    fault: str
    what: str
    verdict: Verdict
    vectors: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    why: str = ""

    @property
    def name(self) -> str:
        """Part and number."""
        return f"{self.part.value} {self.number}"


@dataclass(frozen=True, slots=True)
class Reports:
    """All of them, which numbers each part must have, and where the threads of a short name are."""

    entries: tuple[Report, ...]
    numbers: Mapping[Part, tuple[int, ...]]
    repositories: Mapping[str, str]

    def of(self, part: Part) -> list[Report]:
        """The reports of one part."""
        return [report for report in self.entries if report.part is part]

    def shown_by(self, vector: str) -> tuple[str, ...]:
        """The threads whose fault this vector shows."""
        threads = (thread for report in self.entries if vector in report.vectors for thread in report.threads)
        return tuple(dict.fromkeys(threads))

    def link(self, thread: str) -> str:
        """Where a thread is."""
        name, _, number = thread.partition("#")
        return f"https://github.com/{self.repositories[name]}/issues/{number}"


@cache
def reports() -> Reports:
    """The reports as they are shipped."""
    package = resources.files("kvproof.conformance.vectors")
    return read((package / FILE).read_text(encoding="utf-8"))


def read(text: str) -> Reports:
    """The reports in a file's text."""
    data = tomllib.loads(text)
    entries = [_entry(part, fields) for part in Part for fields in data[part.value]]
    numbers = {Part.REPORT: tuple(data["numbers"]), Part.TRACE: tuple(data["traces"])}
    return Reports(tuple(entries), numbers, data["repositories"])


def _entry(part: Part, fields: dict[str, Any]) -> Report:
    lists = {name: tuple(fields.get(name, ())) for name in ("threads", "vectors", "tests", "mutants")}
    return Report(part=part, **{**fields, **lists, "verdict": Verdict(fields["verdict"])})


def complaints(table: Reports, known: Mapping[str, Collection[str]]) -> Iterator[str]:
    """What is wrong with the table: numbers without an entry, unknown names, verdicts without their grounds.

    `known` has the names that there are of a "vector", a "test" and a "mutant".
    """
    for part, numbers in table.numbers.items():
        times = Counter(report.number for report in table.of(part))
        yield from (f"{part.value} {n} has {times[n]} entries" for n in numbers if times[n] != 1)
        yield from (f"{part.value} {n} is not in the list of numbers" for n in times if n not in numbers)
    for report in table.entries:
        yield from (f"{report.name}: {problem}" for problem in _problems(table, report))
        for kind, names in (("vector", report.vectors), ("test", report.tests), ("mutant", report.mutants)):
            yield from (f"{report.name}: no {kind} {name}" for name in names if name not in known[kind])


def _problems(table: Reports, report: Report) -> Iterator[str]:
    if not report.threads or any(thread.partition("#")[0] not in table.repositories for thread in report.threads):
        yield "no thread, or one of an unknown repository"
    if report.fault not in FAULT_KINDS:
        yield f"no kind of fault {report.fault}"
    if not report.what.endswith("."):
        yield "what happened is not said in a sentence"
    if report.verdict is Verdict.SHOWN and not (report.vectors and report.mutants):
        yield "it is shown by no vector, or proved by no mutant"
    if report.verdict is Verdict.SCHEDULER and not (report.tests and report.mutants):
        yield "it is shown by no test, or proved by no mutant"
    if report.vectors and report.verdict is not Verdict.SHOWN:
        yield "it has vectors, and is not shown"
    if report.tests and report.verdict is not Verdict.SCHEDULER:
        yield "it has tests, and is not a scheduler's"
    if report.verdict in (Verdict.ALLOWED, Verdict.OUTSIDE) and report.mutants:
        yield "it has mutants, and nothing that notices them"
    if report.verdict in (Verdict.ALLOWED, Verdict.OUTSIDE) and not report.why.endswith("."):
        yield "it is not shown, and no reason is given"
