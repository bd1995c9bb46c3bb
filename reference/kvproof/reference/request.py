"""A request: its tokens, its prefix hashes in every block-size view (clauses REQ-*, BACK-PROMPT-1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from kvproof.reference.hashing import PrefixHasher, make_key
from kvproof.reference.positions import hash_index, view_index, view_length
from kvproof.reference.validate import (
    MAX_GROUPS,
    check_extra_keys,
    check_index,
    check_int,
    check_name,
    check_position,
    check_tokens,
    shown,
)
from kvproof.spec.errors import InvalidArgument
from kvproof.spec.vocabulary import ExtraKey, Key


class Request:
    """One request as the cache sees it.

    `tokens` and `hashes` only ever grow in place; truncation replaces the lists. So a `Prefix` that somebody kept stays
    what it was, and costs nothing to keep. Read the attributes as you like; change them
    only by the methods.
    """

    __slots__ = ("extra_keys", "hasher", "hashes", "num_prompt_tokens", "request_id", "tokens")

    def __init__(
        self,
        request_id: str,
        tokens: Sequence[int],
        hasher: PrefixHasher,
        extra_keys: Sequence[ExtraKey] = (),
    ) -> None:
        self.request_id = check_name("request_id", request_id)
        if not isinstance(hasher, PrefixHasher):
            raise InvalidArgument(f"hasher must be a PrefixHasher, not {shown(hasher)}")
        self.hasher = hasher
        self.extra_keys = check_extra_keys(extra_keys)
        self.tokens = check_tokens(tokens)
        self.hashes: list[bytes] = []
        self.num_prompt_tokens = len(self.tokens)
        self._extend_hashes()

    @property
    def num_tokens(self) -> int:
        """How many tokens the request has now."""
        return len(self.tokens)

    @property
    def hashed_length(self) -> int:
        """The greatest position that has a hash; a multiple of h."""
        return len(self.hashes) * self.hasher.hash_block_size

    def append(self, tokens: Sequence[int]) -> None:
        """Append tokens; the hashes follow at once (REQ-APPEND-1)."""
        self.tokens.extend(check_tokens(tokens))
        self._extend_hashes()

    def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens; hashes past them go (REQ-TRUNCATE-1, BACK-PROMPT-1)."""
        kept = check_int("num_tokens", num_tokens, 0, self.num_tokens)
        self.tokens = self.tokens[:kept]
        self.num_prompt_tokens = min(self.num_prompt_tokens, kept)
        self.hashes = self.hashes[: kept // self.hasher.hash_block_size]

    def hash_at(self, position: int) -> bytes | None:
        """H(position) for a positive multiple of h, None past the hashed length. Raises OutOfRange and NotAligned."""
        h = self.hasher.hash_block_size
        index = hash_index(check_position("position", position, h), h)
        return self.hashes[index] if index < len(self.hashes) else None

    def key_at(self, group: int, position: int) -> Key | None:
        """The key (group, H(position)), None past the hashed length. Raises like `hash_at`."""
        check_int("group", group, 0, MAX_GROUPS - 1)
        digest = self.hash_at(position)
        return None if digest is None else make_key(group, digest)

    def view(self, block_size: int) -> HashView:
        """The hashes at the ends of slots of `block_size` tokens (REQ-VIEW-1)."""
        return HashView(self, block_size)

    def _extend_hashes(self) -> None:
        h = self.hasher.hash_block_size
        while self.hashed_length + h <= self.num_tokens:
            start = self.hashed_length
            parent = self.hashes[-1] if self.hashes else self.hasher.seed_digest
            self.hashes.append(self.hasher.extend(parent, self.tokens[start : start + h], start, self.extra_keys))


class Prefix:
    """The first `length` tokens of a request as it was when this was made, with its hashes and extra keys."""

    __slots__ = ("_hashes", "extra_keys", "hash_block_size", "length", "tokens")

    def __init__(self, request: Request, length: int) -> None:
        self.tokens = request.tokens
        self.extra_keys = request.extra_keys
        self.length = length
        self.hash_block_size = request.hasher.hash_block_size
        self._hashes = request.hashes

    @property
    def spelled(self) -> tuple[int, ...]:
        """The tokens of the prefix."""
        return tuple(self.tokens[: self.length])

    def hash_at(self, position: int) -> bytes:
        """H(position), for a positive multiple of h within the prefix."""
        return self._hashes[hash_index(position, self.hash_block_size)]

    def cut(self, length: int) -> Prefix:
        """The first `length` tokens of this prefix."""
        twin = Prefix.__new__(Prefix)
        twin.tokens, twin.extra_keys, twin._hashes = self.tokens, self.extra_keys, self._hashes
        twin.hash_block_size, twin.length = self.hash_block_size, length
        return twin

    def meaning(self, length: int) -> tuple[object, ...]:
        """What the KV of the first `length` tokens depends on: the tokens, and every extra key's part before it."""
        covering = [
            (extra.source, extra.value, extra.start, length if extra.end is None else min(extra.end, length))
            for extra in self.extra_keys
            if extra.start < length
        ]
        return (*self.tokens[:length], *sorted(covering))

    def begins_with(self, other: Prefix) -> bool:
        """Whether `other` is a prefix of this one."""
        return other.length <= self.length and self.meaning(other.length) == other.meaning(other.length)

    def common(self, other: Prefix) -> Prefix:
        """The longest common prefix of both."""
        length = min(self.length, other.length)
        while self.meaning(length) != other.meaning(length):
            length -= 1
        return self.cut(length)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prefix):
            return NotImplemented
        return self.length == other.length and self.begins_with(other)

    def __hash__(self) -> int:
        return hash(self.meaning(self.length))

    def __repr__(self) -> str:
        return f"Prefix{self.spelled}"


class HashView(Sequence[bytes]):
    """A request's hashes seen in slots of one block size: item i is H((i+1) * block_size).

    It keeps no copy, so it cannot go stale when the request grows or is truncated (REQ-VIEW-1).
    """

    __slots__ = ("block_size", "request")

    def __init__(self, request: Request, block_size: int) -> None:
        h = request.hasher.hash_block_size
        self.request = request
        self.block_size = check_position("block_size", block_size, h)

    def __len__(self) -> int:
        return view_length(len(self.request.hashes), self.request.hasher.hash_block_size, self.block_size)

    @overload
    def __getitem__(self, slot: int) -> bytes: ...
    @overload
    def __getitem__(self, slot: slice) -> list[bytes]: ...
    def __getitem__(self, slot: int | slice) -> bytes | list[bytes]:
        if isinstance(slot, slice):
            return [self[i] for i in range(*slot.indices(len(self)))]
        if not -len(self) <= check_index("slot", slot) < len(self):
            raise IndexError(f"slot {slot} of a view of {len(self)} slots")
        return self.request.hashes[view_index(slot % len(self), self.request.hasher.hash_block_size, self.block_size)]
