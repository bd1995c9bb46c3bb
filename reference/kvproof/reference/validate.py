"""Checks of single arguments; each raises the specification's typed error and says what is allowed (ERR-TYPE-1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

from kvproof.spec.errors import InvalidArgument, InvalidGroup, NotAligned, OutOfRange
from kvproof.spec.vocabulary import (
    MAX_TOKEN,
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

MAX_BLOCKS = 2**31 - 1
"""Block ids fit a signed 32-bit number, as every engine's block table stores them."""

MAX_GROUPS = 2**16
"""More groups than any model has; a request has a block table for each."""

MAX_POSITION = 2**63 - 1
"""Extra keys are hashed with 64-bit offsets (HASH-EXTRA-2)."""


SHOWN_CHARACTERS = 100
"""An error shows no more of a value than this."""


PLAIN = frozenset({int, str, bytes, list, tuple})
"""A value of a type that is made from one of these may look like one."""


def shown(value: object) -> str:
    """A value for the text of an error, whatever it is: an error must not fail on what it complains of."""
    kind = type(value)
    try:
        text = repr(value)
    except Exception:
        return f"a value of type {kind.__name__} that cannot be shown"
    looks_plain = kind is not bool and any(base in PLAIN for base in kind.__mro__[1:])
    shortened = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
    return f"{shortened} of type {kind.__name__}" if looks_plain else shortened


def check_index(what: str, value: object) -> int:
    """Return `value` if it is a plain integer, of any size.

    A subclass may compare, hash or show itself as it likes; so none is taken, bool included.
    """
    if type(value) is not int:
        raise InvalidArgument(f"{what} must be an integer, not {shown(value)}")
    return value


def check_int(what: str, value: object, low: int, high: int | None = None) -> int:
    """Return `value` if it is an integer with low <= value <= high; without `high` there is no upper limit."""
    number = check_index(what, value)
    if number < low or (high is not None and number > high):
        raise OutOfRange(f"{what} is {shown(number)}; {_allowed(low, high)}")
    return number


def _allowed(low: int, high: int | None) -> str:
    if high is None:
        return f"allowed is at least {low}"
    return f"allowed is {low} to {high}" if low <= high else "nothing is allowed here"


