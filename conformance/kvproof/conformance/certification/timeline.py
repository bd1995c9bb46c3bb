"""A trace step by step: what the reference shows after each operation, in names that people can read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from kvproof.conformance.backends.reference import CAPABILITIES
from kvproof.conformance.backends.wire import Entry, Observation
from kvproof.conformance.certification.failure import text_of
from kvproof.conformance.certification.model import Model
from kvproof.conformance.certification.trace import Trace
from kvproof.conformance.operations import describe
from kvproof.conformance.terminal import counted, printable
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import GroupConfig, HybridConfig, PoolConfig

T = TypeVar("T")

UNKNOWN_HASH = 8
"""Characters that are shown of a hash that is no prefix of a request."""

_HASH = re.compile(r"\b([0-9a-f]{32,64})\b(?:\[0:\d+\])?")

Names = dict[str, str]
"""What the hashes are called: r1[0:4] is the prefix of the first 4 tokens of request r1, the first that has it."""


class BlockRow(msgspec.Struct, frozen=True):
    """One block in words. `queue` is its place in the free queue, the next victim is 1; "" for what is not shown."""

    block: int
    queue: str = ""
    refs: str = ""
    holders: str = ""
    writer: str = ""
    slot: str = ""
    keys: str = ""


CELLS = BlockRow.__struct_fields__[1:]
"""The cells of a row that can differ."""


class IndexRow(msgspec.Struct, frozen=True):
    """The blocks that have a key, first registered first."""

    key: str
    blocks: tuple[int, ...]


class Moment(msgspec.Struct, frozen=True):
    """An operation, what came of it, and the pool afterwards; `changed` names block and cell of what it changed."""

    operation: str
    answer: str
    events: tuple[str, ...]
    queue: tuple[int, ...]
    blocks: tuple[BlockRow, ...]
    index: tuple[IndexRow, ...]
    changed: tuple[tuple[int, str], ...]


class Timeline(msgspec.Struct, frozen=True):
    """The moments of a trace, the new pool first."""

    moments: tuple[Moment, ...]
    names: Names


def pool_in_words(config: PoolConfig) -> str:
    """What a trace is run in."""
    blocks = f"a pool of {counted(config.num_blocks, 'blocks')}, the null block included"
    hashes = f"a hash after every {counted(config.hash_block_size, 'tokens')}"
    modes = f"residency {config.residency.value}, holders {config.holders.value}, commit {config.commit.value}"
    groups = "; ".join(map(_group, range(len(config.groups)), config.groups))
    return f"{blocks}; {hashes}; {groups}; {modes}{_hybrid(config.hybrid)}"


def _hybrid(hybrid: HybridConfig | None) -> str:
    if hybrid is None:
        return ""
    hits = "fine-grained hits" if hybrid.fine_grained else "hits at common block ends"
    every = "" if hybrid.interval is None else f" of {hybrid.interval}"
    drop = f", drop in group {', '.join(map(str, hybrid.drop))}" if hybrid.drop else ""
    more = f", lookahead {hybrid.lookahead}" * bool(hybrid.lookahead) + ", checkpoints" * hybrid.checkpoints
    return f"; requests run over all groups: {hits}, retention {hybrid.retention.value}{every}{drop}{more}"


def _group(number: int, group: GroupConfig) -> str:
    window = "" if group.window is None else f", window {group.window}"
    return f"group {number}: {group.kind.value}{window}, blocks of {counted(group.block_size, 'tokens')}"


def timeline_of(trace: Trace) -> Timeline:
    """Replay a trace on the reference. An operation that is undefined is said to be, and left out."""
    model = Model(trace.header.config, CAPABILITIES)
    names = names_of(model.world)
    moments = [_moment("a new pool", "", (), model.show(), names, ())]
    for operation in trace.operations:
        events: tuple[str, ...] = ()
        if model.is_undefined(operation):
            answer = "undefined: left out"
        else:
            expected = model.expect(operation)
            names = names_of(model.world, names)
            events = tuple(in_names(text_of(event), names) for event in expected.events or ())
            answer = _answer(expected.errors, expected.result, names)
        text = printable(describe(operation))
        moments.append(_moment(text, answer, events, model.show(), names, moments[-1].blocks))
    return Timeline(tuple(moments), names)


def names_of(world: World, before: Mapping[str, str] | None = None) -> Names:
    """Names for the hashes of all requests. A hash that had one before keeps it; another of that name gets a prime."""
    names = dict(before or {})
    for request_id, request in world.requests.items():
        for number, digest in enumerate(request.hashes, 1):
            if digest.hex() not in names:
                name = printable(f"{request_id}[0:{number * world.config.hash_block_size}]")
                while name in names.values():
                    name += "'"
                names[digest.hex()] = name
    return names


def in_names(text: str, names: Names) -> str:
    """A text with every hash that has a name called by it."""
    return _HASH.sub(lambda found: names.get(found[1], found[0]), text)


def rows_of(seen: Observation, names: Names) -> tuple[BlockRow, ...]:
    """A row for each block but the null block, with the parts that are shown."""
    parts = (seen.ref_cnt, seen.holders, seen.writers, seen.slots, seen.keys)
    count = max((len(part) for part in parts if part is not None), default=0)
    return tuple(_row(seen, block, names) for block in range(1, count))


def differing(one: Iterable[BlockRow], other: Iterable[BlockRow]) -> tuple[tuple[int, str], ...]:
    """Block and cell of everything in which two states differ."""
    pairs = zip(one, other, strict=False)
    return tuple((a.block, cell) for a, b in pairs for cell in CELLS if getattr(a, cell) != getattr(b, cell))


def _moment(
    operation: str,
    answer: str,
    events: tuple[str, ...],
    seen: Observation,
    names: Names,
    before: tuple[BlockRow, ...],
) -> Moment:
    rows = rows_of(seen, names)
    index = tuple(IndexRow(_key(row.group, row.hash, names), row.blocks) for row in seen.index or ())
    return Moment(operation, answer, events, seen.free_queue or (), rows, index, differing(before, rows))


def _answer(errors: frozenset[str], result: object, names: Names) -> str:
    if errors:
        return "refused: " + " or ".join(sorted(errors))
    return "" if result is None else in_names(text_of(result), names)


def _row(seen: Observation, block: int, names: Names) -> BlockRow:
    queue, slot = seen.free_queue or (), _at(seen.slots, block)
    return BlockRow(
        block,
        str(queue.index(block) + 1) if block in queue else "",
        "" if (count := _at(seen.ref_cnt, block)) is None else str(count),
        printable(", ".join(_at(seen.holders, block) or ())),
        "" if (writer := _at(seen.writers or (), block)) is None else printable(writer),
        "" if slot is None else f"{slot[1]}@g{slot[0]}",
        ", ".join(_entry(entry, names) for entry in _at(seen.keys, block) or ()),
    )


def _at(part: tuple[T, ...] | None, block: int) -> T | None:
    """What a part shows of a block; a backend may show too few."""
    return part[block] if part is not None and block < len(part) else None


def _entry(entry: Entry, names: Names) -> str:
    status = f" in +{entry.ahead}" * bool(entry.ahead) + f" reserved by {entry.owner}" * bool(entry.owner)
    return _key(entry.group, entry.hash, names) + printable(status)


def _key(group: int, digest: str, names: Names) -> str:
    return f"{names.get(digest, printable(digest)[:UNKNOWN_HASH])}@g{group}"
