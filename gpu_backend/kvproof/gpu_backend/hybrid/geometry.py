"""Which slots of a group a request needs to go on, and which a chunk fills."""

from __future__ import annotations

import math

from kvproof.gpu_backend.refusals import shown
from kvproof.spec.errors import InvalidArgument
from kvproof.spec.vocabulary import GroupConfig, GroupKind, HybridConfig, PoolConfig


def floor(n: int, unit: int) -> int:
    """n rounded down to a multiple of the unit."""
    return n - n % unit


def slots_of(n: int, block_size: int) -> int:
    """How many slots n tokens reach into."""
    return -(-n // block_size)


class Geometry:
    """Positions, slots and alignments of a hybrid model; all sizes in tokens.

    `align` is where a request can begin (GROUP-ALIGN-1). `state_size` is where states are kept in common, the least
    common multiple of the recurrent groups' block sizes, 0 if there is none.
    """

    def __init__(self, config: PoolConfig) -> None:
        if config.hybrid is None:
            raise InvalidArgument(f"the pool has no hybrid settings, so it runs no requests: {shown(config)}")
        self.hybrid: HybridConfig = config.hybrid
        self.groups: tuple[GroupConfig, ...] = config.groups
        self.hash_block_size = config.hash_block_size
        recurrent = [group.block_size for group in self.groups if group.kind is GroupKind.RECURRENT]
        self.state_size = math.lcm(*recurrent) if recurrent else 0
        self.align = (
            self.hash_block_size if self.hybrid.fine_grained else math.lcm(*[group.block_size for group in self.groups])
        )

    @property
    def can_go_back(self) -> bool:
        """Whether requests can go back to where they were: a state that was overwritten is gone (BACK-ROLLBACK-1)."""
        return not self.state_size

    def is_recurrent(self, group: int) -> bool:
        """Whether the group keeps a state."""
        return self.groups[group].kind is GroupKind.RECURRENT

    def needed(self, group: int, n: int) -> range:
        """The slots that a request needs to go on from n tokens; n is inside the last one or at its end.

        All for full attention; those with the last rows of the window, and the one that n is inside; the one with the
        state (HIT-ATTENTION-1, HIT-WINDOW-1, HIT-RECURRENT-1).
        """
        settings = self.groups[group]
        size, end = settings.block_size, slots_of(n, settings.block_size)
        if settings.kind is GroupKind.RECURRENT:
            return range(max(0, end - 1), end)
        first_row = 0 if settings.window is None else max(0, n - settings.window + 1)
        return range(first_row // size, end)

    def new_slots(self, group: int, start: int, end: int) -> range:
        """The slots that a chunk needs blocks for, besides the one that its start is inside.

        A recurrent group needs one for the state at the end (ADVANCE-ATTENTION-1, ADVANCE-STATE-1).
        """
        size = self.groups[group].block_size
        last = slots_of(end, size)
        first = slots_of(start, size)
        return range(max(first, last - 1), last) if self.is_recurrent(group) else range(first, last)
