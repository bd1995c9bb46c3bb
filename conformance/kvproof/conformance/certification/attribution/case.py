"""A divergence with what its attribution asks of it."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from kvproof.conformance.backends.wire import Entry, Holders, Observation
from kvproof.conformance.operations import KeyRef, Operation, name_of
from kvproof.spec.vocabulary import NULL_BLOCK, CommitMode, GroupConfig, GroupKind, HolderMode, PoolConfig

if TYPE_CHECKING:
    from kvproof.conformance.certification.lockstep import Difference, Divergence

Clauses = tuple[str, ...]
"""Clauses that a difference may break, the most likely first; none if nothing is to be said."""

Place = tuple[int, int, str]
"""A key on a block: (block, group, hash)."""

_BLOCKS = ("block", "blocks", "src", "dst")
"""Fields in which operations name blocks."""


class Case:
    """Reads what the last operation of a divergence asked for, and what was there before and after.

    The operation may hold anything, as it may have to be refused: what is no block is passed over. A part of the state
    that the backend does not show is empty.
    """

    def __init__(self, found: Divergence) -> None:
        self.found = found
        self.differences: dict[str, Difference] = {difference.what: difference for difference in found.differences}

    @property
    def operation(self) -> Operation:
        """The operation after which something differs."""
        return self.found.operations[-1]

    @property
    def name(self) -> str:
        """What the operation is called."""
        return name_of(self.operation)

    @property
    def config(self) -> PoolConfig:
        """The pool's configuration."""
        return self.found.config

    @property
    def has_steps(self) -> bool:
        """Whether keys are reserved in steps and committed later."""
        return self.config.commit is CommitMode.STEPS

    @property
    def is_anonymous(self) -> bool:
        """Whether references have no names."""
        return self.config.holders is HolderMode.CALLER

    @property
    def errors(self) -> frozenset[str]:
        """With which errors the operation had to be refused; none if it is legal."""
        return self.found.expected.errors

    @property
    def before(self) -> Observation:
        """What was shown before the operation."""
        return self.found.before

    @property
    def after(self) -> Observation:
        """What had to be shown after it."""
        return self.found.expected.seen

    def got(self, part: str) -> object:
        """What the backend showed of a part of the state."""
        return self.differences[part].got if part in self.differences else getattr(self.after, part, None)

    @property
    def group(self) -> GroupConfig | None:
        """The group that the operation names, or that its first block belongs to."""
        number = getattr(self.operation, "group", None)
        if number is None:
            slots = [self.before.slots[block] for block in self.blocks] if self.before.slots else []
            number = next((slot[0] for slot in slots if slot is not None), None)
        if type(number) is int and 0 <= number < len(self.config.groups):
            return self.config.groups[number]
        return None

    @property
    def is_recurrent(self) -> bool:
        """Whether the operation is about a recurrent state."""
        return self.group is not None and self.group.kind is GroupKind.RECURRENT

    @property
    def named(self) -> list[object]:
        """What stands where the operation names blocks."""
        values = [getattr(self.operation, field) for field in _BLOCKS if hasattr(self.operation, field)]
        return [item for value in values for item in (value if isinstance(value, tuple) else (value,))]

    @property
    def names_the_null_block(self) -> bool:
        """Whether the null block is among the blocks that the operation names."""
        return any(type(block) is int and block == NULL_BLOCK for block in self.named)

    @property
    def blocks(self) -> list[int]:
        """The blocks that the operation names."""
        return [block for block in self.named if type(block) is int and 0 <= block < self.config.num_blocks]

    @property
    def replaces(self) -> bool:
        """Whether a registration announces an overwrite."""
        return getattr(self.operation, "replace", False) is True

    @property
    def key(self) -> KeyRef | None:
        """The one key that the operation names."""
        found = getattr(self.operation, "key", None)
        return found if isinstance(found, KeyRef) else None

    @property
    def shows_keys(self) -> bool:
        """Whether the backend shows which keys a block has, and is watched."""
        return self.after.keys is not None

    @cached_property
    def keys_before(self) -> dict[Place, Entry]:
        """What was on which block."""
        return entries(self.before.keys)

    @cached_property
    def keys_after(self) -> dict[Place, Entry]:
        """What had to be on which block."""
        return entries(self.after.keys)

    @cached_property
    def keys_got(self) -> dict[Place, Entry]:
        """What is on which block, as the backend shows it."""
        return entries(self.got("keys"))

    def on(self, block: int) -> list[Entry]:
        """The keys that a block had, in order."""
        return [entry for (where, _, _), entry in self.keys_before.items() if where == block]


def entries(shown: object) -> dict[Place, Entry]:
    """Every key on every block, in the order in which they are shown."""
    if not isinstance(shown, tuple):
        return {}
    return {
        (block, entry.group, entry.hash): entry
        for block, row in enumerate(shown)
        for entry in row
        if isinstance(entry, Entry)
    }


def listed(shown: object) -> Counter[Place]:
    """How often the index lists which block under which key."""
    if not isinstance(shown, tuple):
        return Counter()
    return Counter((block, row.group, row.hash) for row in shown if isinstance(row, Holders) for block in row.blocks)
