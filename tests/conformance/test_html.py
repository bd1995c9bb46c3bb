from __future__ import annotations

import json
from html.parser import HTMLParser

import msgspec
import pytest

from kvproof.conformance.backends.interface import Identity
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.certification.html import report
from kvproof.conformance.certification.levels import levels
from kvproof.conformance.certification.result import (
    Crash,
    Failure,
    KnownDivergence,
    Mismatch,
    MutationControl,
    Run,
    StageRow,
    Status,
)
from kvproof.conformance.certification.timeline import timeline_of
from kvproof.conformance.certification.trace import trace_of
from kvproof.conformance.operations import AddRequest, Allocate, CacheFullBlocks, Operation, TakeEvents, Truncate
from kvproof.conformance.operations import Append as AppendTokens
from kvproof.spec.clauses import clauses
from tests.conformance import runs

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' onload='alert(3) {{ 7*7 }} <!-- \ud800"

VOID = {"meta", "input", "br", "link", "img"}


class Page(HTMLParser):
    """Reads a page strictly: every element that is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts[-1] += data
        elif self.open[-1:] != ["style"]:
            self.text += data

    @property
    def squeezed(self) -> str:
        return " ".join(self.text.split())


def hostile_failure() -> Failure:
    operations = (AddRequest(HOSTILE, (7, 8)), *runs.TRACE[: runs.LAST])
    return msgspec.structs.replace(
        runs.failure(),
        operation=HOSTILE,
        stage=HOSTILE,
        harm=HOSTILE,
        fault=HOSTILE,
        replay=HOSTILE,
        mismatches=(Mismatch(HOSTILE, HOSTILE, HOSTILE),),
        trace=trace_of(runs.CONFIG, operations),
    )


def hostile_run() -> Run:
    identity, capabilities = ReferenceBackend().identify()
    assert identity
    return runs.run(
        [hostile_failure()],
        target=HOSTILE,
        identity=Identity(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE),
        capabilities=msgspec.structs.replace(capabilities, hashes=(HOSTILE,)),
        profile=HOSTILE,
        stages=(StageRow(HOSTILE, Status.PASS, {HOSTILE: 1}, 0.0, HOSTILE),),
        known=(KnownDivergence(HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        mutation=MutationControl(2, 1, HOSTILE, (HOSTILE,)),
        non_vacuity={HOSTILE: 0},
        filters=(HOSTILE,),
        unfinished=HOSTILE,
        honesty=(HOSTILE,),
        budgets={HOSTILE: 1.0},
    )


# The page as a whole


@pytest.mark.parametrize("run", [runs.run(), runs.run([runs.failure()]), hostile_run(), runs.anonymous(runs.run())])
def test_it_is_well_formed_and_needs_nothing_but_itself(run: Run) -> None:
    page = Page(report(run))
    for tag, attributes in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "base"}
        assert "src" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")
    policy = next(attributes["content"] for _, attributes in page.tags if "http-equiv" in attributes)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    assert "http://" not in report(run).replace("http-equiv", "")


def test_hostile_texts_make_no_element_and_no_script() -> None:
    plain, hostile = Page(report(runs.run([runs.failure()]))), Page(report(hostile_run()))
    assert len(hostile.scripts) == len(plain.scripts) == 2
    assert {tag for tag, _ in hostile.tags} - {tag for tag, _ in plain.tags} == set()
    assert hostile.squeezed.count("<script>alert(1)</script>") > 20
    assert hostile.squeezed.count("{{ 7*7 }}") == hostile.squeezed.count("<script>alert(1)</script>")
    assert hostile.scripts[-1] == plain.scripts[-1], "the page's own script holds nothing of the run"


def test_links_lead_to_something_on_the_page() -> None:
    page = Page(report(runs.run([runs.failure()], {"POOL-MOVE-2": Status.SKIP})))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    targets = {(attributes["href"] or "").removeprefix("#") for tag, attributes in page.tags if tag == "a"}
    assert len(ids) == len(set(ids))
    assert targets <= set(ids)


def test_it_shows_counts_and_neither_percent_nor_grade() -> None:
    text = Page(report(runs.run([runs.failure()], {"POOL-MOVE-2": Status.SKIP}))).squeezed
    assert "65 of 66" in text
    assert "6 of 7" in text
    assert "%" not in text
    assert "No certificate. Target doubles:frees" in text
    assert "1 claimed clauses were not exercised (skip): POOL-MOVE-2" in text


def test_it_shows_every_clause_in_words() -> None:
    page = Page(report(runs.run()))
    rows = [attributes["id"] for tag, attributes in page.tags if tag == "tr" and "id" in attributes]
    assert rows == [f"clause-{clause}" for clause in levels()]
    sentences = [clauses()[asked].sentence for asked in levels()]
    assert all(" ".join(sentence.replace("`", "").split()) in page.squeezed for sentence in sentences)


def test_a_failure_shows_clause_fault_harm_difference_and_replay() -> None:
    failure = runs.failure()
    page = Page(report(runs.run([failure])))
    for part in (clauses()[failure.clause].sentence, "the wrong block is taken next", failure.harm, failure.replay):
        assert part in page.squeezed
    marked = [
        attributes["class"] for tag, attributes in page.tags if (attributes.get("class") or "").startswith("differs")
    ]
    assert marked == ["differs expected"] * 3 + ["differs got"] * 3


def test_a_run_without_failures_has_no_page_of_failures() -> None:
    page = Page(report(runs.run()))
    assert "Failures" not in page.text
    assert "certificate.json belongs to this report." in page.squeezed
    assert len(page.scripts) == 1


# The timeline


def test_the_timeline_in_the_page_is_that_of_the_replay() -> None:
    failure = runs.failure()
    data, _ = Page(report(runs.run([failure]))).scripts
    assert json.loads(data) == json.loads(msgspec.json.encode(timeline_of(failure.trace).moments))
    (hostile, _) = Page(report(hostile_run())).scripts
    assert "</script>" not in hostile
    assert "<" not in hostile
    assert "</script><script>alert(1)</script>" in json.loads(hostile)[1]["operation"]


def test_the_timeline_shows_queue_blocks_index_and_events_of_every_step() -> None:
    new, _, allocated, _, registered, freed = timeline_of(runs.failure().trace).moments
    assert new.queue == (1, 2, 3)
    assert (allocated.answer, allocated.queue) == ("[1]", (2, 3))
    assert allocated.blocks[0].refs == "1"
    assert allocated.blocks[0].writer == "r1"
    assert set(allocated.changed) >= {(1, "refs"), (1, "holders"), (1, "writer"), (1, "queue"), (2, "queue")}
    assert registered.events == ("stored in group 0: r1[0:2], no parent, tokens 7 8",)
    assert [(row.key, row.blocks) for row in registered.index] == [("r1[0:2]@g0", (1,))]
    assert set(registered.changed) == {(1, "slot"), (1, "keys")}
    assert freed.queue == (2, 3, 1)
    assert freed.events == ()


def moments(*operations: Operation) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.answer, each.events) for each in timeline_of(trace_of(runs.CONFIG, operations)).moments[1:]]


def test_a_refusal_is_shown_and_changes_nothing() -> None:
    found = timeline_of(trace_of(runs.CONFIG, (Allocate("r1", 9),))).moments[1]
    assert (found.answer, found.changed) == ("refused: OutOfBlocks", ())


def test_an_undefined_operation_is_named_and_left_out() -> None:
    steps = (AddRequest("r1", (7, 8)), Allocate("r1", 1), CacheFullBlocks("r1", (1,), 0, 1, 0))
    assert moments(*steps)[-1] == ("undefined: left out", ())


def test_events_are_shown_where_they_come_and_not_where_they_are_taken() -> None:
    *_, registered, taken = moments(*runs.TRACE[:4], TakeEvents())
    assert len(registered[1]) == 1
    assert taken == ("[]", ())


def test_two_prefixes_of_one_name_are_told_apart() -> None:
    steps = (AddRequest("r1", (7, 8)), Truncate("r1", 0), AppendTokens("r1", (1, 2)))
    names = timeline_of(trace_of(runs.CONFIG, steps)).names
    assert sorted(names.values()) == ["r1[0:1]", "r1[0:1]'", "r1[0:2]", "r1[0:2]'"]


def test_controls_are_spelled_out() -> None:
    page = report(runs.run(identity=Identity("\x1b[2Jname", "\u202e\x07")))
    assert "\\x1b[2Jname" in page
    assert not any(control in page for control in "\x1b\x07\u202e")


def test_a_crash_of_the_adapter_is_pointed_to() -> None:
    trace = trace_of(runs.CONFIG, runs.TRACE)
    crash = Crash(stage="random", error="it ended", found_operations=40, again=True, trace=trace)
    page = report(runs.run(crash=crash))
    assert "In stage random, after 6 operations; it breaks there again." in page
    assert "Where the adapter broke" not in report(runs.run())
