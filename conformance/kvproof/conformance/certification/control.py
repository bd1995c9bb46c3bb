"""The control of a run: broken references go through the vectors too, and each has to be noticed."""

from __future__ import annotations

from collections.abc import Callable

from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.result import MutationControl
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.twin import mutated_reference
from kvproof.conformance.vectors import is_draining, vectors_of


def planted() -> list[Mutant]:
    """The first mutant of each kind of fault."""
    return list({mutant.fault: mutant for mutant in reversed(MUTANTS)}.values())[::-1]


def mutation_control(tell: Callable[[str], None] = lambda text: None) -> MutationControl:
    """Run each planted mutant through the vectors of the clauses that it breaks."""
    chosen = planted()
    missed = []
    for number, mutant in enumerate(chosen):
        tell(f"control: {number} of {len(chosen)} planted faults")
        if not is_noticed(mutant):
            missed.append(mutant.name)
    return MutationControl(len(chosen), len(chosen) - len(missed), "in this run", tuple(missed))


def is_noticed(mutant: Mutant) -> bool:
    """Whether a vector of one of the mutant's clauses diverges."""
    backend = mutated_reference(mutant.patch)
    _, capabilities = backend.identify()
    for vector in vectors_of(mutant.clauses):
        lockstep = Lockstep(backend, capabilities, vector.header.config, watch=not is_draining(vector))
        lockstep.run(vector.operations)
        if lockstep.divergence is not None:
            return True
    return False
