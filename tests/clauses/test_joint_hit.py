from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import lcm
from random import Random

import pytest

from kvproof.reference import BlockPool, Request
from kvproof.reference.hybrid import HybridCache, Match
from kvproof.reference.hybrid.groups import alignment
from kvproof.reference.lookup import Hit
from kvproof.spec.errors import ConcurrentUse, InvalidArgument, InvalidGroup, NotAligned, OutOfRange, PoolError
from kvproof.spec.vocabulary import (
    CommitMode,
    ExtraKey,
    ExtraKeySource,
    GroupConfig,
    GroupKind,
    HybridConfig,
    Key,
    PoolConfig,
    Retention,
)
from tests.clauses.hybrid_rig import COARSE, FINE, HybridRig, MakeHybrid, Place, full, named, state, window
from tests.clauses.rig import ATTENTION, RECURRENT, WIDE, MakeRig

TWENTY = tuple(range(1, 21))
DROP = HybridConfig(drop=(0,))


def hit(rig: HybridRig, *places: Place, tokens: int) -> int:
    """Where a request of so many tokens begins when blocks serve exactly these keys."""
    rig.publish(rig.request("there", TWENTY), *places)
    return rig.cache.match(rig.request("reader", TWENTY[:tokens])).hit


# Groups


def config(hybrid: object, *groups: GroupConfig, commit: CommitMode = CommitMode.STEPS, h: int = 2) -> PoolConfig:
    return PoolConfig(4, h, groups or (ATTENTION, RECURRENT), commit=commit, hybrid=hybrid)  # type: ignore[arg-type]


PRIME_FACTORS_OF_THE_LIMIT = (7 * 7 * 73 * 127 * 337, 92737 * 649657)

CANNOT_WORK: dict[str, tuple[PoolConfig, type[PoolError]]] = {
    "settings of another type": (config("yes"), InvalidArgument),
    "immediate commit": (config(FINE, commit=CommitMode.IMMEDIATE), InvalidArgument),
    "a recurrent group with a drop": (config(HybridConfig(drop=(1,))), InvalidArgument),
    "no such group with a drop": (config(HybridConfig(drop=(2,))), InvalidGroup),
    "a group twice": (config(HybridConfig(drop=(0, 0))), InvalidArgument),
    "descending groups": (config(HybridConfig(drop=(1, 0)), ATTENTION, ATTENTION), InvalidArgument),
    "a list of groups": (config(HybridConfig(drop=[0])), InvalidArgument),  # type: ignore[arg-type]
    "an interval inside a hash unit": (config(HybridConfig(retention=Retention.INTERVAL, interval=3)), NotAligned),
    "an interval of nothing": (config(HybridConfig(retention=Retention.INTERVAL, interval=0)), OutOfRange),
    "intervals without interval": (config(HybridConfig(retention=Retention.INTERVAL)), InvalidArgument),
    "an interval for another policy": (config(HybridConfig(interval=4)), InvalidArgument),
    "a policy of another type": (config(HybridConfig(retention="last")), InvalidArgument),  # type: ignore[arg-type]
    "checkpoints that nobody hits": (config(HybridConfig(fine_grained=False, checkpoints=True)), InvalidArgument),
    "looking behind": (config(HybridConfig(lookahead=-1)), OutOfRange),
    "no common alignment": (config(COARSE, full(2**32), state(2**31 + 1), h=1), OutOfRange),
    "a block that is no multiple of the hash block": (config(FINE, full(4), state(3)), NotAligned),
    "a window of nothing": (config(FINE, window(4, 0), RECURRENT), OutOfRange),
}


@pytest.mark.clause("GROUP-CONFIG-1")
@pytest.mark.parametrize("what", CANNOT_WORK)
def test_groups_and_settings_that_cannot_work_are_refused_when_the_pool_is_made(what: str) -> None:
    wrong, error = CANNOT_WORK[what]
    with pytest.raises(PoolError) as caught:
        BlockPool(wrong)
    assert caught.type is error


