"""The words of the specification as types: groups, configuration, extra keys, cache keys."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

NULL_BLOCK = 0
"""The block that stands for "nothing here" in a block table; it is never queued, counted, written or registered."""

MAX_TOKEN = 2**32 - 1
"""Tokens are hashed as unsigned 32-bit numbers (HASH-TOKEN-1)."""

GROUP_ID_BYTES = 4
"""A key is the digest followed by the group index as a big-endian number of this many bytes (HASH-KEY-1)."""

Key = bytes
"""A cache key (g, H(n)): the digest of the first n tokens, then the group index. Plain bytes, as engines store it."""

Holder = str
"""The name of who holds a reference: a request or a copy."""


class GroupKind(Enum):
    """What the layers of a group keep for a prefix."""

    FULL_ATTENTION = "full_attention"
    """Rows of keys and values for every token."""
    SLIDING_WINDOW = "sliding_window"
    """Rows as for full attention; only the last `window` tokens are needed to go on."""
    RECURRENT = "recurrent"
    """One state (Mamba, linear attention) that stands for the whole prefix and is overwritten as it advances."""


class HashAlgorithm(Enum):
    """A named hash contract (HASH-ALGORITHM-*)."""

    SHA256 = "sha256"
    XXH3_128 = "xxh3_128"


class Residency(Enum):
    """What the event stream mirrors (EVENT-RESIDENCY-*)."""

    LOGICAL = "logical"
    """The set of keys that have a holder: one Stored for the first copy, one Removed for the last."""
    PER_COPY = "per_copy"
    """The multiset of (key, block) entries: one event per copy."""


class HolderMode(Enum):
    """Whether the pool knows who holds a reference (POOL-HOLDER-*)."""

    NAMED = "named"
    CALLER = "caller"
    """References are anonymous; the owner rules are the caller's."""


class CommitMode(Enum):
    """When a registered key is published (STEP-*)."""

    IMMEDIATE = "immediate"
    """At once: every operation is a step of its own."""
    STEPS = "steps"
    """With the commit of the step in which it was registered."""


COPY_PREFIX = "copy:"
"""A holder whose name begins so is a copy in progress; every other holder is a request."""

POOL_COPY_PREFIX = "copy:pool:"
"""With commit=steps these names are the pool's own: under them it keeps the ends of its copies (STEP-COPY-2)."""


class ExtraKeySource(IntEnum):
    """Where an extra key comes from; the tag keeps two sources from colliding (HASH-EXTRA-2)."""

    ADAPTER = 1
    SALT = 2
    MEDIA = 3
    EMBEDDING = 4


@dataclass(frozen=True, slots=True, order=True)
class ExtraKey:
    """Something besides tokens that decides what a prefix means: it covers tokens `start` up to `end`.

    `end` None means: every token from `start` on. `value` is the identity of the adapter, salt, image or embedding.
    """

    source: ExtraKeySource
    value: bytes
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One group of layers with the same kind of cache; `block_size` and `window` in tokens."""

    kind: GroupKind
    block_size: int
    window: int | None = None


class Retention(Enum):
    """At which chunk ends a recurrent group keeps its state under a key (RETAIN-*); a policy."""

    LAST = "last"
    """At the last block end and the last hash end of the prompt."""
    JUNCTION = "junction"
    """There, and where the prompt leaves a prefix that it shares."""
    BOUNDARIES = "boundaries"
    """There, and at every block end."""
    INTERVAL = "interval"
    """There and at the junction, and at every block end that is a multiple of `interval` tokens."""


@dataclass(frozen=True, slots=True)
class HybridConfig:
    """How requests run over all groups of a model (GROUP-*).

    `drop` names the attention groups with a speculative drop, ascending; `lookahead` is how many tokens before the end
    of a prompt its last state is kept; `interval`, in tokens, goes with `Retention.INTERVAL`. With `checkpoints` the
    state at a junction inside a block is kept.
    """

    fine_grained: bool = True
    drop: tuple[int, ...] = ()
    lookahead: int = 0
    retention: Retention = Retention.JUNCTION
    interval: int | None = None
    checkpoints: bool = False


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """Everything that is fixed when a pool is made.

    `num_blocks` counts the null block; `hash_block_size` is h, in tokens; every group's block size is a multiple of it.
    `hash_seed` None means the algorithm's default (HASH-SEED-1). With `hybrid` requests can be run over all groups.
    """

    num_blocks: int
    hash_block_size: int
    groups: tuple[GroupConfig, ...]
    hash_algorithm: HashAlgorithm = HashAlgorithm.SHA256
    hash_seed: bytes | None = None
    residency: Residency = Residency.LOGICAL
    holders: HolderMode = HolderMode.NAMED
    commit: CommitMode = CommitMode.IMMEDIATE
    hybrid: HybridConfig | None = None
