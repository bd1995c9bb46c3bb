from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvproof.reference import Request
from kvproof.spec.errors import InvalidArgument, OutOfRange
from kvproof.spec.vocabulary import GroupConfig, HybridConfig
from tests.clauses.hybrid_rig import COARSE, FINE, HybridRig, MakeHybrid, full, named, state, window

CHECKPOINTS = HybridConfig(checkpoints=True)
DROP = HybridConfig(drop=(0,))
AHEAD = HybridConfig(lookahead=3)

ATTENTION = full(2)
STATE = state(6)


def prompt(rig: HybridRig, tokens: int, prompt_tokens: int | None = None) -> Request:
    """A request of so many tokens; what its prompt does not have was appended."""
    length = tokens if prompt_tokens is None else prompt_tokens
    request = rig.request(f"r{len(rig.requests)}", [1] * length)
    request.append([1] * (tokens - length))
    return request


def ends(rig: HybridRig, request: Request, cap: int, junction: int = 0, start: int = 0) -> list[int]:
    """Where the chunks end of a prefill that is offered cap tokens again and again; [0] if one is empty."""
    found = []
    while start < request.num_tokens:
        end = rig.cache.split(request, start, min(cap, request.num_tokens - start), cap, junction)
        if end <= start:
            return [0]
        found.append(end)
        start = end
    return found


# Ranges


@pytest.mark.clause("SPLIT-RANGE-1")
def test_a_split_takes_what_the_request_has_left_and_no_more(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, STATE)
    r1 = prompt(rig, 10)
    right = {"start": 4, "tokens": 6, "cap": 6, "junction": 10}
    assert rig.cache.split(r1, **right) == 6
    for wrong in (
        {"start": -1},
        {"start": 10, "tokens": 1},
        {"tokens": 0},
        {"tokens": 7, "cap": 7},
        {"cap": 5},
        {"junction": -1},
        {"junction": 11},
    ):
        with rig.refused(OutOfRange):
            rig.cache.split(r1, **{**right, **wrong})
    assert rig.cache.split(r1, **{**right, "start": 0, "junction": 0}) == 6
    assert rig.cache.split(r1, **{**right, "start": 9, "tokens": 1}) == 10


@pytest.mark.clause("SPLIT-RANGE-1")
def test_a_request_without_tokens_has_no_chunk(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, STATE)
    empty = rig.request("r1", [])
    with rig.refused(OutOfRange):
        rig.cache.split(empty, 0, 1, 1, 0)


@pytest.mark.clause("SPLIT-RANGE-1")
def test_a_split_takes_plain_numbers_and_requests_of_the_pool(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, STATE)
    r1 = prompt(rig, 10)
    for wrong in (True, 1.0, "1", None):
        with rig.refused(InvalidArgument):
            rig.cache.split(r1, 0, wrong, 10, 0)  # type: ignore[arg-type]
    with rig.refused(InvalidArgument):
        rig.cache.split(hybrid(h=1).request("r1"), 0, 1, 1, 0)


# Without recurrent groups


@pytest.mark.clause("SPLIT-NONE-1")
@pytest.mark.parametrize("groups", [(full(4),), (full(6), window(4, 6))], ids=["attention", "attention and a window"])
def test_without_recurrent_groups_nothing_changes(hybrid: MakeHybrid, groups: tuple[GroupConfig, ...]) -> None:
    for chosen in (FINE, DROP, CHECKPOINTS):
        rig = hybrid(*groups, hybrid=chosen)
        r1 = prompt(rig, 17)
        for start in range(17):
            for tokens in range(1, 18 - start):
                assert {rig.cache.split(r1, start, tokens, tokens + 9, j) for j in (0, 5, 8, 17)} == {start + tokens}


# The rules, one by one


