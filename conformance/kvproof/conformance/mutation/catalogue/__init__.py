"""The named mutants: one module for each chapter of the specification, and one for public reports.

Every clause of level MUST is claimed by at least one: the mutant breaks what the clause's sentence says, and the tests
that carry the clause's id have to notice.
"""

from __future__ import annotations

from kvproof.conformance.mutation.catalogue import (
    admission,
    blocks,
    content,
    errors,
    events,
    hashes,
    invariants,
    joint_hit,
    lookup,
    positions,
    registration,
    removal,
    reports,
    scheduling,
    split,
    steps,
)
from kvproof.conformance.mutation.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *positions.MUTANTS,
    *hashes.MUTANTS,
    *blocks.MUTANTS,
    *lookup.MUTANTS,
    *registration.MUTANTS,
    *removal.MUTANTS,
    *content.MUTANTS,
    *events.MUTANTS,
    *steps.MUTANTS,
    *joint_hit.MUTANTS,
    *split.MUTANTS,
    *admission.MUTANTS,
    *scheduling.MUTANTS,
    *errors.MUTANTS,
    *invariants.MUTANTS,
    *reports.MUTANTS,
)
