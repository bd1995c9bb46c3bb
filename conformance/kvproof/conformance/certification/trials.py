"""The suite on trial: each mutant of the reference is certified as a backend, and has to fail by the clause it breaks.

The stages are those of the standard profile. Once a stage has found the mutant, this one and each later stage goes on
for `PATIENCE`, so that its failures are many enough to be told apart; until then every stage does all it has to do. So
the time of a kill is the time that a user waits for it. A mutant that no trace can show (`unseen`) has to pass a few
stages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path

import msgspec
from msgspec import field

from kvproof.conformance.backends.guarded import GuardedBackend
from kvproof.conformance.backends.wire import Wire
from kvproof.conformance.certification.examine import Examination, examine
from kvproof.conformance.certification.profiles import QUICK, STANDARD
from kvproof.conformance.certification.result import Status
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.twin import mutated_reference
from kvproof.conformance.mutation.unseen import seen_as, why_unseen
from kvproof.conformance.time_limit import TooLong, time_limit
from kvproof.spec.processes import deaf_to_interrupts

PATIENCE = 0.3
"""CPU seconds that a stage may take once a mutant is noticed."""

UNSEEN = replace(QUICK, walks=10, illegal_walks=10)
"""What a mutant that no trace can show has to pass."""

MOST_SECONDS = 900
"""Of the clock, for one mutant; one that loops for ever does not end by itself."""


class Trial(Wire, frozen=True, kw_only=True):
    """What a certification makes of a mutant.

    `noticed_after` has the CPU seconds that each stage took up to its first divergence, and `kill_seconds` those of
    the whole run up to the first one. `clauses` are those of the failures, shortest trace first, which has
    `operations`. `error` says why the trial could not finish.
    """

    mutant: str
    noticed_after: dict[str, float] = field(default_factory=dict)
    kill_seconds: float | None = None
    clauses: tuple[str, ...] = ()
    operations: int = 0
    cpu_seconds: float = 0.0
    error: str = ""

    @property
    def killed_by(self) -> str:
        """The stage that noticed first, in their order; empty if none did."""
        return next(iter(self.noticed_after), "")


class Trials(Wire, frozen=True, kw_only=True):
    """A whole run, one mutant after the other in the order of the catalogue."""

    seed: int
    patience: float
    trials: tuple[Trial, ...]


def load(file: Path) -> Trials:
    """Read a results file."""
    return msgspec.json.decode(file.read_bytes(), type=Trials)


def save(run: Trials, file: Path) -> None:
    """Write a results file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")


def mutant_named(name: str) -> Mutant:
    """The mutant of the catalogue; raises `KeyError`."""
    return {mutant.name: mutant for mutant in MUTANTS}[name]


def attempt(mutant: Mutant, seed: int) -> Trial:
    """Certify one mutant in this process."""
    started, profile = time.process_time(), STANDARD if why_unseen(mutant) is None else UNSEEN
    try:
        with time_limit(MOST_SECONDS):
            done = examine(GuardedBackend(mutated_reference(mutant.patch)), profile, seed, patience=PATIENCE)
    except TooLong:
        return Trial(mutant=mutant.name, error=f"it took more than {MOST_SECONDS} s")
    return Trial(
        mutant=mutant.name,
        noticed_after={stage: round(seconds, 3) for stage, seconds in done.noticed_after.items()},
        kill_seconds=_kill_seconds(done),
        clauses=tuple(dict.fromkeys(shown.clause for shown in done.shown)),
        operations=len(done.shown[0].divergence.operations) if done.shown else 0,
        cpu_seconds=round(time.process_time() - started, 1),
        error="; ".join(f"stage {row.name}: {row.reason}" for row in done.stages if row.status is Status.ERROR),
    )


def run_trials(
    names: Sequence[str], seed: int, workers: int, report: Callable[[Trial], None] = lambda trial: None
) -> Trials:
    """Certify the named mutants, `workers` at a time; `report` hears of each one at once."""
    results: dict[str, Trial] = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        with deaf_to_interrupts():
            waiting = {pool.submit(_attempt, name, seed): name for name in names}
        try:
            for done in as_completed(waiting):
                name = waiting[done]
                results[name] = _result(name, done.exception(), done.result)
                report(results[name])
        except BaseException:  # the user interrupts
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in active_children():
                worker.kill()
            raise
    return Trials(seed=seed, patience=PATIENCE, trials=tuple(results[name] for name in names))


def complaints_about(trial: Trial) -> list[str]:
    """What is wrong with a trial: the mutant got away, fails by other clauses, or was seen and is listed as unseen."""
    mutant = mutant_named(trial.mutant)
    unseen = why_unseen(mutant)
    if unseen is not None:
        seen = [trial.error, *(f"stage {stage} noticed it" for stage in trial.noticed_after)]
        return [f"it is listed as unseen ({unseen.name}), but {each}" for each in seen if each]
    if trial.error:
        return [trial.error]
    if not trial.noticed_after:
        return ["no stage noticed it"]
    if not set(trial.clauses) & set(seen_as(mutant)):
        return [f"it breaks {', '.join(seen_as(mutant))}, but its failures are of {', '.join(trial.clauses)}"]
    return []


def _attempt(name: str, seed: int) -> Trial:
    return attempt(mutant_named(name), seed)


def _result(name: str, raised: BaseException | None, result: Callable[[], Trial]) -> Trial:
    """The trial, or what ended it: a worker that is gone, or something that broke in the suite."""
    return result() if raised is None else Trial(mutant=name, error=f"{type(raised).__name__}: {raised}")


def _kill_seconds(done: Examination) -> float | None:
    """CPU seconds of all stages before the first that noticed, and its own up to there."""
    before = 0.0
    for row in done.stages:
        if row.name in done.noticed_after:
            return round(before + done.noticed_after[row.name], 3)
        before += row.cpu_seconds
    return None
