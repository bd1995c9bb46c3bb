"""The reference as a backend: it passes everything that it claims."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from kvproof.conformance.backends.interface import EVERY_POOL, NOT_TESTED_YET, Capabilities, Identity, Level
from kvproof.conformance.backends.views import view, view_of_event, view_of_result
from kvproof.conformance.backends.wire import PARTS, Answer, Step
from kvproof.conformance.large import world_of
from kvproof.conformance.operations import Operation, names_of_operations
from kvproof.spec.vocabulary import CommitMode, GroupKind, HashAlgorithm, HolderMode, PoolConfig, Residency

IDENTITY = Identity("kvproof-reference", version("kvproof"), "Python", files=("kvproof.reference",))

CAPABILITIES = Capabilities(
    levels=tuple(level for level in Level if level not in NOT_TESTED_YET),
    operations=tuple(name for name in names_of_operations() if name not in EVERY_POOL),
    observes=PARTS,
    commit=tuple(CommitMode),
    residency=tuple(Residency),
    holders=tuple(HolderMode),
    group_kinds=tuple(GroupKind),
    hashes=tuple(algorithm.value for algorithm in HashAlgorithm),
    most_groups=4,
)


class ReferenceBackend:
    """See `Backend`."""

    def identify(self) -> tuple[Identity, Capabilities]:
        """See `Backend`."""
        return IDENTITY, CAPABILITIES

    def start(self, config: PoolConfig) -> None:
        """See `Backend`."""
        self._world = world_of(config)

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        """See `Backend`."""
        return [self._step(operation, observe) for operation in operations]

    def close(self) -> None:
        """See `Backend`."""

    def _step(self, operation: Operation, observe: bool) -> Step:
        try:
            answer = Answer(view_of_result(operation, self._world.apply(operation)))
        except Exception as error:  # one that is no refusal is an answer too, and a wrong one
            answer = Answer(error=type(error).__name__, message=str(error))
            self._world.look_again()  # nothing has changed, unless a mutant is in here
        if not observe:
            return Step(answer)
        events = tuple(map(view_of_event, self._world.state.pending_events))
        self._world.drain()
        return Step(answer, view(self._world.whole_state(), PARTS), events)
