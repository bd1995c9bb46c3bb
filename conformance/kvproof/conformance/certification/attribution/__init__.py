"""Which clause a difference breaks: what was asked, what was there before, and what differs say it.

This is the best guess from what can be seen, in the order in which a reader would look: the answer, then the keys, who
holds the blocks, the queue, and the events last, which follow from the rest. Where two clauses say the same of what
is seen, both are named; which one it is, the vectors may tell (`findings`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvproof.conformance.certification.attribution.answers import of_answer
from kvproof.conformance.certification.attribution.case import Case, Clauses
from kvproof.conformance.certification.attribution.events import of_events
from kvproof.conformance.certification.attribution.state import of_changed_refusal, of_state

if TYPE_CHECKING:
    from kvproof.conformance.certification.lockstep import Divergence


def clause_of(found: Divergence) -> str:
    """The clause that the backend breaks, as far as one can tell."""
    return clauses_of(found)[0]


def clauses_of(found: Divergence) -> Clauses:
    """The clauses that the difference may break, the most likely first; at least one."""
    case = Case(found)
    if "answer" in case.differences:
        return of_answer(case)
    if case.errors:
        return of_changed_refusal(case)
    if set(case.differences) == {"events"}:
        return of_events(case, case.differences["events"])
    return of_state(case)
