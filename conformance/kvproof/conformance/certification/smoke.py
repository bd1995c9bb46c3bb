"""The smoke stage: is the adapter right? It judges the form of answers, before anything judges what they say."""

from __future__ import annotations

from collections.abc import Sequence

from kvproof.conformance.backends.interface import AdapterError, Capabilities, Level
from kvproof.conformance.backends.wire import IF_HYBRID, Observation, Step
from kvproof.conformance.certification.lockstep import AdapterCrash
from kvproof.conformance.certification.settings import plain_pool
from kvproof.conformance.certification.stages import Outcome, Subject
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    BeginStep,
    Commit,
    Free,
    Lookup,
    Operation,
    describe,
    name_of,
)
from kvproof.conformance.terminal import counted
from kvproof.spec.vocabulary import CommitMode, HolderMode, PoolConfig

POOLS = 2
"""The second one shows whether the first is forgotten."""


def smoke(subject: Subject) -> Outcome:
    """Run a few operations that every pool allows; an answer that has not the right form breaks the adapter."""
    config, done = plain_pool(subject.capabilities), Outcome("smoke")
    so_far: list[Operation] = []
    with done.until_it_breaks():
        try:
            _smoke(subject, config, done, so_far)
        except AdapterError as error:
            raise AdapterCrash(str(error), config, tuple(so_far)) from error
    return done


def _smoke(subject: Subject, config: PoolConfig, done: Outcome, so_far: list[Operation]) -> None:
    holder = "r1" if config.holders is HolderMode.NAMED else None
    steps = config.commit is CommitMode.STEPS
    for _ in range(POOLS):
        so_far.clear()
        subject.backend.start(config)
        begun: list[Operation] = [AddRequest("r1", (1, 2, 3, 4)), *[BeginStep()] * steps, Allocate(holder, 1)]
        [*_, allocated] = _run(subject, config, begun, done, so_far)
        block = _only_block(allocated, config)
        _run(subject, config, [Lookup(()), Free(holder, (block,)), *[Commit(1)] * steps], done, so_far)
        done.pools += 1


def _run(
    subject: Subject, config: PoolConfig, operations: Sequence[Operation], done: Outcome, so_far: list[Operation]
) -> list[Step]:
    so_far += operations
    steps = subject.backend.run(operations, True)
    if len(steps) != len(operations):
        raise AdapterError(
            f"{counted(len(operations), 'operations')} sent, and {counted(len(steps), 'answers')} came back"
        )
    for operation, step in zip(operations, steps, strict=True):
        if step.answer.error is not None:
            raise AdapterError(f"{describe(operation)} was refused: {step.answer.error}: {step.answer.message}")
        _check_what_is_shown(subject.capabilities, config, step, describe(operation))
    done.operations.update(map(name_of, operations))
    return steps


def _only_block(step: Step, config: PoolConfig) -> int:
    match step.answer.result:
        case [int(block)] if 0 <= block < config.num_blocks:  # that it is not the null block is for later stages
            return block
    raise AdapterError(f"allocate(1) answered {step.answer.result!r}; it answers a list with the id of the block")


def _check_what_is_shown(capabilities: Capabilities, config: PoolConfig, step: Step, after: str) -> None:
    seen = step.seen or Observation()
    for part in capabilities.observes:
        if part == IF_HYBRID and config.hybrid is None:
            continue
        shown = getattr(seen, part)
        if shown is None:
            raise AdapterError(f"after {after} nothing is shown of {part}, which is claimed to be shown")
        if part in {"ref_cnt", "holders", "writers", "slots", "keys"} and len(shown) != config.num_blocks:
            raise AdapterError(
                f"after {after} {part} has {len(shown)} items; there are {config.num_blocks} blocks, the null block too"
            )
    if Level.EVENTS in capabilities.levels and step.events is None:
        raise AdapterError(f"after {after} no events are shown, not even an empty list, and level E is claimed")
