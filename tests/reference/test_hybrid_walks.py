"""Random walks over a hybrid cache: whatever happens, every table holds what its request would have computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

import pytest

from kvproof.reference import BlockPool, EventMirror, Ghost, Request, check_invariants
from kvproof.reference.hybrid import HybridCache, Running
from kvproof.reference.hybrid.groups import first_needed_slot
from kvproof.spec.errors import ContentConflict, NotOwner, PoolError
from kvproof.spec.vocabulary import NULL_BLOCK, GroupKind
from tests.hybrid_scopes import config_of_cuts, random_config, random_prompt
from tests.hybrid_tables import stuck, wrong_slots

WALKS, STEPS = 100, 200

MOST_OPEN_STEPS = 3


Operation = Callable[["Walk", Request], None]


class Walk:
    """One pool, a few requests that share prefixes, and somebody outside who reads and holds blocks.

    With `cuts` requests of attention groups of different block sizes are truncated and taken back often.
    """

    def __init__(self, seed: int, met: Counter[str], cuts: bool = False) -> None:
        self.random, self.met, self.cuts = Random(seed), met, cuts
        config = config_of_cuts(self.random) if cuts else random_config(self.random, self.random.randint(6, 30))
        self.pool = BlockPool(config, Ghost())
        self.cache = HybridCache(self.pool)
        self.mirror = EventMirror(config, self.pool.hasher)
        shared = [self.random.randint(0, 1) for _ in range(16)]
        self.requests = {
            name: Request(name, random_prompt(self.random, shared, 16), self.pool.hasher)
            for name in [f"r{number}" for number in range(self.random.randint(3, 6))]
        }
        self.outside = Request("outside", [9], self.pool.hasher)
        self.held: list[int] = []

    def go(self, steps: int) -> None:
        """Walk, and give everything back at the end."""
        for _ in range(steps):
            self.step()
        while self.cache.running:
            self.cache.release(next(iter(self.cache.running)))
        self.pool.free(self.held, "outside")
        while self.pool.last_committed_step < self.pool.current_step:
            self.cache.commit(self.pool.last_committed_step + 1)
        assert self.pool.num_free == self.pool.config.num_blocks - 1
        self.check()

    def step(self) -> None:
        """One operation; a refusal must change nothing."""
        chosen = self.OPERATIONS
        if self.cuts:
            chosen += ((Walk.truncate, 4), (Walk.rollback, 3), (Walk.commit, 3), (Walk.advance, 4))
        operations, weights = zip(*chosen, strict=True)
        [operation] = self.random.choices(operations, weights)
        request = self.pick(operation)
        if request is None:
            return
        before, refusal = self.snapshot(), None
        try:
            operation(self, request)
        except PoolError as error:
            refusal = error
            self.met[f"refused: {type(error).__name__}"] += 1
        assert refusal is None or self.snapshot() == before, f"{refusal!r} changed something"
        assert not isinstance(refusal, ContentConflict | NotOwner), f"{request.request_id} cannot write on"
        self.check()

    def pick(self, operation: Operation) -> Request | None:
        """Mostly a request that may do this now, if there is one; now and then any."""
        if self.random.random() < 0.05:
            return self.random.choice(list(self.requests.values()))
        able = [request for request in self.requests.values() if self.may(operation, request)]
        if operation in (Walk.release, Walk.rollback) and self.random.random() < 0.5:
            needed = {writer for _, writer, _ in self.pool.observe().steps.depends}
            able = [request for request in able if request.request_id in needed] or able
        return self.random.choice(able) if able else None

    def may(self, operation: Operation, request: Request) -> bool:
        running = self.cache.running.get(request.request_id)
        open_steps = self.pool.current_step - self.pool.last_committed_step
        if operation is Walk.begin:
            return open_steps < MOST_OPEN_STEPS
        if operation in (Walk.commit, Walk.fail):
            return open_steps > 0
        if operation is Walk.admit:
            return open_steps > 0 and running is None
        if operation is Walk.advance:
            if running is None or running.scheduled == self.pool.current_step:
                return False
            return open_steps > 0 and running.computed < request.num_tokens
        if operation is Walk.truncate and self.cuts:
            return running is not None and not running.unsettled and open_steps > 0
        return running is not None or operation in (Walk.read, Walk.let_go)

    def check(self) -> None:
        self.mirror.fold(self.pool.take_events())
        check_invariants(self.pool, [*self.requests.values(), self.outside], self.mirror)
        assert wrong_slots(self.cache, self.requests) == []
        assert not self.cuts or stuck(self.cache) == []

    def snapshot(self) -> object:
        running = self.cache.clone(self.pool).running
        texts = [(list(request.tokens), request.num_prompt_tokens) for request in self.requests.values()]
        assert self.pool.ghost is not None
        return self.pool.observe(), self.pool.ghost.contents, running, texts

    # Operations

    def begin(self, request: Request) -> None:
        self.pool.begin_step()

    def commit(self, request: Request) -> None:
        self.cache.commit(self.pool.last_committed_step + 1)

    def fail(self, request: Request) -> None:
        if self.random.random() < 0.6:
            return
        step = self.pool.last_committed_step + 1
        steps_after = self.pool.current_step - step
        moved = [block for block in range(self.pool.config.num_blocks) if self.keyed_copy(block)]
        self.cache.fail(step)
        self.met["failed step"] += 1
        self.met["failed step with others in flight"] += steps_after > 0
        self.met["moved key that failed"] += any(not self.keyed_copy(block) for block in moved)

    def admit(self, request: Request) -> None:
        match = self.cache.match(request)
        end = self.end_of_chunk(request, match.hit, match.junction)
        if end == match.hit:
            return
        copies = self.copies()
        assert self.cache.admit(request, end) == match
        self.met["hit"] += match.hit > 0
        self.met["hit inside a block"] += any(match.hit % group.block_size for group in self.pool.config.groups)
        self.met["copy of a partial hit"] += self.copies() > copies
        self.met["junction"] += match.junction > 0
        self.met["shared within the batch"] += bool(self.pool.observe().steps.depends)

    def advance(self, request: Request) -> None:
        running = self.cache.running.get(request.request_id)
        if running is None or running.computed == request.num_tokens:
            return
        end = self.end_of_chunk(request, running.computed, min(running.junction, request.num_tokens))
        if end == running.computed:
            return
        copies = self.copies()
        self.cache.advance(request, end)
        new = self.pool.observe().steps.copies[copies:]
        self.met["move"] += sum(not holder.startswith("copy:pool:") for _, _, _, holder in new)
        self.met["state left to its reader"] += sum(holder.startswith("copy:pool:") for _, _, _, holder in new)
        self.met["block let go"] += any(NULL_BLOCK in table for table in running.tables)

    def end_of_chunk(self, request: Request, start: int, junction: int) -> int:
        """Where the split says, or anywhere, also where no chunk may end."""
        if self.random.random() < 0.03:
            return request.num_tokens + 1
        tokens = self.random.randint(1, max(1, request.num_tokens - start))
        if self.random.random() < 0.3:
            return start + tokens
        return self.cache.split(request, start, tokens, tokens, junction)

    def release(self, request: Request) -> None:
        if self.random.random() < 0.7:
            self.met["taken back with others"] += len(self.cache.release(request.request_id)) > 1

    def rollback(self, request: Request) -> None:
        if self.random.random() < 0.4:
            before = dict(self.cache.running)
            affected = self.cache.rollback([request.request_id])
            gone = [name for name in affected if name in before and name not in self.cache.running]
            self.met["taken back with others"] += any(name != request.request_id for name in gone)
            self.met["rollback to what is settled"] += request.request_id in self.cache.running and not gone

    def truncate(self, request: Request) -> None:
        running = self.cache.running.get(request.request_id)
        before = None if running is None else running.computed
        n = self.random.randint(1, request.num_tokens) if request.num_tokens else 0
        if self.cuts and before is not None and before > 1:
            n = self.random.randint(max(1, before - 5), before - 1)
        copies = self.copies()
        self.cache.truncate(request, n)
        still = self.cache.running.get(request.request_id)
        copied = self.copies() > copies
        self.met["truncation with a private copy"] += copied
        if copied and still is not None and still.settled:
            begins = max(n // group.block_size * group.block_size for group in still.groups if n % group.block_size)
            self.met["settled before its cut slot"] += still.settled < begins
        self.met["truncation where it is"] += before is not None and still is not None and still.computed < before
        self.met["truncation that releases"] += before is not None and still is None

    def append(self, request: Request) -> None:
        if request.num_tokens < 20:
            request.append([self.random.randint(0, 3)])

    def read(self, request: Request) -> None:
        """Somebody outside reads what any block serves, or what a request that runs has left in one."""
        blocks = self.pool.observe().blocks
        states = [
            running.state_block(group)
            for running in self.cache.running.values()
            for group, config in enumerate(running.groups)
            if config.kind is GroupKind.RECURRENT and running.computed % config.block_size
        ]
        readable = [block for block in states if blocks[block].entries and not blocks[block].entries[-1].ahead]
        block = self.random.choice(readable or range(1, len(blocks)))
        if blocks[block].entries and "outside" not in dict(blocks[block].holders):
            self.pool.touch(block, blocks[block].entries[-1].key, "outside")
            self.held.append(block)

    def let_go(self, request: Request) -> None:
        self.pool.free(self.held, "outside")
        self.held.clear()

    OPERATIONS: tuple[tuple[Operation, int], ...] = (
        *((begin, 4), (commit, 3), (admit, 5), (advance, 5), (append, 2)),
        *((fail, 1), (release, 3), (rollback, 1), (truncate, 1), (read, 3), (let_go, 1)),
    )

    def copies(self) -> int:
        return len(self.pool.observe().steps.copies)

    def keyed_copy(self, block: int) -> bool:
        """Whether a block that belongs to a move has a key."""
        state = self.pool.observe().blocks[block]
        names = [name for name, _ in state.holders if name.startswith("copy:") and not name.startswith("copy:pool:")]
        return bool(names and state.entries)


EXPECTED = {
    "hit": 200,
    "hit inside a block": 50,
    "copy of a partial hit": 30,
    "junction": 40,
    "shared within the batch": 20,
    "block let go": 200,
    "move": 20,
    "moved key that failed": 3,
    "state left to its reader": 2,
    "failed step": 100,
    "failed step with others in flight": 50,
    "taken back with others": 5,
    "rollback to what is settled": 10,
    "truncation with a private copy": 5,
    "truncation where it is": 15,
    "truncation that releases": 20,
    "refused: OutOfBlocks": 100,
    "refused: OutOfOrder": 20,
    "refused: OutOfRange": 10,
    "refused: NoOpenStep": 50,
    "refused: NotAdmitted": 20,
    "refused: AlreadyAdmitted": 20,
    "refused: NotCommitted": 20,
}
"""How often each of these has to happen in all walks together."""


def walk(seeds: Iterable[int], steps: int = STEPS, cuts: bool = False) -> Counter[str]:
    """Walk with each seed; what was met."""
    met: Counter[str] = Counter()
    for seed in seeds:
        try:
            Walk(seed, met, cuts).go(steps)
        except Exception as error:
            error.add_note(f"walk of seed {seed}")
            raise
    return met


def test_every_request_has_in_its_tables_what_it_would_have_computed() -> None:
    met = walk(range(WALKS))
    assert {what: met[what] for what, least in EXPECTED.items() if met[what] < least} == {}


def test_a_request_that_was_cut_and_taken_back_goes_on() -> None:
    met = walk(range(40), 150, cuts=True)
    wanted = {"truncation with a private copy": 20, "settled before its cut slot": 1, "rollback to what is settled": 20}
    assert {what: met[what] for what, least in wanted.items() if met[what] < least} == {}


def test_the_walk_notices_a_cut_that_is_taken_back_into_a_slot_on_which_others_rely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(HybridCache, "_last_certain", lambda self, running, n: n if running.can_go_back_to(n) else 0)
    with pytest.raises(AssertionError, match="cannot write on"):
        walk(range(40), 150, cuts=True)


def let_go_of_what_is_in_flight(self: Running, group: int) -> list[int]:
    table = self.tables[group]
    before = min(first_needed_slot(self.groups[group], self.computed), len(table))
    return [slot for slot in reversed(range(before)) if table[slot] != NULL_BLOCK]


def go_on_from_anywhere(self: Running, n: int) -> bool:
    return n > 0


def forget_who_shared(self: HybridCache, affected: list[str]) -> None:
    return None


@pytest.mark.parametrize(
    ("of", "name", "wrong"),
    [
        (Running, "not_needed", let_go_of_what_is_in_flight),
        (Running, "can_go_back_to", go_on_from_anywhere),
        (HybridCache, "_go_back", forget_who_shared),
    ],
    ids=["a step in flight loses what it reads", "a state goes back", "dependents keep their tables"],
)
def test_the_walk_notices_a_cache_that_loses_what_its_requests_need(
    monkeypatch: pytest.MonkeyPatch, of: type, name: str, wrong: object
) -> None:
    monkeypatch.setattr(of, name, wrong)
    with pytest.raises(AssertionError):
        walk(range(WALKS))


def test_the_walk_notices_a_refusal_that_changes_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HybridCache, "_check_room", lambda self, needed, hit_blocks, freed=0: None)
    with pytest.raises(AssertionError, match="changed something"):
        walk(range(WALKS))
