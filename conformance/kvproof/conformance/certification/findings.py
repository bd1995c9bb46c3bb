"""From divergences to failures: what has one cause is one failure, under one clause, with the shortest trace.

Divergences have one cause if the same operation differs in the same places. Which clause that breaks is what
`attribution` makes of what can be seen, unless vectors diverged so and none of them carries this clause: then it is the
one among theirs that has most of its vectors there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt

from kvproof.conformance.backends.interface import Backend, Capabilities, Level
from kvproof.conformance.certification.attribution import clause_of
from kvproof.conformance.certification.levels import level_of
from kvproof.conformance.certification.lockstep import Divergence
from kvproof.conformance.certification.shrink import shrink
from kvproof.conformance.operations import name_of

MOST_FAILURES = 25
"""Of a backend that is wrong everywhere so many failures are shown, those with the shortest traces."""

Cause = tuple[str, tuple[str, ...], tuple[str, ...]]
"""The operation that differs, where, and with which errors it had to be refused."""


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
    where = tuple(sorted(difference.what for difference in divergence.differences))
    return name_of(divergence.operations[-1]), where, tuple(sorted(divergence.expected.errors))


def failures(
    backend: Backend,
    capabilities: Capabilities,
    findings: Iterable[Finding],
    vectors_of: Counter[str],
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> list[Shown]:
    """One failure for each cause, shortest traces first; `vectors_of` counts how many vectors each clause had."""
    groups: dict[tuple[Cause, str], Group] = {}
    for finding in findings:
        cause = cause_of(finding.divergence), clause_of(finding.divergence)
        groups.setdefault(cause, Group()).findings.append(finding)
    chosen = sorted(groups.values(), key=lambda group: len(group.shortest.divergence.operations))[:MOST_FAILURES]
    shown: dict[tuple[str, str, tuple[str, ...]], Shown] = {}
    for number, group in enumerate(chosen):
        tell(number, len(chosen))
        small = shrink(backend, capabilities, group.shortest.divergence)
        clause = _clause(group, small, vectors_of, capabilities.levels)
        operation, where, _ = cause_of(small)
        shown.setdefault((clause, operation, where), Shown(clause, group.shortest, small))
    return sorted(shown.values(), key=lambda each: len(each.divergence.operations))


def _clause(group: Group, small: Divergence, vectors_of: Counter[str], claimed: Sequence[Level]) -> str:
    """The guess, or the clause whose vectors this cause fails most: the score of fault localisation, Ochiai."""
    guess = clause_of(small)
    named = [clause for finding in group.findings for clause in finding.clauses]
    diverged = Counter(clause for clause in named if level_of(clause) in claimed)
    if not diverged or (guess in diverged and level_of(guess) in claimed):
        return guess
    total = sum(bool(finding.clauses) for finding in group.findings)
    score = {clause: count / sqrt(total * max(count, vectors_of[clause])) for clause, count in diverged.items()}
    return min(score, key=lambda clause: (-score[clause], clause))
