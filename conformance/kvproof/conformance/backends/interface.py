"""What a backend has to offer to be certified."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from kvproof.conformance.backends.wire import Step, Wire
from kvproof.conformance.operations import Operation
from kvproof.spec.vocabulary import CommitMode, GroupKind, HolderMode, PoolConfig, Residency

OWN_HASHES = "own"
"""The hashes are the backend's own: they name prefixes, and are compared as names."""


class Level(StrEnum):
    """A part of the specification that a backend can claim, as a whole."""

    POOL = "P"
    EVENTS = "E"
    ORDER = "O"
    STEPS = "S"
    ROBUSTNESS = "R"
    HYBRID = "H"
    DATA = "D"


LEVELS = {
    Level.POOL: "pool: references, index, registration, removal",
    Level.EVENTS: "events: they mirror what is resident",
    Level.ORDER: "order: which block is taken next, in which order events come",
    Level.STEPS: "steps: reserved and committed keys, attach, rollback",
    Level.ROBUSTNESS: "robustness: what is illegal is refused and changes nothing",
    Level.HYBRID: "hybrid: joint hit, admission, split, copy-on-write",
    Level.DATA: "data: what blocks really hold",
}

EVERY_POOL = ("add_request", "allocate", "touch", "free", "lookup", "cache_full_blocks", "reset")
"""The operations without which nothing can be certified."""


RUN_REQUESTS = ("match", "split", "admit", "advance", "release", "fail")
"""The operations that run requests over all groups; with level H all of them are there."""


class Identity(Wire, frozen=True):
    """Who is certified; `files` are those that are driven, whose digests go into the certificate."""

    name: str
    version: str
    language: str = ""
    homepage: str = ""
    adapter: str = ""
    files: tuple[str, ...] = ()


class Capabilities(Wire, frozen=True):
    """What a backend claims, and how it fills what the specification leaves open. Everything claimed is tested.

    `operations` are those beyond `EVERY_POOL`, `observes` the parts of `Observation` that it shows. The modes list what
    it can be configured with. `hashes` are the contracts that it follows, or `OWN_HASHES`. `without` are the forms of
    its operations that it has no words for, see `forms`.
    """

    levels: tuple[Level, ...]
    operations: tuple[str, ...] = ()
    observes: tuple[str, ...] = ()
    commit: tuple[CommitMode, ...] = (CommitMode.IMMEDIATE,)
    residency: tuple[Residency, ...] = (Residency.LOGICAL,)
    holders: tuple[HolderMode, ...] = (HolderMode.NAMED,)
    group_kinds: tuple[GroupKind, ...] = (GroupKind.FULL_ATTENTION,)
    hashes: tuple[str, ...] = (OWN_HASHES,)
    most_groups: int = 1
    without: tuple[str, ...] = ()


class AdapterError(Exception):
    """The adapter broke, not the backend: it ended, was late, or answered what is no answer. The text says how."""


class Backend(Protocol):
    """One pool at a time, driven by operations of the language."""

    def identify(self) -> tuple[Identity, Capabilities]:
        """Who this is, and what it claims."""

    def start(self, config: PoolConfig) -> None:
        """Make a new pool; the old one is forgotten, with its requests."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        """Run operations in order, whatever becomes of each; observe after each if asked to.

        A refusal is an answer like any other. Raises `AdapterError` if the adapter broke.
        """

    def close(self) -> None:
        """The end: there are no more calls."""


Answers = Callable[[], list[Step]]
"""Waits for the answers to operations that were sent, and is called once."""


class ConcurrentBackend(Backend):
    """A backend that works while others go on, as one in a process of its own does."""

    @abstractmethod
    def begin(self, operations: Sequence[Operation], observe: bool) -> Answers:
        """Like `run`, in two parts. Only the next operations may begin before the answers are waited for."""

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        """See `Backend`."""
        return self.begin(operations, observe)()


def begin(backend: Backend, operations: Sequence[Operation], observe: bool) -> Answers:
    """Have a backend run operations; one that cannot work while others go on runs them when they are waited for."""
    if isinstance(backend, ConcurrentBackend):
        return backend.begin(operations, observe)
    return lambda: backend.run(operations, observe)
