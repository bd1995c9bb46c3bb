"""How many operations a second a backend answers: `python tools/adapter_throughput.py TARGET [SEED]`.

A random walk of legal operations is drawn first; what is timed is the backend alone, with messages and their checks,
in batches of 256, on pools of 16, 64 and 256 blocks.
"""

from __future__ import annotations

import sys
import time
from random import Random

from kvproof.conformance.backends.interface import Backend
from kvproof.conformance.backends.targets import open_backend
from kvproof.conformance.certification.model import Model
from kvproof.conformance.operations import Operation
from kvproof.conformance.preconditions import violations
from kvproof.conformance.proposals import Proposer
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig

BATCH = 256
OPERATIONS = 8192
LEAST_S = 2.0


def drawn(model: Model, seed: int) -> list[Operation]:
    """Legal operations that the backend offers, in an order in which they can be run on a new pool."""
    proposer, chosen = Proposer(model.world, Random(seed)), list[Operation]()
    while len(chosen) < OPERATIONS:
        operation = proposer.draw()
        if operation is None or violations(model.world.situation, operation) or model.is_undefined(operation):
            continue
        if not model.is_run(operation):
            continue
        if model.is_offered(operation):
            chosen.append(operation)
        model.expect(operation)
    return chosen


def rate(backend: Backend, config: PoolConfig, operations: list[Operation], observe: bool) -> float:
    """Operations a second, over at least `LEAST_S` seconds."""
    batches = [operations[start : start + BATCH] for start in range(0, len(operations), BATCH)]
    done, spent = 0, 0.0
    while spent < LEAST_S:
        backend.start(config)
        began = time.perf_counter()
        for batch in batches:
            done += len(backend.run(batch, observe))
        spent += time.perf_counter() - began
    return done / spent


def main(target: str, seed: int) -> None:
    """Measure and print."""
    backend = open_backend(target)
    _, capabilities = backend.identify()
    print(f"{'blocks':>6} {'ops/s, answers only':>20} {'ops/s, with state and events':>29}")
    for blocks in (16, 64, 256):
        config = PoolConfig(blocks, 4, (GroupConfig(GroupKind.FULL_ATTENTION, 16),))
        operations = drawn(Model(config, capabilities), seed)
        plain, observed = (rate(backend, config, operations, observe) for observe in (False, True))
        print(f"{blocks:6} {plain:20,.0f} {observed:29,.0f}")
    backend.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
