"""Recorded requests served by both pools: the same hits, and how long the pool's part of a request takes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kvproof.conformance.bench.contents import compare
from kvproof.conformance.bench.plan import ReplayPart
from kvproof.conformance.bench.sides import Keys, MakeSide, Request, Side, Table
from kvproof.conformance.bench.speed import quiet_collector
from kvproof.conformance.workloads.arrivals import load
from kvproof.conformance.workloads.traffic import BLOCK_TOKENS, MOST_RUNNING, tokens_of
from kvproof.spec.vocabulary import HashAlgorithm


class Replay(msgspec.Struct, frozen=True):
    """A workload in a pool; microseconds of CPU time for each request, round by round, new pools in every round."""

    workload: str
    num_blocks: int
    requests: int
    left_out: int
    """Requests that need more blocks than there are."""
    blocks: int
    """Full blocks of all prompts together."""
    hits: int
    """Of these, found in the cache; the same on both sides for each request, as are the numbers of all blocks."""
    ours: tuple[float, ...]
    theirs: tuple[float, ...] | None


@dataclass(slots=True)
class Prepared:
    """A request as one side takes it; `keys` are those that a hit may use, as the last token is always computed."""

    request: Request
    keys: Keys
    needed: int
    full: int


def measure(makes: Sequence[MakeSide], part: ReplayPart) -> Replay:
    """Serve the workload on each side, round by round. Raises `BenchError` if any request gets other blocks."""
    sides = [_make(make, part.num_blocks) for make in makes]
    prompts, left_out = _prompts(part)
    prepared = _prepare(sides, prompts)
    spent: list[list[float]] = [[] for _ in sides]
    hits: list[list[int]] = [[] for _ in sides]
    tables: list[list[Table]] = [[] for _ in sides]
    for number in range(part.rounds):
        order = range(len(sides))
        for side in reversed(order) if number % 2 else order:
            sides[side] = _make(makes[side], part.num_blocks)
            with quiet_collector():
                started = time.thread_time_ns()
                hits[side], tables[side] = serve(sides[side], prepared[side])
                spent[side].append(1e-3 * (time.thread_time_ns() - started) / max(1, len(prompts)))
        compare(f"hits of the requests of {part.workload}", sides, hits)
        compare_tables(part.workload, sides, tables)
    full = sum(len(tokens) // BLOCK_TOKENS for tokens in prompts)
    ours, theirs = spent[0], spent[1] if len(spent) > 1 else None
    return Replay(
        part.workload,
        part.num_blocks,
        len(prompts),
        left_out,
        full,
        sum(hits[0]),
        tuple(ours),
        None if theirs is None else tuple(theirs),
    )


def _make(make: MakeSide, num_blocks: int) -> Side:
    return make(num_blocks, BLOCK_TOKENS, BLOCK_TOKENS, HashAlgorithm.XXH3_128, False)


def _prompts(part: ReplayPart) -> tuple[list[tuple[int, ...]], int]:
    """The prompts that fit the pool, and how many do not."""
    workload = load(part.workload)
    prompts = [tokens_of(arrival, workload.block) for arrival in workload.arrivals[: part.requests]]
    fitting = [tokens for tokens in prompts if -(-len(tokens) // BLOCK_TOKENS) < part.num_blocks]
    return fitting, len(prompts) - len(fitting)


def _prepare(sides: Sequence[Side], prompts: Sequence[tuple[int, ...]]) -> list[list[Prepared]]:
    """All requests for each side; the first one computes the prefix hashes of all."""
    prepared: list[list[Prepared]] = [[] for _ in sides]
    for tokens in prompts:
        digests: list[bytes] | None = None
        for side, requests in zip(sides, prepared, strict=True):
            request = side.request(list(tokens), digests)
            digests = side.digests(request)
            usable = side.keys(digests[: (len(tokens) - 1) // BLOCK_TOKENS])
            full, rest = divmod(len(tokens), BLOCK_TOKENS)
            requests.append(Prepared(request, usable, full + bool(rest), full))
    return prepared


def serve(side: Side, requests: Sequence[Prepared]) -> tuple[list[int], list[Table]]:
    """Serve requests as an engine would that computes each prompt at once: the hits of each, and its blocks."""
    running: deque[Table] = deque()
    hits, tables = [], []
    for request in requests:
        found = side.longest(request.keys)
        if found:
            side.touch([found], [request.keys[: len(found)]])
        wanted = request.needed - len(found)
        while side.num_free() < wanted:
            side.free([running.popleft()])
        table = found + side.allocate(1, wanted)[0][0]
        if len(found) < request.full:
            side.cache([request.request], [table[: request.full]], len(found))
        running.append(table[::-1])
        if len(running) > MOST_RUNNING:
            side.free([running.popleft()])
        hits.append(len(found))
        tables.append(table)
    return hits, tables


def compare_tables(workload: str, sides: Sequence[Side], tables: Sequence[Sequence[Table]]) -> None:
    """Raise `BenchError` at the first request whose blocks are not the same on two sides."""
    for number, of_a_request in enumerate(zip(*tables, strict=True)):
        ids = [side.ids(table) for side, table in zip(sides, of_a_request, strict=True)]
        compare(f"blocks of request {number} of {workload}", sides, ids)
