"""What went before a divergence, for backends that show no state: who should have taken a key away."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from kvproof.conformance.certification.attribution.tables import RESULTS, STATES
from kvproof.conformance.certification.lockstep import Divergence
from kvproof.conformance.operations import KeyRef, Operation, name_of
from kvproof.conformance.world import World
from kvproof.spec.errors import PoolError
from kvproof.spec.vocabulary import Key, PoolConfig


def clause_of_removal(found: Divergence, ref: KeyRef, block: int) -> str:
    """The clause by which the block lost this key before the last operation; empty if it never had it."""
    before = found.operations[:-1]
    with contextlib.suppress(PoolError):
        key = _world_after(found.config, before).key(ref)
        lost = _that_takes_away(found.config, before, key, block)
        return "" if lost is None else STATES.get((name_of(lost), "keys")) or RESULTS[name_of(lost)]
    return ""


def _that_takes_away(config: PoolConfig, operations: Sequence[Operation], key: Key, block: int) -> Operation | None:
    """The last operation that takes the key from the block."""
    world, last, had = World(config), None, False
    for operation in operations:
        _apply(world, operation)
        has = block in world.state.index.get(key, ())
        last = operation if had and not has else last
        had = has
    return last


def _world_after(config: PoolConfig, operations: Sequence[Operation]) -> World:
    world = World(config)
    for operation in operations:
        _apply(world, operation)
    return world


def _apply(world: World, operation: Operation) -> None:
    with contextlib.suppress(PoolError):  # a refusal changes nothing
        world.apply(operation)
