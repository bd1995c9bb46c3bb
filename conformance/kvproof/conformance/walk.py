"""Seeded random walks through pools that are too large to explore: several groups, requests that grow and shrink."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from kvproof.conformance.findings import Violation, label, reason_of
from kvproof.conformance.operations import Operation
from kvproof.conformance.preconditions import violations
from kvproof.conformance.step_proposals import proposer_for
from kvproof.conformance.undefined import undefined
from kvproof.conformance.world import World, replay
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HolderMode, PoolConfig, Residency


@dataclass(slots=True)
class Walk:
    """How far a walk came, and what it found."""

    world: World
    seed: int
    steps: int = 0
    coverage: Counter[str] = field(default_factory=Counter)
    violation: Violation | None = None


def walk(seed: int, steps: int, config: PoolConfig | None = None) -> Walk:
    """Take `steps` legal and defined operations at random and check everything after each; stops at a violation.

    The seed decides everything, the configuration too if none is given.
    """
    random = Random(seed)
    config = random_config(random) if config is None else config
    world = World(config)
    proposer = proposer_for(world, random)
    done = Walk(world, seed)
    trace: list[Operation] = []
    while done.steps < steps and not done.violation:
        operation = proposer.draw()
        if operation is None or violations(world.situation, operation) or undefined(world, operation):
            continue
        trace.append(operation)
        done.steps += 1
        done.coverage[label(operation)] += 1
        try:
            world.apply(operation)
            world.check()
        except Exception as error:  # a broken pool may fail in any way, and each is a finding
            before = replay(config, trace[:-1])
            done.violation = Violation(reason_of(error), tuple(trace), before, world)
    return done


def random_config(random: Random) -> PoolConfig:
    """A small pool with one to three groups of any kind; with steps holders must have names."""
    h = random.randint(1, 3)
    commit = random.choice(list(CommitMode))
    named = commit is CommitMode.STEPS
    return PoolConfig(
        num_blocks=1 + random.randint(2, 8),
        hash_block_size=h,
        groups=tuple(_random_group(random, h) for _ in range(random.randint(1, 3))),
        residency=random.choice(list(Residency)),
        holders=HolderMode.NAMED if named else random.choice(list(HolderMode)),
        commit=commit,
    )


def _random_group(random: Random, h: int) -> GroupConfig:
    kind = random.choice(list(GroupKind))
    block_size = h * random.randint(1, 3)
    return GroupConfig(kind, block_size, random.randint(1, 9) if kind is GroupKind.SLIDING_WINDOW else None)
