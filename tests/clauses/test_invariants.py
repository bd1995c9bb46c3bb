from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from kvproof.reference import BlockPool, EventMirror, InvariantViolation, PoolState, check_invariants
from kvproof.reference.observation import BlockState, EntryState
from kvproof.spec.errors import PoolError
from kvproof.spec.events import Cleared, PrefixHash, Removed, Stored
from kvproof.spec.vocabulary import GroupConfig, GroupKind, HolderMode, Key, Residency
from tests.clauses.rig import ATTENTION, EVERY_KIND, RECURRENT, WIDE, WINDOW, MakeRig, Rig, at, key

# The checker: a pool that is broken by hand is reported under the clause that it breaks.


def in_use(group: GroupConfig = ATTENTION, **config: Any) -> Rig:
    """r1 has the full block 1, which r2 reads, and the partial block 2; block 3 is free; all events are folded."""
    rig = Rig(group, **config)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.take(r1)
    rig.put(r1, 2, 6)
    rig.touch(r2, 1, 4)
    rig.check()
    return rig


class Miscounted(OrderedDict[int, None]):
    def __len__(self) -> int:
        return super().__len__() + 1


class Fickle(dict[Key, int]):
    """Gives a key another position each time it is asked."""

    def __getitem__(self, wanted: Key) -> int:
        self[wanted] = super().__getitem__(wanted) + 2
        return super().__getitem__(wanted)


def h(rig: Rig, position: int) -> Key:
    return key(rig.requests[0], position)


def queue_block_one_too(rig: Rig) -> None:
    rig.pool._free.append(1)


def lose_a_free_block(rig: Rig) -> None:
    rig.pool._free.remove(3)


def queue_the_null_block(rig: Rig) -> None:
    rig.pool._free.append(0)


def queue_a_block_twice(rig: Rig) -> None:
    rig.pool._free._order = [3, 3]  # type: ignore[assignment]


def miscount_the_queue(rig: Rig) -> None:
    rig.pool._free._order = Miscounted({3: None})


def count_one_reference_too_many(rig: Rig) -> None:
    rig.pool._blocks[1].ref_cnt += 1


def forget_a_holder(rig: Rig) -> None:
    del rig.pool._blocks[1].holders["r2"]


def count_below_zero(rig: Rig) -> None:
    rig.pool._blocks[2].ref_cnt = -1


def make_a_stranger_the_writer(rig: Rig) -> None:
    rig.pool._blocks[1].writer = "stranger"


def hold_the_null_block(rig: Rig) -> None:
    rig.pool._blocks[0].add_holder("r1", None)


def count_the_null_block(rig: Rig) -> None:
    rig.pool._blocks[0].ref_cnt = 1
    rig.pool._blocks[0].holders["r1"] = None


def give_the_null_block_a_slot(rig: Rig) -> None:
    rig.pool._blocks[0].slot = 0


def give_the_null_block_a_group(rig: Rig) -> None:
    rig.pool._blocks[0].group = 0


def register_on_the_null_block(rig: Rig) -> None:
    rig.list_key(rig.requests[0], 0, 4)


def lose_a_forward_row(rig: Rig) -> None:
    del rig.pool._index._block_of[h(rig, 4)]


def lose_a_reverse_row(rig: Rig) -> None:
    del rig.pool._index._keys_of[1]


def list_a_key_under_another_block(rig: Rig) -> None:
    rig.pool._index._block_of[h(rig, 4)] = 3


def keep_an_empty_row(rig: Rig) -> None:
    rig.pool._index._blocks_of[h(rig, 8)] = {}


def list_a_block_twice(rig: Rig) -> None:
    first = rig.pool._index._block_of.pop(h(rig, 4))
    rig.pool._index._blocks_of[h(rig, 4)] = {0: first, 99: 1}


def give_a_key_two_positions(rig: Rig) -> None:
    first = rig.pool._index._block_of.pop(h(rig, 4))
    rig.pool._index._blocks_of[h(rig, 4)] = {0: first, 99: 3}
    rig.pool._index._keys_of[3] = {h(rig, 4): 99}
    rig.pool._blocks[3].group, rig.pool._blocks[3].slot = 0, 0
    rig.pool._index._position_of = Fickle(rig.pool._index._position_of)


def say_another_slot(rig: Rig) -> None:
    rig.pool._blocks[1].slot = 1


def say_no_slot(rig: Rig) -> None:
    rig.pool._blocks[1].slot = None


def say_no_group(rig: Rig) -> None:
    rig.pool._blocks[1].group = None


