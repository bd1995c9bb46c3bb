"""Requests and events of vLLM, and the same in the language of the suite. Imported in vLLM's environment only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import SamplingParams
from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash
from vllm.v1.request import Request

from kvproof.conformance.backends.wire import ClearedEvent, PrefixName, RemovedEvent, StoredEvent, WireEvent
from kvproof.conformance.operations import AddRequest, Extra

SAMPLING = SamplingParams(max_tokens=1)


def request_of(asked: AddRequest, hasher: Callable[[Any], list[bytes]]) -> Any:
    """The request as vLLM's own: an adapter is a LoRA, a salt the cache salt, media are its multi-modal features.

    Features stand in the order of the tokens that they cover, as vLLM's code expects them.
    """
    return Request(
        request_id=asked.request,
        prompt_token_ids=list(asked.tokens),
        sampling_params=SAMPLING,
        pooling_params=None,
        mm_features=[_feature(extra) for extra in sorted(asked.extra_keys, key=_start) if extra.source == "media"],
        lora_request=next((_lora(extra) for extra in asked.extra_keys if extra.source == "adapter"), None),
        cache_salt=next((extra.value for extra in asked.extra_keys if extra.source == "salt"), None),
        block_hasher=hasher,
    )


def _start(extra: Extra) -> int:
    return extra.start


def _lora(extra: Extra) -> Any:
    return LoRARequest(lora_name=extra.value, lora_int_id=1, lora_path=extra.value)


def _feature(extra: Extra) -> Any:
    assert extra.end is not None, "the capabilities say that media without an end cannot be asked for"
    place = PlaceholderRange(offset=extra.start, length=extra.end - extra.start)
    return MultiModalFeatureSpec(data=None, modality="image", identifier=extra.value, mm_position=place)


class Prefixes:
    """What vLLM's hashes stand for, in the cache and in events: the name of the prefix, and how many tokens it has.

    Neither an event nor a second key of a block says its position; a hash names one prefix, so its position is known
    from the request that it was computed for.
    """

    def __init__(self, hash_block_size: int) -> None:
        self._h = hash_block_size
        self._external: dict[object, PrefixName] = {}
        self._positions: dict[bytes, int] = {}

    def learn(self, request: Any) -> None:
        """Take note of the hashes of a request."""
        for number, digest in enumerate(request.block_hashes, 1):
            self._positions[digest] = number * self._h
            self._external[maybe_convert_block_hash(digest)] = PrefixName(digest.hex(), number * self._h)

    def position(self, digest: bytes) -> int:
        """How many tokens the prefix of this hash has."""
        return self._positions[digest]

    def named(self, external: object) -> PrefixName:
        """What an event's hash stands for; one that no request has keeps its own name."""
        return self._external.get(external) or PrefixName(f"unknown {external!r}", 0)


def event_of(event: Any, prefixes: Prefixes, extras: Sequence[Extra]) -> WireEvent:
    """An event of vLLM; `extras` are the extra keys of the request that was registered, if one was.

    What vLLM publishes for each block without saying what it is (a LoRA's name, a salt, an image with its place) is
    recognised among these.
    """
    match event:
        case BlockStored():
            hashes = tuple(map(prefixes.named, event.block_hashes))
            parent = event.parent_block_hash
            return StoredEvent(
                group=event.group_idx,
                hashes=hashes,
                parent=None if parent is None else prefixes.named(parent),
                tokens=tuple(event.token_ids),
                extra_keys=_extras_of(event, hashes, extras),
            )
        case BlockRemoved(block_hashes=[external], group_idx=group):
            return RemovedEvent(group, prefixes.named(external).hash)
        case AllBlocksCleared():
            return ClearedEvent()
    raise ValueError(f"vLLM has emitted an event that this adapter does not know: {event!r}")


def _extras_of(event: Any, hashes: Sequence[PrefixName], extras: Sequence[Extra]) -> tuple[Extra, ...]:
    published: list[tuple[object, int]] = []
    for prefix, values in zip(hashes, event.extra_keys or (), strict=False):
        published += [(value, prefix.position - event.block_size) for value in values or ()]
    known = tuple(e for e in extras if any(_is(e, value, start, event) for value, start in published))
    unknown = [value for value, start in published if not any(_is(e, value, start, event) for e in extras)]
    return known + tuple(Extra("embedding", f"unknown {value!r}") for value in unknown)


def _is(extra: Extra, value: object, block_start: int, event: Any) -> bool:
    """Whether a value that an event publishes for a block is this extra key."""
    if extra.source == "media":
        return value == (extra.value, extra.start - block_start)
    return value == extra.value and (extra.source == "adapter") == (value == event.lora_name)
