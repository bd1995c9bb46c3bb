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

GROUP_WORDS = 4
"""Block size (64 bits), kind, and a word that is not used."""

NONE = -1
"""No row, no block, no group, no slot."""


def new_arena(words: int) -> torch.Tensor:
    """Memory for an arena, which the core clears. Raises MemoryError if there is none."""
    try:
        return torch.empty(words, dtype=torch.int32)
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
    header = header_of(arena)
    digest_words = int(header[HEADER["digest_words"]])

    def region(name: str, columns: int) -> torch.Tensor:
        return arena[region_of(arena, name, columns)].view(-1, columns)

    return Views(
        header,
        region("groups", GROUP_WORDS),
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


def header_of(arena: torch.Tensor) -> torch.Tensor:
    """The numbers of an arena's header."""
    return arena[: 2 * (max(HEADER.values()) + 1)].view(torch.int64)


def region_of(arena: torch.Tensor, name: str, columns: int) -> slice:
    """The words of a region, whose rows have so many columns."""
    header, number = header_of(arena), REGIONS[name]
    at, rows = int(header[HEADER["offset"] + number]), int(header[HEADER["rows"] + number])
    return slice(at, at + rows * columns)
