"""The hybrid cache: requests run over all groups of a pool (clauses HIT-*, ADMIT-*, ADVANCE-*, RELEASE-*, BACK-*).

Each operation decides everything first, then changes the pool by the pool's own operations.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar

from kvproof.reference.hybrid.groups import drops, first_needed_slot, floor_to
from kvproof.reference.hybrid.joint_hit import Chain, Match
from kvproof.reference.hybrid.retention import keeps
from kvproof.reference.hybrid.running import Running
from kvproof.reference.hybrid.split import Grid, split
from kvproof.reference.observation import PoolState, RunningState
from kvproof.reference.pool import BlockPool
from kvproof.reference.positions import slot_end, slot_of
from kvproof.reference.request import Request
from kvproof.reference.validate import check_int, check_name, shown
from kvproof.spec.errors import (
    AlreadyAdmitted,
    ConcurrentUse,
    InvalidArgument,
    NoOpenStep,
    NotAdmitted,
    NotCommitted,
    OutOfBlocks,
    OutOfOrder,
)
from kvproof.spec.vocabulary import COPY_PREFIX, NULL_BLOCK, GroupKind, Holder, HybridConfig, Key

P = ParamSpec("P")
R = TypeVar("R")


def exclusive(
    method: Callable[Concatenate[HybridCache, P], R],
) -> Callable[Concatenate[HybridCache, P], R]:
    """Make a method an operation of the cache, entered by one thread at a time (ERR-OWNER-1)."""

    @functools.wraps(method)
    def guarded(self: HybridCache, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self._busy.acquire(blocking=False):
            raise ConcurrentUse(f"{method.__name__} was called while the cache is inside another operation")
        try:
            return method(self, *args, **kwargs)
        finally:
            self._busy.release()

    return guarded


@dataclass(frozen=True, slots=True)
class Use:
    """A block that a request goes on with: it has the key, or has it reserved for readers of the batch."""

    group: int
    slot: int
    block: int
    key: Key
    reserved: bool


class HybridCache:
    """Requests over the groups of one pool; `running` are those that were admitted."""

    def __init__(self, pool: BlockPool) -> None:
        if not isinstance(pool, BlockPool) or pool.config.hybrid is None:
            raise InvalidArgument("a hybrid cache needs a BlockPool whose configuration has hybrid settings")
        self.pool = pool
        self.hybrid: HybridConfig = pool.config.hybrid
        self.grid = Grid.of(pool.config)
        self.running: dict[Holder, Running] = {}
        self._moved: dict[int, list[int]] = {}
        self._busy = threading.Lock()

    @exclusive
    def match(self, request: Request) -> Match:
        """Where the request would begin now, and its junction (HIT-*)."""
        self.check_request(request)
        return Chain(self.pool, request).match()

    @exclusive
    def split(self, request: Request, start: int, tokens: int, cap: int, junction: int) -> int:
        """Where the request's chunk ends that begins at `start`; `start` itself means: not now (SPLIT-*)."""
        self.check_request(request)
        total = request.num_tokens
        check_int("start", start, 0, total - 1)
        check_int("tokens", tokens, 1, total - start)
        check_int("cap", cap, tokens)
        check_int("junction", junction, 0, total)
        return split(self.grid, total, request.num_prompt_tokens, start, tokens, cap, junction)

    @exclusive
    def admit(self, request: Request, end: int) -> Match:
        """Begin at the joint hit and schedule the chunk from there to `end` (ADMIT-*).

        Raises OutOfRange, OutOfBlocks, AlreadyAdmitted and NoOpenStep.
        """
        self.check_request(request)
        name = request.request_id
        if name in self.running:
            raise AlreadyAdmitted(f"{name!r} runs already; release it before it is admitted again")
        self._check_open_step()
        chain = Chain(self.pool, request)
        match = chain.match()
        check_int("end", end, match.hit + 1, request.num_tokens)
        shared, copied = self._uses(chain, match.hit)
        running = self._begun(request, match, shared)
        private = [(use.group, use.slot) for use in copied]
        slots = self._by_group(private, running.new_slots, end)
        self._check_room(len(slots), [use.block for use in (*shared, *copied)])

        for use in sorted((*shared, *copied), key=lambda use: (use.group, use.slot)):
            (self.pool.attach if use.reserved else self.pool.touch)(use.block, use.key, name)
        for (group, slot), block in zip(slots, self.pool.allocate(len(slots), name), strict=True):
            running.take(group, slot, block)
        for use in copied:
            self.pool.copy(use.block, running.tables[use.group][use.slot], name)
        self.pool.free([use.block for use in copied], name)
        self.running[name] = running
        self._compute(request, running, end)
        return match

    @exclusive
    def advance(self, request: Request, end: int) -> None:
        """Schedule the next chunk of a request that runs, up to `end` (ADVANCE-*).

        Raises OutOfRange, OutOfBlocks, NotAdmitted, OutOfOrder and NoOpenStep.
        """
        self.check_request(request)
        name = request.request_id
        running = self._running_as(request)
        self._check_open_step()
        check_int("end", end, running.computed + 1, request.num_tokens)
        if running.scheduled == self.pool.current_step:
            raise OutOfOrder(f"{name!r} has a chunk in step {running.scheduled}; begin the next step first")
        let_go = {group: running.not_needed(group) for group in range(len(running.tables))}
        moved, copied = self._kept_states(request, running, end)
        own = [(group, slot_of(running.computed, running.groups[group].block_size)) for group in copied]
        slots = self._by_group(own, running.new_slots, end)
        self._check_room(len(slots) + len(moved), (), self._freed(running, let_go))
        self._check_goes_on(request, running, end, moved, copied)

        self._let_go(name, running, let_go)
        for group in moved:
            [dst] = self.pool.allocate(1, f"{COPY_PREFIX}{group}:{name}")
            self.pool.move(running.state_block(group), dst)
            self._moved.setdefault(self.pool.current_step, []).append(dst)
        sources = [running.state_block(group) for group in copied]
        for (group, slot), block in zip(slots, self.pool.allocate(len(slots), name), strict=True):
            running.take(group, slot, block)
        for group, source in zip(copied, sources, strict=True):
            self.pool.copy(source, running.state_block(group), name)
        self.pool.free(sources, name)
        self._compute(request, running, end)

    @exclusive
    def release(self, request_id: Holder) -> list[Holder]:
        """Take back what the request has not committed, and drop all that it holds (RELEASE-*).

        Returns the requests that were rolled back, itself first. Raises NotAdmitted.
        """
        running = self._running(request_id)
        affected = self.pool.finish(request_id, running.blocks())
        del self.running[request_id]
        self._go_back(affected)
        return affected

    @exclusive
    def rollback(self, requests: Sequence[Holder]) -> list[Holder]:
        """Take back what the requests, and all who depend on them, have not committed (BACK-ROLLBACK-1)."""
        affected = self.pool.rollback(requests)
        self._go_back(affected)
        return affected

    @exclusive
    def commit(self, step: int) -> None:
        """Commit a step of the pool; the chunks of the step are settled."""
        self._commit(step)

    @exclusive
    def fail(self, step: int) -> list[Holder]:
        """The forward pass of the oldest open step failed: take it back, and close it (BACK-FAIL-*). Raises OutOfOrder.

        Returns the requests that were rolled back.
        """
        check_int("step", step, 1)
        if not self.pool.last_committed_step + 1 == step <= self.pool.current_step:
            raise OutOfOrder(f"step {shown(step)} cannot fail; the oldest open step comes first")
        affected = self.pool.rollback(sorted(name for name, each in self.running.items() if step in each.unsettled))
        self._go_back(affected)
        self.pool.evict(self._moved.get(step, []))
        self._commit(step)
        return affected

    @exclusive
    def truncate(self, request: Request, num_tokens: int) -> None:
        """Keep the request's first tokens; if it runs, it goes back there (BACK-TRUNCATE-1, BACK-CUT-*).

        Raises InvalidArgument, OutOfRange, NotCommitted, OutOfBlocks and NoOpenStep.
        """
        self._check_contract(request)
        check_int("num_tokens", num_tokens, 0, request.num_tokens)
        running = self._running_as(request) if request.request_id in self.running else None
        if running is not None and num_tokens < running.computed:
            if running.unsettled:
                raise NotCommitted(f"{request.request_id!r} has a chunk that is not committed; commit it or roll back")
            self._cut(request.request_id, running, num_tokens)
        request.truncate(num_tokens)

    @exclusive
    def observe(self) -> PoolState:
        """The pool's whole state and what runs, as a value (OBSERVE-1)."""
        return dataclasses.replace(self.pool.observe(), running=self.observe_running())

    def observe_running(self) -> tuple[RunningState, ...]:
        """What runs, by name."""
        committed = self.pool.last_committed_step
        return tuple([self.running[name].observe(name, committed) for name in sorted(self.running)])

    def tables(self, request_id: Holder) -> tuple[tuple[int, ...], ...]:
        """The tables of a request that runs, group by group. Raises NotAdmitted."""
        return tuple(map(tuple, self._running(request_id).tables))

    def clone(self, pool: BlockPool) -> HybridCache:
        """An independent copy over a copy of the pool."""
        twin = HybridCache(pool)
        twin.running = {name: running.clone() for name, running in self.running.items()}
        twin._moved = {step: list(blocks) for step, blocks in self._moved.items()}
        return twin

    # What an operation takes

    def _uses(self, chain: Chain, hit: int) -> tuple[list[Use], list[Use]]:
        """What a request shares, and what it copies from, groups and slots ascending (ADMIT-SHARE-1, ADMIT-COPY-1)."""
        shared, copied = [], []
        for group, config in enumerate(self.pool.config.groups if hit else ()):
            for slot in range(first_needed_slot(config, hit), hit // config.block_size):
                shared.append(self._use(chain, group, slot_end(slot, config.block_size)))
            if hit % config.block_size:
                copied.append(self._use(chain, group, chain.source_position(group, hit)))
        return shared, copied

    def _use(self, chain: Chain, group: int, position: int) -> Use:
        known = chain.hit(group, position)
        block = known.block if known.block is not None else known.reserved
        assert block is not None, "the joint hit was found with it"
        slot = slot_of(position, self.pool.config.groups[group].block_size)
        return Use(group, slot, block, chain.key(group, position), known.block is None)

    def _begun(self, request: Request, match: Match, shared: Iterable[Use]) -> Running:
        """A request at its joint hit, with what it shares, before it has anything of its own."""
        groups = self.pool.config.groups
        tables = [[NULL_BLOCK] * (match.hit // group.block_size) for group in groups]
        running = Running(request, groups, match.junction, match.hit, tables)
        for use in shared:
            running.take(use.group, use.slot, use.block)
        return running

    def _by_group(
        self, own: Iterable[tuple[int, int]], new_slots: Callable[[int, int], list[int]], end: int
    ) -> list[tuple[int, int]]:
        """(group, slot) of all blocks to allocate, groups ascending, slots ascending (ADMIT-ORDER-1)."""
        slots = set(own)
        for group in range(len(self.pool.config.groups)):
            slots |= {(group, slot) for slot in new_slots(group, end)}
        return sorted(slots)

    def _kept_states(self, request: Request, running: Running, end: int) -> tuple[list[int], list[int]]:
        """The recurrent groups whose state has to move, and to be copied, before it is overwritten (ADVANCE-MOVE-1)."""
        moved, copied = [], []
        for group in range(len(running.groups)):
            if running.overwrites(group, end):
                block = running.state_block(group)
                if self.pool.is_read(block):
                    copied.append(group)
                elif self.pool.covered(block):
                    moved.append(group)
        return moved, copied

    def _freed(self, running: Running, slots: dict[int, list[int]]) -> int:
        """How many blocks are free when the request has let these slots go."""
        blocks = [running.tables[group][slot] for group, chosen in slots.items() for slot in chosen]
        return sum(self.pool.ref_cnt(block) == 1 for block in blocks)

    def _check_room(self, needed: int, hit_blocks: Iterable[int], freed: int = 0) -> None:
        """There are enough free blocks besides the free ones that were hit (ADMIT-ATOMIC-1, ADVANCE-ATOMIC-1)."""
        free = self.pool.num_free + freed - sum(self.pool.ref_cnt(block) == 0 for block in set(hit_blocks))
        if needed > free:
            raise OutOfBlocks(f"the chunk takes {needed} blocks, and {free} are free besides those that were hit")

    # What an operation changes

    def _let_go(self, name: Holder, running: Running, slots: dict[int, list[int]]) -> None:
        for group, chosen in slots.items():
            self.pool.free([running.tables[group][slot] for slot in chosen], name)
            for slot in chosen:
                running.tables[group][slot] = NULL_BLOCK

    def _compute(self, request: Request, running: Running, end: int) -> None:
        """The chunk's forward pass writes, and its keys are reserved (ADVANCE-WRITE-1, ADVANCE-REGISTER-1)."""
        for group, config in enumerate(running.groups):
            if config.kind is GroupKind.RECURRENT:
                self._compute_state(request, running, group, end)
            else:
                self._compute_rows(request, running, group, end)
        running.computed = end
        running.scheduled = self.pool.current_step
        running.unsettled[running.scheduled] = end

    def _compute_rows(self, request: Request, running: Running, group: int, end: int) -> None:
        table, size = running.tables[group], running.groups[group].block_size
        first, full = running.computed // size, end // size
        for slot in range(first, len(table)):
            self.pool.write(request, table[slot], min(end, slot_end(slot, size)), group)
        if full > first:
            self.pool.cache_full_blocks(request, table, first, full, group)
        tail = self._prompt_tail(request, group)
        if max(running.computed, floor_to(end, size)) < tail <= end:
            self.pool.cache_partial_block(request, table[slot_of(tail, size)], tail, group)

    def _prompt_tail(self, request: Request, group: int) -> int:
        """Where the key of the prompt's tail is, 0 if hits are not fine-grained (ADVANCE-TAIL-1)."""
        prompt = request.num_prompt_tokens if drops(self.pool.config, group) else request.num_prompt_tokens - 1
        return floor_to(max(0, prompt), self.pool.config.hash_block_size) if self.hybrid.fine_grained else 0

    def _compute_state(self, request: Request, running: Running, group: int, end: int) -> None:
        size = running.groups[group].block_size
        block = running.tables[group][slot_of(end, size)]
        self.pool.write(request, block, end, group)
        assert self.grid is not None, "there is a recurrent group"
        tokens, prompt = request.num_tokens, request.num_prompt_tokens
        if keeps(self.hybrid, self.grid, size, end, tokens, prompt, running.junction):
            self.pool.cache_partial_block(request, block, end, group)

    def _commit(self, step: int) -> None:
        self.pool.commit(step)
        self._moved.pop(step, None)
        for running in self.running.values():
            running.settled = running.unsettled.pop(step, running.settled)

    def _go_back(self, affected: Iterable[Holder]) -> None:
        """Requests whose chunks were taken back are where they are settled, or run no more (BACK-ROLLBACK-1)."""
        for name in affected:
            running = self.running.get(name)
            if running is None or not running.unsettled:
                continue
            if running.can_go_back_to(running.settled):
                self._let_go(name, running, running.beyond(running.settled))
                running.go_back_to(running.settled)
            else:
                self.pool.free(running.blocks(), name)
                del self.running[name]

    def _cut(self, name: Holder, running: Running, n: int) -> None:
        """A settled request that runs has n tokens only (BACK-TRUNCATE-1, BACK-CUT-1 to BACK-CUT-3)."""
        if not running.can_go_back_to(n):
            self.pool.finish(name, running.blocks())
            del self.running[name]
            return
        groups = [g for g in range(len(running.groups)) if self._is_cut(running, g, n)]
        beyond = running.beyond(n)
        if groups:
            self._check_open_step()
            self._check_room(len(groups), (), self._freed(running, beyond))

        self._let_go(name, running, beyond)
        running.go_back_to(n)
        if not groups:
            return
        slots = [n // running.groups[group].block_size for group in groups]
        sources = [running.tables[group][slot] for group, slot in zip(groups, slots, strict=True)]
        for group, slot, src, dst in zip(groups, slots, sources, self.pool.allocate(len(groups), name), strict=True):
            self.pool.copy(src, dst, name)
            running.tables[group][slot] = dst
        self.pool.free(sources, name)
        begins = min(floor_to(n, running.groups[group].block_size) for group in groups)
        running.settled = self._last_certain(running, begins)
        running.unsettled[self.pool.current_step] = n

    def _last_certain(self, running: Running, n: int) -> int:
        """Where up to n the request can go on without a copy, as far as it can, 0 if nowhere (BACK-CUT-2)."""
        # Where nobody relies on what follows inside a slot, nobody does so further on there either.
        for end in running.ends_of_slots(n):
            is_cut = any(self._is_cut(running, group, end) for group in range(len(running.groups)))
            if running.can_go_back_to(end) and not is_cut:
                return end
        return 0

    def _is_cut(self, running: Running, group: int, n: int) -> bool:
        """Whether the slot with n inside has to become a private copy (BACK-CUT-1)."""
        size = running.groups[group].block_size
        if n % size == 0:
            return False
        # A block that the request shares it reads itself up to the end of the slot.
        return self.pool.covered(running.tables[group][n // size]) > n

    # Checks

    def _check_goes_on(
        self, request: Request, running: Running, end: int, moved: Iterable[int], copied: Iterable[int]
    ) -> None:
        """The chunk may write to the blocks that it goes on in; those that it gets are its own (ADVANCE-WRITE-1)."""
        for group in {*range(len(running.groups))} - {*moved, *copied}:
            size, start = running.groups[group].block_size, running.computed
            stays = running.groups[group].kind is not GroupKind.RECURRENT or running.overwrites(group, end)
            if start % size and stays:
                last = min(end, slot_end(start // size, size))
                self.pool.check_write(request, running.tables[group][start // size], last, group)

    def _running_as(self, request: Request) -> Running:
        """The request runs, and is the one that was admitted (ADVANCE-RANGE-1)."""
        running = self._running(request.request_id)
        if running.request is not request:
            raise InvalidArgument(f"another request {request.request_id!r} runs; go on with the one that was admitted")
        return running

    def _running(self, request_id: object) -> Running:
        running = self.running.get(check_name("request_id", request_id))
        if running is None:
            raise NotAdmitted(f"{shown(request_id)} does not run; running are {', '.join(self.running) or 'none'}")
        return running

    def _check_open_step(self) -> None:
        if self.pool.current_step == self.pool.last_committed_step:
            raise NoOpenStep("a chunk belongs to a step; call begin_step first")

    def check_request(self, request: object) -> None:
        """Raise InvalidArgument for what cannot run: no request, one of another contract, one named like a copy."""
        name = self._check_contract(request).request_id
        if name.startswith(COPY_PREFIX):
            raise InvalidArgument(f"request {name!r} has the name of a copy")

    def _check_contract(self, request: object) -> Request:
        if not isinstance(request, Request):
            raise InvalidArgument(f"request must be a Request, not {shown(request)}")
        if request.hasher != self.pool.hasher:
            raise InvalidArgument(f"request {request.request_id!r} is hashed by another contract, size or seed")
        return request
