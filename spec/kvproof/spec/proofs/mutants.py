"""Broken transitions that the proofs must refute: each is a small change of one transition, and the theorem it breaks.

A theorem that no mutant breaks might hold of anything.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from kvproof.spec.machine.immediate import compositions
from kvproof.spec.machine.systems import POOL, system_of
from kvproof.spec.machine.transitions import Transition
from kvproof.spec.proofs.obligations import Obligation


@dataclass(frozen=True, slots=True)
class MachineMutant:
    """`old` becomes `new` in the transitions; `transition` then breaks `theorem`. `fact` as in `Obligation`."""

    name: str
    transition: str
    theorem: str
    old: str
    new: str
    fact: bool = False

    @property
    def breaks(self) -> Obligation:
        """The obligation that has a counterexample."""
        return Obligation(self.transition, self.theorem, self.fact)


class MutantDoesNotApply(ValueError):
    """The text that a mutant replaces is not there exactly once."""


def transitions_file(module: str = POOL.module) -> Path:
    """The source that the mutants of a system change."""
    file = import_module(module).__file__
    assert file is not None, "the machine is a source file"
    return Path(file)


def patched(mutant: MachineMutant, source: str) -> str:
    """The source with the mutant's change."""
    if source.count(mutant.old) != 1:
        raise MutantDoesNotApply(f"{mutant.name}: {mutant.old!r} stands {source.count(mutant.old)} times")
    return source.replace(mutant.old, mutant.new)


def mutated(mutant: MachineMutant) -> tuple[Transition, ...]:
    """The machine with the mutant's change, compiled beside the real one."""
    system = system_of(mutant.transition)
    file = transitions_file(system.module)
    twin = ModuleType(f"{system.module}_with_{mutant.name}")
    twin.__file__ = str(file)
    sys.modules[twin.__name__] = twin  # dataclasses look their module up
    try:
        exec(compile(patched(mutant, file.read_text(encoding="utf-8")), file, "exec"), vars(twin))
    finally:
        del sys.modules[twin.__name__]
    composed = compositions(twin.TRANSITIONS, twin.PARTS) if system is POOL else ()
    return (*twin.TRANSITIONS, *composed)
