"""The pool's state as a value that can be compared and shown (clause OBSERVE-1)."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.spec.events import Event, PrefixHash
from kvproof.spec.vocabulary import Holder, Key


@dataclass(frozen=True, slots=True)
class BlockState:
    """One block: its references, its identity, its keys with their positions in registration order."""

    ref_cnt: int
    holders: tuple[tuple[Holder, PrefixHash | None], ...]
    writer: Holder | None
    group: int | None
    slot: int | None
    keys: tuple[tuple[Key, int], ...]


@dataclass(frozen=True, slots=True)
class PoolState:
    """Everything that a pool decides by; `index` maps a key to its blocks, first registered first."""

    blocks: tuple[BlockState, ...]
    free_queue: tuple[int, ...]
    index: dict[Key, tuple[int, ...]]
    pending_events: tuple[Event, ...]
