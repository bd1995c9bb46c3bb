"""What is expected of a backend: the reference, run beside it, says the answer, the events and the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

from msgspec import structs

from kvproof.conformance.backends.forms import unsayable
from kvproof.conformance.backends.interface import EVERY_POOL, Capabilities, Level
from kvproof.conformance.backends.views import view, view_of_event, view_of_result
from kvproof.conformance.backends.wire import Answer, Observation, WireEvent
from kvproof.conformance.certification.choices import (
    chosen_blocks,
    chosen_copies,
    events_without_order,
    result_without_order,
    seen_without_order,
)
from kvproof.conformance.certification.marks import marks_of
from kvproof.conformance.large import MOST_OBSERVED, world_of
from kvproof.conformance.operations import (
    Admit,
    Advance,
    Allocate,
    CacheFullBlocks,
    CachePartialBlock,
    Copy,
    Lookup,
    Move,
    Operation,
    Read,
    TakeEvents,
    Write,
    name_of,
)
from kvproof.conformance.preconditions import violations
from kvproof.conformance.undefined import undefined
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import CommitMode, PoolConfig

OF_CONTENT = (Write, Read, Copy)
"""Operations of ghost content: a backend that knows no content need not offer them, the reference runs them alone.

A copy is one of them only where keys are committed at once; with steps it keeps its ends referenced.
"""

BY_CONTENT = (CacheFullBlocks, CachePartialBlock, Copy, Move)
"""Operations that can be undefined, by what the blocks hold; with hybrid settings others are, by what runs."""


def is_of_content(operation: Operation, config: PoolConfig) -> bool:
    """Whether the operation touches ghost content alone, in a pool so configured."""
    if isinstance(operation, Copy):
        return config.commit is CommitMode.IMMEDIATE
    return isinstance(operation, OF_CONTENT)


def offered(capabilities: Capabilities) -> frozenset[str]:
    """The names of the operations that a backend has."""
    return frozenset((*EVERY_POOL, *capabilities.operations))


Rows = tuple[int, ...] | tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a backend has to do with an operation: refuse it with one of `errors`, or answer `result` if there is none.

    `seen` has the parts of the state that the backend shows, `events` is None if it shows no events.
    """

    operation: Operation
    result: object
    errors: frozenset[str]
    seen: Observation
    events: tuple[WireEvent, ...] | None
    rows: Rows | None = None
    """What a write leaves in its block, or what a chunk computes in each group, for a backend that owns memory."""

    @property
    def sent(self) -> Operation:
        """The operation as the backend gets it."""
        return self.operation if self.rows is None else structs.replace(self.operation, rows=self.rows)


class Model:
    """The reference in the backend's configuration, and what the backend is asked.

    One that does not watch expects answers alone, so that events wait until an operation takes them.
    """

    def __init__(self, config: PoolConfig, capabilities: Capabilities, watches: bool = True) -> None:
        self.world = world_of(config)
        self.shows_all = config.num_blocks <= MOST_OBSERVED
        self._parts: Collection[str] = capabilities.observes if watches else ()
        self._capabilities, self._offered = capabilities, offered(capabilities)
        self.met: Counter[str] = Counter()
        """The situations that the run has met, see `marks`; in a large pool nobody looks for them."""
        self.refuses = Level.ROBUSTNESS in capabilities.levels
        self.in_order = Level.ORDER in capabilities.levels
        """Whether the backend takes blocks, and says things, in the order of the clauses; else it chooses."""
        self.owns_memory = Level.DATA in capabilities.levels
        self.tells_events = watches and Level.EVENTS in capabilities.levels
        self.takes_events = "take_events" in self._offered
        self.is_shown = self.shows_all and bool(self._parts)
        """Whether the backend is asked to show its state after every operation, and its events with it."""

    def is_offered(self, operation: Operation) -> bool:
        """Whether the backend has the operation, in the form that it is asked in."""
        return name_of(operation) in self._offered and not unsayable(operation, self._capabilities)

    def is_run(self, operation: Operation) -> bool:
        """Whether the backend has the operation, or the reference may run it alone."""
        return self.is_offered(operation) or is_of_content(operation, self.world.config)

    def is_undefined(self, operation: Operation) -> bool:
        """Whether the specification leaves open what the operation does: nobody may ask for it."""
        may_be = isinstance(operation, BY_CONTENT) or self.world.config.hybrid is not None
        if not may_be or violations(self.world.situation, operation):
            return False
        return undefined(self.world, operation) is not None

    def expect(self, operation: Operation) -> Expected:
        """Run a defined operation on the reference; what the backend has to do with it."""
        world = self.world
        errors = frozenset(error.__name__ for error in violations(world.situation, operation))
        result, rows = None, None
        if not errors:
            before = world.state
            if self.owns_memory:
                rows = _rows(world, operation)
            returned = world.apply(operation)
            if self.shows_all:
                self.met.update(marks_of(operation, before, world.state, returned))
            result = view_of_result(operation, returned)
            if not self.in_order:
                result = result_without_order(operation, result)
        events: tuple[WireEvent, ...] | None = None
        if self.tells_events:
            events = () if isinstance(operation, TakeEvents) else tuple(map(view_of_event, world.state.pending_events))
            if not self.in_order:
                events = events_without_order(events)
        if self.tells_events or self.is_shown or not self.takes_events:  # else they wait until an operation takes them
            world.drain()
        return Expected(operation, result, errors, self.glance(), events, rows)

    def follow(self, operation: Allocate | Lookup, answer: Answer) -> Expected:
        """Like `expect`, of an operation in which the backend chooses: a legal choice is what is expected."""
        if violations(self.world.situation, operation):
            return self.expect(operation)
        if isinstance(operation, Lookup):
            result = chosen_copies(self.world, operation, answer)
            return replace(self.expect(operation), result=result)
        expected = self.expect(chosen_blocks(self.world, operation, answer))
        # What was taken is noted, so that the trace can be run elsewhere.
        return replace(expected, operation=structs.replace(operation, took=tuple(self.world.taken)))

    def glance(self) -> Observation:
        """What is shown after every operation: everything that the backend shows, nothing in a large pool."""
        return self.show() if self.shows_all else Observation()

    def show(self) -> Observation:
        """The parts of the state that the backend shows."""
        seen = view(self.world.whole_state(), self._parts)
        return seen if self.in_order else seen_without_order(seen)


def _rows(world: World, operation: Operation) -> Rows | None:
    """What the forward pass of a legal operation computes."""
    match operation:
        case Write(request=name, position=position, group=group):
            return world.rows(name, position, group)
        case Admit() | Advance():
            return world.rows_of_chunk(operation)
    return None
