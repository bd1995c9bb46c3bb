"""Tours of a scope: paths that together run every operation in every state, with little done again to get there.

A black box cannot be copied, so each state has to be reached by operations. A path goes on from where it is, to the
nearest state in which something was not run yet; it ends when it is long, and the next one begins with a new pool.

What was run is known by the canonical form of the state and by what the operation is called in it, so a state counts as
visited whatever its blocks and requests are called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from kvproof.conformance.canonical import Names
from kvproof.conformance.certification.follow import with_blocks
from kvproof.conformance.explore import ways_of
from kvproof.conformance.hybrid_scope import HybridScope
from kvproof.conformance.operations import Commit, Fail, Operation
from kvproof.conformance.preconditions import violations
from kvproof.conformance.scope import Scope
from kvproof.conformance.world import World

LONGEST = 120
"""Operations after which a path ends: a failure in it has to be made short."""


@dataclass(slots=True, eq=False)
class State:
    """A state of the scope; its operations are called what they are called in its canonical form.

    `ways` leads from each legal operation to the state after it. `left` are those, and the illegal ones, that were not
    run yet.
    """

    ways: dict[Operation, State] = field(default_factory=dict)
    left: dict[Operation, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """An operation that a path asked for; whether it `is_new`, or was run before and only led on."""

    state: State
    operation: Operation
    is_new: bool


class Tour:
    """What there is to run in a scope, and what of it was run.

    An operation belongs to it if it is `offered`; an illegal one only where it has to be `refused`.
    """

    def __init__(self, scope: Scope | HybridScope, offered: Callable[[Operation], bool], refused: bool = True) -> None:
        self._scope, self._offered, self._refused = scope, offered, refused
        self._enabled, self._canonical = ways_of(scope)
        self._names = _Renaming([name for names in scope.holder_classes for name in names])
        self._states: dict[Hashable, State] = {}
        self._path: list[Run] = []
        self._start = self._explore()

    @property
    def left(self) -> int:
        """How many operations were not run, in all states together."""
        return sum(len(state.left) for state in self._states.values())

    @property
    def is_over(self) -> bool:
        """Whether no path leads to anything that was not run yet."""
        return not self._way_on(self._start)

    def path(self, world: World) -> Iterator[Operation]:
        """The next path, for the world in which the requests have arrived; it is somebody else who runs it there."""
        self._path, way = [], deque[Operation]()
        while len(self._path) < LONGEST:
            form, names = self._canonical.named_form(world)
            state = self._states[form]
            way = way or self._way_on(state)
            if not way:
                return
            operation = way.popleft()
            self._path.append(Run(state, operation, operation in state.left))
            state.left.pop(operation, None)
            yield self._names.in_world(world, names, operation)

    def break_off(self, compared: int) -> None:
        """The path went wrong at the last of so many operations: what came after was not run, and nobody goes there."""
        if compared < 1:  # the beginning itself is wrong
            self._start.ways.clear()
            self._start.left.clear()
            return
        for run in self._path[compared:]:
            if run.is_new:
                run.state.left[run.operation] = None
        wrong = self._path[compared - 1]
        wrong.state.ways.pop(wrong.operation, None)

    def _way_on(self, state: State) -> deque[Operation]:
        """The shortest way to an operation that was not run yet, with that operation; empty if there is none."""
        came_from: dict[State, tuple[State, Operation] | None] = {state: None}
        queue = deque([state])
        while queue:
            here = queue.popleft()
            if here.left:
                way = deque([next(iter(here.left))])
                while (step := came_from[here]) is not None:
                    here = step[0]
                    way.appendleft(step[1])
                return way
            for operation, after in here.ways.items():
                if after not in came_from:
                    came_from[after] = (here, operation)
                    queue.append(after)
        return deque()

    def _explore(self) -> State:
        """Visit every state once on copies of the reference; the first state."""
        world = self._scope.start()
        form, names = self._canonical.named_form(world)
        start = self._states[form] = State()
        queue = deque([(world, names, start)])
        while queue:
            world, names, state = queue.popleft()
            world.drain()
            if self._refused:
                illegal = [o for o in self._enabled.vocabulary() if violations(world.situation, o)]
                state.left.update(dict.fromkeys(self._called(world, names, illegal)))
            legal = [operation for operation in self._enabled.of(world) if self._offered(operation)]
            for operation, called in zip(legal, self._called(world, names, legal), strict=True):
                after = world.clone()
                after.apply(operation)
                form, names_after = self._canonical.named_form(after)
                if form not in self._states:
                    self._states[form] = State()
                    queue.append((after, names_after, self._states[form]))
                state.ways[called] = self._states[form]
            # What leads nowhere comes first, so that the rest leads on.
            state.left.update(dict.fromkeys(sorted(state.ways, key=lambda each: state.ways[each] is not state)))
        return start

    def _called(self, world: World, names: Names, operations: list[Operation]) -> list[Operation]:
        return [self._names.in_form(world, names, each) for each in operations if self._offered(each)]


class _Renaming:
    """Calls operations what they are called in a world, or in its canonical form.

    A key is named by a request that lends its name alone, so that stays. A step is numbered in the form from the oldest
    open one on.
    """

    def __init__(self, holders: Sequence[str]) -> None:
        self._holders = holders
        self._known: dict[tuple[bool, Names, Operation], Operation] = {}

    def in_form(self, world: World, names: Names, operation: Operation) -> Operation:
        """The operation of a world as its canonical form calls it."""
        if isinstance(operation, Commit | Fail):
            return msgspec.structs.replace(operation, step=operation.step - _oldest_open_step(world))
        return self._renamed(True, names, operation)

    def in_world(self, world: World, names: Names, operation: Operation) -> Operation:
        """The operation of a canonical form as the world calls it."""
        if isinstance(operation, Commit | Fail):
            return msgspec.structs.replace(operation, step=operation.step + _oldest_open_step(world))
        return self._renamed(False, names, operation)

    def _renamed(self, in_form: bool, names: Names, operation: Operation) -> Operation:
        key = (in_form, names, operation)
        if key not in self._known:
            holders = dict(zip(self._holders, names.holders, strict=True))
            blocks = dict(enumerate(names.blocks))
            if in_form:
                holders = {there: here for here, there in holders.items()}
                blocks = {there: here for here, there in blocks.items()}
            self._known[key] = _with_holders(with_blocks(operation, blocks), holders)
        return self._known[key]


def _oldest_open_step(world: World) -> int:
    return world.begun - world.state.steps.open + 1


def _with_holders(operation: Operation, holders: Mapping[str, str]) -> Operation:
    """An operation of other holders and requests; several requests stand in their order."""
    changes: dict[str, object] = {}
    for name in ("holder", "request"):
        if isinstance(value := getattr(operation, name, None), str):
            changes[name] = holders[value]
    if isinstance(several := getattr(operation, "requests", None), tuple):
        changes["requests"] = tuple(sorted(holders[each] for each in several))
    return msgspec.structs.replace(operation, **changes) if changes else operation
