"""The hybrid layer of the backend: small examples of the clauses by hand, and random walks beside the reference."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kvproof.gpu_backend import BlockPool, Request, _core, queued_copies
from kvproof.gpu_backend.hashing import make_key
from kvproof.gpu_backend.hybrid import ChunkWrite, HybridCache, Match, Running, TornCache
from kvproof.gpu_backend.hybrid.geometry import Geometry
from kvproof.gpu_backend.hybrid.hits import look_up, match
from kvproof.spec.errors import (
    AlreadyAdmitted,
    AlreadyHeld,
    ConcurrentUse,
    ContentConflict,
    InvalidArgument,
    InvalidBlock,
    InvalidGroup,
    NoOpenStep,
    NotAdmitted,
    NotAligned,
    NotCommitted,
    NotReferenced,
    OutOfBlocks,
    OutOfOrder,
    OutOfRange,
    PoolError,
)
from kvproof.spec.vocabulary import (
    CommitMode,
    GroupConfig,
    GroupKind,
    HashAlgorithm,
    HybridConfig,
    PoolConfig,
    Retention,
)
from tests.gpu_backend.hybrid_walk import Mismatch, Walk

FULL = GroupConfig(GroupKind.FULL_ATTENTION, 4)
STATE = GroupConfig(GroupKind.RECURRENT, 4)


def window(rows: int) -> GroupConfig:
    return GroupConfig(GroupKind.SLIDING_WINDOW, 4, rows)


def config(*groups: GroupConfig, hybrid: HybridConfig | None = None, blocks: int = 20) -> PoolConfig:
    """h = 2."""
    return PoolConfig(blocks, 2, groups, HashAlgorithm.SHA256, commit=CommitMode.STEPS, hybrid=hybrid or HybridConfig())


class Model:
    """A cache, and its steps one by one."""

    def __init__(
        self,
        *groups: GroupConfig,
        hybrid: HybridConfig | None = None,
        blocks: int = 20,
        cache: type[HybridCache] = HybridCache,
    ) -> None:
        self.pool = BlockPool(config(*groups, hybrid=hybrid, blocks=blocks))
        self.cache = cache(self.pool)

    def request(self, name: str, tokens: int | Sequence[int]) -> Request:
        return self.pool.request(name, range_of(tokens))

    def step(self, *calls: Callable[[], object]) -> None:
        """Do this in a step of its own."""
        step = self.pool.begin_step()
        for call in calls:
            call()
        self.cache.commit(step)

    def run(self, request: Request, *ends: int) -> None:
        """Admit the request and advance it, a step for each end."""
        self.step(lambda: self.cache.admit(request, ends[0]))
        for end in ends[1:]:
            self.step(lambda end=end: self.cache.advance(request, end))  # type: ignore[misc]

    def tables(self, name: str) -> list[list[int]]:
        return self.cache.running[name].tables


def range_of(tokens: int | Sequence[int]) -> list[int]:
    return list(range(tokens)) if isinstance(tokens, int) else list(tokens)


# --- configuration ----------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[HybridConfig, type[PoolError]]] = {
    "checkpoints without fine-grained hits": (HybridConfig(fine_grained=False, checkpoints=True), InvalidArgument),
    "an interval without its policy": (HybridConfig(interval=4), InvalidArgument),
    "intervals without an interval": (HybridConfig(retention=Retention.INTERVAL), InvalidArgument),
    "an interval that is no multiple of h": (HybridConfig(retention=Retention.INTERVAL, interval=3), NotAligned),
    "a drop of a recurrent group": (HybridConfig(drop=(1,)), InvalidArgument),
    "a drop of a group that is not there": (HybridConfig(drop=(2,)), InvalidGroup),
    "a drop twice": (HybridConfig(drop=(0, 0)), InvalidArgument),
    "a lookahead below 0": (HybridConfig(lookahead=-1), OutOfRange),
    "a retention that is none": (HybridConfig(retention="last"), InvalidArgument),  # type: ignore[arg-type]
    "a truth that is none": (HybridConfig(fine_grained=1), InvalidArgument),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("why", REFUSED)
def test_settings_that_cannot_work_are_refused(why: str) -> None:
    hybrid, error = REFUSED[why]
    with pytest.raises(error):
        BlockPool(config(FULL, STATE, hybrid=hybrid))


def test_settings_need_steps_and_an_alignment() -> None:
    with pytest.raises(InvalidArgument, match="commit=steps"):
        BlockPool(replace(config(FULL), commit=CommitMode.IMMEDIATE))
    huge = tuple(GroupConfig(GroupKind.FULL_ATTENTION, 2 * size) for size in (2**31 - 1, 2**29 - 3, 2**31 + 11))
    with pytest.raises(OutOfRange, match="common multiple"):
        BlockPool(config(*huge))


def test_a_cache_needs_settings() -> None:
    with pytest.raises(InvalidArgument, match="hybrid"):
        HybridCache(BlockPool(replace(config(FULL), hybrid=None)))
    with pytest.raises(InvalidArgument, match="BlockPool"):
        HybridCache(BlockPool.__new__(BlockPool))
    with pytest.raises(InvalidArgument, match="BlockPool"):
        HybridCache(None)  # type: ignore[arg-type]


def test_a_pool_has_one_cache() -> None:
    model = Model(FULL)
    model.run(model.request("r", 4), 4)
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="the pool has a cache already"):
            HybridCache(model.pool)
    model.cache.release("r")
    HybridCache(BlockPool.restore(model.pool.save()))


def test_a_saved_pool_keeps_its_settings() -> None:
    hybrid = HybridConfig(drop=(0,), lookahead=3, retention=Retention.INTERVAL, interval=8, checkpoints=True)
    pool = BlockPool(config(FULL, STATE, hybrid=hybrid))
    assert BlockPool.restore(pool.save()).config == pool.config


def test_a_prompt_is_what_a_request_came_with_or_what_is_left_of_it() -> None:
    request = Model(FULL).request("r", 9)
    request.append([1, 2])
    assert request.num_prompt_tokens == 9
    request.truncate(5)
    request.append([7])
    assert request.num_prompt_tokens == 5


# --- the joint hit ----------------------------------------------------------------------------------------------------


def named(model: Model, group: int, *positions: int) -> None:
    """Somebody computed the tokens 0, 1, 2, ... and has these keys in the group."""
    request = model.request(f"writer{group}", 40)
    for position in positions:
        [block] = model.pool.allocate(1, request.request_id)
        model.pool.cache_partial_block(request, block, position, group)


def test_a_request_begins_where_every_group_can_go_on() -> None:
    """The picture of the chapter: rows up to 10, states at 4 and 12."""
    model = Model(FULL, STATE)
    model.step(lambda: named(model, 0, 4, 8, 10), lambda: named(model, 1, 4, 12))
    found = model.cache.match(model.request("r", 14))
    assert (found, found.uncached) == (Match(hit=4, junction=10, pending=4), 6)


def test_rows_inside_a_slot_serve_a_request_that_goes_past_them() -> None:
    model = Model(FULL)
    model.step(lambda: named(model, 0, 4, 8))
    hits = [model.cache.match(model.request("r", n)).hit for n in (9, 8, 7)]
    assert hits == [8, 4, 4]


def test_a_drop_computes_the_last_rows_again() -> None:
    model = Model(FULL, hybrid=HybridConfig(drop=(0,)))
    model.step(lambda: named(model, 0, 4, 8))
    assert [model.cache.match(model.request("r", n)).hit for n in (9, 8, 4, 3)] == [6, 6, 2, 0]


def test_a_window_needs_its_last_rows_only() -> None:
    model = Model(window(5))
    model.step(lambda: named(model, 0, 8, 12))
    assert model.cache.match(model.request("r", 14)).hit == 12
    assert Model(window(6)).cache.match(model.request("r", 14)).hit == 0


def test_coarse_hits_are_multiples_of_all_block_sizes() -> None:
    model = Model(FULL, GroupConfig(GroupKind.FULL_ATTENTION, 6), hybrid=HybridConfig(fine_grained=False))
    model.step(lambda: named(model, 0, 4, 8, 12, 16), lambda: named(model, 1, 6, 12, 18))
    assert model.cache.match(model.request("r", 18)).hit == 12


def test_what_is_reserved_is_shared_by_full_attention_and_pending_for_the_rest() -> None:
    model = Model(FULL, STATE)
    model.pool.begin_step()
    named(model, 0, 4, 6)
    named(model, 1, 4)
    assert model.cache.match(model.request("r", 9)) == Match(hit=0, junction=4, pending=4)
    model.cache.commit(1)
    assert model.cache.match(model.request("r", 9)) == Match(hit=4, junction=6, pending=4)


def test_one_lookup_says_of_all_keys_what_is_found_one_by_one() -> None:
    found = set()
    for walk in [walk for walk in map(Walk, range(4)) for _ in range(10)]:
        walk.take(15)
        for _, request in walk.requests.values():
            groups, n = len(walk.config.groups), request.num_hashes
            keys = [make_key(group, digest) for group in range(groups) for digest in request.hashes]
            hits = walk.ours.find(keys)
            found |= {(hit.block is None, hit.reserved is None, hit.pending is None) for hit in hits}
            tables = [[getattr(hit, part) for hit in hits] for part in ("block", "reserved", "pending")]
            words = memoryview(walk.ours.find_matrix(request)).cast("i").tolist()
            assert words == [-1 if block is None else block for table in tables for block in table]
            assert len(words) == 3 * groups * n
    assert {(False, True, False), (True, False, False), (True, True, False), (True, True, True)} <= found


def test_what_a_holder_has_to_know_of_a_block() -> None:
    model = Model(FULL)
    request = model.request("r", 4)
    model.step(lambda: model.cache.admit(request, 4))
    key = request.key_at(0, 4)
    assert key is not None
    assert model.pool.uses([1, 2], "r") == [(1, True, True, 4, 0), (0, False, False, 0, 0)]
    model.step(lambda: model.pool.touch(1, key, "other"))
    assert model.pool.uses([1], "r") == [(2, True, True, 4, 4)]
    assert model.pool.uses([1], "other") == [(2, True, False, 4, 0)]
    assert model.pool.uses([1], "nobody") == [(2, False, False, 4, 4)]
    assert [model.pool.num_held(name) for name in ("r", "other", "nobody")] == [1, 1, 0]
    [use] = model.pool.uses([1], "r")
    assert (use.references, use.is_held, use.is_writer, use.named_to, use.read_to) == use
    with pytest.raises(InvalidBlock):
        model.pool.uses([20], "r")


@pytest.mark.parametrize(
    "change", [lambda request: request.append([0] * 9), lambda request: request.truncate(2)], ids=["append", "truncate"]
)
def test_a_request_that_changes_while_it_is_looked_up_is_what_it_was(change: Callable[[Request], object]) -> None:
    model = Model(FULL, STATE)
    model.run(model.request("r1", 13), 8, 12, 13)
    request, expected = model.request("r", 13), model.cache.match(model.request("r2", 13))

    class Changing:
        def find_matrix(self, request: Request) -> bytes:
            found = model.pool.find_matrix(request)
            change(request)
            return found

    geometry = Geometry(model.pool.config)
    assert match(geometry, look_up(Changing(), geometry, request)) == expected  # type: ignore[arg-type]


def test_matching_changes_nothing_and_takes_no_strangers() -> None:
    model = Model(FULL)
    model.step(lambda: named(model, 0, 4))
    before = model.pool.observe()
    model.cache.match(model.request("r", 9))
    assert model.pool.observe() == before
    with pytest.raises(InvalidArgument):
        model.cache.match(BlockPool(replace(model.pool.config, hash_seed=b"other")).request("r", [1]))
    with pytest.raises(InvalidArgument):
        model.cache.match("r")  # type: ignore[arg-type]


# --- where chunks end -------------------------------------------------------------------------------------------------

SIX = GroupConfig(GroupKind.RECURRENT, 6)


def chunks(model: Model, request: Request, cap: int, junction: int = 0) -> list[int]:
    """The ends of all chunks of a request that is offered as much as it can get."""
    ends, start = [], 0
    while start < request.num_tokens:
        start = model.cache.split(request, start, min(cap, request.num_tokens - start), cap, junction)
        ends.append(start)
    return ends


def test_a_prefill_stops_where_states_are_kept() -> None:
    """The picture of the chapter: P = 17, B = 6, h = 2."""
    model = Model(FULL, SIX)
    request = model.request("r", 17)
    assert chunks(model, request, 100) == [12, 16, 17]
    assert chunks(model, request, 7) == [6, 12, 16, 17]
    assert chunks(model, request, 100, junction=8) == [6, 12, 16, 17]
    assert chunks(model, request, 5) == [5, 6, 11, 12, 16, 17]


def test_checkpoints_drop_and_lookahead_move_the_stops() -> None:
    kept = Model(FULL, SIX, hybrid=HybridConfig(checkpoints=True))
    assert chunks(kept, kept.request("r", 17), 100, junction=8) == [8, 12, 16, 17]
    dropped = Model(FULL, SIX, hybrid=HybridConfig(drop=(0,)))
    assert chunks(dropped, dropped.request("r", 17), 100) == [6, 14, 17]
    ahead = Model(FULL, SIX, hybrid=HybridConfig(lookahead=6))
    assert chunks(ahead, ahead.request("r", 17), 100) == [6, 10, 12, 17]
    coarse = Model(FULL, SIX, hybrid=HybridConfig(fine_grained=False))
    assert chunks(coarse, coarse.request("r", 17), 100) == [12, 17]


def test_a_chunk_that_would_stop_inside_a_block_waits_if_waiting_helps() -> None:
    model = Model(FULL, SIX)
    request = model.request("r", 17)
    assert model.cache.split(request, 0, 5, 6, 0) == 0
    assert model.cache.split(request, 0, 5, 5, 0) == 5
    assert model.cache.split(request, 17 - 1, 1, 1, 0) == 17


def test_without_states_a_chunk_ends_where_its_tokens_end() -> None:
    model = Model(FULL)
    assert model.cache.split(model.request("r", 17), 3, 4, 9, 8) == 7


@pytest.mark.parametrize(
    "given", [(9, 1, 1, 0), (-1, 1, 1, 0), (0, 0, 1, 0), (0, 10, 10, 0), (0, 2, 1, 0), (0, 1, 1, 10)]
)
def test_a_split_out_of_range_is_refused(given: tuple[int, int, int, int]) -> None:
    model = Model(FULL, STATE)
    with pytest.raises(OutOfRange):
        model.cache.split(model.request("r", 9), *given)


# --- admission --------------------------------------------------------------------------------------------------------


def test_a_request_shares_what_is_full_and_copies_what_is_not() -> None:
    """The picture of the chapter."""
    model = Model(FULL)
    first, second = model.request("r1", 17), model.request("r2", [*range(8), 90, 91])
    model.run(first, 12, 16)
    assert model.tables("r1") == [[1, 2, 3, 4]]
    second.truncate(8)
    model.step(lambda: model.cache.admit(second, 8))
    assert model.tables("r2") == [[1, 5]]
    model.cache.release("r2")
    dropping = Model(FULL, hybrid=HybridConfig(drop=(0,)))
    dropping.run(dropping.request("r1", 17), 12, 16)
    third = dropping.request("r2", [*range(8), 90])
    dropping.pool.begin_step()
    assert dropping.cache.admit(third, 9).hit == 6
    assert dropping.tables("r2") == [[1, 5, 6]]
    assert [(src, dst) for _, src, dst, _ in dropping.pool.observe().steps.copies] == [(2, 5)]


def test_what_was_hit_is_not_allocated_again() -> None:
    model = Model(FULL, blocks=4)
    model.run(model.request("r1", 9), 9)
    model.cache.release("r1")
    again = model.request("r2", 9)
    model.step(lambda: model.cache.admit(again, 9))
    assert model.tables("r2") == [[1, 2, 3]]


def test_a_reader_of_the_same_batch_attaches_and_falls_with_its_writer() -> None:
    model = Model(FULL)
    writer, reader = model.request("r1", 9), model.request("r2", 10)
    model.pool.begin_step()
    model.cache.admit(writer, 9)
    assert model.cache.admit(reader, 10) == Match(hit=8, junction=0, pending=8)
    assert model.tables("r2") == [[1, 2, 4]]
    assert model.cache.rollback(["r1"]) == ["r1", "r2"]
    assert (model.cache.running, model.pool.num_free) == ({}, 19)


def test_an_admission_without_room_says_how_many_blocks_it_takes() -> None:
    model = Model(FULL, STATE, blocks=4)
    request = model.request("r", 13)
    model.pool.begin_step()
    before = model.pool.observe()
    with pytest.raises(OutOfBlocks, match="takes 5 blocks"):
        model.cache.admit(request, 13)
    assert (model.pool.observe(), model.cache.running) == (before, {})


def test_admissions_that_are_not_allowed_are_refused() -> None:
    model = Model(FULL)
    request = model.request("r", 9)
    with pytest.raises(NoOpenStep):
        model.cache.admit(request, 9)
    model.pool.begin_step()
    for end in (0, 10):
        with pytest.raises(OutOfRange):
            model.cache.admit(request, end)
    with pytest.raises(InvalidArgument):
        model.cache.admit(model.request("copy:r", 9), 9)
    model.cache.admit(request, 4)
    with pytest.raises(AlreadyAdmitted):
        model.cache.admit(request, 9)


@pytest.mark.clause("ERR-TYPE-1")
@pytest.mark.parametrize(
    ("operation", "arguments"),
    [("match", ()), ("split", (0, 1, 1, 0)), ("admit", (4,)), ("advance", (4,)), ("truncate", (2,))],
)
def test_only_requests_that_are_hashed_by_the_contract_of_the_pool_are_taken(
    operation: str, arguments: tuple[int, ...]
) -> None:
    model = Model(FULL)
    strangers = BlockPool(replace(config(FULL), hash_seed=b"another seed"))
    model.pool.begin_step()
    before = model.pool.observe()
    named_like_a_copy = [model.request("copy:r", 9)] * (operation != "truncate")
    for wrong in (None, "r", strangers.request("r", range_of(9)), *named_like_a_copy):
        with pytest.raises(InvalidArgument):
            getattr(model.cache, operation)(wrong, *arguments)
    assert (model.pool.observe(), model.cache.running) == (before, {})


# --- going on ---------------------------------------------------------------------------------------------------------


def test_a_request_lets_go_of_what_it_settled_past() -> None:
    model = Model(FULL, window(3), STATE)
    request = model.request("r", 21)
    model.run(request, 8, 12)
    assert model.tables("r") == [[1, 2, 6], [0, 4, 7], [0, 5, 8]]
    model.step(lambda: model.cache.advance(request, 16))
    assert [table[:2] for table in model.tables("r")] == [[1, 2], [0, 0], [0, 0]]


class Counted(list[int]):
    """A block table that counts the slots that are looked at."""

    looks = 0

    def __getitem__(self, slot: Any) -> Any:
        Counted.looks += len(range(*slot.indices(len(self)))) if isinstance(slot, slice) else 1
        return super().__getitem__(slot)

    def __iter__(self) -> Iterator[int]:
        Counted.looks += len(self)
        return super().__iter__()


@pytest.mark.clause("COST-1")
def test_a_token_costs_the_same_at_the_end_of_a_long_context() -> None:
    model = Model(FULL, window(9), STATE, blocks=1100)
    request = model.request("r", 4000)
    model.run(request, *range(50, 4001, 50))
    tables = model.cache.running["r"].tables
    tables[:] = map(Counted, tables)
    request.append([0] * 10)
    looks = []
    for end in range(4001, 4011):
        Counted.looks = 0
        model.step(lambda end=end: model.cache.advance(request, end))  # type: ignore[misc]
        looks.append(Counted.looks)
    assert min(looks) > 0
    assert max(looks) < 100  # in tables of a thousand slots; the first token lets go of the chunk before it


def test_a_request_goes_back_to_where_nothing_was_let_go() -> None:
    model = Model(FULL, window(9), blocks=80)
    request = model.request("r", 100)
    model.run(request, 20, 40, 60)
    model.pool.begin_step()
    model.cache.advance(request, 80)
    assert model.cache.rollback(["r"]) == ["r"]
    model.cache.commit(4)
    model.step(lambda: model.cache.advance(request, 70))
    model.step(lambda: model.cache.advance(request, 100))
    model.step(lambda: model.cache.truncate(request, 90))
    request.append([0] * 10)
    model.step(lambda: model.cache.advance(request, 95))
    table = model.tables("r")[1]
    assert (table[:20], len(table)) == ([0] * 20, 24)
    assert 0 not in table[20:]


def test_steps_in_flight_keep_what_a_failure_needs() -> None:
    model = Model(STATE)
    request = model.request("r", 21)
    model.run(request, 4)
    for end in (8, 12):
        model.pool.begin_step()
        model.cache.advance(request, end)
    assert 0 not in model.tables("r")[0]
    model.cache.commit(2)
    model.cache.commit(3)
    model.step(lambda: model.cache.advance(request, 16))
    assert model.tables("r")[0][:2] == [0, 0]


def test_the_key_of_a_state_moves_before_it_is_overwritten() -> None:
    model = Model(STATE)
    request = model.request("r", 7)
    model.run(request, 4, 6)
    [[_, own]] = model.tables("r")
    assert model.pool.lookup([request.key_at(0, 6)]) == [own]  # type: ignore[list-item]
    model.pool.begin_step()
    model.cache.advance(request, 7)
    [(_, source, kept, holder)] = model.pool.observe().steps.copies
    assert (source, holder, model.tables("r")[0][1]) == (own, "copy:0:r", own)
    model.cache.commit(3)
    assert model.pool.lookup([request.key_at(0, 6)]) == [kept]  # type: ignore[list-item]


def test_a_state_that_somebody_else_reads_stays_and_is_copied() -> None:
    model = Model(STATE)
    request = model.request("r", 7)
    model.run(request, 4, 6)
    [[_, old]] = model.tables("r")
    key = request.key_at(0, 6)
    assert key is not None
    model.step(lambda: model.pool.touch(old, key, "other"), lambda: model.cache.advance(request, 7))
    [[_, new]] = model.tables("r")
    assert new != old
    assert model.pool.lookup([key]) == [old]
    assert [name for name, _ in model.pool.observe().blocks[old].holders] == ["other"]


def test_the_tail_of_a_prompt_is_registered_by_the_chunk_that_passes_it() -> None:
    model = Model(FULL, FULL, hybrid=HybridConfig(drop=(1,)))
    request = model.request("r", 10)
    request.append([1])
    model.run(request, 11)
    keys = [request.key_at(group, n) for group in (0, 1) for n in (8, 10)]
    found = model.pool.lookup([key for key in keys if key is not None])
    assert [block is not None for block in found] == [True, False, True, True]


KEPT = {
    Retention.LAST: [18, 22],
    Retention.JUNCTION: [12, 18, 22],
    Retention.BOUNDARIES: [6, 12, 18, 22],
    Retention.INTERVAL: [6, 12, 18, 22],
}


@pytest.mark.parametrize("retention", Retention)
def test_a_policy_keeps_its_states(retention: Retention) -> None:
    interval = 6 if retention is Retention.INTERVAL else None
    model = Model(FULL, SIX, hybrid=HybridConfig(retention=retention, interval=interval), blocks=40)
    model.step(lambda: named(model, 0, 4, 8, 12, 16))
    request = model.request("r", 23)
    request.append([7] * 3)
    request.truncate(23)
    model.run(request, 6, 12, 18, 22, 23)
    assert model.cache.running["r"].junction == 16
    states = [n for n in range(2, 24, 2) if model.pool.lookup([request.key_at(1, n)]) != [None]]  # type: ignore[list-item]
    assert states == KEPT[retention]


def test_chunks_that_are_not_allowed_are_refused() -> None:
    model = Model(FULL, blocks=4)
    request, twin = model.request("r", 20), model.request("r", 20)
    with pytest.raises(NotAdmitted):
        model.cache.advance(request, 4)
    model.run(request, 4)
    with pytest.raises(NoOpenStep):
        model.cache.advance(request, 8)
    model.pool.begin_step()
    for end in (4, 21):
        with pytest.raises(OutOfRange):
            model.cache.advance(request, end)
    with pytest.raises(OutOfBlocks, match="takes 3 blocks"):
        model.cache.advance(request, 16)
    with pytest.raises(InvalidArgument):
        model.cache.advance(twin, 8)
    model.cache.advance(request, 8)
    with pytest.raises(OutOfOrder):
        model.cache.advance(request, 9)


def test_a_forward_pass_writes_rows_slot_by_slot_and_one_state() -> None:
    model = Model(FULL, STATE)
    request = model.request("r", 13)
    model.step(lambda: model.cache.admit(request, 6))
    running = model.cache.running["r"]
    assert running.writes == [ChunkWrite(0, 1, 0, 4), ChunkWrite(0, 2, 4, 6), ChunkWrite(1, 3, 0, 6)]
    model.step(lambda: model.cache.advance(request, 10))
    assert running.writes == [ChunkWrite(0, 2, 6, 8), ChunkWrite(0, 4, 8, 10), ChunkWrite(1, 5, 6, 10)]


def test_what_was_taken_back_writes_nothing() -> None:
    model = Model(FULL)
    request = model.request("r", 13)
    model.run(request, 6)
    model.pool.begin_step()
    model.cache.advance(request, 10)
    model.cache.rollback(["r"])
    assert model.cache.running["r"].writes == []


@pytest.mark.clause("ADVANCE-WRITE-1")
def test_without_memory_the_pool_checks_every_write_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[tuple[int, int, int]] = []
    right = _core.Hand.write

    def write(self: _core.Hand, request: Request, block: int, position: int, group: int) -> None:
        right(self, request, block, position, group)
        checked.append((group, block, position))

    monkeypatch.setattr(_core.Hand, "write", write)
    model = Model(FULL, STATE)
    model.run(model.request("r", 13), 6)
    assert checked == [(0, 1, 4), (0, 2, 6), (1, 3, 6)]


# --- ends, and ways back ----------------------------------------------------------------------------------------------


def test_a_request_that_ends_frees_its_blocks_tail_first() -> None:
    model = Model(FULL, STATE, blocks=8)
    model.run(model.request("r", 12), 8)
    assert model.cache.release("r") == ["r"]
    assert list(model.pool.observe().free_queue) == [4, 5, 6, 7, 2, 1, 3]
    with pytest.raises(NotAdmitted):
        model.cache.release("r")


def test_a_failed_step_takes_rows_back_and_ends_states() -> None:
    for groups, stays in (((FULL, window(3)), True), ((FULL, STATE), False)):
        model = Model(*groups)
        request = model.request("r", 20)
        model.run(request, 5)
        model.pool.begin_step()
        model.cache.advance(request, 11)
        assert model.cache.rollback(["r"]) == ["r"]
        assert ("r" in model.cache.running) == stays
        if stays:
            assert (model.cache.running["r"].computed, [len(t) for t in model.tables("r")]) == (5, [2, 2])
            model.cache.advance(request, 7)


def test_a_failed_step_leaves_nothing_of_what_it_was_to_compute_or_to_copy() -> None:
    """The state after 10 tokens is overwritten in a step whose copies are never done."""
    model = Model(FULL, STATE)
    request, again = model.request("r", 11), model.request("again", 11)
    model.run(request, 8, 10)
    step = model.pool.begin_step()
    model.cache.advance(request, 11)
    [[_, kept]] = queued_copies(model.pool).tolist()
    assert model.cache.fail(step) == ["r"]
    assert (model.cache.running, model.pool.num_free, queued_copies(model.pool).tolist()) == ({}, 19, [])
    assert model.pool.observe().blocks[kept].entries == ()
    assert model.cache.match(again).hit == 8
    model.step(lambda: model.cache.admit(again, 10))


def test_a_failed_step_leaves_later_ones_open() -> None:
    model = Model(FULL, STATE)
    one, other = model.request("one", 9), model.request("other", range(50, 59))
    for request in (one, other):
        model.pool.begin_step()
        model.cache.admit(request, 8)
    assert model.cache.fail(1) == ["one"]
    model.cache.commit(2)
    assert (model.cache.match(model.request("a", 9)).hit, model.cache.running["other"].settled) == (0, 8)
    assert model.cache.match(model.request("b", range(50, 59))).hit == 8


@pytest.mark.parametrize("end", [lambda cache: cache.release("r"), lambda cache: cache.rollback(["r"])])
def test_a_key_that_moved_fails_with_its_step_whatever_became_of_the_request(
    end: Callable[[HybridCache], object],
) -> None:
    model = Model(FULL, STATE)
    request, again = model.request("r", 11), model.request("again", 11)
    model.run(request, 8, 10)
    step = model.pool.begin_step()
    model.cache.advance(request, 11)
    end(model.cache)
    assert model.cache.fail(step) == []
    assert model.cache.match(again).hit == 8


def test_only_the_oldest_open_step_fails_and_is_a_number() -> None:
    model = Model(FULL)
    model.pool.begin_step()
    model.cache.admit(model.request("r", 9), 4)
    model.pool.begin_step()
    before = model.pool.observe()
    for error, wrong in (
        *((InvalidArgument, each) for each in (True, 1.0, None, "1", [1])),
        *((OutOfRange, each) for each in (0, -1)),
        *((OutOfOrder, each) for each in (2, 3, 2**70)),
    ):
        with pytest.raises(error):
            model.cache.fail(wrong)  # type: ignore[arg-type]
        assert (model.pool.observe(), model.cache.running["r"].computed) == (before, 4)
    assert (model.cache.fail(1), model.cache.fail(2)) == (["r"], [])
    with pytest.raises(OutOfOrder):
        model.cache.fail(2)


def test_a_request_without_work_in_flight_is_not_taken_back() -> None:
    model = Model(FULL)
    model.run(model.request("r", 9), 5)
    model.cache.rollback(["r"])
    assert model.cache.running["r"].computed == 5


def test_the_slot_of_a_cut_becomes_a_copy_if_a_key_covers_more() -> None:
    model = Model(FULL)
    request = model.request("r", 12)
    model.run(request, 12)
    with pytest.raises(NoOpenStep):
        model.cache.truncate(request, 7)
    assert request.num_tokens == 12
    model.pool.begin_step()
    model.cache.truncate(request, 7)
    running = model.cache.running["r"]
    assert (model.tables("r"), running.computed, running.settled) == ([[1, 4]], 7, 4)
    with pytest.raises(NotCommitted):
        model.cache.truncate(request, 6)
    request.append([9])
    model.cache.advance(request, 8)
    model.cache.commit(2)
    assert running.settled == 8


@pytest.mark.parametrize(("evicted", "settled"), [(False, 12), (True, 16)])
def test_a_cut_goes_back_to_where_every_group_can_write_on(evicted: bool, settled: int) -> None:
    """The copied slot begins at 16, inside the slot of the second group that ends at 18 and has a key there."""
    model = Model(FULL, GroupConfig(GroupKind.FULL_ATTENTION, 6))
    request = model.request("r", 25)
    model.run(request, 25)
    model.pool.begin_step()
    if evicted:
        model.pool.evict([model.tables("r")[1][2]])
    model.cache.truncate(request, 18)
    assert model.cache.running["r"].settled == settled
    model.cache.rollback(["r"])
    assert model.cache.running["r"].computed == settled
    request.append([70])
    model.cache.advance(request, settled + 1)


def test_a_cut_that_can_be_taken_back_to_nowhere_ends_the_request() -> None:
    model = Model(FULL, GroupConfig(GroupKind.FULL_ATTENTION, 6))
    request = model.request("r", 13)
    model.run(request, 13)
    model.pool.begin_step()
    model.cache.truncate(request, 6)
    assert model.cache.running["r"].settled == 0
    assert model.cache.rollback(["r"]) == ["r"]
    assert model.cache.running == {}


def test_a_window_of_one_row_is_cut_over_slots_that_are_gone() -> None:
    model = Model(FULL, GroupConfig(GroupKind.SLIDING_WINDOW, 6, 1))
    request = model.request("r", 25)
    model.run(request, 20, 25)
    model.pool.begin_step()
    model.cache.truncate(request, 22)
    assert model.cache.running["r"].settled == 12


@pytest.mark.parametrize("sizes", [(2, 4), (4, 2)])
def test_a_chunk_that_may_not_be_written_changes_nothing(sizes: tuple[int, int]) -> None:
    """The request was shortened by itself (GROUP-OWN-1); in both groups a key stands at 10."""
    model = Model(*[GroupConfig(GroupKind.FULL_ATTENTION, size) for size in sizes])
    request = model.request("r", 11)
    model.run(request, 10)
    request.truncate(9)
    request.append([70, 71, 72])
    model.pool.begin_step()
    before = model.pool.observe(), [list(table) for table in model.tables("r")]
    for _ in range(2):
        with pytest.raises(ContentConflict):
            model.cache.advance(request, 12)
        assert (model.pool.observe(), model.tables("r")) == before
        assert model.cache.running["r"].computed == 10


def test_a_cut_that_nobody_relies_on_needs_no_copy() -> None:
    model = Model(FULL)
    request = model.request("r", 7)
    request.append([5])
    model.run(request, 7)
    model.cache.truncate(request, 6)
    assert (model.tables("r"), model.cache.running["r"].settled) == ([[1, 2]], 6)
    model.cache.truncate(request, 4)
    assert model.tables("r") == [[1]]


def test_a_state_cannot_be_cut_and_a_window_only_where_its_rows_are() -> None:
    for groups in ((STATE,), (window(3),)):
        model = Model(*groups)
        request = model.request("r", 20)
        model.run(request, 12, 14)
        model.cache.truncate(request, 5)
        assert (model.cache.running, request.num_tokens) == ({}, 5)


def test_tokens_that_are_not_computed_can_be_cut_at_any_time() -> None:
    model = Model(STATE)
    request = model.request("r", 20)
    model.pool.begin_step()
    model.cache.admit(request, 5)
    model.cache.truncate(request, 6)
    assert (model.cache.running["r"].computed, request.num_tokens) == (5, 6)
    with pytest.raises(OutOfRange):
        model.cache.truncate(request, 7)


def test_a_second_thread_is_kept_out_of_cache_and_pool() -> None:
    refused: list[str] = []

    class Disturbed(HybridCache):
        def _do_chunk(self, running: Running, start: int, end: int) -> None:
            def disturb() -> None:
                for call in (lambda: self.match(request), lambda: self.pool.allocate(1, "other")):
                    with pytest.raises(ConcurrentUse):
                        call()
                    refused.append("refused")

            thread = threading.Thread(target=disturb)
            thread.start()
            thread.join()
            with pytest.raises(ConcurrentUse):
                self.match(request)
            super()._do_chunk(running, start, end)

    model = Model(FULL, cache=Disturbed)
    request = model.request("r", 4)
    model.run(request, 4)
    assert refused == ["refused"] * 2
    assert model.pool.num_free == 18


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_two_caches_never_share_a_pool_by_a_copy(duplicate: Callable[[HybridCache], object]) -> None:
    with pytest.raises(TypeError, match="a pool has one cache"):
        duplicate(Model(FULL).cache)


@pytest.mark.clause("ERR-OWNER-1")
def test_what_runs_in_the_middle_of_an_operation_is_kept_out_of_cache_and_pool() -> None:
    """As a collection of garbage does, or a signal: between any two lines of the hybrid layer."""
    model, alone = Model(FULL, STATE), Model(FULL, STATE)
    outcomes: list[object] = []
    intrusions: list[Callable[[], object]] = [
        lambda: model.pool.allocate(1, "other"),
        lambda: model.pool.observe(),
        lambda: model.cache.rollback(["r"]),
    ]

    def disturb(frame: FrameType, event: str, _: object) -> Any:
        if Path(frame.f_code.co_filename).parent.name != "hybrid":
            return None
        if event == "line" and frame.f_code.co_name != "run_alone":
            for intrude in intrusions:
                try:
                    outcomes.append(intrude())
                except PoolError as error:
                    outcomes.append(type(error))
        return disturb

    for each in (model, alone):
        request, before = each.request("r", 12), sys.gettrace()
        sys.settrace(disturb if each is model else before)
        try:
            each.run(request, 4, 8, 12)
        finally:
            sys.settrace(before)
    assert len(outcomes) > 100
    assert set(outcomes) == {ConcurrentUse}
    assert model.pool.observe() == alone.pool.observe()
    assert model.tables("r") == alone.tables("r")


# --- misuse -----------------------------------------------------------------------------------------------------------


def lose(model: Model, name: str) -> None:
    """Free what a request holds behind the cache's back (GROUP-OWN-1)."""
    model.pool.finish(name, model.cache.running[name].blocks())


