from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from itertools import permutations

import pytest
import xxhash

from kvproof.reference import PrefixHasher, Request
from kvproof.spec.errors import InvalidArgument, OutOfRange, PoolError
from kvproof.spec.vocabulary import ExtraKey, ExtraKeySource, HashAlgorithm
from tests.clauses.rig import ATTENTION, RECURRENT, MakeRig, Rig, key

SHA256, XXH3 = HashAlgorithm.SHA256, HashAlgorithm.XXH3_128
ADAPTER, SALT, MEDIA, EMBEDDING = (
    ExtraKeySource.ADAPTER,
    ExtraKeySource.SALT,
    ExtraKeySource.MEDIA,
    ExtraKeySource.EMBEDDING,
)


def request(
    tokens: Sequence[int],
    extra_keys: Sequence[ExtraKey] = (),
    h: int = 2,
    algorithm: HashAlgorithm = SHA256,
    seed: bytes | None = b"",
) -> Request:
    return Request("r", list(tokens), PrefixHasher(algorithm, h, seed), extra_keys)


def digest_by_hand(algorithm: HashAlgorithm, data: bytes) -> bytes:
    if algorithm is SHA256:
        return hashlib.sha256(data).digest()
    return xxhash.xxh3_128_intdigest(data, seed=0).to_bytes(16, "big")


def chain_by_hand(
    tokens: Sequence[int], extra_keys: Sequence[ExtraKey], h: int, algorithm: HashAlgorithm, seed: bytes
) -> list[bytes]:
    """H(h), H(2h), ... written down from the clauses, token by token."""
    chain = [digest_by_hand(algorithm, seed)]
    for start in range(0, len(tokens) // h * h, h):
        records = []
        for extra in extra_keys:
            end = len(tokens) if extra.end is None else extra.end
            covered = [i for i in range(start, start + h) if extra.start <= i < end]
            if covered:
                numbers = [(covered[0] - start, 4), (len(covered), 4), (covered[0] - extra.start, 8)]
                record = bytes([extra.source])
                for number, size in [*numbers, (len(extra.value), 4)]:
                    record += number.to_bytes(size, "little")
                records.append(record + extra.value)
        span = b"".join(token.to_bytes(4, "little") for token in tokens[start : start + h])
        encoded = len(records).to_bytes(4, "little") + b"".join(sorted(records))
        chain.append(digest_by_hand(algorithm, chain[-1] + span + encoded))
    return chain[1:]


VECTORS = [
    (SHA256, b"", 1, [0], [], "5c5d42dcf39f71c0226ca720d8d518db615b5773f038e5e491963f6f47621bbd"),
    (SHA256, b"", 1, [2**32 - 1], [], "0c5f8d5c11d7d3951ef169f149c002807b3babb2587de17b4a909e46c1ab4830"),
    (SHA256, b"", 2, [256, 65536], [], "22c9542f98e273569f0264f48c0b7fe997b568eefcfc2b8e973e9a7f0c5fcb96"),
    (SHA256, b"", 2, [1, 2, 3, 4], [], "8480de076726414d53b5abe757deec24e841d1cc03f59cc7c3888e73a9f6de74"),
    (SHA256, b"kvproof", 2, [1, 2, 3, 4], [], "7b8deb0f77f3f3a44f92bb714b9dd9eaae78ed8f2b6497c7ded922e12aeca828"),
    (SHA256, b"", 2, [7, 7, 7, 7, 7, 7], [], "7dca2b4a20cbc1ab27d88812cd6c3daae5bcfb7edfa6dd259cd26655fcfe74ec"),
    (XXH3, b"", 2, [1, 2, 3, 4], [], "dd984bf80bd51eb3bd24d00608fc761e"),
    (XXH3, b"kvproof", 4, [1, 2, 3, 99], [], "0c167c99170c4ae2cddedf50ce49b2a2"),
    (
        SHA256,
        b"",
        2,
        [1, 2, 3, 4],
        [ExtraKey(SALT, b"a")],
        "409091bfffe15089c9ac154262529773d5c14cd3e71819d71590479c5c1f68ec",
    ),
    (
        SHA256,
        b"",
        2,
        [1, 2, 3, 4],
        [ExtraKey(ADAPTER, b"a")],
        "d55fd17184f8f9832be5fb6d96fcbda91ea7b6285c0d9ed9ef9397c5b92382ce",
    ),
    (
        SHA256,
        b"",
        2,
        [1, 2, 3, 4],
        [ExtraKey(MEDIA, b"cat", 1, 3)],
        "4f94dcbe95b233de1c8369c202925fbe794ceae06e12e37d73d396f88b739111",
    ),
    (
        SHA256,
        b"",
        2,
        [1, 2, 3, 4],
        [ExtraKey(EMBEDDING, b"", 2, 4)],
        "4749c9c50b95c53bac16ebfc9ca4100e05ccdc9c2de3dc5bb9571df252059c63",
    ),
    (
        XXH3,
        b"",
        2,
        [1, 2, 3, 4],
        [
            ExtraKey(ADAPTER, b"lora"),
            ExtraKey(SALT, b"a"),
            ExtraKey(MEDIA, b"cat", 1, 3),
            ExtraKey(EMBEDDING, b"e", 3, 4),
        ],
        "ac4f553615dec688e2d6213ae397a77c",
    ),
    # As bytes, a record that starts at 256 sorts before one that starts at 1.
    (
        SHA256,
        b"",
        512,
        list(range(512)),
        [ExtraKey(MEDIA, b"x", 1, 512), ExtraKey(MEDIA, b"x", 256, 512)],
        "e928391c6a0fad5cbc723917daace7a303c6ddad29134629343e7e4caaea63b8",
    ),
]


@pytest.mark.clause("HASH-SEED-1", "HASH-CHAIN-1", "HASH-TOKEN-1", "HASH-ALGORITHM-1", "HASH-EXTRA-2")
@pytest.mark.parametrize(("algorithm", "seed", "h", "tokens", "extra_keys", "expected"), VECTORS)
def test_vectors(
    algorithm: HashAlgorithm, seed: bytes, h: int, tokens: list[int], extra_keys: list[ExtraKey], expected: str
) -> None:
    r = request(tokens, extra_keys, h, algorithm, seed)
    assert r.hashes[-1].hex() == expected
    assert r.hashes == chain_by_hand(tokens, extra_keys, h, algorithm, seed)


# The chain


@pytest.mark.clause("HASH-SEED-1", "HASH-ALGORITHM-1")
@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (SHA256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (XXH3, "99aa06d3014798d86001c324468d497f"),
    ],
)
def test_the_digest_of_an_empty_seed_is_the_one_published_for_empty_input(
    algorithm: HashAlgorithm, expected: str
) -> None:
    assert PrefixHasher(algorithm, 2, b"").seed_digest.hex() == expected


