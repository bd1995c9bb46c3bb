"""A world: one reference pool, its requests, and a consumer of its events; it runs operations of the language."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeGuard

from kvproof.conformance.arguments import Arguments, Situation
from kvproof.conformance.fingerprints import Fingerprints
from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Advance,
    Allocate,
    Append,
    Attach,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Contains,
    Copy,
    Evict,
    Extra,
    Fail,
    Find,
    Finish,
    Free,
    FullKey,
    Hashes,
    KeyRef,
    Lookup,
    Match,
    Move,
    Operation,
    Read,
    Release,
    Reset,
    Rollback,
    Split,
    TakeEvents,
    Touch,
    Truncate,
    Write,
)
from kvproof.reference import BlockPool, EventMirror, Ghost, PoolState, Request, check_invariants
from kvproof.reference.ghost import Content
from kvproof.reference.hybrid import HybridCache, check_tables
from kvproof.reference.request import Prefix
from kvproof.spec.errors import InvalidArgument
from kvproof.spec.vocabulary import NULL_BLOCK, ExtraKey, ExtraKeySource, Key, PoolConfig

Texts = tuple[tuple[int, ...] | None, ...]
"""The tokens of the prefix that a block holds after each step from the last committed one on, None for nothing."""


class DirectedPool(BlockPool):
    """A reference that can be told which block comes next."""

    def _take_first(self, blocks: Sequence[int]) -> None:
        """Put free blocks first in the queue, in this order."""
        self._free.prepend(blocks)


class World:
    """The reference with everything around it that an operation can name.

    `state` is what was observed after the last operation. `mirror` has folded every event so far, also those that are
    pending in the pool until `TakeEvents`. An allocation takes what its operation says that it took, if that was free.
    `begun` is the number of the last step that the pool began when asked to.
    """

    def __init__(self, config: PoolConfig) -> None:
        self.pool = DirectedPool(config, Ghost())
        self.cache = cache_over(self.pool)
        """Runs requests over all groups, where the pool has hybrid settings."""
        self.fingerprints = Fingerprints(config)
        self.taken: Sequence[int] = ()
        """What the last allocation took."""
        self.requests: dict[str, Request] = {}
        self.mirror = EventMirror(config, self.pool.hasher)
        self.state: PoolState = self.observe()
        self.begun = 0
        self._folded = 0
        self._shares_requests = False

    @property
    def config(self) -> PoolConfig:
        """The pool's configuration."""
        return self.pool.config

    @property
    def ghost(self) -> Ghost:
        """What the blocks really hold."""
        assert self.pool.ghost is not None, "a world's pool has a ghost"
        return self.pool.ghost

    @property
    def situation(self) -> Situation:
        """What the preconditions are judged by."""
        return Situation(self.state, self.config, self.requests, self.begun)

    def observe(self) -> PoolState:
        """Everything that can be observed: the pool, and what runs over it."""
        return self.pool.observe() if self.cache is None else self.cache.observe()

    def whole_state(self) -> PoolState:
        """The state as a value: what it is now, and stays when the world goes on."""
        return self.state

    def look_again(self) -> None:
        """Observe the pool after an operation that failed: it should have changed nothing."""
        self.state = self.observe()

    def contents(self, block_id: int) -> tuple[Content | None, ...]:
        """What a block holds after each step from the last committed one to the current one; several if steps are open.

        With immediate commit there is one, what it holds.
        """
        if not self.state.steps.open:
            return (self.ghost.content(block_id),)
        committed = self.pool.last_committed_step
        steps = range(committed, committed + self.state.steps.open + 1)
        return tuple([self.ghost.content_after(block_id, step) for step in steps])

    def texts(self) -> list[Texts]:
        """For each block the tokens of the prefixes that it holds, one for each step like `contents`."""
        if not self.state.steps.open:
            held = map(self.ghost.content, range(self.config.num_blocks))
            return [(None if content is None else content.prefix.spelled,) for content in held]
        return [
            tuple([None if content is None else content.prefix.spelled for content in self.contents(block_id)])
            for block_id in range(self.config.num_blocks)
        ]

    def apply(self, operation: Operation) -> object:
        """Run one operation, observe, and fold the events that it added; a typed error propagates."""
        result = self._run(operation)
        self.state = self.observe()
        if isinstance(operation, TakeEvents):
            self._folded = 0
        new = self.state.pending_events[self._folded :]
        if new:
            self._folded += len(new)
            self.mirror = self.mirror.clone()  # it may be shared with a clone of this world
            self.mirror.fold(new)
        return result

    def is_choice(self, blocks: object, n: int) -> TypeGuard[Sequence[int]]:
        """Whether these are n different free blocks."""
        if not isinstance(blocks, list | tuple) or len(blocks) != n:
            return False
        known = [block for block in blocks if type(block) is int and NULL_BLOCK < block < self.config.num_blocks]
        return len(set(known)) == n and all(self.state.blocks[block].ref_cnt == 0 for block in known)

    def drain(self) -> None:
        """Forget the pending events, which the mirror has folded already."""
        if self.state.pending_events:
            self.pool.take_events()
            self.state = dataclasses.replace(self.state, pending_events=())
            self._folded = 0

    def check(self) -> None:
        """Check every invariant, those of the requests' hashes, of the mirror and of what runs included."""
        check_invariants(self.pool, self.requests.values(), self.mirror)
        if self.cache is not None:
            check_tables(self.cache, self.requests)

    def clone(self) -> World:
        """An independent copy. Requests and mirror are shared until one of the two changes them."""
        twin = World.__new__(World)
        twin.pool = self.pool.clone()
        twin.cache = None if self.cache is None else self.cache.clone(twin.pool)
        twin.requests, twin.mirror = self.requests, self.mirror
        twin._shares_requests = self._shares_requests = True
        twin.fingerprints = self.fingerprints
        twin.state, twin.begun, twin.taken = self.state, self.begun, self.taken
        twin._folded = self._folded
        return twin

    def key(self, ref: KeyRef) -> Key:
        """The key that `ref` names."""
        arguments = Arguments(self.situation)
        key = arguments.key(ref)
        if key is None:  # a name is the language's own, so it is not the pool that refuses a wrong one
            error = min(arguments.errors, key=str)
            raise error(f"{ref!r} names no key")
        return key

    def _request(self, name: str) -> Request:
        found = self.requests.get(name) if isinstance(name, str) else None
        if found is None:
            raise InvalidArgument(f"there is no request {name!r}; there are {', '.join(self.requests) or 'none'}")
        return found

    def _keys(self, refs: Sequence[KeyRef]) -> list[Key]:
        if not isinstance(refs, list | tuple):
            raise InvalidArgument(f"keys must be a list or tuple, not {refs!r}")
        return [self.key(ref) for ref in refs]

    def _run(self, operation: Operation) -> object:
        pool = self.pool
        match operation:
            case Allocate(holder=holder, n=n, took=took):
                if self.is_choice(took, n):
                    pool._take_first(took)
                self.taken = pool.allocate(n, holder)
                return self.taken
            case Touch(holder=holder, block=block, key=ref):
                return pool.touch(block, self.key(ref), holder)
            case Free(holder=holder, blocks=blocks):
                return pool.free(blocks, holder)
            case CacheFullBlocks():
                self._cache_full_blocks(operation)
            case CachePartialBlock(request=name, block=block, position=position, group=group, replace=replace):
                return pool.cache_partial_block(self._request(name), block, position, group, replace)
            case Write(request=name, block=block, position=position, group=group):
                return pool.write(self._request(name), block, position, group)
            case Copy(holder=holder, src=src, dst=dst):
                return pool.copy(src, dst, holder)
            case Move(src=src, dst=dst):
                return pool.move(src, dst)
            case Evict(blocks=blocks):
                return pool.evict(blocks)
            case Reset():
                return pool.reset()
            case TakeEvents():
                return pool.take_events()
            case BeginStep() | Commit() | Attach() | Rollback() | Finish():
                return self._step(operation)
            case Match() | Split() | Admit() | Advance() | Release() | Fail():
                return self._run_request(operation)
            case Lookup() | Find() | Contains() | FullKey() | Hashes() | Read():
                return self._ask(operation)
            case AddRequest() | Append() | Truncate():
                self._change_request(operation)
        return None

    def _step(self, operation: BeginStep | Commit | Attach | Rollback | Finish) -> object:
        match operation:
            case BeginStep():
                self.begun = self.pool.begin_step()
                return self.begun
            case Commit(step=step):
                return (self.cache or self.pool).commit(step)
            case Attach(holder=holder, block=block, key=ref):
                return self.pool.attach(block, self.key(ref), holder)
            case Rollback(requests=requests):
                return (self.cache or self.pool).rollback(requests)
            case Finish(request=request, blocks=blocks):
                return self.pool.finish(request, blocks)

    def _run_request(self, operation: Match | Split | Admit | Advance | Release | Fail) -> object:
        cache = self.cache
        if cache is None:
            raise InvalidArgument("the pool has no hybrid settings; configure it with hybrid to run requests over it")
        if isinstance(operation, Release):
            return cache.release(operation.request)
        if isinstance(operation, Fail):
            return cache.fail(operation.step)
        request = self._request(operation.request)
        match operation:
            case Match():
                return cache.match(request)
            case Split(start=start, tokens=tokens, cap=cap, junction=junction):
                return cache.split(request, start, tokens, cap, junction)
            case Admit(end=end):
                return cache.admit(request, end), cache.tables(operation.request)
            case Advance(end=end):
                cache.advance(request, end)
                return cache.tables(operation.request)

    def _cache_full_blocks(self, operation: CacheFullBlocks) -> None:
        self.pool.cache_full_blocks(
            self._request(operation.request),
            operation.blocks,
            operation.first,
            operation.last,
            operation.group,
            operation.mask,
            operation.replace,
        )

    def _ask(self, operation: Lookup | Find | Contains | FullKey | Hashes | Read) -> object:
        match operation:
            case Lookup(keys=refs):
                return self.pool.lookup(self._keys(refs))
            case Find(keys=refs):
                return self.pool.find(self._keys(refs))
            case Contains(key=ref, block=block):
                return self.pool.contains(self.key(ref), block)
            case FullKey(block=block):
                return self.pool.full_key(block)
            case Hashes(request=name):
                return list(self._request(name).hashes)
            case Read(holder=holder, block=block):
                return self._read(holder, block)

    def rows(self, request: str, position: int, group: int) -> tuple[int, ...]:
        """What the forward pass of a request leaves in the block of the slot of its `position`-th token."""
        return self.fingerprints.rows(Prefix(self.requests[request], position), group)

    def rows_of_chunk(self, operation: Admit | Advance) -> tuple[tuple[int, ...], ...]:
        """What the forward pass of a chunk that may be scheduled computes, group by group."""
        request = self.requests[operation.request]
        assert self.cache is not None, "a chunk is of a hybrid pool"
        running = self.cache.running.get(operation.request)
        start = self.cache.match(request).hit if running is None else running.computed
        groups = range(len(self.config.groups))
        return tuple([self.fingerprints.of_chunk(Prefix(request, operation.end), start, group) for group in groups])

    def _read(self, holder: str | None, block: int) -> tuple[int, ...]:
        """The numbers of the rows that a block holds, none if nothing was written."""
        prefix, content = self.pool.read(block, holder), self.ghost.content(block)
        return () if prefix is None or content is None else self.fingerprints.rows(prefix, content.group)

    def _change_request(self, operation: AddRequest | Append | Truncate) -> None:
        if self._shares_requests:
            self.requests = {name: _clone_request(request) for name, request in self.requests.items()}
            self._shares_requests = False
            for name, running in ({} if self.cache is None else self.cache.running).items():
                running.request = self.requests[name]
        match operation:
            case AddRequest(request=name, tokens=tokens, extra_keys=extras):
                if isinstance(name, str) and name in self.requests:
                    raise InvalidArgument(f"there is a request {name!r} already")
                self.requests[name] = Request(name, tokens, self.pool.hasher, _extra_keys(extras))
            case Append(request=name, tokens=tokens):
                self._request(name).append(tokens)
            case Truncate(request=name, num_tokens=num_tokens) if self.cache is not None:
                self.cache.truncate(self._request(name), num_tokens)
            case Truncate(request=name, num_tokens=num_tokens):
                self._request(name).truncate(num_tokens)


