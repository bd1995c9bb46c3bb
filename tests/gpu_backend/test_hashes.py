"""The core's hashes are those of the libraries that everybody else uses."""

from __future__ import annotations

import hashlib
from random import Random

import pytest
import xxhash

from kvproof.gpu_backend import PrefixHasher, Request, _core
from kvproof.reference import PrefixHasher as ReferenceHasher
from kvproof.reference import Request as ReferenceRequest
from kvproof.spec.errors import InvalidArgument, NotAligned, OutOfRange
from kvproof.spec.vocabulary import ExtraKey, ExtraKeySource, HashAlgorithm
from tests.gpu_backend.pools import config

LENGTHS = [*range(600), 1023, 1024, 1025, 2047, 2048, 2049, 4096, 9000]
"""Every class of lengths of XXH3 and SHA-256, with its edges."""

ALIGNMENTS = range(8)


@pytest.mark.clause("HASH-ALGORITHM-1")
def test_xxh3_is_that_of_the_xxhash_package_at_every_length_and_alignment() -> None:
    data = Random(1).randbytes(LENGTHS[-1] + len(ALIGNMENTS))
    for length in LENGTHS:
        for at in ALIGNMENTS:
            part = memoryview(data)[at : at + length]
            assert _core.digest(4, part) == xxhash.xxh3_128_digest(part), (length, at)


@pytest.mark.clause("HASH-ALGORITHM-1")
def test_sha256_is_that_of_hashlib_at_every_length() -> None:
    data = Random(2).randbytes(LENGTHS[-1])
    for length in LENGTHS:
        assert _core.digest(8, data[:length]) == hashlib.sha256(data[:length]).digest(), length


def extras(random: Random) -> list[ExtraKey]:
    """Extra keys that begin, end and overlap anywhere."""
    drawn = [
        ExtraKey(
            random.choice(list(ExtraKeySource)),
            random.randbytes(random.randrange(5)),
            start := random.randrange(12),
            random.choice([None, start + 1 + random.randrange(9)]),
        )
        for _ in range(random.randrange(6))
    ]
    return list(dict.fromkeys(drawn))


@pytest.mark.clause("HASH-CHAIN-1", "HASH-EXTRA-2", "REQ-APPEND-1", "REQ-TRUNCATE-1")
@pytest.mark.parametrize("algorithm", HashAlgorithm)
def test_the_hashes_of_a_request_are_the_references_whatever_happens_to_it(algorithm: HashAlgorithm) -> None:
    random = Random(3)
    chosen = config(algorithm=algorithm)
    for _ in range(60):
        given, tokens = extras(random), [random.getrandbits(32) for _ in range(random.randrange(20))]
        ours = Request("r1", tokens, PrefixHasher.of(chosen), given)
        theirs = ReferenceRequest("r1", tokens, ReferenceHasher.of(chosen), given[::-1])
        for _ in range(8):
            kept = random.randint(0, theirs.num_tokens)
            more = [random.getrandbits(32) for _ in range(random.randrange(9))]
            for request in (ours, theirs):
                request.truncate(kept)
                request.append(more)
            assert ours.tokens == theirs.tokens
            assert ours.hashes == theirs.hashes
            assert list(ours.view(4)) == list(theirs.view(4))


@pytest.mark.clause("REQ-TRUNCATE-1")
def test_who_keeps_a_text_keeps_what_it_was() -> None:
    request = Request("r1", [1, 2, 3, 4], PrefixHasher.of(config()))
    kept, before = request.text, request.hashes
    request.truncate(2)
    request.append([9, 9])
    assert kept.tokens(0, 4) == (1, 2, 3, 4)
    assert [kept.digest(0), kept.digest(1)] == before
    assert request.hashes[1] != before[1]


@pytest.mark.parametrize(
    ("tokens", "error"),
    [
        ([2**32], OutOfRange),
        ([-1], OutOfRange),
        ([10**30], OutOfRange),
        ([True], InvalidArgument),
        (["1"], InvalidArgument),
        ("12", InvalidArgument),
        (None, InvalidArgument),
    ],
)
def test_bad_tokens_are_refused_and_leave_the_request_alone(tokens: object, error: type[Exception]) -> None:
    request = Request("r1", [1, 2], PrefixHasher.of(config()))
    with pytest.raises(error):
        request.append([5, *tokens] if isinstance(tokens, list) else tokens)  # type: ignore[arg-type]
    assert request.tokens == [1, 2]


def test_bad_positions_are_refused() -> None:
    request = Request("r1", [1, 2], PrefixHasher.of(config()))
    with pytest.raises(NotAligned):
        request.hash_at(1)
    with pytest.raises(OutOfRange):
        request.hash_at(0)
    assert request.hash_at(4) is None
