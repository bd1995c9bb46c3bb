"""The control of a run: broken references are certified too, and each has to be noticed.

The standard and the deep profile plant every mutant of the reference that a trace can show, and replay the vectors of
the clauses that it breaks, in a process beside the stages, which need nothing of it. The quick profile cites the last
run of `kvproof certify-mutants`, which certifies each mutant through all stages; its record is shipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import NamedTuple, Self

import msgspec

from kvproof.conformance.backends.guarded import GuardedBackend
from kvproof.conformance.backends.interface import AdapterError
from kvproof.conformance.backends.wire import Wire
from kvproof.conformance.certification.digests import suite_digest
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.result import CaughtFault, MutationControl
from kvproof.conformance.certification.trials import Trials, mutant_named
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.twin import mutated_reference
from kvproof.conformance.mutation.unseen import seen_as, why_unseen
from kvproof.conformance.vectors import is_draining, vectors_of

RECORD = Path(__file__).with_name("control.json")
"""What the last run of `kvproof certify-mutants` found."""


_BESIDE = """
import sys
names, *sys.path = sys.argv[1:]
from kvproof.conformance.certification.control import say_verdicts
say_verdicts(names.split())
"""


class Record(Wire, frozen=True, kw_only=True):
    """A run of `kvproof certify-mutants`: when, of which files (`suite`, see `suite_digest`), and what was noticed."""

    date: str
    version: str
    suite: str
    seed: int
    caught: tuple[CaughtFault, ...]
    missed: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """Whether a mutant was noticed, and what that took."""

    noticed: bool
    cpu_seconds: float


def planted() -> list[Mutant]:
    """Every mutant that a backend could have."""
    return [mutant for mutant in MUTANTS if why_unseen(mutant) is None]


class ControlBeside:
    """Runs mutants, by default all that are `planted`, through the vectors of the clauses that they break.

    That is done by another process from when this is entered; it ends when this is left, however that is.
    """

    def __init__(self, mutants: Sequence[Mutant] | None = None) -> None:
        self._mutants = planted() if mutants is None else mutants

    def __enter__(self) -> Self:
        names = " ".join(mutant.name for mutant in self._mutants)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BESIDE, names, *_path_of_the_suite()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # whatever ends it is met and told again where the rest is tried out
            start_new_session=True,  # Ctrl-C in a terminal is for this process to hear
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def control(self, tell: Callable[[str], None] = lambda text: None) -> MutationControl:
        """What was noticed and what was not, once all is done."""
        caught, missed = [], []
        for number, mutant in enumerate(self._mutants):
            tell(f"planted faults: {number} of {len(self._mutants)}")
            verdict = self._received() or try_out(mutant)
            if verdict.noticed:
                caught.append(CaughtFault(mutant.name, seen_as(mutant), "vectors", verdict.cpu_seconds))
            else:
                missed.append(mutant.name)
        return _control(caught, missed, "in this run, by the vectors of the clauses that each breaks")

    def _received(self) -> Verdict | None:
        """The next verdict; None if the process has ended before, as where memory is short."""
        line = self._process.stdout.readline() if self._process.stdout else b""
        return msgspec.json.decode(line, type=Verdict) if line.endswith(b"\n") else None


def try_out(mutant: Mutant) -> Verdict:
    """Find out in this process whether a mutant is noticed."""
    started = time.process_time()
    noticed = is_noticed(mutant)
    return Verdict(noticed, round(time.process_time() - started, 3))


def say_verdicts(names: Iterable[str]) -> None:
    """Try out mutants, and print a line for each, for `ControlBeside`."""
    os.nice(10)  # how long a run takes is for its stages to say
    for name in names:
        sys.stdout.buffer.write(msgspec.json.encode(try_out(mutant_named(name))) + b"\n")
        sys.stdout.buffer.flush()


def _path_of_the_suite() -> list[str]:
    """Where modules are found, without the current folder: what lies there is the user's, whatever its name."""
    with suppress(OSError):  # there may be no current folder any more
        here, parts = os.getcwd(), [os.path.dirname(part) for part in sys.modules["kvproof"].__path__]
        return [folder for folder in sys.path if os.path.abspath(folder) != here or folder in parts]
    return sys.path


def last_control() -> MutationControl | None:
    """What the last run of `kvproof certify-mutants` found; None if no record of one is here."""
    if not RECORD.is_file():
        return None
    record = msgspec.json.decode(RECORD.read_bytes(), type=Record)
    state = "" if record.suite == suite_digest() else "; files of kvproof itself have changed since then"
    source = f"in the last run of all stages, of {record.date}, kvproof {record.version}{state}"
    return _control(record.caught, record.missed, source)


def record_of(run: Trials) -> bytes:
    """The record of a run that ended now."""
    seen = [trial for trial in run.trials if why_unseen(mutant_named(trial.mutant)) is None]
    record = Record(
        date=datetime.now(UTC).date().isoformat(),
        version=version("kvproof"),
        suite=suite_digest(),
        seed=run.seed,
        caught=tuple(
            CaughtFault(trial.mutant, seen_as(mutant_named(trial.mutant)), trial.killed_by, trial.kill_seconds)
            for trial in seen
            if trial.kill_seconds is not None
        ),
        missed=tuple(trial.mutant for trial in seen if trial.kill_seconds is None),
    )
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def is_noticed(mutant: Mutant) -> bool:
    """Whether a vector of one of the mutant's clauses diverges, or cannot be run at all."""
    backend = GuardedBackend(mutated_reference(mutant.patch))
    try:
        _, capabilities = backend.identify()
        for vector in vectors_of(seen_as(mutant)):
            lockstep = Lockstep(backend, capabilities, vector.header.config, watch=not is_draining(vector))
            lockstep.replay(vector.operations, reads=True)
            if lockstep.divergence is not None:
                return True
    except AdapterError:
        return True
    return False


def _control(caught: Sequence[CaughtFault], missed: Sequence[str], source: str) -> MutationControl:
    seconds = [fault.cpu_seconds for fault in caught]
    return MutationControl(
        len(caught) + len(missed),
        len(caught),
        source,
        tuple(missed),
        tuple(caught),
        round(median(seconds), 3) if seconds else 0.0,
        max(seconds, default=0.0),
    )
