"""The hash contract of a pool; the hashes themselves are computed by the native core (HASH-*)."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kvproof.gpu_backend import _core
from kvproof.gpu_backend.checks import MAX_POSITION, check_int
from kvproof.gpu_backend.refusals import out_of_range, shown
from kvproof.spec.errors import InvalidArgument
from kvproof.spec.vocabulary import GROUP_ID_BYTES, HashAlgorithm, Key, PoolConfig

XXH3_SEED_BYTES = 16

DIGEST_WORDS = {HashAlgorithm.SHA256: 8, HashAlgorithm.XXH3_128: 4}
"""How many 32-bit words a digest has."""


@dataclass(frozen=True, slots=True)
class PrefixHasher:
    """How prefixes are hashed. Two that are equal give equal prefixes equal digests; the seed itself is not kept."""

    digest_words: int
    hash_block_size: int
    seed_digest: bytes

    def __post_init__(self) -> None:
        """Raises InvalidArgument and OutOfRange."""
        if type(self.digest_words) is not int or self.digest_words not in DIGEST_WORDS.values():
            raise InvalidArgument(f"digest_words must be 4 (xxh3_128) or 8 (sha256), not {shown(self.digest_words)}")
        check_int("hash_block_size", self.hash_block_size, 1, MAX_POSITION)
        if type(self.seed_digest) is not bytes or len(self.seed_digest) != self.digest_size:
            raise InvalidArgument(
                f"seed_digest must be {self.digest_size} bytes by this contract, not {shown(self.seed_digest)}"
            )

    @classmethod
    def of(cls, config: PoolConfig) -> PrefixHasher:
        """The contract of a configuration that was checked (HASH-SEED-1, HASH-ALGORITHM-1)."""
        words = DIGEST_WORDS[config.hash_algorithm]
        seed = config.hash_seed
        if seed is None:
            seed = b"" if config.hash_algorithm is HashAlgorithm.SHA256 else os.urandom(XXH3_SEED_BYTES)
        return cls(words, config.hash_block_size, _core.digest(words, seed))

    @property
    def digest_size(self) -> int:
        """How many bytes a digest has."""
        return 4 * self.digest_words


def make_key(group: int, digest: bytes) -> Key:
    """The key (g, H(n)) as bytes (HASH-KEY-1)."""
    if type(group) is not int:
        raise InvalidArgument(f"group must be an integer, not {shown(group)}")
    if not 0 <= group < 2 ** (8 * GROUP_ID_BYTES - 1):
        raise out_of_range("group", group, "0 to 2**31 - 1")
    return digest + group.to_bytes(GROUP_ID_BYTES, "big")
