"""What statement mutation breaks, parts of the reference, the abstract machine, the backend; and who has to notice."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from kvproof.conformance.mutation.patch import modules_of, source_of
from kvproof.conformance.mutation.statements import (
    Finder,
    StatementMutant,
    mutants_of,
    short,
    statements_and_conditions,
)
from kvproof.conformance.mutation.terms import places_in_terms

TESTS_OF_THE_REFERENCE = ("clauses", "explore", "walk", "illegal", "stateful")
"""The layers that look at the reference alone."""


@dataclass(frozen=True, slots=True)
class Target:
    """Modules that are mutated. One of the layers `judges` has to notice; of what they miss, `others` are asked.

    `layer_seconds` is the limit for each layer of one mutant: a tie without a mutant takes minutes on a busy machine.
    """

    what: str
    scope: str
    modules: tuple[str, ...]
    finder: Finder
    judges: tuple[str, ...]
    others: tuple[str, ...] = ()
    layer_seconds: float = 60.0

    @property
    def layers(self) -> tuple[str, ...]:
        """All layers, judges first."""
        return self.judges + self.others

    def mutants(self) -> list[StatementMutant]:
        """Every mutant of the target, in the order of the source."""
        return sorted(m for module in self.modules for m in self._of(module))

    def named(self, name: str) -> StatementMutant | None:
        """The mutant of this name, if there is one; only its own module is read."""
        modules = [module for module in self.modules if name.startswith(f"{short(module)}:")]
        return next((m for module in modules for m in self._of(module) if m.name == name), None)

    def draw(self, number: int, seed: int) -> list[StatementMutant]:
        """`number` different mutants, or all if there are fewer; the same ones for the same seed and source."""
        everything = self.mutants()
        return sorted(random.Random(seed).sample(everything, min(number, len(everything))))

    def _of(self, module: str) -> list[StatementMutant]:
        return mutants_of(module, source_of(module), self.finder)


TARGETS: Mapping[str, Target] = {
    "reference": Target(
        "the reference",
        "the reference",
        tuple(modules_of("kvproof.reference")),
        statements_and_conditions,
        TESTS_OF_THE_REFERENCE,
    ),
    "steps": Target(
        "the step layer of the reference",
        "the reference's modules core, index, stepping and steps",
        tuple(f"kvproof.reference.{name}" for name in ("core", "index", "stepping", "steps")),
        statements_and_conditions,
        ("tie",),
        TESTS_OF_THE_REFERENCE,
        600.0,
    ),
    "machine": Target(
        "the abstract machine",
        "the transitions of the abstract machine",
        ("kvproof.spec.machine.transitions",),
        places_in_terms,
        ("proofs", "tie"),
        layer_seconds=600.0,
    ),
    "hybrid": Target(
        "requests over all groups, in the reference",
        "the reference's package hybrid",
        tuple(modules_of("kvproof.reference.hybrid")),
        statements_and_conditions,
        ("chapters", "requests", "lockstep"),
        layer_seconds=120.0,
    ),
    "hybrid-backend": Target(
        "requests over all groups, in the backend",
        "the backend's package hybrid",
        tuple(modules_of("kvproof.gpu_backend.hybrid")),
        statements_and_conditions,
        ("vectors", "backend", "lockstep"),
        layer_seconds=120.0,
    ),
}
