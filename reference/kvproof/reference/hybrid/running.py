"""What the cache knows of a request that runs: its tables, and how far it is (clauses ADMIT-*, ADVANCE-*)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvproof.reference.hybrid.groups import first_needed_slot, slots_up_to
from kvproof.reference.observation import RunningState
from kvproof.reference.positions import slot_of
from kvproof.reference.request import Request
from kvproof.spec.vocabulary import NULL_BLOCK, GroupConfig, GroupKind, Holder


@dataclass(slots=True)
class Running:
    """A request that was admitted. `computed` is where its last scheduled chunk ends, `settled` its last committed one.

    A table has the block of each slot, 0 where nothing is kept.
    """

    request: Request
    groups: Sequence[GroupConfig]
    junction: int
    computed: int
    tables: list[list[int]]
    settled: int = 0
    unsettled: dict[int, int] = field(default_factory=dict)
    """open step -> what is settled when it is committed."""
    scheduled: int = 0
    """The step of the last chunk."""

    def state_block(self, group: int) -> int:
        """The block with the state at `computed` > 0 of a recurrent group."""
        return self.tables[group][slot_of(self.computed, self.groups[group].block_size)]

    def overwrites(self, group: int, end: int) -> bool:
        """Whether a chunk up to `end` leaves its state in the block that holds the one it begins with."""
        config = self.groups[group]
        if config.kind is not GroupKind.RECURRENT or self.computed == 0:
            return False
        return slot_of(end, config.block_size) == slot_of(self.computed, config.block_size)

    def new_slots(self, group: int, end: int) -> list[int]:
        """The slots that get a block for a chunk up to `end` (ADVANCE-ATTENTION-1, ADVANCE-STATE-1)."""
        config, known = self.groups[group], len(self.tables[group])
        if config.kind is GroupKind.RECURRENT:
            slot = slot_of(end, config.block_size)
            return [slot] if slot >= known else []
        return list(range(known, slots_up_to(end, config.block_size)))

    def take(self, group: int, slot: int, block: int) -> None:
        """The slot has this block; slots between that have none are null."""
        table = self.tables[group]
        table += [NULL_BLOCK] * (slot + 1 - len(table))
        table[slot] = block

    def not_needed(self, group: int) -> list[int]:
        """The slots with a block that a request settled here can do without, the last one first (ADVANCE-LETGO-1)."""
        table = self.tables[group]
        before = min(first_needed_slot(self.groups[group], self.settled), len(table))
        return [slot for slot in reversed(range(before)) if table[slot] != NULL_BLOCK]

    def blocks(self) -> list[int]:
        """All its blocks, group by group, the last slot first (RELEASE-1)."""
        return [block for table in self.tables for block in reversed(table) if block != NULL_BLOCK]

    def beyond(self, n: int) -> dict[int, list[int]]:
        """Each group's slots with a block that begin at n tokens or past it, the last one first (BACK-SLOTS-1)."""
        return {
            group: [slot for slot in reversed(range(self._slots(group, n), len(table))) if table[slot] != NULL_BLOCK]
            for group, table in enumerate(self.tables)
        }

    def go_back_to(self, n: int) -> None:
        """It is computed and settled up to n, and has no chunk that is not settled."""
        self.tables = [table[: self._slots(group, n)] for group, table in enumerate(self.tables)]
        self.computed = self.settled = n
        self.unsettled.clear()
        self.scheduled = 0

    def can_go_back_to(self, n: int) -> bool:
        """Whether all groups are attention groups that have the rows they need at n > 0 (BACK-*)."""
        if n == 0 or any(group.kind is GroupKind.RECURRENT for group in self.groups):
            return False
        return all(
            NULL_BLOCK not in table[first_needed_slot(group, n) : slots_up_to(n, group.block_size)]
            for group, table in zip(self.groups, self.tables, strict=True)
        )

    def ends_of_slots(self, n: int) -> list[int]:
        """n, and before it all ends of slots of any group, the last one first."""
        ends = {end for group in self.groups for end in range(group.block_size, n, group.block_size)}
        return sorted({n, *ends} - {0}, reverse=True)

    def _slots(self, group: int, n: int) -> int:
        return slots_up_to(n, self.groups[group].block_size)

    def observe(self, name: Holder, committed: int) -> RunningState:
        """All of it as a value; steps are counted in commits after step `committed`."""
        return RunningState(
            name,
            self.computed,
            self.settled,
            self.junction,
            tuple(map(tuple, self.tables)),
            tuple([(step - committed, end) for step, end in sorted(self.unsettled.items())]),
            max(0, self.scheduled - committed),
        )

    def clone(self) -> Running:
        """An independent copy."""
        tables = [list(table) for table in self.tables]
        return Running(
            self.request,
            self.groups,
            self.junction,
            self.computed,
            tables,
            self.settled,
            dict(self.unsettled),
            self.scheduled,
        )
