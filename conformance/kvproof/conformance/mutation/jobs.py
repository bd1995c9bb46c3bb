"""What a worker is asked, and what it answers: plain values that travel as JSON lines."""

from __future__ import annotations

import msgspec

CLEAN = "clean"
"""The name of the reference as it is, which every layer has to let live."""


class Job(msgspec.Struct, frozen=True):
    """Which mutant to run through which layers; `seconds` is the limit for each layer.

    With `first_kill_only` the layers after the first one that notices the mutant are left out. `clauses` takes the
    place of those that the mutant claims.
    """

    mutant: str
    layers: tuple[str, ...]
    seconds: float = 60.0
    first_kill_only: bool = False
    clauses: tuple[str, ...] | None = None


class LayerResult(msgspec.Struct, frozen=True, tag=True):
    """What one layer made of a mutant.

    `steps` counts what the layer did until it was sure: tests, transitions, operations or examples. `unnoticed` are the
    claimed clauses of which no test failed, in the clause layer only.
    """

    layer: str
    killed: bool
    steps: int
    reason: str = ""
    unnoticed: tuple[str, ...] = ()
    seconds: float = 0.0


class MutantResult(msgspec.Struct, frozen=True):
    """What all layers made of a mutant; `error` says why they could not finish."""

    mutant: str
    layers: tuple[LayerResult, ...] = ()
    error: str = ""

    def layer(self, name: str) -> LayerResult | None:
        """The result of one layer, if it got that far."""
        return next((result for result in self.layers if result.layer == name), None)

    @property
    def killed(self) -> bool:
        """Whether any layer noticed the mutant."""
        return any(result.killed for result in self.layers)
