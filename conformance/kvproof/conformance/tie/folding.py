"""Which transitions of the machine an operation of the pool is.

A batch is a fold of single transitions in the order that the clauses state. In immediate mode an operation that belongs
to a step stands between the beginning and the commit of one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kvproof.conformance.operations import (
    Allocate,
    Append,
    CacheFullBlocks,
    CachePartialBlock,
    Copy,
    Evict,
    Free,
    Move,
    Operation,
    Reset,
    Touch,
    Truncate,
    Write,
)
from kvproof.conformance.tie.abstraction import Universe, tabulate
from kvproof.conformance.world import World
from kvproof.spec.machine.theory import State, Term
from kvproof.spec.machine.transitions import PARTS, TRANSITIONS
from kvproof.spec.vocabulary import COPY_PREFIX, NULL_BLOCK, CommitMode, Key

MACHINE = {transition.name: transition.run for transition in (*TRANSITIONS, *PARTS)}


class Refused(Exception):
    """A guard of the machine does not hold."""


class Fold:
    """Runs transitions one after the other from a state; `taken` names them with what they met."""

    def __init__(self, state: State, universe: Universe) -> None:
        self.state = tabulate(state, universe)
        self.taken: list[str] = []
        self._universe = universe
        self._theory = universe.theory()

    def take(self, name: str, *arguments: Term) -> None:
        """Run one transition; raises `Refused` if its guard does not hold."""
        guard, after = MACHINE[name](self._theory, self.state, *arguments)
        if not guard:
            raise Refused(name)
        self.taken.append(name)
        self.state = tabulate(after, self._universe)

    def due(self) -> list[tuple[Key, int]]:
        """The entries that the next commit publishes."""
        s = self.state
        return [
            (k, b)
            for k in self._universe.keys
            for b in range(self._universe.config.num_blocks)
            if s.entry(k, b) and not s.committed(k, b) and s.ready(k, b) == s.done() + 1
        ]

    def commit(self, copies: Iterable[tuple[int, int, str]] = ()) -> None:
        """Drop what is superseded, publish, close the step, release the ends of its copies."""
        due = self.due()
        for key, block in due:
            self.take("supersede", key, block)
        for key, block in due:
            self.take("publish", key, block)
        self.take("close_step")
        for src, dst, holder in copies:
            self.take("free", src, holder)
            self.take("free", dst, holder)

    def free(self, blocks: Sequence[int], holder: str) -> None:
        """Release those with a key in the order given, then those without one backwards: so they stand in that order."""
        keyed = [b for b in blocks if any(self.state.entry(k, b) for k in self._universe.keys)]
        for block in keyed:
            self.take("free", block, holder)
        for block in reversed([b for b in blocks if b not in keyed]):
            self.take("free", block, holder)


def fold(operation: Operation, world: World, universe: Universe, start: State) -> Fold:
    """What the machine does for an operation of the pool in the world's state; raises `Refused`."""
    run = Fold(start, universe)
    immediate = world.config.commit is CommitMode.IMMEDIATE
    steps = immediate and isinstance(operation, _OF_A_STEP)
    if steps:
        run.take("begin_step")
    _operate(run, operation, world, immediate)
    if steps:
        run.commit()
    return run


_OF_A_STEP = (Allocate, Touch, Write, CachePartialBlock, CacheFullBlocks, Move, Copy)


def _operate(run: Fold, operation: Operation, world: World, immediate: bool) -> None:
    match operation:
        case Allocate(holder=holder, n=n):
            for _ in range(n):
                run.take("allocate", _front(run, world), holder)
        case Touch(holder=holder, block=block, key=ref):
            run.take("touch", block, holder, world.key(ref))
        case Free(holder=holder, blocks=blocks):
            run.free([block for block in blocks if block != NULL_BLOCK], holder or "")
        case Write(request=name, block=block, position=position, group=group):
            run.take("write", block, name, tuple(world.requests[name].tokens[:position]), group)
        case CachePartialBlock(request=name, block=block, position=position, group=group, replace=replace):
            run.take("register", block, name, position, group, replace)
        case CacheFullBlocks():
            _register_slots(run, operation, world)
        case Evict(blocks=blocks):
            for block in blocks:
                run.take("evict", block)
        case Move(src=src, dst=dst):
            _move(run, world, src, dst, immediate)
        case Copy(holder=holder, src=src, dst=dst):
            _copy(run, world, src, dst, holder or "", immediate)
        case Reset():
            run.take("reset")
        case Append(request=name, tokens=tokens):
            text = (*world.requests[name].tokens, *tokens)
            run.take("append", name, text, _hashed(world, text))
        case Truncate(request=name, num_tokens=kept):
            text = tuple(world.requests[name].tokens[:kept])
            run.take("truncate", name, text, _hashed(world, text))
        case _:
            raise TypeError(f"{operation!r} changes nothing, so the machine has no transition for it")


def _front(run: Fold, world: World) -> int:
    free = [b for b in range(world.config.num_blocks) if run.state.is_free(b)]
    if not free:
        raise Refused("allocate")
    return min(free, key=run.state.place)


def _hashed(world: World, text: Sequence[int]) -> int:
    h = world.config.hash_block_size
    return len(text) // h * h


def _register_slots(run: Fold, operation: CacheFullBlocks, world: World) -> None:
    size = world.config.groups[operation.group].block_size
    for slot in range(operation.first, operation.last):
        chosen = operation.mask is None or operation.mask[slot - operation.first]
        if chosen and operation.blocks[slot] != NULL_BLOCK:
            block, end = operation.blocks[slot], (slot + 1) * size
            run.take("register", block, operation.request, end, operation.group, operation.replace)


def _move(run: Fold, world: World, src: int, dst: int, immediate: bool) -> None:
    run.take("move_keys" if immediate else "move", src, dst)
    if not immediate:
        writer = world.state.blocks[dst].writer or ""
        if not run.state.holds(src, writer):
            if run.state.is_free(src):
                raise NotImplementedError
            run.take("retain", src, writer)


def _copy(run: Fold, world: World, src: int, dst: int, holder: str, immediate: bool) -> None:
    s = run.state
    source = s.now() - 1
    prefix = next((p for p in world_prefixes(run) if s.served(src, holder, p)), s.content(src, source))
    run.take("copy", src, dst, holder, prefix)
    if not immediate:
        name = next_copy_name(world)
        run.take("retain", src, name)
        run.take("retain", dst, name)


def world_prefixes(run: Fold) -> list[tuple[int, ...]]:
    """The prefixes of the fold's universe."""
    return run._universe.prefixes


def next_copy_name(world: World) -> str:
    """The name that the pool will give to its next copy."""
    return f"{COPY_PREFIX}pool:{world.pool.copies_made + 1}"


Step = Callable[[Fold], None]
