"""Prefix hashes: named contracts, chained, with tagged extra keys (clauses HASH-*)."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Sequence

import xxhash

from kvproof.reference.positions import overlap
from kvproof.reference.validate import check_config, check_int, shown
from kvproof.spec.errors import InvalidArgument
from kvproof.spec.vocabulary import GROUP_ID_BYTES, ExtraKey, HashAlgorithm, Key, PoolConfig

SHA256_DEFAULT_SEED = b""
"""Fixed, so that processes that share a cache agree on its keys (HASH-SEED-1)."""

XXH3_SEED_BYTES = 16

_ALGORITHMS: dict[HashAlgorithm, tuple[int, Callable[[bytes], bytes]]] = {
    HashAlgorithm.SHA256: (32, lambda data: hashlib.sha256(data).digest()),
    HashAlgorithm.XXH3_128: (16, xxhash.xxh3_128_digest),
}


class PrefixHasher:
    """The hash function of one pool: H(0) is the digest of the seed, H(n) extends H(n-h) by one span of h tokens.

    Two pools whose hashers compare equal give equal prefixes equal digests. The seed itself is not kept: without it,
    nobody who sees digests can extend the chain from H(0) on his own.
    """

    __slots__ = ("digest", "digest_size", "hash_block_size", "seed_digest")

    def __init__(self, algorithm: HashAlgorithm, hash_block_size: int, seed: bytes | None = None) -> None:
        if not isinstance(algorithm, HashAlgorithm):
            raise InvalidArgument(f"algorithm must be a HashAlgorithm, not {shown(algorithm)}")
        if seed is not None and type(seed) is not bytes:
            raise InvalidArgument(f"seed must be bytes or None, not {shown(seed)}")
        self.digest_size, self.digest = _ALGORITHMS[algorithm]
        self.hash_block_size = check_int("hash_block_size", hash_block_size, 1)
        self.seed_digest = self.digest(_default_seed(algorithm) if seed is None else seed)

    @classmethod
    def of(cls, config: PoolConfig) -> PrefixHasher:
        """The hasher of a pool with this configuration."""
        check_config(config)
        return cls(config.hash_algorithm, config.hash_block_size, config.hash_seed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrefixHasher):
            return NotImplemented
        return (self.hash_block_size, self.seed_digest) == (other.hash_block_size, other.seed_digest)

    def __hash__(self) -> int:
        return hash((self.hash_block_size, self.seed_digest))

    def extend(self, parent: bytes, tokens: Sequence[int], span_start: int, extra_keys: Iterable[ExtraKey]) -> bytes:
        """H(span_start + h): the digest of `parent`, the span's h tokens and the extra keys that cover them."""
        span = struct.pack(f"<{len(tokens)}I", *tokens)
        return self.digest(parent + span + encode_extra_keys(extra_keys, span_start, span_start + len(tokens)))


def _default_seed(algorithm: HashAlgorithm) -> bytes:
    return SHA256_DEFAULT_SEED if algorithm is HashAlgorithm.SHA256 else os.urandom(XXH3_SEED_BYTES)


def encode_extra_keys(extra_keys: Iterable[ExtraKey], start: int, end: int) -> bytes:
    """What the extra keys mean for the tokens start .. end-1, as bytes (HASH-EXTRA-2).

    A count, then one record for each extra key that covers a token of the span: tag, first covered token counted from
    the start of the span, number of covered tokens, offset of the first covered token within the extra key, length of
    the value, value. Records are sorted, so the order in which a request lists its extra keys means nothing.
    """
    records = []
    for extra in extra_keys:
        first, last = overlap(extra.start, extra.end, start, end)
        if first < last:
            where = struct.pack("<BIIQ", extra.source, first - start, last - first, first - extra.start)
            records.append(where + struct.pack("<I", len(extra.value)) + extra.value)
    return struct.pack("<I", len(records)) + b"".join(sorted(records))


def make_key(group: int, digest: bytes) -> Key:
    """The key (g, H(n)) as bytes (HASH-KEY-1)."""
    return digest + group.to_bytes(GROUP_ID_BYTES, "big")


def split_key(key: Key) -> tuple[int, bytes]:
    """Group and digest of a key."""
    return int.from_bytes(key[-GROUP_ID_BYTES:], "big"), key[:-GROUP_ID_BYTES]
