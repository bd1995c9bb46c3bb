"""What a run of the suite found out, as values: certificate, JUnit file, page and terminal all show the same `Run`.

Whoever runs the stages fills a `Run`; what follows from it (exit code, levels, whether there can be a certificate) is
in `verdict`, and a `Failure` is made of a divergence in `failure`.
"""

from __future__ import annotations

from enum import Enum
from functools import total_ordering

from msgspec import field

from kvproof.conformance.backends.interface import Capabilities, Identity, Level
from kvproof.conformance.backends.wire import Observation, Wire
from kvproof.conformance.certification.trace import Trace
from kvproof.spec.clauses import Level as Binding


@total_ordering
class Status(Enum):
    """What became of a clause or a stage, in rising severity: of several statuses the greatest counts."""

    UNKNOWN = "unknown"
    """Nobody got so far."""
    DISABLED = "disabled"
    """Not asked for: not claimed, not offered, not binding, or nothing that this suite can see."""
    SKIP = "skip"
    """It should have been exercised, and was not."""
    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    """The adapter or the suite broke; that says nothing about the backend."""

    def __lt__(self, other: Status) -> bool:
        ranks = list(Status)
        return ranks.index(self) < ranks.index(other)


class ClauseRow(Wire, frozen=True):
    """What became of one clause.

    `exercised` counts per stage how often it was put to the test, `reason` says why it was not.
    """

    clause: str
    binding: Binding
    level: Level
    status: Status
    exercised: dict[str, int] = field(default_factory=dict)
    reason: str = ""

    @property
    def is_exercised(self) -> bool:
        """Whether it was put to the test at all."""
        return any(self.exercised.values())


class StageRow(Wire, frozen=True):
    """What one stage did: `counts` of what it ran (operations, states, vectors, ...), and the CPU time it took."""

    name: str
    status: Status
    counts: dict[str, int] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    reason: str = ""


class Mismatch(Wire, frozen=True):
    """One thing that differs, in words: `part` is "answer", "events", or a part of the state."""

    part: str
    expected: str
    got: str


class FailureFacts(Wire, frozen=True, kw_only=True):
    """A failure without its trace.

    `operation` is the last one, which shows the failure; before shrinking the trace had `found_operations`. `expected`
    and `got` are the state after it. `fault` is one of `FAULT_KINDS`, `harm` what users of such a pool have seen.
    `replayed` of `replays` repetitions showed the failure again.
    """

    id: str
    clause: str
    stage: str
    operation: str
    operations: int
    found_operations: int
    mismatches: tuple[Mismatch, ...]
    before: Observation = Observation()
    expected: Observation = Observation()
    got: Observation = Observation()
    fault: str = ""
    harm: str = ""
    seed: int | None = None
    replayed: int = 0
    replays: int = 0
    replay: str = ""


class Failure(FailureFacts, frozen=True, kw_only=True):
    """A failure with its shortest trace."""

    trace: Trace

    @property
    def facts(self) -> FailureFacts:
        """All but the trace."""
        return FailureFacts(**{name: getattr(self, name) for name in FailureFacts.__struct_fields__})


class Crash(Wire, frozen=True, kw_only=True):
    """Where the adapter broke: the error, and the operations that led there, of `found_operations` in the beginning.

    `again`: it broke again when they were repeated, and its trace was made short.
    """

    stage: str
    error: str
    found_operations: int
    again: bool
    trace: Trace


class KnownDivergence(Wire, frozen=True):
    """A clause that the implementer knows to be broken; `until` is the last day (2027-01-31) on which that counts."""

    clause: str
    reason: str
    link: str = ""
    until: str = ""


class CaughtFault(Wire, frozen=True):
    """A mutant of the reference that was noticed: by which stage, and after how many CPU seconds.

    `clauses` are those that it breaks.
    """

    mutant: str
    clauses: tuple[str, ...]
    stage: str
    cpu_seconds: float


class MutationControl(Wire, frozen=True):
    """How many planted faults were noticed, and how fast, in CPU seconds; `source` says in which run, and how."""

    planted: int
    caught: int
    source: str
    missed: tuple[str, ...] = ()
    faults: tuple[CaughtFault, ...] = ()
    median_seconds: float = 0.0
    most_seconds: float = 0.0


class DrivenFile(Wire, frozen=True):
    """A file of the backend: its name within what `Identity.files` names, and the SHA-256 of its bytes."""

    name: str
    sha256: str


class Environment(Wire, frozen=True):
    """Where the suite ran; the load averages are those of the last 1, 5 and 15 minutes at its end."""

    python: str
    platform: str
    processors: int
    load_average: tuple[float, ...]
    packages: dict[str, str]


class RunFacts(Wire, frozen=True, kw_only=True):
    """A run without its failures.

    `target` is the backend as the user named it, `driven` its files before they were run, `date` the day in UTC
    (2026-12-01), `spec_digest` names the text of the clauses. `clauses` has every clause of the specification, in its
    order. `non_vacuity` counts how often what has to happen did happen; it names only what this backend can reach.
    `known` is None without a file of known divergences. `filters` says what the user left out, `unfinished` why the run
    ended early.
    """

    target: str
    identity: Identity
    capabilities: Capabilities
    driven: tuple[DrivenFile, ...]
    suite_version: str
    spec_digest: str
    date: str
    profile: str
    seed: int
    environment: Environment
    stages: tuple[StageRow, ...]
    clauses: tuple[ClauseRow, ...]
    budgets: dict[str, int] = field(default_factory=dict)
    non_vacuity: dict[str, int] = field(default_factory=dict)
    mutation: MutationControl | None = None
    known: tuple[KnownDivergence, ...] | None = None
    filters: tuple[str, ...] = ()
    unfinished: str = ""
    honesty: tuple[str, ...] = ()


class Run(RunFacts, frozen=True, kw_only=True):
    """Everything that a run found out."""

    failures: tuple[Failure, ...] = ()
    crash: Crash | None = None

    @property
    def facts(self) -> RunFacts:
        """All but the failures, and the crash that ended it."""
        return RunFacts(**{name: getattr(self, name) for name in RunFacts.__struct_fields__})