@pytest.mark.clause("SPLIT-DECODE-1")
@pytest.mark.parametrize(("tokens", "prompt_tokens", "first"), [(17, 17, 17), (20, 17, 19), (18, 17, 17), (30, 13, 29)])
def test_a_chunk_of_decoded_tokens_stays_as_it_is(
    hybrid: MakeHybrid, tokens: int, prompt_tokens: int, first: int
) -> None:
    """From `first` on nothing is a prefill any more: what is left of it is the last token."""
    rig = hybrid(ATTENTION, STATE)
    r1 = prompt(rig, tokens, prompt_tokens)
    for start in range(first, tokens):
        assert rig.cache.split(r1, start, tokens - start, 99, 0) == tokens
    assert rig.cache.split(r1, first - 1, 1, 1, 0) == first


@pytest.mark.clause("SPLIT-DECODE-1", "SPLIT-ALIGN-1")
def test_tokens_appended_while_it_waited_are_prefilled_up_to_the_last(hybrid: MakeHybrid) -> None:
    """A request of 8 prompt tokens comes back with 12 more: all but the last one are computed like a prompt."""
    rig = hybrid(ATTENTION, STATE)
    assert ends(rig, prompt(rig, 20, 8), 7) == [6, 12, 18, 20]
    assert rig.cache.split(prompt(rig, 20, 8), 12, 4, 7, 0) == 12
    assert rig.cache.split(prompt(rig, 20, 8), 12, 6, 7, 0) == 18
    assert rig.cache.split(prompt(rig, 20, 8), 18, 1, 7, 0) == 19


@pytest.mark.clause("SPLIT-ALIGN-1")
@pytest.mark.parametrize(
    ("start", "tokens", "cap", "end"),
    [
        (0, 4, 4, 4),
        (0, 4, 6, 0),
        (0, 5, 5, 5),
        (0, 5, 6, 0),
        (0, 6, 6, 6),
        (0, 11, 11, 6),
        (0, 12, 12, 12),
        (6, 4, 4, 10),
        (6, 4, 6, 6),
        (10, 1, 1, 11),
        (10, 1, 2, 10),
        (10, 2, 2, 12),
        (10, 9, 9, 12),
        (94, 5, 6, 96),
        (96, 3, 4, 98),
        (96, 3, 6, 96),
        (96, 4, 6, 98),
    ],
)
def test_a_chunk_that_the_budget_cuts_ends_with_a_block_if_it_ever_can(
    hybrid: MakeHybrid, start: int, tokens: int, cap: int, end: int
) -> None:
    rig = hybrid(ATTENTION, STATE)
    assert rig.cache.split(prompt(rig, 100), start, tokens, cap, 0) == end