@pytest.mark.clause("HASH-SEED-1")
def test_without_a_seed_sha256_has_the_empty_one(new_rig: MakeRig) -> None:
    by_default, empty, other = new_rig(), new_rig(seed=b""), new_rig(seed=b"\0")
    names = [rig.request("r1", [1, 2]).hash_at(2) for rig in (by_default, empty, other)]
    assert names[0] == names[1] != names[2]


@pytest.mark.clause("HASH-SEED-1")
def test_without_a_seed_xxh3_draws_sixteen_random_bytes_once_per_pool(
    new_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []

    def urandom(size: int) -> bytes:
        drawn.append(size)
        return bytes([len(drawn)]) * size

    monkeypatch.setattr(os, "urandom", urandom)
    pools = [new_rig(algorithm=XXH3), new_rig(algorithm=XXH3)]
    for number, rig in enumerate(pools, 1):
        for name in ("r1", "r2"):
            assert rig.request(name, [1, 2]).hashes == chain_by_hand([1, 2], [], 2, XXH3, bytes([number]) * 16)
    assert drawn == [16, 16]


@pytest.mark.clause("HASH-SEED-1")
def test_an_xxh3_pool_with_a_seed_uses_it_and_nothing_random(new_rig: MakeRig) -> None:
    names = [new_rig(algorithm=XXH3, seed=b"s").request("r1", [1, 2]).hash_at(2) for _ in range(2)]
    assert names == chain_by_hand([1, 2], [], 2, XXH3, b"s") * 2


@pytest.mark.clause("HASH-SEED-1")
def test_two_xxh3_pools_without_a_seed_name_the_same_tokens_differently(new_rig: MakeRig) -> None:
    names = {new_rig(algorithm=XXH3).request("r1", [1, 2]).hash_at(2) for _ in range(3)}
    assert len(names) == 3


@pytest.mark.clause("HASH-CHAIN-1")
def test_repeated_tokens_have_another_name_at_every_position(rig: Rig) -> None:
    assert len(set(rig.request("r1", [7] * 8).hashes)) == 4


@pytest.mark.clause("HASH-CHAIN-1")
@pytest.mark.parametrize("changed", range(6))
def test_a_token_changes_the_hashes_behind_it_and_none_before_it(changed: int) -> None:
    tokens = [1, 2, 3, 4, 5, 6]
    before = request(tokens).hashes
    tokens[changed] += 100
    after = request(tokens).hashes
    first = changed // 2
    assert after[:first] == before[:first]
    assert not set(after[first:]) & set(before)


@pytest.mark.clause("HASH-CHAIN-1")
def test_the_hash_size_decides_what_one_link_covers() -> None:
    fine, coarse = request([1, 2, 3, 4], h=2), request([1, 2, 3, 4], h=4)
    seed = hashlib.sha256(b"").digest()
    one_span = bytes.fromhex("01000000 02000000 03000000 04000000")
    assert coarse.hash_at(4) == hashlib.sha256(seed + one_span + bytes(4)).digest()
    assert fine.hash_at(4) != coarse.hash_at(4)


@pytest.mark.clause("HASH-TOKEN-1")
@pytest.mark.parametrize("token", [0, 1, 255, 256, 2**31, 2**32 - 1])
def test_a_token_is_hashed_as_four_bytes_the_least_significant_first(token: int) -> None:
    data = hashlib.sha256(b"").digest() + token.to_bytes(4, "little") + bytes(4)
    assert request([token], h=1).hash_at(1) == hashlib.sha256(data).digest()


@pytest.mark.clause("HASH-TOKEN-1")
@pytest.mark.parametrize(
    ("token", "error"),
    [
        (-1, OutOfRange),
        (2**32, OutOfRange),
        (2**64, OutOfRange),
        (1.0, InvalidArgument),
        ("1", InvalidArgument),
        (b"1", InvalidArgument),
        (True, InvalidArgument),
        (None, InvalidArgument),
    ],
)
def test_what_is_no_token_is_refused_at_construction_and_at_append(
    rig: Rig, token: object, error: type[PoolError]
) -> None:
    r1 = rig.request("r1", [1, 2, 3])
    with rig.refused(error):
        r1.append([4, token])  # type: ignore[list-item]
    with pytest.raises(error):
        request([1, token])  # type: ignore[list-item]


@pytest.mark.clause("HASH-ALGORITHM-1")
@pytest.mark.parametrize(("algorithm", "size"), [(SHA256, 32), (XXH3, 16)])
def test_digests_have_the_size_of_their_algorithm(algorithm: HashAlgorithm, size: int) -> None:
    assert [len(digest) for digest in request([1, 2, 3, 4], algorithm=algorithm).hashes] == [size, size]


@pytest.mark.clause("HASH-ALGORITHM-1")
def test_xxh3_digests_are_big_endian_and_made_with_seed_zero() -> None:
    seed_digest = xxhash.xxh3_128_intdigest(b"s", seed=0).to_bytes(16, "big")
    data = seed_digest + bytes.fromhex("01000000 02000000 00000000")
    assert request([1, 2], algorithm=XXH3, seed=b"s").hashes == [
        xxhash.xxh3_128_intdigest(data, seed=0).to_bytes(16, "big")
    ]


@pytest.mark.clause("HASH-KEY-1")
@pytest.mark.parametrize(
    ("group", "suffix"),
    [(0, "00000000"), (1, "00000001"), (258, "00000102"), (2**16 - 1, "0000ffff")],
)
def test_a_key_is_the_digest_and_the_group_with_the_most_significant_byte_first(group: int, suffix: str) -> None:
    expected = "8480de076726414d53b5abe757deec24e841d1cc03f59cc7c3888e73a9f6de74" + suffix
    assert key(request([1, 2, 3, 4]), 4, group).hex() == expected


@pytest.mark.clause("HASH-KEY-1")
def test_a_key_of_one_group_finds_nothing_of_another(new_rig: MakeRig) -> None:
    rig = new_rig(ATTENTION, RECURRENT)
    r1 = rig.request("r1")
    [rows] = rig.fill(r1, 1, group=0)
    assert rig.found(r1, 4, group=1) is None
    [state] = rig.fill(r1, 1, group=1)
    assert (rig.found(r1, 4, group=0), rig.found(r1, 4, group=1)) == (rows, state)


# Extra keys


def salted(value: bytes) -> list[ExtraKey]:
    return [ExtraKey(SALT, value)]


@pytest.mark.clause("HASH-EXTRA-1")
def test_salts_keep_requests_apart_from_the_first_block_on(rig: Rig) -> None:
    r1, r2 = rig.request("r1", extra_keys=salted(b"a")), rig.request("r2", extra_keys=salted(b"b"))
    r3 = rig.request("r3")
    assert len({r.hash_at(2) for r in (r1, r2, r3)}) == 3
    table = rig.fill(r1, 2)
    for stranger in (r2, r3):
        assert [rig.found(stranger, position) for position in (4, 8)] == [None, None]
    again = rig.request("again", extra_keys=salted(b"a"))
    assert [rig.found(again, position) for position in (4, 8)] == table


@pytest.mark.clause("HASH-EXTRA-1")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([ExtraKey(ADAPTER, b"x")], [ExtraKey(SALT, b"x")]),
        ([ExtraKey(MEDIA, b"x", 0, 2)], [ExtraKey(EMBEDDING, b"x", 0, 2)]),
        ([ExtraKey(MEDIA, b"\x01\x00\x07", 0, 4)], [ExtraKey(MEDIA, b"\x02\x00\x07", 0, 4)]),
        ([ExtraKey(MEDIA, b"x", 0, 1)], [ExtraKey(MEDIA, b"x", 1, 2)]),
        ([ExtraKey(MEDIA, b"x", 0, 1)], [ExtraKey(MEDIA, b"x", 0, 2)]),
        ([ExtraKey(SALT, b"ab"), ExtraKey(SALT, b"c")], [ExtraKey(SALT, b"a"), ExtraKey(SALT, b"bc")]),
        ([ExtraKey(SALT, b"a\0\0\0\0")], [ExtraKey(SALT, b"a")]),
        ([ExtraKey(MEDIA, b"same beginning, 1")], [ExtraKey(MEDIA, b"same beginning, 2")]),
        ([ExtraKey(MEDIA, b"1, same end")], [ExtraKey(MEDIA, b"2, same end")]),
        ([ExtraKey(SALT, b"")], []),
        ([ExtraKey(SALT, b"a")], [ExtraKey(SALT, b"a"), ExtraKey(ADAPTER, b"a")]),
    ],
)
def test_different_extra_keys_give_different_hashes(ours: list[ExtraKey], theirs: list[ExtraKey]) -> None:
    assert request([1, 2], ours).hash_at(2) != request([1, 2], theirs).hash_at(2)


