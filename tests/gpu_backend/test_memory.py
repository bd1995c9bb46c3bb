"""Paged memory: what lies where, copies that are simultaneous, bad input that changes nothing, an engine on top."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kvproof.gpu_backend import BlockPool, OutOfMemory, PagedMemory, RowLayout, block_tables, queued_copies
from kvproof.spec.errors import InvalidArgument, InvalidBlock, InvalidGroup, OutOfRange
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, PoolConfig

ATTENTION, STATE, WINDOW = 0, 1, 2
CONFIG = PoolConfig(
    7,
    2,
    (
        GroupConfig(GroupKind.FULL_ATTENTION, 4),
        GroupConfig(GroupKind.RECURRENT, 4),
        GroupConfig(GroupKind.SLIDING_WINDOW, 2, 6),
    ),
    commit=CommitMode.STEPS,
)
LAYOUTS = (RowLayout(torch.bfloat16, 3, 2), RowLayout(torch.float32, 5), RowLayout(torch.int64, 1))
ABSENT = "cuda:99"


@pytest.fixture
def memory() -> PagedMemory:
    """Pages that are all different."""
    memory = PagedMemory(CONFIG, LAYOUTS)
    memory.pages()[:] = torch.arange(7, dtype=torch.uint8)[:, None]
    return memory


def held(memory: PagedMemory) -> list[int]:
    """What fills each page."""
    pages = memory.pages()
    assert bool((pages == pages[:, :1]).all())
    filled: list[int] = pages[:, 0].tolist()
    return filled


def test_memory_is_zero_to_begin_with_and_views_have_the_shapes_that_kernels_want() -> None:
    memory = PagedMemory(CONFIG, LAYOUTS)
    assert [memory.view(group).shape for group in range(3)] == [(7, 2, 4, 3), (7, 1, 5), (7, 1, 2, 1)]
    assert [memory.view(group).dtype for group in range(3)] == [torch.bfloat16, torch.float32, torch.int64]
    assert memory.page_bytes == 64
    assert memory.pages().count_nonzero() == 0


def test_views_share_the_pages_and_a_page_is_as_large_as_the_largest_group_needs() -> None:
    memory = PagedMemory(CONFIG, (RowLayout(torch.int8, 1), RowLayout(torch.int64, 100), RowLayout(torch.int16, 1)))
    assert memory.page_bytes == 832
    memory.view(STATE)[3] = -1
    assert memory.pages()[3].count_nonzero() == 800
    assert memory.pages()[[0, 1, 2, 4, 5, 6]].count_nonzero() == 0


def test_rows_are_written_where_they_belong_and_nowhere_else() -> None:
    memory = PagedMemory(CONFIG, LAYOUTS)
    values = torch.arange(1, 13).reshape(2, 2, 3).bfloat16()
    memory.write(ATTENTION, 5, values, 1)
    assert torch.equal(memory.view(ATTENTION)[5, :, 1:3], values)
    assert torch.equal(memory.read(ATTENTION, 5)[:, 1:3], values)
    assert memory.view(ATTENTION).count_nonzero() == 12
    memory.read(ATTENTION, 5).fill_(9)
    assert torch.equal(memory.view(ATTENTION)[5, :, 1:3], values)


def test_a_state_takes_the_place_of_the_old_one() -> None:
    memory = PagedMemory(CONFIG, LAYOUTS)
    for value in (3.0, 4.0):
        memory.write(STATE, 6, torch.full((1, 5), value))
    assert memory.read(STATE, 6).tolist() == [[4.0] * 5]
    assert memory.view(STATE).count_nonzero() == 5


@pytest.mark.parametrize(
    ("pairs", "after"),
    [
        ([], [0, 1, 2, 3, 4, 5, 6]),
        ([[1, 2]], [0, 1, 1, 3, 4, 5, 6]),
        ([[1, 2], [2, 1]], [0, 2, 1, 3, 4, 5, 6]),
        ([[1, 2], [2, 3], [3, 4]], [0, 1, 1, 2, 3, 5, 6]),
        ([[6, 1], [6, 2], [6, 1]], [0, 6, 6, 3, 4, 5, 6]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_copies_are_simultaneous(
    memory: PagedMemory, pairs: list[list[int]], after: list[int], dtype: torch.dtype
) -> None:
    memory.copy(torch.tensor(pairs, dtype=dtype).reshape(-1, 2))
    assert held(memory) == after


def test_what_is_written_may_lie_in_the_block_that_it_is_written_to() -> None:
    memory = PagedMemory(CONFIG, LAYOUTS)
    rows = torch.arange(24).reshape(2, 4, 3).bfloat16()
    memory.write(ATTENTION, 1, rows)
    memory.write(ATTENTION, 1, memory.view(ATTENTION)[1, :, :3], 1)
    assert torch.equal(memory.read(ATTENTION, 1), torch.cat((rows[:, :1], rows[:, :3]), 1))
    memory.write(ATTENTION, 1, memory.view(ATTENTION)[1, :, :1].expand(2, 4, 3))
    assert torch.equal(memory.read(ATTENTION, 1), rows[:, :1].expand(2, 4, 3))


def test_memory_keeps_numbers_and_no_graph_of_what_computed_them() -> None:
    memory = PagedMemory(CONFIG, LAYOUTS)
    memory.write(STATE, 1, torch.ones(1, 5, requires_grad=True) * 2)
    assert not memory.view(STATE).requires_grad
    assert not memory.read(STATE, 1).requires_grad
    assert memory.view(STATE).numpy()[1].tolist() == [[2.0] * 5]


def test_memory_that_was_made_in_inference_mode_is_written_and_copied_outside() -> None:
    with torch.inference_mode():
        memory = PagedMemory(CONFIG, LAYOUTS)
        memory.write(STATE, 1, torch.ones(1, 5))
    memory.write(STATE, 2, torch.ones(1, 5))
    memory.copy(torch.tensor([[1, 3]]))
    assert memory.view(STATE)[1:4].tolist() == [[[1.0] * 5]] * 3


# Bad input


class Mute(torch.Tensor):
    """A tensor that takes part in nothing."""

    @classmethod
    def __torch_function__(cls, func: object, types: object, args: object = (), kwargs: object = None) -> object:
        return NotImplemented


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda memory: memory.view(3), InvalidGroup),
        (lambda memory: memory.view(-1), InvalidGroup),
        (lambda memory: memory.view(True), InvalidArgument),
        (lambda memory: memory.read(STATE, 0), InvalidBlock),
        (lambda memory: memory.read(STATE, 7), InvalidBlock),
        (lambda memory: memory.read(STATE, "1"), InvalidArgument),
        (lambda memory: memory.write(STATE, -1, torch.zeros(1, 5)), InvalidBlock),
        (lambda memory: memory.write(STATE, 1, torch.zeros(5)), InvalidArgument),
        (lambda memory: memory.write(STATE, 1, torch.zeros(1, 4)), InvalidArgument),
        (lambda memory: memory.write(STATE, 1, torch.zeros(1, 5, dtype=torch.int32)), InvalidArgument),
        (lambda memory: memory.write(STATE, 1, torch.zeros(1, 5, device="meta")), InvalidArgument),
        (lambda memory: memory.write(STATE, 1, [[0.0] * 5]), InvalidArgument),
        (lambda memory: memory.write(STATE, 1, torch.zeros(1, 5), 1), OutOfRange),
        (lambda memory: memory.write(ATTENTION, 1, torch.zeros(2, 5, 3).bfloat16()), OutOfRange),
        (lambda memory: memory.write(ATTENTION, 1, torch.zeros(2, 2, 3).bfloat16(), 3), OutOfRange),
        (lambda memory: memory.write(ATTENTION, 1, torch.zeros(2, 1, 3).bfloat16(), -1), OutOfRange),
        (lambda memory: memory.write(STATE, 1, torch.zeros(1, 5).to_sparse()), InvalidArgument),
        (lambda memory: memory.write(STATE, 1, torch.nested.nested_tensor([torch.zeros(5)])), InvalidArgument),
        (lambda memory: memory.write(STATE, 1, torch.zeros(1, 5).as_subclass(Mute)), InvalidArgument),
        (lambda memory: memory.copy(torch.tensor([[1, 2]]).to_sparse()), InvalidArgument),
        (lambda memory: memory.copy(torch.tensor([[1, 2]]).as_subclass(Mute)), InvalidArgument),
        (lambda memory: memory.copy([[1, 2]]), InvalidArgument),
        (lambda memory: memory.copy(torch.tensor([[1.0, 2.0]])), InvalidArgument),
        (lambda memory: memory.copy(torch.tensor([1, 2])), InvalidArgument),
        (lambda memory: memory.copy(torch.tensor([[1, 2, 3]])), InvalidArgument),
        (lambda memory: memory.copy(torch.tensor([[1, 2]], device="meta")), InvalidArgument),
        (lambda memory: memory.copy(torch.tensor([[1, 2], [0, 3]])), InvalidBlock),
        (lambda memory: memory.copy(torch.tensor([[1, 2], [3, 7]])), InvalidBlock),
        (lambda memory: memory.copy(torch.tensor([[1, 2], [-1, 3]])), InvalidBlock),
        (lambda memory: memory.copy(torch.tensor([[1, 2], [3, 2]])), InvalidBlock),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_is_wrong_is_refused_and_changes_nothing(
    memory: PagedMemory, call: Callable[[PagedMemory], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        call(memory)
    assert held(memory) == [0, 1, 2, 3, 4, 5, 6]
    memory.copy(torch.tensor([[1, 2]]))
    assert held(memory) == [0, 1, 1, 3, 4, 5, 6]


@pytest.mark.parametrize("device", [ABSENT, "nowhere", "meta", "cpu:x", None, 3])
def test_a_device_that_is_not_here_is_refused(device: object) -> None:
    with pytest.raises(InvalidArgument, match=r"use 'cpu'|must be 'cpu' or 'cuda'"):
        PagedMemory(CONFIG, LAYOUTS, device)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"use 'cpu'|must be 'cpu' or 'cuda'"):
        block_tables([[1]], 7, device)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layouts", "error"),
    [
        (LAYOUTS[:2], InvalidArgument),
        (None, InvalidArgument),
        ((*LAYOUTS[:2], "int64"), InvalidArgument),
        ((*LAYOUTS[:2], RowLayout("int64", 1)), InvalidArgument),  # type: ignore[arg-type]
        ((*LAYOUTS[:2], RowLayout(torch.qint8, 1)), InvalidArgument),
        ((*LAYOUTS[:2], RowLayout(torch.quint4x2, 1)), InvalidArgument),
        ((*LAYOUTS[:2], RowLayout(torch.uint4, 1)), InvalidArgument),  # type: ignore[attr-defined]
        ((*LAYOUTS[:2], RowLayout(torch.int64, 0)), OutOfRange),
        ((*LAYOUTS[:2], RowLayout(torch.int64, 1, True)), InvalidArgument),
        ((*LAYOUTS[:2], RowLayout(torch.int64, 2**42)), OutOfMemory),
        ((*LAYOUTS[:2], RowLayout(torch.int64, 2**62)), OutOfMemory),
    ],
)
def test_layouts_that_cannot_be_are_refused(layouts: tuple[RowLayout, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        PagedMemory(CONFIG, layouts)


def test_a_copy_for_which_there_is_no_room_changes_nothing(
    memory: PagedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> torch.Tensor:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "index_select", no_room)
        with pytest.raises(OutOfMemory, match="do not fit"):
            memory.copy(torch.tensor([[1, 2]]))
    assert held(memory) == [0, 1, 2, 3, 4, 5, 6]
    memory.copy(torch.tensor([[1, 2]]))
    assert held(memory) == [0, 1, 1, 3, 4, 5, 6]


FAULTS = [RuntimeError("CUDA error: an illegal memory access was encountered"), NotImplementedError("index_select")]


@pytest.mark.parametrize("fault", FAULTS, ids=["cuda", "not implemented"])
def test_only_a_lack_of_memory_is_told_as_one(
    memory: PagedMemory, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fail(*_: object, **__: object) -> torch.Tensor:
        raise fault

    monkeypatch.setattr(torch.Tensor, "index_select", fail)
    with pytest.raises(type(fault), match=str(fault)) as raised:
        memory.copy(torch.tensor([[1, 2]]))
    assert raised.value is fault
    monkeypatch.setattr(torch, "zeros", fail)
    with pytest.raises(type(fault)) as raised:
        PagedMemory(CONFIG, LAYOUTS)
    assert raised.value is fault


def test_a_device_without_room_is_told_as_one(memory: PagedMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.Tensor, "index_select", no_room)
    with pytest.raises(OutOfMemory, match=r"1 pages of 64 bytes do not fit: CUDA out of memory"):
        memory.copy(torch.tensor([[1, 2]]))


# Tables


def test_block_tables_are_padded_with_the_null_block() -> None:
    tables = block_tables([[3, 1], [], (6, 5, 4)], 7)
    assert tables.dtype == torch.int32
    assert tables.tolist() == [[3, 1, 0], [0, 0, 0], [6, 5, 4]]
    assert block_tables([], 7).shape == (0, 0)
    assert block_tables([[], []], 7).shape == (2, 0)


@pytest.mark.parametrize(
    ("tables", "num_blocks", "error"),
    [
        ([[7]], 7, InvalidBlock),
        ([[-1]], 7, InvalidBlock),
        ([[True]], 7, InvalidArgument),
        ([1], 7, InvalidArgument),
        (None, 7, InvalidArgument),
        ([[1]], 0, OutOfRange),
    ],
)
def test_tables_of_what_are_no_blocks_are_refused(tables: object, num_blocks: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        block_tables(tables, num_blocks)  # type: ignore[arg-type]


def test_the_copies_of_a_step_are_those_that_the_pool_queued_in_it() -> None:
    pool = BlockPool(CONFIG)
    request = pool.request("r1", [1, 2, 3, 4])
    assert queued_copies(pool).tolist() == []
    pool.begin_step()
    pool.allocate(3, "r1")
    pool.write(request, 1, 4, ATTENTION)
    pool.cache_full_blocks(request, [1], 0, 1, ATTENTION)
    pool.copy(1, 2, "r1")
    pool.begin_step()
    assert queued_copies(pool).tolist() == []
    pool.allocate(1, "copy:1")
    pool.copy(2, 3, "r1")
    pool.move(1, 4)
    assert queued_copies(pool).tolist() == [[2, 3], [1, 4]]
    pool.commit(1)
    assert queued_copies(pool).tolist() == [[2, 3], [1, 4]]
    pool.commit(2)
    assert queued_copies(pool).tolist() == []
