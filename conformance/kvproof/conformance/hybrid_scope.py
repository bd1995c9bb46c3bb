"""Small worlds in which requests run over all groups, to be visited completely; see `scope` for those without."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from kvproof.conformance.canonical import Names
from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Advance,
    BeginStep,
    Commit,
    Evict,
    Fail,
    Operation,
    Release,
    Rollback,
    Truncate,
)
from kvproof.conformance.preconditions import violations
from kvproof.conformance.undefined import undefined
from kvproof.conformance.world import Texts, World, replay
from kvproof.reference.observation import BlockState, PoolState
from kvproof.spec.vocabulary import NULL_BLOCK, POOL_COPY_PREFIX, CommitMode, GroupConfig, HybridConfig, PoolConfig


@dataclass(frozen=True, slots=True)
class HybridScope:
    """Some usable blocks, groups, and a request for each text, written in letters; the hash block size is 1.

    `in_flight` limits how many steps are open at once. With `truncates` requests may be cut.
    """

    blocks: int
    groups: tuple[GroupConfig, ...]
    texts: tuple[str, ...]
    hybrid: HybridConfig = field(default_factory=HybridConfig)
    in_flight: int = 1
    truncates: bool = False

    @property
    def config(self) -> PoolConfig:
        """The configuration of its pool."""
        return PoolConfig(self.blocks + 1, 1, self.groups, commit=CommitMode.STEPS, hybrid=self.hybrid)

    @property
    def arrivals(self) -> tuple[AddRequest, ...]:
        """The operations that every trace of the scope begins with."""
        return tuple(
            AddRequest(f"r{number}", tuple(ord(letter) - ord("a") for letter in text))
            for number, text in enumerate(self.texts, 1)
        )

    @property
    def holder_classes(self) -> tuple[tuple[str, ...], ...]:
        """No two requests are interchangeable: the order in which they run is their names'."""
        return tuple((arrival.request,) for arrival in self.arrivals)

    def describe(self) -> str:
        """The scope in a few words."""
        groups = " + ".join(f"{group.kind.value} of {group.block_size}" for group in self.groups)
        return f"{self.blocks} blocks, {groups}, requests {','.join(self.texts)}, {self.in_flight} steps in flight"

    def start(self) -> World:
        """The world with all requests and nothing else."""
        return replay(self.config, self.arrivals)


class HybridOperations:
    """What is legal and defined in a world of one scope; questions and drains change nothing and are left out."""

    def __init__(self, scope: HybridScope) -> None:
        self._scope = scope
        self._operations = list(self._of_requests())

    def vocabulary(self, oldest_open_step: int = 1) -> Iterator[Operation]:
        """Every operation of the scope, enabled or not."""
        yield from (BeginStep(), Commit(oldest_open_step), Fail(oldest_open_step), *self._operations)

    def of(self, world: World) -> list[Operation]:
        """The enabled operations, in a fixed order."""
        open_steps, situation = world.state.steps.open, world.situation
        stepping: list[Operation] = [BeginStep()] if open_steps < self._scope.in_flight else []
        oldest = world.begun - open_steps + 1
        stepping += [Commit(oldest), Fail(oldest)] if open_steps else []
        others = (each for each in self._operations if not violations(situation, each))
        return stepping + [each for each in others if undefined(world, each) is None]

    def _of_requests(self) -> Iterator[Operation]:
        for arrival in self._scope.arrivals:
            name, length = arrival.request, len(arrival.tokens)
            for end in range(1, length + 1):
                yield Admit(name, end)
                yield Advance(name, end)
            yield from (Release(name), Rollback((name,)))
            yield from (Truncate(name, kept) for kept in range(length if self._scope.truncates else 0))
        yield from (Evict((block,)) for block in range(NULL_BLOCK + 1, self._scope.blocks + 1))


class HybridCanonicalizer:
    """Maps worlds of one scope to values that are equal exactly for states that differ in block numbers alone.

    A block is known by its first place: in a table, at the end of a copy, in the free queue. There are no others.
    """

    def form(self, world: World) -> Hashable:
        """The canonical form. What the consumer knows belongs to it: misleading events make a state of their own."""
        return self.named_form(world)[0]

    def named_form(self, world: World) -> tuple[Hashable, Names]:
        """The canonical form, and which block is which in it."""
        state = world.state
        order = _order(state)
        number = {block: place for place, block in enumerate(order)}
        texts = world.texts()
        running = [
            each._replace(tables=tuple([tuple([number[block] for block in table]) for table in each.tables]))
            for each in state.running or ()
        ]
        steps = (
            state.steps.open,
            state.steps.depends,
            tuple([(ahead, number[src], number[dst]) for ahead, src, dst, _ in state.steps.copies]),
            state.steps.admitted,
        )
        form = (
            tuple([_what(state.blocks[block], texts[block]) for block in order]),
            tuple([number[block] for block in state.free_queue]),
            tuple(running),
            steps,
            frozenset((key, tuple([number[block] for block in blocks])) for key, blocks in state.index.items()),
            tuple([(tuple(request.tokens), request.num_prompt_tokens) for request in world.requests.values()]),
            frozenset(world.mirror.resident.items()),
        )
        return form, Names(tuple(world.requests), tuple(order))


def _order(state: PoolState) -> list[int]:
    """The blocks by their first place, the null block first."""
    found = [NULL_BLOCK, *(block for each in state.running or () for table in each.tables for block in table)]
    found += [block for _, src, dst, _ in state.steps.copies for block in (src, dst)]
    return list(dict.fromkeys([*found, *state.free_queue]))


def _what(block: BlockState, texts: Texts) -> Hashable:
    """What a block is and holds, as far as it can matter; the names of the pool's own copies hold its numbers."""
    holders = [("copy" if name.startswith(POOL_COPY_PREFIX) else name, served) for name, served in block.holders]
    block = block._replace(holders=tuple(holders))
    if not block.entries and block.writer is None:  # what it holds serves nobody, and it is allocated before it is used
        return block._replace(group=None, slot=None, age=0), None
    return block, (None,) * block.age + texts[block.age :]
