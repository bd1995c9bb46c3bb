"""The texts of the errors that the native core raises: what was wrong, and what is allowed (ERR-TEXT-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvproof.spec import errors
from kvproof.spec.errors import ConcurrentUse, InvalidArgument, OutOfRange, PoolError

if TYPE_CHECKING:
    from kvproof.gpu_backend.pool import BlockPool

SHOWN_CHARACTERS = 100
"""An error shows no more of a value than this."""


PLAIN = frozenset({int, str, bytes, list, tuple})
"""A value of a type that is made from one of these may look like one."""


def shown(value: object) -> str:
    """A value for the text of an error, whatever it is: an error must not fail on what it complains of."""
    kind = type(value)
    try:
        text = repr(value)
    except Exception:
        return f"a value of type {kind.__name__} that cannot be shown"
    looks_plain = kind is not bool and any(base in PLAIN for base in kind.__mro__[1:])
    shortened = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
    return f"{shortened} of type {kind.__name__}" if looks_plain else shortened


def wrong_type(what: str, value: object, wanted: str) -> PoolError:
    """A value is not of the kind that is wanted."""
    return InvalidArgument(f"{what} must be {wanted}, not {shown(value)}")


def out_of_range(what: str, value: object, allowed: str) -> PoolError:
    """A value is of the right kind, but not allowed."""
    return OutOfRange(f"{what} is {shown(value)}; allowed is {allowed}")


def concurrent(operation: str) -> PoolError:
    """A second thread entered the pool."""
    return ConcurrentUse(f"{operation} was called while the pool is inside another operation; a pool has one owner")


def refusal(pool: BlockPool, error: str, operation: str, detail: int, arguments: tuple[object, ...]) -> PoolError:
    """The core refused an operation; `detail` is the index of the item that is to blame, where there are several."""
    kind: type[PoolError] = getattr(errors, error)
    given = ", ".join(shown(argument) for argument in arguments if argument is not None)
    reason = _REASONS[error].format(last=pool.config.num_blocks - 1, free=pool.num_free, **_steps(pool))
    item = f", item {detail}" if any(isinstance(argument, list | tuple) for argument in arguments) else ""
    return kind(f"{operation}({given}){item}: {reason}")


def _steps(pool: BlockPool) -> Mapping[str, int]:
    return {"next": pool.last_committed_step + 1, "groups": len(pool.config.groups) - 1}


_REASONS = {
    "InvalidArgument": "a holder or a text is none that the pool knows, or a copy where a request is wanted",
    "InvalidBlock": "block ids are 0 to {last}; the null block 0 is refused here, and so is one block in two places",
    "InvalidGroup": "groups are 0 to {groups}",
    "OutOfRange": "counts are not negative, positions lie within the hashed tokens, slots within the table, and a "
    "block keeps its group and slot until it is reallocated",
    "NotAligned": "positions are multiples of the hash block size",
    "OutOfBlocks": "{free} blocks are free",
    "NotReferenced": "a block is used and released by its holders only, and released as often as it is held",
    "AlreadyHeld": "a holder holds a block at most once",
    "NotCached": "the block does not have the key to serve (any more), or nothing to read; look it up again",
    "NotOwner": "only the writer of a block registers keys on it and writes it",
    "ContentConflict": "a key, or what a reader was served, would disagree with what the block holds; evict or move "
    "the key, or register with replace=True",
    "StillReferenced": "the cache is reset only when no block is referenced; free are {free} of {last}",
    "NoOpenStep": "the operation belongs to a step, and none is open; or the pool commits immediately and has none",
    "OutOfOrder": "steps are committed in the order in which they were begun; the next one is {next}",
    "NotCommitted": "the block has an entry, or is an end of a copy, of a step that is not committed; commit the step, "
    "or roll the request back",
}
