"""At which chunk ends a recurrent group keeps its state (clauses RETAIN-*); policies, each safe."""

from __future__ import annotations

from kvproof.reference.hybrid.split import Grid
from kvproof.spec.vocabulary import HybridConfig, Retention


def keeps(hybrid: HybridConfig, grid: Grid, block_size: int, n: int, tokens: int, prompt: int, junction: int) -> bool:
    """Whether a group of this block size keeps the state at n > 0, where a chunk ended.

    `tokens`, `prompt` and `junction` are those of the request. What is kept ends with a block of the group, or with a
    hash unit if hits are fine-grained; so it can have a key (ADVANCE-KEEP-1).
    """
    if n in (grid.last_block_state(tokens), grid.last_hash_state(tokens, prompt)):
        return True
    at_junction = n == grid.junction_state(junction, prompt)
    match hybrid.retention:
        case Retention.LAST:
            return False
        case Retention.JUNCTION:
            return at_junction
        case Retention.BOUNDARIES:
            return at_junction or n % block_size == 0
        case Retention.INTERVAL:
            at_interval = hybrid.interval is not None and n % hybrid.interval == 0
            return at_junction or (n % block_size == 0 and at_interval)
