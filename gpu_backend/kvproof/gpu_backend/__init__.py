"""The native backend: a block pool on one core, exact on every transition. It is written for a GPU and runs on the CPU.

`BlockPool` has the operations of the specification, `PagedMemory` is what lies behind its blocks. The core is in the
wheel, or built at first use by a C++ compiler.
"""

try:
    import torch  # noqa: F401 # the state of a pool lies in a tensor
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the backend needs torch: install kvproof[torch]", name=error.name) from error

from kvproof.gpu_backend import build

build.load()  # before anything that imports it

# ruff: noqa: E402
from kvproof.gpu_backend.arena import StaleViews
from kvproof.gpu_backend.device_tables import block_tables, queued_copies
from kvproof.gpu_backend.hashing import PrefixHasher
from kvproof.gpu_backend.memory import OutOfMemory, PagedMemory, RowLayout
from kvproof.gpu_backend.observation import PoolState
from kvproof.gpu_backend.pool import BlockPool, Hit
from kvproof.gpu_backend.program import StepProgram
from kvproof.gpu_backend.request import Request
from kvproof.gpu_backend.saving import CorruptedState

__all__ = [
    "BlockPool",
    "CorruptedState",
    "Hit",
    "OutOfMemory",
    "PagedMemory",
    "PoolState",
    "PrefixHasher",
    "Request",
    "RowLayout",
    "StaleViews",
    "StepProgram",
    "block_tables",
    "queued_copies",
]
