"""The pool's state as a value that can be compared and shown (clause OBSERVE-1).

The parts that a state has many of are named tuples, the cheapest values to make, to compare and to look up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvproof.spec.events import Event, PrefixHash
from kvproof.spec.vocabulary import Holder, Key


class EntryState(NamedTuple):
    """One key of a block; `ahead` counts the commits until it is servable, `owner` reserved it, if it is reserved."""

    key: Key
    position: int
    ahead: int = 0
    owner: Holder | None = None


class BlockState(NamedTuple):
    """One block: its references, its identity, its entries in registration order.

    `attached` names the holders that read what is not committed, and how many commits that is away; `age` is how many
    commits away the step is in which the block was allocated, 0 if it is committed.
    """

    ref_cnt: int
    holders: tuple[tuple[Holder, PrefixHash | None], ...]
    writer: Holder | None
    group: int | None
    slot: int | None
    entries: tuple[EntryState, ...]
    attached: tuple[tuple[Holder, int], ...] = ()
    age: int = 0

    @property
    def keys(self) -> tuple[tuple[Key, int], ...]:
        """The block's keys with their positions, in registration order."""
        return tuple((entry.key, entry.position) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class StepState:
    """How many steps are open, and what belongs to them; steps are counted in commits until they are committed."""

    open: int = 0
    depends: tuple[tuple[Holder, Holder, int], ...] = ()
    copies: tuple[tuple[int, int, int, Holder], ...] = ()
    admitted: tuple[tuple[int, tuple[Holder, ...]], ...] = ()


NO_STEPS = StepState()


class RunningState(NamedTuple):
    """A request that runs over all groups; `tables` has a block for each slot of each group, 0 where nothing is kept.

    `unsettled` has, for each chunk that is not committed, how many commits away its step is, and what is settled then;
    `scheduled` is how many commits away the step of the last chunk is, 0 if it is committed.
    """

    request: Holder
    computed: int
    settled: int
    junction: int
    tables: tuple[tuple[int, ...], ...]
    unsettled: tuple[tuple[int, int], ...] = ()
    scheduled: int = 0


@dataclass(frozen=True, slots=True)
class PoolState:
    """Everything that a pool decides by; `index` maps a key to its blocks, first registered first.

    `running` are the requests that run over all groups, by name; None where the pool has no hybrid settings.
    """

    blocks: Sequence[BlockState]
    free_queue: Sequence[int]
    index: dict[Key, tuple[int, ...]]
    pending_events: tuple[Event, ...]
    steps: StepState = NO_STEPS
    running: tuple[RunningState, ...] | None = None
