"""`kvproof replay`: a trace of operations, or a workload, on a backend beside the reference."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from kvproof.conformance.backends.interface import AdapterError, Backend
from kvproof.conformance.backends.targets import TargetError, open_subject
from kvproof.conformance.certification.again import ways_to_run
from kvproof.conformance.certification.expectations import expectations, unmet_expectation
from kvproof.conformance.certification.failure import TRACE_FILE
from kvproof.conformance.certification.lockstep import BATCH, Lockstep
from kvproof.conformance.certification.trace import Trace, TraceError, read_file
from kvproof.conformance.operations import Operation
from kvproof.conformance.signals import ending_in_order
from kvproof.conformance.tell_divergence import say_differences, say_divergence
from kvproof.conformance.terminal import complain, counted, did_you_mean, say
from kvproof.conformance.workloads.arrivals import Workload, WorkloadError, load, read_workload, shipped
from kvproof.conformance.workloads.play import Played, configurations, play

DIVERGED, USAGE, ADAPTER = 1, 2, 3
"""Exit codes; 0 says that the backend did everything as it should."""

LOG_INTERVAL = 10.0
"""Seconds between two lines of progress where there is no terminal to redraw."""

DEFAULT_BLOCKS = (1_000, 4_000, 16_000)

GZIP = b"\x1f\x8b"


class _UsageError(ValueError):
    """What the user asked for makes no sense; the text says why."""


@ending_in_order("replay")
def replay(
    file: Annotated[str, typer.Argument(help="A trace of operations, a workload (.jsonl.gz), or a shipped workload.")],
    target: Annotated[str, typer.Option(help="The backend: a name, `module:factory` or `exec:COMMAND`.")] = "reference",
    blocks: Annotated[
        list[int] | None,
        typer.Option(
            min=2, help="Blocks of the pool, the null block included; only for a workload. Repeat it for more."
        ),
    ] = None,
    requests: Annotated[
        int | None, typer.Option(min=1, help="Replay only the first so many; only for a workload.")
    ] = None,
) -> None:
    """Run a trace or a workload on a backend, and compare everything that it does with the reference.

    A trace holds operations (JSON lines); what it expects of them is checked too. A workload holds requests that an
    engine received; they are served at several pool sizes, and the modes that the backend offers take turns.

    Exit code 0: no difference. 1: a difference, which is shown. 2: wrong usage, or a file that is broken. 3: the
    adapter failed.

    Examples:

      kvproof replay trace.jsonl --target exec:./my_pool

      kvproof replay mooncake_conversation --requests 500

      kvproof replay lmcache_taubench --blocks 64 --blocks 1000 --target my_package:make_backend
    """
    console = Console()
    backend: Backend | None = None
    try:
        recorded = _read(file)
        if isinstance(recorded, Trace) and (blocks or requests):
            raise _UsageError("--blocks and --requests are for workloads; a trace says how large its pool is")
        backend = open_subject(target)
        if isinstance(recorded, Trace):
            conforms = _replay_trace(console, recorded, backend)
        else:
            conforms = _replay_workload(console, recorded, backend, tuple(blocks or DEFAULT_BLOCKS), requests)
    except (_UsageError, TraceError, WorkloadError, TargetError) as error:
        complain("replay", error)
        raise typer.Exit(USAGE) from None
    except AdapterError as error:
        complain("replay", f"the adapter failed: {error}")
        raise typer.Exit(ADAPTER) from None
    finally:
        if backend is not None:
            backend.close()
    if not conforms:
        raise typer.Exit(DIVERGED)


def _read(name: str) -> Trace | Workload:
    """Whatever the file is: it is known by its first bytes."""
    if name in shipped():
        return load(name)
    file = Path(name)
    if not os.path.exists(file):  # also where the name is too long for one
        hint = did_you_mean(name, shipped(), f"shipped workloads are {', '.join(shipped())}")
        raise _UsageError(f"there is no file {name}; {hint}")
    if file.is_dir():
        if (file / TRACE_FILE).is_file():
            return read_file(file / TRACE_FILE)
        raise _UsageError(f"{name} is a folder, and not that of a failure; name a file in it")
    try:
        with file.open("rb") as opened:
            packed = opened.read(len(GZIP)) == GZIP
    except OSError as error:
        raise _UsageError(f"{name} cannot be read: {error.strerror}") from None
    return read_workload(file) if packed or name.endswith(".gz") else read_file(file)


def _replay_trace(console: Console, trace: Trace, backend: Backend) -> bool:
    _, capabilities = backend.identify()
    with console.status("replaying") as status:
        show = _Progress(console, status).show
        for watch in ways_to_run(trace):
            lockstep = Lockstep(backend, capabilities, trace.header.config, watch)
            _run(lockstep, trace.operations, show)
            if lockstep.divergence is not None:
                break
    if lockstep.divergence is not None:
        say_divergence(console, lockstep.divergence)
        return False
    if (unmet := unmet_expectation(trace)) is not None:
        say(
            console,
            f"The trace expects what the specification does not say, at operation {unmet.number:,}:",
            "bold red",
        )
        say_differences(console, unmet.operation, unmet.differences, "the trace expects", "the reference says")
        return False
    compared = sum(map(lockstep.model.is_offered, lockstep.operations))
    if left_out := len(trace.steps) - compared:
        say(
            console,
            f"left out: {counted(left_out, 'operations')}, undefined, not offered, or to be refused without level R.",
        )
    say(
        console,
        f"No difference: {counted(compared, 'operations')} compared; expectations that hold: {expectations(trace):,}.",
        "green",
    )
    return True


def _run(lockstep: Lockstep, operations: Sequence[Operation], show: Callable[[str], None]) -> None:
    """Run operations, and say how far it is."""
    recorded = iter(lockstep.recorded(operations))
    for _ in range(0, len(operations), BATCH):
        if lockstep.divergence is None:
            lockstep.run(islice(recorded, BATCH))
            show(f"{len(lockstep.operations):,} of {counted(len(operations), 'operations')}")
    lockstep.compare_state()


def _replay_workload(
    console: Console, workload: Workload, backend: Backend, sizes: tuple[int, ...], requests: int | None
) -> bool:
    _, capabilities = backend.identify()
    done: list[Played] = []
    with console.status("replaying") as status:
        show = _Progress(console, status).show
        for turn, num_blocks in enumerate(sizes):
            modes = configurations(capabilities, num_blocks)
            if not modes:
                raise _UsageError("the backend has no full attention, which workloads need")
            config = modes[turn % len(modes)]
            done.append(play(backend, capabilities, config, workload, requests, lambda now: show(_so_far(now))))
            if done[-1].divergence is not None:
                break
    _show_runs(console, workload.name, done)
    if (divergence := done[-1].divergence) is not None:
        say_divergence(console, divergence)
        return False
    operations, seconds = sum(played.operations for played in done), sum(played.seconds for played in done)
    say(
        console,
        f"No difference: {counted(operations, 'operations')} compared, {_rate(operations, seconds)} a second.",
        "green",
    )
    return True


class _Progress:
    """Redraws one line on a terminal; elsewhere prints a line now and then."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status
        self._due = time.monotonic() + LOG_INTERVAL

    def show(self, text: str) -> None:
        """Say how far it is."""
        if self._console.is_terminal:
            self._status.update(text)
        elif time.monotonic() >= self._due:
            self._due = time.monotonic() + LOG_INTERVAL
            say(self._console, text)


