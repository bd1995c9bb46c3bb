"""Checks of what is not on the hot path: configurations, names, numbers (ERR-TYPE-1, POOL-CONFIG-1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from kvproof.gpu_backend.refusals import shown
from kvproof.spec.errors import InvalidArgument, InvalidGroup, NotAligned, OutOfRange
from kvproof.spec.vocabulary import (
    CommitMode,
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
MAX_GROUPS = 2**16
MAX_POSITION = 2**63 - 1

MODES = {
    "hash_algorithm": HashAlgorithm,
    "residency": Residency,
    "holders": HolderMode,
    "commit": CommitMode,
}


def check_int(what: str, value: object, low: int, high: int | None) -> int:
    """Return a plain integer within its limits."""
    if type(value) is not int:
        raise InvalidArgument(f"{what} must be an integer, not {shown(value)}")
    if value < low or (high is not None and value > high):
        raise OutOfRange(f"{what} is {shown(value)}; {_allowed(low, high)}")
    return value


def _allowed(low: int, high: int | None) -> str:
    if high is None:
        return f"allowed is {low} or more"
    return f"allowed is {low} to {high}" if low <= high else "there is nothing that would be allowed here"


def check_name(what: str, value: object) -> str:
    """Return a plain non-empty string."""
    if type(value) is not str or not value:
        raise InvalidArgument(f"{what} must be a non-empty string, not {shown(value)}")
    return value


def check_list(what: str, value: object) -> Sequence[object]:
    """Return a plain list or tuple."""
    if type(value) not in (list, tuple):
        raise InvalidArgument(f"{what} must be a list or tuple, not {shown(value)}")
    return cast("Sequence[object]", value)


def check_config(config: object) -> PoolConfig:
    """Return a configuration that a pool can be made of (POOL-CONFIG-1)."""
    if not isinstance(config, PoolConfig):
        raise InvalidArgument(f"config must be a PoolConfig, not {shown(config)}")
    check_int("num_blocks", config.num_blocks, 1, MAX_BLOCKS)
    check_int("hash_block_size", config.hash_block_size, 1, MAX_POSITION)
    if not isinstance(config.groups, tuple) or not 1 <= len(config.groups) <= MAX_GROUPS:
        raise InvalidArgument(f"groups must be a tuple of 1 to {MAX_GROUPS} GroupConfig")
    for group in config.groups:
        _check_group(group, config.hash_block_size)
    for field, modes in MODES.items():
        if not isinstance(getattr(config, field), modes):
            raise InvalidArgument(f"{field} must be a {modes.__name__}, not {shown(getattr(config, field))}")
    if config.commit is CommitMode.STEPS and config.holders is not HolderMode.NAMED:
        raise InvalidArgument("with commit=steps holders must be named: a rollback needs to know who reserved a key")
    if config.hash_seed is not None and type(config.hash_seed) is not bytes:
        raise InvalidArgument(f"hash_seed must be bytes or None, not {shown(config.hash_seed)}")
    if config.hybrid is not None:
        _check_hybrid(config.hybrid, config)
    return config


def _check_group(group: object, h: int) -> None:
    if not isinstance(group, GroupConfig) or not isinstance(group.kind, GroupKind):
        raise InvalidArgument(f"a group must be a GroupConfig with a GroupKind, not {shown(group)}")
    if check_int("block_size", group.block_size, 1, MAX_POSITION) % h:
        raise NotAligned(f"block_size is {group.block_size}; it must be a multiple of the hash block size {h}")
    if group.kind is GroupKind.SLIDING_WINDOW:
        check_int("window", group.window, 1, MAX_POSITION)
    elif group.window is not None:
        raise InvalidArgument(f"only a sliding-window group has a window, not {group.kind.value}")


def _check_hybrid(hybrid: object, config: PoolConfig) -> None:
    """Whether requests can be run over these groups (GROUP-CONFIG-1)."""
    if not isinstance(hybrid, HybridConfig):
        raise InvalidArgument(f"hybrid must be a HybridConfig or None, not {shown(hybrid)}")
    if config.commit is not CommitMode.STEPS:
        raise InvalidArgument("hybrid settings need commit=steps: a state is read before the step that overwrites it")
    for what, value in (("fine_grained", hybrid.fine_grained), ("checkpoints", hybrid.checkpoints)):
        if not isinstance(value, bool):
            raise InvalidArgument(f"{what} must be True or False, not {shown(value)}")
    if hybrid.checkpoints and not hybrid.fine_grained:
        raise InvalidArgument("checkpoints need fine-grained hits: a state inside a block could not be found else")
    check_int("lookahead", hybrid.lookahead, 0, MAX_POSITION)
    _check_retention(hybrid, config.hash_block_size)
    _check_drop(hybrid.drop, config.groups)
    if math.lcm(*[group.block_size for group in config.groups]) > MAX_POSITION:
        raise OutOfRange("the least common multiple of the block sizes is above 2**63 - 1: nothing could be shared")


def _check_retention(hybrid: HybridConfig, h: int) -> None:
    if not isinstance(hybrid.retention, Retention):
        raise InvalidArgument(f"retention must be a Retention, not {shown(hybrid.retention)}")
    if hybrid.retention is not Retention.INTERVAL:
        if hybrid.interval is not None:
            raise InvalidArgument(f"only retention by intervals has an interval, not {hybrid.retention.value}")
    elif check_int("interval", hybrid.interval, 1, MAX_POSITION) % h:
        raise NotAligned(f"interval is {hybrid.interval}; it must be a multiple of the hash block size {h}")


def _check_drop(drop: object, groups: tuple[GroupConfig, ...]) -> None:
    if not isinstance(drop, tuple):
        raise InvalidArgument(f"drop must be a tuple of group indices, not {shown(drop)}")
    for index in drop:
        if type(index) is not int:
            raise InvalidArgument(f"a group index must be an integer, not {shown(index)}")
        if not 0 <= index < len(groups):
            raise InvalidGroup(f"drop names group {shown(index)}; groups are 0 to {len(groups) - 1}")
        if groups[index].kind is GroupKind.RECURRENT:
            raise InvalidArgument(f"drop names group {index}, which is recurrent; only attention groups drop")
    if list(drop) != sorted(set(drop)):
        raise InvalidArgument(f"drop must name each group once, in ascending order, not {shown(drop)}")
