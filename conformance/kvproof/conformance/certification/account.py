"""What an examination says of each clause, and of the whole: the `Run` that every report is made of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from kvproof.conformance.backends.interface import Capabilities
from kvproof.conformance.backends.wire import PARTS
from kvproof.conformance.certification.digests import spec_digest
from kvproof.conformance.certification.environment import environment
from kvproof.conformance.certification.examine import Examination
from kvproof.conformance.certification.failure import failure_of
from kvproof.conformance.certification.levels import level_of, levels
from kvproof.conformance.certification.marks import reachable
from kvproof.conformance.certification.profiles import Profile
from kvproof.conformance.certification.result import (
    ClauseRow,
    DrivenFile,
    KnownDivergence,
    MutationControl,
    Run,
    StageRow,
    Status,
)
from kvproof.conformance.vectors.not_shown import NOT_SHOWN
from kvproof.spec.clauses import Clause, clauses
from kvproof.spec.clauses import Level as Binding

HONESTY = (
    "Tested, not proved: the proofs are about the abstract machine.",
    "One operation at a time, by one caller; nothing is said of threads or of cost.",
    "What the backend does not show of its state was not compared.",
)


def run_of(
    done: Examination,
    target: str,
    profile: Profile,
    seed: int,
    driven: tuple[DrivenFile, ...],
    control: MutationControl | None = None,
    known: Sequence[KnownDivergence] | None = None,
) -> Run:
    """The whole run as one value."""
    failed = {shown.clause for shown in done.shown}
    return Run(
        target=target,
        identity=done.identity,
        capabilities=done.capabilities,
        driven=driven,
        suite_version=version("kvproof"),
        spec_digest=spec_digest(),
        date=datetime.now(UTC).date().isoformat(),
        profile=profile.name,
        seed=seed,
        environment=environment(),
        stages=tuple(done.stages),
        clauses=tuple(_row(clauses()[asked], done, asked in failed) for asked in levels()),
        budgets=profile.budgets,
        non_vacuity={name: done.met[name] for name in reachable(done.capabilities)},
        mutation=control,
        known=None if known is None else tuple(known),
        unfinished="; ".join(f"stage {row.name}: {row.reason}" for row in done.stages if _broke_off(row)),
        honesty=(*HONESTY, *_not_shown(done.capabilities), *_not_asked(done.capabilities)),
        crash=done.crash,
        failures=tuple(
            failure_of(
                shown.divergence,
                clause=shown.clause,
                stage=shown.finding.stage,
                target=target,
                seed=shown.finding.seed,
                found_operations=len(shown.finding.divergence.operations),
            )
            for shown in done.shown
        ),
    )


def _broke_off(row: StageRow) -> bool:
    """Whether a stage did not do all that it was to do; what it would have found is not known."""
    return row.status is Status.FAIL and bool(row.reason)


def _row(clause: Clause, done: Examination, failed: bool) -> ClauseRow:
    level = level_of(clause.id)
    exercised = _exercised(clause.id, done)
    if level not in done.capabilities.levels:
        status, reason = Status.DISABLED, f"level {level} is not claimed"
    elif clause.level is Binding.UNDEFINED or clause.level is Binding.MAY:
        status, reason = Status.DISABLED, f"it is {clause.level.value}: nothing is asked of anybody"
    elif exercised:
        status, reason = Status.PASS, ""
    elif why := NOT_SHOWN.get(clause.id) or done.left_out.get(clause.id):
        status, reason = Status.DISABLED, why
    elif done.stages and done.stages[-1].status is Status.ERROR:
        status, reason = Status.UNKNOWN, "the run ended before"
    else:
        status, reason = Status.SKIP, "nothing put it to the test"
    return ClauseRow(
        clause.id, clause.level, level, Status.FAIL if failed else status, exercised, "" if failed else reason
    )


def _exercised(clause: str, done: Examination) -> dict[str, int]:
    """How often the clause was put to the test: vectors that carry it, and operations, see `Tested`."""
    counts = {"vectors": done.vectors_of[clause]}
    for stage, tested in done.tested.items():
        if stage != "vectors":
            counts[stage] = tested[clause]
    return {stage: count for stage, count in counts.items() if count}


def _not_shown(capabilities: Capabilities) -> list[str]:
    missing = [part for part in PARTS if part not in capabilities.observes]
    return [f"The backend does not show: {', '.join(missing)}."] if missing else []


def _not_asked(capabilities: Capabilities) -> list[str]:
    return [f"The backend was not asked for: {', '.join(capabilities.without)}."] if capabilities.without else []
