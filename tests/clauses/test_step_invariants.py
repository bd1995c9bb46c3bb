from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kvproof.reference import InvariantViolation, PoolState, Request, check_invariants
from kvproof.reference.block import FreeBlockQueue
from kvproof.reference.index import Unready
from kvproof.spec.errors import PoolError
from kvproof.spec.events import Removed, Stored
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, Key, Residency
from tests.clauses.rig import ATTENTION, EVERY_KIND, RECURRENT, WIDE, WIDE_WINDOW, WINDOW, MakeRig, Rig, at, key

# The checker: a pool that is broken by hand is reported under the clause that it breaks.


def in_flight(**config: Any) -> Rig:
    """Step 1 is committed, steps 2 and 3 are open. All events are folded, nothing is broken.

    r1 has the full block 1, committed, and block 2, reserved in step 2; r2 touched 1, attached to 2, and has
    block 3, reserved in step 3; r3's committed key moved in step 3 from block 4 to block 5. Block 6 is free.
    """
    rig = Rig(ATTENTION, blocks=7, commit=CommitMode.STEPS, **config)
    r1, r2, r3 = rig.request("r1"), rig.request("r2"), rig.request("r3", range(20, 30))
    rig.begin()
    table = rig.take(r1, 2)
    rig.put(r1, table[0], 4)
    rig.take(r2)
    rig.fill(r3, 1)
    rig.commit(1)
    rig.begin()
    rig.put(r1, table[1], 8)
    rig.touch(r2, 1, 4)
    rig.attach(r2, 2, 8)
    rig.begin()
    rig.put(r2, 3, 10)
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(4, 5)
    rig.check()
    return rig


def commit_what_was_not_begun(rig: Rig) -> None:
    rig.pool._steps.committed = 4


def depend_on_a_step_to_come(rig: Rig) -> None:
    rig.pool._steps.depends["r2", "r1"] = 4


def depend_on_a_committed_step(rig: Rig) -> None:
    rig.pool._steps.depends["r3", "r1"] = 1


def be_born_in_a_step_to_come(rig: Rig) -> None:
    rig.pool._blocks[6].born = 4


def attach_in_a_step_to_come(rig: Rig) -> None:
    rig.pool._steps.attached[2, "r2"] = 4


def attach_in_a_committed_step(rig: Rig) -> None:
    rig.pool._steps.attached[2, "r2"] = 1


def set_step(rig: Rig, block: int, position: int, step: int, reader: int = 0) -> None:
    name = key(rig.requests[reader], position)
    before = rig.pool._index.unready(name, block)
    rig.pool._index._unready.setdefault(name, {})[block] = Unready(step, before.reservation if before else None)


def leave_a_key_reserved(rig: Rig) -> None:
    set_step(rig, 2, 8, 1)


def reserve_in_a_step_to_come(rig: Rig) -> None:
    set_step(rig, 2, 8, 4)


def move_in_a_step_to_come(rig: Rig) -> None:
    set_step(rig, 5, 4, 4, reader=2)


def keep_an_entry_over_a_reallocation(rig: Rig) -> None:
    rig.pool._blocks[1].born = 2


def keep_a_reserved_entry_over_a_reallocation(rig: Rig) -> None:
    rig.pool._blocks[2].born = 3


def release_a_block_with_a_reserved_key(rig: Rig) -> None:
    release(rig, 2)


def release_a_block_with_a_moved_key(rig: Rig) -> None:
    release(rig, 5)


def release(rig: Rig, block: int) -> None:
    for holder in list(rig.holders(block)):
        rig.pool._blocks[block].remove_holder(holder)
        rig.pool._steps.attached.pop((block, holder), None)
    rig.pool._free.append(block)


def let_another_request_write(rig: Rig) -> None:
    rig.pool._blocks[2].writer = "r2"


def let_a_reader_write(rig: Rig) -> None:
    rig.pool._blocks[1].writer = "r2"


