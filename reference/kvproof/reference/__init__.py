"""The reference: the prefix cache's block pool in plain Python, the oracle that every backend is held to.

Read it in the order of the specification's chapters: `positions`, `hashing`, `request` (what a key names), `block`,
`index` and `steps` (the state), `references`, `lookup`, `registration`, `removal`, `content` and `stepping` (the
operations, chapter by chapter, over what they share in `core`), `pool` (all of them together), `event_log` and `mirror`
(events and who folds them), `ghost` (what the blocks really hold), `observation` and `invariants` (what can be seen,
and what must hold of it).
"""

from kvproof.reference.ghost import Ghost
from kvproof.reference.hashing import PrefixHasher
from kvproof.reference.invariants import InvariantViolation, check_invariants
from kvproof.reference.mirror import EventMirror
from kvproof.reference.observation import PoolState
from kvproof.reference.pool import BlockPool
from kvproof.reference.request import Request

__all__ = [
    "BlockPool",
    "EventMirror",
    "Ghost",
    "InvariantViolation",
    "PoolState",
    "PrefixHasher",
    "Request",
    "check_invariants",
]
