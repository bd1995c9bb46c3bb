"""What the tables of requests that run must hold, told from the ghost content alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvproof.reference import Request
from kvproof.reference.hybrid import HybridCache, Running
from kvproof.reference.observation import PoolState
from kvproof.reference.request import Prefix
from kvproof.spec.vocabulary import NULL_BLOCK, GroupConfig, GroupKind


def wrong_slots(cache: HybridCache, requests: Mapping[str, Request]) -> list[str]:
    """Every slot that does not hold what the request would have computed there itself.

    Looked at are `computed`, after the current step, and `settled`, after the last committed one.
    """
    pool, state = cache.pool, cache.pool.observe()
    return [
        f"{name}: {problem}"
        for name, running in cache.running.items()
        for at, step in ((running.computed, pool.current_step), (running.settled, pool.last_committed_step))
        for problem in _wrong_at(cache, state, running, requests[name], at, step)
    ]


def stuck(cache: HybridCache) -> list[str]:
    """Every place from which a request could not write on: where it is, and where a rollback now would leave it."""
    twin = cache.clone(cache.pool.clone())
    twin.rollback([name for name, running in cache.running.items() if running.unsettled])
    return [*_stuck(cache), *_stuck(twin)]


def _stuck(cache: HybridCache) -> Iterator[str]:
    blocks = cache.pool.observe().blocks
    for name, running in cache.running.items():
        for group, config in enumerate(running.groups):
            slot, row = divmod(running.computed, config.block_size)
            block = blocks[running.tables[group][slot]] if row else None
            if block is None:
                continue
            covered = [entry.position for entry in block.entries]
            covered += [served.position for _, served in block.holders if served is not None]
            relied_on = config.kind is not GroupKind.RECURRENT and max(covered, default=0) > running.computed
            if block.writer != name or relied_on:
                yield f"{name} cannot write on at {running.computed} in group {group}: {block}"


def needed_slots(group: GroupConfig, n: int) -> range:
    """The slots that a request needs to go on from n > 0 tokens."""
    last = (n - 1) // group.block_size
    if group.kind is GroupKind.RECURRENT:
        return range(last, last + 1)
    first_row = 0 if group.window is None else max(0, n - group.window + 1)
    return range(first_row // group.block_size, last + 1)


def _wrong_at(
    cache: HybridCache, state: PoolState, running: Running, request: Request, n: int, step: int
) -> Iterator[str]:
    ghost = cache.pool.ghost
    assert ghost is not None
    copied_to = {dst for _, _, dst, _ in state.steps.copies}
    for group, config in enumerate(running.groups):
        for slot in needed_slots(config, n) if n else ():
            block = running.tables[group][slot] if slot < len(running.tables[group]) else NULL_BLOCK
            if block in copied_to and step < cache.pool.current_step and config.kind is GroupKind.RECURRENT:
                continue  # its state was left to a reader, and a request with a state never goes back
            end = n if config.kind is GroupKind.RECURRENT else min(n, (slot + 1) * config.block_size)
            content = ghost.content_after(block, step)
            if block == NULL_BLOCK or content is None or not content.fits(Prefix(request, end), group, config):
                yield f"at {n} after step {step}, group {group} has in slot {slot} block {block} with {content}"
            elif request.request_id not in dict(state.blocks[block].holders):
                yield f"at {n} the request does not hold block {block} of slot {slot} in group {group}"
