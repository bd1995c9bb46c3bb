"""When two states are the same state: the canonical form of a world in a scope.

Two states are merged only if whatever can be done in one can be done in the other, with results that differ only in
names. A field of a pool that no operation reads any more cannot tell two states apart. Steps are counted from the last
committed one, as the pool's observation does.

One thing is left out: which keys of a step were registered by one call. It decides how the events of the commit are cut
into runs, and nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import permutations, product
from typing import NamedTuple

from kvproof.conformance.scope import Scope
from kvproof.conformance.world import Texts, World
from kvproof.reference.observation import BlockState, StepState
from kvproof.spec.vocabulary import NULL_BLOCK, Key

Ends = tuple[tuple[int, bool], ...]
"""The places of the queued copies that a block is an end of, and of which it is the destination."""

Ranks = tuple[int, ...]
"""A block's places among the holders of its keys, in the order of the keys; only of keys that have several holders."""


class Names(NamedTuple):
    """Which holder of a world is the first in its canonical form, the second, ...; and which block."""

    holders: tuple[str, ...]
    blocks: tuple[int, ...]


class Canonicalizer:
    """Maps worlds of one scope to values that are equal exactly for the same states.

    Blocks have no identity: a free one is known by its place in the queue, a used one by what it is, and used blocks
    are sorted by that. Two used blocks that are equal in everything, the ranks of their keys included, are
    interchangeable, so sorting gives the exact form without trying all orders. Requests with the same text are
    interchangeable too: all their permutations are tried, and the least form wins. A copy that the pool holds itself is
    known by its place among the queued copies.

    What a block is, is numbered in the order of first sight, once for each permutation; so is what the steps are.
    """

    def __init__(self, scope: Scope) -> None:
        orders = product(*(permutations(names) for names in scope.holder_classes))
        self._orders = [{name: i for i, name in enumerate(sum(order, ()))} for order in orders]
        group = scope.config.groups[0]
        self._anonymous = scope.anonymous
        self._one_slot = max(map(len, scope.keys)) <= group.block_size
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[Hashable, list[int]] = {}

    def form(self, world: World) -> Hashable:
        """The canonical form. What the consumer knows belongs to it: misleading events make a state of their own."""
        return self._least(world)[0]

    def named_form(self, world: World) -> tuple[Hashable, Names]:
        """The canonical form, and who is who in it.

        Worlds of one form differ in these names alone; what could have either of two names is interchangeable.
        """
        form, order, numbers = self._least(world)
        used = [block_id for block_id, block in enumerate(world.state.blocks) if block.ref_cnt]
        used.sort(key=lambda block_id: numbers[block_id][order])
        return form, Names(tuple(self._orders[order]), (NULL_BLOCK, *world.state.free_queue, *used))

    def _least(self, world: World) -> tuple[Hashable, int, list[list[int]]]:
        """The canonical form, the order of the requests that gives it, and the number of each block for each order."""
        state = world.state
        ends, ranks = _ends(state.steps), _ranks(state.index)
        numbers: list[list[int]] = [[]]  # the null block is always the same
        for block_id, text in enumerate(world.texts()[1:], 1):
            places = (ends.get(block_id, ()), ranks.get(block_id, ()))
            numbers.append(self._number_block(state.blocks[block_id], text, places))
        steps = self._number_steps(state.steps)
        used = [numbers[block_id] for block_id, block in enumerate(state.blocks) if block.ref_cnt]
        free = [numbers[block_id] for block_id in state.free_queue]
        *least, order = min(
            (steps[i], tuple([number[i] for number in free]), tuple(sorted([number[i] for number in used])), i)
            for i in range(len(self._orders))
        )
        return (*least, frozenset(world.mirror.resident.items())), order, numbers

    def _number_block(self, block: BlockState, texts: Texts, places: tuple[Ends, Ranks]) -> list[int]:
        """The number of what a block is, for each order of the requests."""
        key = (block, texts, places)
        found = self._known.get(key)
        if found is None:
            held = self._held(block, texts)
            found = [self._number((*_what(block, order), *places, *held)) for order in self._orders]
            self._known[key] = found
        return found

    def _number_steps(self, steps: StepState) -> list[int]:
        """The number of what the steps are, for each order of the requests; of copies blocks know the ends."""
        found = self._known.get(steps)
        if found is None:
            found = [self._number((steps.open, *_relations(steps, order))) for order in self._orders]
            self._known[steps] = found
        return found

    def _number(self, what: Hashable) -> int:
        return self._numbers.setdefault(what, len(self._numbers))

    def _held(self, block: BlockState, texts: Texts) -> tuple[Hashable, ...]:
        """Identity and contents of a block, as far as they can matter."""
        identity = (block.group, block.slot)
        if not block.entries and (block.ref_cnt == 0 or self._one_slot):
            # A free block without keys gets a new identity when it is allocated; where all keys are in one slot, no
            # registration, write or move can meet another identity than the block's own.
            identity = (None, None)
        writable = block.ref_cnt > 0 if self._anonymous else block.writer is not None
        if not block.entries and not writable:
            # Content serves through keys, through its writer, or through what a reader was served, which is kept here.
            # A block that has neither keys nor a writer gets no key before it is allocated again.
            return identity, None
        # What the block held before it was allocated is nobody's any more.
        return identity, (None,) * block.age + texts[block.age :]


def _ends(steps: StepState) -> dict[int, Ends]:
    """For each block the queued copies that it is an end of."""
    ends: dict[int, Ends] = {}
    for place, (_, src, dst, _) in enumerate(steps.copies):
        ends[src] = (*ends.get(src, ()), (place, False))
        ends[dst] = (*ends.get(dst, ()), (place, True))
    return ends


def _ranks(index: Mapping[Key, Sequence[int]]) -> dict[int, Ranks]:
    """Each block's place among the holders of each key that has several; it decides what lookup returns."""
    ranks: dict[int, Ranks] = {}
    for key in sorted(key for key, blocks in index.items() if len(blocks) > 1):
        for rank, block_id in enumerate(index[key]):
            ranks[block_id] = (*ranks.get(block_id, ()), rank)
    return ranks


def _what(block: BlockState, order: dict[str, int]) -> tuple[Hashable, ...]:
    """What is observed of a block, with the requests numbered in this order; the pool's own copies have no number."""
    holders = [(order[name], served is not None, served) for name, served in block.holders if name in order]
    entries = [(entry.key, entry.position, entry.ahead, order.get(entry.owner or "")) for entry in block.entries]
    attached = [(order[name], ahead) for name, ahead in block.attached]
    writer = None if block.writer is None else order[block.writer]
    # Who wrote a block takes back what it wrote, and only as far as the block's life goes.
    age = 0 if writer is None else block.age
    return block.ref_cnt, tuple(sorted(holders)), writer, tuple(entries), tuple(sorted(attached)), age


def _relations(steps: StepState, order: dict[str, int]) -> tuple[Hashable, ...]:
    """Who depends on whom, who holds which copy, and in which order requests came, numbered in this order."""
    copies = [(ahead, order.get(holder)) for ahead, _, _, holder in steps.copies]
    depends = sorted((order[reader], order[writer], ahead) for reader, writer, ahead in steps.depends)
    admitted = [(ahead, tuple([order[name] for name in names])) for ahead, names in steps.admitted]
    return tuple(depends), tuple(copies), tuple(admitted)
