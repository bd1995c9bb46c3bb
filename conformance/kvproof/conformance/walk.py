"""Seeded random walks through pools that are too large to explore: several groups, requests that grow and shrink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from kvproof.conformance.findings import Violation, label, reason_of
from kvproof.conformance.hybrid_proposals import proposer_for
from kvproof.conformance.operations import Operation
from kvproof.conformance.preconditions import violations
from kvproof.conformance.undefined import undefined
from kvproof.conformance.world import World, replay
from kvproof.spec.vocabulary import (
    CommitMode,
    GroupConfig,
    GroupKind,
    HolderMode,
    HybridConfig,
    PoolConfig,
    Residency,
    Retention,
)


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


def random_hybrid_config(
    random: Random, kinds: Sequence[GroupKind] = tuple(GroupKind), most_groups: int = 3
) -> PoolConfig:
    """A small pool with hybrid settings: one to three groups of these kinds, most often with a recurrent one."""
    h = random.choice((1, 1, 2))
    groups = tuple(_random_group(random, h, kinds) for _ in range(random.choice(range(1, min(3, most_groups) + 1))))
    if GroupKind.RECURRENT in kinds and len(groups) > 1 and random.random() < 0.7:
        groups = (*groups[:-1], GroupConfig(GroupKind.RECURRENT, h * random.randint(1, 3)))
    fine = random.random() < 0.7
    retention = random.choice(list(Retention))
    attention = [number for number, group in enumerate(groups) if group.kind is not GroupKind.RECURRENT]
    return PoolConfig(
        num_blocks=1 + random.choice((random.randint(3, 8), random.randint(8, 24))),
        hash_block_size=h,
        groups=groups,
        residency=random.choice(list(Residency)),
        commit=CommitMode.STEPS,
        hybrid=HybridConfig(
            fine_grained=fine,
            drop=tuple(number for number in attention if random.random() < 0.2),
            lookahead=random.choice((0, 0, 1, 2)),
            retention=retention,
            interval=h * random.randint(1, 4) if retention is Retention.INTERVAL else None,
            checkpoints=fine and random.random() < 0.3,
        ),
    )


def _random_group(random: Random, h: int, kinds: Sequence[GroupKind] = tuple(GroupKind)) -> GroupConfig:
    kind = random.choice(kinds)
    block_size = h * random.randint(1, 3)
    return GroupConfig(kind, block_size, random.randint(1, 9) if kind is GroupKind.SLIDING_WINDOW else None)