def serve_another_slot(rig: Rig) -> None:
    rig.pool._blocks[1].holders["r2"] = at(rig.requests[0], 8)


def serve_from_a_block_without_a_slot(rig: Rig) -> None:
    rig.pool._blocks[6].holders, rig.pool._blocks[6].ref_cnt = {"r2": at(rig.requests[0], 4)}, 1
    rig.pool._free.remove(6)


def serve_from_a_former_life(rig: Rig) -> None:
    rig.pool.evict([1])
    rig.events()
    rig.pool._blocks[1].born = 2


def attach_to_a_former_life(rig: Rig) -> None:
    rig.pool.evict([2])
    rig.pool._blocks[2].born = 3


def attach_without_reading(rig: Rig) -> None:
    rig.pool._blocks[2].holders["r2"] = None


def attach_without_holding(rig: Rig) -> None:
    rig.pool._blocks[6].holders, rig.pool._blocks[6].ref_cnt = {"r3": None}, 1
    rig.pool._free.remove(6)
    rig.pool._steps.attached[6, "r3"] = 2


def forget_that_a_reader_depends(rig: Rig) -> None:
    rig.pool._steps.depends.clear()


def depend_too_short_a_time(rig: Rig) -> None:
    rig.pool._steps.attached[2, "r2"] = 3


def depend_on_another_writer(rig: Rig) -> None:
    rig.pool._steps.depends = {("r2", "r3"): 3}


BROKEN: list[tuple[str, Callable[[Rig], None]]] = [
    ("INV-STEPS-1", commit_what_was_not_begun),
    ("INV-STEPS-1", depend_on_a_step_to_come),
    ("INV-STEPS-1", depend_on_a_committed_step),
    ("INV-STEPS-1", be_born_in_a_step_to_come),
    ("INV-STEPS-1", attach_in_a_step_to_come),
    ("INV-STEPS-1", attach_in_a_committed_step),
    ("INV-STATUS-1", leave_a_key_reserved),
    ("INV-STATUS-1", reserve_in_a_step_to_come),
    ("INV-STATUS-1", move_in_a_step_to_come),
    ("INV-STATUS-1", keep_an_entry_over_a_reallocation),
    ("INV-STATUS-1", keep_a_reserved_entry_over_a_reallocation),
    ("INV-RESERVED-1", release_a_block_with_a_reserved_key),
    ("INV-RESERVED-1", release_a_block_with_a_moved_key),
    ("INV-RESERVED-2", let_another_request_write),
    ("INV-SERVED-2", let_a_reader_write),
    ("INV-SERVED-2", serve_another_slot),
    ("INV-SERVED-2", serve_from_a_block_without_a_slot),
    ("INV-SERVED-2", serve_from_a_former_life),
    ("INV-SERVED-2", attach_to_a_former_life),
    ("INV-SERVED-2", attach_without_reading),
    ("INV-SERVED-2", attach_without_holding),
    ("INV-DEPENDS-1", forget_that_a_reader_depends),
    ("INV-DEPENDS-1", depend_too_short_a_time),
    ("INV-DEPENDS-1", depend_on_another_writer),
]


def violated(rig: Rig) -> str:
    with pytest.raises(InvariantViolation) as caught:
        check_invariants(rig.pool, rig.requests, rig.mirror)
    return caught.value.clause


