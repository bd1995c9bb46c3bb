"""Backends that are wrong in one thing, to see that a replay notices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MethodType

import msgspec

from kvproof.conformance.backends.interface import AdapterError, Capabilities, Identity
from kvproof.conformance.backends.reference import CAPABILITIES, IDENTITY, ReferenceBackend
from kvproof.conformance.backends.wire import Answer, Step
from kvproof.conformance.operations import Allocate, Free, Operation, TakeEvents
from kvproof.reference import BlockPool
from kvproof.spec.vocabulary import Key, PoolConfig


class KeepsKeys(ReferenceBackend):
    """A block that is allocated again keeps its keys."""

    def start(self, config: PoolConfig) -> None:
        super().start(config)

        def keep(pool: BlockPool, block_id: int, keys: Iterable[Key] | None = None) -> None:
            if keys is not None:
                BlockPool._drop_keys(pool, block_id, keys)

        pool = self._world.pool
        pool.__dict__["_drop_keys"] = MethodType(keep, pool)


class FreesHeadFirst(ReferenceBackend):
    """The blocks of a request are freed the other way round."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        turned = [
            Free(each.holder, tuple(reversed(each.blocks))) if isinstance(each, Free) else each for each in operations
        ]
        return super().run(turned, observe)


class LosesEvents(ReferenceBackend):
    """The second event of an operation never comes."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        steps = super().run(operations, observe)
        return [
            _with_result(step, step.answer.result[:1])
            if isinstance(operation, TakeEvents) and isinstance(step.answer.result, list)
            else step
            for operation, step in zip(operations, steps, strict=True)
        ]


class MiscountsReferences(ReferenceBackend):
    """Nothing but the state that it shows is wrong, and only from some operation on."""

    wrong_from = 0

    def start(self, config: PoolConfig) -> None:
        super().start(config)
        self._operations = 0

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        self._operations += len(operations)
        steps = super().run(operations, observe)
        return [self._wrong(step) if self._operations > self.wrong_from else step for step in steps]

    def _wrong(self, step: Step) -> Step:
        if step.seen is None or step.seen.ref_cnt is None:
            return step
        counts = (*step.seen.ref_cnt[:-1], step.seen.ref_cnt[-1] + 1)
        return Step(step.answer, msgspec.structs.replace(step.seen, ref_cnt=counts), step.events)


class TakesOneMore(ReferenceBackend):
    """An allocation takes a block more than it says."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        more = [Allocate(each.holder, each.n + 1) if isinstance(each, Allocate) else each for each in operations]
        steps = super().run(more, observe)
        return [
            _with_result(step, step.answer.result[:-1])
            if isinstance(operation, Allocate) and isinstance(step.answer.result, list)
            else step
            for operation, step in zip(operations, steps, strict=True)
        ]


class Breaks(ReferenceBackend):
    """The adapter breaks at the first operation."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        raise AdapterError("the process ended with code 139")


class TalksNonsense(ReferenceBackend):
    """Its events are no events."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        steps = super().run(operations, observe)
        return [_with_result(step, [{"event": "lost"}]) for step in steps]


class OnlyPlain(ReferenceBackend):
    """Knows no content, no events, and shows nothing: an engine's pool without hooks."""

    def identify(self) -> tuple[Identity, Capabilities]:
        levels = CAPABILITIES.levels[:1]
        return IDENTITY, msgspec.structs.replace(CAPABILITIES, levels=levels, operations=(), observes=())


def _with_result(step: Step, result: object) -> Step:
    return Step(Answer(result), step.seen, step.events)
