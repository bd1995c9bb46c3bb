"""Does one part of a run in a process of its own: `python -m kvproof.conformance.bench.worker`.

A job in JSON comes in on standard input, its answer goes out on standard output. If vLLM is measured, the process runs
in vLLM's environment.
"""

from __future__ import annotations

import os
import platform
import sys

import msgspec

from kvproof.conformance.bench import calls, hybrid, memory, replay, speed
from kvproof.conformance.bench.plan import CallsPart, HybridPart, MemoryPart, Part, SpeedPart
from kvproof.conformance.bench.results import Answer
from kvproof.conformance.bench.sides import BenchError, load


class Job(msgspec.Struct, frozen=True):
    """A part, and the classes of the sides that it measures, the one that computes hashes first."""

    part: Part
    sides: tuple[str, ...]


def do(job: Job) -> Answer:
    """Measure. Raises `BenchError`."""
    makes = [load(name) for name in job.sides]
    before = os.getloadavg()[0]
    part, found = job.part, Answer()
    if isinstance(part, SpeedPart):
        found = Answer(cells=speed.measure(makes, part))
    elif isinstance(part, MemoryPart):
        found = Answer(memory=[memory.measure(make, part) for make in makes])
    elif isinstance(part, CallsPart):
        found = Answer(slowest=calls.measure(makes, part))
    elif isinstance(part, HybridPart):
        found = Answer(hybrid=hybrid.measure(part))
    else:
        found = Answer(replays=[replay.measure(makes, part)])
    versions = {"Python": platform.python_version()}
    for make in makes:
        versions |= make.versions()
    return msgspec.structs.replace(found, versions=versions, load=(before, os.getloadavg()[0]))


def main() -> None:
    """Answer the job on standard input."""
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what an engine prints is no answer
    try:
        answer = do(msgspec.json.decode(sys.stdin.buffer.read(), type=Job))
    except BenchError as error:
        answer = Answer(error=str(error))
    with open(answers, "wb") as file:
        file.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main()
