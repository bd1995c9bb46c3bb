"""Loops over the groups against the declared joint hit: which ones reach it, and what the others answer instead."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from kvproof.reference.ghost import Ghost
from kvproof.reference.hybrid import HybridCache, Match
from kvproof.reference.pool import BlockPool
from kvproof.reference.request import Request
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HybridConfig, PoolConfig

FULL, WINDOW, STATE = GroupKind.FULL_ATTENTION, GroupKind.SLIDING_WINDOW, GroupKind.RECURRENT

Finder = Callable[[int], int]
"""The answer of a group to: how far up to here?"""


@dataclass(frozen=True)
class Scene:
    """A request of T tokens, and at which positions each group has its keys served, or reserved in full slots."""

    tokens: int
    groups: tuple[GroupConfig, ...]
    served: tuple[frozenset[int], ...]
    reserved: tuple[frozenset[int], ...]
    fine: bool = True

    def match(self) -> Match:
        """What the reference says, of a pool that was filled to look like this."""
        config = PoolConfig(40, 1, self.groups, commit=CommitMode.STEPS, hybrid=HybridConfig(fine_grained=self.fine))
        pool = BlockPool(config, Ghost())
        cache = HybridCache(pool)
        request = Request("r", list(range(self.tokens)), pool.hasher)
        writer = Request("w", list(range(self.tokens)), pool.hasher)
        for keys in (self.served, self.reserved):
            step = pool.begin_step()
            for group, positions in enumerate(keys):
                for n in sorted(positions):
                    [block] = pool.allocate(1, "w")
                    pool.write(writer, block, n, group)
                    pool.cache_partial_block(writer, block, n, group)
            if keys is self.served:
                pool.commit(step)
        return cache.match(request)

    def usable(self, group: int, n: int) -> bool:
        """HIT-ATTENTION-1, HIT-WINDOW-1 and HIT-RECURRENT-1 once more, from their words; h is 1."""
        config, served = self.groups[group], self.served[group]
        if n == 0:
            return True
        if config.kind is STATE:
            return n in served
        size = config.block_size
        first = 0 if config.window is None else max(0, n - config.window + 1)
        full = served | (self.reserved[group] if config.kind is FULL else frozenset())
        whole = all((slot + 1) * size in full for slot in range(first // size, n // size))
        sources = range(n, min(n // size * size + size, self.tokens - 1) + 1)
        return whole and (n % size == 0 or any(m in served for m in sources))

    def answer(self, group: int, most: int) -> int:
        """The greatest boundary up to `most` at which the group is usable."""
        return next(n for n in range(most, -1, -1) if self.usable(group, n))

    def loop(self, order: Sequence[int]) -> int:
        """Ask the groups in this order until none has a lower answer."""
        bound, again = self.tokens - 1, True
        while again:
            again = False
            for group in order:
                found = self.answer(group, bound)
                again, bound = again or found < bound, found
        return bound

    def loop_with_first_answers(self, cut: Sequence[int]) -> int:
        """The same, but the groups in `cut` are asked once, and what they answered is cut to the bound."""
        bound, again = self.tokens - 1, True
        first: dict[int, int] = {}
        while again:
            again = False
            for group in range(len(self.groups)):
                found = min(first[group], bound) if group in first else self.answer(group, bound)
                if group in cut:
                    first.setdefault(group, found)
                again, bound = again or found < bound, found
        return bound


def subsets(positions: Sequence[int]) -> list[frozenset[int]]:
    chosen = itertools.chain.from_iterable(itertools.combinations(positions, k) for k in range(len(positions) + 1))
    return [frozenset(found) for found in chosen]


def scenes(tokens: int, groups: tuple[GroupConfig, ...], reserving: bool) -> Iterator[Scene]:
    """All sets of served keys, each with all sets of reserved full keys of the first group, or with none."""
    full = [n for n in range(1, tokens) if n % groups[0].block_size == 0]
    for served in itertools.product(subsets(range(1, tokens)), repeat=len(groups)):
        for first in subsets(full) if reserving else [frozenset()]:
            yield Scene(tokens, groups, served, (first, *[frozenset[int]()] * (len(groups) - 1)))


GROUPS = {
    "attention and states": (GroupConfig(FULL, 2), GroupConfig(STATE, 3)),
    "attention and a window": (GroupConfig(FULL, 3), GroupConfig(WINDOW, 2, 2)),
    "two kinds of states": (GroupConfig(STATE, 2), GroupConfig(STATE, 3)),
    "three groups": (GroupConfig(FULL, 2), GroupConfig(WINDOW, 1, 2), GroupConfig(STATE, 2)),
}


@pytest.mark.clause("HIT-JOINT-1")
@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_asking_until_no_answer_is_lower_finds_the_joint_hit_in_every_order(groups: tuple[GroupConfig, ...]) -> None:
    tokens = 5 if len(groups) == 3 else 6
    everything = range(len(groups))
    for scene in scenes(tokens, groups, groups[0].kind is FULL):
        declared = max(n for n in range(tokens) if all(scene.usable(group, n) for group in everything))
        assert {scene.loop(order) for order in itertools.permutations(everything)} == {declared}


@pytest.mark.clause("HIT-JOINT-1", "HIT-ATTENTION-1", "HIT-WINDOW-1", "HIT-RECURRENT-1")
@pytest.mark.parametrize("groups", [GROUPS["attention and states"], GROUPS["attention and a window"]])
def test_the_reference_finds_what_the_loop_finds(groups: tuple[GroupConfig, ...]) -> None:
    for number, scene in enumerate(scenes(6, groups, True)):
        if number % 5 == 0:
            assert scene.match().hit == scene.loop((1, 0)), scene


@pytest.mark.clause("HIT-JOINT-1")
def test_a_first_answer_that_is_cut_is_right_for_full_attention_as_long_as_nothing_is_reserved() -> None:
    for groups in (GROUPS["attention and states"], GROUPS["attention and a window"]):
        for scene in scenes(6, groups, False):
            assert scene.loop_with_first_answers([0]) == scene.loop([0, 1])


def test_a_first_answer_that_is_cut_is_wrong_for_states() -> None:
    """States at 2 and 4, attention up to 3: cut to 3, the state that is said to be there is not."""
    groups = (GroupConfig(STATE, 2), GroupConfig(FULL, 1))
    scene = Scene(6, groups, (frozenset({2, 4}), frozenset({1, 2, 3})), (frozenset(), frozenset()))
    assert scene.match().hit == scene.loop([0, 1]) == 2
    assert scene.loop_with_first_answers([0]) == 3


def test_a_first_answer_that_is_cut_is_wrong_for_a_slot_that_the_batch_shares() -> None:
    """Attention has slot 4 reserved: it may be shared from its end, and not copied from its middle."""
    groups = (GroupConfig(FULL, 4), GroupConfig(STATE, 1))
    scene = Scene(6, groups, (frozenset(), frozenset({3})), (frozenset({4}), frozenset()))
    assert scene.match().hit == scene.loop([0, 1]) == 0
    assert scene.loop_with_first_answers([0]) == 3


def test_a_full_run_with_a_probe_behind_it_is_another_finder() -> None:
    """Full keys at 4 and 8, a state at 6: the rows up to 6 lie in the block that serves 8, where no probe at 6 hits."""
    groups = (GroupConfig(FULL, 4), GroupConfig(STATE, 2))
    scene = Scene(10, groups, (frozenset({4, 8}), frozenset({4, 6})), (frozenset(), frozenset()))

    def run_then_probe(most: int) -> int:
        served, run = scene.served[0], 0
        while run + 4 <= most and run + 4 in served:
            run += 4
        return max((n for n in served if run < n < min(run + 4, most + 1)), default=run)

    assert run_then_probe(6) == 4
    assert scene.answer(0, 6) == 6
    assert scene.match().hit == 6


@pytest.mark.clause("HIT-PENDING-1")
def test_pending_can_be_less_than_the_hit_as_a_commit_drops_shorter_keys() -> None:
    """H(3) is committed and H(4) reserved on one block: four tokens hit 3 now, and 0 once only H(4) is left.

    A key at 4 is one token too long for a request that has to compute its last token.
    """
    groups = (GroupConfig(FULL, 5), GroupConfig(STATE, 1))
    pool = BlockPool(PoolConfig(9, 1, groups, commit=CommitMode.STEPS, hybrid=HybridConfig()), Ghost())
    writer, reader = Request("w", list(range(5)), pool.hasher), Request("r", list(range(4)), pool.hasher)
    first = pool.begin_step()
    [rows, state] = pool.allocate(2, "w")
    for block, group in ((rows, 0), (state, 1)):
        pool.write(writer, block, 3, group)
        pool.cache_partial_block(writer, block, 3, group)
    pool.commit(first)
    second = pool.begin_step()
    pool.write(writer, rows, 4, 0)
    pool.cache_partial_block(writer, rows, 4, 0)

    cache = HybridCache(pool)
    before = cache.match(reader)
    pool.commit(second)

    assert (before.hit, before.pending) == (3, 0)
    assert cache.match(reader).hit == before.pending


@pytest.mark.clause("HIT-PENDING-1", "HIT-JUNCTION-1")
def test_where_no_key_gives_way_pending_is_at_least_the_hit_and_a_junction_lies_above_it() -> None:
    for number, scene in enumerate(scenes(5, GROUPS["attention and states"], True)):
        if number % 3 == 0:
            match = scene.match()
            assert match.hit <= match.pending
            assert match.junction == 0 or match.hit < match.junction < scene.tokens
            assert scene.usable(0, match.junction)
            assert match.uncached == max(0, match.junction - match.hit)
