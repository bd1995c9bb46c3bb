"""Runs all parts, each in a worker, and gathers what they found."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kvproof.conformance.bench.plan import HybridPart, MemoryPart, Part, Plan, title
from kvproof.conformance.bench.results import Answer, Machine, Report
from kvproof.conformance.bench.sides import OURS, VLLM, BenchError
from kvproof.conformance.bench.worker import Job
from kvproof.conformance.engines.vllm.__main__ import NOT_THERE, environment, variables

SHOWN_LINES = 5
"""Of what a worker said before it broke."""

CPUINFO = Path("/proc/cpuinfo")


def run(plan: Plan, quick: bool, progress: Callable[[str, float | None], None]) -> Report:
    """Run the plan, with vLLM beside where its environment is there.

    `progress` hears of each part when it begins, and again with the seconds that it took. Raises `BenchError`.
    """
    python, started, load_before = environment(), time.monotonic(), os.getloadavg()[0]
    answers = []
    for part in plan.parts:
        progress(title(part), None)
        began = time.monotonic()
        answers += [run_part(job, python) for job in _jobs(part, python is not None)]
        progress(title(part), time.monotonic() - began)
    versions: dict[str, str] = {}
    for answer in answers:
        versions |= answer.versions
    return Report(
        date=datetime.now(UTC).date().isoformat(),
        quick=quick,
        machine=_machine(),
        versions=versions,
        peer_missing=None if python is not None else NOT_THERE,
        load_before=load_before,
        load=max([load_before, *(load for answer in answers for load in answer.load)]),
        seconds=time.monotonic() - started,
        cells=[cell for answer in answers for cell in answer.cells],
        memory=[each for answer in answers for each in answer.memory],
        slowest=[each for answer in answers for each in answer.slowest],
        replays=[each for answer in answers for each in answer.replays],
        hybrid=[each for answer in answers for each in answer.hybrid],
    )


def _jobs(part: Part, with_vllm: bool) -> list[Job]:
    """Both sides in one process, except for memory, which is that of a process, and for what only we have."""
    if isinstance(part, HybridPart):
        return [Job(part, (OURS,))]
    sides = (OURS, VLLM) if with_vllm else (OURS,)
    return [Job(part, (side,)) for side in sides] if isinstance(part, MemoryPart) else [Job(part, sides)]


def run_part(job: Job, python: Path | None) -> Answer:
    """Run a worker, in vLLM's environment if there is one. Raises `BenchError`."""
    command = [str(python or sys.executable), "-m", "kvproof.conformance.bench.worker"]
    try:
        done = subprocess.run(command, input=msgspec.json.encode(job), capture_output=True, env=variables())
    except OSError as error:
        raise BenchError(f"{command[0]} cannot be run: {error.strerror}; KVPROOF_VLLM names vLLM's Python") from None
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-SHOWN_LINES:]
        raise BenchError("\n".join([f"{title(job.part)}: {command[0]} ended with {done.returncode}:", *said]))
    answer = msgspec.json.decode(done.stdout, type=Answer)
    if answer.error is not None:
        raise BenchError(f"{title(job.part)}: {answer.error}")
    return answer


def _machine() -> Machine:
    named = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return Machine(named[0] if named else platform.processor(), os.cpu_count() or 1, platform.platform())


def _cpuinfo() -> list[str]:
    return CPUINFO.read_text().splitlines() if CPUINFO.exists() else []
