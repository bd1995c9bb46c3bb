from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from kvproof.conformance.backends.interface import AdapterError, Answers, Backend, ConcurrentBackend
from kvproof.conformance.backends.reference import CAPABILITIES, ReferenceBackend
from kvproof.conformance.backends.wire import Answer, Step
from kvproof.conformance.certification.events_apart import with_drains, without_drains
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.large import MOST_OBSERVED, LargeWorld, world_of
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    BeginStep,
    CacheFullBlocks,
    Commit,
    Free,
    KeyRef,
    Lookup,
    Operation,
    Touch,
    Write,
)
from kvproof.conformance.preconditions import violations
from kvproof.conformance.undefined import undefined
from kvproof.conformance.workloads import traffic
from kvproof.conformance.workloads.arrivals import Arrival, Workload, WorkloadError, load, parse, shipped
from kvproof.conformance.workloads.play import Played, configurations, play
from kvproof.conformance.workloads.stage import STANDARD, Part, replay_workloads
from kvproof.conformance.workloads.traffic import Engine
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import CommitMode, HolderMode, PoolConfig
from tests.certification.doubles import with_mutant
from tests.conformance.workload_backends import (
    Breaks,
    FreesHeadFirst,
    KeepsKeys,
    LosesEvents,
    MiscountsReferences,
    OnlyPlain,
    TakesOneMore,
    TalksNonsense,
)

PROJECT = Path(__file__).resolve().parents[2]

MODES = configurations(CAPABILITIES, 40)

DEFAULT_MODE = MODES[0]


def in_mode(config: PoolConfig, num_blocks: int) -> PoolConfig:
    return next(
        mode
        for mode in configurations(CAPABILITIES, num_blocks)
        if (mode.hash_algorithm, mode.residency, mode.holders, mode.commit)
        == (config.hash_algorithm, config.residency, config.holders, config.commit)
    )


def operations_of(world: World, workload: Workload) -> list[Operation]:
    """What the engine does, carried out as it goes."""
    done = []
    for operation in Engine(world, workload).serve(workload.arrivals):
        world.apply(operation)
        done.append(operation)
    return done


def replayed(backend: Backend, num_blocks: int, requests: int = 150) -> Played:
    _, capabilities = backend.identify()
    config = configurations(capabilities, num_blocks)[0]
    return play(backend, capabilities, config, load("lmcache_taubench"), requests)


# The files


def test_the_shipped_workloads_are_complete() -> None:
    found = {name: (load(name).block, len(load(name).arrivals)) for name in shipped()}
    assert found == {
        "lmcache_miniswe": (16, 402),
        "lmcache_taubench": (16, 447),
        "mooncake_conversation": (512, 12_031),
        "mooncake_synthetic": (512, 3_993),
    }


def test_source_and_licence_of_each_are_shipped_with_it() -> None:
    folder = PROJECT / "conformance/kvproof/conformance/workloads/data"
    notice = (folder / "README.md").read_text()
    assert "Apache-2.0" in notice
    for name in shipped():
        count = f"{len(load(name).arrivals):,}"
        assert f"| `{name}.jsonl.gz` | {count} |" in notice


def test_arrivals_come_in_order_and_hold_what_the_notice_says() -> None:
    for name in shipped():
        times = [arrival.milliseconds for arrival in load(name).arrivals]
        assert times == sorted(times)
    first = load("mooncake_conversation").arrivals[0]
    assert (first.input_tokens, first.output_tokens, first.blocks) == (6758, 500, list(range(14)))


def packed(*lines: object) -> bytes:
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    return gzip.compress(text.encode(), mtime=0)


HEADER = {"kvproof_workload": 1, "name": "w", "block": 4}


