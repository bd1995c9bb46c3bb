"""Which operations are legal, and which errors may be raised when one is not (clauses ERR-*).

This is an oracle of its own: it judges from what can be observed of the pool, from the configuration and from the
requests' hashes, and shares no code with the reference's checks. If several preconditions are violated, any one of
their errors may be raised (ERR-CHOICE-1), so the answer is a set; it is empty exactly if the operation is legal.
"""

from __future__ import annotations

from kvproof.conformance.arguments import Situation, hash_at, is_null, key_of
from kvproof.conformance.hybrid_rules import HybridRules
from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Advance,
    Allocate,
    Append,
    Attach,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Contains,
    Copy,
    Evict,
    Fail,
    Find,
    Finish,
    Free,
    FullKey,
    Hashes,
    Lookup,
    Match,
    Move,
    Operation,
    Read,
    Release,
    Reset,
    Rollback,
    Split,
    TakeEvents,
    Touch,
    Truncate,
    Write,
)
from kvproof.conformance.step_rules import holds
from kvproof.reference import Request
from kvproof.reference.observation import BlockState
from kvproof.spec.errors import (
    AlreadyHeld,
    ContentConflict,
    InvalidArgument,
    InvalidBlock,
    NotCached,
    NotOwner,
    NotReferenced,
    OutOfBlocks,
    OutOfRange,
    PoolError,
    StillReferenced,
)
from kvproof.spec.vocabulary import GROUP_ID_BYTES, GroupKind, HolderMode


def violations(situation: Situation, operation: Operation) -> frozenset[type[PoolError]]:
    """The errors of all preconditions that the operation violates; empty if it is legal."""
    judge = _Judge(situation)
    judge.operation(operation)
    return frozenset(judge.errors)


