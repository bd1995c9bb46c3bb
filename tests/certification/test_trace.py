from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvproof.conformance.backends.wire import Observation, RemovedEvent
from kvproof.conformance.certification.expectations import expectations, unmet_expectation
from kvproof.conformance.certification.trace import (
    Expect,
    Trace,
    TraceError,
    TraceStep,
    read,
    read_file,
    trace_of,
    write,
)
from kvproof.conformance.operations import AddRequest, Allocate, Extra, KeyRef, Touch
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig

CONFIG = PoolConfig(4, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 4),), hash_seed=b"s")
OPERATIONS = (
    AddRequest("r1", (1, 2, 3, 4), (Extra("salt", "x"),)),
    Allocate("r1", 1),
    Touch("r2", 1, KeyRef("r1", 0, 4)),
    Allocate("r1", "three"),  # type: ignore[arg-type]
)
TEXT = write(trace_of(CONFIG, OPERATIONS))


def test_a_trace_survives_its_text() -> None:
    trace = trace_of(CONFIG, OPERATIONS)
    assert read(write(trace)) == trace
    assert read(write(trace)).operations == list(OPERATIONS)


def test_what_is_expected_survives_too() -> None:
    expect = Expect([1], events=(RemovedEvent(0, "ab"),), state=Observation(num_free=2, free_queue=(2, 3)))
    refused = Expect(errors=("OutOfBlocks",))
    steps = (
        TraceStep(OPERATIONS[1], expect),
        TraceStep(OPERATIONS[3], refused),
        TraceStep(OPERATIONS[0], Expect(None)),
    )
    trace = Trace(trace_of(CONFIG, ()).header, steps)
    assert read(write(trace)) == trace


def test_a_person_can_write_a_trace() -> None:
    groups = '[{"kind": "recurrent", "block_size": 1}]'
    text = f"""
    {{"kvproof_trace": 1, "config": {{"num_blocks": 3, "hash_block_size": 1, "groups": {groups}}}}}
    {{"op": "allocate", "holder": "r1", "n": 1, "expect": {{"result": [1]}}}}

    {{"end": 1}}
    """
    [step] = read(text).steps
    assert (step.operation, step.expect.result) == (Allocate("r1", 1), [1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "begins with"),
        (TEXT.split("\n", 1)[1], "begins with"),
        (TEXT.replace('{"kvproof_trace":1', '{"kvproof_trace":2'), "version 2"),
        (TEXT.rsplit("\n", 2)[0], "was cut"),
        (TEXT[: len(TEXT) // 2], "no JSON"),
        (TEXT.replace('"end":4', '"end":5'), "5 operations at the end, but 4 before it"),
        (TEXT + '{"op":"reset"}\n', "after the end"),
        (TEXT.replace('"op":"allocate"', '"op":"alocate"', 1), "no operation 'alocate'"),
        (TEXT.replace('"n":1', '"m":1'), "has the fields holder, n"),
        (TEXT.replace('"n":1', '"n":1,"expect":{"reslt":1}'), "reslt"),
        (TEXT.replace('"num_blocks":4', '"num_blocks":"4"'), "num_blocks"),
        ("[1]\n" + TEXT, "not a JSON object"),
        ('{"a":' + "[" * 10**5, "nested too deeply"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_place_and_the_reason(text: str, says: str) -> None:
    with pytest.raises(TraceError, match=says):
        read(text)


def test_a_file_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    for device in ("/dev/zero", "/dev/full"):
        with pytest.raises(TraceError, match=f"{device} is a device, not a file"):
            read_file(Path(device))
    with pytest.raises(TraceError, match="cannot be read"):
        read_file(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b"\xe9")
    with pytest.raises(TraceError, match="UTF-8"):
        read_file(tmp_path / "latin.jsonl")


def test_the_trace_of_the_page_says_what_is_so() -> None:
    page = (Path(__file__).parents[2] / "docs" / "traces.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    trace = read(example)
    assert len(trace.steps) == 6
    assert expectations(trace) == 3
    assert unmet_expectation(trace) is None
    assert unmet_expectation(read(example.replace('[1]}}\n{"op": "write', '[2]}}\n{"op": "write'))) is not None
    assert set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == set(Expect.__struct_fields__)
