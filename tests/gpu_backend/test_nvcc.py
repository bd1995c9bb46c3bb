"""The same headers are compiled for CUDA, where there is a compiler for it. Never executed on a GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kvproof.gpu_backend import build

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
