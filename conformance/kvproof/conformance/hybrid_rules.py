"""Which operations on requests that run are legal (clauses SPLIT-RANGE-1, ADMIT-*, ADVANCE-*, RELEASE-2, BACK-*).

Part of `preconditions`, and like it independent of the reference's own checks.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvproof.conformance.operations import Admit, Advance, Fail, Match, Release, Split
from kvproof.conformance.reuse import Reuse
from kvproof.conformance.step_rules import StepRules
from kvproof.reference import Request
from kvproof.reference.observation import BlockState, RunningState
from kvproof.spec.errors import (
    AlreadyAdmitted,
    InvalidArgument,
    NoOpenStep,
    NotAdmitted,
    NotCommitted,
    OutOfBlocks,
    OutOfOrder,
)
from kvproof.spec.vocabulary import NULL_BLOCK, GroupConfig, GroupKind


class HybridRules(StepRules):
    """The rules of requests that run, over the rules of steps."""

    __slots__ = ()

    def running_requests(self, operation: Match | Split | Admit | Advance | Release | Fail) -> None:
        """The operations that run requests over all groups."""
        self.require(self.situation.config.hybrid is not None, InvalidArgument)
        if isinstance(operation, Fail):
            self.commit(operation.step)  # the oldest open step comes first, here too
            return
        if isinstance(operation, Release):
            self.name(operation.request)
            self.require(self.running(operation.request) is not None, NotAdmitted)
            return
        self.request_name(operation.request)
        request = self.request(operation.request)
        match operation:
            case Split():
                self.split(operation, request)
            case Admit(end=end):
                self.admit(request, end)
            case Advance(end=end):
                self.advance(request, end)
            case Match():
                pass

    def running(self, name: object) -> RunningState | None:
        """What is known of a request that runs."""
        return next((each for each in self.situation.state.running or () if each.request == name), None)

    def split(self, operation: Split, request: Request | None) -> None:
        """Numbers within what the request has (SPLIT-RANGE-1)."""
        total = None if request is None else request.num_tokens
        start = self.number(operation.start, 0, None if total is None else total - 1)
        tokens = self.number(operation.tokens, 1, None if total is None or start is None else total - start)
        self.number(operation.cap, 1 if tokens is None else tokens)
        self.number(operation.junction, 0, total)

    def admit(self, request: Request | None, end: object) -> None:
        """Past the joint hit, and enough blocks besides those that are hit."""
        self._in_a_step()
        if request is None or self.situation.config.hybrid is None:
            self.number(end, 1)
            return
        self.require(self.running(request.request_id) is None, AlreadyAdmitted)
        reuse = Reuse(self.situation.state, self.situation.config, request)
        hit = reuse.joint_hit()
        last = self.number(end, hit + 1, request.num_tokens)
        if last is not None:
            taken = sum(_slots_of_first_chunk(group, hit, last) for group in self._groups)
            revived = {block for block in reuse.blocks_used(hit) if not self._block_state(block).ref_cnt}
            self.require(taken <= len(self.situation.state.free_queue) - len(revived), OutOfBlocks)

    def advance(self, request: Request | None, end: object) -> None:
        """Past what is computed, once in a step, and enough blocks with those that it lets go."""
        self._in_a_step()
        running = None if request is None else self.running(request.request_id)
        self.require(request is None or running is not None, NotAdmitted)
        if request is None or running is None:
            self.number(end, 1)
            return
        last = self.number(end, running.computed + 1, request.num_tokens)
        open_steps = self.situation.state.steps.open
        self.require(open_steps == 0 or running.scheduled != open_steps, OutOfOrder)
        if last is not None:
            tables = list(zip(self._groups, running.tables, strict=True))
            taken = sum(self._slots_of_next_chunk(group, table, running.computed, last) for group, table in tables)
            unneeded = [block for group, table in tables for block in table[: _first_needed(group, running.settled)]]
            self._room(taken, unneeded)

    def truncate_running(self, request: Request, length: int) -> None:
        """A request that runs goes back between its chunks, and has room for what it has to copy (BACK-*)."""
        running = self.running(request.request_id)
        if running is None or length >= running.computed:
            return
        self.require(not running.unsettled, NotCommitted)
        tables = list(zip(self._groups, running.tables, strict=True))
        if not all(_goes_back(group, table, length) for group, table in tables):
            return  # it is released
        cut = [table[length // group.block_size] for group, table in tables if length % group.block_size]
        copied = [block for block in cut if self._is_relied_on(block, request, length)]
        if copied:
            self._in_a_step()
            beyond = [block for group, table in tables for block in table[-(-length // group.block_size) :]]
            self._room(len(copied), beyond)

    # Rules that several operations share

    @property
    def _groups(self) -> tuple[GroupConfig, ...]:
        return self.situation.config.groups

    def _block_state(self, block_id: int) -> BlockState:
        return self.situation.state.blocks[block_id]

    def _in_a_step(self) -> None:
        self.require(self.situation.state.steps.open > 0, NoOpenStep)

    def _room(self, taken: int, let_go: Iterable[int]) -> None:
        """There are so many free blocks when these are let go."""
        gone = sum(block != NULL_BLOCK and self._block_state(block).ref_cnt == 1 for block in let_go)
        self.require(taken <= len(self.situation.state.free_queue) + gone, OutOfBlocks)

    def _slots_of_next_chunk(self, group: GroupConfig, table: tuple[int, ...], computed: int, end: int) -> int:
        """How many blocks a group takes; one more for a state that is moved, or copied, before it is overwritten."""
        size = group.block_size
        if group.kind is not GroupKind.RECURRENT:
            return max(0, -(-end // size) - len(table))
        if (end - 1) // size >= len(table):
            return 1
        state = self._block_state(table[(computed - 1) // size])
        return int(bool(state.entries) or any(served is not None for _, served in state.holders))

    def _is_relied_on(self, block_id: int, request: Request, length: int) -> bool:
        """Whether others have, or rely on, what the request would overwrite past the cut (BACK-CUT-1)."""
        block = self._block_state(block_id)
        ends = [entry.position for entry in block.entries]
        ends += [served.position for _, served in block.holders if served is not None]
        return block.writer != request.request_id or max(ends, default=0) > length


def _slots_of_first_chunk(group: GroupConfig, hit: int, end: int) -> int:
    """How many blocks a group takes for a chunk that begins at the hit; a hit inside a slot takes one for its copy."""
    size = group.block_size
    if group.kind is not GroupKind.RECURRENT:
        return -(-end // size) - hit // size
    return len({(end - 1) // size, *([hit // size] if hit % size else [])})


def _first_needed(group: GroupConfig, n: int) -> int:
    """The first slot that is needed to go on from n tokens."""
    if group.kind is GroupKind.RECURRENT:
        return max(0, n - 1) // group.block_size
    return 0 if group.window is None else max(0, n - group.window + 1) // group.block_size


def _goes_back(group: GroupConfig, table: tuple[int, ...], n: int) -> bool:
    """Whether a group has what it needs to go on from n tokens, fewer than are computed."""
    if n == 0 or group.kind is GroupKind.RECURRENT:
        return False
    return NULL_BLOCK not in table[_first_needed(group, n) : -(-n // group.block_size)]
