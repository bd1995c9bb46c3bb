"""A world of the reference, read as a state of the abstract machine over plain Python values.

Prefixes are tuples of tokens with what covers them, keys and digests are bytes, holders are names, steps are counted
from the last committed one. What the machine knows only to prove something (numberings of holders and copies, release
times) gets any values that fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kvproof.conformance.world import World
from kvproof.reference import request as reference
from kvproof.reference.hashing import make_key, split_key
from kvproof.reference.observation import BlockState
from kvproof.spec.machine.state import CONSUMER, GHOST, INDEX, REFERENCES, REQUESTS, STEPS
from kvproof.spec.machine.theory import PythonTheory, State, Term
from kvproof.spec.vocabulary import COPY_PREFIX, NULL_BLOCK, ExtraKey, GroupKind, Key, PoolConfig, Residency

Letter = tuple[int, tuple[tuple[int, bytes, int], ...]]
"""A token with the extra keys that cover it."""

Prefix = tuple[Letter, ...]

NO_KEY: Key = b""
"""The key of a position that has no hash; no block has it."""


@dataclass(frozen=True)
class Universe:
    """The finite scope of a comparison: all values of each sort that the two sides may speak of."""

    config: PoolConfig
    prefixes: tuple[Prefix, ...]
    """Every prefix of every text that a request of the scope can have, the empty one too."""
    digests: Mapping[Prefix, bytes]
    """Those that have a hash, with it."""
    holders: tuple[str, ...]
    most_steps: int

    @property
    def keys(self) -> list[Key]:
        """The keys of all groups."""
        return [make_key(group, digest) for group in self.groups for digest in self.digests.values()]

    @property
    def groups(self) -> range:
        """The groups."""
        return range(len(self.config.groups))

    def theory(self) -> PythonTheory:
        """The theory whose quantifiers range over this scope."""
        return PythonTheory(
            {
                "B": range(self.config.num_blocks),
                "K": self.keys,
                "P": self.prefixes,
                "R": self.holders,
                "G": self.groups,
                "D": list(self.digests.values()),
            }
        )

    def values(self, sort: str) -> Iterable[Term]:
        """The values over which a function of the state is tabulated; integers are small counts."""
        scope: dict[str, Iterable[Term]] = {
            "B": range(self.config.num_blocks),
            "K": self.keys,
            "P": self.prefixes,
            "R": self.holders,
            "Int": range(max(self.most_steps, len(self.holders), self.config.num_blocks, self._longest) + 2),
        }
        return scope[sort]

    @property
    def _longest(self) -> int:
        return max(map(len, self.prefixes))


def spell(tokens: Sequence[int], extra_keys: Sequence[ExtraKey]) -> Prefix:
    """A text as a prefix: each token with the extra keys that cover it, and how far into them it is."""
    return tuple(
        (token, tuple(sorted((e.source, e.value, i - e.start) for e in extra_keys if _covers(e, i))))
        for i, token in enumerate(tokens)
    )


def _covers(extra: ExtraKey, index: int) -> bool:
    return extra.start <= index and (extra.end is None or index < extra.end)


def universe_of(
    world: World, more_requests: Iterable[reference.Request] = (), more_holders: Iterable[str] = ()
) -> Universe:
    """Everything that the world speaks of: its requests' texts, what its blocks hold, its keys and readers."""
    h = world.config.hash_block_size
    prefixes: dict[Prefix, None] = {(): None}
    digests: dict[Prefix, bytes] = {}
    held = [content.prefix for b in range(world.config.num_blocks) for content in world.ghost.history(b)]
    for prefix in (*held, *world.ghost.prefixes.values(), *world.ghost.served.values()):
        text = spelled(prefix)
        prefixes.update(dict.fromkeys(text[:end] for end in range(len(text) + 1)))
        digests.update({text[:end]: prefix.hash_at(end) for end in range(h, len(text) + 1, h)})
    for request in (*world.requests.values(), *more_requests):
        text = spell(request.tokens, request.extra_keys)
        prefixes.update(dict.fromkeys(text[:end] for end in range(len(text) + 1)))
        digests.update({text[:end]: request.hashes[end // h - 1] for end in range(h, len(text) + 1, h)})
    known = {holder for block in world.state.blocks for holder, _ in block.holders}
    waiting = {name for pair in world.state.steps.depends for name in pair[:2]}
    holders = tuple(sorted({*world.requests, *known, *waiting, *more_holders}))
    return Universe(world.config, tuple(prefixes), digests, holders, world.state.steps.open + 1)


def spelled(prefix: reference.Prefix) -> Prefix:
    """A prefix of the reference."""
    return spell(prefix.tokens[: prefix.length], prefix.extra_keys)


def abstract(world: World, universe: Universe) -> State:
    """The machine's state that the world is in."""
    functions: dict[str, Callable[..., Term]] = {**_rigid(universe)}
    for part in (_references(world), _index(world), _steps(world), _requests(world), _ghost(world), _consumer(world)):
        functions.update(part)
    return State(functions)


def _rigid(universe: Universe) -> dict[str, Callable[..., Term]]:
    groups = universe.config.groups
    prefix_of = {digest: prefix for prefix, digest in universe.digests.items()}

    def common(p: Prefix, q: Prefix) -> Prefix:
        length = 0
        while length < min(len(p), len(q)) and p[length] == q[length]:
            length += 1
        return p[:length]

    return {
        "is_prefix": lambda p, q: q[: len(p)] == p,
        "length": len,
        "empty": lambda: (),
        "common": common,
        "first": lambda p, n: p[: max(0, n)],
        "digest": lambda p: universe.digests.get(p, b""),
        "key": lambda g, d: make_key(g, d) if d else NO_KEY,
        "key_group": lambda k: split_key(k)[0] if k else 0,
        "key_prefix": lambda k: prefix_of.get(split_key(k)[1], ()) if k else (),
        "recurrent": lambda g: groups[g].kind is GroupKind.RECURRENT,
        "full_attention": lambda g: groups[g].kind is GroupKind.FULL_ATTENTION,
        "block_size": lambda g: groups[g].block_size,
        "slot_start": lambda g, n: (n - 1) // groups[g].block_size * groups[g].block_size if n > 0 else 0,
        "is_request": lambda r: not r.startswith(COPY_PREFIX),
        "null": lambda: NULL_BLOCK,
    }


def _references(world: World) -> dict[str, Callable[..., Term]]:
    blocks, queue = world.state.blocks, world.state.free_queue
    names = [[holder for holder, _ in block.holders] for block in blocks]
    config = world.config
    return {
        "ref_cnt": lambda b: blocks[b].ref_cnt,
        "holds": lambda b, r: r in names[b],
        "holder_index": lambda b, r: names[b].index(r) if r in names[b] else -1,
        "holder_at": lambda b, i: names[b][i] if 0 <= i < len(names[b]) else "",
        "writes": lambda b, r: blocks[b].writer == r,
        "is_free": lambda b: b in queue,
        "place": lambda b: queue.index(b) if b in queue else 0,
        "front": lambda: -1,
        "back": lambda: len(queue),
        "kept_keys": lambda b: bool(blocks[b].entries),
        "released_at": lambda b: 0,
        "clock": lambda: 0,
        "placed": lambda b: blocks[b].slot is not None,
        "group": lambda b: blocks[b].group or 0,
        "start": lambda b: (blocks[b].slot or 0) * config.groups[blocks[b].group or 0].block_size,
    }


def _index(world: World) -> dict[str, Callable[..., Term]]:
    blocks, index = world.state.blocks, world.state.index
    ranks = _ranks(world)
    return {
        "entry": lambda k, b: b in index.get(k, ()),
        "listed": lambda b, k: any(entry.key == k for entry in blocks[b].entries),
        "rank": lambda k, b: ranks.get((k, b), -1),
        "next_rank": lambda: len(ranks),
    }


def _ranks(world: World) -> dict[tuple[Key, int], int]:
    """One order of all entries that agrees with the order on each block and among the blocks of each key."""
    before: dict[tuple[Key, int], set[tuple[Key, int]]] = {}
    for block_id, block in enumerate(world.state.blocks):
        for i, entry in enumerate(block.entries):
            before[entry.key, block_id] = {(earlier.key, block_id) for earlier in block.entries[:i]}
    for key, holders in world.state.index.items():
        for i, block_id in enumerate(holders):
            before.setdefault((key, block_id), set()).update((key, earlier) for earlier in holders[:i])
    ranks: dict[tuple[Key, int], int] = {}
    while len(ranks) < len(before):
        ready = [entry for entry, earlier in before.items() if entry not in ranks and earlier <= ranks.keys()]
        ranks[ready[0]] = len(ranks)
    return ranks


def _steps(world: World) -> dict[str, Callable[..., Term]]:
    entries = {(entry.key, b): entry for b, block in enumerate(world.state.blocks) for entry in block.entries}
    depends = {(reader, writer): ahead for reader, writer, ahead in world.state.steps.depends}

    def committed(k: Key, b: int) -> bool:
        return (k, b) in entries and entries[k, b].owner is None

    return {
        "now": lambda: world.state.steps.open,
        "done": lambda: 0,
        "committed": committed,
        "ready": lambda k, b: entries[k, b].ahead if (k, b) in entries else 0,
        "owner": lambda k, b: (entries[k, b].owner or "") if (k, b) in entries else "",
        "depends": lambda r, w: depends.get((r, w), 0),
    }


def _requests(world: World) -> dict[str, Callable[..., Term]]:
    requests, h = world.requests, world.config.hash_block_size
    texts = {name: spell(request.tokens, request.extra_keys) for name, request in requests.items()}

    def hash_at(r: str, n: int) -> bytes | None:
        return requests[r].hash_at(n) if r in requests and n > 0 and n % h == 0 else None

    return {
        "text": lambda r: texts.get(r, ()),
        "hashed": lambda r: requests[r].hashed_length if r in requests else 0,
        "hash_at": hash_at,
    }


def _ghost(world: World) -> dict[str, Callable[..., Term]]:
    ghost, committed = world.ghost, world.pool.last_committed_step
    attached = {(b, holder): ahead for b, block in enumerate(world.state.blocks) for holder, ahead in block.attached}

    readers = {reader: spelled(prefix) for reader, prefix in ghost.served.items()}

    def content(b: int, i: int) -> Prefix:
        found = ghost.content_after(b, committed + i)
        return spelled(found.prefix) if found is not None else ()

    def content_group(b: int, i: int) -> int:
        found = ghost.content_after(b, committed + i)
        return found.group if found is not None else 0

    def served(b: int, r: str, p: Prefix) -> bool:
        return (b, r) in readers and readers[b, r] == p

    return {
        "content": content,
        "content_group": content_group,
        "filled": lambda b: max((ahead for ahead, _, dst, _ in world.state.steps.copies if dst == b), default=0),
        "born": lambda b: world.state.blocks[b].age,
        "served": served,
        "attached": lambda b, r: attached.get((b, r), 0),
    }


def _consumer(world: World) -> dict[str, Callable[..., Term]]:
    holders = {
        key: [b for b in blocks if _has_committed(world.state.blocks[b], key)]
        for key, blocks in world.state.index.items()
    }
    counted = world.mirror.resident if world.config.residency is Residency.PER_COPY else None

    def copies(k: Key) -> int:
        return len(holders.get(k, ()))

    return {
        "resident": lambda k: k in world.mirror.resident,
        "believed_copies": copies if counted is None else lambda k: counted.get(k, 0),
        "copies": copies,
        "copy_index": lambda k, b: holders[k].index(b) if b in holders.get(k, ()) else -1,
        "copy_at": lambda k, i: holders[k][i] if 0 <= i < copies(k) else NULL_BLOCK,
        "removed_absent": lambda: False,
        "stored_resident": lambda: False,
        "stored_orphan": lambda: False,
    }


def _has_committed(block: BlockState, key: Key) -> bool:
    return any(entry.key == key and entry.owner is None for entry in block.entries)


CHANGING = {**REFERENCES, **INDEX, **STEPS, **REQUESTS, **GHOST, **CONSUMER}
"""The functions that transitions change."""


def tabulate(state: State, universe: Universe) -> State:
    """The same state with its functions written out: a fold of transitions would otherwise be evaluated ever deeper.

    Python evaluates what a formula mentions whether it matters or not, so a function must answer outside its domain
    too; what it answers there is of no consequence.
    """
    anything: dict[str, Term] = {
        "Int": 0,
        "Bool": False,
        "B": NULL_BLOCK,
        "R": "",
        "K": NO_KEY,
        "P": (),
        "G": 0,
        "D": b"",
    }
    tabulated = {
        name: _table(getattr(state, name), [list(universe.values(sort)) for sort in sorts], anything[value])
        for name, (sorts, value) in CHANGING.items()
        if hasattr(state, name)
    }
    return state.but(**tabulated)


def _table(function: Callable[..., Term], domains: list[list[Term]], anything: Term) -> Callable[..., Term]:
    if not domains:
        value = function()
        return lambda: value
    if len(domains) == 1:
        row = {a: function(a) for a in domains[0]}
        return lambda a: row.get(a, anything)
    table = {arguments: function(*arguments) for arguments in itertools.product(*domains)}
    return lambda *arguments: table.get(arguments, anything)
