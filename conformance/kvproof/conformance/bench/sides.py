"""What is measured: a pool with the loop around it, in the form in which an engine calls it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol, cast

from kvproof.spec.vocabulary import HashAlgorithm

OURS = "kvproof.gpu_backend.bench:Side"
VLLM = "kvproof.conformance.bench.of_vllm:Side"

Request = Any
Table = Any
"""Blocks in the form that the pool hands out: numbers here, objects there. What holds both is a list."""
Keys = Any
"""What the pool's lookup takes, made beforehand."""


class BenchError(Exception):
    """The measurement is void: answers differ, or a pool cannot be measured; the text says why."""


class Side(Protocol):
    """One pool. The methods from `allocate` to `longest` are timed; each is the loop that an engine would write.

    The pool has one group of full attention whose blocks have `block_tokens` tokens, a hash each `hash_tokens`.
    """

    name: str

    def request(self, tokens: list[int], digests: Sequence[bytes] | None) -> Request:
        """A request; `digests` are its prefix hashes, for a pool that computes none."""
        ...

    def digests(self, request: Request) -> list[bytes]:
        """The prefix hashes of a request."""
        ...

    def keys(self, digests: Sequence[bytes]) -> Keys:
        """What lookups take for these digests."""
        ...

    def num_free(self) -> int:
        """How many blocks can be allocated."""
        ...

    def allocate(self, calls: int, k: int) -> tuple[list[Table], list[Any]]:
        """`calls` times k blocks; the events of each call, if the pool tells events."""
        ...

    def cache(self, requests: Sequence[Request], tables: Sequence[Table], first: int = 0) -> list[Any]:
        """Register every block of each table from slot `first` on as full; the events of each call, as above."""
        ...

    def cache_partial(self, request: Request, table: Table, ends: Sequence[int]) -> None:
        """Register each block of a table at these ends, in this order; they count from the beginning of its slot."""
        ...

    def look_up(self, batches: Sequence[Keys]) -> list[Table]:
        """What serves each key, in the pool's form."""
        ...

    def touch(self, tables: Sequence[Table], batches: Sequence[Keys]) -> None:
        """Take one more reference of each block, which serves the key in the same place."""
        ...

    def free(self, tables: Sequence[Table]) -> None:
        """Release a reference of each block."""
        ...

    def longest(self, keys: Keys) -> Table:
        """The blocks of the longest run of cached blocks from the beginning."""
        ...

    def ids(self, blocks: Table) -> list[int | None]:
        """What was answered, as numbers; None where nothing was found."""
        ...

    def told(self, events: Any) -> list[object]:
        """Events in a form that can be compared with those of another pool."""
        ...

    def own_bytes(self) -> int | None:
        """What the pool says that it takes itself, None if it cannot say."""
        ...


class MakeSide(Protocol):
    """The class of a side: makes a pool, and says what it stands on."""

    def __call__(
        self, num_blocks: int, block_tokens: int, hash_tokens: int, algorithm: HashAlgorithm, events: bool
    ) -> Side:
        """A pool of so many blocks, all free; `events` says whether it tells them."""
        ...

    def versions(self) -> dict[str, str]:
        """Versions of what it stands on, by name."""
        ...


def load(name: str) -> MakeSide:
    """The class of the side behind `module:class`. Raises `BenchError`."""
    return cast(MakeSide, class_named(name))


def class_named(name: str) -> object:
    """What is behind `module:class`. Raises `BenchError`."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BenchError(f"{name} cannot be loaded: {error}") from error
