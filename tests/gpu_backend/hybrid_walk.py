"""Random walks of the hybrid layer beside the reference's: results, errors, tables and whole states after each call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from kvproof import gpu_backend, reference
from kvproof.gpu_backend.hybrid import HybridCache
from kvproof.reference import hybrid as oracle
from kvproof.reference.observation import BlockState
from kvproof.spec.errors import ContentConflict, NotOwner, PoolError
from kvproof.spec.vocabulary import (
    POOL_COPY_PREFIX,
    CommitMode,
    ExtraKey,
    ExtraKeySource,
    GroupConfig,
    GroupKind,
    HashAlgorithm,
    HybridConfig,
    PoolConfig,
    Residency,
    Retention,
)

REQUESTS = ("r0", "r1", "r2", "r3", "r4", "r5")

OUTSIDER = "outsider"
"""A request that uses the pool itself, beside the cache."""

LONGEST = 26
"""Tokens of a request when it comes."""

MOST_OPEN = 3

Arguments = tuple[object, ...]
Call = tuple[float, Callable[[], Arguments | None]]


class Mismatch(Exception):
    """The backend and the reference disagree; the text says about what."""


def draw_config(random: Random) -> PoolConfig:
    """A small hybrid model with settings of any kind."""
    h = random.randint(1, 3)
    kinds = random.choices(list(GroupKind), [4, 3, 5], k=random.randint(1, 3))
    groups = tuple(
        GroupConfig(kind, h * random.randint(1, 3), random.randint(1, 9) if kind is GroupKind.SLIDING_WINDOW else None)
        for kind in kinds
    )
    attention = [index for index, kind in enumerate(kinds) if kind is not GroupKind.RECURRENT]
    retention, fine = random.choice(list(Retention)), random.random() < 0.7
    return PoolConfig(
        num_blocks=random.choice([10, 30, 60, 90]),
        hash_block_size=h,
        groups=groups,
        hash_algorithm=random.choice(list(HashAlgorithm)),
        hash_seed=b"a seed of both",
        residency=random.choice(list(Residency)),
        commit=CommitMode.STEPS,
        hybrid=HybridConfig(
            fine_grained=fine,
            drop=tuple(index for index in attention if random.random() < 0.25),
            lookahead=random.choice([0, 0, 1, 2, 4]),
            retention=retention,
            interval=h * random.randint(1, 6) if retention is Retention.INTERVAL else None,
            checkpoints=fine and random.random() < 0.4,
        ),
    )


def draw_config_of_cuts(random: Random) -> PoolConfig:
    """Attention groups of different block sizes: a cut is inside a slot of one and at the end of one of another."""
    h = random.choice([1, 1, 2])
    sizes = random.sample([2, 3, 4, 6], random.randint(2, 3))
    groups = [GroupConfig(GroupKind.FULL_ATTENTION, h * size) for size in sizes]
    if random.random() < 0.3:
        groups[-1] = GroupConfig(GroupKind.SLIDING_WINDOW, h * sizes[-1], random.randint(1, 12))
    hybrid = HybridConfig(fine_grained=random.random() < 0.6)
    return PoolConfig(80, h, tuple(groups), hash_seed=b"a seed of both", commit=CommitMode.STEPS, hybrid=hybrid)


class Walk:
    """Two pools with their caches, and calls that are drawn by what the reference shows.

    With `cuts` requests are truncated and rolled back often.
    """

    def __init__(
        self, seed: int, cache_of: Callable[[gpu_backend.BlockPool], Any] = HybridCache, cuts: bool = False
    ) -> None:
        self.random = random = Random(seed)
        self.cuts = cuts
        self.config = draw_config_of_cuts(random) if cuts else draw_config(random)
        self.theirs, self.ours = reference.BlockPool(self.config), gpu_backend.BlockPool(self.config)
        self.their_cache, self.our_cache = oracle.HybridCache(self.theirs), cache_of(self.ours)
        self.state = self.theirs.observe()
        self.shared = [random.randrange(2) for _ in range(3 * LONGEST)]
        self.requests = {name: self._draw_request(name) for name in REQUESTS}
        self.log: list[str] = []
        self.done: Counter[str] = Counter()

    def take(self, calls: int) -> Counter[str]:
        """Make so many calls; how often each was done, and what came of it. Raises `Mismatch`."""
        for _ in range(calls):
            known = self._calls()
            [drawn] = self.random.choices(list(known), [weight for weight, _ in known.values()])
            arguments = known[drawn][1]()
            if arguments is not None:
                self._compare(drawn, arguments)
        return self.done

    # What is drawn

    def _draw_request(self, name: str) -> tuple[reference.Request, gpu_backend.Request]:
        length = self.random.randint(1, LONGEST)
        common = self.random.randint(0, length)
        tokens = self.shared[:common] + [self.random.randrange(3) for _ in range(length - common)]
        extras = [ExtraKey(ExtraKeySource.SALT, b"s", 5)] * (self.random.random() < 0.1)
        return reference.Request(name, tokens, self.theirs.hasher, extras), self.ours.request(name, tokens, extras)

    def _calls(self) -> dict[str, Call]:
        """Every call with its weight and what draws its arguments, None where there is nothing to call it with."""
        is_open = self.state.steps.open
        return {
            "begin_step": (0 if is_open >= MOST_OPEN else 8 if is_open else 60, tuple),
            "commit": (6 if is_open else 1, lambda: (self.theirs.last_committed_step + (self.random.random() < 0.97),)),
            "fail": (1.5 if is_open else 0.3, self._fail),
            "admit": (16 if len(self.their_cache.running) < len(REQUESTS) else 1, self._admit),
            "advance": (24, self._advance),
            "release": (5, lambda: (self.random.choice(REQUESTS) if self._rarely() else self._any_running(),)),
            "rollback": (
                6 if self.cuts else 1,
                lambda: (self.random.sample((*REQUESTS, OUTSIDER), self.random.randint(0, 2)),),
            ),
            "truncate": (15 if self.cuts else 3, self._truncate),
            "append": (8, self._append),
            "match": (5, lambda: (self._request(),)),
            "split": (5, self._split),
            "replace_request": (3, self._replace),
            "touch": (6, self._touch),
            "attach": (2, self._attach),
            "free": (2, self._free),
            "evict": (1, lambda: ([self.random.randrange(1, self.config.num_blocks)],)),
            "take_events": (2, tuple),
        }

    def _fail(self) -> Arguments:
        """The oldest open step, or what is none."""
        oldest = self.theirs.last_committed_step + 1
        return (self.random.choice((oldest + 1, oldest - 1, float(oldest), True)) if self._rarely() else oldest,)

    def _rarely(self) -> bool:
        return self.random.random() < 0.06

    def _request(self, running: bool | None = None) -> reference.Request:
        """Any request; one that runs or does not, if there is one."""
        fit = [name for name in REQUESTS if running is None or (name in self.their_cache.running) == running]
        return self.requests[self.random.choice(fit or REQUESTS)][0]

    def _without_chunk(self) -> reference.Request | None:
        """A request that runs and has no chunk in this step, and more tokens to compute, if there is one."""
        step, running = self.theirs.last_committed_step + self.state.steps.open, self.their_cache.running
        fit = [
            name
            for name, run in running.items()
            if run.scheduled != step and run.computed < self.requests[name][0].num_tokens
        ]
        return self.requests[self.random.choice(fit)][0] if fit else None

    def _any_running(self) -> str:
        return self._request(True).request_id

    def _admit(self) -> Arguments:
        request = self._request(None if self._rarely() else False)
        total = request.num_tokens
        hit = self.their_cache.match(request).hit
        return request, self._end(request, hit, self.their_cache.match(request).junction, total)

    def _advance(self) -> Arguments | None:
        request = self._request() if self._rarely() else self._without_chunk()
        if request is None:
            return None
        running = self.their_cache.running.get(request.request_id)
        if running is None:
            return request, self.random.randint(0, request.num_tokens)
        return request, self._end(request, running.computed, running.junction, request.num_tokens)

    def _end(self, request: reference.Request, start: int, junction: int, total: int) -> int:
        """Mostly where the split ends a chunk; any other end is allowed too, and some that are not."""
        if start >= total or self._rarely():
            return self.random.randint(start - 1, total + 1)
        h = self.config.hash_block_size
        tail = (request.num_prompt_tokens - 1) // h * h
        if start < tail and self.random.random() < 0.3:
            return tail
        tokens = self.random.randint(1, total - start)
        if self.random.random() < 0.5:
            tokens = min(tokens, 6)
        if self.random.random() < 0.7:
            end = self.their_cache.split(request, start, tokens, tokens, min(junction, total))
            if end > start:
                return end
        return start + tokens

    def _split(self) -> Arguments:
        request = self._request()
        total = request.num_tokens
        start = self.random.randint(0, max(0, total - (not self._rarely())))
        tokens = self.random.randint(not self._rarely(), max(1, total - start + self._rarely()))
        return request, start, tokens, tokens + self.random.randint(-self._rarely(), 9), self.random.randint(0, total)

    def _truncate(self) -> Arguments:
        request = self._request(None if self.random.random() < 0.3 else True)
        return request, self.random.randint(0, request.num_tokens + self._rarely())

    def _append(self) -> Arguments:
        request = self._request(None if self._rarely() else True)
        return request, [self.random.randrange(2) for _ in range(self.random.randint(0, 4))]

    def _replace(self) -> Arguments | None:
        """A request that does not run makes place for another one, as it has ended."""
        name = self._request(False).request_id
        return None if name in self.their_cache.running else (name,)

    def _touch(self) -> Arguments | None:
        sizes = {g: group.block_size for g, group in enumerate(self.config.groups) if group.kind is GroupKind.RECURRENT}

        def will_be_overwritten(block: BlockState) -> bool:
            size = sizes.get(block.group if block.group is not None else -1, 1)
            return block.writer in REQUESTS and any(e.position % size and not e.ahead for e in block.entries)

        states = self._of_block(will_be_overwritten)
        return states if states is not None else self._of_block(lambda block: bool(block.entries))

    def _attach(self) -> Arguments | None:
        return self._of_block(lambda block: any(entry.owner for entry in block.entries))

    def _of_block(self, wanted: Callable[[BlockState], bool]) -> Arguments | None:
        fit = [b for b, state in enumerate(self.state.blocks) if wanted(state)]
        if not fit:
            return None
        block = self.random.choice(fit)
        return block, self.random.choice(self.state.blocks[block].entries).key, OUTSIDER

    def _free(self) -> Arguments:
        held = [b for b, state in enumerate(self.state.blocks) if OUTSIDER in dict(state.holders)]
        return self.random.sample(held, min(len(held), 2)), OUTSIDER

    # What is compared

    def _compare(self, name: str, arguments: Arguments) -> None:
        shown = ", ".join(a.request_id if isinstance(a, reference.Request) else repr(a) for a in arguments)
        self.log.append(f"{name}({shown})")
        if name == "replace_request":
            self.requests[str(arguments[0])] = self._draw_request(str(arguments[0]))
            return
        twins = [self.requests[a.request_id][1] if isinstance(a, reference.Request) else a for a in arguments]
        theirs, ours = self._outcome(0, name, arguments), self._outcome(1, name, twins)
        self.done[name if not isinstance(theirs, PoolError) else type(theirs).__name__] += 1
        if name == "advance" and isinstance(theirs, ContentConflict | NotOwner):
            raise self._mismatch("a request that runs", "could not write on", repr(theirs))
        if isinstance(theirs, PoolError) or isinstance(ours, PoolError):
            if type(theirs) is not type(ours):
                raise self._mismatch("answers", repr(theirs), repr(ours))
        else:
            self._same("answers", _plain(theirs), _plain(ours))
        before = self.state.steps.copies
        self._compare_states()
        self._note(name, theirs, before)

    def _note(self, name: str, answer: object, copies_before: tuple[tuple[int, int, int, str], ...]) -> None:
        """Count what makes a walk worth while."""
        if name in ("advance", "truncate"):
            for *_, holder in self.state.steps.copies[len(copies_before) :]:
                self.done[f"{name}: {'copy' if holder.startswith(POOL_COPY_PREFIX) else 'move'}"] += 1
        if name == "truncate" and len(self.state.steps.copies) > len(copies_before):
            self.done["settled in front of its cut"] += any(
                run.computed - run.settled >= max(group.block_size for group in self.config.groups)
                for run in self.their_cache.running.values()
                if run.unsettled and run.settled
            )
        if isinstance(answer, oracle.Match):
            sizes = [group.block_size for group in self.config.groups]
            self.done["hit"] += answer.hit > 0
            self.done["hit inside a slot"] += name == "admit" and any(answer.hit % size for size in sizes)
            self.done["junction"] += answer.junction > 0
            self.done["pending"] += answer.pending > answer.hit
        if isinstance(answer, list) and len(answer) > 1:
            self.done["rolled back together"] += 1
        if name == "fail" and isinstance(answer, list):
            names = [holder for ahead, *_, holder in copies_before if ahead == 1]
            self.done["fail: moved"] += any(not holder.startswith(POOL_COPY_PREFIX) for holder in names)
            self.done["fail: later steps"] += any(run.unsettled for run in self.their_cache.running.values())

    def _outcome(self, side: int, name: str, arguments: Sequence[object]) -> object:
        pool, cache = (self.theirs, self.their_cache) if side == 0 else (self.ours, self.our_cache)
        subject: object = cache if hasattr(self.their_cache, name) else pool
        if name == "append":
            subject, arguments = arguments[0], arguments[1:]
        try:
            return getattr(subject, name)(*arguments)
        except PoolError as error:
            return error

    def _compare_states(self) -> None:
        self.state, seen = self.theirs.observe(), self.ours.observe()
        for part in ("blocks", "free_queue", "index", "pending_events"):
            self._same(part, getattr(self.state, part), getattr(seen, part))
        steps = self.state.steps
        self._same("steps", (steps.open, steps.depends, steps.copies, steps.admitted), tuple(seen.steps))
        self._same("running requests", _running(self.their_cache), _running(self.our_cache))
        for theirs, ours in self.requests.values():
            self._same("requests", (theirs.num_prompt_tokens, theirs.hashes), (ours.num_prompt_tokens, ours.hashes))

    def _same(self, what: str, theirs: object, ours: object) -> None:
        if theirs != ours:
            raise self._mismatch(what, repr(theirs), repr(ours))

    def _mismatch(self, what: str, theirs: str, ours: str) -> Mismatch:
        return Mismatch(f"after {self.log}\n{what} of the reference:\n{theirs}\nof the backend:\n{ours}")


def _plain(value: object) -> object:
    """An answer without its type, which is each side's own."""
    if isinstance(value, oracle.Match) or type(value).__name__ == "Match":
        return tuple(getattr(value, part) for part in ("hit", "junction", "pending"))
    return value


def _running(cache: Any) -> dict[str, tuple[object, ...]]:
    """Every running request as both sides show it."""
    return {name: (run.tables, run.computed, run.settled, run.junction) for name, run in sorted(cache.running.items())}