def pin(model: Model, request: Request) -> None:
    """Touch a block in the name of a request that is not admitted yet (GROUP-OWN-1)."""
    key = request.key_at(0, 4)
    assert key is not None
    [block] = model.pool.lookup([key])
    assert block is not None
    model.pool.touch(block, key, request.request_id)


MISUSES: dict[str, tuple[Callable[[Model, Request, Request], object], Callable[[Model, Request, Request], object]]] = {
    "admit": (lambda model, _, waits: pin(model, waits), lambda model, _, waits: model.cache.admit(waits, 9)),
    "release": (lambda model, *_: lose(model, "r"), lambda model, *_: model.cache.release("r")),
    "advance": (lambda model, *_: lose(model, "r"), lambda model, runs, _: model.cache.advance(runs, 11)),
    "truncate": (lambda model, *_: lose(model, "r"), lambda model, runs, _: model.cache.truncate(runs, 6)),
    "truncate to nothing": (lambda model, *_: lose(model, "r"), lambda model, runs, _: model.cache.truncate(runs, 0)),
}


@pytest.mark.clause("GROUP-OWN-1")
@pytest.mark.parametrize("groups", [(FULL,), (FULL, STATE), (window(5), FULL)])
@pytest.mark.parametrize("operation", MISUSES)
def test_a_misuse_that_is_seen_before_anything_changes_tears_no_cache(
    operation: str, groups: tuple[GroupConfig, ...]
) -> None:
    misuse, call = MISUSES[operation]
    model = Model(*groups)
    runs, waits = model.request("r", 14), model.request("r2", 14)
    model.run(runs, 4, 8, 10)
    model.pool.begin_step()
    misuse(model, runs, waits)
    before = model.pool.observe(), repr(model.cache.running)
    for _ in range(2):
        with pytest.raises((AlreadyHeld, NotReferenced)):
            call(model, runs, waits)
        assert (model.pool.observe(), repr(model.cache.running)) == before
    model.cache.match(model.request("other", 14))


