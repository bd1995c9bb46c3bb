"""Drives a backend beside the reference by random operations, within what it claims."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from random import Random

from kvproof.conformance.backends.interface import Backend, Capabilities, Level
from kvproof.conformance.certification.lockstep import Divergence, Lockstep
from kvproof.conformance.operations import Operation
from kvproof.conformance.preconditions import violations
from kvproof.conformance.step_proposals import proposer_for
from kvproof.conformance.walk import random_config
from kvproof.spec.vocabulary import CommitMode, GroupKind, HolderMode, PoolConfig

BATCH = 8


def config_within(claimed: Capabilities, random: Random) -> PoolConfig:
    """A small random pool that the backend can be configured with."""
    config = random_config(random)
    commit = random.choice(claimed.commit)
    window = {GroupKind.SLIDING_WINDOW: 5}
    groups = []
    for group in config.groups[: claimed.most_groups]:
        kind = random.choice(claimed.group_kinds)
        groups.append(dataclasses.replace(group, kind=kind, window=window.get(kind)))
    return dataclasses.replace(
        config,
        groups=tuple(groups),
        commit=commit,
        residency=random.choice(claimed.residency),
        holders=HolderMode.NAMED if commit is CommitMode.STEPS else random.choice(claimed.holders),
    )


def drive(backend: Backend, seed: int, steps: int) -> Divergence | None:
    """Draw operations until that many were run; the first difference, if there is one.

    Illegal ones, of which a proposer draws some, are only for backends that claim level R.
    """
    _, claimed = backend.identify()
    random = Random(seed)
    lockstep = Lockstep(backend, claimed, config_within(claimed, random))
    world = lockstep.model.world
    proposer = proposer_for(world, random)

    def batch() -> Iterator[Operation]:
        for _ in range(BATCH):  # each is drawn once the reference has run the one before it
            operation = proposer.draw()
            if operation is not None and (
                Level.ROBUSTNESS in claimed.levels or not violations(world.situation, operation)
            ):
                yield operation

    while len(lockstep.done) < steps and lockstep.divergence is None:
        lockstep.run(batch())
    return lockstep.divergence
