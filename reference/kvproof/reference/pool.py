"""The block pool: all operations of the specification, chapter by chapter.

Every public operation validates completely, then mutates (ERR-ATOMIC-1); its events are its net change; it costs time
in proportion to its arguments (COST-1). A pool has a single owner: a second thread inside an operation gets
`ConcurrentUse` (ERR-OWNER-1).
"""

from __future__ import annotations

from kvproof.reference.content import ContentOperations
from kvproof.reference.removal import Removal
from kvproof.reference.stepping import Stepping


class BlockPool(Stepping, ContentOperations, Removal):
    """`config.num_blocks` blocks, block 0 the null block; all others start free, in ascending order (POOL-INIT-1).

    Block ids are plain integers in and out. With a `Ghost` the pool also tracks what the blocks really hold.
    """
