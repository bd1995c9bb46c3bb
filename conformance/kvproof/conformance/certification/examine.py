"""A whole run: smoke, vectors, tiny pools, random walks, spoiled operations; then what it all says of each clause."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kvproof.conformance.backends.interface import AdapterError, Backend, Capabilities, Identity
from kvproof.conformance.certification.applicable import why_not
from kvproof.conformance.certification.crash import Reopen, crash_of
from kvproof.conformance.certification.findings import Finding, Shown, failures
from kvproof.conformance.certification.lockstep import AdapterCrash, Lockstep
from kvproof.conformance.certification.modes import in_modes_of
from kvproof.conformance.certification.profiles import Profile
from kvproof.conformance.certification.result import Crash, StageRow, Status
from kvproof.conformance.certification.smoke import smoke
from kvproof.conformance.certification.stages import (
    Outcome,
    Subject,
    exhaustive,
    is_enough,
    near_misses,
    random_walks,
)
from kvproof.conformance.certification.trace import Trace
from kvproof.conformance.terminal import counted
from kvproof.conformance.vectors import is_draining, vectors
from kvproof.conformance.workloads.play import Played
from kvproof.conformance.workloads.stage import replay_workloads

IDLE = {
    "vectors": "none of them fits what is claimed",
    "exhaustive": "no pool can be made in the modes that are claimed",
    "random": "the profile asks for none",
    "traces": "they need full attention, which is not claimed",
    "illegal": "level R is not claimed",
}
"""Why a stage had nothing to do."""

Tell = Callable[[str], None]
"""Hears in words what is being done."""


@dataclass(slots=True)
class Examination:
    """What was done to a backend, and what was found.

    `vectors_of` counts the vectors of each clause that were run, `left_out` why the others were not. `operations`
    counts, for each stage, how often each operation was compared, `tested` how often each clause was put to the test by
    one. `noticed_after` has the CPU seconds that a stage took up to its first divergence.
    """

    identity: Identity
    capabilities: Capabilities
    stages: list[StageRow] = field(default_factory=list)
    vectors_of: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, str] = field(default_factory=dict)
    operations: dict[str, Counter[str]] = field(default_factory=dict)
    tested: dict[str, Counter[str]] = field(default_factory=dict)
    met: Counter[str] = field(default_factory=Counter)
    noticed_after: dict[str, float] = field(default_factory=dict)
    shown: list[Shown] = field(default_factory=list)
    crash: Crash | None = None


def examine(
    backend: Backend,
    profile: Profile,
    seed: int,
    tell: Tell = lambda text: None,
    reopen: Reopen | None = None,
    patience: float | None = None,
) -> Examination:
    """Drive a backend through all stages.

    If its adapter breaks, that ends the run, and is what the last stage says; the backend is made anew with `reopen`,
    to find out whether it breaks there again. With `patience` a stage ends after so many CPU seconds once any stage has
    found the backend wrong.
    """
    return _Examiner(backend, profile, seed, tell, reopen, patience).run()


class _Examiner:
    def __init__(
        self,
        backend: Backend,
        profile: Profile,
        seed: int,
        tell: Tell,
        reopen: Reopen | None,
        patience: float | None,
    ) -> None:
        self._backend, self._profile, self._seed, self._tell = backend, profile, seed, tell
        self._reopen = reopen
        identity, capabilities = backend.identify()
        self._patience = patience
        self._subject = Subject(backend, capabilities, self._is_enough)
        self._done = Examination(identity, capabilities)
        self._findings: list[Finding] = []

    def run(self) -> Examination:
        """Stage by stage, up to where the adapter breaks."""
        broken: AdapterError | None = None
        for stage in self._stages():
            started = time.process_time()
            outcome = stage()
            self._note(outcome, time.process_time() - started)
            if (broken := outcome.broken) is not None:
                self._note_crash(outcome.name, broken)
                break
        if self._findings:
            self._tell("making traces short")
        live = None if broken else self._backend
        self._done.shown = failures(
            live, self._done.capabilities, self._findings, self._done.vectors_of, self._tell_short
        )
        return self._done

    def _stages(self) -> Iterable[Callable[[], Outcome]]:
        profile, subject, seed = self._profile, self._subject, self._seed
        yield lambda: smoke(subject)
        yield self._run_vectors
        if profile.exhaustive:
            yield lambda: exhaustive(subject, self._tell_outcome)
        yield lambda: random_walks(
            subject, seed, profile.walks, profile.operations, self._tell_outcome, profile.hybrid_walks
        )
        if profile.workloads:
            yield self._run_workloads
        yield lambda: near_misses(
            subject,
            seed,
            profile.illegal_walks,
            profile.operations,
            self._tell_outcome,
            profile.hybrid_illegal_walks,
        )

    def _is_enough(self, done: Outcome) -> bool:
        """See `is_enough`; beyond that, whether patience is at an end."""
        is_known = bool(done.divergences or self._done.noticed_after)
        late = self._patience is not None and time.process_time() - done.started > self._patience
        return is_enough(done) or (is_known and late)

    def _run_vectors(self) -> Outcome:
        """Every vector that the backend can be asked; where one takes the events itself, nobody else does."""
        done, capabilities = Outcome("vectors"), self._done.capabilities
        with done.until_it_breaks():
            for vector in vectors():
                if reason := why_not(vector, capabilities):
                    self._done.left_out.update(dict.fromkeys(vector.header.clauses, reason))
                    continue
                self._done.vectors_of.update(vector.header.clauses)
                self._run_vector(vector, done)
                self._tell_outcome(done)
        return done

    def _run_workloads(self) -> Outcome:
        """The first requests of real traces, at several pool sizes."""
        done = Outcome("traces")
        replayed = replay_workloads(
            self._backend, self._done.capabilities, progress=self._tell_played, is_enough=lambda: self._is_enough(done)
        )
        with done.until_it_breaks():
            for played in replayed:
                done.pools += 1
                done.operations += played.by_name
                done.tested.update(played.tested)
                if played.divergence is not None:
                    done.note(played.divergence)
        return done

    def _tell_played(self, played: Played) -> None:
        blocks, operations = counted(played.config.num_blocks, "blocks"), counted(played.operations, "operations")
        self._tell(f"traces: {played.workload}, {blocks}, {operations}")

    def _run_vector(self, recorded: Trace, done: Outcome) -> None:
        vector = in_modes_of(recorded, self._done.capabilities)
        lockstep = Lockstep(self._backend, self._done.capabilities, vector.header.config, watch=not is_draining(vector))
        try:
            with done.counting(lockstep):
                lockstep.replay(vector.operations, reads=True)
        finally:
            if lockstep.divergence is not None:
                self._findings.append(Finding(lockstep.divergence, "vectors", vector.header.clauses))

    def _note(self, outcome: Outcome, seconds: float) -> None:
        done, name = self._done, outcome.name
        if name != "vectors":
            self._findings += [Finding(divergence, name, seed=self._seed) for divergence in outcome.divergences]
        if outcome.broken is not None:
            done.stages.append(StageRow(name, Status.ERROR, cpu_seconds=seconds, reason=str(outcome.broken)))
            return
        if not outcome.pools:
            done.stages.append(StageRow(name, Status.DISABLED, reason=IDLE[name]))
            return
        counts = {"pools": outcome.pools, "operations": outcome.operations.total(), "refusals": outcome.refusals}
        status = Status.FAIL if outcome.divergences else Status.PASS
        broke_off = f"it ended early, after {len(outcome.divergences)} divergences" if outcome.broke_off else ""
        done.stages.append(StageRow(name, status, counts, round(seconds, 1), broke_off))
        done.operations[name] = outcome.operations
        done.tested[name] = outcome.tested
        if outcome.noticed_after is not None:
            done.noticed_after[name] = outcome.noticed_after
        done.met += outcome.met

    def _note_crash(self, stage: str, broken: AdapterError) -> None:
        if isinstance(broken, AdapterCrash) and self._reopen is not None:
            self._tell("making the trace of the crash short")
            self._done.crash = crash_of(broken, stage, self._reopen)

    def _tell_outcome(self, so_far: Outcome) -> None:
        pools, operations = counted(so_far.pools, "pools"), counted(so_far.operations.total(), "operations")
        self._tell(f"{so_far.name}: {pools}, {operations}")

    def _tell_short(self, number: int, total: int) -> None:
        self._tell(f"making traces short: {number} of {total}")
