"""What a layer is made of: parts that run one after the other, each of which may have a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvproof.conformance.mutation.jobs import LayerResult

Layer = Callable[[tuple[str, ...] | None], LayerResult]
"""Runs on the clauses that the mutant claims to break; None means that it claims nothing in particular."""


_TOOLS = ("hypothesis.", "kvproof.conformance.backends.targets")
"""Whose errors say nothing of a mutant; the latter's that the backend, or torch, is not installed."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one exploration or walk did: how many steps, and what it found, if anything."""

    steps: int
    finding: str | None


def until_the_first_finding(name: str, parts: Callable[[], Iterator[Part]]) -> Layer:
    """The layer that runs the parts in order."""

    def layer(claimed: tuple[str, ...] | None) -> LayerResult:
        steps = 0
        try:
            for part in parts():
                steps += part.steps
                if part.finding is not None:
                    return LayerResult(name, True, steps, part.finding.partition("\n")[0])
        except Exception as crash:
            if _is_of_the_tools(crash):
                raise
            return LayerResult(name, True, steps, f"crashed: {type(crash).__name__}: {crash}")
        return LayerResult(name, False, steps)

    return layer


def _is_of_the_tools(crash: Exception) -> bool:
    """Whether a crash says nothing of the mutant; any other one does, as without a mutant the layer ends well."""
    return isinstance(crash, ImportError) or type(crash).__module__.startswith(_TOOLS)
