"""What went before a divergence, for backends that show no state: who should have taken a key away."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kvproof.conformance.certification.attribution.tables import RESULTS, STATES
from kvproof.conformance.operations import KeyRef, name_of
from kvproof.conformance.world import World
from kvproof.spec.errors import PoolError

if TYPE_CHECKING:
    from kvproof.conformance.certification.lockstep import Divergence


def clause_of_removal(found: Divergence, ref: KeyRef, block: int) -> str:
    """The clause by which the block lost this key before the last operation; empty if it never had it."""
    world = World(found.config)
    indexes = [world.state.index]
    before = found.operations[:-1]
    for operation in before:
        with contextlib.suppress(PoolError):  # a refusal changes nothing
            world.apply(operation)
        indexes.append(world.state.index)
    try:
        key = world.key(ref)
    except PoolError:
        return ""
    has = [block in index.get(key, ()) for index in indexes]
    lost = [name_of(each) for each, had, kept in zip(before, has, has[1:], strict=False) if had and not kept]
    return (STATES.get((lost[-1], "keys")) or RESULTS[lost[-1]]) if lost else ""
