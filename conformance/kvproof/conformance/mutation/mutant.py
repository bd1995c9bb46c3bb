"""What a named mutant is."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.conformance.mutation.patch import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong reference: `patch` breaks each of `clauses`, and `harm` is what a user would see of it.

    `fault` is the kind of the publicly reported bugs that it resembles, see `FAULT_KINDS`.
    """

    name: str
    clauses: tuple[str, ...]
    fault: str
    harm: str
    patch: Patch


FAULT_KINDS = {
    "F01": "stale identity: a key outlives, or comes back after, the content that it names",
    "F02": "premature publish: a key is findable before its content is there",
    "F03": "ownership: double free, free and in use at once, a counter that is not the queue's, the null block counted",
    "F04": "leak: blocks or rows that nothing ever releases",
    "F05": "sibling loss: several blocks share a key, and the wrong one is dropped, touched or counted",
    "F06": "incomplete key: different contents get the same key",
    "F07": "unit mismatch: a quantity of one block size, slot or group is used for another's",
    "F08": "groups disagree: the groups of a hybrid model return different hits",
    "F09": "wrong state: the content is not the state at the boundary that the key promises",
    "F10": "unreachable: the content is there, but lookups cannot find it",
    "F11": "no progress: an empty schedule, a livelock, a request that waits for ever",
    "F12": "event content: parent, tokens, group or hashes of an event are wrong",
    "F13": "event balance: Stored and Removed do not mirror what is resident",
    "F14": "event delivery: events are lost, repeated or out of order",
    "F15": "reset: the cache says that it was cleared and was not, or the other way round",
    "F16": "eviction order: the wrong block is taken next",
    "F17": "cost: an operation takes time that grows with the pool",
}
"""The kinds of publicly reported faults of block pools under prefix caches."""

HYBRID_LAYER = "kvproof.reference.hybrid."
"""What the names of its modules begin with."""

NOT_OF_THE_POOL = {
    "F08": "The pool answers for one key at a time; one hit length for all groups is the hybrid layer's.",
    "F11": "The pool refuses or grants at once and never waits; who is scheduled how far is the scheduler's.",
}
"""The kinds that no mutant of the pool itself can show, and why; those of the hybrid layer do."""