@pytest.mark.clause("INV-STEPS-1", "INV-STATUS-1", "INV-RESERVED-1", "INV-RESERVED-2", "INV-SERVED-2", "INV-DEPENDS-1")
@pytest.mark.parametrize(("clause", "damage"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_a_damaged_pool_is_reported_under_the_clause_that_it_breaks(clause: str, damage: Callable[[Rig], None]) -> None:
    rig = in_flight()
    damage(rig)
    assert violated(rig) == clause


@pytest.mark.clause("INV-STEPS-1")
def test_a_new_pool_that_has_committed_more_than_was_begun_is_reported() -> None:
    rig = Rig(commit=CommitMode.STEPS)
    rig.check()
    rig.pool._steps.committed = 1
    assert violated(rig) == "INV-STEPS-1"


@pytest.mark.clause("INV-STEPS-1", "INV-STATUS-1", "INV-RESERVED-1", "INV-RESERVED-2", "INV-SERVED-2", "INV-DEPENDS-1")
def test_a_sound_pool_stays_sound_until_everything_is_committed_and_gone() -> None:
    rig = in_flight()
    rig.commit(2)
    rig.check()
    rig.free(rig.requests[0], 1, 2)
    rig.commit(3)
    rig.check()
    rig.pool.finish("r2", [3, 2, 1])
    rig.pool.finish("r3", [4])
    rig.check()
    assert rig.pool.num_free == 6
    rig.pool.reset()
    rig.check()


@pytest.mark.clause("INV-RESERVED-2", "INV-DEPENDS-1")
def test_a_reserved_key_that_moved_to_a_copys_block_is_in_order() -> None:
    rig = Rig(commit=CommitMode.STEPS)
    r1 = rig.request("r1")
    rig.begin()
    rig.fill(r1, 1)
    rig.begin()
    rig.pool.allocate(1, "copy:1")
    rig.pool.move(1, 2)
    rig.check()
    assert rig.entries(2) == [(4, 2, "r1")]
    rig.pool._blocks[2].add_holder("r9", None)
    rig.pool._blocks[2].writer = "r9"
    assert violated(rig) == "INV-RESERVED-2"


@pytest.mark.clause("INV-EVENTS-2")
@pytest.mark.parametrize("change", [1, -1])
def test_a_consumer_that_miscounts_copies_is_reported(change: int) -> None:
    rig = in_flight(residency=Residency.PER_COPY)
    assert rig.mirror.resident[key(rig.requests[1], 8)] == 0
    rig.mirror.resident[key(rig.requests[0], 4)] += change
    assert violated(rig) == "INV-EVENTS-2"


@pytest.mark.clause("INV-EVENTS-2")
def test_a_consumer_that_counts_reserved_copies_is_reported() -> None:
    rig = in_flight(residency=Residency.PER_COPY)
    rig.mirror.resident[key(rig.requests[0], 8)] += 1
    assert violated(rig) == "INV-EVENTS-2"


@pytest.mark.clause("INV-EVENTS-2")
@EVERY_KIND
def test_per_copy_a_consumer_counts_the_blocks_that_have_a_key_committed(in_step: MakeRig, group: GroupConfig) -> None:
    rig = in_step(group, blocks=6, residency=Residency.PER_COPY)
    requests = [rig.request(name) for name in ("r1", "r2", "r3")]
    counts = []

    def count() -> None:
        rig.events()
        counts.append(rig.mirror.resident[key(requests[0], 4)])

    for request in requests[:2]:
        rig.fill(request, 1)
    rig.begin()
    rig.fill(requests[2], 1)
    count()
    for step in (1, 2):
        rig.commit(step)
        count()
    for block in (2, 3, 1):
        rig.pool.evict([block])
        count()
    assert counts == [0, 2, 3, 2, 1, 0]


@pytest.mark.clause("INV-EVENTS-1", "STEP-SERVE-1")
def test_a_consumer_that_takes_reserved_keys_for_resident_is_reported() -> None:
    rig = in_flight()
    rig.mirror.resident[key(rig.requests[0], 8)] = 1
    assert violated(rig) == "INV-EVENTS-1"


@pytest.mark.clause("INV-SOUND-1", "STEP-ROLLBACK-3")
def test_a_key_is_checked_in_every_step_from_its_own_on() -> None:
    rig = in_flight()
    assert rig.ghost.content_after(2, 1) is None
    rig.check()
    for step in (1, 2, 3):
        rig = in_flight()
        good = rig.ghost.content(1)
        rig.ghost.hold(1, None, step)
        if step < 3:
            rig.ghost.hold(1, good, step + 1)
        assert violated(rig) == "INV-SOUND-1"


@pytest.mark.clause("INV-FULL-1", "STEP-UPGRADE-2")
def test_beside_a_reserved_full_key_there_are_only_those_that_go_with_its_commit() -> None:
    def upgrading() -> Rig:
        rig = Rig(WIDE, commit=CommitMode.STEPS)
        r1 = rig.request("r1")
        rig.begin()
        rig.take(r1)
        rig.put(r1, 1, 4)
        rig.commit(1)
        rig.begin()
        rig.put(r1, 1, 8)
        rig.check()
        return rig

    rig = upgrading()
    rig.pool._index.set_ready(key(rig.requests[0], 8), 1)
    assert violated(rig) == "INV-FULL-1"
    rig = upgrading()
    reservation = rig.pool._index.unready(key(rig.requests[0], 8), 1)
    rig.pool._index._unready[key(rig.requests[0], 4)] = {1: reservation}  # type: ignore[dict-item]
    assert violated(rig) == "INV-FULL-1"
    rig = upgrading()
    rig.list_key(rig.requests[0], 1, 2)
    assert violated(rig) == "INV-FULL-1"


# Eviction order


@pytest.mark.clause("INV-LRU-1")
def test_blocks_released_without_a_key_are_taken_last_in_first_out_before_all_others(in_step: MakeRig) -> None:
    rig = in_step(blocks=7)
    r1 = rig.request("r1")
    table = rig.take(r1, 6)
    for block in (1, 3):
        rig.put(r1, block, 4)
    rig.commit(1)
    for block in (2, 1, 4, 3, 6, 5):
        rig.free(r1, block)
    assert (table, rig.queue()) == ([1, 2, 3, 4, 5, 6], [5, 6, 4, 2, 1, 3])


@pytest.mark.clause("INV-LRU-1")
def test_a_key_that_goes_after_the_release_changes_no_place(in_step: MakeRig) -> None:
    rig = in_step()
    r1 = rig.request("r1")
    rig.fill(r1, 2)
    rig.commit(1)
    rig.free(r1, 2, 1)
    rig.pool.evict([2, 1])
    assert rig.queue() == [3, 2, 1]
    rig.pool.reset()
    assert rig.queue() == [3, 2, 1]


@pytest.mark.clause("INV-LRU-1")
def test_a_block_that_was_used_again_takes_the_place_of_its_last_release(new_rig: MakeRig) -> None:
    rig = new_rig()
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 2)
    rig.free(r1, 1, 2)
    rig.touch(r2, 1, 4)
    rig.free(r2, 1)
    assert rig.queue() == [3, 2, 1]


@pytest.mark.clause("INV-LRU-1", "POOL-FREE-2")
def test_blocks_released_by_one_call_without_a_key_stand_in_the_order_given(new_rig: MakeRig) -> None:
    rig = new_rig(blocks=5)
    r1 = rig.request("r1")
    rig.take(r1, 4)
    rig.free(r1, 1)
    rig.free(r1, 3, 4, 2)
    assert rig.queue() == [3, 4, 2, 1]


@pytest.mark.clause("INV-LRU-1")
@pytest.mark.parametrize("place", range(6))
def test_a_queue_in_another_order_is_reported(place: int) -> None:
    """Two blocks that nobody has used yet, two of one call and one of another without a key, two with one."""
    rig = Rig(ATTENTION, blocks=8)
    r1 = rig.request("r1")
    rig.take(r1, 5)
    for block in (1, 3):
        rig.put(r1, block, 4)
    rig.free(r1, 5)
    rig.free(r1, 1, 4, 2, 3)
    assert rig.queue() == [4, 2, 5, 6, 7, 1, 3]
    rig.check()
    queue = rig.queue()
    queue[place], queue[place + 1] = queue[place + 1], queue[place]
    rig.pool._free = FreeBlockQueue(queue)
    assert violated(rig) == "INV-LRU-1"


# Random runs, with an account of their own


class StepDriver:
    """Takes random operations, good and bad ones, with up to three steps in flight."""

    def __init__(self, seed: int, groups: tuple[GroupConfig, ...], residency: Residency) -> None:
        self.random = random.Random(seed)
        self.rig = Rig(*groups, blocks=6, commit=CommitMode.STEPS, residency=residency)
        for number, text in enumerate(([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 70, 80], [1, 2, 30, 40])):
            self.rig.request(f"r{number}", text)
        self.accepted: Counter[str] = Counter()

    def step(self) -> None:
        """Try operations until one changes something."""
        usual = [self.allocate, self.put, self.put, self.read, self.read, self.release, self.copy]
        seldom = [self.begin, self.commit, self.evict, self.move, self.rollback, self.finish]
        before = self.rig.snapshot()
        for _ in range(1000):
            kind = self.random.choice([*usual, *usual, *usual, *seldom])
            try:
                kind()
            except PoolError:
                assert self.rig.snapshot() == before, kind.__name__
            if self.rig.snapshot() != before:
                self.accepted[kind.__name__] += 1
                return
        raise AssertionError("nothing that was tried changed anything")

    def who(self) -> Request:
        return self.random.choice(self.rig.requests)

    def block(self) -> int:
        return self.random.randrange(6)

    def held(self, holder: str) -> list[int]:
        return [block for block in range(1, 6) if holder in self.rig.holders(block)]

    def some(self, blocks: list[int]) -> int:
        return self.random.choice(blocks or [self.block()])

    def group(self) -> int:
        return self.random.randrange(len(self.rig.config.groups))

    def begin(self) -> None:
        if self.rig.pool.observe().steps.open < 3:
            self.rig.begin()

    def commit(self) -> None:
        self.rig.commit(self.rig.pool.last_committed_step + 1)

    def allocate(self) -> None:
        self.rig.pool.allocate(1, self.who().request_id)

    def put(self) -> None:
        """Write and register on a block of the request's own; undone if only the second is refused."""
        request, group = self.who(), self.group()
        block = self.some(self.held(request.request_id))
        position = 2 * self.random.randrange(1, request.num_tokens // 2 + 1)
        trial = self.rig.pool.clone()
        trial.write(request, block, position, group)
        trial.cache_partial_block(request, block, position, group)
        self.rig.put(request, block, position, group)

    def read(self) -> None:
        """Touch or attach the longest prefix of a request that it can have and does not hold."""
        request, group = self.who(), self.group()
        for position in range(request.num_tokens, 0, -2):
            hit = self.rig.hit(request, position, group)
            found = hit.block if hit.block is not None else hit.reserved
            if found is not None and request.request_id not in self.rig.holders(found):
                take = self.rig.touch if hit.block is not None else self.rig.attach
                take(request, found, position, group)
                return

    def release(self) -> None:
        holder = self.random.choice([*(request.request_id for request in self.rig.requests), "copy:1", "copy:2"])
        self.rig.pool.free([self.some(self.held(holder))], holder)

    def evict(self) -> None:
        self.rig.pool.evict([self.random.randrange(1, 6)])

    def copy(self) -> None:
        request = self.who()
        own = self.held(request.request_id)
        self.rig.pool.copy(self.some(own), self.some(own), request.request_id)

    def move(self) -> None:
        keyed = [block for block in range(1, 6) if self.rig.entries(block)]
        source = self.some(keyed)
        trial = self.rig.pool.clone()
        [target] = trial.allocate(1, "copy:1")
        trial.move(source, target)
        self.rig.pool.allocate(1, "copy:1")
        self.rig.pool.move(source, target)

    def rollback(self) -> None:
        self.rig.pool.rollback([self.who().request_id])

    def finish(self) -> None:
        request = self.who()
        self.rig.pool.finish(request.request_id, self.held(request.request_id)[:1])


class Queue:
    """When each free block was released, and whether it had a key then, as seen from outside."""

    def __init__(self, blocks: int) -> None:
        self.clock = 0
        self.released: dict[int, tuple[bool, int]] = {block: (False, -block) for block in range(1, blocks)}

    def follow(self, state: PoolState) -> None:
        self.clock += 1
        for block in set(self.released) - set(state.free_queue):
            del self.released[block]
        for block in set(state.free_queue) - set(self.released):
            self.released[block] = (bool(state.blocks[block].entries), self.clock)

    def check(self, state: PoolState) -> None:
        """Blocks that one operation released may stand in any order."""
        order = [self.released[block] for block in state.free_queue]
        assert order == sorted(order, key=lambda block: (block[0], block[1] if block[0] else -block[1]))


def check_entries(rig: Rig, state: PoolState) -> None:
    for block in state.blocks:
        reserved = {entry.owner for entry in block.entries if entry.owner is not None}
        assert len(reserved) <= 1
        if reserved and block.writer is not None and not block.writer.startswith("copy:"):
            assert reserved == {block.writer}
        for entry in block.entries:
            assert (rig.pool.lookup([entry.key]) == [None]) == all(
                other.ahead > 0 for b in state.blocks for other in b.entries if other.key == entry.key
            )
            assert entry.ahead <= state.steps.open
            assert block.age <= entry.ahead
            assert entry.ahead == 0 or block.ref_cnt > 0
        for holder, served in block.holders:
            assert served is None or holder != block.writer


def committed_keys(state: PoolState) -> Counter[Key]:
    return Counter(entry.key for block in state.blocks for entry in block.entries if entry.owner is None)


def fold_by_hand(rig: Rig, resident: Counter[Key]) -> None:
    for event in rig.events():
        if isinstance(event, Stored):
            resident.update(prefix.digest + event.group.to_bytes(4, "big") for prefix in event.hashes)
        elif isinstance(event, Removed):
            resident[event.digest + event.group.to_bytes(4, "big")] -= 1


CONFIGURATIONS: dict[str, tuple[tuple[GroupConfig, ...], Residency]] = {
    "attention": ((ATTENTION,), Residency.LOGICAL),
    "wide, per copy": ((WIDE,), Residency.PER_COPY),
    "wide window": ((WIDE_WINDOW,), Residency.LOGICAL),
    "recurrent": ((RECURRENT,), Residency.PER_COPY),
    "hybrid": ((WIDE, GroupConfig(GroupKind.RECURRENT, 8), WINDOW), Residency.LOGICAL),
}


@pytest.mark.clause(
    "INV-STEPS-1",
    "INV-STATUS-1",
    "INV-RESERVED-1",
    "INV-RESERVED-2",
    "INV-EVENTS-1",
    "INV-EVENTS-2",
    "INV-SERVED-2",
    "INV-DEPENDS-1",
    "INV-LRU-1",
    "INV-SOUND-1",
    "INV-SERVED-1",
    "STEP-SERVE-1",
    "ERR-ATOMIC-1",
)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_invariant_holds_after_every_operation_of_a_random_run(seed: int, name: str) -> None:
    groups, residency = CONFIGURATIONS[name]
    driver = StepDriver(seed, groups, residency)
    rig, queue = driver.rig, Queue(6)
    resident: Counter[Key] = Counter()
    for _ in range(120):
        driver.step()
        fold_by_hand(rig, resident)
        state = rig.pool.observe()
        queue.follow(state)
        queue.check(state)
        check_entries(rig, state)
        committed = committed_keys(state)
        assert +resident == (committed if residency is Residency.PER_COPY else Counter(dict.fromkeys(committed, 1)))
        rig.check()
    assert not {"allocate", "put", "read", "release", "evict", "begin", "commit", "rollback"} - set(+driver.accepted)
