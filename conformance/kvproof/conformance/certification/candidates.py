"""Smaller traces to try: each of these yields what one kind of simplification makes of a trace.

Nothing here knows whether a candidate still shows what it has to, or whether its operations are legal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TypeVar

import msgspec

from kvproof.conformance.certification.follow import Item, blocks_in
from kvproof.conformance.certification.reduce import Candidate, with_operation
from kvproof.conformance.operations import (
    SAID_BY_THE_SUITE,
    AddRequest,
    Admit,
    Advance,
    Allocate,
    Append,
    BeginStep,
    CacheFullBlocks,
    Commit,
    Fail,
    Free,
    KeyRef,
    Operation,
    Truncate,
)
from kvproof.spec.vocabulary import (
    COPY_PREFIX,
    NULL_BLOCK,
    CommitMode,
    GroupConfig,
    GroupKind,
    HybridConfig,
    PoolConfig,
    Residency,
    Retention,
)

OFTEN_EMPTY = ("extra_keys", "mask", "replace")
"""Fields that most operations leave at their default."""

MOST_BLOCKS = 64
"""An allocation of more is one that has to be refused, or of a pool too large to be made small so."""

T = TypeVar("T")


def smaller_operations(config: PoolConfig, items: Sequence[Item]) -> Iterator[Candidate]:
    """One operation with less in it."""
    for number, item in enumerate(items):
        for smaller in _smaller(item.operation):
            yield config, _with(items, number, with_operation(item, smaller))
        if isinstance(item.operation, Allocate) and isinstance(item.operation.n, int):
            yield from ((config, fewer) for fewer in _fewer_blocks(items, number, item.operation))


def _smaller(operation: Operation) -> Iterator[Operation]:
    for field in operation.__struct_fields__:
        value = getattr(operation, field)
        if isinstance(value, tuple) and len(value) > 1 and field not in {"tokens", *SAID_BY_THE_SUITE}:
            for place in range(len(value)):
                yield msgspec.structs.replace(operation, **{field: (*value[:place], *value[place + 1 :])})
        elif field in OFTEN_EMPTY and value:
            yield msgspec.structs.replace(operation, **{field: _default(operation, field)})
    if isinstance(operation, CacheFullBlocks):
        yield from _fewer_slots(operation)
    if isinstance(operation, Admit | Advance) and type(operation.end) is int and operation.end > 1:
        yield from (msgspec.structs.replace(operation, end=end) for end in (operation.end // 2, operation.end - 1))
    if isinstance(operation, AddRequest | Append) and isinstance(operation.tokens, tuple) and operation.tokens:
        length = len(operation.tokens)
        for tokens in (operation.tokens[: length // 2], operation.tokens[:-1], operation.tokens[1:], (0,) * length):
            yield msgspec.structs.replace(operation, tokens=tokens)


def _fewer_slots(operation: CacheFullBlocks) -> Iterator[CacheFullBlocks]:
    """A registration that ends earlier, in a table that ends there, so that what is left is as legal as it was."""
    first, last, mask = operation.first, operation.last, operation.mask
    if type(first) is int and type(last) is int and isinstance(operation.blocks, tuple) and 0 <= first < last:
        for end in dict.fromkeys((first + 1, (first + last) // 2, last - 1)):
            if first < end < last:
                left = mask[: end - first] if isinstance(mask, tuple) else mask
                yield msgspec.structs.replace(operation, blocks=operation.blocks[:end], last=end, mask=left)


def _fewer_blocks(items: Sequence[Item], number: int, operation: Allocate) -> Iterator[list[Item]]:
    """An allocation without one of its blocks; those that come after it are counted anew."""
    for gone in range(operation.n if 1 < operation.n <= MOST_BLOCKS else 0):
        yield _without_taken(items, number, operation, gone)


def _with_symbols(item: Item, label: int, new: Mapping[tuple[int, int], tuple[int, int]]) -> Item:
    """The item with the blocks of one allocation called otherwise; those that have no new name have none."""
    kept = {block: new.get(symbol, symbol) for block, symbol in item.blocks.items() if symbol[0] != label}
    renamed = {block: new[symbol] for block, symbol in item.blocks.items() if symbol[0] == label and symbol in new}
    return replace(item, blocks={**kept, **renamed})


def without_a_block(config: PoolConfig, items: Sequence[Item]) -> Iterator[Candidate]:
    """A pool that has one block less, and nothing that was done with it; so a copy of a key goes with all its users."""
    for block in range(1, min(config.num_blocks, MOST_BLOCKS) if config.num_blocks > 2 else 0):
        left = [item for item in items if not _is_of_one(item, block)]
        for number, item in reversed(list(enumerate(left))):
            if block in item.taken and isinstance(item.operation, Allocate):
                left = _without_taken(left, number, item.operation, item.taken.index(block))
        yield replace(config, num_blocks=config.num_blocks - 1), [_without_named(item, block) for item in left]


def _is_of_one(item: Item, block: int) -> bool:
    """Whether an operation is about this block and no other."""
    return set(blocks_in(item.operation)) - {NULL_BLOCK} == {block} or item.taken == (block,)


def _without_taken(items: Sequence[Item], number: int, operation: Allocate, gone: int) -> list[Item]:
    label = items[number].label
    smaller = with_operation(items[number], msgspec.structs.replace(operation, n=operation.n - 1))
    numbers = {(label, n): (label, n - (n > gone)) for n in range(operation.n) if n != gone}
    return [_with_symbols(each, label, numbers) for each in _with(items, number, smaller)]


def _without_named(item: Item, block: int) -> Item:
    """The operation without one of its blocks; in a table the null block stands for it."""
    operation = item.operation
    blocks = getattr(operation, "blocks", None)
    if not isinstance(blocks, tuple) or block not in blocks:
        return item
    if isinstance(operation, CacheFullBlocks):
        kept = tuple(NULL_BLOCK if each == block else each for each in blocks)
    else:
        kept = tuple(each for each in blocks if each != block)
    return with_operation(item, msgspec.structs.replace(operation, blocks=kept))


def merged_operations(config: PoolConfig, items: Sequence[Item]) -> Iterator[Candidate]:
    """Two operations as one."""
    for first, one in enumerate(items):
        for second, other in enumerate(items[first + 1 :], first + 1):
            rest = [item for number, item in enumerate(items) if number not in (first, second)]
            match one.operation, other.operation:
                case AddRequest(request=name) as arrival, Append(request=same) | Truncate(request=same) as change if (
                    name == same and is_plain(arrival) and is_plain(change)
                ):
                    whole = with_operation(one, _arrives_as(arrival, change))
                    yield config, [*rest[:first], whole, *rest[first:]]
                case Allocate(holder=holder, n=int(n)), Allocate(holder=same, n=int(more)) if (
                    holder == same and max(n, more) <= MOST_BLOCKS
                ):
                    whole = with_operation(one, Allocate(holder, n + more))
                    numbers = {(other.label, k): (one.label, n + k) for k in range(more)}
                    both = [*rest[:first], whole, *rest[first:]]
                    yield config, [_with_symbols(each, other.label, numbers) for each in both]
                case Free(holder=holder, blocks=tuple(blocks)), Free(holder=same, blocks=tuple(more)) if holder == same:
                    if not set(blocks_in(one.operation)) & set(blocks_in(other.operation)):
                        whole = Item(Free(holder, (*blocks, *more)), one.label, {**one.blocks, **other.blocks})
                        yield config, [*rest[: second - 1], whole, *rest[second - 1 :]]
                        yield config, [*rest[:first], whole, *rest[first:]]


def fewer_steps(config: PoolConfig, items: Sequence[Item]) -> Iterator[Candidate]:
    """Without the beginning and the end of a step; those after it are counted anew. What it did is left to the next."""
    begins = [number for number, item in enumerate(items) if isinstance(item.operation, BeginStep)]
    for number, item in enumerate(items):
        step = item.operation.step if isinstance(item.operation, Commit | Fail) else None
        if type(step) is int and 1 <= step <= len(begins):
            left = [each for place, each in enumerate(items) if place not in (number, begins[step - 1])]
            yield config, [with_operation(each, _earlier(each.operation, step)) for each in left]


def _earlier(operation: Operation, gone: int) -> Operation:
    if isinstance(operation, Commit | Fail) and type(operation.step) is int and operation.step > gone:
        return msgspec.structs.replace(operation, step=operation.step - 1)
    return operation


def is_plain(operation: Operation) -> bool:
    """Whether a change of a request has a name and numbers where they should be, and nothing that has to be refused."""
    numbers: object = getattr(operation, "tokens", (getattr(operation, "num_tokens", 0),))
    name = getattr(operation, "request", None)
    return isinstance(name, str) and isinstance(numbers, tuple) and all(type(number) is int for number in numbers)


def _arrives_as(arrival: AddRequest, change: Append | Truncate) -> AddRequest:
    if isinstance(change, Append):
        return msgspec.structs.replace(arrival, tokens=(*arrival.tokens, *change.tokens))
    return msgspec.structs.replace(arrival, tokens=arrival.tokens[: change.num_tokens])


def fewer_names(config: PoolConfig, items: Sequence[Item]) -> Iterator[Candidate]:
    """One request or holder takes the part of another."""
    names = _names(items)
    for kept, gone in permutations(names, 2):
        left = [item for item in items if not (isinstance(item.operation, AddRequest) and _is(item, "request", gone))]
        yield config, [with_operation(item, _renamed(item.operation, {gone: kept})) for item in left]
        yield config, [with_operation(item, _renamed(item.operation, {gone: kept})) for item in items]


def plain_names(config: PoolConfig, items: Sequence[Item]) -> Iterator[Candidate]:
    """Requests and holders are called r1, r2, ... as they come, and tokens are small numbers."""
    names: dict[str, str] = {}
    tokens: dict[int, int] = {}
    for name in _names(items):
        prefix = COPY_PREFIX if name.startswith(COPY_PREFIX) else "r"
        names[name] = f"{prefix}{sum(other.startswith(prefix) for other in names.values()) + 1}"
    renamed = []
    for item in items:
        operation = item.operation
        if isinstance(operation, AddRequest | Append) and is_plain(operation):
            plain = tuple(tokens.setdefault(token, len(tokens)) for token in operation.tokens)
            operation = msgspec.structs.replace(operation, tokens=plain)
        renamed.append(with_operation(item, _renamed(operation, names)))
    yield config, renamed


def smaller_pools(config: PoolConfig, items: Sequence[Item]) -> Iterator[Candidate]:
    """Fewer blocks or groups, smaller blocks, plainer modes and kinds of groups."""
    for blocks in (2, config.num_blocks // 2, config.num_blocks - 1):
        if 2 <= blocks < config.num_blocks:
            yield replace(config, num_blocks=blocks), items
    for gone in range(len(config.groups) if len(config.groups) > 1 else 0):
        left = [item for item in items if getattr(item.operation, "group", None) != gone]
        groups = (*config.groups[:gone], *config.groups[gone + 1 :])
        without = replace(config, groups=groups, hybrid=_hybrid_without_group(config.hybrid, gone))
        yield without, [with_operation(item, _without_group(item.operation, gone)) for item in left]
    yield replace(config, residency=Residency.LOGICAL), items
    ends = [item for item in items if not isinstance(item.operation, BeginStep | Commit | Fail)]
    yield replace(config, commit=CommitMode.IMMEDIATE, hybrid=None), ends
    yield from ((replace(config, hybrid=hybrid), items) for hybrid in _plainer_hybrids(config.hybrid))
    for place, group in enumerate(config.groups):
        yield from ((replace(config, groups=_with(config.groups, place, each)), items) for each in _plainer(group))


def _hybrid_without_group(hybrid: HybridConfig | None, gone: int) -> HybridConfig | None:
    """The settings where one group is left out."""
    if hybrid is None:
        return None
    return replace(hybrid, drop=tuple(group - (group > gone) for group in hybrid.drop if group != gone))


def _plainer_hybrids(hybrid: HybridConfig | None) -> Iterator[HybridConfig | None]:
    """No hybrid settings, or one less of them."""
    if hybrid is None:
        return
    yield None
    yield from (replace(hybrid, drop=tuple(kept for kept in hybrid.drop if kept != group)) for group in hybrid.drop)
    yield replace(hybrid, lookahead=0)
    yield replace(hybrid, retention=Retention.JUNCTION, interval=None)
    yield replace(hybrid, checkpoints=False)
    yield replace(hybrid, fine_grained=True)


def _plainer(group: GroupConfig) -> Iterator[GroupConfig]:
    yield replace(group, kind=GroupKind.FULL_ATTENTION, window=None)
    if group.window is not None and group.window > 1:
        yield from (replace(group, window=window) for window in (1, group.window - 1))


def _without_group(operation: Operation, gone: int) -> Operation:
    changes: dict[str, object] = {}
    for field in operation.__struct_fields__:
        value = getattr(operation, field)
        if field == "group" and isinstance(value, int):
            changes[field] = value - (value > gone)
        elif isinstance(value, KeyRef):
            changes[field] = _in_groups_left(value, gone)
        elif isinstance(value, tuple):
            of_others = (each for each in value if not (isinstance(each, KeyRef) and each.group == gone))
            changes[field] = tuple(_in_groups_left(each, gone) for each in of_others)
    return msgspec.structs.replace(operation, **changes)


def _in_groups_left(value: object, gone: int) -> object:
    if isinstance(value, KeyRef) and isinstance(value.group, int):
        return msgspec.structs.replace(value, group=value.group - (value.group > gone))
    return value


# Names


def _names(items: Sequence[Item]) -> list[str]:
    """The requests and holders of a trace, as they come."""
    named = [getattr(item.operation, field, None) for item in items for field in ("request", "holder")]
    return list(dict.fromkeys(name for name in named if isinstance(name, str)))


def _renamed(operation: Operation, names: Mapping[str, str]) -> Operation:
    """The operation with its requests and holders called otherwise, wherever a name stands."""
    values = {field: getattr(operation, field) for field in operation.__struct_fields__}
    return msgspec.structs.replace(operation, **{field: _with_names(value, names) for field, value in values.items()})


def _with_names(value: object, names: Mapping[str, str]) -> object:
    match value:
        case str():
            return names.get(value, value)
        case tuple():
            return tuple(_with_names(item, names) for item in value)
        case KeyRef(request=name):
            return msgspec.structs.replace(value, request=_with_names(name, names))
    return value


def _is(item: Item, field: str, value: object) -> bool:
    return bool(getattr(item.operation, field, None) == value)


def _default(operation: Operation, field: str) -> object:
    return next(each.default for each in msgspec.structs.fields(operation) if each.name == field)


def _with(values: Sequence[T], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])
