"""A failure: made of a divergence, written to a folder, read back, run again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import get_type_hints

import msgspec

from kvproof.conformance.backends.interface import Backend
from kvproof.conformance.backends.wire import (
    PARTS,
    Admitted,
    ClearedEvent,
    Entry,
    Hit,
    Holders,
    Matched,
    Observation,
    PrefixName,
    RemovedEvent,
    Running,
    StoredEvent,
)
from kvproof.conformance.certification import trace as traces
from kvproof.conformance.certification.again import divergence_of
from kvproof.conformance.certification.lockstep import Difference, Divergence
from kvproof.conformance.certification.result import Crash, Failure, FailureFacts, Mismatch
from kvproof.conformance.certification.trace import TraceError, trace_of
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.operations import Operation, describe, name_of
from kvproof.conformance.terminal import counted, printable

TRACE_FILE, FACTS_FILE = "trace.jsonl", "failure.json"
"""What the folder of a failure holds."""

FAILURES, CRASH = "failures", "crash"
"""The folder in which the folders of failures lie, and that of a crash of the adapter."""

ERROR_FILE = "error.txt"
"""What the folder of a crash holds beside the trace: the whole error."""


def failure_id(clause: str, operation: Operation, parts: tuple[str, ...]) -> str:
    """A name that a failure keeps from run to run: clause, operation, what differs. It can name a folder."""
    return ".".join((clause, name_of(operation), "+".join(parts)))


def failure_of(
    divergence: Divergence, *, clause: str, stage: str, target: str, seed: int | None, found_operations: int
) -> Failure:
    """A divergence, shrunk from one of `found_operations` operations, as a failure of a clause."""
    last, seen = divergence.operations[-1], divergence.expected.seen
    parts = tuple(each.what for each in divergence.differences)
    name = failure_id(clause, last, parts)
    shown = {each.what: _part(each.what, each.got) for each in divergence.differences if each.what in PARTS}
    fault, harm = usual_fault(clause)
    return Failure(
        id=name,
        clause=clause,
        stage=stage,
        operation=printable(describe(last)),
        operations=len(divergence.operations),
        found_operations=found_operations,
        mismatches=tuple(Mismatch(each.what, text_of(each.expected), text_of(each.got)) for each in _told(divergence)),
        before=divergence.before,
        expected=seen,
        got=msgspec.structs.replace(seen, **shown),
        fault=fault,
        harm=harm,
        seed=seed,
        replay=f"kvproof replay {_place(name)} --target {shlex.quote(target)}",
        trace=trace_of(divergence.config, divergence.operations),
    )


def _place(name: str) -> str:
    """Where the trace of a failure is, within the folder of a run."""
    return f"{FAILURES}/{name}/{TRACE_FILE}"


def replay_from_here(failure: Failure, folder: Path) -> str:
    """The line that replays a failure whose own folder is this one, from the current folder."""
    return failure.replay.replace(_place(failure.id), shlex.quote(str(folder / TRACE_FILE)), 1)


def replay_of_crash(target: str, folder: Path) -> str:
    """The line that runs the trace of a crash again, whose own folder is this one."""
    return f"kvproof replay {shlex.quote(str(folder / TRACE_FILE))} --target {shlex.quote(target)}"


def _part(name: str, value: object) -> object:
    """A part of a state as it was shown; None for what is no such thing, as a backend in Python can give."""
    try:
        return msgspec.convert(msgspec.to_builtins(value), get_type_hints(Observation)[name])
    except (msgspec.ValidationError, TypeError):
        return None


def _told(divergence: Divergence) -> list[Difference]:
    """The differences; that an operation had to be refused is said in words."""
    refusal = bool(divergence.expected.errors)
    return [
        Difference(each.what, f"refused: {each.expected}", each.got) if refusal and each.what == "answer" else each
        for each in divergence.differences
    ]


def usual_fault(clause: str) -> tuple[str, str]:
    """The kind of fault that breaks a clause, and its harm, as the catalogue of mutants has them; empty without one."""
    return next(((each.fault, each.harm) for each in MUTANTS if clause in each.clauses), ("", ""))


def text_of(value: object) -> str:
    """A result, events, or a part of a state in words; of several things that are more than a number one a line."""
    match value:
        case tuple() | list():
            if all(item is None or isinstance(item, int | str) for item in value):
                return "[" + " ".join(map(text_of, value)) + "]"
            if all(isinstance(item, msgspec.Struct) for item in value):
                return "\n".join(map(text_of, value))
            return "\n".join(f"{number}: {_line(item)}" for number, item in enumerate(value))
        case None:
            return "nothing"
        case str():
            return printable(value)
        case StoredEvent(group=group, hashes=hashes, parent=parent, tokens=tokens):
            above = "no parent" if parent is None else f"parent {text_of(parent)}"
            names = " ".join(map(text_of, hashes))
            return f"stored in group {group}: {names}, {above}, tokens {' '.join(map(str, tokens))}"
        case RemovedEvent(group=group, hash=digest):
            return f"removed from group {group}: {digest}"
        case ClearedEvent():
            return "cleared"
        case PrefixName(hash=digest, position=position):
            return f"{digest}[0:{position}]"
        case Holders(group=group, hash=digest, blocks=blocks):
            return f"{digest}@g{group}: blocks {text_of(blocks)}"
        case Entry(group=group, hash=digest, position=position, ahead=ahead, owner=owner):
            status = f" in +{ahead}" * bool(ahead) + f" reserved by {owner}" * bool(owner)
            return printable(f"{digest}[0:{position}]@g{group}{status}")
        case Running(request=request, computed=computed, settled=settled, junction=junction, tables=tables):
            places = f"computed {computed}, settled {settled}, junction {junction}"
            return printable(f"{request}: {places}, tables {_tables(tables)}, {_waiting(value)}")
        case Matched(hit=hit, junction=junction, pending=pending):
            return f"hit {hit}, junction {junction}, pending {pending}"
        case Admitted(hit=hit, junction=junction, pending=pending, tables=tables):
            return f"hit {hit}, junction {junction}, pending {pending}, tables {_tables(tables)}"
        case Hit():
            return ", ".join(f"{field} {text_of(getattr(value, field))}" for field in Hit.__struct_fields__)
    return printable(repr(value))


def _tables(tables: Iterable[Iterable[int]]) -> str:
    """The tables of all groups: [1 2] [0 3]."""
    return " ".join(f"[{' '.join(map(str, table))}]" for table in tables)


def _waiting(running: Running) -> str:
    """What is settled with which commit from now."""
    chunks = ", ".join(f"{end} in +{ahead}" for ahead, end in running.unsettled)
    last = f", last chunk in +{running.scheduled}" * bool(running.scheduled)
    return f"unsettled {chunks or 'nothing'}{last}"


def _line(item: object) -> str:
    return text_of(item).replace("\n", ", ")


# Folders


def files_of(failure: Failure) -> dict[str, bytes]:
    """The files of a failure's folder."""
    facts = msgspec.json.encode(failure.facts, order="deterministic")
    return {
        TRACE_FILE: traces.write(failure.trace).encode(),
        FACTS_FILE: msgspec.json.format(facts, indent=1) + b"\n",
    }


