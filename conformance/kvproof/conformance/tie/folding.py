"""Which transitions of the machine an operation of the pool is.

A batch is a fold of single transitions in the order that the clauses state. In immediate mode an operation that belongs
to a step stands between the beginning and the commit of one of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kvproof.conformance.operations import (
    Allocate,
    Append,
    Attach,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Copy,
    Evict,
    Finish,
    Free,
    Move,
    Operation,
    Reset,
    Rollback,
    Touch,
    Truncate,
    Write,
)
from kvproof.conformance.tie.abstraction import Prefix, Universe, spell, tabulate
from kvproof.conformance.tie.situations import situation
from kvproof.conformance.world import World
from kvproof.reference import Request
from kvproof.spec.machine.theory import State, Term
from kvproof.spec.machine.transitions import PARTS, TRANSITIONS, Run
from kvproof.spec.vocabulary import NULL_BLOCK, POOL_COPY_PREFIX, CommitMode, Key

Machine = Mapping[str, Run]

MACHINE: Machine = {transition.name: transition.run for transition in (*TRANSITIONS, *PARTS)}
"""Every transition, and part of one, by name."""


class Refused(Exception):
    """A guard of the machine does not hold."""


class Fold:
    """Runs transitions of a machine one after the other from a tabulated state; `met` says what they met there."""

    def __init__(self, machine: Machine, state: State, universe: Universe) -> None:
        self.state = state
        self.universe = universe
        self.met: list[str] = []
        self._machine = machine
        self._theory = universe.theory()

    def take(self, name: str, *arguments: Term) -> None:
        """Run one transition; raises `Refused` if its guard does not hold."""
        guard, after = self._machine[name](self._theory, self.state, *arguments)
        if not guard:
            raise Refused(name)
        self.met.append(f"{name}: {situation(name, self.state, self.universe, arguments)}")
        self.state = tabulate(after, self.universe)

    def only(self, name: str, choices: Iterable[int], *arguments: Term) -> int:
        """The one choice that the machine allows as first argument; raises `Refused` if there is none, or another."""
        guards = {b: self._machine[name](self._theory, self.state, b, *arguments)[0] for b in choices}
        allowed = [b for b, guard in guards.items() if guard]
        if len(allowed) != 1:
            raise Refused(f"{name}: it allows {allowed or 'none'}")
        return allowed[0]

    def due(self) -> list[tuple[Key, int]]:
        """The entries that the next commit publishes."""
        s = self.state
        return [
            (k, b)
            for k in self.universe.keys
            for b in range(self.universe.config.num_blocks)
            if s.entry(k, b) and not s.committed(k, b) and s.ready(k, b) == s.done() + 1
        ]

    def commit(self, ends_of_copies: Iterable[tuple[int, str]] = ()) -> None:
        """Drop what is superseded, publish, close the step, release what its copies kept."""
        due = self.due()
        for key, block in due:
            self.take("supersede", key, block)
        for key, block in due:
            self.take("publish", key, block)
        self.take("close_step")
        for block, holder in ends_of_copies:
            self.take("free", block, holder)

    def free(self, blocks: Sequence[int], holder: str) -> None:
        """Release those with a key in the order given, then the others backwards, so that they stand in that order."""
        keyed = [b for b in blocks if any(self.state.entry(k, b) for k in self.universe.keys)]
        for block in keyed:
            self.take("free", block, holder)
        for block in reversed([b for b in blocks if b not in keyed]):
            self.take("free", block, holder)


def fold(operation: Operation, world: World, opened: State, start: State, universe: Universe, machine: Machine) -> Fold:
    """What the machine does for an operation of the pool in the world's state; raises `Refused`.

    `start` is that state, `opened` the same with a step begun, which in immediate mode comes before most operations.
    """
    immediate = world.config.commit is CommitMode.IMMEDIATE
    in_step = immediate and isinstance(operation, OF_A_STEP)
    if not immediate and isinstance(operation, (*OF_A_STEP, Attach)) and start.done() == start.now():
        raise Refused("no step is open")  # a batch of nothing takes no transition, and is refused all the same
    run = Fold(machine, opened if in_step else start, universe)
    _operate(run, operation, world, immediate)
    if in_step:
        run.commit()
    return run


OF_A_STEP = (Allocate, Touch, Write, CachePartialBlock, CacheFullBlocks, Move, Copy)
TRANSITIONS_OF = (*OF_A_STEP, Free, Evict, Reset, Append, Truncate, BeginStep, Commit, Attach, Rollback, Finish)
"""The operations that the machine has transitions for."""


def _operate(run: Fold, operation: Operation, world: World, immediate: bool) -> None:
    match operation:
        case Allocate(holder=holder, n=n):
            for _ in range(n):
                run.take("allocate", run.only("allocate", range(world.config.num_blocks), holder), holder)
        case Touch(block=0):
            pass  # touching the null block does nothing
        case Touch(holder=holder, block=block, key=ref):
            run.take("touch", block, holder, world.key(ref))
        case Free(holder=holder, blocks=blocks):
            _free(run, world, blocks, holder or "")
        case Write(request=name, block=block, position=position, group=group):
            run.take("write", block, name, text_of(world, name)[:position], group)
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
        case BeginStep():
            run.take("begin_step")
        case Commit(step=step):
            if step != world.pool.last_committed_step + 1:
                raise Refused("close_step")  # the machine has no numbers to get wrong
            run.commit(_let_go(world))
        case Attach(holder=holder, block=block, key=ref):
            run.take("attach", block, holder, world.key(ref))
        case Rollback(requests=requests):
            _roll_back(run, requests)
        case Finish(request=name, blocks=blocks):
            _roll_back(run, [name])
            _free(run, world, blocks, name)
        case Append(request=name, tokens=tokens):
            text = spell([*world.requests[name].tokens, *tokens], world.requests[name].extra_keys)
            run.take("append", name, text, _hashed(world, text))
        case Truncate(request=name, num_tokens=kept):
            text = text_of(world, name)[:kept]
            run.take("truncate", name, text, _hashed(world, text))
        case _:
            raise TypeError(f"{operation!r} changes nothing, so the machine has no transition for it")


def text_of(world: World, name: str) -> Prefix:
    """The request's text."""
    return spell(world.requests[name].tokens, world.requests[name].extra_keys)


