"""Random operations where steps begin and end: several in flight, readers that attach, requests that fail or finish."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import ClassVar

from kvproof.conformance.operations import (
    Attach,
    BeginStep,
    Commit,
    Finish,
    KeyRef,
    Operation,
    Rollback,
)
from kvproof.conformance.proposals import Proposer
from kvproof.conformance.world import World
from kvproof.reference.observation import BlockState
from kvproof.spec.vocabulary import COPY_PREFIX

MOST_IN_FLIGHT = 3


class StepProposer(Proposer):
    """Draws operations for a world with steps; how many are open at once is drawn first, once."""

    copies: ClassVar[tuple[str, ...]] = (f"{COPY_PREFIX}1", f"{COPY_PREFIX}2")

    def __init__(self, world: World, random: Random) -> None:
        super().__init__(world, random)
        self._in_flight = random.randint(1, MOST_IN_FLIGHT)

    def draw(self) -> Operation | None:
        """One operation of a random sort; hardly any is legal while no step is open."""
        if not self._open and self.random.random() < 0.7:
            return BeginStep()
        return super().draw()

    @property
    def _open(self) -> int:
        return self.world.state.steps.open

    def _sorts(self) -> dict[Callable[[], Operation | None], int]:
        steps: dict[Callable[[], Operation | None], int] = {
            self._begin_step: 4,
            self._commit: 4,
            self._attach: 14,
            self._rollback: 1,
            self._finish: 1,
        }
        return super()._sorts() | steps | {self._move: 10, self._copy: 12}

    def _begin_step(self) -> Operation | None:
        return BeginStep() if self._open < self._in_flight else None

    def _commit(self) -> Operation | None:
        return Commit(self.world.begun - self._open + 1) if self._open else None

    def _attach(self) -> Operation | None:
        """A key that is reserved, most often the full one of a block."""
        ref = self._reserved()
        blocks = self._blocks_with(ref) if ref else ()
        return Attach(self.random.choice(list(self.world.requests)), self.random.choice(blocks), ref) if ref else None

    def _reserved(self) -> KeyRef | None:
        waiting = {entry.key for block in self.world.state.blocks for entry in block.entries if entry.owner is not None}
        refs = [ref for ref, key in self._keys() if key in waiting] if waiting else []
        sizes = [group.block_size for group in self.world.config.groups]
        full = [ref for ref in refs if ref.position % sizes[ref.group] == 0]
        choice = full if full and self.random.random() < 0.9 else refs
        return self.random.choice(choice) if choice else None

    def _rollback(self) -> Operation | None:
        names = list(self.world.requests)
        return Rollback(tuple(self.random.sample(names, self.random.randint(0, min(2, len(names))))))

    def _finish(self) -> Operation | None:
        """A request lets go of all that it has, or of some."""
        request = self._request()
        held = self._held(request.request_id) if request else []
        if not request:
            return None
        return Finish(request.request_id, tuple(held[: self.random.choice((len(held), len(held), 1))]))

    def _takes_a_move(self, block: BlockState) -> bool:
        return super()._takes_a_move(block) and block.writer in self.copies