@pytest.mark.clause("HASH-EXTRA-1")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([ExtraKey(SALT, b"x")], [ExtraKey(SALT, b"x", 0, 4)]),
        ([ExtraKey(MEDIA, b"x", 0, 4)], [ExtraKey(MEDIA, b"x", 0, 9)]),
        ([ExtraKey(MEDIA, b"x", 4, 9)], []),
        ([ExtraKey(MEDIA, b"x", 4)], [ExtraKey(SALT, b"y", 7)]),
    ],
)
def test_only_what_covers_the_prefix_counts(ours: list[ExtraKey], theirs: list[ExtraKey]) -> None:
    assert request([1, 2, 3, 4], ours).hash_at(4) == request([1, 2, 3, 4], theirs).hash_at(4)


@pytest.mark.clause("HASH-EXTRA-1", "HASH-EXTRA-2")
def test_the_second_row_of_an_image_is_not_its_first_row() -> None:
    seed = request([1, 2]).hasher.seed_digest
    first = request([9, 9], [ExtraKey(MEDIA, b"x", 0, 4)])
    whole = request([9, 9, 9, 9], [ExtraKey(MEDIA, b"x", 0, 4)])
    record = "01000000 03 00000000 02000000 {} 01000000 78"
    expected = bytes.fromhex("09000000 09000000" + record.format("0000000000000000"))
    assert first.hash_at(2) == whole.hash_at(2) == hashlib.sha256(seed + expected).digest()
    expected = bytes.fromhex("09000000 09000000" + record.format("0200000000000000"))
    assert whole.hash_at(4) == hashlib.sha256(whole.hashes[0] + expected).digest()


