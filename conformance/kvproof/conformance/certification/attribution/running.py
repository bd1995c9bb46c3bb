"""Clauses of requests that run over all groups: what is hit, where chunks end, what their tables and keys are."""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm

from kvproof.conformance.backends.wire import Admitted, Matched, Running
from kvproof.conformance.certification.attribution.case import Case, Clauses
from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Advance,
    Append,
    Fail,
    Match,
    Operation,
    Release,
    Rollback,
    Split,
    Truncate,
)
from kvproof.spec.vocabulary import COPY_PREFIX, NULL_BLOCK, POOL_COPY_PREFIX, GroupConfig, GroupKind

Tables = tuple[tuple[int, ...], ...]

_USABLE = {
    GroupKind.FULL_ATTENTION: "HIT-ATTENTION-1",
    GroupKind.SLIDING_WINDOW: "HIT-WINDOW-1",
    GroupKind.RECURRENT: "HIT-RECURRENT-1",
}

_RUNS = (Match, Split, Admit, Advance, Release, Fail)


def is_of_running(case: Case) -> bool:
    """Whether the operation runs requests, or changes one that runs."""
    return isinstance(case.operation, _RUNS) or "running" in case.differences


def may_go_back(case: Case) -> bool:
    """Whether the operation is one of the pool, or of a request, by which one that runs may go back."""
    return case.config.hybrid is not None and isinstance(case.operation, Rollback | Truncate)


def copies_a_state(case: Case) -> bool:
    """Whether the chunk goes on in a private copy of a state that others rely on."""
    before, after = _copies(case.before.holders), _copies(case.after.holders)
    return any(name.startswith(POOL_COPY_PREFIX) for name in after - before)


def of_result_of_running(case: Case, expected: object, got: object) -> Clauses:
    """The clauses that another result may break."""
    match case.operation:
        case Match():
            return _of_match(case, fields_of(expected), fields_of(got)) or ("HIT-PURE-1",)
        case Admit():
            wanted, found = fields_of(expected), fields_of(got)
            tables = (_tables(wanted.get("tables")), _tables(found.get("tables")))
            return _of_match(case, wanted, found) or _of_tables(case, *tables) or ("ADMIT-FRESH-1",)
        case Advance():
            return _of_tables(case, _tables(expected), _tables(got)) or _of_new_blocks(case)
        case Split():
            return _of_split(case, case.operation, expected, got)
        case Fail():
            return ("BACK-FAIL-2",)
    return ("RELEASE-1", "BACK-ROLLBACK-1")


def of_state_of_running(case: Case) -> Clauses:
    """The clauses that the state after a granted operation may break; none if others say it better."""
    if isinstance(case.operation, Match | Split):
        return ("HIT-PURE-1",)
    if "running" in case.differences and (clauses := _of_running(case)):
        return clauses
    if isinstance(case.operation, Admit | Advance):
        return _of_what_is_left(case)
    if isinstance(case.operation, Fail):
        return _of_what_failed(case)
    if isinstance(case.operation, Release | Truncate):
        return ("RELEASE-1" if isinstance(case.operation, Release) else "BACK-TRUNCATE-1", "BACK-SLOTS-1")
    goes_back = isinstance(case.operation, Rollback) and "keys" not in case.differences
    return ("BACK-SLOTS-1", "STEP-ROLLBACK-2") if goes_back else ()


def fields_of(value: object) -> Mapping[str, object]:
    """An answer by its fields, also where JSON brought it."""
    match value:
        case Matched() | Admitted():
            return {field: getattr(value, field) for field in value.__struct_fields__}
        case dict():
            return value
    return {}


def _tables(value: object) -> Tables:
    rows = value if isinstance(value, list | tuple) else []
    return tuple([tuple(row) if isinstance(row, list | tuple) else () for row in rows])


# What is hit


def _of_match(case: Case, expected: Mapping[str, object], got: Mapping[str, object]) -> Clauses:
    if expected.get("hit") != got.get("hit"):
        also = ("HIT-ZERO-1",) if expected.get("hit") == 0 else ()
        pure = ("HIT-PURE-1",) if _was_asked_before(case) else ()
        return (*_of_hit(case, expected.get("hit"), got.get("hit")), *also, *pure)
    if expected.get("junction") != got.get("junction"):
        return ("HIT-JUNCTION-1", "HIT-PURE-1")
    return ("HIT-PENDING-1",) if expected.get("pending") != got.get("pending") else ()


