"""Clauses of a block that holds what it should not: what brought the content there, or its reader, says it."""

from __future__ import annotations

from kvproof.conformance.certification.attribution.case import Case, Clauses
from kvproof.conformance.operations import Attach, Copy, Move, Read, Rollback, Touch, Write


def of_content(case: Case, read: Read) -> Clauses:
    """The clauses that content which was read may break."""
    for operation in reversed(case.found.operations):
        match operation:
            case Touch(block=read.block) | Attach(block=read.block):
                return ("CONTENT-SOUND-1",)
            case Copy(dst=read.block):
                return ("STEP-COPY-1", "CONTENT-COPY-1") if case.has_steps else ("CONTENT-COPY-1",)
            case Move(dst=read.block):
                return ("CONTENT-MOVE-1",)
            case Rollback():
                return ("STEP-ROLLBACK-3",)
            case Write(block=read.block):
                break
    return ("CONTENT-READ-1",)
