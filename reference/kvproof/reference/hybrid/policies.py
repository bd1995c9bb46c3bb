"""What a scheduler may choose freely: limits, ranks, whom to preempt, whether to wait (clauses SCHED-*)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from kvproof.reference.hybrid.joint_hit import Match
from kvproof.reference.request import Request

OtherCap = Callable[[Request, int], int]
"""The most tokens that a chunk of the request may have at this start, for a reason of the model's own.

It is asked when a request arrives, for every start below the most tokens that it will have, and never again.
"""


class Pending(Enum):
    """What to do where a request would hit more once everything reserved were committed (SCHED-PENDING-1)."""

    WAIT = "wait"
    NOW = "now"

    def holds_back(self, match: Match) -> bool:
        """Whether the request waits."""
        return self is Pending.WAIT and match.pending > match.hit


class Rank(Enum):
    """Who comes first (SCHED-ORDER-1); equal requests in the order of their arrival."""

    ARRIVAL = "arrival"
    PRIORITY = "priority"
    """A lower number comes first."""

    def key(self, priority: int, arrival: int) -> tuple[int, int]:
        """What requests are sorted by."""
        return (priority if self is Rank.PRIORITY else 0, arrival)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a step may hold, in tokens. A `long_prefill_threshold` of 0 is none.

    After `most_empty` empty chunks in a row a request is offered all that it can get before all others.
    """

    token_budget: int
    long_prefill_threshold: int = 0
    most_running: int = 1024
    most_empty: int = 4
    other_cap: OtherCap | None = None


@dataclass(frozen=True, slots=True)
class Policies:
    """What a scheduler prefers."""

    pending: Pending = Pending.NOW
    rank: Rank = Rank.ARRIVAL
