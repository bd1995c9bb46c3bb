"""Clauses of a block that holds what it should not: what brought the content there, or its reader, says it."""

from __future__ import annotations

from kvproof.conformance.certification.attribution.case import Case, Clauses
from kvproof.conformance.operations import (
    Admit,
    Advance,
    Attach,
    Copy,
    Fail,
    Move,
    Read,
    Rollback,
    Touch,
    Truncate,
    Write,
)
from kvproof.spec.vocabulary import COPY_PREFIX


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
            case Admit(request=read.holder):
                return ("ADVANCE-WRITE-1", "ADMIT-COPY-1", "INV-TABLE-1")
            case Advance(request=read.holder):
                return ("ADVANCE-WRITE-1", "ADVANCE-COPY-1", "INV-TABLE-1")
            case Advance() if (read.holder or "").startswith(COPY_PREFIX):
                return ("ADVANCE-MOVE-1", "CONTENT-MOVE-1")
            case Truncate(request=read.holder):
                return ("BACK-CUT-1", "INV-TABLE-1")
            case Fail():
                return ("BACK-FAIL-2", "STEP-ROLLBACK-3")
            case Rollback():
                return ("STEP-ROLLBACK-3",)
            case Write(block=read.block):
                break
    return ("CONTENT-READ-1",)
