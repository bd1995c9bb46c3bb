"""What a driver finds: a violation, with the operations that lead to it."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.conformance.operations import Free, Operation, name_of
from kvproof.conformance.world import World
from kvproof.reference import InvariantViolation
from kvproof.reference.mirror import EventFault
from kvproof.spec.errors import PoolError


@dataclass(frozen=True, slots=True)
class Violation:
    """What went wrong, with the operations that lead there; the worlds before and after the last of them.

    The state of `after` is the last that could be observed: an operation that was refused or crashed left no other.
    """

    reason: str
    trace: tuple[Operation, ...]
    before: World
    after: World


def reason_of(error: Exception) -> str:
    """Why it is a violation that an operation that is legal and defined, or the check after it, raised this error."""
    if isinstance(error, InvariantViolation | EventFault):
        return str(error)
    what = f"{type(error).__name__}: {error}"
    return f"legal, but refused: {what}" if isinstance(error, PoolError) else f"legal, but it crashed: {what}"


def label(operation: Operation) -> str:
    """What an operation counts as when a driver says how often it ran what."""
    if isinstance(operation, Free) and len(operation.blocks) > 1:
        return "free, several"
    return name_of(operation) + ", replace" * (getattr(operation, "replace", False) is True)
