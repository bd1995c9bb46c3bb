"""What the groups of a model need of a request at a position (clauses GROUP-*, HIT-ATTENTION-1, HIT-WINDOW-1)."""

from __future__ import annotations

import math

from kvproof.spec.errors import InvalidArgument
from kvproof.spec.vocabulary import GroupConfig, GroupKind, HybridConfig, PoolConfig


def floor_to(n: int, unit: int) -> int:
    """The greatest multiple of `unit` that is at most n."""
    return n // unit * unit


def slots_up_to(n: int, block_size: int) -> int:
    """How many slots the first n tokens lie in."""
    return -(-n // block_size)


def hybrid_of(config: PoolConfig) -> HybridConfig:
    """The hybrid settings of a pool. Raises InvalidArgument if it has none (GROUP-CONFIG-1)."""
    if config.hybrid is None:
        raise InvalidArgument("the pool has no hybrid settings; configure it with hybrid to run requests over it")
    return config.hybrid


def alignment(config: PoolConfig) -> int:
    """A, in tokens: the unit of joint hits (GROUP-ALIGN-1)."""
    if hybrid_of(config).fine_grained:
        return config.hash_block_size
    return math.lcm(*[group.block_size for group in config.groups])


def recurrent_block_size(config: PoolConfig) -> int | None:
    """The least common multiple of the recurrent groups' block sizes, None if there is no such group."""
    sizes = [group.block_size for group in config.groups if group.kind is GroupKind.RECURRENT]
    return math.lcm(*sizes) if sizes else None


def drops(config: PoolConfig, group: int) -> bool:
    """Whether the group has a speculative drop."""
    return group in hybrid_of(config).drop


def first_needed_row(group: GroupConfig, n: int) -> int:
    """The first token whose row an attention group reads to go on from n tokens."""
    return 0 if group.window is None else max(0, n - group.window + 1)


def first_needed_slot(group: GroupConfig, n: int) -> int:
    """The first slot that a request needs to go on from n tokens; those before it can go (ADVANCE-LETGO-1)."""
    if group.kind is GroupKind.RECURRENT:
        return max(0, n - 1) // group.block_size
    return first_needed_row(group, n) // group.block_size
