from __future__ import annotations

from xml.etree import ElementTree as Tree

import msgspec
import pytest

from kvproof.conformance.backends.interface import Identity
from kvproof.conformance.certification.junit import junit
from kvproof.conformance.certification.levels import levels
from kvproof.conformance.certification.result import Mismatch, Run, StageRow, Status
from tests.conformance import runs

HOSTILE = "]]> <b>&amp;\"'</b> \x00\x1b[31m \ud800 \U0001f600 \ufffe\r\n"


def case(run: Run, name: str) -> Tree.Element:
    (found,) = (each for each in Tree.fromstring(junit(run)).iter("testcase") if each.get("name") == name)
    return found


def test_every_clause_is_one_case_beside_the_stages() -> None:
    root = Tree.fromstring(junit(runs.run()))
    cases = [each for each in root.iter("testcase") if each.get("classname") != "kvproof.stage"]
    assert sorted(each.get("name", "") for each in cases) == sorted(levels())
    assert [suite.get("name", "").partition(":")[0] for suite in root] == [
        "stages", "pool", "events", "order", "steps", "robustness", "hybrid", "data",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "tag"),
    [
        (Status.UNKNOWN, "skipped"),
        (Status.DISABLED, "skipped"),
        (Status.SKIP, "skipped"),
        (Status.FAIL, "failure"),
        (Status.ERROR, "error"),
    ],
)
def test_a_status_is_what_junit_calls_it(status: Status, tag: str) -> None:
    (outcome,) = case(runs.run(statuses={"POOL-INIT-1": status}), "POOL-INIT-1")
    assert outcome.tag == tag
    assert outcome.get("message")


def test_a_pass_is_empty() -> None:
    assert len(case(runs.run(), "POOL-INIT-1")) == 0


def test_a_failure_says_what_differs_and_how_to_replay_it() -> None:
    (outcome,) = case(runs.run([runs.failure()]), runs.FAILING)
    assert outcome.get("message") == "free(blocks [1], holder r1)"
    assert outcome.text is not None
    assert "free_queue, expected:\n[2 3 1]\nfree_queue, got:\n[1 2 3]\nkvproof replay failures/" in outcome.text
    assert "trace.jsonl --target doubles:frees" in outcome.text


def test_the_counts_are_those_of_the_cases() -> None:
    run = runs.run([runs.failure()], {"POOL-INIT-1": Status.ERROR, "POOL-MOVE-2": Status.SKIP})
    root = Tree.fromstring(junit(run))
    for element in (root, *root):
        assert int(element.get("tests", "")) == len(list(element.iter("testcase")))
        assert int(element.get("failures", "")) == len(list(element.iter("failure")))
        assert int(element.get("errors", "")) == len(list(element.iter("error")))
        assert int(element.get("skipped", "")) == len(list(element.iter("skipped")))
    assert (root.get("failures"), root.get("errors")) == ("1", "1")


def test_a_stage_that_broke_is_an_error_with_its_reason() -> None:
    (outcome,) = case(runs.run(stages=(StageRow("smoke", Status.ERROR, reason="it ended"),)), "smoke")
    assert (outcome.tag, outcome.get("message")) == ("error", "it ended")


def test_it_is_well_formed_whatever_the_texts_are() -> None:
    failure = msgspec.structs.replace(
        runs.failure(), operation=HOSTILE, replay=HOSTILE, mismatches=(Mismatch(HOSTILE, HOSTILE, HOSTILE),)
    )
    run = runs.run(
        [failure],
        identity=Identity(HOSTILE, HOSTILE),
        stages=(StageRow(HOSTILE, Status.ERROR, reason=HOSTILE),),
    )
    (outcome,) = case(run, runs.FAILING)
    assert outcome.text is not None
    assert "]]> <b>&amp;\"'</b> \\x00\\x1b[31m \\ud800 \U0001f600 \\ufffe" in outcome.text
