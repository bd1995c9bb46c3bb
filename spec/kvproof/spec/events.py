"""The events that a pool emits (clauses EVENT-*)."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.spec.vocabulary import ExtraKey


@dataclass(frozen=True, slots=True)
class PrefixHash:
    """The digest of the first `position` tokens of a request."""

    digest: bytes
    position: int


@dataclass(frozen=True, slots=True)
class Stored:
    """Keys of one contiguous run became resident (EVENT-STORED-*).

    `tokens` are exactly the tokens from the parent's position (0 without a parent) to the position of the last hash;
    `extra_keys` are those of the request's extra keys that cover one of these tokens.
    """

    group: int
    hashes: tuple[PrefixHash, ...]
    parent: PrefixHash | None
    tokens: tuple[int, ...]
    extra_keys: tuple[ExtraKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """One key is no longer resident (EVENT-REMOVED-*)."""

    group: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Cleared:
    """No key is resident any more (EVENT-CLEARED-1)."""


Event = Stored | Removed | Cleared
