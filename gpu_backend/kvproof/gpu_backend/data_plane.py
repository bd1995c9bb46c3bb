"""The memory of a pool under certification (level D): a forward pass whose numbers come from the suite.

Work of a step is gathered, and done as an engine does it: all copies at once, then the writes. The suite may look at
any time; then what is there so far is done, and when more comes, the step is done again from the pages it began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from kvproof.gpu_backend.device_tables import queued_copies
from kvproof.gpu_backend.memory import PagedMemory, RowLayout
from kvproof.gpu_backend.pool import BlockPool
from kvproof.gpu_backend.refusals import shown
from kvproof.spec.errors import InvalidArgument
from kvproof.spec.vocabulary import CommitMode, GroupKind

LAYERS = 2

CELL = 1_000_003
"""A number lies in every cell of its row, plus so much for each cell before it: what was done in part is seen."""

TORN = -1
"""What is read of a row whose cells are not those of one number."""

NO_GROUP = -1

CPU = torch.device("cpu")


class _Write(NamedTuple):
    """What a forward pass leaves in a block, from row `first` on, when so many copies of the step were asked for."""

    block: int
    group: int
    values: torch.Tensor
    first: int
    num_copies: int


class DataPlane:
    """Pages for the blocks of a pool, written, copied and read as the suite says; the pool has checked it before."""

    def __init__(self, pool: BlockPool) -> None:
        config = pool.config
        layouts = [RowLayout(torch.int64, 1 + group % 2, LAYERS) for group in range(len(config.groups))]
        self._pool, self._memory = pool, PagedMemory(config, layouts)
        self._states = [group.kind is GroupKind.RECURRENT for group in config.groups]
        self._cells = [
            torch.arange(LAYERS * each.width, device=CPU).reshape(LAYERS, 1, each.width) * CELL for each in layouts
        ]
        self._groups = torch.full((config.num_blocks,), NO_GROUP, device=CPU)
        """For which group a block was written; it goes with the pages."""
        self._has_steps = config.commit is CommitMode.STEPS
        self._writes: list[_Write] = []
        self._done = (0, 0)
        """How many writes and copies of the step were done."""
        self._step = 0
        self._touched = torch.empty(0, dtype=torch.int64, device=CPU)
        self._before = self._kept(self._touched)

    def write(self, block: int, group: int, numbers: Sequence[int] | None, first: int = 0) -> None:
        """The forward pass leaves these numbers in a block: rows from `first` on, or the state. Raises InvalidArgument.

        If the step copies to this block later on, the write is void: somebody who gave the block back or was rolled
        back asked for it, or it was there before (STEP-COPY-3).
        """
        if numbers is None:
            return  # whoever says no numbers wants to read none
        try:
            values = torch.tensor(numbers, dtype=torch.int64, device=CPU).reshape(1, -1, 1) + self._cells[group]
        except (TypeError, ValueError, RuntimeError):
            raise InvalidArgument(f"rows must be a list of whole numbers, not {shown(numbers)}") from None
        if self._states[group]:
            values = values.squeeze(1)
        write = _Write(block, group, values, first, len(queued_copies(self._pool)))
        if self._has_steps:
            self._writes.append(write)
        else:
            self._write(write)

    def copy(self, src: int, dst: int) -> None:
        """The pool has agreed to a copy or a move; with steps it has queued it, and it is done with the step."""
        if not self._has_steps:
            self._copy(torch.tensor([[src, dst]], device=CPU))

    def read(self, block: int) -> list[int]:
        """The numbers in a block, from its first row on; none if nothing was written or copied there."""
        self.do_step()
        group = int(self._groups[block])
        if group == NO_GROUP:
            return []
        held = self._memory.read(group, block)
        values = (held.unsqueeze(1) if self._states[group] else held) - self._cells[group]
        numbers = values[0, :, 0]
        is_whole = (values == numbers[:, None]).all(2).all(0)
        read: list[int] = torch.where(is_whole, numbers, TORN).tolist()
        return read

    def begin_step(self, step: int) -> None:
        """The pool has begun a step, and `do_step` has done the one before, for good."""
        self._step = step
        self._forget()

    def commit(self, step: int) -> None:
        """The pool has committed a step; if it is the last one that was begun, `do_step` has done it for good."""
        if step == self._step:
            self._forget()

    def _forget(self) -> None:
        """What was done is done: nothing can take it back any more."""
        self._writes = []
        self._done = (0, len(queued_copies(self._pool)))
        self._touched = self._touched[:0]
        self._before = self._kept(self._touched)

    def do_step(self) -> None:
        """Do the work of the step that was begun last, as far as it is known; again, if there is more of it now."""
        copies = queued_copies(self._pool)
        if self._done == (len(self._writes), len(copies)):
            return
        self._restore()
        last = {int(target): number for number, target in enumerate(copies[:, 1])}
        writes = [write for write in self._writes if last.get(write.block, -1) < write.num_copies]
        written = torch.tensor([write.block for write in writes], dtype=torch.int64, device=CPU)
        self._touched = torch.unique(torch.cat((copies[:, 1], written)))
        self._before = self._kept(self._touched)
        self._copy(copies)
        for write in writes:
            self._write(write)
        self._done = (len(self._writes), len(copies))

    def _write(self, write: _Write) -> None:
        self._memory.write(write.group, write.block, write.values, write.first)
        self._groups[write.block] = write.group

    def _copy(self, pairs: torch.Tensor) -> None:
        self._memory.copy(pairs)
        self._groups[pairs[:, 1]] = self._groups[pairs[:, 0]]

    def _kept(self, blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The pages of blocks, and what they were written for, as they are now."""
        return self._memory.pages()[blocks], self._groups[blocks]

    def _restore(self) -> None:
        pages, groups = self._before
        self._memory.pages()[self._touched] = pages
        self._groups[self._touched] = groups
