"""What the page of a failure shows, in a terminal as in the report."""

from __future__ import annotations

import msgspec

from kvproof.conformance.certification.result import Failure
from kvproof.conformance.certification.timeline import (
    CELLS,
    BlockRow,
    Names,
    Timeline,
    differing,
    in_names,
    rows_of,
    timeline_of,
)

HEADINGS = {
    "queue": "in queue",
    "refs": "refs",
    "holders": "held by",
    "writer": "written by",
    "slot": "slot",
    "keys": "keys",
}
"""What the cells of a block's row are called."""


class StateTable(msgspec.Struct, frozen=True):
    """A state as a table; `marked` names block and cell of what differs. `kind` is "before", "expected" or "got"."""

    kind: str
    title: str
    rows: tuple[BlockRow, ...]
    marked: frozenset[tuple[int, str]]


class FailurePage(msgspec.Struct, frozen=True):
    """What the page of a failure shows beside the failure itself; `mismatches` are part, expected, got."""

    failure: Failure
    timeline: Timeline
    mismatches: tuple[tuple[str, str, str], ...]
    states: tuple[StateTable, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells that say something in one of the states."""
        rows = [row for state in self.states for row in state.rows]
        return tuple(cell for cell in CELLS if any(getattr(row, cell) for row in rows))


def page_of(failure: Failure) -> FailurePage:
    """What to show of a failure; hashes are called by the prefixes that they are of."""
    timeline = timeline_of(failure.trace)
    named = [(each.part, *_lines(each.expected, each.got, timeline.names)) for each in failure.mismatches]
    return FailurePage(failure, timeline, tuple(named), states_of(failure, timeline.names))


def states_of(failure: Failure, names: Names) -> tuple[StateTable, ...]:
    """The states before and after, expected and got if they differ; nothing of a backend that shows none of it."""
    before, expected, got = (rows_of(seen, names) for seen in (failure.before, failure.expected, failure.got))
    if not before:
        return ()
    wrong = frozenset(differing(expected, got))
    if not wrong:
        return (
            StateTable("before", "before the last operation", before, wrong),
            StateTable("expected", "after it, as expected", expected, wrong),
        )
    return (
        StateTable("before", "before the last operation", before, frozenset()),
        StateTable("expected", "expected after it", expected, wrong),
        StateTable("got", "got instead", got, wrong),
    )


def _lines(expected: str, got: str, names: Names) -> tuple[str, str]:
    """Only the lines that differ, where both have as many."""
    one, other = in_names(expected, names), in_names(got, names)
    pairs = list(zip(one.split("\n"), other.split("\n"), strict=False))
    if one.count("\n") != other.count("\n") or one == other:
        return one, other
    differ = [pair for pair in pairs if pair[0] != pair[1]]
    return "\n".join(pair[0] for pair in differ), "\n".join(pair[1] for pair in differ)
