"""What the tie compares every time: scopes small enough for every test run, walks, and a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Attach,
    BeginStep,
    CachePartialBlock,
    Commit,
    KeyRef,
    Move,
    Operation,
    Rollback,
    Write,
)
from kvproof.conformance.scope import Scope
from kvproof.conformance.tie.lockstep import TieReport, tie_scope, tie_trace, tie_walk
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, PoolConfig, Residency

SCOPES = (
    Scope(1, ("a", "aa"), 2),
    Scope(2, ("a", "aa"), 1, GroupKind.RECURRENT),
    Scope(2, ("a", "aa"), 1, block_size=3),
    Scope(2, ("a",), 2, residency=Residency.PER_COPY),
    Scope(1, ("a",), 2, commit=CommitMode.STEPS),
    Scope(1, ("a",), 2, commit=CommitMode.STEPS, in_flight=2),
    Scope(1, ("a", "aa"), 1, commit=CommitMode.STEPS, in_flight=2),
    Scope(1, ("a", "aa"), 2, commit=CommitMode.STEPS),
    Scope(2, ("a",), 1, commit=CommitMode.STEPS),
    Scope(2, ("a", "aa"), 2),
    Scope(3, ("a", "aa"), 1),
)
"""All their states, small scopes first; prefixes are nested, or partial keys would never meet."""

THREE_BLOCKS = PoolConfig(4, 1, (GroupConfig(GroupKind.FULL_ATTENTION, 1),), commit=CommitMode.STEPS)

TRACES: dict[str, tuple[PoolConfig, tuple[Operation, ...]]] = {
    "a move of several keys": (
        PoolConfig(3, 1, (GroupConfig(GroupKind.FULL_ATTENTION, 3),), commit=CommitMode.STEPS),
        (
            AddRequest("r1", (0, 0, 0)),
            BeginStep(),
            Allocate("r1", 1),
            Write("r1", 1, 2, 0),
            CachePartialBlock("r1", 1, 2, 0),
            CachePartialBlock("r1", 1, 1, 0),
            Commit(1),
            BeginStep(),
            Allocate("copy:1", 1),
            Move(1, 2),
            Commit(2),
        ),
    ),
    "a reader that attaches a later key first": (
        THREE_BLOCKS,
        (
            AddRequest("r1", (0, 1)),
            AddRequest("r2", (0, 1)),
            BeginStep(),
            Allocate("r1", 1),
            Write("r1", 1, 1, 0),
            CachePartialBlock("r1", 1, 1, 0),
            BeginStep(),
            Allocate("r1", 1),
            Write("r1", 2, 2, 0),
            CachePartialBlock("r1", 2, 2, 0),
            Attach("r2", 2, KeyRef("r1", 0, 2)),
            Attach("r2", 1, KeyRef("r1", 0, 1)),
            Commit(1),
            Rollback(("r1",)),
        ),
    ),
    "a chain of three": (
        THREE_BLOCKS,
        (
            *(AddRequest(name, (0, 1)) for name in ("r1", "r2", "r3")),
            BeginStep(),
            Allocate("r1", 1),
            Write("r1", 1, 1, 0),
            CachePartialBlock("r1", 1, 1, 0),
            Attach("r2", 1, KeyRef("r1", 0, 1)),
            Allocate("r2", 1),
            Write("r2", 2, 2, 0),
            CachePartialBlock("r2", 2, 2, 0),
            Attach("r3", 2, KeyRef("r2", 0, 2)),
            Rollback(("r1",)),
        ),
    ),
}
"""What the scopes are too small for and walks hardly ever meet."""

WALKS = 24
STEPS_OF_A_WALK = 150


Progress = Callable[[str, TieReport], None]
"""Hears what is being compared, and how far that is."""


def standard_ties(progress: Progress = lambda what, so_far: None) -> Iterator[tuple[str, TieReport]]:
    """Run all of it, one part after the other, each with what it is; the walks are one part."""
    for scope in SCOPES:
        what = scope.describe()
        yield what, tie_scope(scope, progress=partial(progress, what))
    for what, (config, operations) in TRACES.items():
        yield what, tie_trace(config, operations)
    yield _walk(progress)


def _walk(progress: Progress) -> tuple[str, TieReport]:
    """All walks, up to the first on which the two sides disagree."""
    what, total = f"{WALKS} walks of {STEPS_OF_A_WALK} operations, seeds 0 to {WALKS - 1}", TieReport()
    for seed in range(WALKS):
        total.add(tie_walk(seed, STEPS_OF_A_WALK))
        progress(what, total)
        if total.disagreement is not None:
            return f"walk with seed {seed}", total
    return what, total