def assert_loss_is_seen(model: Model, lost: int, call: Callable[[], object]) -> None:
    """Without the block, which was freed behind the cache's back, the call is refused, and again."""
    model.pool.free([lost], "r")
    before = model.pool.observe(), repr(model.cache.running)
    for _ in range(2):
        with pytest.raises(NotReferenced, match=f"taken block {lost} from 'r'"):
            call()
        assert (model.pool.observe(), repr(model.cache.running)) == before


@pytest.mark.clause("GROUP-OWN-1")
def test_a_slot_that_was_lost_is_seen_before_another_group_lets_go_of_one() -> None:
    model = Model(window(2), window(2))
    request = model.request("r", 14)
    model.run(request, 4, 8)
    model.pool.begin_step()
    assert_loss_is_seen(model, model.tables("r")[1][0], lambda: model.cache.advance(request, 12))


@pytest.mark.clause("GROUP-OWN-1")
def test_a_slot_that_was_lost_is_seen_before_another_group_goes_back() -> None:
    model = Model(FULL, GroupConfig(GroupKind.FULL_ATTENTION, 2))
    request = model.request("r", 14)
    model.run(request, 4, 8)
    assert_loss_is_seen(model, model.tables("r")[1][-1], lambda: model.cache.truncate(request, 4))


