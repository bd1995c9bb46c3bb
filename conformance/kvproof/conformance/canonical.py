"""When two states are the same state: the canonical form of a world in a scope.

Two states are merged only if whatever can be done in one can be done in the other, with results that differ only in
names. A field of a pool that no operation reads any more cannot tell two states apart.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import permutations, product

from kvproof.conformance.scope import Scope
from kvproof.conformance.world import World
from kvproof.reference.observation import BlockState

Content = tuple[int, ...]
"""The tokens of the prefix that a block holds."""


class Canonicalizer:
    """Maps worlds of one scope to values that are equal exactly for the same states.

    Blocks have no identity: a free one is known by its place in the queue, a used one by what it is, and used blocks
    are sorted by that. Two used blocks that are equal in everything, the ranks of their keys included, are
    interchangeable, so sorting gives the exact form without trying all orders. Requests with the same text are
    interchangeable too: all their permutations are tried, and the least form wins.

    What a block is, is numbered in the order of first sight, once for each permutation.
    """

    def __init__(self, scope: Scope) -> None:
        orders = product(*(permutations(names) for names in scope.request_classes))
        self._orders = [[name for names in order for name in names] for order in orders]
        group = scope.config.groups[0]
        self._one_slot = max(map(len, scope.keys)) <= group.block_size
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[tuple[BlockState, Content | None], list[int]] = {}

    def form(self, world: World) -> Hashable:
        """The canonical form. What the consumer knows belongs to it: misleading events make a state of their own."""
        state, contents = world.state, world.ghost.contents
        numbers: list[list[int]] = [[]]  # the null block is always the same
        for block_id, block in enumerate(state.blocks[1:], 1):
            content = contents.get(block_id)
            key = (block, None if content is None else content.prefix.spelled)
            numbers.append(self._known.get(key) or self._number(key))
        ranks = self._ranks(world)
        used = [block_id for block_id, block in enumerate(state.blocks) if block.ref_cnt]
        least = min(
            (
                tuple((numbers[b][i], ranks.get(b, ())) for b in state.free_queue),
                tuple(sorted((numbers[b][i], ranks.get(b, ())) for b in used)),
            )
            for i in range(len(self._orders))
        )
        return least, frozenset(world.mirror.resident.items())

    def _number(self, key: tuple[BlockState, Content | None]) -> list[int]:
        found = [self._numbers.setdefault(self._what(*key, order), len(self._numbers)) for order in self._orders]
        self._known[key] = found
        return found

    def _what(self, block: BlockState, content: Content | None, order: list[str]) -> Hashable:
        """What a block is, with the requests numbered in this order."""
        holders = sorted((order.index(name), served is not None, served) for name, served in block.holders)
        writer = None if block.writer is None else order.index(block.writer)
        identity = (block.group, block.slot)
        if not block.keys and (block.ref_cnt == 0 or self._one_slot):
            # A free block without keys gets a new identity when it is allocated; where all keys are in one slot, no
            # registration, write or move can meet another identity than the block's own.
            identity = (None, None)
        if not block.keys and block.writer is None:
            # Content serves through keys, through its writer, or through what a reader was served, which is kept here.
            # A block that has neither keys nor a writer gets no key before it is allocated again.
            content = None
        return block.ref_cnt, tuple(holders), writer, identity, block.keys, content

    def _ranks(self, world: World) -> dict[int, tuple[int, ...]]:
        """Each block's place among the holders of each key that has several; it decides what lookup returns."""
        ranks: dict[int, tuple[int, ...]] = {}
        for key in sorted(key for key, blocks in world.state.index.items() if len(blocks) > 1):
            for rank, block_id in enumerate(world.state.index[key]):
                ranks[block_id] = (*ranks.get(block_id, ()), rank)
        return ranks
