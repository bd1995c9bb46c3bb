"""The core is built at first use: once, whole, and with a clear word where that is impossible."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvproof.gpu_backend import build

PROJECT = Path(__file__).resolve().parents[2]

SAY_WHERE = "import kvproof.gpu_backend._core as core; print(core.__file__)"


def python(cache: Path, **environment: str) -> subprocess.Popen[str]:
    """A new process that imports the backend with this cache."""
    program = f"import kvproof.gpu_backend; {SAY_WHERE}"
    roots = os.pathsep.join(str(PROJECT / part) for part in ("spec", "gpu_backend"))
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": roots, build.CACHE: str(cache), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_what_is_built_already_is_not_built_again(tmp_path: Path) -> None:
    shutil.copy(build.cached_file(), tmp_path)
    path = os.environ["PATH"]
    run = python(tmp_path, PATH="/nowhere")
    out, err = run.communicate()
    assert run.returncode == 0, err
    assert Path(out.strip()).parent == tmp_path
    assert os.environ["PATH"] == path


def test_two_processes_that_start_at_once_do_each_other_no_harm(tmp_path: Path) -> None:
    quick = "-O0"  # of two flags for optimisation the last one counts
    runs = [python(tmp_path, CXXFLAGS=quick) for _ in range(2)]
    for run in runs:
        out, err = run.communicate()
        assert run.returncode == 0, err
        assert Path(out.strip()).parent == tmp_path
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"PATH": "/nowhere"}, "no C++ compiler"),
        ({"CXX": "no-such-compiler"}, "no-such-compiler"),
        ({"CXXFLAGS": "-no-such-flag"}, "no-such-flag"),
    ],
)
def test_a_core_that_cannot_be_built_says_why(tmp_path: Path, environment: dict[str, str], text: str) -> None:
    run = python(tmp_path, **environment)
    _, err = run.communicate()
    assert run.returncode != 0
    assert "NativeCoreUnavailable" in err
    assert text in err
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_says_how_to_choose_another(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(build.NativeCoreUnavailable, match=build.CACHE):
        build.compile_core(tmp_path / "file" / "core.so")


def test_a_changed_source_is_another_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.digest()
    sources = tmp_path / "native"
    shutil.copytree(build.SOURCES, sources)
    monkeypatch.setattr(build, "SOURCES", sources)
    assert build.digest() == before
    (sources / "core.h").write_text("// another\n")
    assert build.digest() != before


KERNEL = """
#include "core.h"
#include "lanes_cuda.h"
using namespace kvproof;
template <int W>
__global__ void __launch_bounds__(1024, 1) run(int32_t* arena, const Chain* const* texts, int64_t num_texts,
                                               Workspace work, const int32_t* words, int64_t count, int32_t* out,
                                               int64_t room, Result* result) {
  __shared__ int32_t shared[CudaLanes::kSharedWords];
  Pool<W, CudaLanes> pool(arena, texts, num_texts, work, CudaLanes{shared, work.claims});
  const Result found = interpret(pool, words, count, out, room);
  if (threadIdx.x == 0) *result = found;
}
template __global__ void run<4>(int32_t*, const Chain* const*, int64_t, Workspace, const int32_t*, int64_t, int32_t*,
                                int64_t, Result*);
"""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_nvcc_compiles_the_same_core(architecture: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    nvcc = shutil.which("nvcc") or "/usr/local/bin/nvcc"
    if not Path(nvcc).is_file():
        pytest.skip("there is no nvcc; the core is compiled for CUDA where there is one")
    (tmp_path / "kernel.cu").write_text(KERNEL)
    command = [
        nvcc,
        "-std=c++17",
        f"-arch={architecture}",
        "-cubin",
        "-Xptxas",
        "-v",
        f"-I{build.SOURCES}",
        "kernel.cu",
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    kernel = run.stderr.split("Function properties for _Z3run", 1)[1].split("ptxas info", 2)
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", kernel[0])
    registers = re.search(r"Used (\d+) registers", run.stderr)
    assert spills is not None
    assert registers is not None
    with capfd.disabled():
        print(f"\n{architecture}: {registers[1]} registers, {spills[1]} B spill stores, {spills[2]} B spill loads")
    assert (tmp_path / "kernel.cubin").stat().st_size > 0
