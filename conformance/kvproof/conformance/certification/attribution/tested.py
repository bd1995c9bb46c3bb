"""Which clauses an operation puts to the test: those that would be named if the backend did something else.

An operation that has to be refused tests the clauses that demand the refusal. A legal one tests what the clauses say of
its answer and of the state after it, where the pool has what they are about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from kvproof.conformance.certification.attribution.answers import of_missing_refusal
from kvproof.conformance.certification.attribution.case import Case
from kvproof.conformance.certification.attribution.tables import OF_REQUESTS, RESULTS, STATES
from kvproof.conformance.certification.modes import OF_A_MODE
from kvproof.conformance.operations import name_of
from kvproof.spec.vocabulary import CommitMode, GroupKind, PoolConfig, Retention

if TYPE_CHECKING:
    from kvproof.conformance.certification.lockstep import Divergence

Has = Callable[[PoolConfig], bool]
"""Whether a pool so configured has what a clause is about."""


def _of_kinds(*kinds: GroupKind) -> Has:
    return lambda config: any(group.kind in kinds for group in config.groups)


def _keeps(*policies: Retention) -> Has:
    return lambda config: config.hybrid is not None and _RECURRENT(config) and config.hybrid.retention in policies


_FULL = _of_kinds(GroupKind.FULL_ATTENTION)
_WINDOW = _of_kinds(GroupKind.SLIDING_WINDOW)
_RECURRENT = _of_kinds(GroupKind.RECURRENT)
_ATTENTION = _of_kinds(GroupKind.FULL_ATTENTION, GroupKind.SLIDING_WINDOW)


def _is_fine_grained(config: PoolConfig) -> bool:
    return config.hybrid is not None and config.hybrid.fine_grained


NEEDS: Mapping[str, Has] = {
    "HIT-ATTENTION-1": _FULL,
    "HIT-WINDOW-1": _WINDOW,
    "HIT-RECURRENT-1": _RECURRENT,
    "HIT-DROP-1": lambda config: config.hybrid is not None and bool(config.hybrid.drop),
    "SPLIT-NONE-1": lambda config: not _RECURRENT(config),
    "SPLIT-ALIGN-1": _RECURRENT,
    "SPLIT-DECODE-1": _RECURRENT,
    "SPLIT-STOP-1": _RECURRENT,
    "SPLIT-STOP-2": _RECURRENT,
    "SPLIT-STOP-3": lambda config: _RECURRENT(config) and _is_fine_grained(config),
    "SPLIT-STOP-4": _RECURRENT,
    "SPLIT-EARLIEST-1": _RECURRENT,
    "ADVANCE-ATTENTION-1": _ATTENTION,
    "ADVANCE-FULL-1": _ATTENTION,
    "ADVANCE-TAIL-1": lambda config: _ATTENTION(config) and _is_fine_grained(config),
    "ADVANCE-STATE-1": _RECURRENT,
    "ADVANCE-MOVE-1": _RECURRENT,
    "ADVANCE-COPY-1": _RECURRENT,
    "ADVANCE-KEEP-1": _RECURRENT,
    "RETAIN-LAST-1": _RECURRENT,
    "RETAIN-JUNCTION-1": _keeps(Retention.JUNCTION, Retention.BOUNDARIES, Retention.INTERVAL),
    "RETAIN-BOUNDARIES-1": _keeps(Retention.BOUNDARIES),
    "RETAIN-INTERVAL-1": _keeps(Retention.INTERVAL),
    "BACK-CUT-1": _ATTENTION,
    "BACK-CUT-2": _ATTENTION,
}
"""clause -> what a pool has to have before a legal operation can break it; besides, those of `OF_REQUESTS` need hybrid
settings, those of steps a pool with steps, and those of a mode (`OF_A_MODE`) that mode."""


class Tested:
    """How often each clause was put to the test in one pool."""

    def __init__(self, config: PoolConfig) -> None:
        self._config = config
        self._granted: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()

    def note(self, judged: Divergence) -> None:
        """Count the last operation of what would be a divergence, if the backend had done something else."""
        if judged.expected.errors:
            self._refused.update(of_missing_refusal(Case(judged)))
        else:
            self._granted[name_of(judged.operations[-1])] += 1

    @property
    def clauses(self) -> Counter[str]:
        """Every clause that was put to the test, with the number of operations that did so."""
        counts = Counter(self._refused)
        for operation, number in self._granted.items():
            counts.update(dict.fromkeys(_promised(operation, self._config), number))
        return counts


@cache
def _promised(operation: str, config: PoolConfig) -> tuple[str, ...]:
    """The clauses that say what a legal operation of this name does in a pool so configured."""
    return tuple(clause for clause in _clauses_of(operation) if _applies(clause, config))


@cache
def _clauses_of(operation: str) -> frozenset[str]:
    of_requests = {clause for clause, names in OF_REQUESTS.items() if operation in names}
    kept = {clause for (name, _), clause in STATES.items() if name == operation}
    return frozenset({RESULTS[operation]} | kept | of_requests)


def _applies(clause: str, config: PoolConfig) -> bool:
    if clause in OF_REQUESTS and config.hybrid is None:
        return False
    if clause.startswith("STEP-") and config.commit is not CommitMode.STEPS:
        return False
    mode = OF_A_MODE.get(clause)
    if mode is not None and mode not in (config.holders, config.residency):
        return False
    return clause not in NEEDS or NEEDS[clause](config)
