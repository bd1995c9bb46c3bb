"""Pools and requests that the tests of the core begin with."""

from __future__ import annotations

from kvproof.gpu_backend import BlockPool
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HashAlgorithm, HolderMode, PoolConfig, Residency

FULL = GroupConfig(GroupKind.FULL_ATTENTION, 4)


def config(
    blocks: int = 9,
    algorithm: HashAlgorithm = HashAlgorithm.XXH3_128,
    holders: HolderMode = HolderMode.NAMED,
    commit: CommitMode = CommitMode.IMMEDIATE,
    residency: Residency = Residency.LOGICAL,
) -> PoolConfig:
    return PoolConfig(blocks, 2, (FULL,), algorithm, b"seed", residency, holders, commit)


def full_pool(blocks: int = 9) -> BlockPool:
    """A pool whose blocks are all free and cached, by the request r1."""
    pool = BlockPool(config(blocks))
    request = pool.request("r1", list(range(4 * (blocks - 1))))
    taken = pool.allocate(blocks - 1, "r1")
    pool.cache_full_blocks(request, taken, 0, blocks - 1, 0)
    pool.free(taken, "r1")
    return pool
