"""`junit.xml`: a test suite for the stages and one for each level, a test case for each clause.

A clause that fails is a failure; one that an adapter broke under is an error; one that was not judged is skipped, with
the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Tree

from kvproof.conformance.backends.interface import LEVELS, Level
from kvproof.conformance.certification.result import ClauseRow, Failure, Run, StageRow, Status
from kvproof.conformance.terminal import counted, printable

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run: Run) -> bytes:
    """The file."""
    root = Tree.Element("testsuites", name=_text(f"kvproof {run.suite_version}: {run.identity.name}"))
    _suite(root, "stages", [_stage(row) for row in run.stages])
    for level in Level:
        cases = [_clause(row, run.failures) for row in run.clauses if row.level is level]
        if cases:
            _suite(root, LEVELS[level], cases)
    _count(root)
    root.set("time", f"{sum(row.cpu_seconds for row in run.stages):.3f}")
    Tree.indent(root)
    return bytes(Tree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(root: Tree.Element, name: str, cases: Sequence[Tree.Element]) -> None:
    suite = Tree.SubElement(root, "testsuite", name=name)
    suite.extend(cases)
    _count(suite)


def _count(element: Tree.Element) -> None:
    element.set("tests", str(len(element.findall(".//testcase"))))
    for plural, name in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(plural, str(len(element.findall(f".//{name}"))))


def _stage(row: StageRow) -> Tree.Element:
    case = Tree.Element("testcase", classname="kvproof.stage", name=_text(row.name), time=f"{row.cpu_seconds:.3f}")
    _outcome(case, row.status, row.reason or row.status.value, "")
    return case


def _clause(row: ClauseRow, failures: Sequence[Failure]) -> Tree.Element:
    case = Tree.Element("testcase", classname=f"kvproof.{row.level.value}", name=_text(row.clause))
    shown = [failure for failure in failures if failure.clause == row.clause]
    message = "; ".join(failure.operation for failure in shown) or row.reason or row.status.value
    _outcome(case, row.status, message, "\n\n".join(map(_page, shown)))
    return case


def _outcome(case: Tree.Element, status: Status, message: str, text: str) -> None:
    names = {Status.PASS: "", Status.FAIL: "failure", Status.ERROR: "error"}
    if name := names.get(status, "skipped"):
        outcome = Tree.SubElement(case, name, message=_text(message))
        outcome.text = _text(text)


def _page(failure: Failure) -> str:
    lines = [f"{failure.id}: after {counted(failure.operations, 'operations')}, the last of them {failure.operation}"]
    for each in failure.mismatches:
        lines += [f"{each.part}, expected:", each.expected, f"{each.part}, got:", each.got]
    return "\n".join([*lines, f"{failure.replay}  # from within the folder of this file"])


def _text(text: str) -> str:
    """The text with controls and what XML cannot hold spelled out."""
    return _NO_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", printable(text))