def _so_far(played: Played) -> str:
    counts = played.counts
    return (
        f"{played.workload}, {played.config.num_blocks:,} blocks: {counts.requests:,} requests, "
        f"{played.operations:,} operations, {_rate(played.operations, played.seconds)} a second"
    )


def _rate(operations: int, seconds: float) -> str:
    return f"{operations / max(seconds, 1e-9):,.0f}"


def _show_runs(console: Console, name: str, runs: list[Played]) -> None:
    """A table that fits a narrow terminal, and what it has no column for."""
    say(
        console,
        f"{name}: hit is the share of prompt tokens, evicted are cached blocks, full is how often others ended first",
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("blocks", justify="right")
    table.add_column("mode", no_wrap=True)
    for heading in ("requests", "hit", "evicted", "full", "operations"):
        table.add_column(heading, justify="right")
    for played in runs:
        config, counts = played.config, played.counts
        mode = " ".join(each.value for each in (config.commit, config.residency, config.holders))
        share = counts.hit_tokens / max(counts.prompt_tokens, 1)
        numbers = (f"{each:,}" for each in (counts.evicted, counts.full, played.operations))
        table.add_row(f"{config.num_blocks:,}", mode, f"{counts.requests:,}", f"{share:.1%}", *numbers)
    console.print(table)
    for played in runs:
        if left_out := played.counts.left_out:
            say(
                console,
                f"left out: {counted(left_out, 'requests')}, which need more than {played.config.num_blocks:,} blocks",
            )
