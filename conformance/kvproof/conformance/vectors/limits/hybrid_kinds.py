"""The pools and requests that limits of hybrid models are tried on."""

from __future__ import annotations

from collections.abc import Sequence

from kvproof.conformance.operations import AddRequest, Allocate, BeginStep, Commit, Free, Operation
from kvproof.conformance.vectors.limits.kinds import ATTENTION, put
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HybridConfig, PoolConfig

STATE = GroupConfig(GroupKind.RECURRENT, 4)
LONG_STATE = GroupConfig(GroupKind.RECURRENT, 6)
TWO_ROWS = GroupConfig(GroupKind.FULL_ATTENTION, 2)

TOKENS = tuple(range(1, 21))
OTHERS = tuple(range(31, 51))


def pool(*groups: GroupConfig, blocks: int = 12, hybrid: HybridConfig | None = None) -> PoolConfig:
    """A pool over whose groups requests run, with fine-grained hits if nothing else is said; h = 2."""
    return PoolConfig(blocks, 2, groups, commit=CommitMode.STEPS, hybrid=hybrid or HybridConfig())


ROWS = pool(ATTENTION)
STATES = pool(STATE)
BOTH = pool(ATTENTION, STATE)
SPLITS = pool(TWO_ROWS, LONG_STATE)


def request(name: str, tokens: int, of: Sequence[int] = TOKENS) -> AddRequest:
    """A request of the first so many tokens."""
    return AddRequest(name, tuple(of[:tokens]))


def prompt(name: str, tokens: int) -> AddRequest:
    """A request of so many tokens, as many as one likes."""
    return AddRequest(name, (1,) * tokens)


def there(*places: tuple[int, int]) -> tuple[Operation, ...]:
    """In step 1 a block for each (group, position), from block 1 on, gets the key of `TOKENS` there, and is free."""
    keys = [put(block, position, "there", group) for block, (group, position) in enumerate(places, 1)]
    return (
        *(request("there", 20), BeginStep(), Allocate("there", len(places))),
        *(operation for each in keys for operation in each),
        *(Commit(1), Free("there", tuple(range(1, len(places) + 1)))),
    )