def check_bool(what: str, value: object) -> bool:
    """Return `value` if it is a bool."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{what} must be True or False, not {shown(value)}")
    return value


def check_name(what: str, value: object) -> str:
    """Return `value` if it is a plain non-empty string."""
    if type(value) is not str or not value:
        raise InvalidArgument(f"{what} must be a non-empty string, not {shown(value)}")
    return value


def check_list(what: str, value: object) -> Sequence[object]:
    """Return `value` if it is a plain list or tuple."""
    if type(value) not in (list, tuple):
        raise InvalidArgument(f"{what} must be a list or tuple, not {shown(value)}")
    return cast("Sequence[object]", value)


def check_position(what: str, value: object, hash_block_size: int) -> int:
    """Return `value` if it is a positive multiple of the hash block size (POS-ALIGN-1)."""
    position = check_int(what, value, 1)
    if position % hash_block_size:
        raise NotAligned(f"{what} is {shown(position)}; it must be a multiple of the hash block size {hash_block_size}")
    return position


def check_tokens(tokens: object) -> list[int]:
    """Return the tokens as a new list; each is an integer 0 <= t < 2**32 (HASH-TOKEN-1)."""
    return [check_int("a token", token, 0, MAX_TOKEN) for token in check_list("tokens", tokens)]


def check_extra_keys(extra_keys: object) -> tuple[ExtraKey, ...]:
    """Return the extra keys as a tuple; well-formed and without repetition (HASH-EXTRA-3)."""
    checked = tuple(_check_extra_key(extra) for extra in check_list("extra_keys", extra_keys))
    if len(set(checked)) != len(checked):
        raise InvalidArgument("extra_keys holds the same extra key twice; each may stand once")
    return checked


def _check_extra_key(extra: object) -> ExtraKey:
    if not isinstance(extra, ExtraKey):
        raise InvalidArgument(f"an extra key must be an ExtraKey, not {shown(extra)}")
    if not isinstance(extra.source, ExtraKeySource):
        raise InvalidArgument(f"an extra key's source must be an ExtraKeySource, not {shown(extra.source)}")
    if type(extra.value) is not bytes:
        raise InvalidArgument(f"an extra key's value must be bytes, not {shown(extra.value)}")
    check_int("an extra key's start", extra.start, 0, MAX_POSITION)
    if extra.end is not None:
        check_int("an extra key's end", extra.end, extra.start + 1, MAX_POSITION)
    return extra


def check_config(config: object) -> PoolConfig:
    """Return the configuration if a pool can be made of it (POOL-CONFIG-*)."""
    if not isinstance(config, PoolConfig):
        raise InvalidArgument(f"config must be a PoolConfig, not {shown(config)}")
    check_int("num_blocks", config.num_blocks, 1, MAX_BLOCKS)
    check_int("hash_block_size", config.hash_block_size, 1, MAX_POSITION)
    if not isinstance(config.groups, tuple) or not 1 <= len(config.groups) <= MAX_GROUPS:
        raise InvalidArgument(f"groups must be a tuple of 1 to {MAX_GROUPS} GroupConfig")
    for group in config.groups:
        _check_group(group, config.hash_block_size)
    for what, value, enum in (
        ("hash_algorithm", config.hash_algorithm, HashAlgorithm),
        ("residency", config.residency, Residency),
        ("holders", config.holders, HolderMode),
        ("commit", config.commit, CommitMode),
    ):
        if not isinstance(value, enum):
            raise InvalidArgument(f"{what} must be one of {_names(enum)}, not {shown(value)}")
    if config.commit is CommitMode.STEPS and config.holders is not HolderMode.NAMED:
        raise InvalidArgument("with commit=steps holders must be named: who reserved a key decides who takes it back")
    if config.hash_seed is not None and type(config.hash_seed) is not bytes:
        raise InvalidArgument(f"hash_seed must be bytes or None, not {shown(config.hash_seed)}")
    if config.hybrid is not None:
        _check_hybrid(config.hybrid, config)
    return config


def _check_hybrid(hybrid: object, config: PoolConfig) -> None:
    """The settings fit the groups (GROUP-CONFIG-1)."""
    if not isinstance(hybrid, HybridConfig):
        raise InvalidArgument(f"hybrid must be a HybridConfig or None, not {shown(hybrid)}")
    if config.commit is not CommitMode.STEPS:
        raise InvalidArgument("hybrid settings need commit=steps: a key is published when its chunk is computed")
    check_bool("fine_grained", hybrid.fine_grained)
    if check_bool("checkpoints", hybrid.checkpoints) and not hybrid.fine_grained:
        raise InvalidArgument("checkpoints inside a block need fine_grained hits, or nobody could use them")
    check_int("lookahead", hybrid.lookahead, 0, MAX_POSITION)
    _check_drop(hybrid.drop, config.groups)
    if not isinstance(hybrid.retention, Retention):
        raise InvalidArgument(f"retention must be one of {_names(Retention)}, not {shown(hybrid.retention)}")
    if hybrid.retention is Retention.INTERVAL:
        check_int("interval", check_position("interval", hybrid.interval, config.hash_block_size), 1, MAX_POSITION)
    elif hybrid.interval is not None:
        raise InvalidArgument(f"only {Retention.INTERVAL} has an interval, not {hybrid.retention}")
    common = math.lcm(*[group.block_size for group in config.groups])
    if common > MAX_POSITION:
        raise OutOfRange(f"the block sizes have {common} as least common multiple; allowed is at most {MAX_POSITION}")


def _check_drop(drop: object, groups: Sequence[GroupConfig]) -> None:
    if not isinstance(drop, tuple):
        raise InvalidArgument(f"drop must be a tuple of groups, not {shown(drop)}")
    chosen = [check_index("a group with a drop", group) for group in drop]
    for group in chosen:
        if not 0 <= group < len(groups):
            raise InvalidGroup(f"drop names group {shown(group)}; groups are 0 to {len(groups) - 1}")
    if chosen != sorted(set(chosen)):
        raise InvalidArgument(f"drop must name each group once, ascending, not {shown(drop)}")
    for group in chosen:
        if groups[group].kind is GroupKind.RECURRENT:
            raise InvalidArgument(f"group {group} is recurrent; only attention groups drop")


def _check_group(group: object, hash_block_size: int) -> None:
    if not isinstance(group, GroupConfig) or not isinstance(group.kind, GroupKind):
        raise InvalidArgument(f"a group must be a GroupConfig with a GroupKind, not {shown(group)}")
    check_int("block_size", check_position("block_size", group.block_size, hash_block_size), 1, MAX_POSITION)
    if group.kind is GroupKind.SLIDING_WINDOW:
        check_int("window", group.window, 1, MAX_POSITION)
    elif group.window is not None:
        raise InvalidArgument(f"only a sliding-window group has a window, not {group.kind.value}")


def _names(enum: Iterable[object]) -> str:
    return ", ".join(str(member) for member in enum)