@pytest.mark.clause("HASH-EXTRA-2")
def test_the_bytes_of_a_span_with_two_extra_keys() -> None:
    r = request([5, 6], [ExtraKey(SALT, b"ab"), ExtraKey(ADAPTER, b"", 1)])
    data = bytes.fromhex(
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # H(0)
        "05000000 06000000"  # the tokens
        "02000000"  # two records
        "01 01000000 01000000 0000000000000000 00000000"  # adapter "" covers the token 1 of the span
        "02 00000000 02000000 0000000000000000 02000000 6162"  # salt "ab" covers both
    )
    assert r.hash_at(2) == hashlib.sha256(data).digest()


@pytest.mark.clause("HASH-EXTRA-2")
def test_an_extra_key_that_covers_no_token_of_a_span_leaves_no_trace_in_it() -> None:
    extra_keys = [ExtraKey(MEDIA, b"x", 2, 4)]
    plain, covered = request([1, 2, 3, 4, 5, 6]), request([1, 2, 3, 4, 5, 6], extra_keys)
    assert covered.hash_at(2) == plain.hash_at(2)
    assert covered.hash_at(4) != plain.hash_at(4)
    third = hashlib.sha256(covered.hashes[1] + bytes.fromhex("05000000 06000000 00000000")).digest()
    assert covered.hash_at(6) == third