def files_of_crash(crash: Crash) -> dict[str, bytes]:
    """The files of a crash's folder."""
    error = crash.error.encode("utf-8", "backslashreplace")
    return {TRACE_FILE: traces.write(crash.trace).encode(), ERROR_FILE: error + b"\n"}


def read_failure(folder: Path) -> Failure:
    """Read a failure's folder; raises `TraceError` if one of its files is missing or wrong."""
    trace, file = traces.read_file(folder / TRACE_FILE), folder / FACTS_FILE
    try:
        facts = msgspec.json.decode(file.read_bytes(), type=FailureFacts)
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise TraceError(f"{file} describes no failure: {error}") from None
    if facts.operations != len(trace.steps):
        raise TraceError(
            f"{file} speaks of {counted(facts.operations, 'operations')}, the trace has {len(trace.steps)}"
        )
    return Failure(**{field: getattr(facts, field) for field in FailureFacts.__struct_fields__}, trace=trace)


# Again


def run_again(failure: Failure, backend: Backend) -> str | None:
    """Run a failure's trace on a backend: None if it shows the failure again, else what it does instead.

    Raises `AdapterError` if the adapter breaks.
    """
    _, capabilities = backend.identify()
    found = divergence_of(failure.trace, backend, capabilities)
    if found is None:
        return "nothing differs"
    if len(found.operations) != failure.operations:
        return f"operation {len(found.operations)} differs already, {describe(found.operations[-1])}"
    there = {each.what for each in found.differences}
    wanted = {each.part for each in failure.mismatches}
    return None if there == wanted else f"{', '.join(sorted(there))} differs, and not {', '.join(sorted(wanted))}"
