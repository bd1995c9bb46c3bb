"""Finds what a name stands for: a mutant of the catalogue, a drawn place, or everything as it is."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.jobs import CLEAN
from kvproof.conformance.mutation.patch import SourceChange
from kvproof.conformance.mutation.targets import TARGETS


@dataclass(frozen=True, slots=True)
class Subject:
    """What the layers are run on. `clauses` None means: any clause test may notice it."""

    change: SourceChange | None
    clauses: tuple[str, ...] | None


class UnknownMutant(ValueError):
    """There is no mutant of this name."""


def find_subject(name: str) -> Subject:
    """The subject of this name; raises `UnknownMutant`."""
    if name == CLEAN:
        return Subject(None, None)
    for mutant in MUTANTS:
        if mutant.name == name:
            return Subject(mutant.patch, mutant.clauses)
    for target in TARGETS.values():
        if (statement := target.named(name)) is not None:
            return Subject(statement, None)
    raise UnknownMutant(f"there is no mutant {name}")
