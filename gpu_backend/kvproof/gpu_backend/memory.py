"""The memory behind the blocks: pages, and views of them as each group's rows and states (CONTENT-*).

A block is one page, whichever group uses it, as its number means the same in every group. So a copy is a copy of pages,
and all copies of a step are one gather and one scatter. A page is as large as the largest group needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from kvproof.gpu_backend.checks import check_config, check_int
from kvproof.gpu_backend.refusals import shown
from kvproof.spec.errors import InvalidArgument, InvalidBlock, InvalidGroup, OutOfRange, PoolError
from kvproof.spec.vocabulary import NULL_BLOCK, GroupConfig, GroupKind, PoolConfig

PAGE_ALIGNMENT = 64
"""Pages begin at multiples of so many bytes, which suits every number type."""

MOST_BYTES = 2**63 - 1
"""Offsets into a tensor are signed 64-bit numbers."""


class OutOfMemory(PoolError, MemoryError):
    """The device has no room for the pages, or for what a copy gathers; nothing has changed."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """What one token's row, or one state, of a group is: so many layers of `width` numbers of a type."""

    dtype: torch.dtype
    width: int
    layers: int = 1


class PagedMemory:
    """Memory for all blocks of a pool, zero to begin with; it belongs to the pool's configuration, not to one pool.

    `layouts` has one `RowLayout` for each group. `view` is what kernels write and read; `write`, `read` and `copy`
    check what they are given first. On "cuda" it has never been executed. Like a pool it has one owner, and no locks;
    `BlockPool.save` does not save it.
    """

    def __init__(self, config: PoolConfig, layouts: Sequence[RowLayout], device: str = "cpu") -> None:
        """Raises InvalidArgument (a layout; a device that is not here), OutOfRange and OutOfMemory."""
        self._config = check_config(config)
        self.layouts = _check_layouts(layouts, len(config.groups))
        self.device = check_device(device)
        sizes = [_page_bytes(group, layout) for group, layout in zip(config.groups, self.layouts, strict=True)]
        self.page_bytes = -(-max(sizes) // PAGE_ALIGNMENT) * PAGE_ALIGNMENT
        with torch.inference_mode(False):  # else nobody could write to it outside that mode
            self._pages = _new_pages(config.num_blocks, self.page_bytes, self.device)
            self._views = [self._view_of(group) for group in range(len(self.layouts))]

    def view(self, group: int) -> torch.Tensor:
        """A group's memory: [blocks, layers, block_size, width] for rows, [blocks, layers, width] for states.

        It shares the pages. Raises InvalidGroup.
        """
        return self._views[self._check_group(group)]

    def pages(self) -> torch.Tensor:
        """All pages as bytes, [blocks, page_bytes]; whoever saves blocks elsewhere needs nothing else."""
        return self._pages

    def write(self, group: int, block_id: int, values: torch.Tensor, first: int = 0) -> None:
        """Put rows into a block from row `first` on, or a state in the place of the old one (CONTENT-WRITE-*).

        `values` is [layers, rows, width], or [layers, width] for a state; it may lie in this memory itself, and of what
        computed it nothing is kept. Whether the block may be written is the pool's to say. Raises InvalidGroup,
        InvalidBlock (null), InvalidArgument (no such tensor) and OutOfRange.
        """
        view = self.view(group)
        self._check_block(block_id)
        layout, is_state = self.layouts[group], self._is_recurrent(group)
        shape = (layout.layers, layout.width) if is_state else (layout.layers, -1, layout.width)
        values = _check_tensor("values", values, (layout.dtype,), self.device, shape).detach()
        if values.untyped_storage().data_ptr() == self._pages.untyped_storage().data_ptr():
            values = values.clone()
        if is_state:
            check_int("first", first, 0, 0)
            view[block_id] = values
            return
        block_size, rows = view.shape[2], values.shape[1]
        check_int("first", first, 0, block_size)
        if first + rows > block_size:
            raise OutOfRange(f"rows {first} to {first + rows - 1} do not fit into a block of {block_size} rows")
        view[block_id, :, first : first + rows] = values

    def read(self, group: int, block_id: int) -> torch.Tensor:
        """What lies in a block now, as that group's rows or state; a copy. Raises InvalidGroup and InvalidBlock."""
        view = self.view(group)
        return view[self._check_block(block_id)].clone()

    def copy(self, pairs: torch.Tensor) -> None:
        """Do copies that are simultaneous: all sources are read before a target is written (STEP-COPY-1).

        `pairs` is an integer tensor [n, 2] on the CPU, sources and targets, as `queued_copies` has them. The same pair
        may stand there twice. Raises InvalidArgument, InvalidBlock (null; two sources for one target) and OutOfMemory.
        """
        sources, targets = self._check_pairs(pairs)
        with _memory_for(f"{len(sources):,} pages of {self.page_bytes:,} bytes do not fit"):
            gathered = self._pages.index_select(0, sources)
        self._pages.index_copy_(0, targets, gathered)

    def _view_of(self, group: int) -> torch.Tensor:
        config, layout = self._config.groups[group], self.layouts[group]
        numbers = self._pages[:, : _page_bytes(config, layout)].view(layout.dtype)
        if config.kind is GroupKind.RECURRENT:
            return numbers.view(-1, layout.layers, layout.width)
        return numbers.view(-1, layout.layers, config.block_size, layout.width)

    def _is_recurrent(self, group: int) -> bool:
        return self._config.groups[group].kind is GroupKind.RECURRENT

    def _check_group(self, group: int) -> int:
        if type(group) is not int:
            raise InvalidArgument(f"group must be an integer, not {shown(group)}")
        if not 0 <= group < len(self.layouts):
            raise InvalidGroup(f"there is no group {group}; groups are 0 to {len(self.layouts) - 1}")
        return group

    def _check_block(self, block_id: int) -> int:
        if type(block_id) is not int:
            raise InvalidArgument(f"a block id must be an integer, not {shown(block_id)}")
        if block_id == NULL_BLOCK or not 0 <= block_id < self._config.num_blocks:
            raise InvalidBlock(f"{block_id} is no block with content; those are 1 to {self._config.num_blocks - 1}")
        return block_id

    def _check_pairs(self, pairs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sources and targets on the device, each pair once."""
        _check_tensor("pairs", pairs, (torch.int32, torch.int64), torch.device("cpu"), (-1, 2))
        last = self._config.num_blocks - 1
        if bool(((pairs <= NULL_BLOCK) | (pairs > last)).any()):
            raise InvalidBlock(f"blocks that are copied are 1 to {last}; given are {shown(pairs.tolist())}")
        once = torch.unique(pairs, dim=0) if len(pairs) > 1 else pairs
        if len(torch.unique(once[:, 1])) < len(once):
            raise InvalidBlock(f"a block is to get two contents at once: {shown(once.tolist())}")
        sources, targets = once.to(self.device, torch.int64).unbind(1)
        return sources, targets


def check_device(device: object) -> torch.device:
    """A device that is here. Raises InvalidArgument."""
    try:
        found = torch.device(device) if isinstance(device, str) else None
    except RuntimeError:
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise InvalidArgument(f"device must be 'cpu' or 'cuda', perhaps with a number, not {shown(device)}")
    if found.type == "cuda":
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (found.index or 0) >= there:
            raise InvalidArgument(f"there is no device {device!r}: torch sees {there} CUDA devices; use 'cpu'")
        return torch.device("cuda", torch.cuda.current_device() if found.index is None else found.index)
    return torch.device("cpu")


def _check_layouts(layouts: Sequence[RowLayout], groups: int) -> tuple[RowLayout, ...]:
    if not isinstance(layouts, list | tuple) or len(layouts) != groups:
        raise InvalidArgument(f"layouts must be a list of {groups} RowLayout, one a group, not {shown(layouts)}")
    for layout in layouts:
        if not isinstance(layout, RowLayout) or not isinstance(layout.dtype, torch.dtype):
            raise InvalidArgument(f"a layout must be a RowLayout with a dtype of torch, not {shown(layout)}")
        if not _can_be_stored(layout.dtype):
            raise InvalidArgument(f"{layout.dtype} must be a type whose numbers torch can view as bytes, and copy")
        check_int("width", layout.width, 1, MOST_BYTES)
        check_int("layers", layout.layers, 1, MOST_BYTES)
    return tuple(layouts)


def _page_bytes(group: GroupConfig, layout: RowLayout) -> int:
    rows = 1 if group.kind is GroupKind.RECURRENT else group.block_size
    return layout.layers * rows * layout.width * layout.dtype.itemsize


def _new_pages(blocks: int, page_bytes: int, device: torch.device) -> torch.Tensor:
    size = f"{blocks:,} pages of {page_bytes:,} bytes"
    if blocks * page_bytes > MOST_BYTES:
        raise OutOfMemory(f"{size} are more than a tensor can have; take fewer blocks, or smaller ones")
    with _memory_for(f"{size} do not fit on {device}; take fewer blocks, or smaller ones"):
        return torch.zeros(blocks, page_bytes, dtype=torch.uint8, device=device)


@contextmanager
def _memory_for(lacking: str) -> Iterator[None]:
    """Where torch says that memory is short, and only there, raise OutOfMemory."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error):
            raise OutOfMemory(f"{lacking}: {error}") from None
        raise


def _can_be_stored(dtype: torch.dtype) -> bool:
    """Whether numbers of the type can be written to bytes and copied; torch cannot do that with all types."""
    try:
        numbers = torch.empty(PAGE_ALIGNMENT, dtype=torch.uint8, device="cpu").view(dtype)
        numbers[:1] = numbers[1:2].clone()
    except RuntimeError:
        return False
    return True


def _check_tensor(
    what: str, value: object, dtypes: tuple[torch.dtype, ...], device: torch.device, shape: tuple[int, ...]
) -> torch.Tensor:
    """Refuse what is not such a tensor, with its numbers in memory; -1 in the shape is any length."""
    if (
        type(value) is torch.Tensor
        and value.layout == torch.strided
        and not value.is_nested
        and value.dtype in dtypes
        and value.device == device
        and value.dim() == len(shape)
        and all(want in (-1, length) for want, length in zip(shape, value.shape, strict=True))
    ):
        return value
    types = " or ".join(map(str, dtypes))
    wanted = f"a plain, dense tensor of {types} on {device} with the shape {list(shape)}, -1 being any length"
    raise InvalidArgument(f"{what} must be {wanted}, not {_described(value)}")


def _described(value: object) -> str:
    if type(value) is not torch.Tensor or value.is_nested:
        return shown(value)
    return f"one of {value.dtype}, {value.layout}, on {value.device} with the shape {list(value.shape)}"
