"""Makes the trace of a divergence short: fewer operations, smaller ones, a smaller pool, plain names.

Each candidate is run again beside the reference, and taken if the same operation may break the same clauses. What a
candidate makes undefined is left out, what it makes illegal has to be refused: so every candidate is a valid trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvproof.conformance.backends.interface import Backend, Capabilities
from kvproof.conformance.certification.attribution import clauses_of
from kvproof.conformance.certification.candidates import (
    fewer_names,
    fewer_steps,
    merged_operations,
    plain_names,
    smaller_operations,
    smaller_pools,
    without_a_block,
)
from kvproof.conformance.certification.lockstep import Divergence, Lockstep
from kvproof.conformance.certification.reduce import reduced
from kvproof.conformance.certification.rescale import smaller_blocks
from kvproof.conformance.certification.settings import is_claimed
from kvproof.conformance.operations import Operation, name_of
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import PoolConfig

PASSES = (
    fewer_steps,
    smaller_pools,
    smaller_operations,
    merged_operations,
    fewer_names,
    smaller_blocks,
    without_a_block,
)
"""What is tried, beside leaving operations out."""


def shrink(backend: Backend, capabilities: Capabilities, found: Divergence) -> Divergence:
    """The same divergence by the shortest trace that was found: the same clause is broken by the same operation.

    What was found by answers alone is shown where it can be seen first, if the backend shows anything of it.
    """
    if not found.watched:
        watched = Lockstep(backend, capabilities, found.config)
        watched.replay(found.operations)
        found = watched.divergence or found
    wanted = _signature(found)

    def shows(config: PoolConfig, operations: Callable[[World], Iterator[Operation]]) -> Divergence | None:
        if not is_claimed(config, capabilities):
            return None
        lockstep = Lockstep(backend, capabilities, config, found.watched)
        lockstep.run(operations(lockstep.model.world))
        again = lockstep.divergence
        return again if again is not None and _signature(again) == wanted else None

    return reduced(found, shows, PASSES, plain_names)


def _signature(found: Divergence) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """What has to stay; where it differs too, or one cause would be made short into another that breaks the clauses."""
    return clauses_of(found), name_of(found.operations[-1]), found.where