class _Judge(HybridRules):
    """The rules of the operations, over those of requests that run, of steps and of single arguments."""

    __slots__ = ()

    # One method for each operation that has preconditions

    def operation(self, operation: Operation) -> None:
        self.part_of_a_step(operation)
        match operation:
            case Allocate(holder=holder, n=n):
                self.allocate(holder, n)
            case Touch(holder=holder, block=block_id, key=ref):
                self.touch(holder, block_id, ref)
            case Free(holder=holder, blocks=block_ids):
                self.holder(holder)
                self.releases(block_ids, holder)
            case CacheFullBlocks():
                self.cache_full_blocks(operation)
            case CachePartialBlock():
                self.cache_partial_block(operation)
            case Write():
                self.write(operation)
            case Evict(blocks=block_ids):
                self.evict(block_ids)
            case Move(src=src, dst=dst):
                self.move(src, dst)
            case Copy(holder=holder, src=src, dst=dst):
                self.copy(holder, src, dst)
            case Reset():
                self.require(not any(block.ref_cnt for block in self.situation.state.blocks), StillReferenced)
            case BeginStep() | Commit() | Attach() | Rollback() | Finish():
                self.stepping(operation)
            case Match() | Split() | Admit() | Advance() | Release() | Fail():
                self.running_requests(operation)
            case Lookup() | Find() | Contains() | FullKey() | Hashes() | Read():
                self.question(operation)
            case AddRequest() | Append() | Truncate():
                self.request_change(operation)
            case TakeEvents():
                pass

    def allocate(self, holder: object, n: object) -> None:
        self.holder(holder)
        count = self.number(n, 0)
        if count is not None:
            self.require(count <= len(self.situation.state.free_queue), OutOfBlocks)

    def touch(self, holder: object, block_id: object, ref: object) -> None:
        block, key = self.block(block_id), self.key(ref)
        self.holder(holder)
        if block is None or is_null(block_id):
            return
        if key is not None:
            self.require(any(key == entry.key and entry.ahead == 0 for entry in block.entries), NotCached)
        self.require(not holds(block, holder), AlreadyHeld)

    def cache_full_blocks(self, operation: CacheFullBlocks) -> None:
        request, size = self.author(operation.request), self.block_size(operation.group)
        table = [(block_id, self.block(block_id)) for block_id in self.sequence(operation.blocks)]
        first, last = self.number(operation.first, 0), self.number(operation.last, 0)
        self.require(first is None or last is None or first <= last, OutOfRange)
        skipped = self.mask(operation.mask, None if first is None or last is None else last - first)
        self.require_bool(operation.replace)
        if request is None or size is None or first is None or last is None:
            return
        self.require(last <= min(len(table), len(request.hashes) * self.h // size), OutOfRange)
        chosen = []
        for slot, (block_id, block) in enumerate(table[first:last], first):
            if block is not None and not is_null(block_id) and slot - first not in skipped:
                chosen.append(block_id)
                self.registration(block, request, operation.group, (slot + 1) * size, operation.replace)
        self.require(len(set(chosen)) == len(chosen), InvalidBlock)

    def cache_partial_block(self, operation: CachePartialBlock) -> None:
        request = self.author(operation.request)
        block = self.block(operation.block)
        size = self.block_size(operation.group)
        self.require_bool(operation.replace)
        self.require(not is_null(operation.block), InvalidBlock)
        position = self.position(operation.position, request)
        if request and block and size and position and not is_null(operation.block):
            self.registration(block, request, operation.group, position, operation.replace)

    def registration(self, block: BlockState, request: Request, group: int, position: int, replace: bool) -> None:
        """The rules that the registration of one key on one block has to follow (REG-*)."""
        key = key_of(request, group, position)
        if key is None or (not replace and any(key == entry.key for entry in block.entries)):
            return
        self.owner(block, request)
        self.identity(block, group, position)
        if not replace:
            recurrent = self.situation.config.groups[group].kind is GroupKind.RECURRENT
            self.require(not (recurrent and block.entries), ContentConflict)
            for entry in block.entries:
                self.require(hash_at(request, entry.position) == entry.key[:-GROUP_ID_BYTES], ContentConflict)

    def write(self, operation: Write) -> None:
        request = self.author(operation.request)
        block = self.block(operation.block)
        size = self.block_size(operation.group)
        self.require(not is_null(operation.block), InvalidBlock)
        position = self.number(operation.position, 1, None if request is None else request.num_tokens)
        if request is None or block is None or is_null(operation.block):
            return
        self.owner(block, request)
        if size is None or position is None:
            return
        self.identity(block, operation.group, position)
        recurrent = self.situation.config.groups[operation.group].kind is GroupKind.RECURRENT
        covered = [(entry.key[:-GROUP_ID_BYTES], entry.position) for entry in block.entries]
        covered += [(served.digest, served.position) for _, served in block.holders if served is not None]
        for digest, end in covered:
            kept = not recurrent and end <= position and hash_at(request, end) == digest
            self.require(kept, ContentConflict)

    def evict(self, block_ids: object) -> None:
        for block_id, _ in self.block_list(block_ids):
            self.require(not is_null(block_id), InvalidBlock)

    def move(self, src_id: object, dst_id: object) -> None:
        src, dst = self.two_blocks(src_id, dst_id)
        if src is not None:
            self.require(bool(src.entries), NotCached)
        if dst is not None:
            self.require(dst.ref_cnt > 0, NotReferenced)
            self.overwritable(dst)
        if src is not None and dst is not None and src.entries and dst.slot is not None:
            self.require((src.group, src.slot) == (dst.group, dst.slot), OutOfRange)
        self.moves_between_steps(src, dst)

    def copy(self, holder: object, src_id: object, dst_id: object) -> None:
        self.holder(holder)
        src, dst = self.two_blocks(src_id, dst_id)
        for block in (src, dst):
            if block is not None:
                self.held(block, holder)
        if src is not None:
            self.readable(src, holder)
        if dst is not None:
            self.require(holder is None or dst.writer == holder, NotOwner)
            self.overwritable(dst)

    def question(self, operation: Lookup | Find | Contains | FullKey | Hashes | Read) -> None:
        match operation:
            case Lookup(keys=refs) | Find(keys=refs):
                for ref in self.sequence(refs):
                    self.key(ref)
            case Contains(key=ref, block=block_id):
                self.key(ref)
                self.block(block_id)
            case FullKey(block=block_id):
                self.block(block_id)
            case Hashes(request=name):
                self.request(name)
            case Read(holder=holder, block=block_id):
                self.holder(holder)
                block = self.block(block_id)
                self.require(not is_null(block_id), InvalidBlock)
                if block is not None and not is_null(block_id):
                    self.held(block, holder)

    def request_change(self, operation: AddRequest | Append | Truncate) -> None:
        match operation:
            case AddRequest(request=name, tokens=tokens, extra_keys=extras):
                self.name(name)
                self.require(not isinstance(name, str) or name not in self.situation.requests, InvalidArgument)
                self.tokens(tokens)
                self.extra_keys(extras)
            case Append(request=name, tokens=tokens):
                self.request(name)
                self.tokens(tokens)
            case Truncate(request=name, num_tokens=num_tokens):
                request = self.request(name)
                length = self.number(num_tokens, 0, None if request is None else request.num_tokens)
                if request is not None and length is not None:
                    self.truncate_running(request, length)

    # Rules that several operations share

    def owner(self, block: BlockState, request: Request) -> None:
        self.require(block.ref_cnt > 0, NotReferenced)
        if self.situation.config.holders is HolderMode.NAMED:
            self.require(block.writer == request.request_id, NotOwner)

    def identity(self, block: BlockState, group: int, position: int) -> None:
        if block.slot is not None:
            slot = (position - 1) // self.situation.config.groups[group].block_size
            self.require((block.group, block.slot) == (group, slot), OutOfRange)

    def held(self, block: BlockState, holder: object) -> None:
        self.require(block.ref_cnt > 0 if holder is None else holds(block, holder), NotReferenced)

    def overwritable(self, block: BlockState) -> None:
        read = any(served is not None for _, served in block.holders)
        self.require(not block.entries and not read, ContentConflict)
