"""Drives a backend beside the reference by random operations, within what it claims."""

from __future__ import annotations

from kvproof.conformance.backends.interface import Backend
from kvproof.conformance.certification.lockstep import Divergence
from kvproof.conformance.certification.stages import Subject, random_walks


def drive(backend: Backend, seed: int, steps: int) -> Divergence | None:
    """Take so many random steps in a random pool; the first difference, if there is one."""
    done = random_walks(Subject(backend, backend.identify()[1]), seed, 1, steps, lambda so_far: None)
    return done.divergences[0] if done.divergences else None
