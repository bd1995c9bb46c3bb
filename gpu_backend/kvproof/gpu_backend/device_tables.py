"""What a forward pass needs of a pool, as tensors: the copies of a step, and the block tables of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvproof.gpu_backend.arena import HEADER, column_of, header_of, region_of, width_of
from kvproof.gpu_backend.checks import check_int, check_list
from kvproof.gpu_backend.memory import check_device
from kvproof.gpu_backend.pool import BlockPool
from kvproof.gpu_backend.refusals import shown
from kvproof.spec.errors import InvalidArgument, InvalidBlock
from kvproof.spec.vocabulary import NULL_BLOCK


def queued_copies(pool: BlockPool) -> torch.Tensor:
    """The copies of the step that was begun last, as int32 [n, 2]: sources and targets in queued order (STEP-COPY-2).

    `copy` and `move` have queued them. They are done before the step's forward pass writes anything: give them to
    `PagedMemory.copy`. A pool that commits immediately queues none; there each copy is done when it is asked for.
    """
    header = header_of(pool.arena)
    num_copies, current = int(header[HEADER["num_copies"]]), int(header[HEADER["current"]])
    if num_copies == 0:  # so it is in most steps
        return torch.empty((0, 2), dtype=torch.int32)
    copies = pool.arena[region_of(pool.arena, "copies")].view(-1, width_of("copies"))[:num_copies]
    step, *ends = [column_of("copies", field) for field in ("step", "source", "target")]
    return copies[copies[:, step] == current][:, ends]


def block_tables(tables: Sequence[Sequence[int]], num_blocks: int, device: str = "cpu") -> torch.Tensor:
    """The block tables of a batch as int32 [requests, most slots] on a device, the null block behind shorter ones.

    Raises InvalidArgument (no block ids; a device that is not here), InvalidBlock and OutOfRange.
    """
    check_int("num_blocks", num_blocks, 1, 2**31 - 1)
    where = check_device(device)
    rows = [_check_table(table, num_blocks) for table in check_list("tables", tables)]
    slots = max(map(len, rows), default=0)
    padded = [[*row, *[NULL_BLOCK] * (slots - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.int32, device="cpu").reshape(len(rows), slots).to(where)


def _check_table(table: object, num_blocks: int) -> list[int]:
    blocks = []
    for block in check_list("a block table", table):
        if type(block) is not int:
            raise InvalidArgument(f"a block id must be an integer, not {shown(block)}")
        if not 0 <= block < num_blocks:
            raise InvalidBlock(f"there is no block {block}; block ids are 0 to {num_blocks - 1}")
        blocks.append(block)
    return blocks
