"""A small engine on pool and memory: its states go on from what lies in memory, so a wrong one stays wrong.

Rows and states are exact integers; what a request holds at its end is compared with the same recurrence over all its
tokens.
"""

from __future__ import annotations

import random

import pytest
import torch

from kvproof.gpu_backend import BlockPool, PagedMemory, Request, RowLayout, block_tables, queued_copies
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, Key, PoolConfig

ROWS, STATE = 0, 1
BLOCK = 4
CONFIG = PoolConfig(
    24,
    BLOCK,
    (GroupConfig(GroupKind.FULL_ATTENTION, BLOCK), GroupConfig(GroupKind.RECURRENT, BLOCK)),
    commit=CommitMode.STEPS,
)
LAYOUTS = (RowLayout(torch.int64, 3, 2), RowLayout(torch.int64, 3, 2))
PRIME, FACTORS = 2**31 - 1, torch.tensor([[48_271, 69_621, 16_807], [39_373, 742_938, 950_706]])
START = torch.tensor([[1, 2, 3], [4, 5, 6]])
"""The state of no token, for each layer."""


def advance(state: torch.Tensor, token: int) -> torch.Tensor:
    """The state after one more token; no product leaves 64 bits."""
    return (state * FACTORS + token + 1) % PRIME


def states_of(tokens: list[int]) -> list[torch.Tensor]:
    """The state after each of the tokens."""
    states = [START]
    for token in tokens:
        states.append(advance(states[-1], token))
    return states[1:]


class Engine:
    """Serves one request after the other: hit, private copy of the state, prefill in chunks of one block, finish."""

    def __init__(self) -> None:
        self.pool, self.memory = BlockPool(CONFIG), PagedMemory(CONFIG, LAYOUTS)
        self.hits = 0

    def serve(self, name: str, tokens: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of the request's tokens, and its last state, as they lie in memory at its end."""
        request = self.pool.request(name, tokens)
        hit = self._longest_hit(request)
        self.hits += hit > 0
        rows, states, working = self._start(request, hit)
        for chunk in range(hit, len(tokens) // BLOCK):
            self._prefill(request, chunk, rows, states, working)
        [table] = block_tables([rows], CONFIG.num_blocks)
        held = self.memory.view(ROWS)[table], self.memory.read(STATE, working)
        self.pool.finish(name, [*rows, *states, working])
        return held[0].transpose(0, 1).flatten(1, 2), held[1]

    def copy(self) -> None:
        """Do the copies of the step, before its forward pass."""
        self.memory.copy(queued_copies(self.pool))

    def _longest_hit(self, request: Request) -> int:
        """How many blocks are cached, the state after them included; the last block is always computed."""
        for blocks in range(request.num_hashes - 1, 0, -1):
            wanted = [key_of(request, ROWS, block) for block in range(blocks)]
            if None not in self.pool.lookup([*wanted, key_of(request, STATE, blocks - 1)]):
                return blocks
        return 0

    def _start(self, request: Request, hit: int) -> tuple[list[int], list[int], int]:
        """Rows and states that are held, and the block of the working state, in a step of its own."""
        pool, name, rows, states = self.pool, request.request_id, list[int](), list[int]()
        step = pool.begin_step()
        for group, held, blocks in ((ROWS, rows, range(hit)), (STATE, states, range(hit)[-1:])):
            for block in blocks:
                key = key_of(request, group, block)
                [found] = pool.lookup([key])
                assert found is not None
                pool.touch(found, key, name)
                held.append(found)
        [working] = pool.allocate(1, name)
        if hit:
            pool.copy(states[0], working, name)
        self.copy()
        if not hit:
            self.memory.write(STATE, working, START)
        pool.commit(step)
        return rows, states, working

    def _prefill(self, request: Request, chunk: int, rows: list[int], states: list[int], working: int) -> None:
        """A step that computes one block of rows; the state after it goes on in its block and is kept in another."""
        pool, name, end = self.pool, request.request_id, BLOCK * (chunk + 1)
        step = pool.begin_step()
        rows += pool.allocate(1, name)
        states += pool.allocate(1, name)
        self.copy()
        computed = [self.memory.read(STATE, working)]
        for token in request.tokens[end - BLOCK : end]:
            computed.append(advance(computed[-1], token))
        self.memory.write(ROWS, rows[-1], torch.stack(computed[1:], 1))
        self.memory.write(STATE, states[-1], computed[-1])
        self.memory.write(STATE, working, computed[-1])
        pool.cache_full_blocks(request, rows, chunk, chunk + 1, ROWS)
        pool.cache_partial_block(request, states[-1], end, STATE)
        pool.commit(step)


def key_of(request: Request, group: int, block: int) -> Key:
    """The key of a block of the request that is full."""
    key = request.key_at(group, BLOCK * (block + 1))
    assert key is not None
    return key


def served_wrongly(engine: Engine, requests: int = 60) -> int:
    """How many requests held something else at their end than their tokens say."""
    chance, wrong = random.Random(1), 0
    for number in range(requests):
        tokens = [chance.randrange(2) for _ in range(BLOCK * chance.randrange(1, 5))]
        for start in range(0, len(tokens), BLOCK):  # few different blocks, so that prefixes are met again
            tokens[start : start + BLOCK] = [tokens[start]] * BLOCK
        rows, state = engine.serve(f"r{number}", tokens)
        expected = states_of(tokens)
        wrong += not (torch.equal(rows, torch.stack(expected, 1)) and torch.equal(state, expected[-1]))
    return wrong


def test_every_request_holds_what_its_tokens_say() -> None:
    engine = Engine()
    assert served_wrongly(engine) == 0
    assert engine.hits > 20
    engine.pool.check()


def test_states_go_wrong_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "copy", lambda self: None)
    assert served_wrongly(Engine()) > 10


class Hasty(Engine):
    """Goes on in the cached state itself."""

    def _start(self, request: Request, hit: int) -> tuple[list[int], list[int], int]:
        rows, states, working = super()._start(request, hit)
        if not hit:
            return rows, states, working
        self.pool.free([working], request.request_id)
        return rows, [], states[0]


def test_states_go_wrong_if_cached_ones_are_advanced_in_place() -> None:
    assert served_wrongly(Hasty()) > 10
