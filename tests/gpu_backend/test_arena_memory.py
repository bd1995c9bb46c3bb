"""The memory of an arena is the pool's: neither torch's settings nor what others do to its tensors reach it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.multiprocessing as multiprocessing

from kvproof.gpu_backend import BlockPool, PagedMemory, RowLayout, StaleViews, block_tables, queued_copies
from kvproof.gpu_backend.data_plane import DataPlane
from kvproof.spec.vocabulary import CommitMode
from tests.gpu_backend.pools import config
from tests.gpu_backend.tools import script

CrampedPool = script("fuzz_core").CrampedPool


def use(pool: BlockPool) -> BlockPool:
    """Operations that make the pool grow, and copy."""
    pool.begin_step()
    taken = pool.allocate(5, "r1")
    pool.cache_full_blocks(pool.request("r1", list(range(20))), taken, 0, 4, 0)
    pool.copy(taken[0], taken[4], "r1")
    pool.check()
    return pool


@pytest.mark.parametrize("make", [lambda: BlockPool(config(commit=CommitMode.STEPS)), None], ids=["new", "grown"])
def test_a_pool_lies_on_the_cpu_whatever_torch_makes_tensors_on(make: Callable[[], BlockPool] | None) -> None:
    expected = use(CrampedPool(config(commit=CommitMode.STEPS)))
    with torch.device("meta"):
        pool = use(make() if make else CrampedPool(config(commit=CommitMode.STEPS)))
        assert pool.observe() == expected.observe()
        assert pool.arena.device == torch.device("cpu")
        assert BlockPool.restore(pool.save()).observe() == expected.observe()
        assert pool.views().blocks[1, 0] == 2


def test_what_a_forward_pass_needs_lies_on_the_device_that_was_named() -> None:
    pool = use(BlockPool(config(commit=CommitMode.STEPS)))
    with torch.device("meta"):
        assert block_tables([[1, 2], [3]], 9).tolist() == [[1, 2], [3, 0]]
        memory = PagedMemory(pool.config, [RowLayout(torch.int64, 1)])
        memory.write(0, 1, torch.arange(4, device="cpu").reshape(1, 4, 1))
        memory.copy(queued_copies(pool))
        assert memory.read(0, 5).flatten().tolist() == [0, 1, 2, 3]
        data = DataPlane(pool)
        data.write(1, 0, [7, 8, 9, 10])
        assert data.read(1) == [7, 8, 9, 10]


MOVES: dict[str, Callable[[BlockPool, torch.Tensor], object]] = {
    "share": lambda pool, arena: arena.share_memory_(),  # type: ignore[no-untyped-call]
    "queue": lambda pool, arena: multiprocessing.get_context("fork").SimpleQueue().put(arena),
    "set": lambda pool, arena: arena.set_(torch.zeros(1, dtype=torch.int32).untyped_storage()),
    "data": lambda pool, arena: setattr(arena, "data", torch.zeros(3, dtype=torch.int32)),
}
"""What torch does to a tensor so that it lies elsewhere afterwards."""


@pytest.mark.parametrize("move", MOVES)
def test_an_arena_that_torch_moves_elsewhere_is_not_the_pools_any_more(move: str) -> None:
    pool, alone = (use(BlockPool(config(commit=CommitMode.STEPS))) for _ in range(2))
    MOVES[move](pool, pool.arena)
    taken = [torch.full((10**5,), -7, dtype=torch.int32) for _ in range(20)]  # where freed memory would be
    assert pool.allocate(2, "r2") == alone.allocate(2, "r2")
    assert pool.observe() == alone.observe()
    assert pool.views().blocks[1, 0] == alone.views().blocks[1, 0]
    pool.check()
    assert len(taken) == 20


def test_views_whose_memory_was_shared_with_other_processes_are_stale() -> None:
    pool = use(BlockPool(config(commit=CommitMode.STEPS)))
    views = pool.views()
    views.blocks.share_memory_()  # type: ignore[no-untyped-call]
    with pytest.raises(StaleViews, match=r"blocks .* take pool.views\(\) again"):
        _ = views.blocks
    views.arena.zero_()
    pool.check()
    assert pool.views().blocks[1, 0] == 2
