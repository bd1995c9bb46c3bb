"""Traces with smaller blocks: every number that counts tokens is made smaller with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec

from kvproof.conformance.certification.candidates import is_plain
from kvproof.conformance.certification.follow import Item
from kvproof.conformance.certification.reduce import Candidate, with_operation
from kvproof.conformance.operations import AddRequest, Append, KeyRef, Operation, Truncate
from kvproof.spec.vocabulary import PoolConfig

Scale = Callable[[int], int]
"""What becomes of a number of tokens."""

COUNTS = ("position", "num_tokens", "start", "end", "tokens", "cap", "junction")
"""The fields that count tokens, where they hold a number."""


def smaller_blocks(config: PoolConfig, items: Sequence[Item]) -> Iterator[Candidate]:
    """A hash after every token; and blocks of fewer tokens, where all groups have them alike."""
    h = config.hash_block_size
    if h > 1:
        groups = tuple(replace(group, block_size=group.block_size // h) for group in config.groups)
        hybrid = config.hybrid
        if hybrid is not None and hybrid.interval is not None:
            hybrid = replace(hybrid, interval=hybrid.interval // h)
        yield replace(config, hash_block_size=1, groups=groups, hybrid=hybrid), _scaled(items, lambda n: -(-n // h), h)
    sizes = {group.block_size for group in config.groups}
    if len(sizes) == 1 and (size := sizes.pop()) > h:
        for less in dict.fromkeys((h, size - h)):
            groups = tuple(replace(group, block_size=less) for group in config.groups)
            yield replace(config, groups=groups), _scaled(items, _cut_slots(size, less), 1)


def _cut_slots(size: int, less: int) -> Scale:
    """Of the tokens of each slot only the first are left."""
    return lambda n: n // size * less + min(n % size, less)


def _scaled(items: Sequence[Item], scale: Scale, chunk: int) -> list[Item]:
    """The operations with their counts scaled; so many tokens that followed each other become one."""
    tokens_of: dict[str, list[int]] = {}
    chunks: dict[tuple[int, ...], int] = {}
    scaled = []
    for item in items:
        operation = _with_counts(item.operation, scale)
        if isinstance(operation, AddRequest | Append) and is_plain(operation):
            tokens = tokens_of.setdefault(operation.request, [])
            begin = len(tokens)
            tokens += operation.tokens
            kept = [n for n in range(begin, len(tokens)) if scale(n + 1) > scale(n)]
            names = [tuple(tokens[n : n + chunk]) for n in kept]
            new = tuple(chunks.setdefault(name, len(chunks)) for name in names)
            operation = msgspec.structs.replace(operation, tokens=new)
        elif isinstance(item.operation, Truncate) and is_plain(item.operation):
            del tokens_of.setdefault(item.operation.request, [])[item.operation.num_tokens :]
        scaled.append(with_operation(item, operation))
    return scaled


def _with_counts(operation: Operation, scale: Scale) -> Operation:
    changes: dict[str, object] = {}
    for field in operation.__struct_fields__:
        value = getattr(operation, field)
        if field in COUNTS and isinstance(value, int):
            changes[field] = scale(value)
        elif isinstance(value, KeyRef):
            changes[field] = _with_position(value, scale)
        elif isinstance(value, tuple):
            changes[field] = tuple(_with_position(each, scale) for each in value)
    return msgspec.structs.replace(operation, **changes)


def _with_position(value: object, scale: Scale) -> object:
    if isinstance(value, KeyRef) and isinstance(value.position, int):
        return msgspec.structs.replace(value, position=scale(value.position))
    return value
