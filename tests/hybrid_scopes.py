"""Random models, settings and prompts that share prefixes, small enough that everything happens often."""

from __future__ import annotations

from random import Random

from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HybridConfig, PoolConfig, Retention

FULL, WINDOW, STATE = GroupKind.FULL_ATTENTION, GroupKind.SLIDING_WINDOW, GroupKind.RECURRENT

MODELS = (
    *((FULL, STATE), (FULL, STATE), (STATE, FULL), (FULL, WINDOW, STATE), (FULL, FULL, STATE), (STATE, STATE)),
    *((FULL,), (FULL,), (FULL, FULL), (WINDOW,), (FULL, WINDOW)),
)


def random_config(random: Random, num_blocks: int) -> PoolConfig:
    """A pool of any of these models with any settings."""
    h = random.choice([1, 2])
    groups = tuple(
        GroupConfig(kind, h * random.choice([1, 2, 3, 3]), random.randint(1, 6) if kind is WINDOW else None)
        for kind in random.choice(MODELS)
    )
    retention = random.choice(list(Retention))
    fine_grained = random.random() < 0.7
    hybrid = HybridConfig(
        fine_grained,
        tuple(g for g, group in enumerate(groups) if group.kind is not STATE and random.random() < 0.2),
        random.choice([0, 0, 1, 2]),
        retention,
        h * random.randint(1, 4) if retention is Retention.INTERVAL else None,
        fine_grained and random.random() < 0.3,
    )
    return PoolConfig(num_blocks, h, groups, commit=CommitMode.STEPS, hybrid=hybrid)


def config_of_cuts(random: Random) -> PoolConfig:
    """A pool of attention groups of different block sizes: a slot of one begins inside one of another."""
    sizes = random.sample([2, 3, 4], 2)
    groups = [GroupConfig(FULL, size) for size in sizes]
    if random.random() < 0.3:
        groups[-1] = GroupConfig(WINDOW, sizes[-1], random.randint(1, 9))
    hybrid = HybridConfig(fine_grained=random.random() < 0.6)
    return PoolConfig(60, 1, tuple(groups), commit=CommitMode.STEPS, hybrid=hybrid)


def random_prompt(random: Random, shared: list[int], most: int) -> list[int]:
    """A prompt that begins with a part of what is shared, and then says something of its own."""
    length = random.randint(1, most)
    begins = shared[: max(random.randint(0, length), random.randint(0, length))]
    return begins + [random.randint(2, 3) for _ in range(length - len(begins))]
