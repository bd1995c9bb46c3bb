"""Scopes: the small worlds that the explorer visits completely."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvproof.conformance.operations import AddRequest
from kvproof.conformance.world import World, replay
from kvproof.spec.vocabulary import COPY_PREFIX, CommitMode, GroupConfig, GroupKind, HolderMode, PoolConfig, Residency

MOST_BLOCKS = 16
"""No scope that large was ever explored to its end."""


class ScopeError(ValueError):
    """A scope that makes no sense; the text says what is allowed."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A small pool: some usable blocks, some keys, some requests that share them.

    A key is a token prefix written in letters, and the hash block size is 1, so "a" and "aa" are nested prefixes. Each
    key that is no prefix of another one is the whole text of `refs` requests: so many references can a block have.
    `block_size` None is that of the longest key: then shorter keys are partial. `in_flight` limits how many steps are
    open at once. Where references are `anonymous`, nobody holds them by name. `config` follows from the rest.
    """

    blocks: int
    keys: tuple[str, ...]
    refs: int
    kind: GroupKind = GroupKind.FULL_ATTENTION
    block_size: int | None = None
    residency: Residency = Residency.LOGICAL
    commit: CommitMode = CommitMode.IMMEDIATE
    in_flight: int = 1
    anonymous: bool = False
    config: PoolConfig = field(init=False)

    def __post_init__(self) -> None:
        self._check()
        block_size = max(map(len, self.keys)) if self.block_size is None else self.block_size
        window = block_size if self.kind is GroupKind.SLIDING_WINDOW else None
        config = PoolConfig(
            num_blocks=self.blocks + 1,
            hash_block_size=1,
            groups=(GroupConfig(self.kind, block_size, window),),
            residency=self.residency,
            commit=self.commit,
            holders=HolderMode.CALLER if self.anonymous else HolderMode.NAMED,
        )
        object.__setattr__(self, "config", config)

    @property
    def texts(self) -> tuple[str, ...]:
        """The keys that are no prefix of another one."""
        return tuple(k for k in self.keys if not any(other != k and other.startswith(k) for other in self.keys))

    @property
    def request_classes(self) -> tuple[tuple[str, ...], ...]:
        """The names of the requests; those with the same text are interchangeable."""
        return tuple(
            tuple(f"r{len(self.texts) * copy + number + 1}" for copy in range(self.refs))
            for number in range(len(self.texts))
        )

    @property
    def holder_classes(self) -> tuple[tuple[str, ...], ...]:
        """The names of all requests; where there are steps, a copy is a holder too, as only a copy takes a move."""
        copies = () if self.commit is CommitMode.IMMEDIATE else ((f"{COPY_PREFIX}1",),)
        return (*self.request_classes, *copies)

    @property
    def holders(self) -> tuple[str | None, ...]:
        """The names of all holders, requests first; None alone where they have no names."""
        if self.anonymous:
            return (None,)
        return (*self.positions, *(name for names in self.holder_classes[len(self.texts) :] for name in names))

    @property
    def positions(self) -> dict[str, tuple[int, ...]]:
        """For each request the lengths of its keys."""
        return {
            name: tuple(sorted(len(key) for key in self.keys if text.startswith(key)))
            for text, names in zip(self.texts, self.request_classes, strict=True)
            for name in names
        }

    @property
    def arrivals(self) -> tuple[AddRequest, ...]:
        """The operations that every trace of the scope begins with."""
        return tuple(
            AddRequest(name, tuple(ord(letter) - ord("a") for letter in text))
            for text, names in zip(self.texts, self.request_classes, strict=True)
            for name in names
        )

    def describe(self) -> str:
        """The scope in a few words."""
        group = self.config.groups[0]
        return (
            f"{self.blocks} blocks of {group.block_size}, keys {','.join(self.keys)}, refs {self.refs}, "
            f"{group.kind.value}, {self.residency.value}{self._describe_modes()}"
        )

    def start(self) -> World:
        """The world with all requests and nothing else."""
        return replay(self.config, self.arrivals)

    def _describe_modes(self) -> str:
        steps = "" if self.commit is CommitMode.IMMEDIATE else f", {self.in_flight} steps in flight"
        return steps + ", anonymous" * self.anonymous

    def _check(self) -> None:
        if not 1 <= self.blocks <= MOST_BLOCKS:
            raise ScopeError(f"blocks is {self.blocks}; allowed is 1 to {MOST_BLOCKS}, and 4 already take minutes")
        if self.refs < 1:
            raise ScopeError(f"refs is {self.refs}; at least 1 request for each key is needed")
        if not self.keys:
            raise ScopeError("keys is empty; give token prefixes, such as a,aa")
        for key in self.keys:
            if not key or any(not "a" <= letter <= "z" for letter in key):
                raise ScopeError(f"key {key!r} is not made of the letters a to z; give token prefixes, such as a,aa")
        if len(set(self.keys)) != len(self.keys):
            raise ScopeError(f"keys {','.join(self.keys)} names a key twice")
        if self.block_size is not None and self.block_size < 1:
            raise ScopeError(f"block size is {self.block_size}; at least 1 token is needed")
        if self.in_flight < 1:
            raise ScopeError(f"in flight is {self.in_flight}; at least 1 step must be open for anything to happen")
        if self.in_flight > 1 and self.commit is CommitMode.IMMEDIATE:
            raise ScopeError(f"in flight is {self.in_flight}; steps are in flight only with commit steps")
        if self.anonymous and self.commit is CommitMode.STEPS:
            raise ScopeError(
                "anonymous references and steps exclude each other: a rollback needs to know who holds what"
            )
