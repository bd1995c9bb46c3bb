"""What must hold of the requests that run (clauses INV-TABLE-*)."""

from __future__ import annotations

from collections.abc import Mapping

from kvproof.reference.hybrid.cache import HybridCache
from kvproof.reference.hybrid.groups import first_needed_slot, slots_up_to
from kvproof.reference.hybrid.running import Running
from kvproof.reference.invariants import InvariantViolation
from kvproof.reference.positions import slot_end
from kvproof.reference.request import Prefix, Request
from kvproof.spec.vocabulary import NULL_BLOCK, GroupKind, Holder


def check_tables(cache: HybridCache, requests: Mapping[Holder, Request]) -> None:
    """Raise `InvariantViolation` if a table does not have what its request needs; `requests` has all that run."""
    pool = cache.pool
    for name, running in cache.running.items():
        _check_blocks(cache, name, running)
        if pool.ghost is not None:
            _check_content(cache, requests[name], running, running.computed, pool.current_step, "INV-TABLE-1")
            if running.unsettled and any(group.kind is GroupKind.RECURRENT for group in running.groups):
                continue  # a failed step releases it
            _check_content(cache, requests[name], running, running.settled, pool.last_committed_step, "INV-TABLE-2")


def _check_blocks(cache: HybridCache, name: Holder, running: Running) -> None:
    state = cache.pool.observe()
    held = [block_id for block_id, block in enumerate(state.blocks) if name in dict(block.holders)]
    if sorted(running.blocks()) != held:
        raise InvariantViolation("INV-TABLE-3", f"{name!r} holds the blocks {held}, its tables are {running.tables}")


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