@pytest.mark.clause("GROUP-CONFIG-1")
@pytest.mark.parametrize(
    "right",
    [
        config(HybridConfig(drop=(0, 1)), ATTENTION, window(4, 1)),
        config(HybridConfig(retention=Retention.INTERVAL, interval=6)),
        config(HybridConfig(checkpoints=True, lookahead=0)),
        config(COARSE, full(PRIME_FACTORS_OF_THE_LIMIT[0]), state(PRIME_FACTORS_OF_THE_LIMIT[1]), h=1),
    ],
    ids=["drops ascending", "an interval of whole hash units", "checkpoints", "an alignment of just 63 bits"],
)
def test_settings_that_can_work_are_taken(right: PoolConfig) -> None:
    assert lcm(*PRIME_FACTORS_OF_THE_LIMIT) == 2**63 - 1
    HybridCache(BlockPool(right))


@pytest.mark.clause("GROUP-CONFIG-2")
def test_requests_do_not_run_over_a_pool_without_hybrid_settings(in_step: MakeRig) -> None:
    rig = in_step(blocks=6)
    r1 = rig.request("r1")
    rig.take(r1)
    for pool in (rig.pool, None):
        with pytest.raises(InvalidArgument):
            HybridCache(pool)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        alignment(rig.pool.config)


@pytest.mark.clause("GROUP-ALIGN-1", "HIT-JOINT-1")
@pytest.mark.parametrize(("tokens", "joint"), [(12, 0), (13, 12), (20, 12)])
def test_coarse_hits_are_at_common_multiples_of_all_block_sizes(hybrid: MakeHybrid, tokens: int, joint: int) -> None:
    rig = hybrid(ATTENTION, state(6), hybrid=COARSE)
    assert hit(rig, (0, 4), (0, 8), (0, 12), (0, 16), (1, 6), (1, 12), (1, 18), tokens=tokens) == joint


@pytest.mark.clause("GROUP-ALIGN-1", "HIT-JOINT-1")
@pytest.mark.parametrize(("tokens", "joint"), [(18, 12), (19, 18)])
def test_fine_grained_hits_are_at_multiples_of_the_hash_unit(hybrid: MakeHybrid, tokens: int, joint: int) -> None:
    rig = hybrid(ATTENTION, state(6))
    assert hit(rig, (0, 4), (0, 8), (0, 12), (0, 16), (0, 18), (1, 12), (1, 18), tokens=tokens) == joint


# Full attention


@pytest.mark.clause("HIT-ATTENTION-1")
@pytest.mark.parametrize(
    ("places", "tokens", "joint"),
    [
        ([4, 8], 9, 8),
        ([4, 8], 8, 4),
        ([4, 12], 13, 4),
        ([8], 9, 0),
        ([4, 6], 9, 6),
        ([4, 6], 7, 6),
        ([4, 6], 6, 4),
        ([4, 10], 13, 4),
        ([2], 9, 2),
    ],
    ids=named,
)
def test_full_attention_needs_every_full_slot_and_a_key_in_the_last(
    hybrid: MakeHybrid, places: list[int], tokens: int, joint: int
) -> None:
    assert hit(hybrid(ATTENTION), *[(0, n) for n in places], tokens=tokens) == joint


@pytest.mark.clause("HIT-ATTENTION-1")
@pytest.mark.parametrize(("key", "tokens", "joint"), [(8, 9, 4), (8, 8, 0), (6, 7, 4), (6, 6, 0), (4, 5, 4), (2, 9, 0)])
def test_a_key_further_on_in_the_slot_serves_up_to_the_last_token(
    hybrid: MakeHybrid, key: int, tokens: int, joint: int
) -> None:
    """Only the state at 4 lets a request begin; it needs the rows up to 4 of a slot of 8."""
    assert hit(hybrid(WIDE, RECURRENT), (0, key), (1, 4), tokens=tokens) == joint


@pytest.mark.clause("HIT-ATTENTION-1")
def test_a_block_serves_only_keys_of_the_requests_own_chain(hybrid: MakeHybrid) -> None:
    rig = hybrid(WIDE)
    rig.publish(rig.request("other", [1, 2, 3, 4, 99, 99, 99, 99]), (0, 8))
    assert rig.cache.match(rig.request("r1", TWENTY)).hit == 0
    rig.publish(rig.request("another", [1, 2, 3, 4]), (0, 4))
    assert rig.cache.match(rig.request("r2", TWENTY)).hit == 4


