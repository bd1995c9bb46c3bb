"""The arena: one int32 tensor that holds the whole state of a pool, and named views of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from kvproof.gpu_backend import _core
from kvproof.gpu_backend.refusals import shown
from kvproof.spec.errors import InvalidArgument, PoolError

_HEADER, _REGIONS, _ROWS = _core.layout()

HEADER = {name: at for name, (at, _) in _HEADER.items()}
"""Where each number of the header stands; `seed`, `offset` and `rows` begin lists."""

REGIONS = dict(sorted(_REGIONS.items(), key=lambda region: region[1]))
"""The number of each region, ascending."""

HEADER_WORDS = 2 * sum(size for _, size in _HEADER.values())

FIELDS = {
    region: {name: row[name][1] for name in sorted(row, key=lambda name: row[name])} for region, row in _ROWS.items()
}
"""The fields of a row in each region, as they stand, with their words; a digest has as many as the pool's have."""

DIGEST = "digest"

NONE = -1
"""No row, no block, no group, no slot."""


Memory = npt.NDArray[np.int32]
"""What an arena lies in. It is no tensor's own: torch moves the memory of a tensor, as when a process shares it."""

WORD_BYTES = 4


def new_arena(words: int) -> Memory:
    """Memory for an arena, which the core clears. Raises MemoryError."""
    try:
        return np.empty(words, np.int32)
    except MemoryError as error:
        raise MemoryError(f"an arena of {WORD_BYTES * words:,} bytes does not fit into memory: {error}") from None


class StaleViews(PoolError):
    """The pool's state lies elsewhere: the pool has grown since its views were taken, or torch has moved them, as it
    does with what processes share. Take `pool.views()` again."""


class _View:
    """A part of an arena; it is given out only as long as the pool's state lies there."""

    def __init__(self, meaning: str) -> None:
        self.__doc__ = meaning

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, views: Views, owner: type) -> torch.Tensor:
        if not views.is_current(views.arena):
            raise StaleViews(
                f"{self._name} is not the pool's any more: it has grown, or they were moved; take pool.views() again"
            )
        return views.parts[self._name]


class Views:
    """Views of an arena: they share its memory. Once the pool has grown, or torch has moved one of them, each raises
    `StaleViews`.

    A tensor that was taken out before goes on to show the arena that the pool has left.
    """

    header = _View("64-bit numbers; `HEADER` says what stands where.")
    groups = _View("A row for each group. `FIELDS` says what stands in a row of each region.")
    blocks = _View("A row for each block, with as many of the fields as the pool's modes need.")
    ring = _View("The queue of free blocks.")
    buckets = _View("The first entry of each bucket.")
    entries = _View("A row for each entry.")
    readers = _View("A row for each reader, with the digest that it was served.")
    pendings = _View("A row for each entry that is not servable yet.")
    dependencies = _View("Who waits for whom, and in which step.")
    admissions = _View("Who registered in which step.")
    copies = _View("Copies of open steps.")

    def __init__(self, arena: torch.Tensor, is_current: Callable[[torch.Tensor], bool]) -> None:
        """View an arena. Raises InvalidArgument for a tensor that is none."""
        self.arena, self.is_current = check_arena(arena), is_current
        self.parts = {"header": header_of(arena)}
        header: list[int] = self.parts["header"].tolist()
        digest_words, words_of_block = header[HEADER["digest_words"]], header[HEADER["words_of_block"]]
        columns = {
            **{region: width_of(region, digest_words) for region in FIELDS},
            "blocks": words_of_block,
        }
        for name, width in columns.items():
            self.parts[name] = arena[_words_of(header, name, width)].view(-1, width)
        for name in ("ring", "buckets"):
            self.parts[name] = arena[_words_of(header, name, 1)]


def check_arena(arena: object) -> torch.Tensor:
    """Return a tensor that a pool's state can lie in. Raises InvalidArgument."""
    if not isinstance(arena, torch.Tensor):
        raise InvalidArgument(f"an arena must be a tensor, not {shown(arena)}")
    found = f"{arena.dtype} on {arena.device} of shape {tuple(arena.shape)}"
    if arena.dtype != torch.int32 or arena.device.type != "cpu" or arena.dim() != 1 or not arena.is_contiguous():
        raise InvalidArgument(f"an arena must be a contiguous vector of int32 on the CPU, not {found}")
    if arena.numel() < HEADER_WORDS or int(header_of(arena)[HEADER["words"]]) != arena.numel():
        raise InvalidArgument(f"an arena must begin with a header that says its size; this tensor is {found}")
    return arena


def header_of(arena: torch.Tensor) -> torch.Tensor:
    """The numbers of an arena's header."""
    return arena[:HEADER_WORDS].view(torch.int64)


def column_of(region: str, field: str, digest_words: int = 0) -> int:
    """Where a field begins in a row of a region, in a pool whose digests have so many words."""
    fields = FIELDS[region]
    before = list(fields)[: list(fields).index(field)]
    return sum(digest_words if name == DIGEST else fields[name] for name in before)


def width_of(region: str, digest_words: int = 0) -> int:
    """How many words a row of a region has; a row of `blocks` has less in pools that do not need all of it."""
    return sum(digest_words if name == DIGEST else words for name, words in FIELDS[region].items())


def region_of(arena: torch.Tensor, name: str) -> slice:
    """The words of a region, but for those of `blocks`, whose rows are shorter in some pools."""
    header: list[int] = header_of(arena).tolist()
    return _words_of(header, name, width_of(name, header[HEADER["digest_words"]]))


def _words_of(header: Sequence[int], name: str, columns: int) -> slice:
    at, rows = header[HEADER["offset"] + REGIONS[name]], header[HEADER["rows"] + REGIONS[name]]
    return slice(at, at + rows * columns)
