"""What must hold in every state (clauses INV-*); each check names the clause that it finds broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from kvproof.reference.hashing import make_key, split_key
from kvproof.reference.mirror import EventMirror
from kvproof.reference.observation import PoolState
from kvproof.reference.pool import BlockPool
from kvproof.reference.positions import is_full, slot_of
from kvproof.reference.request import Request
from kvproof.spec.vocabulary import NULL_BLOCK, GroupKind, HolderMode, Key, Residency


class InvariantViolation(Exception):
    """A state breaks an invariant; `clause` names it."""

    def __init__(self, clause: str, text: str) -> None:
        super().__init__(f"{clause}: {text}")
        self.clause = clause


def check_invariants(pool: BlockPool, requests: Iterable[Request], mirror: EventMirror | None = None) -> None:
    """Raise `InvariantViolation` at the first broken invariant; `mirror` has folded all events so far."""
    state = pool.observe()
    for check in _STATE_CHECKS:
        check(pool, state)
    if pool.ghost is not None:
        _check_soundness(pool, state)
    if mirror is not None:
        _check_mirror(pool, state, mirror)
    for request in requests:
        check_request_hashes(request)


def _require(holds: bool, clause: str, text: str) -> None:
    if not holds:
        raise InvariantViolation(clause, text)


def _check_partition(pool: BlockPool, state: PoolState) -> None:
    queued = Counter(state.free_queue)
    _require(max(queued.values(), default=1) == 1, "INV-QUEUE-1", f"a block is queued twice: {state.free_queue}")
    _require(len(state.free_queue) == pool.num_free, "INV-QUEUE-2", f"num_free is {pool.num_free}")
    for block_id, block in enumerate(state.blocks):
        free = block_id in queued
        expected = block_id != NULL_BLOCK and block.ref_cnt == 0
        _require(free == expected, "INV-PARTITION-1", f"block {block_id}: {block.ref_cnt} references, queued: {free}")


def _check_references(pool: BlockPool, state: PoolState) -> None:
    for block_id, block in enumerate(state.blocks):
        _require(block.ref_cnt >= 0, "INV-COUNT-1", f"block {block_id} has {block.ref_cnt} references")
        if pool.config.holders is HolderMode.NAMED:
            counted = block.ref_cnt == len(block.holders)
            _require(counted, "INV-COUNT-1", f"block {block_id}: {block.ref_cnt} references by {block.holders}")
            holds = block.writer is None or any(holder == block.writer for holder, _ in block.holders)
            _require(holds, "INV-WRITER-1", f"block {block_id} is written by {block.writer!r}, who does not hold it")


def _check_null_block(pool: BlockPool, state: PoolState) -> None:
    null = state.blocks[NULL_BLOCK]
    unused = null.ref_cnt == 0 and not null.holders and not null.keys
    untouched = unused and null.group is None and null.slot is None
    _require(untouched, "INV-NULL-1", f"the null block was changed: {null}")


def _check_index(pool: BlockPool, state: PoolState) -> None:
    forward = {(key, block_id) for key, blocks in state.index.items() for block_id in blocks}
    reverse = {(key, block_id) for block_id, block in enumerate(state.blocks) for key, _ in block.keys}
    _require(forward == reverse, "INV-INDEX-1", f"only forward {forward - reverse}, only reverse {reverse - forward}")
    for key, blocks in state.index.items():
        _require(len(blocks) == len(set(blocks)) > 0, "INV-INDEX-2", f"key {key.hex()} has the blocks {blocks}")
        positions = {position for block_id in blocks for k, position in state.blocks[block_id].keys if k == key}
        _require(len(positions) == 1, "INV-INDEX-3", f"key {key.hex()} has the positions {positions}")


def _check_keys_of_blocks(pool: BlockPool, state: PoolState) -> None:
    for block_id, block in enumerate(state.blocks):
        if not block.keys:
            continue
        _require(block.group is not None, "INV-SLOT-1", f"block {block_id} has keys, but no group")
        group = pool.config.groups[block.group or 0]
        positions = [position for _, position in block.keys]
        for key, position in block.keys:
            inside = split_key(key)[0] == block.group and slot_of(position, group.block_size) == block.slot
            _require(inside, "INV-SLOT-1", f"block {block_id} is slot {block.slot}, a key is at {position}")
        distinct = len(set(positions)) == len(positions)
        _require(distinct, "INV-CHAIN-1", f"block {block_id} has two keys at one position: {positions}")
        alone = len(positions) == 1
        single = group.kind is not GroupKind.RECURRENT and not any(is_full(p, group.block_size) for p in positions)
        _require(
            alone or single, "INV-FULL-1", f"block {block_id} has a full or recurrent key beside others: {positions}"
        )


_STATE_CHECKS: tuple[Callable[[BlockPool, PoolState], None], ...] = (
    _check_partition,
    _check_references,
    _check_null_block,
    _check_index,
    _check_keys_of_blocks,
)


def _check_soundness(pool: BlockPool, state: PoolState) -> None:
    """The crown: every entry, and every reader, is served exactly what it would have computed itself."""
    assert pool.ghost is not None
    for block_id, block in enumerate(state.blocks):
        group = block.group
        if group is None:
            continue  # it never had a key, so nobody was served from it
        for key, position in block.keys:
            prefix = pool.ghost.prefixes[key]
            _require(prefix.length == position, "INV-CHAIN-1", f"key {key.hex()} names {prefix}, position {position}")
            fits = pool.ghost.fits(block_id, prefix, group, pool.config.groups[group])
            content = pool.ghost.contents.get(block_id)
            _require(fits, "INV-SOUND-1", f"block {block_id} holds {content}, its key names {prefix}")
        for holder, served in block.holders:
            if served is not None:
                prefix = pool.ghost.served[block_id, holder]
                fits = pool.ghost.fits(block_id, prefix, group, pool.config.groups[group])
                _require(
                    fits, "INV-SERVED-1", f"block {block_id} no longer holds {prefix}, which {holder!r} was served"
                )


def _check_mirror(pool: BlockPool, state: PoolState, mirror: EventMirror) -> None:
    logical = pool.config.residency is Residency.LOGICAL
    resident: Counter[Key] = Counter({key: 1 if logical else len(blocks) for key, blocks in state.index.items()})
    _require(mirror.resident == resident, "INV-EVENTS-1", f"a consumer has {mirror.resident}, resident are {resident}")


def check_request_hashes(request: Request) -> None:
    """The request's hashes are those of its tokens, recomputed from nothing (INV-HASHES-1)."""
    h = request.hasher.hash_block_size
    digest = request.hasher.seed_digest
    count = len(request.hashes)
    _require(count == request.num_tokens // h, "INV-HASHES-1", f"{count} hashes for {request.num_tokens} tokens")
    for i in range(count):
        digest = request.hasher.extend(digest, request.tokens[i * h : (i + 1) * h], i * h, request.extra_keys)
        _require(request.hashes[i] == digest, "INV-HASHES-1", f"H({(i + 1) * h}) of {request.request_id!r} is stale")
        _require(request.key_at(0, (i + 1) * h) == make_key(0, digest), "INV-HASHES-1", "key and hash disagree")