def test_a_failed_step_that_the_pool_cannot_take_back_tears_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(FULL)
    step = model.pool.begin_step()
    model.cache.admit(model.request("r", 8), 8)

    def refuse(hand: _core.Hand, names: Sequence[str]) -> None:
        raise NotReferenced(str(names))

    with monkeypatch.context() as changed:
        changed.setattr(_core.Hand, "rollback", refuse)
        with pytest.raises(NotReferenced):
            model.cache.fail(step)
    assert model.cache.fail(step) == ["r"]


@pytest.mark.clause("GROUP-OWN-1")
def test_a_misuse_that_shows_in_the_middle_of_an_operation_is_the_cause_of_what_follows() -> None:
    model = Model(FULL)
    runs = model.request("r", 12)
    model.run(runs, 8)
    model.pool.begin_step()
    [blocks] = model.tables("r")
    model.pool.cache_partial_block(runs, blocks[1], 6, 0)
    reader, key = model.request("r2", 9), runs.key_at(0, 6)
    model.cache.admit(reader, 9)
    model.pool.evict(blocks)
    model.pool.free(model.tables("r2")[0], "r2")
    assert key is not None
    with pytest.raises(PoolError) as first:
        model.cache.rollback(["r", "r2"])
    with pytest.raises(TornCache, match=f"rollback ended in its middle.*{type(first.value).__name__}") as torn:
        model.cache.match(reader)
    assert torn.value.__cause__ is first.value