def _was_asked_before(case: Case) -> bool:
    """Whether the same request was matched before, so that an old answer may have been remembered."""
    request = getattr(case.operation, "request", None)
    return any(isinstance(each, Match) and each.request == request for each in case.found.operations[:-1])


def _of_hit(case: Case, expected: object, got: object) -> Clauses:
    """What the groups are decides what can have gone wrong; of several the vectors tell."""
    kinds = [_USABLE[kind] for kind in GroupKind if kind in {group.kind for group in case.config.groups}]
    drops = case.config.hybrid is not None and case.config.hybrid.drop
    clauses = ("HIT-JOINT-1", *kinds, *(["HIT-DROP-1"] if drops else []))
    aligned = ("GROUP-ALIGN-1",)
    return (*aligned, *clauses) if _is_aligned_otherwise(case, expected, got) else (*clauses, *aligned)


def _is_aligned_otherwise(case: Case, expected: object, got: object) -> bool:
    """Whether the hit is one for the other of the two alignments."""
    if case.config.hybrid is None or not isinstance(expected, int) or not isinstance(got, int):
        return False
    common = lcm(*[group.block_size for group in case.config.groups])
    if case.config.hybrid.fine_grained:
        return 0 < got < expected and got % common == 0 < expected % common
    return got % common > 0


# Where chunks end


def _of_split(case: Case, operation: Split, expected: object, got: object) -> Clauses:
    """Which of the rules gives the end that was expected, or forbids the one that was given."""
    recurrent = [group.block_size for group in case.config.groups if group.kind is GroupKind.RECURRENT]
    if not recurrent:
        return ("SPLIT-NONE-1",)
    total, prompt = _lengths(case.found.operations, operation.request)
    if operation.start >= max(prompt, total - 1):
        return ("SPLIT-DECODE-1",)
    if expected == operation.start:
        return ("SPLIT-ALIGN-1",)
    if got == operation.start:
        return ("SPLIT-ALIGN-1", "SPLIT-PROGRESS-1")
    stops = _stops(case, operation, lcm(*recurrent), total, prompt)
    both = [stops[end] for end in (expected, got) if isinstance(end, int) and end in stops]
    return (*both[:1], "SPLIT-EARLIEST-1") if len(both) > 1 else (*both, "SPLIT-ALIGN-1")


