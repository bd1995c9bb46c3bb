"""Backends for tests of the suite: the reference with a mutant, or with one of its answers changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kvproof.conformance.backends.interface import Backend, Capabilities, Identity
from kvproof.conformance.backends.reference import CAPABILITIES, ReferenceBackend
from kvproof.conformance.backends.wire import Step
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.twin import mutated_reference
from kvproof.conformance.operations import Operation


def with_mutant(name: str) -> Backend:
    [mutant] = [mutant for mutant in MUTANTS if mutant.name == name]
    return mutated_reference(mutant.patch)


class Changed(ReferenceBackend):
    """The reference, but what it does with an operation goes through `change`; it may claim less."""

    def __init__(
        self, change: Callable[[Operation, Step], Step] = lambda operation, step: step, **claims: object
    ) -> None:
        self._change = change
        self._claims = claims
        self.batches: list[list[Operation]] = []

    def identify(self) -> tuple[Identity, Capabilities]:
        identity, capabilities = super().identify()
        return identity, msgspec.structs.replace(capabilities, **self._claims)

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        self.batches.append(list(operations))
        steps = super().run(operations, observe)
        return [self._change(operation, step) for operation, step in zip(operations, steps, strict=True)]


def without(*names: str) -> tuple[str, ...]:
    """The reference's operations without these."""
    return tuple(name for name in CAPABILITIES.operations if name not in names)


def broken() -> Backend:
    """A pool that leaves touched blocks in the free queue."""
    return with_mutant("touched_block_stays_queued")
