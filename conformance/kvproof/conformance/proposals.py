"""Random operations for worlds too large to enumerate: drawn so that most are legal, judged by the preconditions."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import ClassVar

from kvproof.conformance.arguments import key_of
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    Append,
    CacheFullBlocks,
    CachePartialBlock,
    Contains,
    Copy,
    Evict,
    Extra,
    Find,
    Free,
    FullKey,
    KeyRef,
    Lookup,
    Move,
    Operation,
    Read,
    Reset,
    TakeEvents,
    Touch,
    Truncate,
    Write,
)
from kvproof.conformance.world import World
from kvproof.reference import Request
from kvproof.reference.observation import BlockState
from kvproof.spec.vocabulary import GROUP_ID_BYTES, NULL_BLOCK, HolderMode, Key

MAX_REQUESTS = 5
EXTRAS = (Extra("salt", "x"), Extra("adapter", "y"), Extra("media", "cat", 1, 4), Extra("embedding", "e", 2, 3))


class Proposer:
    """Draws operations for one world. A draw is None where the world offers nothing of that sort just now."""

    copies: ClassVar[tuple[str, ...]] = ("copy",)
    """The holders that are no requests."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.longest = 3 * max(group.block_size for group in world.config.groups)
        self._named = world.config.holders is HolderMode.NAMED
        sorts = self._sorts()
        self._draws, self._weights = list(sorts), list(sorts.values())

    def draw(self) -> Operation | None:
        """One operation of a random sort."""
        return self.random.choices(self._draws, self._weights)[0]()

    def _sorts(self) -> dict[Callable[[], Operation | None], int]:
        """The sorts of operations, and how often each is drawn."""
        return {
            self._add_request: 2,
            self._append: 2,
            self._truncate: 1,
            self._allocate: 8,
            self._touch: 8,
            self._free: 8,
            self._write: 20,
            self._cache_full_blocks: 10,
            self._cache_partial_block: 24,
            self._evict: 2,
            self._move: 6,
            self._copy: 5,
            self._lookup: 9,
            self._question: 5,
            self._leave: 2,
        }

    # Choices

    def _request(self) -> Request | None:
        return self.random.choice(list(self.world.requests.values())) if self.world.requests else None

    def _holder(self) -> str | None:
        return self.random.choice([*self.world.requests, *self.copies]) if self._named else None

    def _blocks(self, wanted: Callable[[BlockState], bool]) -> list[int]:
        """The blocks that are as wanted, in random order."""
        blocks = self.world.state.blocks
        found = [b for b in range(NULL_BLOCK + 1, len(blocks)) if wanted(blocks[b])]
        return self.random.sample(found, len(found))

    def _held(self, holder: str | None) -> list[int]:
        if holder is None:
            return self._blocks(lambda block: block.ref_cnt > 0)
        return self._blocks(lambda block: any(name == holder for name, _ in block.holders))

    def _written_by(self, holder: str) -> list[int]:
        return self._blocks(lambda block: block.ref_cnt > 0 and (not self._named or block.writer == holder))

    def _tokens(self, most: int) -> tuple[int, ...]:
        return tuple(self.random.randrange(2) for _ in range(self.random.randint(0, most)))

    def _ref(self) -> KeyRef | None:
        """A key of some request, rather one that is cached."""
        keys, index = self._keys(), self.world.state.index
        cached = [ref for ref, key in keys if key in index]
        choice = cached if cached and self.random.random() < 0.8 else [ref for ref, _ in keys]
        return self.random.choice(choice) if choice else None

    def _keys(self) -> list[tuple[KeyRef, Key]]:
        """All keys of all requests, each with its name."""
        h = self.world.config.hash_block_size
        ends = [number.to_bytes(GROUP_ID_BYTES, "big") for number in range(len(self.world.config.groups))]
        return [
            (KeyRef(name, group, number * h), digest + end)
            for name, request in self.world.requests.items()
            for group, end in enumerate(ends)
            for number, digest in enumerate(request.hashes, 1)
        ]

    def _blocks_with(self, ref: KeyRef) -> tuple[int, ...]:
        key = key_of(self.world.requests[ref.request], ref.group, ref.position)
        return () if key is None else self.world.state.index.get(key, ())

    # Requests

    def _add_request(self) -> Operation | None:
        """A request that goes on where another one's prefix ends."""
        if len(self.world.requests) >= MAX_REQUESTS:
            return None
        other = self._request()
        prefix = () if other is None else tuple(other.tokens[: self.random.randint(0, other.num_tokens)])
        extras = tuple(extra for extra in EXTRAS if self.random.random() < 0.1)
        name = f"r{len(self.world.requests) + 1}"
        return AddRequest(name, (prefix + self._tokens(self.longest))[: self.longest], extras)

    def _append(self) -> Operation | None:
        request = self._request()
        if request is None or request.num_tokens >= self.longest:
            return None
        return Append(request.request_id, self._tokens(self.longest - request.num_tokens))

    def _truncate(self) -> Operation | None:
        request = self._request()
        return None if request is None else Truncate(request.request_id, self.random.randint(0, request.num_tokens))

    # References

    def _allocate(self) -> Operation | None:
        return Allocate(self._holder(), self.random.choice((0, 1, 1, 1, 1, 2, 2, 3)))

    def _touch(self) -> Operation | None:
        ref = self._ref()
        blocks = self._blocks_with(ref) if ref else ()
        block = self.random.choice(blocks) if blocks and self.random.random() < 0.9 else NULL_BLOCK
        return Touch(self._holder(), block, ref) if ref else None

    def _free(self) -> Operation | None:
        holder = self._holder()
        held = self._held(holder)
        if not held:
            return None
        blocks = held[: self.random.randint(1, len(held))] + [NULL_BLOCK] * (self.random.random() < 0.1)
        if not self._named and self.random.random() < 0.3:
            blocks.append(blocks[0])
        return Free(holder, tuple(blocks))

    def _leave(self) -> Operation | None:
        """A holder lets go of all it has; then, perhaps, the cache is reset."""
        holder = self._holder()
        held = self._held(holder)
        return Free(holder, tuple(held)) if held else Reset()

    # Content and keys

    def _write(self) -> Operation | None:
        request = self._request()
        blocks = self._written_by(request.request_id) if request else []
        if not request or not blocks:
            return None
        group, first, last = self._slot(self.world.state.blocks[blocks[0]], request)
        return Write(request.request_id, blocks[0], self.random.randint(first, max(first, last)), group)

    def _slot(self, block: BlockState, request: Request) -> tuple[int, int, int]:
        """The group of a block and the positions inside its slot; a free choice while it has no keys yet."""
        if block.group is not None and block.slot is not None:
            size = self.world.config.groups[block.group].block_size
            return block.group, block.slot * size + 1, min((block.slot + 1) * size, request.num_tokens)
        group = self.random.randrange(len(self.world.config.groups))
        size = self.world.config.groups[group].block_size
        slot = self.random.randint(0, max(0, request.num_tokens - 1) // size)
        return group, slot * size + 1, min((slot + 1) * size, request.num_tokens)

    def _cache_partial_block(self) -> Operation | None:
        request = self._request()
        blocks = self._written_by(request.request_id) if request else []
        written = [(block, held) for block in blocks if (held := self.world.ghost.content(block)) is not None]
        if not request or not written:
            return None
        h = self.world.config.hash_block_size
        block, content = written[0]
        end = content.prefix.length // h * h
        position = end - h * self.random.choice((0, 0, 1, 2))
        return CachePartialBlock(request.request_id, block, position, content.group, self.random.random() < 0.1)

    def _cache_full_blocks(self) -> Operation | None:
        """The block table of a request as far as it is written, with holes."""
        request = self._request()
        if not request:
            return None
        group = self.random.randrange(len(self.world.config.groups))
        size = self.world.config.groups[group].block_size
        slots = request.hashed_length // size
        table = [NULL_BLOCK] * slots
        for block in self._written_by(request.request_id):
            content = self.world.ghost.content(block)
            if content is None or content.group != group:
                continue
            if content.prefix.length in range(size, slots * size + 1, size):
                table[content.prefix.length // size - 1] = block
        if not any(table) and self.random.random() < 0.9:
            return None
        first = self.random.choice((0, self.random.randint(0, slots)))
        last = self.random.choice((slots, self.random.randint(first, slots)))
        mask = tuple(self.random.random() < 0.8 for _ in range(first, last)) if self.random.random() < 0.3 else None
        replace = self.random.random() < 0.1
        return CacheFullBlocks(request.request_id, tuple(table), first, last, group, mask, replace)

    def _evict(self) -> Operation | None:
        blocks = self._blocks(lambda block: True)
        chosen = blocks[: self.random.randint(0, 2)]
        return Evict(tuple(chosen + chosen[: self.random.randint(0, 1)]))

    def _move(self) -> Operation | None:
        src = self._blocks(lambda block: bool(block.entries))
        dst = self._blocks(self._takes_a_move)
        return Move(src[0], dst[0]) if src and dst else None

    def _takes_a_move(self, block: BlockState) -> bool:
        return block.ref_cnt > 0 and not block.entries

    def _copy(self) -> Operation | None:
        holder = self._holder()
        held = self._held(holder)
        return Copy(holder, held[0], held[1]) if len(held) > 1 else None

    def _lookup(self) -> Operation | None:
        """One key, or as an engine asks: all of a request in a group, from its first token on."""
        ref = self._ref()
        refs = [ref] if ref else []
        if ref and self.random.random() < 0.5:
            refs = [each for each, _ in self._keys() if (each.request, each.group) == (ref.request, ref.group)]
        return self.random.choice((Lookup, Lookup, Find))(tuple(refs))

    def _question(self) -> Operation | None:
        ref, block = self._ref(), self.random.randrange(self.world.config.num_blocks)
        holder = self._holder()
        held = self._held(holder)
        questions: list[Operation | None] = [
            TakeEvents(),
            FullKey(block),
            Contains(ref, block) if ref else None,
            Read(holder, held[0]) if held else None,
        ]
        return self.random.choice(questions)
