"""However many lanes run the core, and in whatever order, the arena is the same, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu_backend.variants import run_tool, sabotaged

DRIVEN = ["1", "24", "200"]
"""First seed, pools, calls of each."""

PERMUTED = "-O1 -DKVPROOF_PERMUTED_LANES"


@pytest.fixture(scope="module")
def with_one_lane() -> str:
    return run_tool("arena_digests.py", DRIVEN)


def test_lanes_in_random_order_leave_the_arena_of_one_lane(with_one_lane: str) -> None:
    assert run_tool("arena_digests.py", DRIVEN, CXXFLAGS=PERMUTED) == with_one_lane


def test_an_operation_that_needs_one_lane_is_found_out(with_one_lane: str, tmp_path: Path) -> None:
    in_order = "p.lanes.in_order(n, bucket, p.buckets, [&](int i, int32_t place) {\n    const int32_t e = list[i],"
    at_once = "p.lanes.each(n, [&](int i) {\n    const int32_t place = bucket(i);\n    const int32_t e = list[i],"
    wrong = sabotaged(tmp_path, {"events.h": (in_order, at_once)})
    driven = run_tool("arena_digests.py", DRIVEN, wrong, CXXFLAGS=PERMUTED, KVPROOF_CACHE=str(tmp_path))
    assert driven != with_one_lane
