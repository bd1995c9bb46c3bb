"""Runs as the suite makes them, of the reference and of a double with one fault; what several tests look at."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvproof.conformance.backends.interface import Capabilities, Identity, Level
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.backends.wire import Step
from kvproof.conformance.certification.digests import driven_files, spec_digest
from kvproof.conformance.certification.failure import failure_of
from kvproof.conformance.certification.levels import level_of, levels
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.result import (
    ClauseRow,
    Environment,
    Failure,
    MutationControl,
    Run,
    StageRow,
    Status,
)
from kvproof.conformance.operations import AddRequest, Allocate, CacheFullBlocks, Free, Operation, Write
from kvproof.spec.clauses import Level as Binding
from kvproof.spec.clauses import clauses
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig

CONFIG = PoolConfig(4, 1, (GroupConfig(GroupKind.FULL_ATTENTION, 2),))

TRACE: tuple[Operation, ...] = (
    AddRequest("r1", (7, 8)),
    Allocate("r1", 1),
    Write("r1", 1, 2, 0),
    CacheFullBlocks("r1", (1,), 0, 1, 0),
    Free("r1", (1,)),
    Allocate("r2", 1),
)

FAILING, LAST = "POOL-FREE-3", 5
"""The clause that `FreesToTheFront` breaks, and the operation of `TRACE` that shows it."""


class FreesToTheFront(ReferenceBackend):
    """Puts blocks with a key at the front of the queue too."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        steps = super().run(operations, observe)
        return [
            _with_block_in_front(step) if isinstance(operation, Free) else step
            for operation, step in zip(operations, steps, strict=True)
        ]


def _with_block_in_front(step: Step) -> Step:
    assert step.seen is not None
    assert step.seen.free_queue is not None
    queue = step.seen.free_queue
    return msgspec.structs.replace(step, seen=msgspec.structs.replace(step.seen, free_queue=(queue[-1], *queue[:-1])))


def failure(target: str = "doubles:frees") -> Failure:
    backend = FreesToTheFront()
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    lockstep.run(TRACE)
    assert lockstep.divergence is not None
    return failure_of(lockstep.divergence, clause=FAILING, stage="random", target=target, seed=1, found_operations=40)


def row(clause: str, status: Status) -> ClauseRow:
    exercised = {"vectors": 3, "random": 120} if status in (Status.PASS, Status.FAIL) else {}
    reason = "" if exercised else f"no reason but that this is a {status.value}"
    return ClauseRow(clause, clauses()[clause].level, level_of(clause), status, exercised, reason)


def run(
    failures: Sequence[Failure] = (),
    statuses: dict[str, Status] | None = None,
    not_claimed: Level | None = None,
    **changes: object,
) -> Run:
    """A whole run in which what is claimed passed, but for these failures and statuses."""
    identity, capabilities = ReferenceBackend().identify()
    levels = tuple(level for level in capabilities.levels if level is not not_claimed)
    capabilities = msgspec.structs.replace(capabilities, levels=levels)
    made = Run(
        target="doubles:frees",
        identity=identity,
        capabilities=capabilities,
        driven=driven_files(identity),
        suite_version="0.1.0",
        spec_digest=spec_digest(),
        date="2026-12-01",
        profile="quick",
        seed=1,
        environment=Environment("CPython 3.11.7", "Linux", 2, (0.5, 0.4, 0.3), {"kvproof": "0.1.0"}),
        stages=(StageRow("random", Status.PASS, {"operations": 5000}, 1.25),),
        clauses=_rows(capabilities, {each.clause for each in failures}, statuses or {}),
        budgets={"walks": 60},
        non_vacuity={"the pool was full": 12},
        mutation=MutationControl(31, 31, "in this run"),
        honesty=("Tested, not proved.",),
        failures=tuple(failures),
    )
    return msgspec.structs.replace(made, **changes)


def _rows(capabilities: Capabilities, failed: set[str], statuses: dict[str, Status]) -> tuple[ClauseRow, ...]:
    rows = []
    for clause in [clauses()[asked] for asked in levels()]:
        claimed = level_of(clause.id) in capabilities.levels and clause.level is Binding.MUST
        status = Status.FAIL if clause.id in failed else Status.PASS if claimed else Status.DISABLED
        rows.append(row(clause.id, statuses.get(clause.id, status)))
    return tuple(rows)


def anonymous(of: Run) -> Run:
    """The same run of a backend that names no files."""
    identity = Identity(of.identity.name, of.identity.version)
    return msgspec.structs.replace(of, identity=identity, driven=())
