"""The arena: one int32 tensor that holds the whole state of a pool, and named views of it."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kvproof.gpu_backend import _core

HEADER, REGIONS = _core.layout()
"""Where each number of the header stands, and the number of each region."""

BLOCK_FIELDS = ("references", "place", "first_entry", "group", "slot", "writer", "readers", "born", "writer_kept")
ENTRY_FIELDS = ("block", "next_in_bucket", "next_of_key", "previous_of_key", "next_of_block", "position")
READER_FIELDS = ("holder", "next", "position", "attached", "kept")
PENDING_FIELDS = ("entry", "position", "step", "owner", "text", "call", "order", "is_fresh")

NONE = -1
"""No row, no block, no group, no slot."""


def new_arena(words: int) -> torch.Tensor:
    """Memory for an arena. Raises MemoryError if there is none."""
    try:
        return torch.zeros(words, dtype=torch.int32)
    except RuntimeError as error:  # so torch says that memory is short
        raise MemoryError(f"an arena of {4 * words:,} bytes does not fit into memory: {error}") from None


class Views(NamedTuple):
    """Views of an arena: they share its memory, and show the pool as it is until the arena grows."""

    header: torch.Tensor
    """64-bit numbers; `HEADER` says what stands where."""
    groups: torch.Tensor
    blocks: torch.Tensor
    """A row for each block; the columns are `BLOCK_FIELDS`, as many of them as the pool's modes need."""
    ring: torch.Tensor
    buckets: torch.Tensor
    entries: torch.Tensor
    """A row for each entry: its digest, then `ENTRY_FIELDS`."""
    readers: torch.Tensor
    """A row for each reader: `READER_FIELDS`, then the digest that it was served."""
    pendings: torch.Tensor
    dependencies: torch.Tensor
    admissions: torch.Tensor
    copies: torch.Tensor


def views_of(arena: torch.Tensor) -> Views:
    """The named views of an arena."""
    header = arena[: _header_words()].view(torch.int64)
    digest_words = int(header[HEADER["digest_words"]])

    def region(name: str, columns: int) -> torch.Tensor:
        number = REGIONS[name]
        at, rows = int(header[HEADER["offset"] + number]), int(header[HEADER["rows"] + number])
        return arena[at : at + rows * columns].view(rows, columns)

    return Views(
        header,
        region("groups", 4),
        region("blocks", int(header[HEADER["words_of_block"]])),
        region("ring", 1)[:, 0],
        region("buckets", 1)[:, 0],
        region("entries", digest_words + len(ENTRY_FIELDS)),
        region("readers", len(READER_FIELDS) + digest_words),
        region("pendings", len(PENDING_FIELDS)),
        region("dependencies", 3),
        region("admissions", 2),
        region("copies", 4),
    )


def _header_words() -> int:
    """How many 32-bit words the header has: its names, of which two are lists with an item for each region."""
    return 2 * (max(HEADER.values()) + 1)
