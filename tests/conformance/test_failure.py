from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.backends.wire import (
    Answer,
    ClearedEvent,
    Entry,
    Hit,
    Holders,
    Observation,
    PrefixName,
    RemovedEvent,
    Step,
    StoredEvent,
)
from kvproof.conformance.certification.failure import (
    failure_of,
    files_of,
    read_failure,
    run_again,
    text_of,
    usual_fault,
)
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.pages import page_of
from kvproof.conformance.certification.result import Failure, Mismatch
from kvproof.conformance.certification.trace import TraceError
from kvproof.conformance.mutation.mutant import FAULT_KINDS
from kvproof.conformance.operations import Allocate, Operation
from tests.conformance import runs


def saved(folder: Path) -> Path:
    for name, data in files_of(runs.failure()).items():
        (folder / name).write_bytes(data)
    return folder


class Refusing(ReferenceBackend):
    """Refuses to allocate; or, asked for more than there is, allocates nothing."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        steps = super().run(operations, observe)
        return [
            msgspec.structs.replace(step, answer=self.answer(step.answer)) if isinstance(operation, Allocate) else step
            for operation, step in zip(operations, steps, strict=True)
        ]

    @staticmethod
    def answer(answer: Answer) -> Answer:
        return Answer([]) if answer.error else Answer(error="OutOfBlocks", message="none \ud800 left")


def failure_with(backend: ReferenceBackend, *operations: Operation) -> Failure:
    lockstep = Lockstep(backend, backend.identify()[1], runs.CONFIG)
    lockstep.run(operations)
    assert lockstep.divergence is not None
    return failure_of(
        lockstep.divergence, clause="POOL-ALLOC-1", stage="random", target="a b:c", seed=None, found_operations=1
    )


def test_a_divergence_becomes_a_failure_that_says_where_and_what() -> None:
    failure = runs.failure()
    assert failure.id == "POOL-FREE-3.free.free_queue"
    assert failure.operation == "free(blocks [1], holder r1)"
    assert failure.trace.operations == list(runs.TRACE[: runs.LAST])
    assert (failure.operations, failure.found_operations) == (5, 40)
    assert failure.mismatches == (Mismatch("free_queue", "[2 3 1]", "[1 2 3]"),)
    assert failure.before.free_queue == (2, 3)
    assert failure.expected.free_queue == (2, 3, 1)
    assert failure.got.free_queue == (1, 2, 3)
    assert failure.got.ref_cnt == failure.expected.ref_cnt == (0, 0, 0, 0)
    assert failure.fault in FAULT_KINDS
    assert failure.harm


def test_a_failure_has_the_same_name_whatever_came_before() -> None:
    backend = runs.FreesToTheFront()
    lockstep = Lockstep(backend, backend.identify()[1], runs.CONFIG)
    lockstep.run((Allocate("other", 1), *(runs.TRACE[0], Allocate("r1", 1))))
    assert runs.failure().id == runs.failure(target="somewhere:else").id


def test_a_wrong_refusal_and_a_missing_one_are_told_in_words() -> None:
    refused = failure_with(Refusing(), Allocate("r1", 1))
    assert refused.mismatches[0] == Mismatch("answer", "[1]", "OutOfBlocks: none \\ud800 left")
    accepted = failure_with(Refusing(), Allocate("r1", 9))
    assert accepted.mismatches[0] == Mismatch("answer", "refused: OutOfBlocks", "[]")


def test_the_replay_line_can_be_pasted_into_a_shell() -> None:
    line = failure_with(Refusing(), Allocate("r1", 1)).replay
    assert line == "kvproof replay failures/POOL-ALLOC-1.allocate.answer/trace.jsonl --target 'a b:c'"


def test_a_clause_that_no_mutant_breaks_has_no_usual_fault() -> None:
    assert usual_fault("NO-SUCH-1") == ("", "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nothing"),
        ([1, None, 2], "[1 nothing 2]"),
        ((), "[]"),
        (True, "True"),
        (
            (StoredEvent(0, (PrefixName("aa", 2),), PrefixName("b", 1), (7, 8)), RemovedEvent(1, "cc"), ClearedEvent()),
            "stored in group 0: aa[0:2], parent b[0:1], tokens 7 8\nremoved from group 1: cc\ncleared",
        ),
        ((Holders(0, "aa", (1, 2)),), "aa@g0: blocks [1 2]"),
        (((), (Entry(0, "aa", 2, 1, "r1"),)), "0: []\n1: aa[0:2]@g0 in +1 reserved by r1"),
        ([Hit(1), Hit(pending=2)], "block 1, reserved nothing, writer nothing, pending nothing\n"
         "block nothing, reserved nothing, writer nothing, pending 2"),
        ({"odd": 1}, "{'odd': 1}"),
        ("\ud800", "\\ud800"),
    ],
)  # fmt: skip
def test_what_differs_is_told_in_words(value: object, text: str) -> None:
    assert text_of(value) == text


def test_a_state_that_is_none_is_told_and_not_kept(tmp_path: Path) -> None:
    class Odd(ReferenceBackend):
        def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
            steps = super().run(operations, observe)
            odd = {"free_queue": object, "ref_cnt": ("many",), "slots": 3}
            seen = [msgspec.structs.replace(step.seen or Observation(), **odd) for step in steps]
            return [msgspec.structs.replace(step, seen=each) for step, each in zip(steps, seen, strict=True)]

    failure = failure_with(Odd(), Allocate("r1", 1))
    assert [each.part for each in failure.mismatches] == ["free_queue", "ref_cnt", "slots"]
    assert failure.mismatches[1].got == "[many]"
    assert (failure.got.free_queue, failure.got.ref_cnt, failure.got.slots) == (None, None, None)
    assert failure.got.keys == failure.expected.keys
    for name, data in files_of(failure).items():
        (tmp_path / name).write_bytes(data)
    assert read_failure(tmp_path) == failure
    assert page_of(failure).states[2].rows[0].refs == ""


# Saved and run again


def test_a_saved_failure_reads_as_it_was(tmp_path: Path) -> None:
    assert read_failure(saved(tmp_path)) == runs.failure()


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("failure.json", lambda data: data[:-40], "describes no failure"),
        ("failure.json", lambda data: data.replace(b'"operations": 5', b'"operations": 4'), "speaks of 4 operations"),
        ("trace.jsonl", lambda data: data[:-10], "was cut"),
        ("trace.jsonl", None, "cannot be read"),
        ("failure.json", None, "cannot be read"),
    ],
)
def test_a_broken_saved_failure_is_refused(tmp_path: Path, name: str, change: object, complaint: str) -> None:
    file = saved(tmp_path) / name
    if callable(change):
        file.write_bytes(change(file.read_bytes()))
    else:
        file.unlink()
    with pytest.raises(TraceError, match=complaint):
        read_failure(tmp_path)


def test_the_backend_that_failed_fails_again_and_a_right_one_does_not() -> None:
    assert run_again(runs.failure(), runs.FreesToTheFront()) is None
    assert run_again(runs.failure(), ReferenceBackend()) == "nothing differs"


def test_another_failure_on_the_way_is_not_the_same_one() -> None:
    instead = run_again(runs.failure(), Refusing())
    assert instead == "operation 2 differs already, allocate(1, holder r1)"


def test_the_same_operation_with_another_difference_is_not_the_same_failure() -> None:
    other = msgspec.structs.replace(runs.failure(), mismatches=(Mismatch("answer", "nothing", "[1]"),))
    assert run_again(other, runs.FreesToTheFront()) == "free_queue differs, and not answer"


# What its page shows


def test_the_page_marks_exactly_the_cells_that_differ() -> None:
    before, expected, got = page_of(runs.failure()).states
    assert expected.marked == got.marked == {(1, "queue"), (2, "queue"), (3, "queue")}
    assert not before.marked
    assert [row.queue for row in got.rows] == ["1", "2", "3"]
    assert [row.queue for row in expected.rows] == ["3", "1", "2"]


def test_hashes_are_called_by_the_prefixes_that_they_are_of() -> None:
    (_, expected, _) = page_of(runs.failure()).states
    assert expected.rows[0].keys == "r1[0:2]@g0"
    failure = runs.failure()
    digest = failure.expected.index[0].hash if failure.expected.index else ""
    index = Mismatch("index", f"{digest}@g0: blocks [1]\nsame", "other@g0: blocks [1]\nsame")
    page = page_of(msgspec.structs.replace(failure, mismatches=(index,)))
    assert page.mismatches == (("index", "r1[0:2]@g0: blocks [1]", "other@g0: blocks [1]"),)


def test_a_backend_that_shows_too_few_blocks_is_shown_as_it_is() -> None:
    failure = runs.failure()
    got = msgspec.structs.replace(failure.got, ref_cnt=(0, 0), holders=((), ()), writers=(None,), slots=(), keys=((),))
    (_, expected, shown) = page_of(msgspec.structs.replace(failure, got=got)).states
    assert len(shown.rows) == 1
    assert (1, "keys") in expected.marked