def test_a_workload_is_read() -> None:
    workload = parse(packed(HEADER, [0, 9, 3, [[7, 2], [1, 1]]], [5, 8, 0, [[7, 2]]], {"end": 2}), "w")
    assert workload == Workload("w", 4, (Arrival(0, 9, 3, ((7, 2), (1, 1))), Arrival(5, 8, 0, ((7, 2),))))
    assert workload.arrivals[0].blocks == [7, 8, 1]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"plain text", "f is not gzip, or damaged"),
        (packed(HEADER, {"end": 0})[:-9], "f was cut: its gzip stream has no end"),
        (packed(), "f is empty"),
        (packed("nonsense\n"), "f:1: no JSON"),
        (packed("[" * 10**5), "f:1: no JSON"),
        (packed([1]), "f:1: a workload begins with"),
        (packed({"kvproof_trace": 1}), "f:1: a workload begins with"),
        (packed(HEADER | {"kvproof_workload": 2}, {"end": 0}), "f:1: version 2 of workloads; this reads 1"),
        (packed(HEADER | {"more": 2}, {"end": 0}), "f:1: Object contains unknown field `more`"),
        (packed(HEADER | {"block": 0}, {"end": 0}), "f:1: a block has 0 tokens"),
        (packed(HEADER), 'f was cut or changed: its last line is not {"end": 0}'),
        (packed(HEADER, [0, 4, 0, [[1, 1]]]), 'f was cut or changed: its last line is not {"end": 0}'),
        (packed(HEADER, [0, 4, 0, [[1, 1]]], {"end": 2}), 'f was cut or changed: its last line is not {"end": 1}'),
        (packed(HEADER, [0, 4, 0], {"end": 1}), "f:2: Expected `array` of at least length 4"),
        (packed(HEADER, [0, 4, "x", [[1, 1]]], {"end": 1}), "f:2: Expected `int`, got `str`"),
        (packed(HEADER, [0, 0, 0, []], {"end": 1}), "f:2: a prompt has one token at least"),
        (packed(HEADER, [0, 4, 0, [[-1, 1]]], {"end": 1}), "f:2: block ids are 0 to"),
        (packed(HEADER, [0, 4, 0, [[2**31 - 1, 2]]], {"end": 1}), "f:2: block ids are 0 to"),
        (packed(HEADER, [0, 4, 0, [[1, 2]]], {"end": 1}), "f:2: 2 blocks of 4 for 4 tokens"),
        (packed(HEADER, [0, 8, 0, [[1, 2]]], [0, 4, 0, [[2, 1]]], {"end": 2}), "f:3: block 2 follows 1 and -1"),
    ],
    ids=range(20),
)
def test_a_broken_file_is_refused_and_the_place_is_named(content: bytes, text: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        parse(content, "f")
    assert str(refused.value).startswith(text)


def converter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("workloads_tool", PROJECT / "tools/workloads.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_converter_keeps_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mooncake = {"timestamp": 3, "input_length": 1500, "output_length": 7, "hash_ids": [0, 5, 6]}
    (tmp_path / "mooncake_x.jsonl.gz").write_bytes(packed(mooncake))
    (tmp_path / "lmcache_x.jsonl.gz").write_bytes(packed({"block": 16, "sessions": 1}, [2.587, 0, 40, 9, [[1, 2]]]))
    tool, out = converter(), tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(tool, "DATA", out)
    tool.main(tmp_path)
    mooncake_x, lmcache_x = (parse((out / f"{name}_x.jsonl.gz").read_bytes(), name) for name in ("mooncake", "lmcache"))
    assert mooncake_x == Workload("mooncake_x", 512, (Arrival(3, 1500, 7, ((0, 1), (5, 2))),))
    assert lmcache_x == Workload("lmcache_x", 16, (Arrival(2587, 40, 9, ((1, 2),)),))


# The engine


TWO = Workload("two", 4, (Arrival(0, 10, 1, ((5, 2),)), Arrival(1, 12, 1, ((5, 2), (9, 1)))))


def test_a_request_is_looked_up_touched_allocated_written_registered_and_freed() -> None:
    assert operations_of(world_of(DEFAULT_MODE), TWO) == [
        AddRequest("r1", (10, 11, 12, 13, 0)),
        Lookup((KeyRef("r1", 0, 2), KeyRef("r1", 0, 4))),
        Allocate("r1", 3),
        Write("r1", 1, 2, 0),
        Write("r1", 2, 4, 0),
        Write("r1", 3, 5, 0),
        CacheFullBlocks("r1", (1, 2, 3), 0, 2, 0),
        AddRequest("r2", (10, 11, 12, 13, 18, 19)),
        Lookup((KeyRef("r2", 0, 2), KeyRef("r2", 0, 4), KeyRef("r2", 0, 6))),
        Touch("r2", 1, KeyRef("r2", 0, 2)),
        Touch("r2", 2, KeyRef("r2", 0, 4)),
        Allocate("r2", 1),
        Write("r2", 4, 6, 0),
        CacheFullBlocks("r2", (1, 2, 4), 2, 3, 0),
        Free("r1", (3, 2, 1)),
        Free("r2", (4, 2, 1)),
    ]


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    same = Workload("same", 4, (Arrival(0, 8, 1, ((5, 2),)), Arrival(1, 8, 1, ((5, 2),))))
    world = world_of(DEFAULT_MODE)
    done = operations_of(world, same)
    assert [operation for operation in done if isinstance(operation, Touch)] == [Touch("r2", 1, KeyRef("r2", 0, 2))]
    assert done[-3] == CacheFullBlocks("r2", (1, 3), 1, 2, 0)
    assert (2, 3) in world.state.index.values()  # two blocks have the last key


def test_requests_of_one_step_do_not_see_each_other() -> None:
    config = next(mode for mode in MODES if mode.commit is CommitMode.STEPS)
    done = operations_of(world_of(config), TWO)
    assert [type(operation) for operation in done if isinstance(operation, BeginStep | Commit | Touch)] == [
        BeginStep,
        Commit,
    ]


def test_a_request_waits_for_the_oldest_where_the_pool_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = Workload("apart", 4, tuple(Arrival(i, 12, 1, ((10 * i, 3),)) for i in range(4)))
    for mode in MODES:
        config = in_mode(mode, 7)  # two of them fit
        world = world_of(config)
        engine = Engine(world, apart)
        for operation in engine.serve(apart.arrivals):
            world.apply(operation)
        assert (engine.counts.full, engine.counts.evicted) == (2, 6)


def test_a_request_that_never_fits_is_left_out_and_counted() -> None:
    world = world_of(in_mode(DEFAULT_MODE, 3))
    engine = Engine(world, TWO)
    assert list(engine.serve(TWO.arrivals)) == []
    assert (engine.counts.requests, engine.counts.left_out) == (0, 2)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: f"{mode.hash_algorithm.value} {mode.residency.value}")
def test_all_that_the_engine_does_is_legal_and_defined_and_gives_everything_back(mode: PoolConfig) -> None:
    workload, world = load("lmcache_taubench"), world_of(in_mode(mode, 60))
    for operation in Engine(world, workload).serve(workload.arrivals[:60]):
        assert not violations(world.situation, operation)
        assert undefined(world, operation) is None
        world.apply(operation)
    world.check()
    assert world.pool.num_free == 59
    assert bool(world.state.index)


@pytest.mark.parametrize("name", ["lmcache_taubench", "mooncake_conversation"])
def test_in_a_pool_that_is_large_enough_exactly_what_was_seen_before_is_hit(name: str) -> None:
    workload = load(name)
    arrivals = workload.arrivals[:120]
    seen: set[int] = set()
    expected = 0
    for arrival in arrivals:
        full = arrival.input_tokens // workload.block
        blocks = arrival.blocks[: (arrival.input_tokens - 1) // workload.block]
        known = next((place for place, found in enumerate(blocks) if found not in seen), len(blocks))
        expected += known * workload.block
        seen.update(arrival.blocks[:full])
    world = world_of(in_mode(DEFAULT_MODE, 5_000))
    engine = Engine(world, workload)
    for operation in engine.serve(arrivals):
        world.apply(operation)
    assert engine.counts.hit_tokens == expected > 0
    assert engine.counts.evicted == 0


def test_a_hit_on_a_block_that_nobody_holds_any_more_is_counted() -> None:
    prompts = [5, *(range(100, 100 + 10 * traffic.MOST_RUNNING, 10)), 200, 5]
    again = Workload("again", 4, tuple(Arrival(i, 9, 1, ((first, 2),)) for i, first in enumerate(prompts)))
    world = world_of(in_mode(DEFAULT_MODE, 60))
    engine = Engine(world, again)
    for operation in engine.serve(again.arrivals):
        world.apply(operation)
    assert (engine.counts.hit_tokens, engine.counts.revived) == (8, 2)


def test_not_more_requests_run_at_once_than_declared() -> None:
    workload, world, most = load("lmcache_taubench"), world_of(in_mode(DEFAULT_MODE, 150)), 0
    for operation in Engine(world, workload).serve(workload.arrivals[:30]):
        world.apply(operation)
        most = max(most, len({name for block in world.state.blocks for name, _ in block.holders}))
    assert most == traffic.MOST_RUNNING + 1  # the new one is admitted before the oldest ends


# Large worlds


@pytest.mark.parametrize("mode", MODES[:6], ids=lambda mode: f"{mode.commit.value} {mode.residency.value}")
def test_a_large_world_shows_what_an_observed_one_does(mode: PoolConfig) -> None:
    config, workload = in_mode(mode, 50), load("lmcache_taubench")
    large, observed = LargeWorld(config), World(config)
    junk: Sequence[Operation] = (Free("nobody", (3,)), Allocate("r1", 500), Allocate(None, 500))
    for operation in islice(Engine(large, workload).serve(workload.arrivals), 300):
        for each in (operation, *junk):
            assert violations(large.situation, each) == violations(observed.situation, each)
        assert large.apply(operation) == observed.apply(operation)
        state = large.state
        shown = (tuple(state.blocks), tuple(state.free_queue), state.index, state.pending_events, state.steps)
        expected = observed.state
        assert shown == (
            expected.blocks,
            expected.free_queue,
            expected.index,
            expected.pending_events,
            expected.steps,
        )
        assert large.whole_state() == expected
        assert large.mirror.resident == observed.mirror.resident
        if len(expected.pending_events) > 5:
            large.drain()
            observed.drain()


def test_the_size_decides_how_a_world_is_observed() -> None:
    assert not isinstance(world_of(in_mode(DEFAULT_MODE, MOST_OBSERVED)), LargeWorld)
    assert isinstance(world_of(in_mode(DEFAULT_MODE, MOST_OBSERVED + 1)), LargeWorld)


def test_events_that_are_taken_apart_are_those_that_are_shown() -> None:
    config, workload = in_mode(DEFAULT_MODE, 50), load("lmcache_taubench")
    operations = operations_of(world_of(config), Workload("w", 16, workload.arrivals[:15]))
    shown, apart = ReferenceBackend(), ReferenceBackend()
    shown.start(config)
    apart.start(config)
    steps = without_drains(apart.run(with_drains(operations), False))
    assert [(step.answer, step.events) for step in steps] == [
        (step.answer, step.events) for step in shown.run(operations, True)
    ]
    assert any(step.events for step in steps)


def test_events_that_are_none_are_the_adapters_fault() -> None:
    with pytest.raises(AdapterError, match="take_events answered what are no events"):
        replayed(TalksNonsense(), 300)


# Replays


@pytest.mark.parametrize(("num_blocks", "requests"), [(40, 50), (64, 30), (65, 150), (1_000, 150)])
def test_the_reference_does_not_diverge_from_itself(num_blocks: int, requests: int) -> None:
    played = replayed(ReferenceBackend(), num_blocks, requests)
    assert played.divergence is None
    assert played.operations > 200


def what_differs(played: Played) -> set[str]:
    assert played.divergence is not None
    return {difference.what for difference in played.divergence.differences}


@pytest.mark.parametrize("num_blocks", [64, 100])
@pytest.mark.parametrize(
    ("backend", "found_in"),
    [
        (KeepsKeys, {"events"}),
        (TakesOneMore, {"free_queue", "answer"}),  # a small pool shows it at once
        (FreesHeadFirst, {"free_queue"}),
        (MiscountsReferences, {"ref_cnt"}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_wrong_backend_is_found(backend: type[ReferenceBackend], found_in: set[str], num_blocks: int) -> None:
    assert found_in & what_differs(replayed(backend(), num_blocks))


@pytest.mark.parametrize("name", ["touched_block_stays_queued", "new_queue_is_reversed"])
def test_a_mutant_of_the_reference_is_found_in_a_large_pool(name: str) -> None:
    assert replayed(with_mutant(name), 1_000, 447).divergence is not None


def test_a_lost_event_is_found_where_only_events_are_taken() -> None:
    assert what_differs(replayed(LosesEvents(), 100)) == {"events"}


def test_a_fault_that_only_the_state_shows_is_found_at_the_end_of_a_large_pool() -> None:
    played = replayed(MiscountsReferences(), 5_000)
    assert what_differs(played) == {"ref_cnt"}
    assert played.divergence is not None
    assert played.divergence.operations[-1] == Lookup(())
    assert len(played.divergence.operations) == played.operations + 1


def test_the_state_of_a_large_pool_is_compared_now_and_then() -> None:
    late, config = MiscountsReferences(), in_mode(DEFAULT_MODE, 100)
    late.wrong_from = 700
    lockstep = Lockstep(late, CAPABILITIES, config)
    workload = load("lmcache_taubench")
    operations = Engine(lockstep.model.world, workload).serve(workload.arrivals)
    lockstep.run(operations)
    assert lockstep.divergence is not None
    assert lockstep.divergence.operations[-1] == Lookup(())
    assert 350 <= len(lockstep.operations) <= 350 + 2 * 164  # each operation is sent with one that takes its events


def test_a_backend_that_only_answers_is_compared_by_its_answers() -> None:
    assert replayed(OnlyPlain(), 100).divergence is None


def test_an_adapter_that_breaks_is_no_divergence() -> None:
    with pytest.raises(AdapterError, match="139"):
        replayed(Breaks(), 100)


def test_configurations_are_what_the_backend_offers() -> None:
    assert len(MODES) == 12
    assert {(mode.commit, mode.holders) for mode in MODES} == {
        (CommitMode.IMMEDIATE, HolderMode.NAMED),
        (CommitMode.IMMEDIATE, HolderMode.CALLER),
        (CommitMode.STEPS, HolderMode.NAMED),
    }
    assert all(mode.hash_seed is not None for mode in MODES)


# The stage


SMALL = (Part("lmcache_taubench", 40, (40, 100, 200)), Part("mooncake_conversation", 15, (150,)))


def test_the_stage_says_what_was_done_in_which_mode() -> None:
    all_played = list(replay_workloads(ReferenceBackend(), CAPABILITIES, SMALL))
    assert [played.divergence for played in all_played] == [None] * 4
    assert [(played.workload, played.config.num_blocks) for played in all_played] == [
        ("lmcache_taubench", 40),
        ("lmcache_taubench", 100),
        ("lmcache_taubench", 200),
        ("mooncake_conversation", 150),
    ]
    assert [played.config for played in all_played] == [
        configurations(CAPABILITIES, played.config.num_blocks)[turn] for turn, played in enumerate(all_played)
    ]
    for played in all_played:
        assert played.counts.requests + played.counts.left_out in (40, 15)
        assert played.operations > 0
        assert played.counts.hit_tokens > 0
    assert all_played[0].counts.evicted > 0


def test_the_stage_ends_with_the_first_divergence() -> None:
    [played] = replay_workloads(KeepsKeys(), CAPABILITIES, SMALL)
    assert played.divergence is not None


class WrongAndThenGone(ReferenceBackend, ConcurrentBackend):
    """All answers to the second batch are wrong, and there are none to a later one."""

    begun = 0

    def begin(self, operations: Sequence[Operation], observe: bool) -> Answers:
        self.begun += 1
        number, steps = self.begun, ReferenceBackend.run(self, operations, observe)

        def answers() -> list[Step]:
            if number > 2:
                raise AdapterError("it is gone")
            return steps if number == 1 else [Step(Answer(error="Wrong")) for _ in steps]

        return answers


def test_a_divergence_is_found_although_the_adapter_breaks_after_it() -> None:
    [played] = replay_workloads(WrongAndThenGone(), CAPABILITIES, SMALL)
    assert played.divergence is not None
    assert played.operations == len(played.divergence.operations) > 0


def test_the_standard_part_takes_every_workload_to_three_pool_sizes() -> None:
    sizes: dict[str, set[int]] = {}
    for part in STANDARD:
        sizes.setdefault(part.workload, set()).update(part.blocks)
    assert set(sizes) == set(shipped())
    assert all(len(found) == 3 for found in sizes.values())
