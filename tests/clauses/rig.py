"""A tiny pool with everything around it that a clause test needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from kvproof.reference import BlockPool, EventMirror, Ghost, Request, check_invariants
from kvproof.reference.ghost import Content
from kvproof.reference.index import Registration
from kvproof.reference.lookup import Hit
from kvproof.reference.request import Prefix
from kvproof.spec.errors import PoolError
from kvproof.spec.events import Event, PrefixHash, Removed
from kvproof.spec.vocabulary import (
    CommitMode,
    ExtraKey,
    GroupConfig,
    GroupKind,
    HashAlgorithm,
    Holder,
    HolderMode,
    HybridConfig,
    Key,
    PoolConfig,
    Residency,
)

ATTENTION = GroupConfig(GroupKind.FULL_ATTENTION, 4)
WINDOW = GroupConfig(GroupKind.SLIDING_WINDOW, 4, window=6)
RECURRENT = GroupConfig(GroupKind.RECURRENT, 4)
WIDE = GroupConfig(GroupKind.FULL_ATTENTION, 8)
WIDE_WINDOW = GroupConfig(GroupKind.SLIDING_WINDOW, 8, window=6)
WIDE_STATE = GroupConfig(GroupKind.RECURRENT, 8)

EVERY_KIND = pytest.mark.parametrize("group", [ATTENTION, WINDOW, RECURRENT], ids=lambda group: group.kind.value)
ATTENTION_KINDS = pytest.mark.parametrize("group", [ATTENTION, WINDOW], ids=lambda group: group.kind.value)
EVERY_WIDE_KIND = pytest.mark.parametrize("group", [WIDE, WIDE_WINDOW, WIDE_STATE], ids=lambda group: group.kind.value)
WIDE_ATTENTION_KINDS = pytest.mark.parametrize("group", [WIDE, WIDE_WINDOW], ids=lambda group: group.kind.value)

TEN = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)


class Rig:
    """A pool with ghost content, its requests, and a consumer that has folded all events so far.

    By default: blocks 0 to 3, h = 2, one attention group with B = 4.
    """

    def __init__(
        self,
        *groups: GroupConfig,
        blocks: int = 4,
        h: int = 2,
        residency: Residency = Residency.LOGICAL,
        holders: HolderMode = HolderMode.NAMED,
        algorithm: HashAlgorithm = HashAlgorithm.SHA256,
        seed: bytes | None = None,
        commit: CommitMode = CommitMode.IMMEDIATE,
        hybrid: HybridConfig | None = None,
    ) -> None:
        chosen = groups or (ATTENTION,)
        self.config = PoolConfig(blocks, h, chosen, algorithm, seed, residency, holders, commit, hybrid)
        self.ghost = Ghost()
        self.pool = BlockPool(self.config, self.ghost)
        self.mirror = EventMirror(self.config, self.pool.hasher)
        self.requests: list[Request] = []

    def request(self, name: str, tokens: Sequence[int] = TEN, extra_keys: Sequence[ExtraKey] = ()) -> Request:
        made = Request(name, list(tokens), self.pool.hasher, extra_keys)
        self.requests.append(made)
        return made

    def holder(self, request: Request) -> Holder | None:
        """What the request is called in this pool's references."""
        return request.request_id if self.config.holders is HolderMode.NAMED else None

    def take(self, request: Request, n: int = 1) -> list[int]:
        return self.pool.allocate(n, self.holder(request))

    def free(self, request: Request, *blocks: int) -> None:
        self.pool.free(blocks, self.holder(request))

    def touch(self, request: Request, block: int, position: int, group: int = 0) -> None:
        self.pool.touch(block, key(request, position, group), self.holder(request))

    def put(self, request: Request, block: int, position: int, group: int = 0) -> None:
        """Write the request's first `position` tokens to a block of its own and register them."""
        self.pool.write(request, block, position, group)
        self.pool.cache_partial_block(request, block, position, group)

    def fill(self, request: Request, slots: int, group: int = 0) -> list[int]:
        """Allocate, write and register the request's first whole slots."""
        table = self.take(request, slots)
        size = self.config.groups[group].block_size
        for slot, block in enumerate(table):
            self.pool.write(request, block, (slot + 1) * size, group)
        self.pool.cache_full_blocks(request, table, 0, slots, group)
        return table

    def begin(self) -> int:
        return self.pool.begin_step()

    def commit(self, *steps: int) -> None:
        for step in steps:
            self.pool.commit(step)

    def settle(self, request: Request, position: int) -> None:
        """Commit step 1 with block 1 of the request and its key at this position; drain the event, begin step 2."""
        self.take(request)
        self.put(request, 1, position)
        self.commit(1)
        self.events()
        self.begin()

    def attach(self, request: Request, block: int, position: int, group: int = 0) -> None:
        self.pool.attach(block, key(request, position, group), request.request_id)

    def hit(self, request: Request, position: int, group: int = 0) -> Hit:
        """What a lookup says of the request's key."""
        return self.pool.find([key(request, position, group)])[0]

    def entries(self, block: int) -> list[tuple[int, int, Holder | None]]:
        """Position, commits until it is ready and who reserved it, for each entry of the block."""
        return [(e.position, e.ahead, e.owner) for e in self.pool.observe().blocks[block].entries]

    def holders(self, block: int) -> dict[Holder, PrefixHash | None]:
        return dict(self.pool.observe().blocks[block].holders)

    def held(self, block: int, holder: str) -> tuple[int, ...] | None:
        """The tokens that the block holds after the current step."""
        content = self.pool.read(block, holder)
        return None if content is None else content.spelled

    def list_key(self, request: Request, block: int, position: int, group: int = 0) -> None:
        """Enter a key into the index behind the pool's back, as if it had been committed long ago."""
        registration = Registration(request.request_id, Prefix(request, position), group, 0)
        self.pool._index.reserve(registration, block, self.pool.last_committed_step)
        self.pool._index.set_ready(registration.key, block)

    def overwrite(self, block: int, content: Content | None) -> None:
        """Let a block hold something else, behind the pool's back."""
        self.ghost.hold(block, content, self.pool.last_committed_step)

    def keys_of(self, block: int) -> list[Key]:
        return [key for key, _ in self.pool.observe().blocks[block].keys]

    def queue(self) -> list[int]:
        return list(self.pool.observe().free_queue)

    def found(self, request: Request, position: int, group: int = 0) -> int | None:
        """The block that a lookup of the request's key finds."""
        return self.pool.lookup([key(request, position, group)])[0]

    def events(self) -> list[Event]:
        """Drain the pool's events; the consumer folds them."""
        drained = self.pool.take_events()
        self.mirror.fold(drained)
        return drained

    def check(self) -> None:
        """Check every invariant, with all events folded."""
        self.events()
        check_invariants(self.pool, self.requests, self.mirror)

    def references_and_keys(self) -> object:
        """All of the state but the content and the pending events."""
        state = self.pool.observe()
        blocks = [(b.ref_cnt, b.holders, b.writer, b.group, b.slot, b.keys) for b in state.blocks]
        return blocks, state.free_queue, dict(state.index)

    def snapshot(self) -> object:
        """The state that a refused operation must not change: pool, content, requests."""
        return (
            self.pool.observe(),
            # With immediate commit every operation is a step of its own, whether it changes anything or not.
            self.pool.last_committed_step if self.config.commit is CommitMode.STEPS else None,
            {block: list(past) for block, past in self.ghost._history.items()},
            dict(self.ghost.prefixes),
            dict(self.ghost.served),
            [(list(request.tokens), list(request.hashes), request.extra_keys) for request in self.requests],
        )

    @contextmanager
    def refused(self, error: type[PoolError], *or_else: type[PoolError]) -> Iterator[None]:
        """What happens inside raises exactly this error and changes nothing."""
        before = self.snapshot()
        with pytest.raises(PoolError) as caught:
            yield
        assert caught.type in (error, *or_else), caught.value
        assert self.snapshot() == before

    @contextmanager
    def silent(self) -> Iterator[None]:
        """What happens inside changes nothing."""
        before = self.snapshot()
        yield
        assert self.snapshot() == before


MakeRig = Callable[..., Rig]
"""The fixtures `new_rig` and `in_step`: they take a rig's arguments."""


def key(request: Request, position: int, group: int = 0) -> Key:
    found = request.key_at(group, position)
    assert found is not None
    return found


def at(request: Request, position: int) -> PrefixHash:
    digest = request.hash_at(position)
    assert digest is not None
    return PrefixHash(digest, position)


def removed(request: Request, position: int, group: int = 0) -> Removed:
    return Removed(group, at(request, position).digest)
