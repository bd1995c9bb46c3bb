"""Faults that several tests give the reference, to see that a driver notices."""

from __future__ import annotations

from collections.abc import Iterable

from kvproof.reference import BlockPool
from kvproof.spec.vocabulary import Key

DROP_KEYS = BlockPool._drop_keys


def keep_the_last_key(self: BlockPool, block_id: int, keys: Iterable[Key] | None = None) -> None:
    """Like `_drop_keys`, but where several keys go the last one is forgotten."""
    chosen = list(self._index.keys_of(block_id) if keys is None else keys)
    DROP_KEYS(self, block_id, chosen[:-1] if len(chosen) > 1 else chosen)
