"""Real threads as lanes, under the thread sanitizer: the core has no data race, and leaves the arena of one lane."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gpu_backend.variants import run_tool, sabotaged

DRIVEN = ["1", "4", "60"]
"""First seed, pools, calls of each."""

THREADS = "-O1 -g -pthread -DKVPROOF_THREADS -fsanitize=thread"


def sanitized(backend: Path | None = None, **environment: str) -> str:
    """The digests of arenas that threads worked on."""
    compiler, fixed = shutil.which("g++"), shutil.which("setarch")
    if compiler is None or fixed is None:
        pytest.skip("the thread sanitizer is that of g++, and needs setarch: one of them is missing")
    library = subprocess.check_output([compiler, "-print-file-name=libtsan.so"], text=True).strip()
    if not Path(library).is_file():
        pytest.skip("g++ comes without libtsan")
    options = "ignore_noninstrumented_modules=1 halt_on_error=1 exitcode=66"
    settings = {"CXX": "g++", "CXXFLAGS": THREADS, "TSAN_OPTIONS": options, "LD_PRELOAD": library}
    # The sanitizer knows some layouts of the address space only, so it is not to be random.
    return run_tool("arena_digests.py", DRIVEN, backend, [fixed, "-R"], **settings, **environment)


def test_threads_have_no_race_and_leave_the_arena_of_one_lane() -> None:
    assert sanitized() == run_tool("arena_digests.py", DRIVEN)


def test_a_missing_barrier_is_a_race_that_is_found_out(tmp_path: Path) -> None:
    with_barrier = "    if (lane == 0) f();\n    team->wait();"
    wrong = sabotaged(tmp_path, {"lanes_threads.h": (with_barrier, with_barrier.replace("    team->wait();", ""))})
    with pytest.raises(AssertionError, match="data race"):
        sanitized(wrong, KVPROOF_CACHE=str(tmp_path))
