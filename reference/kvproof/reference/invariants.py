"""What must hold in every state (clauses INV-*); each check names the clause that it finds broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from kvproof.reference.ghost import Ghost
from kvproof.reference.hashing import make_key, split_key
from kvproof.reference.mirror import EventMirror
from kvproof.reference.observation import BlockState, EntryState, PoolState
from kvproof.reference.pool import BlockPool
from kvproof.reference.positions import is_full, slot_of
from kvproof.reference.request import Prefix, Request
from kvproof.spec.events import PrefixHash
from kvproof.spec.vocabulary import COPY_PREFIX, NULL_BLOCK, GroupKind, Holder, HolderMode, Key, Residency


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
        _check_eviction_order(pool.ghost, state)
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
        single = group.kind is not GroupKind.RECURRENT and not _has_company(block, group.block_size)
        _require(
            alone or single, "INV-FULL-1", f"block {block_id} has a full or recurrent key beside others: {positions}"
        )


def _has_company(block: BlockState, block_size: int) -> bool:
    """Whether a key stands beside a full one, other than those that go when the full one is committed."""
    for rank, entry in enumerate(block.entries):
        if is_full(entry.position, block_size):
            waiting = [other.owner is None for other in block.entries[:rank]]
            return rank + 1 < len(block.entries) or (rank > 0 and (entry.owner is None or not all(waiting)))
    return False


def _check_steps(pool: BlockPool, state: PoolState) -> None:
    steps = state.steps
    _require(steps.open >= 0, "INV-STEPS-1", f"{-steps.open} steps are committed that were not begun")
    for reader, writer, ahead in steps.depends:
        known = 0 < ahead <= steps.open
        _require(known, "INV-STEPS-1", f"{reader!r} depends on {writer!r} for a step that is not open")
    for block_id, block in enumerate(state.blocks):
        _require(block.age <= steps.open, "INV-STEPS-1", f"block {block_id} was allocated in a step not begun")
        for entry in block.entries:
            _check_entry(block_id, block, entry, steps.open)
        for holder, ahead in block.attached:
            _check_attached(block_id, block, holder, ahead, state)
        for holder, served in block.holders:
            if served is not None:
                _check_reader(pool, block_id, block, holder, served)


def _check_entry(block_id: int, block: BlockState, entry: EntryState, open_steps: int) -> None:
    what = f"block {block_id}, position {entry.position}"
    _require(0 <= entry.ahead <= open_steps, "INV-STATUS-1", f"{what}: ready {entry.ahead} commits from now")
    _require(entry.ahead > 0 or entry.owner is None, "INV-STATUS-1", f"{what}: reserved in a committed step")
    born = block.age <= entry.ahead
    _require(born, "INV-STATUS-1", f"{what}: ready {entry.ahead} commits from now, but the block is of a later step")
    if entry.ahead > 0:
        _require(block.ref_cnt > 0, "INV-RESERVED-1", f"{what}: not ready, and nobody references the block")
    if entry.owner is not None:
        by_copy = block.writer is None or block.writer.startswith(COPY_PREFIX)
        owned = by_copy or block.writer == entry.owner
        _require(owned, "INV-RESERVED-2", f"{what}: reserved by {entry.owner!r}, written by {block.writer!r}")


def _check_attached(block_id: int, block: BlockState, holder: Holder, ahead: int, state: PoolState) -> None:
    what = f"{holder!r} attached to block {block_id}"
    reads = any(name == holder and served is not None for name, served in block.holders)
    _require(reads, "INV-SERVED-2", f"{what} and reads nothing of it")
    _require(0 < ahead <= state.steps.open, "INV-STEPS-1", f"{what} for a step that is not open")
    needs = [until for reader, writer, until in state.steps.depends if (reader, writer) == (holder, block.writer)]
    depends = block.writer is None or any(until >= ahead for until in needs)
    _require(depends, "INV-DEPENDS-1", f"{what} and does not depend on {block.writer!r}")


def _check_reader(pool: BlockPool, block_id: int, block: BlockState, holder: Holder, served: PrefixHash) -> None:
    what = f"{holder!r} was served position {served.position} of block {block_id}"
    _require(block.writer != holder, "INV-SERVED-2", f"{what}, which it writes")
    _require(block.group is not None, "INV-SERVED-2", f"{what}, which never had a key")
    slot = slot_of(served.position, pool.config.groups[block.group or 0].block_size)
    _require(slot == block.slot, "INV-SERVED-2", f"{what}, which is slot {block.slot}")
    alive = block.age <= dict(block.attached).get(holder, 0)
    _require(alive, "INV-SERVED-2", f"{what}, which was allocated in a later step")


def _check_eviction_order(ghost: Ghost, state: PoolState) -> None:
    expected = sorted(state.free_queue, key=lambda block_id: ghost.release_of(block_id).turn)
    in_order = list(state.free_queue) == expected
    _require(in_order, "INV-LRU-1", f"the queue is {state.free_queue}; as the blocks were released, it is {expected}")


def _check_soundness(pool: BlockPool, state: PoolState) -> None:
    """The crown: every entry, and every reader, is served exactly what it would have computed itself."""
    assert pool.ghost is not None
    for block_id, block in enumerate(state.blocks):
        if block.group is None:
            continue  # it never had a key, so nobody was served from it
        for entry in block.entries:
            prefix = pool.ghost.prefixes[entry.key]
            named = prefix.length == entry.position
            _require(named, "INV-CHAIN-1", f"key {entry.key.hex()} names {prefix}, position {entry.position}")
            content = _wrong_content(pool, state, block_id, entry.ahead, prefix)
            _require(content is None, "INV-SOUND-1", f"block {block_id} holds {content}, its key names {prefix}")
        attached = dict(block.attached)
        for holder, served in block.holders:
            if served is not None:
                prefix = pool.ghost.served[block_id, holder]
                content = _wrong_content(pool, state, block_id, attached.get(holder, 0), prefix)
                what = f"block {block_id} holds {content}, {holder!r} was served {prefix}"
                _require(content is None, "INV-SERVED-1", what)


def _wrong_content(pool: BlockPool, state: PoolState, block_id: int, ahead: int, prefix: Prefix) -> str | None:
    """What the block holds instead of the prefix, in any step from the ready one to the current one."""
    assert pool.ghost is not None
    group = state.blocks[block_id].group
    assert group is not None, "only blocks with a group are asked"
    for step in range(pool.last_committed_step + ahead, pool.last_committed_step + state.steps.open + 1):
        content = pool.ghost.content_after(block_id, step)
        if content is None or not content.fits(prefix, group, pool.config.groups[group]):
            return f"{content.prefix} of group {content.group}" if content else "nothing"
    return None


def _check_mirror(pool: BlockPool, state: PoolState, mirror: EventMirror) -> None:
    copies = Counter(entry.key for block in state.blocks for entry in block.entries if entry.owner is None)
    logical = pool.config.residency is Residency.LOGICAL
    resident: Counter[Key] = Counter({key: 1 if logical else count for key, count in copies.items()})
    clause = "INV-EVENTS-1" if logical else "INV-EVENTS-2"
    _require(mirror.resident == resident, clause, f"a consumer has {mirror.resident}, resident are {resident}")


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


_STATE_CHECKS: tuple[Callable[[BlockPool, PoolState], None], ...] = (
    _check_partition,
    _check_references,
    _check_null_block,
    _check_index,
    _check_keys_of_blocks,
    _check_steps,
)
