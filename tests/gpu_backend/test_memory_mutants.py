"""Faults of the memory, and of what drives it: level D finds every one of them, by random walks or by a short trace."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from kvproof.conformance.backends.interface import Backend
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    BeginStep,
    Commit,
    Copy,
    Free,
    Operation,
    Read,
    Write,
)
from kvproof.gpu_backend import adapter, data_plane, device_tables, memory
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, PoolConfig
from tests.backend_walks import drive

CATALOGUE: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("memory_mutants.toml").read_text(encoding="utf-8")
)

MODULES = {"memory.py": memory, "device_tables.py": device_tables, "data_plane.py": data_plane, "adapter.py": adapter}

WALKS, OPERATIONS = 10, 250

CONFIG = PoolConfig(6, 1, (GroupConfig(GroupKind.FULL_ATTENTION, 1),), hash_seed=b"", commit=CommitMode.STEPS)

COMMITTED: tuple[Operation, ...] = (
    AddRequest("r1", (5, 6)),
    AddRequest("r2", (7,)),
    BeginStep(),
    Allocate("r1", 3),
    Write("r1", 1, 1, 0),
    Write("r1", 2, 2, 0),
    Commit(1),
    BeginStep(),
)

TRACES: dict[str, tuple[Operation, ...]] = {
    "copies_one_after_the_other": (Copy("r1", 1, 2), Copy("r1", 2, 3), Read("r1", 3)),
    "copies_after_writes": (Copy("r1", 1, 2), Write("r1", 2, 2, 0), Read("r1", 2)),
    "step_goes_on_where_it_was": (Write("r1", 1, 2, 0), Read("r1", 1), Copy("r1", 1, 3), Read("r1", 3)),
    "commit_forgets_copies": (Copy("r1", 1, 2), Commit(2), Read("r1", 2)),
    "copies_of_every_open_step": (
        Copy("r1", 1, 2),
        BeginStep(),
        Write("r1", 2, 2, 0),
        BeginStep(),
        Copy("r1", 2, 3),
        Read("r1", 2),
    ),
    "void_writes_are_done": (
        Allocate("r2", 1),
        Write("r2", 4, 1, 0),
        Free("r2", (4,)),
        Allocate("r1", 1),
        Copy("r1", 2, 4),
        Read("r1", 4),
    ),
}
"""What random walks meet too seldom, by the mutant that it finds; each goes on from `COMMITTED`."""


def mutated(monkeypatch: pytest.MonkeyPatch, module: ModuleType, right: str, wrong: str) -> ModuleType:
    """The module with one text replaced; the other modules use it instead of the right one."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    assert source.count(right) == 1, f"{module.__name__} has {source.count(right)} times {right!r}"
    twin = ModuleType(f"{module.__name__}_mutant")
    monkeypatch.setitem(sys.modules, twin.__name__, twin)
    exec(compile(source.replace(right, wrong), twin.__name__, "exec"), vars(twin))
    for user in MODULES.values():
        for name, value in list(vars(user).items()):
            if user is not module and getattr(value, "__module__", None) == module.__name__:
                monkeypatch.setattr(user, name, vars(twin)[name])
    return twin


def is_found_by_a_walk(backend: Backend) -> bool:
    return any(drive(backend, seed, OPERATIONS) is not None for seed in range(WALKS))


def is_found_by(trace: tuple[Operation, ...], backend: Backend) -> bool:
    lockstep = Lockstep(backend, backend.identify()[1], CONFIG)
    lockstep.run((*COMMITTED, *trace))
    if lockstep.divergence is None:
        assert lockstep.operations == [*COMMITTED, *trace], "all of it is defined"
        return False
    return True


def test_there_are_mutants() -> None:
    assert len(CATALOGUE) >= 6
    assert {mutant["file"] for mutant in CATALOGUE.values()} == {*MODULES}


@pytest.mark.parametrize("name", TRACES)
def test_the_traces_find_nothing_wrong_with_the_memory(name: str) -> None:
    assert not is_found_by(TRACES[name], adapter.GpuBackend())


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = CATALOGUE[name]
    module = MODULES[mutant["file"]]
    twin = mutated(monkeypatch, module, mutant["right"], mutant["wrong"])
    backend: Backend = (twin if module is adapter else adapter).GpuBackend()
    found = is_found_by(TRACES[name], backend) if name in TRACES else is_found_by_a_walk(backend)
    assert found, mutant["fault"]