@pytest.mark.clause("HIT-ATTENTION-1")
def test_full_slots_may_be_reserved_and_what_is_copied_may_not(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    writer, reader = rig.request("writer", TWENTY), rig.request("reader", TWENTY)
    rig.begin()
    rig.reserve(writer, (0, 4), (0, 8), (0, 10))
    assert rig.cache.match(reader).hit == 8
    rig.settle_all()
    assert rig.cache.match(reader).hit == 10


# Windows


@pytest.mark.clause("HIT-WINDOW-1")
@pytest.mark.parametrize(
    ("rows", "slots"),
    [(1, []), (2, [12]), (5, [12]), (6, [8, 12]), (9, [8, 12]), (10, [4, 8, 12]), (99, [4, 8, 12])],
    ids=named,
)
def test_a_window_needs_the_slots_of_its_last_rows(hybrid: MakeHybrid, rows: int, slots: list[int]) -> None:
    """At 12 a window of w reads the rows from 12 - w + 1 on."""
    assert hit(hybrid(window(4, rows)), *[(0, n) for n in slots], tokens=13) == 12
    for missing in slots:
        assert hit(hybrid(window(4, rows)), *[(0, n) for n in slots if n != missing], tokens=13) < 12


@pytest.mark.clause("HIT-WINDOW-1")
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_window_needs_a_key_in_the_slot_with_the_hit_inside(hybrid: MakeHybrid, rows: int) -> None:
    assert hit(hybrid(window(4, rows), RECURRENT), (0, 10), (1, 10), tokens=13) == 10
    assert hit(hybrid(window(4, rows), RECURRENT), (0, 12), (1, 10), tokens=12) == 0
    assert hit(hybrid(window(4, rows), RECURRENT), (1, 10), tokens=13) == 0


@pytest.mark.clause("HIT-WINDOW-1")
@pytest.mark.parametrize(("tokens", "joint"), [(13, 12), (12, 8), (8, 4), (4, 0)])
def test_at_the_start_of_the_prompt_a_window_needs_what_there_is(hybrid: MakeHybrid, tokens: int, joint: int) -> None:
    assert hit(hybrid(window(4, 99)), (0, 4), (0, 8), (0, 12), tokens=tokens) == joint


@pytest.mark.clause("HIT-WINDOW-1")
def test_a_window_does_not_share_what_is_reserved(hybrid: MakeHybrid) -> None:
    rig = hybrid(window(4, 6))
    writer, reader = rig.request("writer", TWENTY), rig.request("reader", TWENTY)
    rig.begin()
    rig.reserve(writer, (0, 4), (0, 8))
    assert rig.cache.match(reader) == Match(0, 0, 8)
    rig.settle_all()
    assert rig.cache.match(reader) == Match(8, 0, 8)


# Recurrent groups


@pytest.mark.clause("HIT-RECURRENT-1")
@pytest.mark.parametrize(
    ("places", "tokens", "joint"),
    [([4, 8], 9, 8), ([4, 8], 8, 4), ([8], 8, 0), ([6], 7, 6), ([6], 6, 0), ([12], 11, 0)],
    ids=named,
)
def test_a_state_serves_its_own_position_and_nothing_shorter(
    hybrid: MakeHybrid, places: list[int], tokens: int, joint: int
) -> None:
    assert hit(hybrid(RECURRENT), *[(0, n) for n in places], tokens=tokens) == joint


@pytest.mark.clause("HIT-RECURRENT-1")
@pytest.mark.parametrize(("state_at", "joint"), [(2, 2), (4, 4), (6, 6), (8, 0)])
def test_a_later_state_is_of_no_use_where_the_rows_end(hybrid: MakeHybrid, state_at: int, joint: int) -> None:
    assert hit(hybrid(), (0, 2), (0, 4), (0, 6), (1, state_at), tokens=20) == joint


@pytest.mark.clause("HIT-RECURRENT-1")
def test_a_state_serves_when_its_step_is_committed_and_until_it_is_evicted(hybrid: MakeHybrid) -> None:
    rig = hybrid(RECURRENT)
    writer, reader = rig.request("writer", TWENTY), rig.request("reader", TWENTY)
    rig.begin()
    [block] = rig.reserve(writer, (0, 8))
    assert rig.cache.match(reader) == Match(0, 0, 8)
    rig.settle_all()
    assert rig.cache.match(reader) == Match(8, 0, 8)
    rig.pool.evict([block])
    assert rig.cache.match(reader) == Match(0, 0, 0)


@pytest.mark.clause("HIT-ZERO-1")
@pytest.mark.parametrize("group", [ATTENTION, window(4, 6), RECURRENT], ids=lambda group: group.kind.value)
@pytest.mark.parametrize("tokens", [0, 1, 3, 20])
def test_whoever_hits_nothing_begins_at_zero(hybrid: MakeHybrid, group: GroupConfig, tokens: int) -> None:
    assert hybrid(group).cache.match(hybrid(group).request("r1", TWENTY[:tokens])) == Match(0, 0, 0)


# Drops


@pytest.mark.clause("HIT-DROP-1")
@pytest.mark.parametrize(
    ("places", "tokens", "joint"),
    [
        ([4, 8], 9, 6),
        ([4, 8, 10], 11, 8),
        ([4, 8, 10], 10, 8),
        ([4, 8, 10], 9, 6),
        ([4, 8], 8, 6),
        ([4, 8], 7, 2),
        ([4], 9, 2),
        ([2], 9, 0),
    ],
    ids=named,
)
def test_a_drop_needs_a_hash_unit_past_the_hit(hybrid: MakeHybrid, places: list[int], tokens: int, joint: int) -> None:
    assert hit(hybrid(ATTENTION, hybrid=DROP), *[(0, n) for n in places], tokens=tokens) == joint


@pytest.mark.clause("HIT-DROP-1")
@pytest.mark.parametrize(("last", "joint"), [(16, 12), (12, 0)])
def test_a_coarse_drop_is_one_block_and_not_the_alignment(hybrid: MakeHybrid, last: int, joint: int) -> None:
    rig = hybrid(ATTENTION, state(6), hybrid=HybridConfig(fine_grained=False, drop=(0,)))
    assert hit(rig, *[(0, n) for n in range(4, last + 1, 4)], (1, 12), tokens=20) == joint


@pytest.mark.clause("HIT-DROP-1")
def test_only_groups_with_a_drop_need_more(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, ATTENTION, hybrid=HybridConfig(drop=(1,)))
    assert hit(rig, (0, 4), (0, 6), (1, 4), (1, 8), tokens=9) == 6


@pytest.mark.clause("HIT-DROP-1")
@pytest.mark.parametrize(("places", "joint"), [([4, 8, 10], 8), ([8, 10], 0)], ids=named)
def test_a_window_with_a_drop_reaches_further_back_from_the_hit(
    hybrid: MakeHybrid, places: list[int], joint: int
) -> None:
    """At 10 the window of 6 reads rows 5 to 9, at 8 it reads rows 3 to 7."""
    assert hit(hybrid(window(4, 6), hybrid=DROP), *[(0, n) for n in places], tokens=11) == joint


@pytest.mark.clause("HIT-DROP-1", "HIT-ATTENTION-1")
def test_a_drop_does_not_cut_into_a_slot_that_is_only_reserved(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION, hybrid=DROP)
    writer, reader = rig.request("writer", TWENTY), rig.request("reader", TWENTY)
    rig.publish(writer, (0, 4))
    rig.begin()
    rig.reserve(writer, (0, 8))
    assert rig.cache.match(reader) == Match(2, 0, 6)
    rig.reserve(writer, (0, 12))
    assert rig.cache.match(reader) == Match(2, 0, 10)
    rig.settle_all()
    assert rig.cache.match(reader) == Match(10, 0, 10)


# The joint hit


@pytest.mark.clause("HIT-JOINT-1", "HIT-JUNCTION-1")
def test_the_joint_hit_is_the_last_boundary_that_suits_every_group(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    rig.publish(rig.request("there", TWENTY), (0, 4), (0, 8), (0, 10), (1, 4), (1, 12))
    assert rig.cache.match(rig.request("r1", TWENTY)) == Match(4, 10, 4)
    rig.publish(rig.request("more", TWENTY), (1, 8))
    assert rig.cache.match(rig.request("r2", TWENTY)) == Match(8, 10, 8)
    assert rig.cache.match(rig.request("r3", TWENTY[:9])) == Match(8, 0, 8)
    assert rig.cache.match(rig.request("r4", TWENTY[:8])) == Match(4, 0, 4)


@pytest.mark.clause("HIT-JOINT-1")
def test_a_fully_cached_prompt_keeps_a_token_to_compute(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    rig.publish(rig.request("there", TWENTY), *[(g, n) for g in (0, 1) for n in (4, 8, 12)])
    for tokens in range(1, 15):
        match = rig.cache.match(rig.request(f"r{tokens}", TWENTY[:tokens]))
        assert match.hit == (tokens - 1) // 4 * 4
        assert match.hit < tokens


@pytest.mark.clause("HIT-JOINT-1")
@pytest.mark.parametrize("order", [(4, 6), (6, 4)], ids=named)
def test_recurrent_groups_of_different_block_sizes_meet_at_any_hash_unit(
    hybrid: MakeHybrid, order: tuple[int, int]
) -> None:
    groups = [state(size) for size in order]
    assert hit(hybrid(*groups), (0, 4), (0, 8), (0, 10), (1, 6), (1, 8), (1, 12), tokens=20) == 8


@pytest.mark.clause("HIT-JUNCTION-1")
@pytest.mark.parametrize(
    ("groups", "places", "match"),
    [
        ((RECURRENT,), [(0, 4)], Match(4, 0, 4)),
        ((window(4, 6), RECURRENT), [(0, 4), (0, 8), (1, 4)], Match(4, 0, 4)),
        ((ATTENTION, RECURRENT), [(0, 4), (0, 8)], Match(0, 8, 0)),
        ((ATTENTION, RECURRENT), [(0, 4), (0, 8), (1, 8)], Match(8, 0, 8)),
        ((ATTENTION, RECURRENT), [(0, 2)], Match(0, 2, 0)),
        ((ATTENTION, window(4, 6), RECURRENT), [(0, 4), (0, 8), (1, 4), (1, 8), (2, 4)], Match(4, 8, 4)),
        ((ATTENTION, window(4, 6), RECURRENT), [(0, 4), (0, 8), (1, 4), (2, 4)], Match(4, 8, 4)),
        ((ATTENTION, ATTENTION, RECURRENT), [(0, 4), (0, 8), (0, 12), (1, 4), (1, 8)], Match(0, 8, 0)),
    ],
    ids=[
        "no attention",
        "a window is no full attention",
        "no state at all",
        "equal to the hit",
        "below one block",
        "a window beside it",
        "a window that reaches less far",
        "as far as both attention groups reach",
    ],
)
def test_the_junction_is_where_full_attention_alone_would_begin(
    hybrid: MakeHybrid, groups: tuple[GroupConfig, ...], places: list[Place], match: Match
) -> None:
    rig = hybrid(*groups)
    rig.publish(rig.request("there", TWENTY), *places)
    assert rig.cache.match(rig.request("r1", TWENTY)) == match


@pytest.mark.clause("HIT-JUNCTION-1", "GROUP-ALIGN-1")
@pytest.mark.parametrize(("last", "junction"), [(8, 0), (12, 12), (20, 12)])
def test_the_junction_keeps_the_alignment_of_all_groups(hybrid: MakeHybrid, last: int, junction: int) -> None:
    rig = hybrid(ATTENTION, state(6), hybrid=COARSE)
    rig.publish(rig.request("there", range(30)), *[(0, n) for n in range(4, last + 1, 4)])
    match = rig.cache.match(rig.request("r1", range(24)))
    assert match == Match(0, junction, 0)
    assert match.uncached == junction


@pytest.mark.clause("HIT-JUNCTION-1", "HIT-ATTENTION-1")
@pytest.mark.parametrize("state_at", [(), (1, 12), (1, 18)], ids=["no state", "a state there", "a state beyond"])
def test_the_junction_is_where_blocks_of_the_shared_text_end(hybrid: MakeHybrid, state_at: Place | tuple[()]) -> None:
    """16 tokens are shared, in blocks of 6; the third block serves another text, and so does a state behind it."""
    rig = hybrid(full(6), state(6))
    rig.publish(rig.request("there", TWENTY), (0, 6), (0, 12), (0, 18), *([state_at] if state_at else []))
    match = rig.cache.match(rig.request("r1", (*TWENTY[:16], 50, 51, 52, 53)))
    assert match == (Match(12, 0, 12) if state_at == (1, 12) else Match(0, 12, 0))


@pytest.mark.clause("HIT-JUNCTION-1")
def test_how_much_the_attention_groups_have_past_the_hit(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    rig.publish(rig.request("there", TWENTY), (0, 4), (0, 8), (0, 10), (1, 4))
    assert rig.cache.match(rig.request("r1", TWENTY)).uncached == 6
    assert rig.cache.match(rig.request("r2", TWENTY[:6])).uncached == 0


@pytest.mark.clause("HIT-PENDING-1")
def test_what_is_reserved_is_pending(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    writer, reader = rig.request("writer", TWENTY), rig.request("reader", TWENTY)
    rig.publish(writer, (0, 4), (1, 4))
    rig.begin()
    rig.reserve(writer, (0, 8))
    assert rig.cache.match(reader) == Match(4, 8, 4)
    rig.reserve(writer, (1, 8))
    assert rig.cache.match(reader) == Match(4, 8, 8)
    rig.settle_all()
    assert rig.cache.match(reader) == Match(8, 0, 8)


@pytest.mark.clause("HIT-PENDING-1")
def test_a_key_that_a_commit_will_replace_is_not_pending(hybrid: MakeHybrid) -> None:
    rig = hybrid(WIDE)
    writer, reader = rig.request("writer", TWENTY), rig.request("reader", (1, 2, 3, 4, 99, 99))
    rig.begin()
    [block] = rig.reserve(writer, (0, 4))
    rig.settle_all()
    assert rig.cache.match(reader) == Match(4, 0, 4)
    rig.begin()
    rig.put(writer, block, 8)
    assert rig.cache.match(reader) == Match(4, 0, 0)
    rig.settle_all()
    assert rig.cache.match(reader) == Match(0, 0, 0)


@pytest.mark.clause("HIT-PURE-1")
def test_a_match_changes_nothing_and_remembers_nobody(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    rig.publish(rig.request("there", TWENTY), (0, 4), (0, 8), (0, 12), (1, 4))
    shares, alone = rig.request("shares", TWENTY), rig.request("alone", range(50, 70))
    with rig.silent():
        for _ in range(2):
            assert rig.cache.match(shares) == Match(4, 12, 4)
            assert rig.cache.match(alone) == Match(0, 0, 0)


@pytest.mark.clause("HIT-PURE-1")
def test_a_match_depends_on_the_extra_keys(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    salt = (ExtraKey(ExtraKeySource.SALT, b"mine"),)
    rig.publish(rig.request("there", TWENTY, salt), (0, 4), (1, 4))
    assert rig.cache.match(rig.request("r1", TWENTY, salt)).hit == 4
    assert rig.cache.match(rig.request("r2", TWENTY)).hit == 0
    image = (*salt, ExtraKey(ExtraKeySource.MEDIA, b"cat", 4, 8))
    assert rig.cache.match(rig.request("r3", TWENTY, image)).hit == 4


@pytest.mark.clause("HIT-PURE-1")
def test_a_match_follows_the_tokens_that_the_request_has_now(hybrid: MakeHybrid) -> None:
    rig = hybrid()
    rig.publish(rig.request("there", TWENTY), *[(g, n) for g in (0, 1) for n in (4, 8, 12)])
    reader = rig.request("reader", TWENTY[:6])
    assert rig.cache.match(reader).hit == 4
    reader.append(TWENTY[6:14])
    assert rig.cache.match(reader).hit == 12
    reader.truncate(12)
    assert rig.cache.match(reader).hit == 8


@pytest.mark.clause("HIT-PURE-1")
def test_only_a_request_of_the_pools_contract_is_matched(hybrid: MakeHybrid) -> None:
    rig, other = hybrid(), hybrid(h=1)
    for wrong in (other.request("r1"), "r1", rig.request("copy:1"), None):
        with rig.refused(InvalidArgument):
            rig.cache.match(wrong)  # type: ignore[arg-type]


@pytest.mark.clause("ERR-OWNER-1")
def test_nobody_enters_a_cache_that_is_inside_an_operation(hybrid: MakeHybrid, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = hybrid()
    r1, find = rig.request("r1", TWENTY), rig.pool.find
    refused = []

    def come_between(keys: Sequence[Key]) -> list[Hit]:
        with pytest.raises(ConcurrentUse) as caught:
            rig.cache.match(r1)
        refused.append(caught.type)
        return find(keys)

    monkeypatch.setattr(rig.pool, "find", come_between)
    assert rig.cache.match(r1) == Match(0, 0, 0)
    assert set(refused) == {ConcurrentUse}
    monkeypatch.undo()
    assert rig.cache.match(r1) == Match(0, 0, 0)


# Where it comes from


@pytest.mark.clause("HIT-SOURCE-1")
def test_a_full_slot_is_shared_from_the_first_block_that_serves_it(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    first, second = rig.request("first", TWENTY), rig.request("second", TWENTY)
    [a], [b] = rig.publish(first, (0, 4)), rig.publish(second, (0, 4))
    r1, r2 = rig.request("r1", TWENTY), rig.request("r2", TWENTY)
    rig.admit(r1, 5)
    assert rig.table(r1)[0] == a
    rig.pool.evict([a])
    rig.advance(r1, 6)
    rig.cache.admit(r2, 5)
    assert rig.table(r2)[0] == b


@pytest.mark.clause("HIT-SOURCE-1")
def test_what_is_served_is_shared_before_what_is_reserved(hybrid: MakeHybrid) -> None:
    rig = hybrid(ATTENTION)
    rig.begin()
    [reserved] = rig.reserve(rig.request("first", TWENTY), (0, 4))
    [other] = rig.reserve(rig.request("second", TWENTY), (0, 4))
    rig.pool.evict([reserved])
    rig.settle_all()
    r1, r2 = rig.request("r1", TWENTY), rig.request("r2", TWENTY)
    rig.begin()
    rig.put(rig.requests[0], reserved, 4)
    rig.cache.admit(r1, 5)
    assert rig.table(r1)[0] == other
    rig.pool.evict([other])
    rig.cache.admit(r2, 5)
    assert rig.table(r2)[0] == reserved


@pytest.mark.clause("HIT-SOURCE-1", "ADMIT-COPY-1")
@pytest.mark.parametrize(("positions", "source"), [((8, 4, 6), 1), ((8, 6), 1), ((6, 8), 0), ((2, 8), 1)], ids=named)
def test_a_slot_is_copied_from_the_least_key_that_covers_the_hit(
    hybrid: MakeHybrid, positions: tuple[int, ...], source: int
) -> None:
    rig = hybrid(WIDE, RECURRENT)
    blocks = rig.publish(rig.request("there", TWENTY), *[(0, n) for n in positions], (1, 4))
    r1 = rig.request("r1", TWENTY)
    rig.admit(r1, 5)
    assert rig.copies()[0] == (blocks[source], rig.table(r1)[0])


@pytest.mark.clause("HIT-SOURCE-1")
def test_a_slot_is_copied_from_the_first_block_with_the_least_key(hybrid: MakeHybrid) -> None:
    rig = hybrid(WIDE, RECURRENT)
    a, _ = rig.publish(rig.request("first", TWENTY), (0, 4), (1, 4))
    [b] = rig.publish(rig.request("second", TWENTY), (0, 4))
    r1, r2 = rig.request("r1", TWENTY), rig.request("r2", TWENTY)
    rig.admit(r1, 5)
    rig.pool.evict([a])
    rig.cache.admit(r2, 5)
    assert [src for src, _ in rig.copies()] == [a, b]


# All of it against the clauses read aloud


def declared(groups: list[GroupConfig], chosen: HybridConfig, served: set[Place], shared: set[Place], t: int) -> Match:
    """The match of a request of t tokens, from the sets of places that are served and reserved."""
    unit = 2 if chosen.fine_grained else lcm(*[group.block_size for group in groups])
    boundaries = list(range(0, t, unit))

    def usable(g: int, n: int, there: set[Place], batch: set[Place]) -> bool:
        if groups[g].kind is GroupKind.RECURRENT:
            return (g, n) in there
        if g not in chosen.drop:
            return rows(g, n, there, batch, t - 1)
        d = min(unit, groups[g].block_size)
        return all(rows(g, m, there, batch, t - 1 + d) for m in (n, n + d))

    def rows(g: int, n: int, there: set[Place], batch: set[Place], limit: int) -> bool:
        size, rows = groups[g].block_size, groups[g].window
        needed = [row for row in range(n) if rows is None or row > n - rows]
        whole = {row // size for row in needed if row // size < n // size}
        alike = there | batch if rows is None else there
        inside = n % size == 0 or any((g, m) in there for m in range(n, min(limit, n // size * size + size) + 1))
        return inside and all((g, slot * size + size) in alike for slot in whole)

    def greatest(chosen_groups: list[int], there: set[Place], batch: set[Place]) -> int:
        return max(n for n in boundaries if n == 0 or all(usable(g, n, there, batch) for g in chosen_groups))

    everything = list(range(len(groups)))
    attention = [g for g in everything if groups[g].kind is GroupKind.FULL_ATTENTION]
    joint = greatest(everything, served, shared)
    alone = greatest(attention, served, shared) if attention else 0
    return Match(joint, alone if alone > joint else 0, greatest(everything, served | shared, shared))


@pytest.mark.clause("HIT-JOINT-1", "HIT-JUNCTION-1", "HIT-PENDING-1")
def test_random_keys_give_what_the_clauses_say(hybrid: MakeHybrid) -> None:
    met: Counter[str] = Counter()
    for seed in range(60):
        random = Random(seed)
        makers = [full, lambda size: window(size, random.randint(1, 9)), state]  # noqa: B023
        groups = [random.choice(makers)(random.choice([2, 4, 6])) for _ in range(random.randint(1, 3))]
        attention = [g for g, group in enumerate(groups) if group.kind is not GroupKind.RECURRENT]
        drop = tuple(g for g in attention if random.random() < 0.3)
        chosen = HybridConfig(fine_grained=random.random() < 0.7, drop=drop)
        rig = hybrid(*groups, hybrid=chosen, blocks=80)
        everywhere = [(g, n) for g in range(len(groups)) for n in range(2, 21, 2)]
        served = {place for place in everywhere if random.random() < 0.75}
        reserved = {place for place in everywhere if place not in served and random.random() < 0.5}
        rig.publish(rig.request("there", TWENTY), *sorted(served))
        rig.begin()
        rig.reserve(rig.request("writer", TWENTY), *sorted(reserved))
        for t in range(1, 21):
            found = rig.cache.match(Request(f"r{t}", list(TWENTY[:t]), rig.pool.hasher))
            here = {place for place in served if place[1] <= t}
            soon = {place for place in reserved if place[1] <= t}
            whole = {(g, n) for g, n in soon if n % groups[g].block_size == 0}
            wanted = declared(groups, chosen, here, whole, t)
            pending = declared(groups, chosen, here | soon, set(), t).hit
            assert found == Match(wanted.hit, wanted.junction, pending), (seed, t)
            met["inside a block"] += any(found.hit % group.block_size for group in groups)
            met["junction"] += found.junction > 0
            met["pending"] += found.pending > found.hit
    assert met["inside a block"] > 100
    assert met["junction"] > 50
    assert met["pending"] > 100
