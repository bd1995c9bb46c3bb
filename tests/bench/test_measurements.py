"""What the benchmark measures is compared first: a side that answers anything else ends it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from kvproof.conformance.bench import calls, hybrid, memory, replay, speed
from kvproof.conformance.bench.contents import BLOCK_TOKENS, Contents, compare
from kvproof.conformance.bench.plan import Batch, CallsPart, HybridPart, MemoryPart, ReplayPart, SpeedPart
from kvproof.conformance.bench.run import run_part
from kvproof.conformance.bench.sides import OURS as OUR_NAME
from kvproof.conformance.bench.sides import VLLM, BenchError, load
from kvproof.conformance.bench.worker import Job
from kvproof.conformance.engines.vllm.__main__ import environment
from kvproof.gpu_backend import Request
from kvproof.spec.vocabulary import HashAlgorithm
from tests.bench import sides
from tests.bench.sides import OURS, Twin

SPEED = SpeedPart(100, (Batch(8, 20), Batch(1, 60)), rounds=2)
CALLS = CallsPart(100, (Batch(8, 120), Batch(1, 150)))
REPLAY = ReplayPart("lmcache_taubench", 100, 40, rounds=2)


def test_two_pools_that_agree_are_measured_in_every_cell() -> None:
    cells = speed.measure([OURS, Twin], SPEED)
    assert {(c.operation, c.k, c.events) for c in cells} == {
        (operation, k, events) for operation in speed.OPERATIONS for k in (1, 8) for events in (False, True)
    }
    for cell in cells:
        assert cell.theirs is not None
        assert len(cell.ours) == len(cell.theirs) == 2
        assert min(*cell.ours, *cell.theirs) > 0


@pytest.mark.parametrize(
    ("liar", "what"),
    [
        (sides.TakesFromTheWrongPlace, "allocate, call 0, item 0"),
        (sides.ForgetsAKey, "lookup of cached keys, call 0, item 7"),
        (sides.FindsWhatIsNotThere, "lookup of new keys, call 0, item 0"),
        (sides.FreesInAnotherOrder, "allocate, call 0, item 0"),
        (sides.TellsTooLittle, "events, call"),
    ],
)
def test_a_pool_that_says_something_else_ends_the_measurement(liar: type[Twin], what: str) -> None:
    with pytest.raises(BenchError, match=what):
        speed.measure([OURS, liar], SPEED)


def test_the_error_shows_both_answers() -> None:
    both = [make(10, 4, 4, HashAlgorithm.XXH3_128, False) for make in (OURS, Twin)]
    with pytest.raises(BenchError, match="hits, item 1: kvproof says 2, twin None"):
        compare("hits", both, [[1, 2], [1]])


def test_one_pool_alone_has_to_find_what_is_cached() -> None:
    with pytest.raises(BenchError, match="twin does not find a key that is cached"):
        speed.measure([sides.ForgetsAKey], SPEED)
    with pytest.raises(BenchError, match="twin finds a key that nobody has registered"):
        speed.measure([sides.FindsWhatIsNotThere], SPEED)


@pytest.mark.parametrize(("blocks", "k"), [(1_000, 512), (1_000, 16), (9, 8), (2, 1)])
def test_what_is_looked_up_is_cached_however_small_the_pool(blocks: int, k: int) -> None:
    contents = Contents([OURS(blocks, BLOCK_TOKENS, BLOCK_TOKENS, HashAlgorithm.XXH3_128, False)], blocks, Random(1))
    for _ in range(3):
        speed.run_round(contents, Batch(k, 40), backwards=False)


def test_every_call_is_timed_by_itself() -> None:
    found = calls.measure([OURS, Twin], CALLS)
    assert [(each.side, each.operation) for each in found] == [
        (side, operation) for side in ("kvproof", "twin") for operation in speed.OPERATIONS
    ]
    for each in found:
        assert (each.calls, each.most_blocks) == (270, 8)
        assert 0 < each.median <= each.tail <= each.worst


def test_single_calls_are_compared_too() -> None:
    with pytest.raises(BenchError, match="lookup of cached keys"):
        calls.measure([OURS, sides.ForgetsAKey], CALLS)


def test_a_replay_counts_hits_and_leaves_out_what_does_not_fit() -> None:
    found = replay.measure([OURS, Twin], REPLAY)
    assert found.requests + found.left_out == 40
    assert 0 < found.hits < found.blocks
    assert found.theirs is not None
    assert len(found.ours) == len(found.theirs) == 2
    small = replay.measure([OURS], ReplayPart(REPLAY.workload, 8, REPLAY.requests, rounds=1))
    assert small.left_out > 0
    assert small.theirs is None


@pytest.mark.parametrize(
    ("liar", "what"),
    [(sides.HitsTooShort, "hits of the requests"), (sides.TakesFromTheWrongPlace, "blocks of request")],
)
def test_a_replay_with_other_hits_or_blocks_ends(liar: type[Twin], what: str) -> None:
    with pytest.raises(BenchError, match=what):
        replay.measure([OURS, liar], REPLAY)


def test_more_keys_take_more_memory_and_no_objects() -> None:
    algorithm = HashAlgorithm.SHA256
    without, with_four = [memory.measure(OURS, MemoryPart(2_000, algorithm, additional)) for additional in (0, 4)]
    assert without.own is not None
    assert with_four.own is not None
    # Four entries more for each block, but for some that were there in reserve.
    assert with_four.own - without.own > 3 * (memory.DIGEST_BYTES[algorithm] + 24)
    assert with_four.tracked + with_four.tracked_with_keys < 100


class KeepsObjects(Twin):
    """Keeps a list for each block."""

    kept: list[list[int]]

    def cache_partial(self, request: Request, table: Sequence[int], ends: Sequence[int]) -> None:
        self.kept = [*getattr(self, "kept", []), *([block] for block in table)]
        super().cache_partial(request, table, ends)


def test_objects_of_the_keys_are_counted() -> None:
    found = memory.measure(KeepsObjects, MemoryPart(2_000, HashAlgorithm.XXH3_128, 1))
    assert found.tracked_with_keys >= 1_999
    assert found.while_filled.collections > 0


def test_the_longest_registration_is_one_of_those_that_fill_the_pool() -> None:
    found = memory.measure(OURS, MemoryPart(2_000, HashAlgorithm.XXH3_128, 1))
    assert 0 < found.longest_ms < 1e3 * found.while_filled.of_seconds


def test_every_model_is_measured_and_shares_whole_blocks() -> None:
    found = hybrid.measure(HybridPart((100,), rounds=2))
    assert [each.model for each in found] == list(hybrid.MODELS)
    assert {each.hit for each in found} == {96}
    assert all(len(rounds) == 2 for each in found for rounds in (each.first_match, each.decode, each.prefill))
    assert all(min(each.decode) > 0 for each in found)


@pytest.mark.parametrize("name", ["kvproof.nowhere:Side", "kvproof.gpu_backend.bench:Nobody"])
def test_a_side_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(BenchError, match=name):
        load(name)


def test_what_a_worker_cannot_do_is_the_error_of_its_part() -> None:
    with pytest.raises(BenchError, match=r"operations, 100 blocks: nowhere:Side cannot be loaded"):
        run_part(Job(SPEED, ("nowhere:Side",)), None)


def test_a_worker_that_breaks_leaves_its_last_words() -> None:
    with pytest.raises(BenchError, match=r"(?s)replay of nothing, 10 blocks: .* ended with 1:.*nothing"):
        run_part(Job(ReplayPart("nothing", 10), (OUR_NAME,)), None)


def test_vllm_answers_as_we_do() -> None:
    python = environment()
    if python is None:
        pytest.skip("needs vLLM; `make vllm` builds its environment")
    answer = run_part(Job(SPEED, (OUR_NAME, VLLM)), python)
    assert all(cell.theirs for cell in answer.cells)
    assert {"vLLM", "torch", "Python"} <= set(answer.versions)
