"""Everything that `kvproof prove` checks, cut into jobs for several processes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache

from kvproof.spec.machine.axioms import HASH_AXIOMS
from kvproof.spec.machine.systems import POOL, SYSTEMS, system_of
from kvproof.spec.machine.transitions import Transition
from kvproof.spec.processes import deaf_to_interrupts
from kvproof.spec.proofs import counterexample
from kvproof.spec.proofs.catalogue import MACHINE_MUTANTS
from kvproof.spec.proofs.obligations import (
    MACHINE,
    TIMEOUT_S,
    Obligation,
    Proof,
    Prover,
    Verdict,
    obligations,
)
from kvproof.spec.proofs.vacuity import (
    QUICK_S,
    REGISTERING,
    Dependence,
    Refutation,
    Witness,
    dependences,
    refute,
    situations_of,
    unbroken,
    witness,
)

Result = Proof | Witness | Dependence | Refutation


@dataclass(frozen=True, slots=True)
class Job:
    """A kind of check, one of `KINDS`, and what it is made of: a transition or a mutant."""

    kind: str
    subject: str
    timeout_s: float = TIMEOUT_S

    def run(self) -> list[Result]:
        """Do it."""
        return KINDS[self.kind](self.subject, self.timeout_s)


def _prove_row(row: str, timeout_s: float) -> list[Result]:
    return [decide(obligation, timeout_s) for obligation in obligations() if obligation.transition == row]


def decide(obligation: Obligation, timeout_s: float = TIMEOUT_S) -> Proof:
    """Prove an obligation, or search for a counterexample: z3 seldom finds one among sorts of any size by itself."""
    system = system_of(obligation.transition)
    asked = prover() if system is POOL else _prover_of(system.name)
    # Among tables, finding no counterexample takes much longer than the proof.
    quick = QUICK_S if system is POOL else 10 * QUICK_S
    proof = asked.check(obligation, min(quick, timeout_s))
    if proof.verdict is Verdict.PROVED:
        return proof
    if obligation.transition != system.initial_row:
        transitions = machine() if system is POOL else system.transitions
        found = counterexample.find(obligation, transitions, timeout_s)
        if found is not None:
            return replace(proof, verdict=Verdict.REFUTED, reason="there is a counterexample", counterexample=found)
    return asked.check(obligation, timeout_s)


def _find_witnesses(transition: str, timeout_s: float) -> list[Result]:
    return [witness(transition, situation, timeout_s) for situation in situations_of(transition)]


def _drop_axioms(row: str, timeout_s: float) -> list[Result]:
    return list(dependences(row, timeout_s))


def _refute_mutant(name: str, timeout_s: float) -> list[Result]:
    return [refute(mutant, timeout_s) for mutant in MACHINE_MUTANTS if mutant.name == name]


KINDS: dict[str, Callable[[str, float], list[Result]]] = {
    "proofs": _prove_row,
    "axioms": _drop_axioms,
    "guards": _find_witnesses,
    "mutants": _refute_mutant,
}


def machine() -> Collection[Transition]:
    """The machine that is proved."""
    return MACHINE


@cache
def prover() -> Prover:
    """The process's prover for the pool."""
    return Prover(machine())


@cache
def _prover_of(name: str) -> Prover:
    [system] = [system for system in SYSTEMS if system.name == name]
    return Prover(system=system)


def all_jobs(timeout_s: float = TIMEOUT_S) -> list[Job]:
    """All jobs, those that the report begins with first."""
    rows = list(dict.fromkeys(obligation.transition for obligation in obligations()))
    of_the_pool = [row for row in rows if system_of(row) is POOL]
    # What takes longest goes first, so that no process waits for it at the end.
    dropping = sorted(of_the_pool, key=lambda row: row not in REGISTERING)
    return [
        *(Job("proofs", row, timeout_s) for row in rows),
        *(Job("axioms", row, timeout_s) for row in dropping),
        *(Job("guards", transition.name, timeout_s) for system in SYSTEMS for transition in system.transitions),
        *(Job("mutants", mutant.name, timeout_s) for mutant in MACHINE_MUTANTS),
    ]


@dataclass(frozen=True, slots=True)
class Report:
    """All results."""

    proofs: tuple[Proof, ...]
    witnesses: tuple[Witness, ...]
    dependences: tuple[Dependence, ...]
    refutations: tuple[Refutation, ...]
    seconds: float

    @property
    def proved(self) -> int:
        """How many obligations are proved."""
        return sum(proof.verdict is Verdict.PROVED for proof in self.proofs)

    def complaints(self) -> list[str]:
        """Everything that keeps the machine from being proved, or the proofs from saying something; a line each."""
        return [
            *(f"{p.obligation}: {p.verdict.value}: {p.reason}" for p in self.proofs if p.verdict is not Verdict.PROVED),
            *(f"{w.transition}: not possible in: {w.situation}: {w.reason}" for w in self.witnesses if not w.found),
            *self._complaints_about_axioms(),
            *(f"mutant {r.mutant}: {r.obligation} stands: {r.reason}" for r in self.refutations if not r.found),
            *(f"{theorem}: no mutant breaks it" for theorem in unbroken()),
        ]

    def needed(self, axiom: str) -> list[Obligation]:
        """The obligations that have a counterexample without an axiom about hashes."""
        return [d.obligation for d in self.dependences if d.without == (axiom,) and d.verdict is Verdict.REFUTED]

    def is_undecided(self) -> bool:
        """Whether z3 ran out of time somewhere, or gave up."""
        return any(
            [
                *(proof.verdict is Verdict.UNKNOWN for proof in self.proofs),
                *(dependence.verdict is Verdict.UNKNOWN for dependence in self.dependences),
            ]
        )

    def is_merely_undecided(self) -> bool:
        """Whether that is all there is to complain about."""
        verdicts = [proof.verdict for proof in self.proofs] + [each.verdict for each in self.dependences]
        return verdicts.count(Verdict.UNKNOWN) == len(self.complaints())

    def _complaints_about_axioms(self) -> list[str]:
        found = [
            f"{d.obligation}: {d.verdict.value} without {' and '.join(map(repr, d.without))}: {d.reason}"
            for d in self.dependences
            if d.verdict is Verdict.UNKNOWN
            or (d.verdict is Verdict.REFUTED and d.obligation.transition not in REGISTERING)
        ]
        return found + [f"the axiom {axiom!r} is not needed" for axiom in HASH_AXIOMS if not self.needed(axiom)]


def _run(job: Job) -> tuple[Job, list[Result]]:
    return job, job.run()


def run_jobs(jobs: list[Job], workers: int, on_done: Callable[[int], None]) -> Report:
    """Run jobs in several processes, or in this one alone; `on_done` hears how many are done after each."""
    start, results = time.perf_counter(), list[Result]()
    if workers == 1:
        for done, job in enumerate(jobs, 1):
            results += job.run()
            on_done(done)
    else:
        with deaf_to_interrupts():
            pool = multiprocessing.get_context("spawn").Pool(workers)
        with pool:
            found: dict[Job, list[Result]] = {}
            for job, results_of_job in pool.imap_unordered(_run, jobs):
                found[job] = results_of_job
                on_done(len(found))
        results = [result for job in jobs for result in found[job]]
    return Report(
        tuple(r for r in results if isinstance(r, Proof)),
        tuple(r for r in results if isinstance(r, Witness)),
        tuple(r for r in results if isinstance(r, Dependence)),
        tuple(r for r in results if isinstance(r, Refutation)),
        time.perf_counter() - start,
    )