@pytest.mark.clause("HASH-EXTRA-2")
def test_a_prefixs_hash_does_not_change_when_an_extra_key_goes_on_behind_it(rig: Rig) -> None:
    short = rig.request("r1", [1, 2], [ExtraKey(MEDIA, b"x", 1, 9)])
    before = short.hash_at(2)
    short.append([3, 4, 5, 6, 7, 8])
    assert short.hash_at(2) == before


@pytest.mark.clause("HASH-EXTRA-2")
def test_an_offset_within_an_extra_key_may_exceed_sixteen_bits() -> None:
    r = request([0] * (2**16 + 4), [ExtraKey(MEDIA, b"x", 1)])
    # The last span begins with the token 2**16 + 2, which is the token 2**16 + 1 of the image.
    span = bytes.fromhex("00000000 00000000 01000000 03 00000000 02000000 0100010000000000 01000000 78")
    assert r.hashes[-1] == hashlib.sha256(r.hashes[-2] + span).digest()


@pytest.mark.clause("HASH-EXTRA-3")
def test_the_order_of_extra_keys_means_nothing() -> None:
    extra_keys = [
        ExtraKey(SALT, b"a"),
        ExtraKey(MEDIA, b"x", 0, 1),
        ExtraKey(MEDIA, b"w", 0, 1),
        ExtraKey(ADAPTER, b""),
    ]
    assert len({request([1, 2], order).hash_at(2) for order in permutations(extra_keys)}) == 1


@pytest.mark.clause("HASH-EXTRA-3")
def test_an_extra_key_listed_twice_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        request([1, 2], [ExtraKey(SALT, b"a"), ExtraKey(MEDIA, b"x"), ExtraKey(SALT, b"a")])


@pytest.mark.clause("HASH-EXTRA-3")
@pytest.mark.parametrize(
    "other", [ExtraKey(SALT, b"b"), ExtraKey(ADAPTER, b"a"), ExtraKey(SALT, b"a", 1), ExtraKey(SALT, b"a", 0, 2)]
)
def test_extra_keys_that_differ_in_anything_may_both_be_listed(other: ExtraKey) -> None:
    request([1, 2], [ExtraKey(SALT, b"a"), other])


# Requests

NINE = [3, 1, 4, 1, 5, 9, 2, 6, 5]
NINE_HASHES = chain_by_hand(NINE, [ExtraKey(SALT, b"a", 3)], 2, SHA256, b"")


