"""`kvproof shrink`: the shortest trace that shows the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kvproof.conformance.backends.interface import AdapterError
from kvproof.conformance.backends.targets import TargetError, open_subject
from kvproof.conformance.certification.again import divergence_of
from kvproof.conformance.certification.attribution import clause_of
from kvproof.conformance.certification.lockstep import Divergence
from kvproof.conformance.certification.shrink import shrink as make_short
from kvproof.conformance.certification.trace import Trace, TraceError, read_file, trace_of, write
from kvproof.conformance.certification.verdict import ExitCode
from kvproof.conformance.signals import ending_in_order
from kvproof.conformance.tell_divergence import say_divergence
from kvproof.conformance.terminal import complain, counted, say


@ending_in_order("shrink")
def shrink(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace of operations, in JSON lines.")],
    target: Annotated[str, typer.Option(help="The backend: a name, `module:factory` or `exec:COMMAND`.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the short trace here.")] = None,
) -> None:
    """Make a trace short on which a backend parts from the reference: fewer operations, smaller ones, a smaller pool.

    Exit code 0: done. 2: wrong usage, no trace, or one that cannot be written. 3: the adapter failed. 4: the backend
    does on this trace what it should.

    Examples:

      kvproof shrink trace.jsonl --target exec:./my_pool

      kvproof shrink trace.jsonl --target my_engine.adapter:make --out short.jsonl
    """
    console = Console()
    try:
        trace = read_file(file)
        short = _short(trace, target)
    except (TraceError, TargetError) as error:
        complain("shrink", error)
        raise typer.Exit(ExitCode.USAGE) from None
    except AdapterError as error:
        complain("shrink", f"the adapter failed: {error}")
        raise typer.Exit(ExitCode.ADAPTER_ERROR) from None
    if short is None:
        complain("shrink", "nothing differs on this trace")
        raise typer.Exit(ExitCode.INCONCLUSIVE)
    say(
        console,
        f"{counted(len(trace.steps), 'operations')} became {len(short.operations):,}, which break {clause_of(short)}",
    )
    say_divergence(console, short)
    if out is None:
        typer.echo(write(trace_of(short.config, short.operations)), nl=False)
        return
    try:
        out.write_text(write(trace_of(short.config, short.operations)), encoding="utf-8")
    except OSError as error:
        complain("shrink", f"{out} cannot be written: {error.strerror}")
        raise typer.Exit(ExitCode.USAGE) from None


def _short(trace: Trace, target: str) -> Divergence | None:
    backend = open_subject(target)
    try:
        _, capabilities = backend.identify()
        found = divergence_of(trace, backend, capabilities)
        return None if found is None else make_short(backend, capabilities, found)
    finally:
        backend.close()
