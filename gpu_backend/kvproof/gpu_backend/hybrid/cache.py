"""Requests over all groups of a model: admit, advance, release, take back, truncate (ADMIT-*, ADVANCE-*, BACK-*)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Concatenate, NoReturn, ParamSpec, TypeVar, TypeVarTuple

from kvproof.gpu_backend import _core
from kvproof.gpu_backend.checks import check_int, check_name
from kvproof.gpu_backend.hybrid.geometry import Geometry, floor, slots_of
from kvproof.gpu_backend.hybrid.hits import Match, look_up, match
from kvproof.gpu_backend.hybrid.plans import (
    Admission,
    Chunk,
    Shared,
    check_held,
    check_room,
    plan_admission,
    plan_chunk,
)
from kvproof.gpu_backend.hybrid.running import Running
from kvproof.gpu_backend.hybrid.stops import Stops
from kvproof.gpu_backend.pool import BlockPool
from kvproof.gpu_backend.refusals import shown
from kvproof.gpu_backend.request import Request
from kvproof.spec.errors import (
    AlreadyAdmitted,
    AlreadyHeld,
    InvalidArgument,
    NoOpenStep,
    NotAdmitted,
    NotCommitted,
    OutOfOrder,
    PoolError,
)
from kvproof.spec.vocabulary import COPY_PREFIX, NULL_BLOCK, Holder

Arguments = TypeVarTuple("Arguments")
Answer = TypeVar("Answer")
P = ParamSpec("P")
Cache = TypeVar("Cache", bound="HybridCache")


class TornCache(PoolError):
    """An operation ended in its middle: without memory, interrupted, or since the pool's operations were used on blocks
    of a request that runs (GROUP-OWN-1). What ended it is the cause. Make a new pool, and a new cache."""


def _alone(method: Callable[Concatenate[Cache, P], Answer]) -> Callable[Concatenate[Cache, P], Answer]:
    """Make a method one operation of a cache, during which nobody else enters the pool.

    One that ends in its middle, once it has changed something, has torn the cache.
    """

    @functools.wraps(method)
    def run_alone(self: Cache, /, *args: P.args, **kwargs: P.kwargs) -> Answer:
        with self.pool._hold(method.__name__):
            if self._torn_by:
                raise self._torn() from self._torn_with
            try:
                answer = method(self, *args, **kwargs)
                self._torn_by = ""
            except BaseException as error:
                self._torn_with = error if self._torn_by else None
                raise
            return answer

    return run_alone


class HybridCache:
    """Runs requests over all groups of a pool that has hybrid settings. A pool has one cache, for as long as it lives.

    Every operation happens as a whole or not at all; whoever else enters the cache or its pool meanwhile, in another
    thread or in this one, gets ConcurrentUse (ERR-ATOMIC-1, ERR-OWNER-1). What is not refused can end in its middle all
    the same: by MemoryError or KeyboardInterrupt, and where the caller has used the pool's operations on blocks of a
    request that runs (GROUP-OWN-1), in a way that shows only then. Then every later call raises TornCache, so that
    nobody reads what is half done. Steps are begun on the pool and committed here. `running` has the requests that run;
    read it, and change it by the operations only. It is no part of a pool's saved state.
    """

    def __init__(self, pool: BlockPool) -> None:
        if not isinstance(pool, BlockPool) or not pool._is_made:
            raise InvalidArgument(f"pool must be one that BlockPool(config) or restore has made, not {shown(pool)}")
        if pool._has_cache:
            raise InvalidArgument("the pool has a cache already, which knows what runs; use it, or make another pool")
        self.pool = pool
        self.running: dict[Holder, Running] = {}
        self._geometry = Geometry(pool.config)
        self._stops = Stops(self._geometry)
        self._torn_by = ""
        self._torn_with: BaseException | None = None
        self._moved_to: dict[int, list[int]] = {}
        """Open step -> the blocks to which its chunks moved keys of states."""
        pool._has_cache = True

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """A copy would know nothing of what becomes of the pool."""
        raise TypeError("a HybridCache cannot be copied or pickled; a pool has one cache")

    # Questions

    @_alone
    def match(self, request: Request) -> Match:
        """Where the request would begin now; it changes nothing (HIT-PURE-1)."""
        self._check_request(request)
        return match(self._geometry, look_up(self._hand, self._geometry, request))

    @_alone
    def split(self, request: Request, start: int, tokens: int, cap: int, junction: int) -> int:
        """Where the chunk ends that begins at `start`, at `start` itself if it has to wait (SPLIT-*).

        `tokens` could be scheduled now, and at most `cap` at this start ever. Raises OutOfRange (SPLIT-RANGE-1).
        """
        self._check_request(request)
        total = request.num_tokens
        check_int("start", start, 0, total - 1)
        check_int("tokens", tokens, 1, total - start)
        check_int("cap", cap, tokens, None)
        check_int("junction", junction, 0, total)
        return self._stops.split(start, tokens, cap, junction, total, request.num_prompt_tokens)

    # A request from its beginning to its end

    @_alone
    def admit(self, request: Request, end: int) -> Match:
        """Begin the request at its joint hit, with a first chunk up to `end` (ADMIT-*).

        Raises AlreadyAdmitted, NoOpenStep, OutOfRange and OutOfBlocks, and AlreadyHeld where the pool has given blocks
        to the request's name otherwise (GROUP-OWN-1).
        """
        self._check_request(request)
        name = request.request_id
        if name in self.running:
            raise AlreadyAdmitted(f"{name!r} runs; release it before it is admitted again")
        self._check_open_step()
        plan = plan_admission(self._hand, self._geometry, request)
        check_int("end", end, plan.match.hit + 1, request.num_tokens)
        groups = range(len(self._geometry.groups))
        new = sum(len(self._geometry.new_slots(group, plan.match.hit, end)) for group in groups)
        check_room(self._hand, name, len(plan.copied) + new, coming=plan.sources())
        if held := self._hand.num_held(name):
            raise AlreadyHeld(f"{name!r} holds {held:,} blocks that the cache has not given to it; free them first")
        self._change_with("admit")
        self.running[name] = running = self._begin(plan, request, end)
        self._do_chunk(running, plan.match.hit, end)
        return plan.match

    @_alone
    def advance(self, request: Request, end: int) -> None:
        """Schedule the request's next chunk, up to `end` (ADVANCE-*).

        Raises NotAdmitted, NoOpenStep, OutOfOrder, OutOfRange and OutOfBlocks, and NotReferenced where the pool has
        taken a block from it that it is about to let go of (GROUP-OWN-1).
        """
        running, geometry = self._running(request), self._geometry
        self._check_open_step()
        start = running.computed
        check_int("end", end, start + 1, request.num_tokens)
        if running.last_step == self.pool.current_step:
            raise OutOfOrder(f"{request.request_id!r} has a chunk in this step already; begin the next step")
        plan = plan_chunk(self._hand, geometry, running, end)
        new = [geometry.new_slots(group, start, end) for group in range(len(geometry.groups))]
        going = [table[slot] for table, slots in zip(running.tables, plan.let_go, strict=True) for slot in slots]
        wanted = len(plan.moved) + len(plan.copied) + sum(map(len, new))
        check_room(self._hand, request.request_id, wanted, going=going)
        self._check_writes(running, end, (*plan.moved, *plan.copied))
        self._change_with("advance")
        self._make_way(running, plan)
        self._give_blocks(running, new, plan.copied)
        self._do_chunk(running, start, end)

    @_alone
    def release(self, request_id: Holder) -> list[Holder]:
        """End a request; all requests that were rolled back, itself among them (RELEASE-*).

        Raises NotAdmitted, and like `BlockPool.finish` where the pool has taken a block from it (GROUP-OWN-1).
        """
        running = self._running_by_name(request_id)
        return self._release("release", running)

    # Steps

    @_alone
    def commit(self, step: int) -> None:
        """Commit a step, and settle what was scheduled in it. Raises like `BlockPool.commit`."""
        self._begin_with("commit", self._hand.commit, step)
        self._settle(step)

    @_alone
    def rollback(self, requests: Sequence[Holder]) -> list[Holder]:
        """Take back what the requests have not committed; all requests that this concerns (BACK-ROLLBACK-1).

        Raises like `BlockPool.rollback`.
        """
        affected = self._begin_with("rollback", self._hand.rollback, requests)
        self._take_back(affected)
        return affected

    @_alone
    def fail(self, step: int) -> list[Holder]:
        """The forward pass of the oldest open step failed: take the step back, and close it (BACK-FAIL-*).

        All requests that were rolled back; those that run no more have to be admitted again. No key is left of what
        the step was to compute, or to copy. Raises OutOfOrder.
        """
        check_int("step", step, 1, None)
        if step != self.pool.last_committed_step + 1 or step > self.pool.current_step:
            raise OutOfOrder(f"step {shown(step)} is not the oldest open one, which fails or is committed first")
        failed = sorted(name for name, each in self.running.items() if step in each.in_flight)
        affected = self._begin_with("fail", self._hand.rollback, failed)
        self._take_back(affected)
        self._hand.evict(self._moved_to.get(step, []))
        self._hand.commit(step)
        self._settle(step)
        return affected

    @_alone
    def truncate(self, request: Request, num_tokens: int) -> None:
        """Keep the first tokens of a request, whether it runs or not (BACK-TRUNCATE-1, BACK-CUT-*).

        Raises OutOfRange, NotCommitted, NoOpenStep and OutOfBlocks, and NotReferenced where the pool has taken a block
        from it (GROUP-OWN-1).
        """
        self._check_contract(request)
        n = check_int("num_tokens", num_tokens, 0, request.num_tokens)
        running = self._running(request) if request.request_id in self.running else None
        if running is None or n >= running.computed:
            request.truncate(n)
            return
        if not running.is_settled:
            raise NotCommitted(
                f"{request.request_id!r} has chunks that are not settled; commit their steps, or roll it back"
            )
        goes_on = n > 0 and self._geometry.can_go_back and running.can_go_on_from(n, self._geometry)
        cut = self._plan_cut(running, n) if goes_on else []
        if goes_on:
            self._change_with("truncate")
            self._cut(running, n, cut)
        else:
            self._release("truncate", running)
        request.truncate(n)

    # Checks

    @property
    def _hand(self) -> _core.Hand:
        """What the operation that is going on calls the pool by."""
        return self.pool._hand

    def _change_with(self, operation: str) -> None:
        """From here on the operation changes something; everything that it refuses was refused before."""
        self._torn_by = operation

    def _begin_with(self, operation: str, call: Callable[[*Arguments], Answer], *arguments: *Arguments) -> Answer:
        """Begin the change with a call that the pool may refuse, which changes nothing; without memory for its answer
        it has changed something."""
        self._change_with(operation)
        try:
            return call(*arguments)
        except PoolError:
            self._torn_by = ""
            raise

    def _torn(self) -> TornCache:
        error = self._torn_with
        by = f" by {type(error).__name__}: {error}" if error is not None else ""
        return TornCache(f"{self._torn_by} ended in its middle; make a new pool, and a new cache. It was ended{by}")

    def _check_contract(self, request: Request) -> None:
        if not isinstance(request, Request) or request.hasher != self.pool.hasher:
            raise InvalidArgument(f"request must be a Request that is hashed by the pool's contract: {shown(request)}")

    def _check_request(self, request: Request) -> None:
        self._check_contract(request)
        if request.request_id.startswith(COPY_PREFIX):
            raise InvalidArgument(f"{request.request_id!r} is the name of a copy, not of a request")

    def _check_open_step(self) -> None:
        if self.pool.current_step == self.pool.last_committed_step:
            raise NoOpenStep("requests are scheduled in a step, and none is open; begin one")

    def _check_writes(self, running: Running, end: int, replaced: Sequence[int]) -> None:
        """The chunk may write on in the blocks that it begins in, but for groups that get others (ADVANCE-WRITE-1)."""
        geometry, start = self._geometry, running.computed
        for group, table in enumerate(running.tables):
            size = geometry.groups[group].block_size
            leaves = group in replaced or (geometry.is_recurrent(group) and geometry.new_slots(group, start, end))
            if start % size and not leaves:
                slot = start // size
                self._hand.write(running.request, table[slot], min(end, (slot + 1) * size), group)

    def _running(self, request: Request) -> Running:
        self._check_request(request)
        running = self._running_by_name(request.request_id)
        if running.request is not request:
            raise InvalidArgument(f"another request {request.request_id!r} runs; go on with the one that was admitted")
        return running

    def _running_by_name(self, request_id: Holder) -> Running:
        running = self.running.get(check_name("request_id", request_id))
        if running is None:
            raise NotAdmitted(f"{request_id!r} does not run; admit it first")
        return running

    # Blocks; everything was checked before

    def _begin(self, plan: Admission, request: Request, end: int) -> Running:
        """Take what is shared, then blocks, then copies; what was only copied from is dropped last (ADMIT-ORDER-1)."""
        pool, geometry, name, hit = self._hand, self._geometry, request.request_id, plan.match.hit
        tables = [[NULL_BLOCK] * slots_of(hit, group.block_size) for group in geometry.groups]
        for shared in plan.shared:
            self._share(shared, name)
            tables[shared.group][shared.first_slot : shared.first_slot + len(shared.blocks)] = shared.blocks
        sources = [copied.block for copied in plan.copied]
        pool.touch_all(sources, [copied.key for copied in plan.copied], name)
        running = Running(request, tables, plan.match.junction, hit)
        new = [geometry.new_slots(group, hit, end) for group in range(len(geometry.groups))]
        self._give_blocks(running, new, [copied.group for copied in plan.copied])
        for copied in plan.copied:
            pool.copy(copied.block, tables[copied.group][hit // geometry.groups[copied.group].block_size], name)
        pool.free(sources, name)
        return running

    def _share(self, shared: Shared, name: Holder) -> None:
        """Touch what is served, attach what is reserved."""
        if not any(shared.is_reserved):
            self._hand.touch_all(shared.blocks, shared.keys, name)
            return
        for block, key, is_reserved in zip(shared.blocks, shared.keys, shared.is_reserved, strict=True):
            if is_reserved:
                self._hand.attach(block, key, name)
            else:
                self._hand.touch(block, key, name)

    def _make_way(self, running: Running, plan: Chunk) -> None:
        """Let go of what is not needed, and bring keys of states to safety (ADVANCE-LETGO-1, ADVANCE-MOVE-1)."""
        name = running.request.request_id
        for table, slots in zip(running.tables, plan.let_go, strict=True):
            self._hand.free([table[slot] for slot in slots], name)
            for slot in slots:
                table[slot] = NULL_BLOCK
        running.kept_from = plan.kept_from
        for group in plan.moved:
            [kept] = self._hand.allocate(1, f"{COPY_PREFIX}{group}:{name}")
            self._hand.move(running.tables[group][-1], kept)
            self._moved_to.setdefault(self.pool.current_step, []).append(kept)

    def _give_blocks(self, running: Running, new: Sequence[range], replaced: Sequence[int]) -> None:
        """Blocks for new slots, and for the last slot of some groups, groups and slots ascending."""
        name = running.request.request_id
        blocks = iter(self._hand.allocate(len(replaced) + sum(map(len, new)), name))
        for group, table in enumerate(running.tables):
            if group in replaced:
                self._replace(running, group, len(table) - 1, next(blocks))
            if slots := new[group]:
                table += [NULL_BLOCK] * (slots.start - len(table))
                table += [next(blocks) for _ in slots]

    def _replace(self, running: Running, group: int, slot: int, block: int) -> None:
        """Go on in a private copy; the old block keeps its keys and its other readers (ADVANCE-COPY-1, BACK-CUT-1)."""
        table, name = running.tables[group], running.request.request_id
        if table[slot] != NULL_BLOCK:
            self._hand.copy(table[slot], block, name)
            self._hand.free([table[slot]], name)
        table[slot] = block

    def _do_chunk(self, running: Running, start: int, end: int) -> None:
        """Note the chunk, let its forward pass write, register what it leaves (ADVANCE-WRITE-1, ADVANCE-REGISTER-1)."""
        running.add_chunk(self.pool.current_step, end, self._geometry)
        for write in running.writes:
            self._hand.write(running.request, write.block, write.end, write.group)
        for group in range(len(self._geometry.groups)):
            if self._geometry.is_recurrent(group):
                self._register_state(running, group)
            else:
                self._register_rows(running, group, start)

    def _register_state(self, running: Running, group: int) -> None:
        """ADVANCE-KEEP-1."""
        request, end = running.request, running.computed
        if self._stops.keeps(group, end, running.junction, request.num_tokens, request.num_prompt_tokens):
            self._hand.cache_partial_block(request, running.tables[group][-1], end, group)

    def _register_rows(self, running: Running, group: int, start: int) -> None:
        """ADVANCE-FULL-1, ADVANCE-TAIL-1."""
        request, table, end = running.request, running.tables[group], running.computed
        size, hybrid = self._geometry.groups[group].block_size, self._geometry.hybrid
        if start // size < end // size:
            self._hand.cache_slots(request, table[start // size : end // size], start // size, group)
        shortened = 0 if group in hybrid.drop else 1
        tail = floor(max(0, request.num_prompt_tokens - shortened), self._geometry.hash_block_size)
        if hybrid.fine_grained and max(start, floor(end, size)) < tail <= end:
            self._hand.cache_partial_block(request, table[-1], tail, group)

    def _settle(self, step: int) -> None:
        """The step is committed."""
        self._moved_to.pop(step, None)
        for running in self.running.values():
            running.settle(step)

    # Ends, and ways back

    def _release(self, operation: str, running: Running) -> list[Holder]:
        """RELEASE-1."""
        name = running.request.request_id
        affected = self._begin_with(operation, self._hand.finish, name, running.blocks())
        del self.running[name]
        self._take_back(affected)
        return affected

    def _take_back(self, names: Sequence[Holder]) -> None:
        """The requests were rolled back; those that run and have lost something go back, or are released."""
        for name in names:
            running = self.running.get(name)
            if running is None or running.is_settled:
                continue
            if running.settled > 0 and self._geometry.can_go_back:
                self._go_back(running, running.settled)
            else:
                self._hand.free(running.blocks(), name)
                del self.running[name]

    def _go_back(self, running: Running, n: int) -> None:
        """BACK-SLOTS-1; each group's blocks are freed by a call of their own."""
        for blocks in running.go_back(n, self._geometry):
            self._hand.free(blocks, running.request.request_id)

    def _plan_cut(self, running: Running, n: int) -> list[int]:
        """The groups whose last slot becomes a private copy when the request goes back to n (BACK-CUT-1).

        Raises NoOpenStep, OutOfBlocks and NotReferenced.
        """
        groups, name = self._geometry.groups, running.request.request_id
        kept = [slots_of(n, group.block_size) for group in groups]
        going = [block for table, first in zip(running.tables, kept, strict=True) for block in table[first:] if block]
        cut = [group for group in range(len(groups)) if self._is_relied_on(running, group, n)]
        check_held(self._hand, name, [*going, *[running.tables[group][kept[group] - 1] for group in cut]])
        if cut:
            self._check_open_step()
            check_room(self._hand, name, len(cut), going=going)
        return cut

    def _cut(self, running: Running, n: int, cut: Sequence[int]) -> None:
        """Go back to n tokens, which is inside what is computed (BACK-SLOTS-1, BACK-CUT-*)."""
        geometry = self._geometry
        self._go_back(running, n)
        running.settled = n
        if not cut:
            return
        self._give_blocks(running, [range(0)] * len(geometry.groups), cut)
        running.in_flight[self.pool.current_step] = n
        running.settled = self._safe_place(running, min(floor(n, geometry.groups[group].block_size) for group in cut))

    def _safe_place(self, running: Running, n: int) -> int:
        """The last place up to n where the request can go on with its blocks as they are, 0 if none (BACK-CUT-2).

        Where others rely on a slot past a place inside it, they do so past every earlier one; so its start is next.
        """
        sizes = [group.block_size for group in self._geometry.groups]
        while starts := [floor(n, size) for group, size in enumerate(sizes) if self._is_relied_on(running, group, n)]:
            n = min(starts)
        return n if running.can_go_on_from(n, self._geometry) else 0

    def _is_relied_on(self, running: Running, group: int, n: int) -> bool:
        """Whether writing on from n would change rows that are not the request's alone, if it has them (BACK-CUT-1)."""
        size = self._geometry.groups[group].block_size
        if n % size == 0:
            return False
        [cut] = self._hand.uses([running.tables[group][n // size]], running.request.request_id)
        return not cut.is_writer or cut.named_to > n or cut.read_to > n
