"""Writes the JSON schema of messages, operations and traces: `python -m kvproof.conformance.backends.schema FILE`.

It is made of the types that read and write the lines, so it cannot say anything else than they do.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from kvproof.conformance.backends.messages import PROTOCOL_VERSION, RESULTS, Reply, Request
from kvproof.conformance.certification.trace import TRACE_VERSION, Expect, Header
from kvproof.conformance.operations import Operation, names_of_operations

REFERENCE = "#/$defs/{name}"

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """The schema: any line of the protocol or of a trace is valid, and `$defs` says which is which."""
    results = {name: RESULTS.get(name, None) for name in names_of_operations()}
    types = [Request, Reply, Operation, Header, Expect, *results.values()]
    made, components = msgspec.json.schema_components(types, ref_template=REFERENCE, schema_hook=_anything)
    request, reply, operation, header, expect, *of_results = made
    expecting = {"allOf": [operation, {"properties": {"expect": expect}}]}
    end = {"type": "object", "properties": {"end": {"type": "integer"}}, "required": ["end"]}
    ours = {
        "request": request,
        "reply": reply,
        "operation": operation,
        "trace_line": {"anyOf": [header, expecting, end]},
        "results": {
            "description": "What each operation returns.",
            "properties": dict(zip(results, of_results, strict=True)),
        },
    }
    return {
        "$schema": DIALECT,
        "title": f"kvproof: lines of the adapter protocol ({PROTOCOL_VERSION}) and of traces ({TRACE_VERSION})",
        "anyOf": [{"$ref": REFERENCE.format(name=name)} for name in ("request", "reply", "trace_line")],
        "$defs": {**ours, **components},
    }


def text() -> str:
    """The schema as the file has it."""
    return json.dumps(schema(), indent=1) + "\n"


def _anything(kind: type) -> dict[str, Any]:
    """The schema of a value that the types leave open: a result, which depends on the operation."""
    if kind is object:
        return {"description": "any value"}
    raise NotImplementedError(f"no schema for {kind}")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
