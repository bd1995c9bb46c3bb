"""What a forward pass computes, as exact numbers: a row's number depends on every token and extra key up to it.

A backend that owns memory keeps the numbers where its engine would keep rows and states; each is right or wrong, with
no tolerance. A number follows from the one before it by a linear recurrence, so a state that was advanced from a wrong
one stays wrong.
"""

from __future__ import annotations

from xxhash import xxh3_64_intdigest

from kvproof.reference.request import Prefix
from kvproof.spec.vocabulary import ExtraKey, GroupKind, PoolConfig

MODULUS = 2**53 - 111
"""A prime; numbers below it are exact in every JSON reader."""

FACTOR = 1_442_695_040_888_963

MOST_KEPT = 4_096
"""Requests whose numbers are kept."""


class Fingerprints:
    """The numbers of prefixes in the groups of one pool.

    They are kept for each list of tokens, which only ever grows (see `Prefix`); a list is kept with its numbers, so
    that its identity stays its own.
    """

    def __init__(self, config: PoolConfig) -> None:
        self._config = config
        self._kept: dict[tuple[int, int], tuple[Prefix, list[int]]] = {}

    def rows(self, prefix: Prefix, group: int) -> tuple[int, ...]:
        """What a block holds of a prefix: its rows in the slot of its last token, or the state after it alone."""
        config, numbers = self._config.groups[group], self._numbers(prefix, group)
        if config.kind is GroupKind.RECURRENT:
            return (numbers[prefix.length],)
        start = (prefix.length - 1) // config.block_size * config.block_size
        return tuple(numbers[start + 1 : prefix.length + 1])

    def of_chunk(self, prefix: Prefix, start: int, group: int) -> tuple[int, ...]:
        """What a chunk that begins after `start` tokens and ends with the prefix computes: its rows, or its state."""
        numbers = self._numbers(prefix, group)
        recurrent = self._config.groups[group].kind is GroupKind.RECURRENT
        return tuple(numbers[prefix.length if recurrent else start + 1 : prefix.length + 1])

    def _numbers(self, prefix: Prefix, group: int) -> list[int]:
        """The number after each of the tokens, at least as many as the prefix has; the first one is before all."""
        place = id(prefix.tokens), group
        if place not in self._kept:
            if len(self._kept) == MOST_KEPT:
                self._kept.clear()
            self._kept[place] = prefix, [group + 1]
        numbers = self._kept[place][1]
        for position in range(len(numbers) - 1, prefix.length):
            token = prefix.tokens[position] + 1 + _extras_at(prefix.extra_keys, position)
            numbers.append((numbers[-1] * FACTOR + token) % MODULUS)
        return numbers


def _extras_at(extras: tuple[ExtraKey, ...], position: int) -> int:
    """The part of the extra keys that cover a token; in which order they are given does not matter."""
    covering = [extra for extra in extras if extra.start <= position and (extra.end is None or position < extra.end)]
    return sum(xxh3_64_intdigest(bytes((extra.source,)) + extra.value) for extra in covering)
