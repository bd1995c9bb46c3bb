"""Which conformance level each clause belongs to: exactly one, unless it is a scheduler's.

The levels add up to all that a pool and a cache over it can be asked. A scheduler is what calls them.
"""

from __future__ import annotations

from functools import cache

from kvproof.conformance.backends.interface import Level
from kvproof.spec.clauses import clauses

_FAMILIES = {
    "POS": Level.POOL,
    "HASH": Level.POOL,
    "REQ": Level.POOL,
    "POOL": Level.POOL,
    "INDEX": Level.POOL,
    "REG": Level.POOL,
    "COST": Level.POOL,
    "OBSERVE": Level.POOL,
    "INV": Level.POOL,
    "EVENT": Level.EVENTS,
    "STEP": Level.STEPS,
    "GROUP": Level.HYBRID,
    "HIT": Level.HYBRID,
    "SPLIT": Level.HYBRID,
    "ADMIT": Level.HYBRID,
    "ADVANCE": Level.HYBRID,
    "RETAIN": Level.HYBRID,
    "RELEASE": Level.HYBRID,
    "BACK": Level.HYBRID,
    "ERR": Level.ROBUSTNESS,
    "CONTENT": Level.DATA,
}
"""The level of a clause, by how its name begins, unless it is one of those below."""

_EXCEPTIONS = {
    # Which block is taken next, and in which order events come.
    "POOL-FREE-2": Level.ORDER,
    "POOL-FREE-3": Level.ORDER,
    "POOL-FREE-5": Level.ORDER,
    "POOL-RESET-3": Level.ORDER,
    "INV-LRU-1": Level.ORDER,
    "EVENT-ORDER-1": Level.ORDER,
    "EVENT-REMOVED-2": Level.ORDER,
    # Refusals. Those of steps, content and hashes stay with what they belong to.
    "POOL-CONFIG-1": Level.ROBUSTNESS,
    "POOL-HOLDER-1": Level.ROBUSTNESS,
    "POOL-ALLOC-3": Level.ROBUSTNESS,
    "POOL-TOUCH-2": Level.ROBUSTNESS,
    "POOL-FREE-4": Level.ROBUSTNESS,
    "POOL-MOVE-3": Level.ROBUSTNESS,
    "POOL-RESET-2": Level.ROBUSTNESS,
    "REG-OWNER-1": Level.ROBUSTNESS,
    "REG-OWNER-2": Level.ROBUSTNESS,
    "REG-CONFLICT-1": Level.ROBUSTNESS,
    "REG-ATOMIC-1": Level.ROBUSTNESS,
    "REG-FULL-4": Level.ROBUSTNESS,
    "REG-RECURRENT-1": Level.ROBUSTNESS,
    # Invariants that are not the pool's alone.
    "INV-EVENTS-1": Level.EVENTS,
    "INV-EVENTS-2": Level.EVENTS,
    "INV-STEPS-1": Level.STEPS,
    "INV-STATUS-1": Level.STEPS,
    "INV-RESERVED-1": Level.STEPS,
    "INV-RESERVED-2": Level.STEPS,
    "INV-DEPENDS-1": Level.STEPS,
    "INV-TABLE-1": Level.HYBRID,
    "INV-TABLE-2": Level.HYBRID,
    "INV-TABLE-3": Level.HYBRID,
    "INV-TABLE-4": Level.HYBRID,
    "INV-RUN-1": Level.HYBRID,
    "INV-RUN-2": Level.HYBRID,
    "INV-RUN-3": Level.HYBRID,
    "INV-RUN-4": Level.HYBRID,
    "INV-SOUND-1": Level.DATA,
    "INV-SERVED-1": Level.DATA,
    "INV-SERVED-2": Level.DATA,
}


OF_NO_BACKEND = "SCHED-"
"""How the clauses begin that no backend is asked for."""


@cache
def levels() -> dict[str, Level]:
    """The level of every clause that a backend can be asked for, in the order of the specification."""
    asked = [clause for clause in clauses() if not clause.startswith(OF_NO_BACKEND)]
    return {clause: _EXCEPTIONS.get(clause) or _FAMILIES[clause.split("-")[0]] for clause in asked}


def level_of(clause: str) -> Level:
    """The level of a clause; raises `KeyError` if there is no such clause, or if it is a scheduler's."""
    return levels()[clause]
