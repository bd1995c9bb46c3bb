"""A workload replayed on a backend beside the reference, and the configurations in which that is done."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, islice, product

from kvproof.conformance.backends.interface import AdapterError, Backend, Capabilities
from kvproof.conformance.certification.lockstep import Divergence, Lockstep
from kvproof.conformance.operations import name_of
from kvproof.conformance.workloads.arrivals import Workload
from kvproof.conformance.workloads.traffic import BLOCK_TOKENS, Counts, Engine
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HashAlgorithm, HolderMode, PoolConfig

BATCH = 512
"""Operations between two reports of progress."""

SEED = b"kvproof"
"""Both sides hash with it; the default seed of some contracts is another one in every pool."""


@dataclass(slots=True)
class Played:
    """What was done, up to the end or to the first divergence; `seconds` of the clock.

    After a divergence `counts` has the whole batch in which it was found, `operations` ends with it.
    """

    workload: str
    config: PoolConfig
    counts: Counts
    operations: int = 0
    by_name: Counter[str] = field(default_factory=Counter)
    """How often each operation was run."""
    tested: Counter[str] = field(default_factory=Counter)
    """How often each clause was put to the test."""
    seconds: float = 0.0
    divergence: Divergence | None = None


def configurations(capabilities: Capabilities, num_blocks: int) -> list[PoolConfig]:
    """One group of full attention in every mode that the backend offers; none if it has no full attention."""
    if GroupKind.FULL_ATTENTION not in capabilities.group_kinds:
        return []
    known = [algorithm for algorithm in HashAlgorithm if algorithm.value in capabilities.hashes]
    groups = (GroupConfig(GroupKind.FULL_ATTENTION, BLOCK_TOKENS),)
    modes = product(known or [HashAlgorithm.SHA256], capabilities.residency, capabilities.holders, capabilities.commit)
    return [
        PoolConfig(num_blocks, BLOCK_TOKENS, groups, algorithm, SEED, residency, holders, commit)
        for algorithm, residency, holders, commit in modes
        if (commit, holders) != (CommitMode.STEPS, HolderMode.CALLER)
    ]


def play(
    backend: Backend,
    capabilities: Capabilities,
    config: PoolConfig,
    workload: Workload,
    most_requests: int | None = None,
    progress: Callable[[Played], None] = lambda so_far: None,
    is_enough: Callable[[], bool] = lambda: False,
) -> Played:
    """Replay the first requests of a workload, or all, unless before the end it `is_enough`.

    Raises `AdapterError`, but for one that broke in what it was sent after a divergence.
    """
    lockstep = Lockstep(backend, capabilities, config)
    engine = Engine(lockstep.model.world, workload)
    played, started = Played(workload.name, config, engine.counts), time.monotonic()
    operations = engine.serve(workload.arrivals[:most_requests])
    for operation in operations:
        try:
            lockstep.run(chain((operation,), islice(operations, BATCH - 1)), reads=True)
        except AdapterError:
            if lockstep.divergence is None:
                raise
        played.by_name.update(map(name_of, lockstep.operations[played.operations :]))
        played.operations, played.seconds = len(lockstep.operations), time.monotonic() - started
        played.divergence, played.tested = lockstep.divergence, lockstep.tested.clauses
        if played.divergence is not None:
            return played
        progress(played)
        if is_enough():
            return played
    lockstep.compare_state()
    lockstep.model.world.check()
    played.seconds, played.divergence = time.monotonic() - started, lockstep.divergence
    return played