def cache_over(pool: BlockPool) -> HybridCache | None:
    """What runs requests over a pool, None where it has no hybrid settings."""
    return None if pool.config.hybrid is None else HybridCache(pool)


def _extra_keys(extras: object) -> list[ExtraKey]:
    if not isinstance(extras, list | tuple):
        raise InvalidArgument(f"extra_keys must be a list or tuple, not {extras!r}")
    return [_extra_key(extra) for extra in extras]


def _extra_key(extra: object) -> ExtraKey:
    """The extra key in the pool's own type; its limits are left to the request to check."""
    if not isinstance(extra, Extra) or not isinstance(extra.value, str):
        raise InvalidArgument(f"an extra key must be an Extra with a text, not {extra!r}")
    sources = {source.name.lower(): source for source in ExtraKeySource}
    if not isinstance(extra.source, str) or extra.source not in sources:
        raise InvalidArgument(f"an extra key's source must be one of {', '.join(sources)}, not {extra.source!r}")
    return ExtraKey(sources[extra.source], extra.value.encode(errors="surrogatepass"), extra.start, extra.end)


def _clone_request(request: Request) -> Request:
    """A copy that grows and shrinks on its own; the hashes are copied, not computed again."""
    twin = Request.__new__(Request)
    twin.request_id, twin.hasher, twin.extra_keys = request.request_id, request.hasher, request.extra_keys
    twin.tokens, twin.hashes = list(request.tokens), list(request.hashes)
    twin.num_prompt_tokens = request.num_prompt_tokens
    return twin


def replay(config: PoolConfig, operations: Sequence[Operation]) -> World:
    """The world after these operations."""
    world = World(config)
    for operation in operations:
        world.apply(operation)
    return world