@pytest.mark.clause("SPLIT-STOP-1")
@pytest.mark.parametrize("start", range(1, 24))
def test_a_chunk_from_inside_a_block_ends_with_the_block(hybrid: MakeHybrid, start: int) -> None:
    rig = hybrid(ATTENTION, STATE)
    r1 = prompt(rig, 100)
    block = -(-start // 6) * 6
    assert rig.cache.split(r1, start, 100 - start, 100, 0) == (96 if start % 6 == 0 else block)


@pytest.mark.clause("SPLIT-STOP-2", "SPLIT-STOP-3")
@pytest.mark.parametrize(
    ("tokens", "chunks"),
    [
        (1, [1]),
        (2, [2]),
        (3, [2, 3]),
        (6, [4, 6]),
        (7, [6, 7]),
        (8, [6, 8]),
        (9, [6, 8, 9]),
        (12, [6, 10, 12]),
        (13, [12, 13]),
        (17, [12, 16, 17]),
    ],
    ids=named,
)
def test_a_prompt_stops_at_its_last_block_and_at_its_last_hash(
    hybrid: MakeHybrid, tokens: int, chunks: list[int]
) -> None:
    rig = hybrid(ATTENTION, STATE)
    assert ends(rig, prompt(rig, tokens), 100) == chunks


@pytest.mark.clause("SPLIT-STOP-2", "SPLIT-STOP-3")
@pytest.mark.parametrize(
    ("chosen", "tokens", "chunks"),
    [
        (COARSE, 17, [12, 17]),
        (COARSE, 12, [6, 12]),
        (DROP, 17, [6, 14, 17]),
        (DROP, 13, [6, 10, 12, 13]),
        (DROP, 12, [6, 10, 12]),
        (DROP, 11, [8, 11]),
        (AHEAD, 17, [12, 14, 17]),
        (AHEAD, 15, [12, 15]),
        (AHEAD, 14, [6, 10, 12, 14]),
        (HybridConfig(lookahead=1), 17, [12, 16, 17]),
        (HybridConfig(fine_grained=False, lookahead=3), 14, [6, 14]),
    ],
    ids=named,
)
def test_drops_and_lookahead_keep_the_last_states_further_back(
    hybrid: MakeHybrid, chosen: HybridConfig, tokens: int, chunks: list[int]
) -> None:
    rig = hybrid(ATTENTION, STATE, hybrid=chosen)
    assert ends(rig, prompt(rig, tokens), 100) == chunks


@pytest.mark.clause("SPLIT-STOP-2")
def test_the_last_block_is_that_of_all_tokens(hybrid: MakeHybrid) -> None:
    """With 8 prompt tokens and 12 more the last state is kept at 18, and no stop is made for the prompt's end."""
    rig = hybrid(ATTENTION, STATE)
    assert ends(rig, prompt(rig, 20, 8), 100) == [18, 20]
    assert ends(rig, prompt(rig, 20, 20), 100) == [18, 20]
    assert ends(rig, prompt(rig, 20, 17), 100) == [18, 20]
    assert ends(rig, prompt(rig, 18, 17), 100) == [12, 16, 18]


@pytest.mark.clause("SPLIT-STOP-3")
@pytest.mark.parametrize(
    ("prompt_tokens", "chunks"), [(17, [12, 16, 18]), (14, [12, 18]), (15, [12, 14, 18])], ids=named
)
def test_the_last_hash_is_that_of_the_prompt(hybrid: MakeHybrid, prompt_tokens: int, chunks: list[int]) -> None:
    rig = hybrid(ATTENTION, STATE)
    assert ends(rig, prompt(rig, 18, prompt_tokens), 100) == chunks


@pytest.mark.clause("SPLIT-STOP-4")
@pytest.mark.parametrize(
    ("junction", "plain", "checkpoint"),
    [
        (0, [36, 38, 40], [36, 38, 40]),
        (2, [36, 38, 40], [2, 6, 36, 38, 40]),
        (6, [6, 36, 38, 40], [6, 36, 38, 40]),
        (18, [18, 36, 38, 40], [18, 36, 38, 40]),
        (20, [18, 36, 38, 40], [20, 24, 36, 38, 40]),
        (36, [36, 38, 40], [36, 38, 40]),
        (37, [36, 38, 40], [36, 37, 38, 40]),
        (39, [36, 38, 40], [36, 38, 39, 40]),
        (40, [36, 38, 40], [36, 38, 40]),
    ],
    ids=named,
)
def test_a_prefill_stops_where_it_leaves_what_it_shares(
    hybrid: MakeHybrid, junction: int, plain: list[int], checkpoint: list[int]
) -> None:
    for chosen, chunks in ((FINE, plain), (CHECKPOINTS, checkpoint)):
        rig = hybrid(ATTENTION, STATE, hybrid=chosen)
        assert ends(rig, prompt(rig, 40), 100, junction) == chunks


@pytest.mark.clause("SPLIT-STOP-4")
@pytest.mark.parametrize(
    ("junction", "chunks"), [(14, [14, 18, 24, 25]), (15, [12, 24, 25]), (20, [18, 24, 25])], ids=named
)
def test_past_the_prompt_a_junction_stops_at_its_block_at_most(
    hybrid: MakeHybrid, junction: int, chunks: list[int]
) -> None:
    rig = hybrid(ATTENTION, STATE, hybrid=CHECKPOINTS)
    assert ends(rig, prompt(rig, 25, 14), 100, junction) == chunks


@pytest.mark.clause("SPLIT-STOP-4", "SPLIT-ALIGN-1")
def test_a_budget_that_ends_before_the_junction_does_not_lose_it(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, STATE)
    assert ends(rig, prompt(rig, 40), 7, 12) == [6, 12, 18, 24, 30, 36, 38, 40]
    assert ends(rig, prompt(rig, 40), 16, 18) == [12, 18, 30, 36, 38, 40]


@pytest.mark.clause("SPLIT-STOP-4")
@pytest.mark.parametrize("start", [18, 20, 24])
def test_a_junction_that_lies_behind_stops_nobody(hybrid: MakeHybrid, start: int) -> None:
    rig = hybrid(ATTENTION, STATE)
    r1 = prompt(rig, 40)
    assert rig.cache.split(r1, start, 40 - start, 99, 18) == rig.cache.split(r1, start, 40 - start, 99, 0)


@pytest.mark.clause("SPLIT-EARLIEST-1")
@pytest.mark.parametrize(
    ("start", "junction", "end"), [(0, 6, 6), (0, 30, 12), (0, 13, 12), (12, 14, 14), (12, 15, 15), (8, 16, 12)]
)
def test_of_several_stops_the_earliest_counts(hybrid: MakeHybrid, start: int, junction: int, end: int) -> None:
    """A prompt of 17 stops at 12 and at 16; with 30 tokens in all they are 24 and none."""
    rig = hybrid(ATTENTION, STATE, hybrid=CHECKPOINTS)
    r1 = prompt(rig, 17)
    assert rig.cache.split(r1, start, 17 - start, 99, min(junction, 17)) == end


# Grids


@pytest.mark.clause("SPLIT-STOP-2", "SPLIT-ALIGN-1")
@pytest.mark.parametrize(
    ("groups", "chunks"),
    [
        ((full(2), state(8)), [8, 16, 24]),
        ((full(4), state(8)), [8, 16, 24]),
        ((full(6), state(8)), [8, 16, 24]),
        ((full(24), state(8)), [8, 16, 24]),
        ((full(2), state(4), state(6)), [12, 24]),
        ((state(6), state(4)), [12, 24]),
        ((window(2, 4), state(12), state(4)), [12, 24]),
    ],
    ids=named,
)
def test_chunks_end_on_the_grid_of_the_recurrent_groups_alone(
    hybrid: MakeHybrid, groups: tuple[GroupConfig, ...], chunks: list[int]
) -> None:
    rig = hybrid(*groups, hybrid=COARSE)
    assert ends(rig, prompt(rig, 26), chunks[0] + 1) == [*chunks, 26]


@pytest.mark.clause("SPLIT-STOP-2", "SPLIT-STOP-3")
@pytest.mark.parametrize(
    ("h", "block", "tokens", "cap", "chunks"),
    [
        (32, 512, 10_000, 8192, [8192, 9728, 9984, 10_000]),
        (2, 32, 625, 512, [512, 608, 624, 625]),
        (2, 32, 625, 96, [96, 192, 288, 384, 480, 576, 608, 624, 625]),
    ],
    ids=["in its own size", "sixteen times smaller", "with a smaller budget"],
)
def test_a_long_prompt_of_a_real_model_stops_at_the_ends_of_its_state_blocks_and_hashes(
    hybrid: MakeHybrid, h: int, block: int, tokens: int, cap: int, chunks: list[int]
) -> None:
    rig = hybrid(full(h), state(block), h=h)
    assert ends(rig, prompt(rig, tokens), cap) == chunks


@pytest.mark.clause("SPLIT-STOP-4")
def test_two_equal_blocks_of_three_are_a_junction(hybrid: MakeHybrid) -> None:
    """The second request shares two blocks of 16, of which the first left rows and no state; so it stops at 32."""
    rig = hybrid(full(16), state(16), hybrid=COARSE, h=16)
    rig.serve("first", [1] * 16 + [2] * 16 + [3] * 16 + [9], 48, 49)
    second = rig.request("second", [1] * 16 + [2] * 16 + [4] * 16 + [9])
    match = rig.cache.match(second)
    assert (match.hit, match.junction, match.uncached) == (0, 32, 32)
    assert rig.cache.split(second, 0, 49, 64, match.junction) == 32
    rig.run(second, 32, 48, 49)
    third = rig.request("third", [1] * 16 + [2] * 16 + [5] * 16)
    assert rig.cache.match(third).hit == 32


# Loops


def settings() -> Iterator[tuple[HybridConfig, tuple[GroupConfig, ...]]]:
    for chosen in (FINE, COARSE, CHECKPOINTS, DROP, HybridConfig(lookahead=2), HybridConfig(lookahead=9)):
        yield chosen, (full(2), state(4))
    yield FINE, (full(2), state(2))
    yield CHECKPOINTS, (full(8), state(6))
    yield COARSE, (full(2), state(4), state(6))


def kept_at(chosen: HybridConfig, block: int, tokens: int, prompt_tokens: int) -> tuple[int, int]:
    """C(T, B), and C(P, h) where it counts, as the chapter has them."""

    def last(n: int, unit: int) -> int:
        if chosen.drop:
            return max(0, n // unit * unit - unit)
        return max(0, (n - max(1, chosen.lookahead)) // unit * unit)

    block_end, hash_end = last(tokens, block), last(prompt_tokens, 2)
    return block_end, hash_end if chosen.fine_grained and block_end < hash_end < prompt_tokens else 0


@pytest.mark.clause("SPLIT-PROGRESS-1")
@pytest.mark.parametrize(("chosen", "groups"), list(settings()), ids=named)
def test_every_prefill_reaches_its_end_from_every_start_with_every_budget(
    hybrid: MakeHybrid, chosen: HybridConfig, groups: tuple[GroupConfig, ...]
) -> None:
    rig = hybrid(*groups, hybrid=chosen)
    for tokens in (1, 2, 5, 8, 13):
        for prompt_tokens in {tokens, max(1, tokens - 1), max(1, tokens - 4)}:
            request = prompt(rig, tokens, prompt_tokens)
            for start in range(tokens):
                for cap in range(1, 11):
                    for junction in {0, min(3, tokens), min(8, tokens), tokens}:
                        assert ends(rig, request, cap, junction, start)[-1] == tokens


@pytest.mark.clause("SPLIT-STOP-1", "SPLIT-STOP-2", "SPLIT-STOP-3", "SPLIT-STOP-4", "SPLIT-EARLIEST-1", "SPLIT-ALIGN-1")
@pytest.mark.parametrize(("chosen", "groups"), list(settings()), ids=named)
def test_no_chunk_passes_a_stop_and_every_end_has_its_reason(
    hybrid: MakeHybrid, chosen: HybridConfig, groups: tuple[GroupConfig, ...]
) -> None:
    """All starts, tokens, caps and junctions of a small scope."""
    rig = hybrid(*groups, hybrid=chosen)
    block = 12 if len(groups) == 3 else groups[1].block_size
    for tokens, prompt_tokens in ((13, 13), (13, 10), (9, 9)):
        request = prompt(rig, tokens, prompt_tokens)
        prefill = max(prompt_tokens, tokens - 1)
        for junction in (0, 1, 3, 4, 6, 8, tokens):
            at = junction if chosen.checkpoints and junction <= prompt_tokens else junction // block * block
            stops = {n for n in (*kept_at(chosen, block, tokens, prompt_tokens), at) if n}
            for start in range(prefill):
                inside = stops | ({-(-start // block) * block} if start % block else set())
                for length in range(1, tokens - start + 1):
                    for cap in {length, length + 1, length + block, 99}:
                        end = rig.cache.split(request, start, length, cap, junction)
                        said = (tokens, prompt_tokens, junction, start, length, cap, end)
                        wanted = start + length
                        if wanted < prefill:
                            aligned = wanted // block * block
                            may_wait = start + cap >= start // block * block + block
                            wanted = aligned if aligned > start else start if may_wait else wanted
                        assert end == min([n for n in inside if start < n < wanted], default=wanted), said
