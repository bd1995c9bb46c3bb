"""What the reference shows, as values of the wire."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

from kvproof.conformance.backends.wire import (
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
    WireEvent,
)
from kvproof.conformance.operations import Admit, Extra, Find, FullKey, Hashes, Match, Operation, Read, TakeEvents
from kvproof.reference.hashing import split_key
from kvproof.reference.lookup import Hit as ReferenceHit
from kvproof.reference.observation import BlockState, PoolState
from kvproof.spec.events import Cleared, Event, PrefixHash, Removed, Stored
from kvproof.spec.vocabulary import ExtraKey, Key

KNOWN_KEYS = 2**16
"""Keys whose names are remembered; a run meets the same ones again and again."""


@lru_cache(KNOWN_KEYS)
def name_of_key(key: Key) -> tuple[int, str]:
    """A key's group and the name of its hash."""
    group, digest = split_key(key)
    return group, digest.hex()


def view(state: PoolState, parts: Collection[str]) -> Observation:
    """These parts of a state of the reference."""
    shown: dict[str, Any] = {part: _VIEWS[part](state) for part in parts}
    return Observation(**shown)


def view_of_event(event: Event) -> WireEvent:
    """An event of the reference."""
    match event:
        case Stored(group=group, hashes=hashes, parent=parent, tokens=tokens, extra_keys=extras):
            names = tuple(map(_prefix, hashes))
            above = None if parent is None else _prefix(parent)
            return StoredEvent(group, names, above, tokens, tuple(map(_extra, extras)))
        case Removed(group=group, digest=digest):
            return RemovedEvent(group, digest.hex())
        case Cleared():
            return ClearedEvent()


def view_of_result(operation: Operation, result: object) -> object:
    """What the reference returned for an operation, made of values that JSON has."""
    match operation, result:
        case TakeEvents(), list():
            return [view_of_event(event) for event in result]
        case Find(), list():
            return [_hit(hit) for hit in result]
        case Hashes(), list():
            return [digest.hex() for digest in result]
        case FullKey(), bytes():
            return list(name_of_key(result))
        case Read(), tuple():
            return list(result)
        # A mutated reference has classes of its own, so it is the fields that tell a match.
        case Match(), object(hit=hit, junction=junction, pending=pending):
            return Matched(hit, junction, pending)
        case Admit(), (object(hit=hit, junction=junction, pending=pending), tuple(tables)):
            return Admitted(hit, junction, pending, tables)
    return result


def _prefix(prefix: PrefixHash) -> PrefixName:
    return PrefixName(prefix.digest.hex(), prefix.position)


def _extra(extra: ExtraKey) -> Extra:
    return Extra(extra.source.name.lower(), extra.value.decode(errors="surrogatepass"), extra.start, extra.end)  # type: ignore[arg-type]


def _hit(hit: ReferenceHit) -> Hit:
    return Hit(hit.block, hit.reserved, hit.writer, hit.pending)


def _slot(block: BlockState) -> tuple[int, int] | None:
    return None if block.group is None or block.slot is None else (block.group, block.slot)


def _keys(block: BlockState) -> tuple[Entry, ...]:
    return tuple([Entry(*name_of_key(e.key), e.position, e.ahead, e.owner) for e in block.entries])


def _index(state: PoolState) -> tuple[Holders, ...]:
    named = sorted((*name_of_key(key), tuple(blocks)) for key, blocks in state.index.items())
    return tuple(Holders(group, name, blocks) for group, name, blocks in named)


def _running(state: PoolState) -> tuple[Running, ...] | None:
    return None if state.running is None else tuple([Running(*each) for each in state.running])


_VIEWS = {
    "num_free": lambda state: len(state.free_queue),
    "free_queue": lambda state: tuple(state.free_queue),
    "ref_cnt": lambda state: tuple([block.ref_cnt for block in state.blocks]),
    "holders": lambda state: tuple([tuple([name for name, _ in block.holders]) for block in state.blocks]),
    "writers": lambda state: tuple([block.writer for block in state.blocks]),
    "slots": lambda state: tuple(map(_slot, state.blocks)),
    "keys": lambda state: tuple(map(_keys, state.blocks)),
    "index": _index,
    "running": _running,
}
