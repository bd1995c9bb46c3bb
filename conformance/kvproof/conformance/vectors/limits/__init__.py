"""Vectors for the limits that clauses name: what lies just inside is accepted, what lies just outside is refused.

Where nothing is refused, what turns at the limit is the answer. The list was made by reading every clause of level MUST
for what it bounds or counts, and for what begins or ends at some point: least and greatest values, the end of a slot,
the number of free blocks, the last reference, the last copy of a key, the commit of a step, "at most one", "no other".
A clause without any stands in `no_limit`, or in `not_shown` if no vector can show it; every clause stands somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvproof.conformance.backends.views import view, view_of_result
from kvproof.conformance.backends.wire import PARTS
from kvproof.conformance.operations import Operation
from kvproof.conformance.vectors.limits import (
    of_joint_hits,
    of_registration,
    of_requests,
    of_running,
    of_steps,
    of_the_pool,
)
from kvproof.conformance.vectors.limits.kinds import Limit, Turn
from kvproof.conformance.vectors.tape import Said, Tape
from kvproof.conformance.world import World
from kvproof.spec.errors import PoolError
from kvproof.spec.events import Event

LIMITS: tuple[Limit | Turn, ...] = (
    *of_requests.LIMITS,
    *of_the_pool.LIMITS,
    *of_registration.LIMITS,
    *of_steps.LIMITS,
    *of_joint_hits.LIMITS,
    *of_running.LIMITS,
)


class WrongLimit(Exception):
    """The reference draws a limit elsewhere; the text says where."""


def limit_tapes() -> Iterator[tuple[Limit | Turn, Tape]]:
    """What the reference says to each limit; raises `WrongLimit`."""
    for limit in LIMITS:
        yield limit, tape_of(limit)


def tape_of(limit: Limit | Turn) -> Tape:
    """What the reference says to the limit; raises `WrongLimit`."""
    world = World(limit.config)
    tape = Tape(limit.config, world.pool.hasher, None, asks_hashes=False)
    one, other = limit.sides
    if not one or not other:
        raise WrongLimit(f"{limit.name} has one side only")
    ends = [_say(limit, tape, world, side, is_refused) for side, is_refused in _sides_of(limit)][1:]
    if isinstance(limit, Turn) and (type(one[-1]) is not type(other[-1]) or ends[0] == ends[1]):
        raise WrongLimit(f"{limit.name}: {one[-1]} and {other[-1]} should be answered differently")
    return tape


def _sides_of(limit: Limit | Turn) -> list[tuple[tuple[Operation, ...], bool]]:
    """What is said, and whether it is refused."""
    one, other = limit.sides
    return [(limit.before, False), (one, isinstance(limit, Limit)), (other, False)]


def _say(
    limit: Limit | Turn, tape: Tape, world: World, operations: tuple[Operation, ...], is_refused: bool
) -> tuple[object, tuple[Event, ...]] | None:
    """Put the operations on the tape; what the last one is answered."""
    answer = None
    for operation in operations:
        said = _said(world, operation)
        if (said.error is not None) != is_refused:
            raise WrongLimit(f"{limit.name}: {operation} should be {'refused' if is_refused else 'accepted'}")
        tape.said.append(said)
        answer = said.result, world.state.pending_events
        world.drain()
    return answer


def _said(world: World, operation: Operation) -> Said:
    try:
        result, error = view_of_result(operation, world.apply(operation)), None
    except PoolError as refusal:
        result, error = None, type(refusal).__name__
    return Said(operation, result, error, view(world.state, PARTS))
