"""The core beside the reference: what the suite compares, and what only the fuzz sees."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from kvproof.conformance.backends.interface import Level
from kvproof.conformance.backends.targets import open_subject
from kvproof.conformance.backends.wire import PARTS
from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Allocate,
    BeginStep,
    Commit,
    Copy,
    Fail,
    Read,
    Write,
)
from kvproof.gpu_backend import BlockPool
from kvproof.gpu_backend.adapter import CAPABILITIES, GpuBackend
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, HybridConfig, PoolConfig
from tests.backend_walks import drive
from tests.gpu_backend.tools import script

PROJECT = Path(__file__).resolve().parents[2]

fuzz = script("fuzz_core")


def test_the_suite_finds_the_backend_by_its_name() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    target = project["project"]["entry-points"]["kvproof.backends"]["gpu"]
    assert target == f"{GpuBackend.__module__}:{GpuBackend.__qualname__}"
    identity, _ = open_subject(target).identify()
    assert identity.name == "kvproof-gpu-backend (on the CPU)"


def test_it_claims_everything_that_can_be_claimed() -> None:
    assert {*CAPABILITIES.levels} == {*Level}
    assert CAPABILITIES.observes == PARTS


@pytest.mark.parametrize("seed", range(4))
def test_random_walks_find_no_difference(seed: int) -> None:
    assert drive(GpuBackend(), seed, 300) is None


@pytest.mark.clause("BACK-FAIL-4")
def test_the_copies_of_others_in_a_failed_step_are_done() -> None:
    backend = GpuBackend()
    state = GroupConfig(GroupKind.RECURRENT, 4)
    backend.start(PoolConfig(9, 2, (state,), commit=CommitMode.STEPS, hybrid=HybridConfig()))
    operations = (
        AddRequest("r1", (1, 2, 3, 4, 5)),
        AddRequest("r2", (6, 7, 8, 9)),
        BeginStep(),
        Allocate("r2", 2),
        Write("r2", 1, 4, 0, rows=(77,)),
        Commit(1),
        BeginStep(),
        Admit("r1", 4, rows=((55,),)),
        Copy("r2", 1, 2),
        Fail(2),
        Read("r2", 2),
    )
    answers = [step.answer for step in backend.run(operations, observe=False)]
    assert [answer.error for answer in answers] == [None] * len(operations), answers
    assert (answers[-2].result, answers[-1].result) == (["r1"], [77])


@pytest.mark.parametrize("seed", range(100, 120))
def test_busy_pools_are_equal_in_everything(seed: int) -> None:
    fuzz.run_pool(seed, 150)


def run_pools() -> None:
    for seed in range(10):
        fuzz.run_pool(seed, 200)


def test_the_fuzz_notices_a_core_that_frees_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BlockPool.free
    monkeypatch.setattr(BlockPool, "free", lambda self, ids, holder=None: right(self, list(ids)[::-1], holder))
    with pytest.raises(fuzz.Mismatch, match="free_queue"):
        run_pools()


def test_the_fuzz_notices_a_core_that_forgets_what_readers_were_served(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BlockPool.touch

    def touch(self: BlockPool, block: int, key: bytes, holder: str | None = None) -> None:
        right(self, block, key, holder)
        self.views().readers[:, 2:] = 0

    monkeypatch.setattr(BlockPool, "touch", touch)
    with pytest.raises(fuzz.Mismatch, match="blocks"):
        run_pools()


def test_the_busy_pools_are_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    most: dict[str, int] = {}
    right = fuzz.Pair._compare_state

    def compare(self: object) -> None:
        right(self)
        pool = self.ours  # type: ignore[attr-defined]
        for what in ("num_entries", "num_readers", "num_pendings", "num_dependencies", "num_copies"):
            most[what] = max(most.get(what, 0), fuzz.header_of(pool, what))

    monkeypatch.setattr(fuzz.Pair, "_compare_state", compare)
    for seed in range(100, 120):
        fuzz.run_pool(seed, 150)
    assert all(most.values()), most
    assert most["num_entries"] > 12, most
