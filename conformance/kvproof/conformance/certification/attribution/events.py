"""Clauses of a stream of events that differs where the state does not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kvproof.conformance.attempts import QUESTIONS
from kvproof.conformance.backends.wire import ClearedEvent, RemovedEvent, StoredEvent, WireEvent, as_events
from kvproof.conformance.certification.attribution.case import Case, Clauses
from kvproof.conformance.operations import AddRequest, Append, BeginStep, Commit, Fail, Move, Reset, Truncate
from kvproof.spec.vocabulary import Residency

if TYPE_CHECKING:
    from kvproof.conformance.certification.lockstep import Difference

Told = tuple[str, int, str]
"""What an event says of a key: (stored or removed, group, hash)."""

_EMITS_NOTHING = (*QUESTIONS, AddRequest, Append, Truncate, BeginStep)


def of_events(case: Case, difference: Difference) -> Clauses:
    """The clauses that the events of one operation may break."""
    if difference.got is None or isinstance(case.operation, _EMITS_NOTHING):
        return ("EVENT-DRAIN-1",)
    wanted, got = _events(difference.expected), _events(difference.got)
    if case.found.heard and got == (*case.found.heard, *wanted):
        return ("EVENT-DRAIN-1",)
    if isinstance(case.operation, Reset) or _cleared(wanted) != _cleared(got):
        return ("EVENT-CLEARED-1",)
    if isinstance(case.operation, Move):
        return ("POOL-MOVE-1", "STEP-MOVE-1") if case.has_steps else ("POOL-MOVE-1",)
    if _is_empty_stored(got):
        return ("EVENT-STORED-1",)
    told, said = _told(wanted), _told(got)
    if isinstance(case.operation, Fail):
        evicts = any(what == "removed" for what, _, _ in (told - said) + (said - told))
        return ("BACK-FAIL-3", "BACK-FAIL-4") if evicts else ("BACK-FAIL-4",)
    if told != said:
        return _of_balance(case, told, said)
    return _of_form(case, wanted, got)


def of_drained(case: Case, expected: object, got: object) -> Clauses:
    """The same for all events since they were taken last, where they were not looked at in between."""
    wanted, found = (_events(as_events(value)) for value in (expected, got))
    if ClearedEvent() in wanted and found == wanted[wanted.index(ClearedEvent()) :]:
        return ("EVENT-CLEARED-1",)  # what came before it is lost
    if _is_empty_stored(found):
        return ("EVENT-STORED-1",)
    if _told(wanted) == _told(found) and Counter(map(repr, wanted)) != Counter(map(repr, found)):
        return _of_form(case, wanted, found)
    return ("EVENT-DRAIN-1",)


def _of_balance(case: Case, told: Counter[Told], said: Counter[Told]) -> Clauses:
    """Other keys are stored or removed, or more often, or less."""
    too_much, too_little = said - told, told - said
    residency = "EVENT-RESIDENCY-1" if case.config.residency is Residency.LOGICAL else "EVENT-RESIDENCY-2"
    if {(what, digest) for what, _, digest in too_much} & {(what, digest) for what, _, digest in too_little}:
        return ("EVENT-REMOVED-1",) if any(what == "removed" for what, _, _ in too_much) else ("EVENT-STORED-1",)
    stored = {(group, digest) for what, group, digest in too_much if what == "stored"}
    removed = {(group, digest) for what, group, digest in too_much if what == "removed"}
    if case.has_steps:
        if stored and not isinstance(case.operation, Commit):
            return ("STEP-COMMIT-4", "STEP-COMMIT-3")
        if removed & _never_committed(case):
            return ("STEP-COMMIT-4",)
        if isinstance(case.operation, Commit) and case.shows_keys and stored - _present(case):
            return ("STEP-COMMIT-4", "STEP-COMMIT-1")
    if stored & removed:
        return ("EVENT-NET-1", residency)
    if residency == "EVENT-RESIDENCY-1" and stored:
        return (
            ("STEP-COMMIT-3", "EVENT-STORED-3", residency)
            if isinstance(case.operation, Commit)
            else ("EVENT-STORED-3", residency)
        )
    if residency == "EVENT-RESIDENCY-1" and removed:
        return (residency, "EVENT-NET-1")
    return (residency,)


def _never_committed(case: Case) -> set[tuple[int, str]]:
    """Keys that were only reserved."""
    there = case.keys_before.values()
    committed = {(entry.group, entry.hash) for entry in there if entry.owner is None}
    return {(entry.group, entry.hash) for entry in there if entry.owner is not None} - committed


def _present(case: Case) -> set[tuple[int, str]]:
    """Keys that are on some block afterwards."""
    return {(group, digest) for _, group, digest in case.keys_after}


def _of_form(case: Case, wanted: tuple[WireEvent, ...], got: tuple[WireEvent, ...]) -> Clauses:
    """The right keys are stored and removed; what is said of them, and in which order, differs."""
    of_commit = ("STEP-COMMIT-3",) if isinstance(case.operation, Commit) else ()
    if len(wanted) != len(got):
        return ("EVENT-STORED-4", *of_commit)
    if Counter(map(repr, wanted)) == Counter(map(repr, got)):
        if list(map(type, wanted)) != list(map(type, got)):
            return ("EVENT-ORDER-1", *of_commit)
        return of_commit or ("EVENT-REMOVED-2",)
    pairs = [
        (one, other)
        for one, other in zip(wanted, got, strict=True)
        if isinstance(one, StoredEvent) and isinstance(other, StoredEvent) and one != other
    ]
    if not pairs:
        return of_commit or ("EVENT-ORDER-1",)
    return (*_of_run(*pairs[0]), *of_commit)


def _of_run(wanted: StoredEvent, got: StoredEvent) -> Clauses:
    """Two Stored events of one place in the stream."""
    if Counter(wanted.hashes) != Counter(got.hashes):
        return ("EVENT-STORED-4",)
    if wanted.hashes != got.hashes:
        return ("EVENT-STORED-1",)
    return ("EVENT-PARENT-1",) if wanted.parent != got.parent else ("EVENT-STORED-2",)


def _events(value: object) -> tuple[WireEvent, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def _is_empty_stored(events: tuple[WireEvent, ...]) -> bool:
    """Whether a Stored event lists nothing."""
    return any(isinstance(event, StoredEvent) and not event.hashes for event in events)


def _cleared(events: tuple[WireEvent, ...]) -> int:
    return sum(isinstance(event, ClearedEvent) for event in events)


def _told(events: tuple[WireEvent, ...]) -> Counter[Told]:
    """How often each key is stored and removed."""
    named: Counter[Told] = Counter()
    for event in events:
        match event:
            case StoredEvent(group=group, hashes=hashes):
                named.update(("stored", group, prefix.hash) for prefix in hashes)
            case RemovedEvent(group=group, hash=name):
                named["removed", group, name] += 1
            case _:
                named["cleared", 0, ""] += 1
    return named
