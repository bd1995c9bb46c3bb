"""All machines of which something is proved."""

from __future__ import annotations

from kvproof.spec.machine import axioms, chunks, facts, hit_loop, immediate, invariants, state, tables, transitions
from kvproof.spec.machine.system import System

POOL = System(
    "",
    transitions.__name__,
    state.SIGNATURE,
    axioms.axioms,
    invariants.initial,
    (*transitions.TRANSITIONS, *immediate.COMPOSITIONS),
    invariants.INVARIANTS,
    facts.FACTS,
    {},
)

TABLES = System(
    "run",
    tables.__name__,
    tables.SIGNATURE,
    tables.axioms,
    tables.initial,
    tables.TRANSITIONS,
    tables.INVARIANTS,
    tables.FACTS,
    invariants.INVARIANTS,
    tables.REWRITTEN,
)

HIT_LOOP = System(
    "hit",
    hit_loop.__name__,
    hit_loop.SIGNATURE,
    hit_loop.axioms,
    hit_loop.initial,
    hit_loop.TRANSITIONS,
    hit_loop.INVARIANTS,
    hit_loop.FACTS,
    {},
)

CHUNKS = System(
    "split",
    chunks.__name__,
    chunks.SIGNATURE,
    chunks.axioms,
    chunks.initial,
    chunks.TRANSITIONS,
    chunks.INVARIANTS,
    chunks.FACTS,
    {},
)

SYSTEMS = (POOL, TABLES, HIT_LOOP, CHUNKS)
"""The pool, the requests that run over its groups, the loop that finds the joint hit, and the split."""


def system_of(row: str) -> System:
    """The system with this transition, or with this name for its initial state."""
    return _ROWS[row]


_ROWS = {
    row: system
    for system in SYSTEMS
    for row in (system.initial_row, *(transition.name for transition in system.transitions))
}
