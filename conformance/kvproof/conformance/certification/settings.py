"""Which pools a backend is driven with: what it claims decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

from kvproof.conformance.backends.interface import Capabilities, Level
from kvproof.conformance.hybrid_scope import HybridScope
from kvproof.conformance.scope import Scope
from kvproof.conformance.walk import random_config, random_hybrid_config
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HashAlgorithm, HolderMode, PoolConfig


def algorithm_of(capabilities: Capabilities) -> HashAlgorithm:
    """The hash contract that the backend follows; one with hashes of its own is compared by names, so any will do."""
    named = [algorithm for algorithm in HashAlgorithm if algorithm.value in capabilities.hashes]
    return named[0] if named else HashAlgorithm.SHA256


def commit_modes(capabilities: Capabilities) -> list[CommitMode]:
    """The commit modes that it claims; steps are a level of their own."""
    return [m for m in capabilities.commit if m is CommitMode.IMMEDIATE or Level.STEPS in capabilities.levels]


def plain_pool(capabilities: Capabilities) -> PoolConfig:
    """A pool of the first kind that the backend claims, in the first of each of its modes."""
    kind = capabilities.group_kinds[0]
    return PoolConfig(
        num_blocks=4,
        hash_block_size=2,
        groups=(GroupConfig(kind, 4, 4 if kind is GroupKind.SLIDING_WINDOW else None),),
        hash_algorithm=algorithm_of(capabilities),
        hash_seed=b"",
        residency=capabilities.residency[0],
        holders=capabilities.holders[0],
        commit=capabilities.commit[0],
    )


def random_pool(capabilities: Capabilities, random: Random) -> PoolConfig:
    """A small pool of a kind that the backend claims."""
    drawn = random_config(random)
    commit = random.choice(commit_modes(capabilities))
    holders = HolderMode.NAMED if commit is CommitMode.STEPS else random.choice(capabilities.holders)
    groups = drawn.groups[: capabilities.most_groups]
    kinds = [random.choice(capabilities.group_kinds) for _ in groups]
    return replace(
        drawn,
        groups=tuple(
            replace(group, kind=kind, window=(group.window or 4) if kind is GroupKind.SLIDING_WINDOW else None)
            for group, kind in zip(groups, kinds, strict=True)
        ),
        hash_algorithm=algorithm_of(capabilities),
        hash_seed=b"",
        residency=random.choice(capabilities.residency),
        holders=holders,
        commit=commit,
    )


def random_hybrid_pool(capabilities: Capabilities, random: Random) -> PoolConfig:
    """A small pool over which requests run, of kinds that the backend claims."""
    drawn = random_hybrid_config(random, capabilities.group_kinds, capabilities.most_groups)
    return replace(
        drawn,
        hash_algorithm=algorithm_of(capabilities),
        hash_seed=b"",
        residency=random.choice(capabilities.residency),
    )


def scopes(capabilities: Capabilities) -> Iterator[Scope]:
    """Tiny pools in all claimed modes, to be driven through every state."""
    modes = product(commit_modes(capabilities), capabilities.holders, capabilities.residency, capabilities.group_kinds)
    for commit, holders, residency, kind in modes:
        anonymous = holders is HolderMode.CALLER
        if commit is CommitMode.IMMEDIATE:
            yield Scope(2, ("a", "aa"), 1, kind, residency=residency, anonymous=anonymous)
            yield Scope(1, ("a", "aa"), 2, kind, residency=residency, anonymous=anonymous)
            if "cache_partial_block" in capabilities.operations and kind is not GroupKind.RECURRENT:
                yield Scope(1, ("a", "aa"), 1, kind, 3, residency, anonymous=anonymous)
        elif not anonymous:
            yield Scope(1, ("a", "aa"), 1, kind, residency=residency, commit=commit)
            yield Scope(1, ("a",), 2, kind, residency=residency, commit=commit)


def hybrid_scopes(capabilities: Capabilities) -> Iterator[HybridScope]:
    """Tiny pools over which requests run, of kinds that are claimed."""
    attention = GroupConfig(GroupKind.FULL_ATTENTION, 1)
    window = GroupConfig(GroupKind.SLIDING_WINDOW, 1, 1)
    state = GroupConfig(GroupKind.RECURRENT, 1)
    for scope in (
        HybridScope(3, (attention, window, state), ("aa",)),
        HybridScope(2, (GroupConfig(GroupKind.FULL_ATTENTION, 2), GroupConfig(GroupKind.RECURRENT, 2)), ("aa",)),
        HybridScope(2, (GroupConfig(GroupKind.FULL_ATTENTION, 2),), ("aa",), truncates=True),
    ):
        if Level.HYBRID in capabilities.levels and is_claimed(scope.config, capabilities):
            yield scope


def is_claimed(config: PoolConfig, capabilities: Capabilities) -> bool:
    """Whether a backend with these claims can be asked for such a pool."""
    return (
        len(config.groups) <= capabilities.most_groups
        and all(group.kind in capabilities.group_kinds for group in config.groups)
        and config.residency in capabilities.residency
        and config.holders in capabilities.holders
        and config.commit in commit_modes(capabilities)
        and (config.hybrid is None or Level.HYBRID in capabilities.levels)
    )