def add_a_key_of_another_group(rig: Rig) -> None:
    rig.pool._index.drop(h(rig, 6), 2)
    rig.list_key(rig.requests[0], 2, 6, group=1)


def add_a_key_of_another_slot(rig: Rig) -> None:
    rig.list_key(rig.requests[0], 2, 10)


def add_a_key_of_another_text(rig: Rig) -> None:
    other = rig.request("other", [1, 2, 3, 4, 5, 60])
    rig.list_key(other, 2, 6)


def add_a_partial_key_to_a_full_one(rig: Rig) -> None:
    rig.list_key(rig.requests[0], 1, 2)


def add_a_full_key_to_a_partial_one(rig: Rig) -> None:
    rig.list_key(rig.requests[0], 2, 8)


def overwrite(rig: Rig, block: int) -> None:
    """Give a block the content of another text, behind the pool's back."""
    other = rig.request("other", [9, 9, 9, 9])
    [fresh] = rig.take(other)
    rig.pool.write(other, fresh, 4, 0)
    rig.overwrite(block, rig.ghost.content(fresh))


def overwrite_a_key(rig: Rig) -> None:
    overwrite(rig, 1)


def lose_the_content(rig: Rig) -> None:
    rig.overwrite(2, None)


def overwrite_a_reader(rig: Rig) -> None:
    rig.pool.evict([1])
    rig.events()
    overwrite(rig, 1)


def drain_in_secret(rig: Rig) -> None:
    rig.pool.evict([2])
    rig.pool.take_events()


def keep_a_key_that_went(rig: Rig) -> None:
    rig.mirror.resident[h(rig, 8)] += 1


def forget_a_resident_key(rig: Rig) -> None:
    del rig.mirror.resident[h(rig, 4)]


def keep_a_stale_hash(rig: Rig) -> None:
    rig.requests[0].tokens[3] = 99


def keep_a_hash_too_many(rig: Rig) -> None:
    rig.requests[0].hashes.append(bytes(32))


def keep_a_hash_too_few(rig: Rig) -> None:
    rig.requests[0].hashes.pop()


BROKEN: list[tuple[str, Callable[[Rig], None]]] = [
    ("INV-PARTITION-1", queue_block_one_too),
    ("INV-PARTITION-1", lose_a_free_block),
    ("INV-PARTITION-1", queue_the_null_block),
    ("INV-QUEUE-1", queue_a_block_twice),
    ("INV-QUEUE-2", miscount_the_queue),
    ("INV-COUNT-1", count_one_reference_too_many),
    ("INV-COUNT-1", forget_a_holder),
    ("INV-COUNT-1", count_below_zero),
    ("INV-WRITER-1", make_a_stranger_the_writer),
    ("INV-NULL-1", hold_the_null_block),
    ("INV-NULL-1", count_the_null_block),
    ("INV-NULL-1", give_the_null_block_a_slot),
    ("INV-NULL-1", give_the_null_block_a_group),
    ("INV-NULL-1", register_on_the_null_block),
    ("INV-INDEX-1", lose_a_forward_row),
    ("INV-INDEX-1", lose_a_reverse_row),
    ("INV-INDEX-1", list_a_key_under_another_block),
    ("INV-INDEX-2", keep_an_empty_row),
    ("INV-INDEX-2", list_a_block_twice),
    ("INV-INDEX-3", give_a_key_two_positions),
    ("INV-SLOT-1", say_another_slot),
    ("INV-SLOT-1", say_no_slot),
    ("INV-SLOT-1", say_no_group),
    ("INV-SLOT-1", add_a_key_of_another_group),
    ("INV-SLOT-1", add_a_key_of_another_slot),
    ("INV-CHAIN-1", add_a_key_of_another_text),
    ("INV-FULL-1", add_a_partial_key_to_a_full_one),
    ("INV-FULL-1", add_a_full_key_to_a_partial_one),
    ("INV-SOUND-1", overwrite_a_key),
    ("INV-SOUND-1", lose_the_content),
    ("INV-SERVED-1", overwrite_a_reader),
    ("INV-EVENTS-1", drain_in_secret),
    ("INV-EVENTS-1", keep_a_key_that_went),
    ("INV-EVENTS-1", forget_a_resident_key),
    ("INV-HASHES-1", keep_a_stale_hash),
    ("INV-HASHES-1", keep_a_hash_too_many),
    ("INV-HASHES-1", keep_a_hash_too_few),
]


