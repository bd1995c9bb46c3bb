"""The reference as a backend: it passes everything that it claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version

from kvproof.conformance.backends.interface import EVERY_POOL, Capabilities, Identity, Level
from kvproof.conformance.backends.views import view, view_of_event, view_of_result
from kvproof.conformance.backends.wire import PARTS, Answer, Step
from kvproof.conformance.large import world_of
from kvproof.conformance.operations import Operation, names_of_operations
from kvproof.reference import EventMirror
from kvproof.spec.events import Event
from kvproof.spec.vocabulary import CommitMode, GroupKind, HashAlgorithm, HolderMode, PoolConfig, Residency

IDENTITY = Identity("kvproof-reference", version("kvproof"), "Python", files=("kvproof.reference",))

CAPABILITIES = Capabilities(
    levels=tuple(Level),
    operations=tuple(name for name in names_of_operations() if name not in EVERY_POOL),
    observes=PARTS,
    commit=tuple(CommitMode),
    residency=tuple(Residency),
    holders=tuple(HolderMode),
    group_kinds=tuple(GroupKind),
    hashes=tuple(algorithm.value for algorithm in HashAlgorithm),
    most_groups=4,
)


class _Nobody(EventMirror):
    """A consumer that takes any events: what a backend emits is for the suite to judge."""

    def fold(self, events: Iterable[Event]) -> None:
        """Take no notice."""

    def clone(self) -> EventMirror:
        """There is nothing to copy."""
        return self


class ReferenceBackend:
    """See `Backend`."""

    def identify(self) -> tuple[Identity, Capabilities]:
        """See `Backend`."""
        return IDENTITY, CAPABILITIES

    def start(self, config: PoolConfig) -> None:
        """See `Backend`."""
        self._world = world_of(config)
        self._world.mirror = _Nobody(config, self._world.pool.hasher)

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        """See `Backend`."""
        return [self._step(operation, observe) for operation in operations]

    def close(self) -> None:
        """See `Backend`."""

    def _step(self, operation: Operation, observe: bool) -> Step:
        """The answer, and what is shown. An exception that is no refusal is an answer too, and a wrong one."""
        try:
            answer = Answer(view_of_result(operation, self._world.apply(operation)))
        except Exception as error:
            answer = _raised(error)
        try:
            return self._looked_at(answer, observe)
        except Exception as error:  # with a mutant in here the state may be one that cannot be looked at
            return Step(_raised(error))

    def _looked_at(self, answer: Answer, observe: bool) -> Step:
        if answer.error is not None:
            self._world.look_again()  # nothing has changed, unless a mutant is in here
        if not observe:
            return Step(answer)
        events = tuple(map(view_of_event, self._world.state.pending_events))
        self._world.drain()
        return Step(answer, view(self._world.whole_state(), PARTS), events)


def _raised(error: Exception) -> Answer:
    return Answer(error=type(error).__name__, message=str(error))
