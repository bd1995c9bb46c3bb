"""Requests run over all groups of a hybrid model.

In the order of the chapters: `groups` (what a group needs at a position), `joint_hit` (where a request begins), `split`
(where its chunks end), `retention` (which states are kept), `running` (its tables), `cache` (admission, going on, the
end), `invariants` (what must hold of what runs).
"""

from kvproof.reference.hybrid.cache import HybridCache
from kvproof.reference.hybrid.invariants import check_tables
from kvproof.reference.hybrid.joint_hit import Match
from kvproof.reference.hybrid.running import Running

__all__ = ["HybridCache", "Match", "Running", "check_tables"]
