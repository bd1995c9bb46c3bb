"""From divergences to failures: what has one cause is one failure, under one clause, with the shortest trace.

Divergences have one cause if the same operation differs in the same places and seems to break the same clauses. Where
`attribution` names several, as they say the same of what is seen, it is the one that has most of its vectors among
those that diverged so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import sqrt

from kvproof.conformance.backends.interface import AdapterError, Backend, Capabilities
from kvproof.conformance.certification.attribution import clauses_of
from kvproof.conformance.certification.lockstep import Divergence
from kvproof.conformance.certification.shrink import shrink
from kvproof.conformance.operations import name_of

MOST_FAILURES = 25
"""Of a backend that is wrong everywhere so many failures are shown, those with the shortest traces."""

Cause = tuple[str, tuple[str, ...], tuple[str, ...]]
"""The operation that differs, where, and the clauses that it may break."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Where a backend diverged, in which stage; `clauses` are those of the vector that it was found by."""

    divergence: Divergence
    stage: str
    clauses: tuple[str, ...] = ()
    seed: int | None = None


@dataclass(slots=True)
class Group:
    """Findings with one cause."""

    findings: list[Finding] = field(default_factory=list)

    @property
    def shortest(self) -> Finding:
        """The finding with the fewest operations."""
        return min(self.findings, key=lambda finding: len(finding.divergence.operations))


@dataclass(frozen=True, slots=True)
class Shown:
    """A failure as it is shown: the clause, the finding that it is shown by, and that finding's trace made short."""

    clause: str
    finding: Finding
    divergence: Divergence


def cause_of(divergence: Divergence) -> Cause:
    """What the divergence has in common with others of the same cause."""
    return name_of(divergence.operations[-1]), divergence.where, clauses_of(divergence)


def failures(
    backend: Backend | None,
    capabilities: Capabilities,
    findings: Iterable[Finding],
    vectors_of: Counter[str],
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> list[Shown]:
    """One failure for each cause, shortest traces first; `vectors_of` counts how many vectors each clause had.

    Once the adapter broke there is no backend any more: then traces are as long as they were found.
    """
    groups: dict[Cause, Group] = {}
    for finding in findings:
        groups.setdefault(cause_of(finding.divergence), Group()).findings.append(finding)
    chosen = sorted(groups.values(), key=lambda group: len(group.shortest.divergence.operations))[:MOST_FAILURES]
    shown: dict[tuple[str, str, tuple[str, ...]], Shown] = {}
    for number, group in enumerate(chosen):
        tell(number, len(chosen))
        small = found = group.shortest.divergence
        if backend is not None:
            try:
                small = shrink(backend, capabilities, found)
            except AdapterError:  # it broke on something shorter; there is nobody left to ask
                backend = None
        clause = _clause(group, small, vectors_of)
        operation, where, _ = cause_of(small)
        shown.setdefault((clause, operation, where), Shown(clause, group.shortest, small))
    return sorted(shown.values(), key=lambda each: len(each.divergence.operations))


def _clause(group: Group, small: Divergence, vectors_of: Counter[str]) -> str:
    """The likeliest clause; of several the one whose vectors this cause fails most: the score of fault localisation,
    Ochiai.
    """
    likely = clauses_of(small)
    failed = Counter(clause for finding in group.findings for clause in finding.clauses)
    total = sum(bool(finding.clauses) for finding in group.findings)
    score = {
        clause: failed[clause] / sqrt(total * max(failed[clause], vectors_of[clause])) if failed[clause] else 0.0
        for clause in likely
    }
    return max(likely, key=lambda clause: score[clause])
