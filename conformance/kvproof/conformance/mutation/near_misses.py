"""Random walks that also try what is not allowed: operations one step beside a legal one, which must change nothing.

Junk is left to the hypothesis strategies; a mutant that forgets a rule is noticed by what the rule forbids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from kvproof.conformance.attempts import attempt
from kvproof.conformance.enabled import EnabledOperations
from kvproof.conformance.hybrid_proposals import proposer_for
from kvproof.conformance.operations import Operation
from kvproof.conformance.preconditions import violations
from kvproof.conformance.proposals import Proposer
from kvproof.conformance.scope import Scope
from kvproof.conformance.undefined import undefined
from kvproof.conformance.walk import random_config
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import PoolConfig


@dataclass(slots=True)
class Attempts:
    """How many illegal operations were tried, and what was wrong with the last one, if anything."""

    number: int = 0
    finding: str | None = None


def attempts_in_a_scope(scope: Scope, seed: int, steps: int, attempts_per_step: int) -> Attempts:
    """Walk through a scope; in each state try some of the scope's operations that are not enabled there."""
    random, world, enabled = Random(seed), scope.start(), EnabledOperations(scope)
    everything = list(enabled.vocabulary())
    done = Attempts()
    for _ in range(steps):
        for operation in random.sample(everything, min(attempts_per_step, len(everything))):
            _attempt(world, operation, done)
        if done.finding or not _go_on(world, random.choice(enabled.of(world))):
            break
    return done


def attempts_in_a_large_pool(seed: int, draws: int, config: PoolConfig | None = None) -> Attempts:
    """Walk through a pool of several groups, drawn too if none is given; each draw that turns out illegal is tried."""
    random = Random(seed)
    proposer = proposer_for(World(random_config(random) if config is None else config), random)
    world = proposer.world
    done = Attempts()
    for operation in _draws(proposer, draws):
        if violations(world.situation, operation):
            _attempt(world, operation, done)
        elif not undefined(world, operation) and not _go_on(world, operation):
            break
        if done.finding:
            break
    return done


def _draws(proposer: Proposer, draws: int) -> Iterator[Operation]:
    return (operation for _ in range(draws) if (operation := proposer.draw()) is not None)


def _go_on(world: World, operation: Operation) -> bool:
    """Run a legal operation; whether that went well. If not, it is for the other layers to notice."""
    try:
        world.apply(operation)
    except Exception:
        return False
    return True


def _attempt(world: World, operation: Operation, done: Attempts) -> None:
    """Try an operation if it is illegal; the first finding stands."""
    if done.finding is None and violations(world.situation, operation):
        done.number += 1
        done.finding = attempt(world, operation)
