"""Hypothesis strategies for operations that are mostly wrong: near misses and junk in every field."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Advance,
    Allocate,
    Append,
    Attach,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Contains,
    Copy,
    Evict,
    Extra,
    Fail,
    Find,
    Finish,
    Free,
    FullKey,
    Hashes,
    KeyRef,
    Lookup,
    Match,
    Move,
    Operation,
    Read,
    Release,
    Reset,
    Rollback,
    Split,
    Touch,
    Truncate,
    Write,
)
from kvproof.spec.vocabulary import COPY_PREFIX, MAX_TOKEN, POOL_COPY_PREFIX, PoolConfig

HUGE = 10**30

JUNK: st.SearchStrategy[Any] = st.builds(object) | st.sampled_from(
    (None, True, False, 0.5, float("nan"), -1, HUGE, -HUGE, "", "x", "\ud800", b"", b"\x00" * 36, (), [], {}, (0,))
)
"""Values that no field or hardly any field can take."""


def operations(config: PoolConfig, names: tuple[str, ...]) -> st.SearchStrategy[Operation]:
    """Operations of every sort on a pool with these requests, few of them legal. Fields are junk now and then."""
    near = _NearMisses(config, names)
    return st.one_of(
        st.builds(AddRequest, near.name, near.tokens, near.extras),
        st.builds(Append, near.name, near.tokens),
        st.builds(Truncate, near.name, near.number),
        st.builds(Allocate, near.name, near.number),
        st.builds(Touch, near.name, near.block, near.key),
        st.builds(Free, near.name, near.blocks),
        st.builds(Lookup, _list_of(near.key)),
        st.builds(Find, _list_of(near.key)),
        st.builds(Contains, near.key, near.block),
        st.builds(FullKey, near.block),
        st.builds(Hashes, near.name),
        st.builds(
            CacheFullBlocks, near.name, near.blocks, near.number, near.number, near.group, near.mask, near.replace
        ),
        st.builds(CachePartialBlock, near.name, near.block, near.position, near.group, near.replace),
        st.builds(Evict, near.blocks),
        st.builds(Move, near.block, near.block),
        st.builds(Write, near.name, near.block, near.position, near.group),
        st.builds(Copy, near.name, near.block, near.block),
        st.builds(Read, near.name, near.block),
        st.just(Reset()),
        st.just(BeginStep()),
        st.builds(Commit, near.number),
        st.builds(Attach, near.name, near.block, near.key),
        st.builds(Rollback, _list_of(near.name)),
        st.builds(Finish, near.name, near.blocks),
        st.builds(Match, near.name),
        st.builds(Split, near.name, near.number, near.number, near.number, near.number),
        st.builds(Admit, near.name, near.position),
        st.builds(Advance, near.name, near.position),
        st.builds(Release, near.name),
        st.builds(Fail, near.number),
    )


class _NearMisses:
    """For each sort of field values that are right, one step beside right, or junk."""

    def __init__(self, config: PoolConfig, names: tuple[str, ...]) -> None:
        longest = 2 * max(group.block_size for group in config.groups)
        self.name = _spiced(st.sampled_from([*names, "nobody", f"{COPY_PREFIX}1", f"{POOL_COPY_PREFIX}1:2"]))
        self.block = _spiced(st.integers(-1, config.num_blocks))
        self.blocks = _list_of(self.block)
        self.number = _spiced(st.integers(-1, config.num_blocks + 1))
        self.position = _spiced(st.integers(-1, longest + 1))
        self.group = _spiced(st.integers(0, 7).map(lambda pick: max(-1, pick - 6) if pick > 5 else 0))
        self.key = _spiced(st.builds(KeyRef, self.name, self.group, self.position))
        self.tokens = _list_of(_spiced(st.integers(0, 2) | st.sampled_from([MAX_TOKEN, MAX_TOKEN + 1])))
        self.mask = _spiced(st.none() | _list_of(_spiced(st.booleans())))
        self.replace = _spiced(st.booleans())
        source = _spiced(st.sampled_from(["adapter", "salt", "media", "embedding", "colour"]))
        extra = st.builds(Extra, source, _spiced(st.text(max_size=2)), self.number, st.none() | self.number)
        self.extras = _list_of(_spiced(extra))


def _spiced(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly these values, now and then junk."""
    return st.integers(0, 15).flatmap(lambda pick: JUNK if pick == 15 else values)


def _list_of(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return _spiced(st.lists(items, max_size=4).map(tuple))
