"""A worker: runs mutants one after the other, each in a process of its own.

`python -m kvproof.conformance.mutation.one NAME ...` runs the named ones through all layers; without names, jobs come
as JSON lines on standard input. Results go to standard output, one JSON line each.

The worker loads everything that all mutants need but never what mutants change, and forks for each mutant. The child
puts the mutant in place, imports what it changed, runs the layers and ends.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from typing import BinaryIO, NoReturn

import msgspec

from kvproof.conformance.mutation.clause_tests import PYTEST_ARGUMENTS
from kvproof.conformance.mutation.jobs import Job, LayerResult, MutantResult
from kvproof.conformance.mutation.layers import LAYERS
from kvproof.conformance.mutation.patch import install
from kvproof.conformance.mutation.subjects import find_subject

MEMORY_BYTES = 4 * 2**30
"""Address space of a child: a mutant that fills lists for ever fails instead of taking the machine with it."""

_MUTATED = {"kvproof.reference", "kvproof.spec.machine", "kvproof.gpu_backend"}


class _Failure(msgspec.Struct, frozen=True, tag=True):
    """The child's last word when something broke that is not the mutant's doing."""

    error: str


def main(names: list[str]) -> None:
    """Run the named mutants, or serve jobs from standard input until it ends."""
    load_what_all_mutants_need()
    with tempfile.TemporaryDirectory() as cache:
        # What the first child compiles, the reference and the tests as pytest rewrites them, the later ones need not.
        sys.pycache_prefix, sys.dont_write_bytecode = cache, False
        for job in _jobs(names):
            sys.stdout.buffer.write(msgspec.json.encode(run_in_child(job)) + b"\n")
            sys.stdout.flush()


def load_what_all_mutants_need() -> None:
    """Import the libraries, and let pytest load its plugins once."""
    import hypothesis.stateful  # noqa: F401

    with contextlib.suppress(ImportError):  # without z3 the layers that prove nothing still run
        import z3  # noqa: F401

    with contextlib.suppress(ImportError):  # without torch those run that need no backend
        import torch  # noqa: F401

    with contextlib.suppress(ImportError):  # without pytest the other layers still run
        import pytest

        with tempfile.TemporaryDirectory() as empty, contextlib.redirect_stdout(io.StringIO()):
            pytest.main(["--collect-only", empty, f"--rootdir={empty}", *PYTEST_ARGUMENTS])
    assert not sys.modules.keys() & _MUTATED, "a mutant comes before what it changes is imported"


def run_in_child(job: Job) -> MutantResult:
    """Run one job in a fork of this process; a layer that takes too long ends it."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        _run_and_exit(job, writable)
    os.close(writable)
    layers: list[LayerResult] = []
    error = ""
    with open(readable, "rb") as answers:
        try:
            for line in _lines(answers, job.seconds):
                match msgspec.json.decode(line, type=LayerResult | _Failure):
                    case LayerResult() as result:
                        layers.append(result)
                    case _Failure(error=error):
                        pass
        except TimeoutError:
            error = f"{_next_layer(job, layers)} took more than {job.seconds:.0f} s"
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not error and not _complete(job, layers):
        error = f"{_next_layer(job, layers)} ended the process with status {os.waitstatus_to_exitcode(status)}"
    return MutantResult(job.mutant, tuple(layers), error)


def _jobs(names: list[str]) -> Iterator[Job]:
    if names:
        yield from (Job(name, tuple(LAYERS)) for name in names)
    else:
        yield from (msgspec.json.decode(line, type=Job) for line in sys.stdin.buffer)


def _complete(job: Job, done: list[LayerResult]) -> bool:
    return len(done) == len(job.layers) or (job.first_kill_only and any(result.killed for result in done))


def _next_layer(job: Job, done: list[LayerResult]) -> str:
    return job.layers[min(len(done), len(job.layers) - 1)]


def _lines(answers: BinaryIO, seconds: float) -> Iterator[bytes]:
    """The child's lines until it closes the pipe; raises `TimeoutError` if one takes longer than `seconds`."""
    rest = b""
    deadline = time.monotonic() + seconds
    while select.select([answers], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not (piece := os.read(answers.fileno(), 1 << 16)):
            return
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        deadline = time.monotonic() + seconds if lines else deadline
    raise TimeoutError


def _run_and_exit(job: Job, writable: int) -> NoReturn:
    """In the child: answer on the pipe, touch no other stream of the parent's, and end without its cleanups."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    with open(writable, "wb", buffering=0) as answers:
        try:
            for result in _run_layers(job):
                answers.write(msgspec.json.encode(result) + b"\n")
        except BaseException as broken:
            where = traceback.extract_tb(broken.__traceback__)[-1]
            text = f"{type(broken).__name__}: {broken} ({os.path.basename(where.filename)}:{where.lineno})"
            answers.write(msgspec.json.encode(_Failure(text)) + b"\n")
    os._exit(0)


def _run_layers(job: Job) -> Iterator[LayerResult]:
    subject = find_subject(job.mutant)
    if subject.change is not None:
        install(subject.change)
    for name in job.layers:
        started = time.perf_counter()
        result = LAYERS[name](subject.clauses if job.clauses is None else job.clauses)
        yield msgspec.structs.replace(result, seconds=round(time.perf_counter() - started, 3))
        if result.killed and job.first_kill_only:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
