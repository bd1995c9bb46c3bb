"""What a request costs over all groups of a hybrid model: to find its joint hit, to prefill, to decode a token."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Protocol, cast

import msgspec

from kvproof.conformance.bench.plan import HybridPart
from kvproof.conformance.bench.sides import BenchError, class_named
from kvproof.spec.vocabulary import GroupConfig, GroupKind

OURS = "kvproof.gpu_backend.bench:HybridSide"

BLOCK_TOKENS = 16

MODELS = {
    "attention": (GroupConfig(GroupKind.FULL_ATTENTION, BLOCK_TOKENS),),
    "attention, window of 4,096": (
        GroupConfig(GroupKind.FULL_ATTENTION, BLOCK_TOKENS),
        GroupConfig(GroupKind.SLIDING_WINDOW, BLOCK_TOKENS, 4096),
    ),
    "attention, states": (
        GroupConfig(GroupKind.FULL_ATTENTION, BLOCK_TOKENS),
        GroupConfig(GroupKind.RECURRENT, BLOCK_TOKENS),
    ),
}
"""What is measured, and its groups; states are kept at the end of a prompt's last whole block."""

DECODED = 64
"""Tokens that are decoded, one a step."""

QUESTION = 50
"""Tokens by which the second request is longer than what it shares."""


class HybridSide(Protocol):
    """A cache over all groups of a model, without any cached block. All but `request` is timed."""

    def request(self, name: str, tokens: list[int]) -> Any:
        """A request that waits."""
        ...

    def match(self, request: Any) -> int:
        """The tokens of its joint hit."""
        ...

    def prefill(self, request: Any) -> None:
        """Begin it where it can, and compute its prompt in as few chunks as may be, each in a step of its own."""
        ...

    def decode(self, request: Any) -> None:
        """Go on by the one token that it has got since, in a step of its own."""
        ...

    def append(self, request: Any, token: int) -> None:
        """It got a token."""
        ...


class MakeHybridSide(Protocol):
    """The class of such a cache."""

    def __call__(self, groups: Sequence[GroupConfig], block_tokens: int, num_blocks: int) -> HybridSide:
        """A cache that has so many blocks for these groups."""
        ...


class HybridCost(msgspec.Struct, frozen=True):
    """One model, one length of context, in microseconds of CPU, a number each round; `hit` is of the second request."""

    model: str
    context: int
    hit: int
    first_match: list[float]
    first_prefill: list[float]
    decode: list[float]
    """The median of the tokens of a round."""
    match: list[float]
    prefill: list[float]


def measure(part: HybridPart) -> list[HybridCost]:
    """Every model with every context. Raises `BenchError`."""
    make = cast(MakeHybridSide, class_named(OURS))
    return [_cost(make, model, context, part.rounds) for model in MODELS for context in part.contexts]


def _cost(make: MakeHybridSide, model: str, context: int, rounds: int) -> HybridCost:
    measured = [_round(make, MODELS[model], context) for _ in range(rounds)]
    if len({hit for hit, _ in measured}) != 1:
        raise BenchError(f"{model}, {context:,} tokens: the hits of the rounds differ")
    columns = [list(column) for column in zip(*(times for _, times in measured), strict=True)]
    return HybridCost(model, context, measured[0][0], *columns)


def _round(make: MakeHybridSide, groups: Sequence[GroupConfig], context: int) -> tuple[int, tuple[float, ...]]:
    """The second request's hit, and the times in the order of `HybridCost`."""
    side = make(groups, BLOCK_TOKENS, len(groups) * 3 * (context // BLOCK_TOKENS + 100))
    first = side.request("first", list(range(context)))
    second = side.request("second", [*range(context), *range(QUESTION)])
    before = side.request("before", [QUESTION] * context)
    gc.collect()
    gc.disable()
    try:
        side.match(before)  # the first one after a collection finds nothing of it in the processor's caches
        first_match, first_prefill = _time(lambda: side.match(first)), _time(lambda: side.prefill(first))
        decoded = []
        for token in range(QUESTION, QUESTION + DECODED):
            side.append(first, token)
            decoded.append(_time(lambda: side.decode(first)))
        hit = side.match(second)
        times = (first_match, first_prefill, median(decoded), _time(lambda: side.match(second)))
        return hit, (*times, _time(lambda: side.prefill(second)))
    finally:
        gc.enable()


def _time(call: Callable[[], object]) -> float:
    started = time.thread_time()
    call()
    return 1e6 * (time.thread_time() - started)
