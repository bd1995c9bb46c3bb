"""The hybrid layer of the backend: small examples of the clauses by hand, and random walks beside the reference."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from kvproof.gpu_backend import BlockPool, Request, queued_copies
from kvproof.gpu_backend.hashing import make_key
from kvproof.gpu_backend.hybrid import ChunkWrite, HybridCache, Match
from kvproof.spec.errors import (
    AlreadyAdmitted,
    ConcurrentUse,
    InvalidArgument,
    InvalidBlock,
    InvalidGroup,
    NoOpenStep,
    NotAdmitted,
    NotAligned,
    NotCommitted,
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

    def __init__(self, *groups: GroupConfig, hybrid: HybridConfig | None = None, blocks: int = 20) -> None:
        self.pool = BlockPool(config(*groups, hybrid=hybrid, blocks=blocks))
        self.cache = HybridCache(self.pool)

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
        HybridCache(None)  # type: ignore[arg-type]


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
    assert model.pool.uses([1, 2], "r") == [(1, True, 4, 0), (0, False, 0, 0)]
    model.step(lambda: model.pool.touch(1, key, "other"))
    assert model.pool.uses([1], "r") == [(2, True, 4, 4)]
    assert model.pool.uses([1], "other") == [(2, False, 4, 0)]
    with pytest.raises(InvalidBlock):
        model.pool.uses([20], "r")


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


# --- going on ---------------------------------------------------------------------------------------------------------


def test_a_request_lets_go_of_what_it_settled_past() -> None:
    model = Model(FULL, window(3), STATE)
    request = model.request("r", 21)
    model.run(request, 8, 12)
    assert model.tables("r") == [[1, 2, 6], [0, 4, 7], [0, 5, 8]]
    model.step(lambda: model.cache.advance(request, 16))
    assert [table[:2] for table in model.tables("r")] == [[1, 2], [0, 0], [0, 0]]


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
    written: list[ChunkWrite] = []

    class Recording(HybridCache):
        def _write(self, request: Request, write: ChunkWrite) -> None:
            super()._write(request, write)
            written.append(write)

    model = Model(FULL, STATE)
    model.cache = Recording(model.pool)
    model.run(model.request("r", 13), 6, 10)
    assert written == [
        ChunkWrite(0, 1, 0, 4),
        ChunkWrite(0, 2, 4, 6),
        ChunkWrite(1, 3, 0, 6),
        ChunkWrite(0, 2, 6, 8),
        ChunkWrite(0, 4, 8, 10),
        ChunkWrite(1, 5, 6, 10),
    ]


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


def test_a_key_that_moved_fails_with_its_step_whatever_became_of_the_request() -> None:
    ends: tuple[Callable[[HybridCache], object], ...] = (
        lambda cache: cache.release("r"),
        lambda cache: cache.rollback(["r"]),
    )
    for end in ends:
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
        def _write(self, request: Request, write: ChunkWrite) -> None:
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

    model = Model(FULL)
    model.cache = Disturbed(model.pool)
    request = model.request("r", 4)
    model.run(request, 4)
    assert refused == ["refused"] * 2
    assert model.pool.num_free == 18


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


def test_a_walk_notices_a_difference() -> None:
    class Wrong(HybridCache):
        def match(self, request: Request) -> Match:
            found = super().match(request)
            return replace(found, pending=found.hit)

    with pytest.raises(Mismatch, match="answers of the reference"):
        walk_all(Wrong)