def violated(rig: Rig) -> str:
    with pytest.raises(InvariantViolation) as caught:
        check_invariants(rig.pool, rig.requests, rig.mirror)
    assert str(caught.value).startswith(caught.value.clause)
    return caught.value.clause


@pytest.mark.clause(
    "INV-PARTITION-1",
    "INV-QUEUE-1",
    "INV-QUEUE-2",
    "INV-COUNT-1",
    "INV-WRITER-1",
    "INV-NULL-1",
    "INV-INDEX-1",
    "INV-INDEX-2",
    "INV-INDEX-3",
    "INV-SLOT-1",
    "INV-CHAIN-1",
    "INV-FULL-1",
    "INV-SOUND-1",
    "INV-SERVED-1",
    "INV-EVENTS-1",
    "INV-HASHES-1",
)
@pytest.mark.parametrize(("clause", "damage"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_a_damaged_pool_is_reported_under_the_clause_that_it_breaks(clause: str, damage: Callable[[Rig], None]) -> None:
    rig = in_use()
    damage(rig)
    assert violated(rig) == clause


@pytest.mark.clause("INV-FULL-1")
def test_two_keys_of_a_state_are_reported() -> None:
    rig = Rig(GroupConfig(GroupKind.RECURRENT, 8))
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 6)
    rig.check()
    rig.list_key(r1, 1, 4)
    assert violated(rig) == "INV-FULL-1"


@pytest.mark.clause("INV-SOUND-1")
@pytest.mark.parametrize(("group", "sound"), [(ATTENTION, True), (WINDOW, True), (RECURRENT, False)])
def test_content_beyond_the_key_is_sound_for_rows_and_unsound_for_a_state(group: GroupConfig, sound: bool) -> None:
    rig = in_use(group)
    r1 = rig.requests[0]
    [block] = rig.take(r1)
    rig.pool.write(r1, block, 8, 0)
    rig.overwrite(2, rig.ghost.content(block))
    if sound:
        rig.check()
    else:
        assert violated(rig) == "INV-SOUND-1"


@pytest.mark.clause("INV-SOUND-1")
def test_rows_of_another_slot_are_not_the_keys_rows() -> None:
    rig = in_use()
    r1 = rig.requests[0]
    [block] = rig.take(r1)
    rig.pool.write(r1, block, 8, 0)
    rig.pool.cache_partial_block(r1, block, 2, 0)
    rig.events()
    assert violated(rig) == "INV-SOUND-1"


@pytest.mark.clause("INV-SOUND-1")
def test_content_of_another_group_is_not_the_keys_content() -> None:
    rig = Rig(ATTENTION, RECURRENT)
    r1 = rig.request("r1")
    [block] = rig.take(r1)
    rig.pool.write(r1, block, 4, 1)
    rig.pool.cache_partial_block(r1, block, 4, 0)
    rig.events()
    assert violated(rig) == "INV-SOUND-1"


@pytest.mark.clause("INV-SOUND-1", "REG-REPLACE-2")
def test_a_key_registered_before_its_content_is_written_is_reported(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.take(r1)
    rig.pool.cache_partial_block(r1, 1, 4, 0)
    rig.events()
    assert violated(rig) == "INV-SOUND-1"
    rig.pool.write(r1, 1, 4, 0)
    rig.check()


@pytest.mark.clause("INV-EVENTS-2")
def test_per_copy_a_consumer_must_know_how_many_copies_there_are() -> None:
    rig = in_use(residency=Residency.PER_COPY)
    r2 = rig.requests[1]
    rig.fill(r2, 1)
    assert violated(rig) == "INV-EVENTS-2"
    rig.check()
    rig.mirror.resident[h(rig, 4)] -= 1
    assert violated(rig) == "INV-EVENTS-2"


@pytest.mark.clause("INV-COUNT-1")
def test_a_negative_anonymous_count_is_reported() -> None:
    rig = in_use(holders=HolderMode.CALLER)
    rig.pool._blocks[1].ref_cnt = -1
    assert violated(rig) == "INV-COUNT-1"


@pytest.mark.clause("INV-INDEX-3", "INV-INDEX-2")
def test_a_state_in_which_one_key_has_two_positions_is_reported() -> None:
    class Lying(BlockPool):
        def observe(self) -> PoolState:
            state = super().observe()
            [(name, _)] = state.blocks[1].keys
            two = state.blocks[2]
            other = BlockState(two.ref_cnt, two.holders, two.writer, two.group, two.slot, (EntryState(name, 2),))
            return replace(state, blocks=(*state.blocks[:2], other, *state.blocks[3:]), index={name: (1, 2)})

    rig = in_use()
    rig.pool.__class__ = Lying
    assert violated(rig) == "INV-INDEX-3"


# The pool: what must hold after every step, stated here a second time without the checker.


CONFIGURATIONS: list[tuple[str, tuple[GroupConfig, ...], dict[str, Any]]] = [
    ("attention", (WIDE,), {}),
    ("hybrid", (ATTENTION, GroupConfig(GroupKind.RECURRENT, 8)), {}),
    ("window, per copy", (replace(WINDOW, block_size=8),), {"residency": Residency.PER_COPY}),
    ("hybrid, per copy", (ATTENTION, RECURRENT), {"residency": Residency.PER_COPY}),
    ("anonymous", (WIDE, ATTENTION), {"holders": HolderMode.CALLER}),
]


class Driver:
    """Takes random steps, good and bad ones; keeps its own account of who should hold what."""

    def __init__(self, seed: int, groups: tuple[GroupConfig, ...], config: dict[str, Any]) -> None:
        self.random = random.Random(seed)
        self.rig = Rig(*groups, blocks=5, **config)
        texts = ([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 70, 80], [1, 2, 30, 40])
        for number, text in enumerate(texts):
            self.rig.request(f"r{number}", text)
        self.references: Counter[tuple[str | None, int]] = Counter()
        self.accepted: Counter[str] = Counter()

    def steps(self, count: int) -> Iterator[str]:
        kinds = [self.allocate, self.free, self.touch, self.register, self.full, self.evict, self.move, self.copy]
        for _ in range(count):
            kind = self.random.choice([*kinds, self.free, self.touch, self.register, self.reset, self.edit])
            try:
                kind()
                self.accepted[kind.__name__] += 1
            except PoolError:
                pass
            yield kind.__name__

    def do(self, method: str, *arguments: object) -> Any:
        """One operation of the pool, which changes nothing if it is refused."""
        before = self.rig.snapshot()
        try:
            return getattr(self.rig.pool, method)(*arguments)
        except PoolError:
            assert self.rig.snapshot() == before, method
            raise

    def block(self) -> int:
        return self.random.randrange(5)

    def group(self) -> int:
        return self.random.randrange(len(self.rig.config.groups))

    def who(self) -> tuple[Any, str | None]:
        request = self.random.choice(self.rig.requests)
        return request, self.rig.holder(request)

    def allocate(self) -> None:
        _, holder = self.who()
        for block in self.do("allocate", self.random.randrange(3), holder):
            self.references[holder, block] += 1

    def free(self) -> None:
        _, holder = self.who()
        held = [block for (name, block), n in self.references.items() if name == holder and n]
        given = [self.random.choice([*held, self.block()]) for _ in range(self.random.randrange(1, 3))]
        self.do("free", given, holder)
        for block in given:
            if block:
                self.references[holder, block] -= 1

    def touch(self) -> None:
        request, holder = self.who()
        if request.hashed_length:
            name = key(request, 2 * self.random.randrange(1, request.hashed_length // 2 + 1), self.group())
            [found] = self.do("lookup", [name])
            block = self.block() if found is None else found
            self.do("touch", block, name, holder)
            if block:
                self.references[holder, block] += 1

    def register(self) -> None:
        request, _ = self.who()
        if request.hashed_length:
            block, group = self.block(), self.group()
            position = 2 * self.random.randrange(1, request.hashed_length // 2 + 1)
            self.do("write", request, block, position, group)
            self.do("cache_partial_block", request, block, position, group, self.random.random() < 0.2)

    def full(self) -> None:
        request, _ = self.who()
        group = self.group()
        size = self.rig.config.groups[group].block_size
        table = [self.block() for _ in range(2)]
        for slot, block in enumerate(table):
            if block and (slot + 1) * size <= request.num_tokens:
                self.do("write", request, block, (slot + 1) * size, group)
        self.do("cache_full_blocks", request, table, 0, min(2, request.hashed_length // size), group)

    def evict(self) -> None:
        self.do("evict", [self.block() for _ in range(self.random.randrange(3))])

    def move(self) -> None:
        self.do("move", self.block(), self.block())

    def copy(self) -> None:
        _, holder = self.who()
        self.do("copy", self.block(), self.block(), holder)

    def reset(self) -> None:
        self.do("reset")

    def edit(self) -> None:
        request, _ = self.who()
        request.truncate(self.random.randrange(request.num_tokens + 1))
        request.append([self.random.randrange(1, 9) for _ in range(self.random.randrange(9 - request.num_tokens))])


def check_references(driver: Driver, state: PoolState) -> None:
    for block_id, block in enumerate(state.blocks):
        held = {name: n for (name, held_id), n in driver.references.items() if held_id == block_id and n}
        assert block.ref_cnt == sum(held.values())
        if driver.rig.config.holders is HolderMode.NAMED:
            assert {name for name, _ in block.holders} == set(held)
            assert block.writer is None or block.writer in held
        assert (block_id in state.free_queue) == (block_id != 0 and not held)
    assert len(set(state.free_queue)) == len(state.free_queue) == driver.rig.pool.num_free


def check_entries(driver: Driver, state: PoolState) -> None:
    forward = [(name, block_id) for name, blocks in state.index.items() for block_id in blocks]
    reverse = [(name, block_id) for block_id, block in enumerate(state.blocks) for name, _ in block.keys]
    assert sorted(forward) == sorted(reverse) == sorted(set(forward))
    assert () not in state.index.values()
    for name in state.index:
        assert len({position for block in state.blocks for k, position in block.keys if k == name}) == 1
    for block in state.blocks:
        if block.keys:
            assert block.group is not None
            group = driver.rig.config.groups[block.group]
            positions = [position for _, position in block.keys]
            assert {int.from_bytes(name[32:], "big") for name, _ in block.keys} == {block.group}
            assert {(position - 1) // group.block_size for position in positions} == {block.slot}
            assert len(set(positions)) == len(positions)
            full = any(position % group.block_size == 0 for position in positions)
            assert len(positions) == 1 or (not full and group.kind is not GroupKind.RECURRENT)
    null = state.blocks[0]
    assert (null.ref_cnt, null.holders, null.keys, null.group, null.slot, null.writer) == (0, (), (), None, None, None)


def fold_by_hand(driver: Driver, resident: Counter[Key]) -> None:
    for event in driver.rig.events():
        match event:
            case Stored():
                resident.update(p.digest + event.group.to_bytes(4, "big") for p in event.hashes)
            case Removed():
                resident[event.digest + event.group.to_bytes(4, "big")] -= 1
            case Cleared():
                resident.clear()


@pytest.mark.clause(
    "INV-PARTITION-1",
    "INV-QUEUE-1",
    "INV-QUEUE-2",
    "INV-COUNT-1",
    "INV-WRITER-1",
    "INV-NULL-1",
    "INV-INDEX-1",
    "INV-INDEX-2",
    "INV-INDEX-3",
    "INV-SLOT-1",
    "INV-CHAIN-1",
    "INV-FULL-1",
    "INV-SOUND-1",
    "INV-SERVED-1",
    "INV-EVENTS-1",
    "INV-HASHES-1",
    "ERR-ATOMIC-1",
    "EVENT-DRAIN-1",
    "CONTENT-SOUND-1",
)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("groups", "config"), [c[1:] for c in CONFIGURATIONS], ids=[c[0] for c in CONFIGURATIONS])
def test_every_invariant_holds_after_every_step_of_a_random_run(
    seed: int, groups: tuple[GroupConfig, ...], config: dict[str, Any]
) -> None:
    driver = Driver(seed, groups, config)
    resident: Counter[Key] = Counter()
    per_copy = driver.rig.config.residency is Residency.PER_COPY
    for _ in driver.steps(150):
        fold_by_hand(driver, resident)
        state = driver.rig.pool.observe()
        check_references(driver, state)
        check_entries(driver, state)
        assert +resident == Counter({name: len(blocks) if per_copy else 1 for name, blocks in state.index.items()})
        driver.rig.check()
    missing = {"allocate", "free", "touch", "register", "evict", "edit"} - set(driver.accepted)
    assert not missing


# Each invariant where a pool would most easily lose it.


@pytest.mark.clause("INV-PARTITION-1", "INV-QUEUE-1", "INV-QUEUE-2")
def test_a_block_is_queued_exactly_while_nobody_holds_it(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    seen = [rig.queue()]
    steps: list[Callable[[], None]] = [
        lambda: rig.touch(r2, 1, 4),
        lambda: rig.free(r1, 1),
        lambda: rig.free(r2, 1),
        lambda: rig.touch(r2, 1, 4),
        lambda: rig.pool.evict([1]),
        lambda: rig.free(r2, 1),
    ]
    for step in steps:
        step()
        seen.append(rig.queue())
        assert rig.pool.num_free == len(seen[-1])
    assert seen == [[2, 3], [2, 3], [2, 3], [2, 3, 1], [2, 3], [2, 3], [1, 2, 3]]


@pytest.mark.clause("INV-COUNT-1", "INV-WRITER-1")
def test_references_are_the_holders_and_the_writer_is_one_of_them(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.touch(r2, 1, 4)
    rig.free(r1, 1)
    block = rig.pool.observe().blocks[1]
    assert (block.ref_cnt, block.holders, block.writer) == (1, (("r2", at(r1, 4)),), None)


@pytest.mark.clause("INV-NULL-1")
def test_the_null_block_stays_as_it_was_made(rig: Rig) -> None:
    r1 = rig.request("r1")
    before = rig.pool.observe().blocks[0]
    rig.fill(r1, 1)
    rig.touch(r1, 0, 4)
    rig.pool.cache_full_blocks(r1, [0, 0], 0, 2, 0)
    rig.free(r1, 0, 1, 0)
    rig.pool.reset()
    assert rig.pool.observe().blocks[0] == before


@pytest.mark.clause("INV-INDEX-1", "INV-INDEX-2", "INV-INDEX-3")
def test_the_index_stays_exact_when_siblings_are_moved_onto_and_dropped(new_rig: MakeRig) -> None:
    rig = new_rig(blocks=5)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.fill(r2, 1)
    rig.take(r1)
    rig.pool.move(1, 3)
    rig.pool.evict([2])
    state = rig.pool.observe()
    assert state.index == {key(r1, 4): (3,)}
    assert [block.keys for block in state.blocks] == [(), (), (), ((key(r1, 4), 4),), ()]


@pytest.mark.clause("INV-SLOT-1", "INV-CHAIN-1", "INV-FULL-1")
@EVERY_KIND
def test_a_blocks_keys_name_one_text_in_one_slot(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(replace(group, block_size=8))
    r1 = rig.request("r1", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    rig.take(r1)
    rig.put(r1, 1, 6)
    for position in (2, 4, 10, 8, 6):
        try:
            rig.pool.write(r1, 1, position, 0)
            rig.pool.cache_partial_block(r1, 1, position, 0)
        except PoolError:
            pass
    positions = [position for _, position in rig.pool.observe().blocks[1].keys]
    assert positions == ([6] if group is RECURRENT else [8])


@pytest.mark.clause("INV-SERVED-1", "INV-SOUND-1")
@EVERY_KIND
def test_what_a_reader_was_served_survives_everything_that_others_do(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.touch(r2, 1, 4)
    rig.pool.evict([1])
    r1.truncate(2)
    r1.append([9, 9])
    [other] = rig.take(r1)
    rig.put(r1, other, 4)
    attempts: list[Callable[[], None]] = [
        lambda: rig.pool.write(r1, 1, 4, 0),
        lambda: rig.pool.copy(other, 1, "r1"),
        lambda: rig.pool.move(other, 1),
    ]
    for attempt in attempts:
        with pytest.raises(PoolError):
            attempt()
        rig.check()
    rig.free(r1, 1, other)
    rig.take(r1, rig.pool.num_free)
    content = rig.pool.read(1, "r2")
    assert content is not None
    assert content.tokens[: content.length][:4] == [1, 2, 3, 4]


@pytest.mark.clause("INV-EVENTS-1")
@pytest.mark.parametrize("residency", Residency)
def test_a_consumer_of_all_events_has_the_resident_keys(new_rig: MakeRig, residency: Residency) -> None:
    rig = new_rig(residency=residency)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 2)
    rig.fill(r2, 1)
    rig.pool.evict([2])
    consumer = EventMirror(rig.config, rig.pool.hasher)
    events = rig.pool.take_events()
    consumer.fold(events)
    rig.mirror.fold(events)
    copies = 2 if residency is Residency.PER_COPY else 1
    assert consumer.resident == Counter({key(r1, 4): copies})


@pytest.mark.clause("INV-HASHES-1")
def test_hashes_are_those_of_the_tokens_after_any_edits(rig: Rig) -> None:
    r1 = rig.request("r1", [1, 2, 3])
    edits: list[Callable[[], None]] = [
        lambda: r1.append([4, 5]),
        lambda: r1.truncate(1),
        lambda: r1.append([20, 3, 4]),
    ]
    for edit in edits:
        edit()
        assert r1.hashes == rig.request("fresh", r1.tokens).hashes
    assert at(r1, 4) == PrefixHash(rig.request("fresh", [1, 20, 3, 4]).hashes[1], 4)