def _stops(case: Case, operation: Split, block: int, total: int, prompt: int) -> dict[int, str]:
    """The ends that chunks must not pass, with the clauses that say so."""
    hybrid, h = case.config.hybrid, case.config.hash_block_size
    assert hybrid is not None, "only hybrid pools split"
    early = max(1, hybrid.lookahead)
    whole, part = ((n // u * u - u) if hybrid.drop else (n - early) // u * u for n, u in ((total, block), (prompt, h)))
    at_junction = hybrid.checkpoints and operation.junction <= prompt
    stops = {operation.junction if at_junction else operation.junction // block * block: "SPLIT-STOP-4"}
    stops[part] = "SPLIT-STOP-3"
    stops[whole] = "SPLIT-STOP-2"
    if operation.start % block:
        stops[operation.start // block * block + block] = "SPLIT-STOP-1"
    return stops


def _lengths(operations: tuple[Operation, ...], request: str) -> tuple[int, int]:
    """How many tokens a request has at the end, and how many of them are its prompt."""
    total = prompt = 0
    for operation in operations:
        match operation:
            case AddRequest(request=name, tokens=tuple(tokens)) if name == request and not total:
                total = prompt = len(tokens)
            case Append(request=name, tokens=tuple(tokens)) if name == request:
                total += len(tokens)
            case Truncate(request=name, num_tokens=int(kept)) if name == request and 0 <= kept <= total:
                total, prompt = kept, min(prompt, kept)
    return total, prompt


# What runs


def _of_running(case: Case) -> Clauses:
    wanted, shown = case.after.running, case.got("running")
    found = {each.request: each for each in shown if isinstance(each, Running)} if isinstance(shown, tuple) else {}
    expected = {each.request: each for each in wanted or ()}
    if found.keys() != expected.keys():
        return _WHO_RUNS.get(case.name, ("BACK-ROLLBACK-1",))
    for name, running in expected.items():
        if running != found[name]:
            return _of_one(case, running, found[name])
    return ()


_WHO_RUNS = {
    "admit": ("ADMIT-ATOMIC-1",),
    "truncate": ("BACK-TRUNCATE-1",),
    "release": ("RELEASE-1",),
    "fail": ("BACK-FAIL-2", "BACK-ROLLBACK-1"),
}
"""operation -> what says who runs after it; of others it is a rollback."""


def _of_one(case: Case, expected: Running, got: Running) -> Clauses:
    """Where a request that runs is not as it should be."""
    if isinstance(case.operation, Fail):
        if expected.computed != got.computed:
            return ("BACK-FAIL-2", "BACK-ROLLBACK-1")
        return ("BACK-SLOTS-1", "BACK-ROLLBACK-1") if expected.tables != got.tables else ("BACK-FAIL-4",)
    if isinstance(case.operation, Rollback | Release):
        return ("BACK-ROLLBACK-1",) if expected.computed != got.computed else ("BACK-SLOTS-1", "BACK-ROLLBACK-1")
    if isinstance(case.operation, Truncate):
        if expected.computed != got.computed:
            return ("BACK-TRUNCATE-1",)
        return ("BACK-CUT-1", "BACK-SLOTS-1") if expected.tables != got.tables else ("BACK-CUT-2",)
    if expected.junction != got.junction:
        return ("ADMIT-JUNCTION-1",)
    if case.name == "commit":
        return ("STEP-COMMIT-1",)
    return _of_tables(case, expected.tables, got.tables) or ("ADVANCE-RANGE-1",)


def _of_tables(case: Case, expected: Tables, got: Tables) -> Clauses:
    """The first slot that has another block than it should have."""
    if len(expected) != len(got):
        return ()
    for group, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        for slot in range(max(len(wanted), len(found))):
            one, other = (table[slot] if slot < len(table) else None for table in (wanted, found))
            if one != other:
                return _of_slot(case, group, slot, one, other)
    return ()


def _of_new_blocks(case: Case) -> Clauses:
    """What the groups are decides for which of them there is no block."""
    kinds = {group.kind for group in case.config.groups}
    attention = ("ADVANCE-ATTENTION-1",) if kinds - {GroupKind.RECURRENT} else ()
    return (*attention, "ADVANCE-STATE-1") if GroupKind.RECURRENT in kinds else attention


def _of_slot(case: Case, number: int, slot: int, wanted: int | None, found: int | None) -> Clauses:
    group = case.config.groups[number]
    recurrent = group.kind is GroupKind.RECURRENT
    if isinstance(case.operation, Admit):
        hit = fields_of(case.found.expected.result).get("hit")
        within = hit if isinstance(hit, int) else 0
        if slot < within // group.block_size:
            return ("ADMIT-SHARE-1", "HIT-SOURCE-1", "ADMIT-ORDER-1")
        if slot == within // group.block_size and within % group.block_size:
            return ("ADMIT-COPY-1", "ADMIT-ORDER-1")
        return ("ADMIT-ORDER-1", "ADVANCE-STATE-1" if recurrent else "ADVANCE-ATTENTION-1", "ADMIT-FRESH-1")
    if _moves_otherwise(case):
        return ("ADVANCE-MOVE-1", "ADVANCE-COPY-1")
    if wanted == NULL_BLOCK or found == NULL_BLOCK:
        was = _block_before(case, number, slot)
        let_go = ("ADVANCE-LETGO-1", "ADVANCE-STATE-1") if was not in (None, NULL_BLOCK) else ("ADVANCE-STATE-1",)
        return let_go if recurrent else ("ADVANCE-LETGO-1",)
    if recurrent:
        return ("ADVANCE-MOVE-1", "ADVANCE-COPY-1", "ADVANCE-STATE-1")
    return ("ADVANCE-ATTENTION-1", "ADVANCE-LETGO-1")


def _moves_otherwise(case: Case) -> bool:
    """Whether other states move before the chunk takes its blocks; the blocks of all groups are others then."""
    wanted, got = (_copies(shown) for shown in (case.after.holders, case.got("holders")))
    return bool(case.after.holders) and wanted != got


def _copies(holders: object) -> set[str]:
    """The copies that hold blocks."""
    rows = holders if isinstance(holders, tuple) else ()
    return {name for row in rows for name in row if name.startswith(COPY_PREFIX)}


def _block_before(case: Case, group: int, slot: int) -> int | None:
    """The block that a request had in a slot before its next chunk, None if it had none."""
    name = getattr(case.operation, "request", "")
    running = next((each for each in case.before.running or () if each.request == name), None)
    table = () if running is None else running.tables[group]
    return table[slot] if slot < len(table) else None


# What a chunk leaves


def _of_what_is_left(case: Case) -> Clauses:
    """Keys first, then who holds what, where the tables are right."""
    if "keys" in case.differences and (clauses := _of_keys(case)):
        return clauses
    admits = isinstance(case.operation, Admit)
    for part in ("index", "slots"):
        if part in case.differences:
            return ("ADVANCE-REGISTER-1",)
    if {"ref_cnt", "holders"} & case.differences.keys():
        if not admits and copies_a_state(case):
            return ("ADVANCE-COPY-1", "ADVANCE-LETGO-1", "ADVANCE-MOVE-1")
        return ("ADMIT-COPY-1", "ADMIT-SHARE-1", "HIT-SOURCE-1") if admits else ("ADVANCE-LETGO-1", "ADVANCE-MOVE-1")
    if "writers" in case.differences:
        return ("ADMIT-COPY-1",) if admits else ("ADVANCE-MOVE-1",)
    return ("ADMIT-ORDER-1",) if admits else ("ADVANCE-LETGO-1",)


def _of_keys(case: Case) -> Clauses:
    wanted, got, before = case.keys_after, case.keys_got, case.keys_before
    differ = [place for place in (*wanted, *got) if (place in wanted) != (place in got)]
    if not differ:
        return ("ADVANCE-REGISTER-1",)
    place = differ[0]
    entry = wanted.get(place) or got[place]
    group = case.config.groups[entry.group]
    if place in before or any((each, digest) == place[1:] for _, each, digest in before):
        return ("ADVANCE-MOVE-1",) if group.kind is GroupKind.RECURRENT else ("ADMIT-ORDER-1", "ADVANCE-FULL-1")
    if group.kind is not GroupKind.RECURRENT:
        return ("ADVANCE-FULL-1",) if entry.position % group.block_size == 0 else ("ADVANCE-TAIL-1", "BACK-PROMPT-1")
    return _of_kept_state(case, entry.position, group)


def _of_kept_state(case: Case, position: int, group: GroupConfig) -> Clauses:
    """Why a state has to be kept there, or must not be."""
    hybrid = case.config.hybrid
    assert hybrid is not None, "only hybrid pools keep states"
    request = str(getattr(case.operation, "request", ""))
    total, prompt = _lengths(case.found.operations, request)
    sizes = [each.block_size for each in case.config.groups if each.kind is GroupKind.RECURRENT]
    junction = next((each.junction for each in case.after.running or () if each.request == request), 0)
    stops = _stops(case, Split(request, 0, 1, 1, junction), lcm(*sizes), total, prompt)
    if stops.get(position) in ("SPLIT-STOP-2", "SPLIT-STOP-3"):
        return ("RETAIN-LAST-1", "ADVANCE-KEEP-1")
    if stops.get(position) == "SPLIT-STOP-4":
        return ("RETAIN-JUNCTION-1", "ADVANCE-KEEP-1")
    policy = {"boundaries": "RETAIN-BOUNDARIES-1", "interval": "RETAIN-INTERVAL-1"}.get(hybrid.retention.value)
    at_policy = position % group.block_size == 0 or (hybrid.interval is not None and position % hybrid.interval == 0)
    return (policy, "ADVANCE-KEEP-1") if policy and at_policy else ("ADVANCE-KEEP-1",)


# What a failed step leaves


def _of_what_failed(case: Case) -> Clauses:
    """Keys that a failed step left or took wrongly: whose they were says which; then what its commit lets go."""
    wanted, got, before = case.keys_after, case.keys_got, case.keys_before
    for place in (*wanted, *got):
        if (place in wanted) == (place in got):
            continue
        entry = before.get(place)
        if entry is None or entry.owner is None:
            return ("BACK-FAIL-3",)
        return ("BACK-FAIL-2",) if place in got else ("BACK-FAIL-4", "BACK-FAIL-2")
    if wanted == got and not {"keys", "index"} & case.differences.keys():
        return ("BACK-FAIL-4", "BACK-SLOTS-1")
    return ("BACK-FAIL-4",) if case.shows_keys else ("BACK-FAIL-3", "BACK-FAIL-4")
