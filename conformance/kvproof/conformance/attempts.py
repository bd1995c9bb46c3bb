"""What must change nothing: an operation that has to be refused, or that only asks."""

from __future__ import annotations

from kvproof.conformance.operations import (
    Contains,
    Find,
    FullKey,
    Hashes,
    Lookup,
    Match,
    Operation,
    Read,
    Split,
    describe,
)
from kvproof.conformance.preconditions import violations
from kvproof.conformance.world import World
from kvproof.spec.errors import PoolError

QUESTIONS = (Lookup, Find, Contains, FullKey, Hashes, Read, Match, Split)


def attempt(world: World, operation: Operation) -> str | None:
    """Run an operation that is illegal, or a question; what is wrong with what it did, None if nothing is."""
    allowed = violations(world.situation, operation)
    before = snapshot(world)
    error: Exception | None = None
    try:
        world.apply(operation)
    except Exception as raised:  # a broken pool may fail in any way, and each is a finding
        error = raised
    if error is None and allowed:
        return f"{describe(operation)} was not refused"
    if error is not None and type(error) not in allowed:
        how = "raised" if isinstance(error, PoolError) else "crashed:"
        instead = ", ".join(sorted(kind.__name__ for kind in allowed)) or "nothing"
        return f"{describe(operation)} {how} {type(error).__name__}: {error}; allowed is {instead}"
    return f"{describe(operation)} changed something" if snapshot(world) != before else None


def snapshot(world: World) -> tuple[object, ...]:
    """Everything that an operation could change, as a value: pool, pending events, ghost, requests, consumer."""
    ghost = world.ghost
    return (
        world.observe(),
        [world.contents(block_id) for block_id in range(world.config.num_blocks)],
        (dict(ghost.prefixes), dict(ghost.served)),
        {
            name: (request.request_id, list(request.tokens), list(request.hashes), request.extra_keys)
            for name, request in world.requests.items()
        },
        world.mirror.resident.copy(),
    )
