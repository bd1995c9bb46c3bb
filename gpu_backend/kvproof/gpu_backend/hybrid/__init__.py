"""Requests over all groups of a hybrid model: joint hit, split, admission, copy-on-write (HIT-*, SPLIT-*, ADMIT-*).

`geometry` says which slots matter where, `hits` finds where a request can begin, `stops` where its chunks end and which
states are kept, `plans` what an operation will take; `cache` does it.
"""

from kvproof.gpu_backend.hybrid.cache import HybridCache, TornCache
from kvproof.gpu_backend.hybrid.hits import Match
from kvproof.gpu_backend.hybrid.running import ChunkWrite, Running

__all__ = ["ChunkWrite", "HybridCache", "Match", "Running", "TornCache"]