def appended(world: World, name: str, tokens: Sequence[int]) -> Request:
    """A new request with the text that this one has after appending tokens."""
    request = world.requests[name]
    return Request(name, [*request.tokens, *tokens], request.hasher, request.extra_keys)


def _hashed(world: World, text: Prefix) -> int:
    h = world.config.hash_block_size
    return len(text) // h * h


def _register_slots(run: Fold, operation: CacheFullBlocks, world: World) -> None:
    size = world.config.groups[operation.group].block_size
    for slot in range(operation.first, operation.last):
        chosen = operation.mask is None or operation.mask[slot - operation.first]
        if chosen and operation.blocks[slot] != NULL_BLOCK:
            block, end = operation.blocks[slot], (slot + 1) * size
            run.take("register", block, operation.request, end, operation.group, operation.replace)


def _free(run: Fold, world: World, blocks: Sequence[int], holder: str) -> None:
    """A batch of releases; what a copy keeps is not its holder's to let go, a rule about names (STEP-COPY-2)."""
    released = [block for block in blocks if block != NULL_BLOCK]
    if any((block, holder) in _kept(world) for block in released):
        raise Refused("free")
    run.free(released, holder)


def _kept(world: World) -> Counter[tuple[int, str]]:
    """How many copies of open steps keep each reference."""
    copies = world.state.steps.copies
    return Counter(end for _, src, dst, holder in copies for end in ((src, holder), (dst, holder)))


def _let_go(world: World) -> list[tuple[int, str]]:
    """The references that no copy keeps once the next step is committed, in the order of its copies."""
    kept, released = _kept(world), []
    for ahead, src, dst, holder in world.state.steps.copies:
        for end in ((src, holder), (dst, holder)):
            if ahead == 1:
                kept[end] -= 1
                if not kept[end]:
                    released.append(end)
    return released


def _roll_back(run: Fold, requests: Sequence[str]) -> None:
    """The least set that holds the requests and everyone who depends on one of its members."""
    s, chosen = run.state, set(requests)
    while more := {r for r in run.universe.holders for w in chosen if s.depends(r, w) > s.done()} - chosen:
        chosen |= more
    run.take("rollback", lambda r: r in chosen)


def _move(run: Fold, world: World, src: int, dst: int, immediate: bool) -> None:
    if immediate:
        run.take("move_keys", src, dst)
        return
    run.take("move", src, dst)
    writer = world.state.blocks[dst].writer or ""
    if not run.state.holds(src, writer):
        run.take("retain", src, writer)


def _copy(run: Fold, world: World, src: int, dst: int, holder: str, immediate: bool) -> None:
    s = run.state
    served = [p for p in run.universe.prefixes if s.served(src, holder, p)]
    run.take("copy", src, dst, holder, served[0] if served else s.content(src, s.now() - 1))
    if not immediate:
        for block in (src, dst):
            if not run.state.holds(block, copy_name(src, dst)):
                run.take("retain", block, copy_name(src, dst))


def copy_name(src: int, dst: int) -> str:
    """The name under which the pool keeps both ends of a copy."""
    return f"{POOL_COPY_PREFIX}{src}:{dst}"
