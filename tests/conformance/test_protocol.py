from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kvproof.conformance.backends.forms import FORMS
from kvproof.conformance.backends.interface import EVERY_POOL, Capabilities, Level
from kvproof.conformance.backends.messages import (
    RESULTS,
    MessageError,
    Reply,
    Request,
    Run,
    checked_result,
    encode,
    read_reply,
    read_request,
)
from kvproof.conformance.backends.process import ANSWER_TIMEOUT_S, HELLO_TIMEOUT_S
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.backends.schema import schema, text
from kvproof.conformance.backends.serve import serve
from kvproof.conformance.backends.wire import PARTS, WireEvent
from kvproof.conformance.certification.trace import trace_of, write
from kvproof.conformance.illegal import operations
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    CacheFullBlocks,
    Extra,
    KeyRef,
    Lookup,
    Operation,
    Reset,
    name_of,
    names_of_operations,
)
from kvproof.conformance.preconditions import violations
from kvproof.conformance.walk import walk
from kvproof.spec import errors
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig

DOCS = Path(__file__).parents[2] / "docs"

PAGE = (DOCS / "protocol.md").read_text(encoding="utf-8")

CONFIG = PoolConfig(4, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 4),), hash_seed=b"\x00\xff")


def rows(heading: str) -> dict[str, list[str]]:
    """The rows of the first table below a heading of the page, by their first cell without its marks."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    section = section.split("What the fields may hold.")[0]  # which has a table of its own
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {re.sub(r"[`\[\]]|\(.*\)", "", cells[0]): cells[1:] for cells in found[2:] if set(cells[0]) != {"-"}}


def quoted(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_the_page_has_every_operation_with_its_fields() -> None:
    shown = rows("Operations")
    assert sorted(shown) == sorted(names_of_operations())
    assert list(shown)[: len(EVERY_POOL)] == list(EVERY_POOL)
    for kind in get_args(Operation):
        without_defaults = re.sub(r"\(default [^)]*\)", "", shown[kind.__struct_config__.tag][0])
        assert quoted(without_defaults) == [field for field in kind.__struct_fields__ if field != "took"]


def test_the_page_says_which_operations_return_something() -> None:
    silent = {name for name, cells in rows("Operations").items() if cells[1] == "null"}
    assert silent == set(names_of_operations()) - set(RESULTS)


def test_the_page_has_every_error() -> None:
    known = {name for name, kind in vars(errors).items() if isinstance(kind, type)} - {"PoolError", "ConcurrentUse"}
    explained = set(re.findall(r"^\| ([A-Z]\w+) \|", PAGE, re.MULTILINE))
    assert explained == known
    named = {error for cells in rows("Operations").values() for error in re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", cells[2])}
    assert named == known


OF_A_KEY = {"InvalidArgument", "InvalidGroup", "NotAligned", "OutOfRange"}


def documented_errors() -> dict[str, set[str]]:
    shown = {}
    for name, cells in rows("Operations").items():
        shown[name] = set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", cells[2]))
        shown[name] |= OF_A_KEY if "those of a key" in cells[2] else set()
    return shown


@settings(max_examples=40, phases=[Phase.generate])
@given(seed=st.integers(0, 99), data=st.data())
def test_the_page_has_every_error_that_an_operation_can_be_refused_with(seed: int, data: st.DataObject) -> None:
    world = walk(seed, 30).world
    documented = documented_errors()
    for operation in data.draw(st.lists(operations(world.config, ("r1", "r2", "copy:1")), min_size=5, max_size=20)):
        possible = {error.__name__ for error in violations(world.situation, operation)}
        assert possible <= documented[name_of(operation)], name_of(operation)


def test_the_page_has_every_part_claim_and_level() -> None:
    assert tuple(rows("Observation"))[: len(PARTS)] == PARTS
    assert {kind.__struct_config__.tag for kind in get_args(WireEvent)} < set(rows("Observation"))
    assert tuple(rows("Identity and capabilities")) == Capabilities.__struct_fields__
    named = [name for cell in rows("Forms") for name in cell.split(", ")]
    assert named == list(FORMS)
    assert all(f"`{level}`" in PAGE for level in Level)
    assert {name.split(",")[0] for name in rows("Configuration")} | {"hash_seed", "holders", "commit"} == {
        *PoolConfig.__dataclass_fields__
    }


def test_the_page_has_every_message_and_limit() -> None:
    tags = [kind.__struct_config__.tag for kind in (*get_args(Request), *get_args(Reply))]
    assert all(f"`{tag}`" in PAGE for tag in tags)
    assert f"within {HELLO_TIMEOUT_S:.0f} s to `hello`, within {ANSWER_TIMEOUT_S:.0f} s to anything else" in PAGE


def test_every_example_on_the_page_is_a_message() -> None:
    lines = [line for block in PAGE.split("```json\n")[1:] for line in block.split("```")[0].splitlines()]
    assert len(lines) == 9
    for number, line in enumerate(lines):
        (read_reply if number % 2 else read_request)(line.encode())


def test_the_schema_is_current() -> None:
    assert (DOCS / "protocol.schema.json").read_text(encoding="utf-8") == text(), (
        "run python -m kvproof.conformance.backends.schema docs/protocol.schema.json"
    )


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if "$ref" in value else set()
        return found.union(*map(references, value.values()))
    return set[str]().union(*map(references, value)) if isinstance(value, list | tuple) else set()


def test_the_schema_is_whole() -> None:
    made = schema()
    assert {name.removeprefix("#/$defs/") for name in references(made)} <= set(made["$defs"])
    assert set(made["$defs"]["results"]["properties"]) == set(names_of_operations())
    assert {"request", "reply", "operation", "trace_line"} <= set(made["$defs"])


def conforms(value: Any, wanted: dict[str, Any], defs: dict[str, Any]) -> bool:
    """Whether a value is as a schema says, as far as these schemas go."""
    if "$ref" in wanted:
        return conforms(value, defs[wanted["$ref"].removeprefix("#/$defs/")], defs)
    if "anyOf" in wanted:
        return any(conforms(value, each, defs) for each in wanted["anyOf"])
    if not all(conforms(value, each, defs) for each in wanted.get("allOf", ())):
        return False
    if "enum" in wanted:
        return value in wanted["enum"]
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int}
    if "type" in wanted and (
        not isinstance(value, kinds[wanted["type"]]) or (wanted["type"] == "integer" and isinstance(value, bool))
    ):
        return False
    if isinstance(value, list):
        return "items" not in wanted or not wanted["items"] or all(conforms(v, wanted["items"], defs) for v in value)
    if not isinstance(value, dict):
        return True
    known = wanted.get("properties", {})
    if not set(wanted.get("required", ())) <= set(value):
        return False
    if wanted.get("additionalProperties") is False and not set(value) <= set(known):
        return False
    return all(conforms(item, known[name], defs) for name, item in value.items() if name in known)


def test_what_is_written_conforms_to_the_schema() -> None:
    made = schema()
    drawn: list[Operation] = [
        AddRequest("r", (1, 2, 3, 4), (Extra("salt", "x"),)),
        Allocate("r", 1),
        CacheFullBlocks("r", (1,), 0, 1, 0),
        Lookup((KeyRef("r", 0, 4),)),
        Reset(),
    ]
    answers = io.BytesIO()
    hello = b'{"message":"hello","protocol":1,"suite":"0"}\n'
    start = json.dumps(
        {"message": "start", "config": json.loads(write(trace_of(CONFIG, [])).splitlines()[0])["config"]}
    )
    run = encode(Run(tuple(drawn), observe=True))
    serve(ReferenceBackend(), [hello, start.encode(), run, b'{"message":"stop"}'], answers)
    lines: list[bytes | str] = [
        hello,
        start,
        run,
        *answers.getvalue().splitlines(),
        *write(trace_of(CONFIG, drawn)).splitlines(),
    ]
    assert len(lines) == 3 + 3 + 7
    for line in lines:
        assert conforms(json.loads(line), made, made["$defs"]), line
    [*_, steps] = map(json.loads, answers.getvalue().splitlines())
    results = made["$defs"]["results"]["properties"]
    for operation, step in zip(drawn, steps["steps"], strict=True):
        assert conforms(step["answer"].get("result"), results[name_of(operation)], made["$defs"])


@pytest.mark.parametrize(
    "line",
    [
        {"message": "hello"},
        {"message": "run", "operations": [{"op": "allocate", "holder": "r", "n": "x"}]},
        {"message": "steps", "steps": [{"answer": {}, "mood": "good"}]},
        {"message": "introduction", "protocol": 1, "identity": {"name": "x"}, "capabilities": {"levels": ["P"]}},
        {"op": "allocate", "holder": "r"},
        {"end": "soon"},
    ],
)
def test_what_is_no_line_does_not_conform_to_the_schema(line: dict[str, Any]) -> None:
    made = schema()
    assert not conforms(line, made, made["$defs"])


JUNK: list[Operation] = [
    Allocate(True, 10**30),  # type: ignore[arg-type]
    Lookup((KeyRef("r", 0, 2), KeyRef(None, "x", []), {"no": "key"}, 5)),  # type: ignore[arg-type]
    AddRequest([], (1, "x", 0.5), (Extra("colour", {}), Extra("salt", "x", -1))),  # type: ignore[arg-type]
    CacheFullBlocks("r", (1,), 0, 1, 0, [True, None], 0),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("operation", JUNK, ids=name_of)
def test_an_illegal_operation_arrives_as_it_was_sent(operation: Operation) -> None:
    request = read_request(encode(Run((operation,))))
    assert isinstance(request, Run)
    assert request.operations == (operation,)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"[]", "Expected `object`"),
        (b'{"message":"dance"}', "Invalid value 'dance'"),
        (b'{"message":"run"}', "Expected `array`, got `null`"),
        (b'{"message":"run","operations":[7]}', "Expected `object`, got `int`"),
        (b'{"message":"run","operations":[{"op":"fly"}]}', "there is no operation 'fly'"),
        (b'{"message":"run","operations":[{"op":"reset","now":1}]}', "wrong or missing: \\['now'\\]"),
        (b'{"message":"run","operations":[],"speed":1}', "unknown field `speed`"),
        (b'{"message":"stop"', "truncated"),
    ],
)
def test_what_is_no_request_is_refused(line: bytes, said: str) -> None:
    with pytest.raises(MessageError, match=said):
        read_request(line)


def test_the_seed_of_a_configuration_arrives() -> None:
    config = msgspec.to_builtins(CONFIG)
    request = read_request(json.dumps({"message": "start", "config": config}).encode())
    assert request.config == CONFIG  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "result"),
    [("allocate", [1]), ("lookup", [None, 2]), ("full_key", [0, "x"]), ("full_key", None), ("reset", None)],
)
def test_a_result_of_the_right_type_is_taken(name: str, result: object) -> None:
    got = checked_result(name, result)
    assert (list(got) if isinstance(got, tuple) else got) == result


@pytest.mark.parametrize(
    ("name", "result"),
    [("allocate", None), ("lookup", ["x"]), ("full_key", [0]), ("contains", 1), ("reset", False), ("begin_step", "1")],
)
def test_a_result_of_another_type_is_refused(name: str, result: object) -> None:
    with pytest.raises(MessageError, match=f"{name} returned"):
        checked_result(name, result)
