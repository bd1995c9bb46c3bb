"""Runs mutants in worker processes, several at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

import msgspec

from kvproof.conformance.mutation.jobs import Job, MutantResult


class Worker:
    """One worker process, see `one`; starts anew if it was lost."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, job: Job) -> MutantResult:
        """Run one job and wait for its result."""
        process = self._running()
        assert process.stdin is not None, "the worker was started with pipes"
        assert process.stdout is not None, "the worker was started with pipes"
        try:
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._lost(job)
        answer = process.stdout.readline()
        return msgspec.json.decode(answer, type=MutantResult) if answer else self._lost(job)

    def close(self) -> None:
        """End the process, which does so when there is no more input."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def kill(self) -> None:
        """End the process at once, and what it runs."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-m", "kvproof.conformance.mutation.one"]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=_environment(),
                start_new_session=True,  # a group of its own, which can be killed as one
            )
        return self._process

    def _lost(self, job: Job) -> MutantResult:
        assert self._process is not None, "only a worker that was started can be lost"
        status = self._process.wait()
        self._process = None
        return MutantResult(job.mutant, error=f"the worker ended with status {status}")


def run_jobs(
    jobs: Iterable[Job], workers: int, report: Callable[[MutantResult], None] = lambda result: None
) -> list[MutantResult]:
    """Run all jobs, `workers` at a time; `report` hears of each result at once, the results come in the jobs' order."""
    waiting: SimpleQueue[tuple[int, Job]] = SimpleQueue()
    for numbered in enumerate(jobs):
        waiting.put(numbered)
    results: dict[int, MutantResult] = {}
    reporting = threading.Lock()

    started: list[Worker] = []

    def work() -> None:
        with Worker() as worker:
            started.append(worker)
            while (numbered := _next(waiting)) is not None:
                result = worker.run(numbered[1])
                with reporting:
                    results[numbered[0]] = result
                    report(result)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:  # the user interrupts
        while _next(waiting) is not None:
            pass
        for worker in started:
            worker.kill()
        raise
    return [results[number] for number in sorted(results)]


def complaints_about(result: MutantResult) -> list[str]:
    """What is wrong with a named mutant's result: an error, or clause tests that did not notice it."""
    if result.error:
        return [result.error]
    clauses = result.layer("clauses")
    if clauses is None:
        return []
    complaints = [f"no test of {clause_id} failed" for clause_id in clauses.unnoticed]
    return complaints if clauses.killed or complaints else ["no clause test failed"]


def _next(waiting: SimpleQueue[tuple[int, Job]]) -> tuple[int, Job] | None:
    try:
        return waiting.get_nowait()
    except Empty:
        return None


def _environment() -> dict[str, str]:
    """This process's environment, with what it can import; nothing that changes how pytest runs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
