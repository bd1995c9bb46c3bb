"""The core under the address and undefined-behaviour sanitizers: it touches nothing that is not its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gpu_backend.variants import run_tool, sabotaged

SANITIZED = "-O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -DKVPROOF_FEW_HOLES=0"


def libraries() -> str:
    """The sanitizers' libraries, which have to be loaded before Python."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("the sanitizers are those of g++, and there is none")
    names = ("libasan.so", "libubsan.so")
    found = [subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip() for name in names]
    if missing := [name for name in found if not Path(name).is_file()]:
        pytest.skip(f"g++ comes without {missing}")
    return " ".join(found)


def sanitized(calls: int, backend: Path | None = None, **environment: str) -> str:
    settings = {"CXX": "g++", "CXXFLAGS": SANITIZED, "ASAN_OPTIONS": "detect_leaks=0", "LD_PRELOAD": libraries()}
    return run_tool("fuzz_core.py", ["--processes", "1", "--calls", str(calls)], backend, **settings, **environment)


def test_busy_pools_touch_nothing_that_is_not_theirs() -> None:
    assert "0 mismatches" in sanitized(1800)


def test_a_write_past_the_end_of_a_buffer_is_found_out(tmp_path: Path) -> None:
    too_small = ("text.digests.reserve(links * text.digest_words)", "text.digests.reserve(links)")
    wrong = sabotaged(tmp_path, {"py_text.h": too_small})
    with pytest.raises(AssertionError, match="AddressSanitizer"):
        sanitized(600, wrong, KVPROOF_CACHE=str(tmp_path))
