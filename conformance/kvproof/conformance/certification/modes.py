"""Vectors in the modes of a backend: one that was recorded with named holders asks the same of anonymous ones.

What is expected comes from the reference in the backend's modes, so nothing of the record is lost but what only the
other mode knows; the clauses of that are listed here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import msgspec

from kvproof.conformance.backends.interface import Capabilities
from kvproof.conformance.certification.trace import Trace, TraceStep
from kvproof.conformance.operations import Allocate, Copy, Free, Operation, Read, Touch
from kvproof.spec.vocabulary import CommitMode, HolderMode, Residency

OF_A_MODE: dict[str, HolderMode | Residency] = {
    "POOL-HOLDER-1": HolderMode.NAMED,
    "POOL-HOLDER-2": HolderMode.CALLER,
    "POOL-WRITER-1": HolderMode.NAMED,
    "POOL-FREE-5": HolderMode.CALLER,
    "REG-OWNER-1": HolderMode.NAMED,
    "EVENT-RESIDENCY-1": Residency.LOGICAL,
    "EVENT-RESIDENCY-2": Residency.PER_COPY,
    "EVENT-STORED-3": Residency.LOGICAL,
}
"""The clauses that say something of one mode alone."""


def is_of_a_mode(clauses: Collection[str], capabilities: Capabilities) -> str:
    """The mode that one of the clauses needs and the backend does not claim, empty if there is none."""
    claimed = {*capabilities.holders, *capabilities.residency}
    missing = (mode for clause in clauses if (mode := OF_A_MODE.get(clause)) is not None and mode not in claimed)
    return next((mode.value for mode in missing), "")


def in_modes_of(vector: Trace, capabilities: Capabilities) -> Trace:
    """The vector as it is if the backend claims its modes, else in those that it claims."""
    config = vector.header.config
    if config.residency not in capabilities.residency:
        config = replace(config, residency=capabilities.residency[0])
    if config.holders in capabilities.holders or config.commit is CommitMode.STEPS:
        anonymous = False
    else:
        config, anonymous = replace(config, holders=capabilities.holders[0]), True
    if config == vector.header.config:
        return vector
    steps = vector.steps
    if anonymous:
        steps = tuple(TraceStep(_anonymous(step.operation), step.expect) for step in steps)
    return Trace(msgspec.structs.replace(vector.header, config=config), steps)


def _anonymous(operation: Operation) -> Operation:
    if isinstance(operation, Allocate | Touch | Free | Copy | Read):
        return msgspec.structs.replace(operation, holder=None)
    return operation