@pytest.mark.clause("REQ-APPEND-1", "REQ-VIEW-1")
@pytest.mark.parametrize("chunks", [[9], [1] * 9, [2, 2, 2, 3], [3, 3, 3], [5, 0, 4], [0, 1, 8]])
def test_appended_tokens_are_hashed_at_once_in_every_view(chunks: list[int]) -> None:
    r = request([], [ExtraKey(SALT, b"a", 3)])
    views = {size: r.view(size) for size in (2, 4, 6, 8)}
    done = 0
    for chunk in chunks:
        r.append(NINE[done : done + chunk])
        done += chunk
        assert list(views[2]) == NINE_HASHES[: done // 2]
        assert list(views[4]) == NINE_HASHES[1::2][: done // 4]
        assert list(views[6]) == NINE_HASHES[2::3][: done // 6]
        assert list(views[8]) == NINE_HASHES[3::4][: done // 8]
        assert [r.hash_at(position) for position in (2, 4, 6, 8)] == [*r.hashes, *[None] * 4][:4]
    assert r.tokens == NINE


@pytest.mark.clause("REQ-TRUNCATE-1")
@pytest.mark.parametrize("kept", range(10))
def test_no_hash_is_left_beyond_a_truncation(kept: int) -> None:
    r = request(NINE, [ExtraKey(SALT, b"a", 3)])
    r.truncate(kept)
    assert r.tokens == NINE[:kept]
    assert r.hashes == list(r.view(2)) == NINE_HASHES[: kept // 2]
    beyond = [position for position in (2, 4, 6, 8) if position > kept]
    assert [r.hash_at(position) for position in beyond] == [None] * len(beyond)


@pytest.mark.clause("REQ-TRUNCATE-1")
@pytest.mark.parametrize("kept", range(9))
def test_tokens_appended_after_a_truncation_are_hashed_anew(kept: int) -> None:
    r = request(NINE, [ExtraKey(SALT, b"a", 3)])
    r.truncate(kept)
    r.append([100] * 4)
    assert r.hashes == chain_by_hand(NINE[:kept] + [100] * 4, [ExtraKey(SALT, b"a", 3)], 2, SHA256, b"")


@pytest.mark.clause("REQ-TRUNCATE-1")
def test_a_hash_of_discarded_tokens_cannot_be_asked_for_again(new_rig: MakeRig) -> None:
    rig = new_rig(h=4)
    r1 = rig.request("r1", [1, 2, 3])
    r1.append([99])
    assert r1.hashes == chain_by_hand([1, 2, 3, 99], [], 4, SHA256, b"")
    [old] = rig.fill(r1, 1)
    discarded = key(r1, 4)
    r1.truncate(3)
    assert r1.hash_at(4) is None
    r1.append([7])
    assert r1.hashes == chain_by_hand([1, 2, 3, 7], [], 4, SHA256, b"")
    assert rig.found(r1, 4) is None
    [new] = rig.fill(r1, 1)
    assert rig.found(r1, 4) == new
    assert rig.pool.lookup([discarded]) == [old]


@pytest.mark.clause("REQ-TRUNCATE-1")
@pytest.mark.parametrize("kept", [-1, 4])
def test_a_request_is_not_truncated_to_more_or_less_than_it_has(rig: Rig, kept: int) -> None:
    r1 = rig.request("r1", [1, 2, 3])
    with rig.refused(OutOfRange):
        r1.truncate(kept)
    r1.truncate(3)
    r1.truncate(0)
    assert r1.num_tokens == 0


@pytest.mark.clause("REQ-VIEW-1")
def test_a_view_shows_the_request_as_it_is_now() -> None:
    r = request([1, 2, 3, 4, 5, 6, 7, 8])
    view = r.view(4)
    old = list(view)
    r.truncate(6)
    assert list(view) == old[:1]
    assert len(view) == 1
    r.append([70, 80])
    assert list(view) == [old[0], chain_by_hand([1, 2, 3, 4, 5, 6, 70, 80], [], 2, SHA256, b"")[3]]
    assert view[-1] == view[1] == r.hash_at(8)
    assert view[0:2] == list(view)
    assert old[1] not in view


@pytest.mark.clause("REQ-VIEW-1")
def test_a_view_has_no_items_outside_the_whole_slots() -> None:
    view = request([1, 2, 3, 4, 5, 6, 7]).view(4)
    assert len(view) == 1
    assert view[0] == view[-1]
    for slot in (1, -2, 2**70):
        with pytest.raises(IndexError):
            view[slot]
