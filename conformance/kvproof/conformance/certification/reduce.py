"""Makes a trace smaller while it shows the same: fewer operations, a smaller pool, smaller arguments, plain names.

What it has to show is for others to say. Blocks are followed, not numbered: an operation names a block by which
allocation gave it, so that an allocation that nobody needs can go and the others still get what they ask for. Nothing
is random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import combinations
from typing import Generic, Protocol, TypeVar

from kvproof.conformance.certification.follow import Item, followed, items_of
from kvproof.conformance.operations import Operation, describe
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import GroupKind, HybridConfig, PoolConfig

MOST_RUNS = 1000
"""Candidates that are run at most."""

FEW = 16
"""A trace of so many operations is short enough to leave out any two of them together."""


class Traced(Protocol):
    """Something that a trace shows: what the pool is like, and what was done with it."""

    @property
    def config(self) -> PoolConfig:
        """How the pool is configured."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What was run, up to where it shows."""


T = TypeVar("T", bound=Traced)

Candidate = tuple[PoolConfig, Sequence[Item]]

Candidates = Callable[[PoolConfig, Sequence[Item]], Iterable[Candidate]]

Shows = Callable[[PoolConfig, Callable[[World], Iterator[Operation]]], T | None]
"""Runs operations, which are asked for as the reference goes on, and returns what they show; None if it is another."""


def reduced(found: T, shows: Shows[T], passes: Sequence[Candidates], last: Candidates) -> T:
    """The same by the smallest trace that was found; then by the first of the `last` candidates that shows it."""
    reducer = _Reducer(found, shows)
    reducer.run(passes)
    return reducer.any_of(last)


def size_of(found: Traced) -> tuple[int, tuple[int, ...], int, str]:
    """What gets smaller: fewer operations count most, then a plainer pool, then less to read."""
    text = " ".join(map(describe, found.operations))
    return len(found.operations), _weight(found.config), len(text), text


class _Reducer(Generic[T]):
    def __init__(self, found: T, shows: Shows[T]) -> None:
        self.best = found
        self._shows = shows
        self._items = items_of(found.config, found.operations)
        self._runs_left = MOST_RUNS
        self._tried: set[int] = set()

    def run(self, passes: Sequence[Candidates]) -> None:
        """Try everything until nothing gets smaller."""
        before: T | None = None
        while self.best is not before:
            before = self.best
            self._leave_out_runs()
            for candidates in passes:
                while any(self._try(*candidate) for candidate in candidates(self.best.config, self._items)):
                    pass  # the candidates of the smaller one come next
            self._leave_out_pairs()

    def any_of(self, candidates: Candidates) -> T:
        """The first candidate that shows the same, whatever its size; else what was found before."""
        shown = (self._run(*candidate) for candidate in candidates(self.best.config, self._items))
        return next((found for found in shown if found is not None), self.best)

    def _leave_out_runs(self) -> None:
        """Leave out operations that follow each other, many first, from the end."""
        length = max(1, len(self._items) // 2)
        while length:
            end = len(self._items)
            while end > 0:
                begin = max(0, end - length)
                self._try(self.best.config, [*self._items[:begin], *self._items[end:]])
                end = min(begin, len(self._items))
            length //= 2

    def _leave_out_pairs(self) -> None:
        """Leave out two at once, such as a beginning and its end."""
        if len(self._items) <= FEW:
            numbers = range(len(self._items))
            any(
                self._try(self.best.config, [item for n, item in enumerate(self._items) if n not in pair])
                for pair in combinations(numbers, 2)
            )

    def _try(self, config: PoolConfig, items: Sequence[Item]) -> bool:
        """Take a candidate if it shows the same and is smaller."""
        name = hash(f"{config} {items}")
        if self._runs_left == 0 or name in self._tried:
            return False
        self._tried.add(name)
        self._runs_left -= 1
        found = self._run(config, items)
        if found is None or size_of(found) >= size_of(self.best):
            return False
        self.best, self._items = found, items_of(found.config, found.operations)
        return True

    def _run(self, config: PoolConfig, items: Sequence[Item]) -> T | None:
        return self._shows(config, lambda world: followed(items, world))


def with_operation(item: Item, operation: Operation) -> Item:
    """The item with another operation."""
    return replace(item, operation=operation)


_KINDS = (GroupKind.FULL_ATTENTION, GroupKind.SLIDING_WINDOW, GroupKind.RECURRENT)


def _weight(config: PoolConfig) -> tuple[int, ...]:
    """How much there is to know of a pool before one reads on."""
    modes = (config.residency.value, config.holders.value, config.commit.value)
    usual = ("logical", "named", "immediate")
    return (
        config.num_blocks,
        len(config.groups),
        sum(one != other for one, other in zip(modes, usual, strict=True)) + _settings(config.hybrid),
        sum(group.block_size for group in config.groups),
        config.hash_block_size,
        sum(_KINDS.index(group.kind) for group in config.groups),
        sum(group.window or 0 for group in config.groups),
    )


def _settings(hybrid: HybridConfig | None) -> int:
    """How many hybrid settings there are to know."""
    if hybrid is None:
        return 0
    usual = HybridConfig()
    changed = [each.name for each in fields(usual) if getattr(hybrid, each.name) != getattr(usual, each.name)]
    return 1 + len(hybrid.drop) + len(changed)