# --- beside the reference ---------------------------------------------------------------------------------------------

WALKS, CALLS = 45, 200


def walk_all(cache: type[HybridCache]) -> Counter[str]:
    """All walks with caches of this kind; what was done in them. Raises `Mismatch`."""
    done: Counter[str] = Counter()
    for seed in range(WALKS):
        done += Walk(seed, cache).take(CALLS)
    return done


def test_random_walks_are_those_of_the_reference() -> None:
    done = walk_all(HybridCache)
    hits = ("hit inside a slot", "junction", "pending")
    ways_back = ("rolled back together", "fail: moved", "fail: later steps")
    copies = ("advance: move", "advance: copy", "truncate: copy")
    assert all(done[each] > 0 for each in (*hits, *ways_back, *copies, "OutOfBlocks", "NotCommitted")), done


def test_random_walks_with_many_cuts_are_those_of_the_reference() -> None:
    done: Counter[str] = Counter()
    for seed in range(50):
        done += Walk(seed, cuts=True).take(CALLS)
    assert all(done[each] > 3 for each in ("truncate: copy", "rollback", "settled in front of its cut")), done


def test_a_walk_notices_a_difference() -> None:
    class Wrong(HybridCache):
        def match(self, request: Request) -> Match:
            found = super().match(request)
            return replace(found, pending=found.hit)

    with pytest.raises(Mismatch, match="answers of the reference"):
        walk_all(Wrong)
