"""What Python can hold and JSON cannot, although msgspec writes something in its place."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import astuple

_ATOMS = (int, str, bool, type(None))

_PLAIN = frozenset(_ATOMS)

_LISTS = frozenset((tuple, list))

_NO_ORDER = (set, frozenset)


def no_json(value: object) -> str:
    """What there is in a value that is no JSON: a number that is none, which would become null, or a set, whose order
    is nobody's; empty if there is nothing. The value must not hold itself.
    """
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, _NO_ORDER):
            return f"a {type(each).__name__} has no order; make it a list"
        if isinstance(each, float) and not math.isfinite(each):
            return f"{each} is no number of JSON"
        parts = _parts(each)
        while (kinds := set(map(type, parts))) and kinds <= _LISTS:  # the holders of each block: all lists at once
            parts = list(chain.from_iterable(parts))
        waiting += [part for part in parts if type(part) not in _PLAIN] if kinds - _PLAIN else ()
    return ""


def _parts(value: object) -> Collection[Any]:
    if isinstance(value, tuple | list):
        return value
    if isinstance(value, msgspec.Struct):
        return astuple(value)
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, _ATOMS) or not is_dataclass(value):
        return ()
    return [getattr(value, field.name) for field in fields(value)]
