"""Whether what a backend claims can be meant: known names only, and everything that a level needs."""

from __future__ import annotations

from collections.abc import Iterator

from kvproof.conformance.backends.forms import FORMS
from kvproof.conformance.backends.interface import OWN_HASHES, RUN_REQUESTS, AdapterError, Capabilities, Level
from kvproof.conformance.backends.wire import PARTS
from kvproof.conformance.operations import names_of_operations
from kvproof.conformance.terminal import did_you_mean
from kvproof.spec.vocabulary import CommitMode, HashAlgorithm

NEEDED_FOR_STEPS = ("begin_step", "commit", "attach", "rollback", "finish", "find")
"""Without these operations there are no steps."""

NEEDED_FOR_DATA = ("write", "read", "copy")
"""Without these operations nobody sees what blocks hold."""

SHOWS_HASHES = ("keys", "index")
"""The parts of an observation in which hashes stand."""

KNOWN_HASHES = (OWN_HASHES, *(algorithm.value for algorithm in HashAlgorithm))


def check_claims(claimed: Capabilities) -> None:
    """Raise `AdapterError` if the capabilities name what does not exist, or claim a level without what it needs."""
    if problems := list(_problems(claimed)):
        raise AdapterError(f"the capabilities cannot be meant: {'; '.join(problems)}")


def _problems(claimed: Capabilities) -> Iterator[str]:
    for what, names, known in (
        ("operation", claimed.operations, names_of_operations()),
        ("part of an observation", claimed.observes, PARTS),
        ("hash contract", claimed.hashes, KNOWN_HASHES),
        ("form of an operation", claimed.without, FORMS),
    ):
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known, f"there are {', '.join(known)}")
                yield f"there is no {what} {name!r}, {hint}"
    for field in ("levels", "commit", "residency", "holders", "group_kinds", "hashes"):
        if not getattr(claimed, field):
            yield f"{field} is empty, and a pool cannot be without"
    if claimed.levels and Level.POOL not in claimed.levels:
        yield "level P is missing, on which all others stand"
    if Level.STEPS in claimed.levels:
        if missing := [name for name in NEEDED_FOR_STEPS if name not in claimed.operations]:
            yield f"level S needs the operations {', '.join(missing)}"
        if CommitMode.STEPS not in claimed.commit:
            yield 'level S needs commit "steps"'
    if Level.HYBRID in claimed.levels:
        yield from _problems_of_hybrid(claimed)
    if Level.DATA in claimed.levels:
        if missing := [name for name in NEEDED_FOR_DATA if name not in claimed.operations]:
            yield f"level D needs the operations {', '.join(missing)}"
    elif "read" in claimed.operations:
        yield "the operation `read` is level D's, which is not claimed"
    if claimed.most_groups < 1:
        yield f"most_groups is {claimed.most_groups}, and a pool has a group at least"
    if _shows_own_hashes(claimed) and "hashes" not in claimed.operations:
        yield "hashes of its own are shown, so the operation `hashes` is needed, by which the suite learns them"


def _problems_of_hybrid(claimed: Capabilities) -> Iterator[str]:
    if missing := [name for name in RUN_REQUESTS if name not in claimed.operations]:
        yield f"level H needs the operations {', '.join(missing)}"
    if missing := [level for level in (Level.ORDER, Level.STEPS) if level not in claimed.levels]:
        yield f"level H stands on the levels {', '.join(missing)}, which are not claimed"
    if claimed.most_groups < 2:
        yield "level H needs pools of at least 2 groups"


def _shows_own_hashes(claimed: Capabilities) -> bool:
    shows = {*claimed.observes, *claimed.operations} & {*SHOWS_HASHES, "full_key", "take_events"}
    return OWN_HASHES in claimed.hashes and (bool(shows) or Level.EVENTS in claimed.levels)
