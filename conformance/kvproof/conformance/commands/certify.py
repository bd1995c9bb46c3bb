"""`kvproof certify`: is this cache manager correct?"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from kvproof.conformance.backends.interface import AdapterError, Backend
from kvproof.conformance.backends.targets import TargetError, open_subject
from kvproof.conformance.certification.account import run_of
from kvproof.conformance.certification.control import ControlBeside, last_control
from kvproof.conformance.certification.digests import driven_files
from kvproof.conformance.certification.examine import examine
from kvproof.conformance.certification.known import KnownError, read_known
from kvproof.conformance.certification.output import OutputError, check_output, write_output
from kvproof.conformance.certification.profiles import DEEP, PROFILES, QUICK, STANDARD, Profile
from kvproof.conformance.certification.result import KnownDivergence, Run
from kvproof.conformance.certification.show import show_run
from kvproof.conformance.certification.verdict import ExitCode, exit_code, no_certificate, verdict
from kvproof.conformance.signals import ending_in_order
from kvproof.conformance.terminal import complain, say
from kvproof.conformance.vectors import DamagedVectors

BUDGET = 10


MOST_BUDGET = 10_000
"""A week or so; more is a slip of the keyboard."""


def _profile(name: str) -> str:
    if name not in PROFILES:
        raise typer.BadParameter(f"there is no profile {name}; profiles are {', '.join(PROFILES)}")
    return name


@ending_in_order("certify")
def certify(
    target: Annotated[
        str, typer.Argument(help="reference, a name of an entry point, module:factory, or exec:COMMAND.")
    ],
    profile: Annotated[
        str, typer.Option(help=f"How much is done: {', '.join(PROFILES)}.", callback=_profile)
    ] = STANDARD.name,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_BUDGET,
            help="How many times the random walks of standard --profile deep does, each with a seed of its own. "
            "Nothing else is done more often.",
            show_default="10",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything that is random.")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write certificate, report and failures here.")
    ] = None,
    known: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Known divergences: 0 then says that there are no others.")
    ] = None,
) -> None:
    """Drive a backend beside the reference through everything that it claims, and say which clauses it breaks.

    Exit code 0: conformant. 1: not conformant; each failure is shown with a short trace. 2: wrong usage, or the
    output cannot be written. 3: the adapter broke. 4: inconclusive. 5: nothing ran. 70: an error of kvproof itself.

    Examples:

      kvproof certify reference --profile quick

      kvproof certify my_engine.adapter:make --out certificate

      kvproof certify "exec:./pool_adapter" --profile deep --budget 20 --seed 7

      kvproof certify my_engine.adapter:make --known divergences.toml
    """
    console = Console()
    if budget is not None and profile != DEEP.name:
        raise typer.BadParameter(f"--budget is for --profile {DEEP.name}; the others have one of their own")
    chosen = PROFILES[profile].times(budget or BUDGET) if profile == DEEP.name else PROFILES[profile]
    try:
        listed = None if known is None else read_known(known)
        if out is not None:
            check_output(out)
        backend = open_subject(target)
    except (KnownError, OutputError, TargetError) as error:
        complain("certify", error)
        raise typer.Exit(ExitCode.USAGE) from None
    except AdapterError as error:
        complain("certify", error)
        raise typer.Exit(ExitCode.ADAPTER_ERROR) from None
    say(console, f"{target}, profile {chosen.name}, seed {seed}")
    run = _run(console, backend, target, chosen, seed, listed)
    written = None if out is None else _written(run, out)  # first of all: whoever shows it may fail
    show_run(console, run, out)
    if isinstance(written, OutputError):
        complain("certify", written)
        raise typer.Exit(ExitCode.USAGE)
    for line in written or ():
        say(console, line)
    raise typer.Exit(exit_code(run))


def _run(
    console: Console, backend: Backend, target: str, profile: Profile, seed: int, known: list[KnownDivergence] | None
) -> Run:
    try:
        with console.status("smoke") as status, ExitStack() as beside:
            driven = driven_files(backend.identify()[0])
            tell = _Progress(console, status).tell
            planted = None if profile.name == QUICK.name else beside.enter_context(ControlBeside())
            done = examine(backend, profile, seed, tell, lambda: open_subject(target))
            control = last_control() if planted is None else planted.control(tell)
        return run_of(done, target, profile, seed, driven, control, known)
    except DamagedVectors as error:
        complain("certify", error)
        raise typer.Exit(ExitCode.INCONCLUSIVE) from None
    except AdapterError as error:
        complain("certify", error)
        raise typer.Exit(ExitCode.ADAPTER_ERROR) from None
    finally:
        backend.close()


LOG_INTERVAL = 30.0
"""Seconds between two lines on one thing, where there is no terminal."""


class _Progress:
    """What is being done: redrawn on a terminal; elsewhere a line whenever something else begins, and now and then."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console, self._status = console, status
        self._told, self._due = "", 0.0

    def tell(self, text: str) -> None:
        """Take note of how far the run is."""
        self._status.update(text)
        if self._console.is_terminal:
            return
        what, now = text.partition(":")[0], time.monotonic()
        if what != self._told:
            self._told, self._due = what, now + LOG_INTERVAL
            say(self._console, f"{what} ...")
        elif now >= self._due:
            self._due = now + LOG_INTERVAL
            say(self._console, text)


def _written(run: Run, out: Path) -> list[str] | OutputError:
    """Write the folder of a run; what there is to say of it, or why it could not be written."""
    try:
        certified = write_output(run, out)
    except OutputError as error:
        return error
    parts = [f"certificate.json ({verdict(run)})"] * certified + ["report.html", "junit.xml"]
    parts += ["failures"] * bool(run.failures)
    parts += ["crash"] * (run.crash is not None)
    reasons = [] if certified else no_certificate(run)
    return [f"written to {out}: {', '.join(parts)}", *(f"no certificate: {reason}" for reason in reasons)]
