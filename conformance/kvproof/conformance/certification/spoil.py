"""Legal operations with one thing wrong: a near miss in one field, or a value that no field can have.

Only what JSON can say, since every backend has to be able to hear it.
"""

from __future__ import annotations

from random import Random

import msgspec

from kvproof.conformance.operations import SAID_BY_THE_SUITE, KeyRef, Operation
from kvproof.spec.vocabulary import MAX_TOKEN, POOL_COPY_PREFIX

HUGE = 2**53
"""Larger than anything; JSON readers in any language can still read it."""

JUNK: tuple[object, ...] = (None, True, 0.5, "x", "", -1, HUGE, (), (None,), {"op": "reset"})

NAMES = ("nobody", "copy:1", f"{POOL_COPY_PREFIX}1:2")


def spoiled(operation: Operation, random: Random) -> Operation:
    """The operation with one field changed; now and then it is legal all the same."""
    fields = [field for field in operation.__struct_fields__ if field not in SAID_BY_THE_SUITE]
    if not fields:
        return operation
    field = random.choice(fields)
    return msgspec.structs.replace(operation, **{field: _spoiled(getattr(operation, field), random)})


def _spoiled(value: object, random: Random) -> object:
    if random.random() < 0.2:
        return random.choice(JUNK)
    match value:
        case bool():
            return not value
        case int():
            return value + random.choice((-2, -1, 1, 2, MAX_TOKEN))
        case str() | None:
            return random.choice(NAMES)
        case KeyRef():
            field = random.choice(value.__struct_fields__)
            return msgspec.structs.replace(value, **{field: _spoiled(getattr(value, field), random)})
        case tuple():
            return _spoiled_list(value, random)
    return random.choice(JUNK)


def _spoiled_list(values: tuple[object, ...], random: Random) -> tuple[object, ...]:
    """One item more, one less, one twice, or one that is spoiled itself."""
    if not values:
        return (random.choice(JUNK),)
    place = random.randrange(len(values))
    changed = random.choice(((), (values[place],) * 2, (_spoiled(values[place], random),)))
    return (*values[:place], *changed, *values[place + 1 :])
