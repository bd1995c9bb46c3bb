"""What must hold of the requests that run (clauses INV-TABLE-*)."""

from __future__ import annotations

from collections.abc import Mapping

from kvproof.reference.hybrid.cache import HybridCache
from kvproof.reference.hybrid.groups import first_needed_slot, slots_up_to
from kvproof.reference.hybrid.running import Running
from kvproof.reference.invariants import InvariantViolation
from kvproof.reference.observation import BlockState, PoolState
from kvproof.reference.positions import slot_end
from kvproof.reference.request import Prefix, Request
from kvproof.spec.vocabulary import NULL_BLOCK, GroupKind, Holder


def check_tables(cache: HybridCache, requests: Mapping[Holder, Request]) -> None:
    """Raise `InvariantViolation` if a table does not have what its request needs; `requests` has all that run."""
    pool, state = cache.pool, cache.pool.observe()
    for name, running in cache.running.items():
        _check_blocks(state, name, running)
        _check_writes(state, name, running)
        if pool.ghost is not None:
            _check_content(cache, requests[name], running, running.computed, pool.current_step, "INV-TABLE-1")
            if running.unsettled and any(group.kind is GroupKind.RECURRENT for group in running.groups):
                continue  # a failed step releases it
            _check_content(cache, requests[name], running, running.settled, pool.last_committed_step, "INV-TABLE-2")


def _check_blocks(state: PoolState, name: Holder, running: Running) -> None:
    held = [block_id for block_id, block in enumerate(state.blocks) if name in dict(block.holders)]
    if sorted(running.blocks()) != held:
        raise InvariantViolation("INV-TABLE-3", f"{name!r} holds the blocks {held}, its tables are {running.tables}")


def _check_writes(state: PoolState, name: Holder, running: Running) -> None:
    """The request may write on where it is, and where it would go back to."""
    goes_back = all(group.kind is not GroupKind.RECURRENT for group in running.groups)
    for n, taken_back in ((running.computed, False), (running.settled if goes_back else 0, True)):
        for group, config in enumerate(running.groups):
            if n % config.block_size == 0:
                continue
            block_id = running.tables[group][n // config.block_size]
            block = state.blocks[block_id]
            is_state = config.kind is GroupKind.RECURRENT
            if block.writer != name or (not is_state and _relied_on(block, name, taken_back) > n):
                what = f"block {block_id} of group {group}, which {block.writer!r} writes, is relied on past there"
                raise InvariantViolation("INV-TABLE-4", f"{name!r} cannot write on at {n} tokens: {what}")


def _relied_on(block: BlockState, name: Holder, taken_back: bool) -> int:
    """Up to where keys and readers need the rows of a block, without those that go when its writer is rolled back."""
    keys = [entry.position for entry in block.entries if not taken_back or entry.owner != name]
    going = dict(block.attached) if taken_back else {}
    read = [served.position for holder, served in block.holders if served is not None and holder not in going]
    return max([*keys, *read], default=0)


def _check_content(cache: HybridCache, request: Request, running: Running, n: int, step: int, clause: str) -> None:
    """After the step the tables have what the request needs to go on from n tokens."""
    ghost = cache.pool.ghost
    assert ghost is not None, "the caller checked that there is a ghost"
    for group, config in enumerate(running.groups if n else ()):
        for slot in range(first_needed_slot(config, n), slots_up_to(n, config.block_size)):
            block = running.tables[group][slot] if slot < len(running.tables[group]) else NULL_BLOCK
            end = n if config.kind is GroupKind.RECURRENT else min(n, slot_end(slot, config.block_size))
            content = None if block == NULL_BLOCK else ghost.content_after(block, step)
            if content is None or not content.fits(Prefix(request, end), group, config):
                what = f"{content.prefix} of group {content.group}" if content else "nothing"
                raise InvariantViolation(
                    clause,
                    f"{request.request_id!r} at {n} tokens: block {block}, slot {slot} of group {group}, holds {what}",
                )
