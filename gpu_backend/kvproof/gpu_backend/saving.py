"""Saving a pool and restoring it: the arena, and what lies behind its numbers (OBSERVE-1: nothing else is state).

A saved state is a line of JSON that describes it, the arena, the events that wait outside it, the tokens of the texts
that events and entries in flight name, and a digest of all of this.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from kvproof.gpu_backend import _core
from kvproof.gpu_backend.hashing import PrefixHasher
from kvproof.gpu_backend.request import Request
from kvproof.spec.errors import PoolError
from kvproof.spec.vocabulary import (
    CommitMode,
    ExtraKey,
    ExtraKeySource,
    GroupConfig,
    GroupKind,
    HashAlgorithm,
    HolderMode,
    HybridConfig,
    PoolConfig,
    Residency,
    Retention,
)

VERSION = 2

DIGEST_BYTES = 16
"""The XXH3-128 of everything before it stands at the end."""

WORD_BYTES = 4


NOT_READABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, struct.error)
"""What reading a description that makes no sense may raise."""


class CorruptedState(PoolError):
    """A saved state is not what was saved; the text says what is wrong. Save it again, or begin with a new pool."""


@dataclasses.dataclass(frozen=True, slots=True)
class SavedState:
    """What a saved state holds."""

    config: PoolConfig
    tells_events: bool
    hasher: PrefixHasher
    rows: tuple[int, ...]
    arena: bytes
    names: list[str | None]
    texts: list[_core.Text | None]
    told: bytes


def write(state: SavedState) -> bytes:
    """The bytes of a state."""
    tokens = [b"" if text is None else _packed(text.tokens(0, text.num_tokens)) for text in state.texts]
    description = {
        "kvproof_pool": VERSION,
        "config": _fields_of_config(state.config),
        "tells_events": state.tells_events,
        "seed_digest": state.hasher.seed_digest.hex(),
        "rows": state.rows,
        "arena": len(state.arena),
        "told": len(state.told),
        "names": state.names,
        "texts": [
            None
            if text is None
            else {"tokens": text.num_tokens, "extra_keys": [_fields_of_extra(e) for e in text.extra_keys]}
            for text in state.texts
        ],
    }
    saved = b"".join((json.dumps(description).encode() + b"\n", state.arena, state.told, *tokens))
    return saved + _core.digest(DIGEST_BYTES // WORD_BYTES, saved)


def read(saved: object) -> SavedState:
    """The state in these bytes, as far as it can be told without its arena. Raises `CorruptedState`."""
    if not isinstance(saved, bytes):
        raise CorruptedState(f"a saved state is bytes, not a {type(saved).__name__}")
    body, digest = saved[:-DIGEST_BYTES], saved[-DIGEST_BYTES:]
    if _core.digest(DIGEST_BYTES // WORD_BYTES, body) != digest:
        raise CorruptedState("its digest is wrong: it was cut, or changed since it was saved")
    try:
        return _state(body)
    except (PoolError, *NOT_READABLE) as error:
        raise CorruptedState(f"it cannot be read: {type(error).__name__}: {error}") from error


def _state(body: bytes) -> SavedState:
    line, _, rest = body.partition(b"\n")
    description: dict[str, Any] = json.loads(line)
    if description["kvproof_pool"] != VERSION:
        raise ValueError(f"version {description['kvproof_pool']!r}; this reads {VERSION}")
    config = _config(description["config"])
    hasher = dataclasses.replace(PrefixHasher.of(config), seed_digest=bytes.fromhex(description["seed_digest"]))
    arena, rest = rest[: description["arena"]], rest[description["arena"] :]
    told, rest = rest[: description["told"]], rest[description["told"] :]
    texts: list[_core.Text | None] = []
    for fields in description["texts"]:
        size = 0 if fields is None else WORD_BYTES * fields["tokens"]
        texts.append(None if fields is None else _text(rest[:size], fields["extra_keys"], hasher))
        rest = rest[size:]
    if rest:
        raise ValueError("there is more after its end")
    names = [name if name is None else str(name) for name in description["names"]]
    if names[:1] != [None]:
        raise ValueError("the first name is nobody's")
    tells_events, rows = description["tells_events"], tuple(description["rows"])
    if type(tells_events) is not bool or any(type(count) is not int for count in rows):
        raise TypeError("its numbers are none")
    return SavedState(config, tells_events, hasher, rows, arena, names, texts, told)


def _text(packed: bytes, extras: Sequence[Mapping[str, Any]], hasher: PrefixHasher) -> _core.Text:
    tokens = struct.unpack(f"<{len(packed) // WORD_BYTES}I", packed)
    return Request("a saved text", tokens, hasher, [_extra(fields) for fields in extras]).text


def _packed(tokens: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


def _fields_of_config(config: PoolConfig) -> dict[str, object]:
    """The configuration without its seed, which is nobody's business; the digest of the seed is enough."""
    return {
        "num_blocks": config.num_blocks,
        "hash_block_size": config.hash_block_size,
        "groups": [[group.kind.value, group.block_size, group.window] for group in config.groups],
        "hash_algorithm": config.hash_algorithm.value,
        "residency": config.residency.value,
        "holders": config.holders.value,
        "commit": config.commit.value,
        "hybrid": None if config.hybrid is None else _fields_of_hybrid(config.hybrid),
    }


def _fields_of_hybrid(hybrid: HybridConfig) -> dict[str, object]:
    return {**dataclasses.asdict(hybrid), "retention": hybrid.retention.value}


def _config(fields: Mapping[str, Any]) -> PoolConfig:
    return PoolConfig(
        num_blocks=fields["num_blocks"],
        hash_block_size=fields["hash_block_size"],
        groups=tuple([GroupConfig(GroupKind(kind), size, window) for kind, size, window in fields["groups"]]),
        hash_algorithm=HashAlgorithm(fields["hash_algorithm"]),
        residency=Residency(fields["residency"]),
        holders=HolderMode(fields["holders"]),
        commit=CommitMode(fields["commit"]),
        hybrid=None if fields["hybrid"] is None else _hybrid(fields["hybrid"]),
    )


def _hybrid(fields: Mapping[str, Any]) -> HybridConfig:
    return HybridConfig(
        fine_grained=fields["fine_grained"],
        drop=tuple(fields["drop"]),
        lookahead=fields["lookahead"],
        retention=Retention(fields["retention"]),
        interval=fields["interval"],
        checkpoints=fields["checkpoints"],
    )


def _fields_of_extra(extra: ExtraKey) -> dict[str, object]:
    return {"source": int(extra.source), "value": extra.value.hex(), "start": extra.start, "end": extra.end}


def _extra(fields: Mapping[str, Any]) -> ExtraKey:
    source = ExtraKeySource(fields["source"])
    return ExtraKey(source, bytes.fromhex(fields["value"]), fields["start"], fields["end"])
