"""Which operations of the step layer are legal, and what steps add to the rules of the others (clauses STEP-*).

Part of `preconditions`, and like it independent of the reference's own checks.
"""

from __future__ import annotations

from collections.abc import Collection

from kvproof.conformance.arguments import Arguments, is_null
from kvproof.conformance.operations import (
    Allocate,
    Attach,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Copy,
    Finish,
    Move,
    Operation,
    Rollback,
    Touch,
    Write,
)
from kvproof.reference import Request
from kvproof.reference.observation import BlockState, EntryState
from kvproof.spec.errors import (
    AlreadyHeld,
    ContentConflict,
    InvalidArgument,
    NoOpenStep,
    NotCached,
    NotCommitted,
    NotReferenced,
    OutOfOrder,
)
from kvproof.spec.vocabulary import COPY_PREFIX, CommitMode, GroupKind

PARTS_OF_A_STEP = (Allocate, Attach, CacheFullBlocks, CachePartialBlock, Copy, Move, Touch, Write)
"""What needs an open step where commits are not immediate (STEP-OPEN-2)."""


def holds(block: BlockState, holder: object) -> bool:
    """Whether a holder of this name has a reference."""
    return any(name == holder for name, _ in block.holders)


class StepRules(Arguments):
    """The rules of steps, over the rules of single arguments."""

    __slots__ = ()

    @property
    def has_steps(self) -> bool:
        """Whether the pool is told when steps begin and end."""
        return self.situation.config.commit is CommitMode.STEPS

    def part_of_a_step(self, operation: Operation) -> None:
        """Some operations need an open step."""
        if self.has_steps and isinstance(operation, PARTS_OF_A_STEP):
            self.require(self.situation.state.steps.open > 0, NoOpenStep)

    def stepping(self, operation: BeginStep | Commit | Attach | Rollback | Finish) -> None:
        """The operations of the step layer; of these only `finish` has a meaning with immediate commit."""
        self.require(self.has_steps or isinstance(operation, Finish), NoOpenStep)
        match operation:
            case Commit(step=step):
                self.commit(step)
            case Attach(holder=holder, block=block_id, key=ref):
                self.attach(holder, block_id, ref)
            case Rollback(requests=names):
                for name in self.sequence(names):
                    self.request_name(name)
            case Finish(request=name, blocks=block_ids):
                self.request_name(name)
                self.holder(name)
                self.releases(block_ids, name, self.taken_back_with(name))
            case BeginStep():
                pass

    def author(self, name: object) -> Request | None:
        """The request that writes or registers; what it does in a step can be rolled back, so it is no copy."""
        if self.has_steps:
            self.request_name(name)
        return self.request(name)

    def commit(self, step: object) -> None:
        """The oldest open step comes first."""
        number = self.number(step, 1)
        if number is not None and self.has_steps:
            open_steps = self.situation.state.steps.open
            self.require(open_steps > 0 and number == self.situation.begun - open_steps + 1, OutOfOrder)

    def attach(self, holder: object, block_id: object, ref: object) -> None:
        """A request shares a full key of full attention with the block's writer, who reserved it."""
        block, key = self.block(block_id), self.key(ref)
        self.request_name(holder)
        if block is None:
            return
        self.require(not holds(block, holder), AlreadyHeld)
        if key is not None:
            self.require(any(key == entry.key and self._shared(block, entry) for entry in block.entries), NotCached)

    def request_name(self, value: object) -> None:
        """A name that is not a copy's."""
        self.name(value)
        self.require(not isinstance(value, str) or not value.startswith(COPY_PREFIX), InvalidArgument)

    def releases(self, block_ids: object, holder: object, taken_back: Collection[object] = ()) -> None:
        """Every release is covered by a reference, and none comes too early; `taken_back` is rolled back before."""
        blocks = [(block_id, block) for block_id, block in self.block_list(block_ids) if not is_null(block_id)]
        ids = [block_id for block_id, _ in blocks]
        for block_id, block in blocks:
            held, released = block.ref_cnt if holder is None else int(holds(block, holder)), ids.count(block_id)
            self.require(released <= held, NotReferenced)
            if held:
                self.done_with(block_id, block, holder, released >= block.ref_cnt, taken_back)

    def done_with(
        self, block_id: int, block: BlockState, holder: object, is_last: bool, taken_back: Collection[object]
    ) -> None:
        """Nothing that waits for a commit needs this reference."""
        for entry in block.entries:
            waits = entry.ahead > 0 and (entry.owner is None or entry.owner not in taken_back)
            own = entry.owner is not None and entry.owner == holder
            self.require(not (waits and (is_last or own)), NotCommitted)
        for _, src, dst, name in self.situation.state.steps.copies:
            self.require(name != holder or block_id not in (src, dst), NotCommitted)

    def taken_back_with(self, name: object) -> set[object]:
        """A request and all that depend on it, directly or through others."""
        found: set[object] = {name} if isinstance(name, str) else set()
        grown = True
        while grown:
            more = {reader for reader, writer, _ in self.situation.state.steps.depends if writer in found} - found
            found |= more
            grown = bool(more)
        return found

    def moves_between_steps(self, src: BlockState | None, dst: BlockState | None) -> None:
        """A move within a step reads what earlier steps left, and hands it to a copy, who is never rolled back."""
        if not self.has_steps:
            return
        if dst is not None and dst.ref_cnt > 0:
            self.require(dst.writer is not None and dst.writer.startswith(COPY_PREFIX), ContentConflict)
        if src is not None:
            newest = self.situation.state.steps.open
            self.require(not any(0 < entry.ahead == newest for entry in src.entries), ContentConflict)

    def readable(self, block: BlockState, holder: object) -> None:
        """What a holder copies was written by itself, or served to it and committed."""
        for name, served in block.holders:
            if name == holder != block.writer:
                self.require(served is not None and name not in dict(block.attached), NotCached)

    def _shared(self, block: BlockState, entry: EntryState) -> bool:
        if entry.owner is None or entry.owner != block.writer or block.group is None:
            return False
        group = self.situation.config.groups[block.group]
        return group.kind is GroupKind.FULL_ATTENTION and entry.position % group.block_size == 0
