"""The typed errors of the specification (clauses ERR-*).

An operation validates completely, then mutates. A violated precondition raises one of these errors, whose text says
what was wrong and what is allowed, and nothing has changed (ERR-ATOMIC-1). If several preconditions are violated, any
one of their errors may be raised (ERR-CHOICE-1).
"""

from __future__ import annotations


class PoolError(Exception):
    """Base of all errors of the specification; never raised itself."""


class InvalidArgument(PoolError):
    """A value has the wrong type or form: a count that is no integer, an empty name, a mask entry that is no bool."""


class InvalidBlock(PoolError):
    """A block id is not one of the pool's, names the null block where that is refused, or stands in two slots."""


class InvalidGroup(PoolError):
    """A group index is not one of the configured groups."""


class OutOfRange(PoolError):
    """A number is outside what it may be: a negative count, a token above 2**32 - 1, a position outside the slot."""


class NotAligned(PoolError):
    """A position is not a multiple of the hash block size."""


class OutOfBlocks(PoolError):
    """More blocks were asked for than are free."""


class NotReferenced(PoolError):
    """A block is referenced by nobody, or not by the holder that speaks."""


class AlreadyHeld(PoolError):
    """The holder holds the block already; a holder holds a block at most once."""


class NotCached(PoolError):
    """The block does not have the key, or has no key at all."""


class NotOwner(PoolError):
    """Only the writer of a block writes it and registers keys on it; everyone else reads or copies."""


class ContentConflict(PoolError):
    """The operation would make a key, or a reader's rows, disagree with what the block holds."""


class StillReferenced(PoolError):
    """The cache cannot be reset while blocks are referenced."""


class NoOpenStep(PoolError):
    """The operation belongs to a step, and none is open; or the pool commits immediately and knows no steps."""


class OutOfOrder(PoolError):
    """Steps are committed in the order in which they were begun."""


class NotCommitted(PoolError):
    """The block has entries whose step is not committed yet, or is an end of a copy of such a step."""


class AlreadyAdmitted(PoolError):
    """The request runs already; release it before it is admitted again."""


class NotAdmitted(PoolError):
    """The request does not run; admit it first."""


class ConcurrentUse(PoolError):
    """A second thread entered a pool that is inside an operation; a pool has a single owner."""
