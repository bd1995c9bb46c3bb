"""`kvproof certify`: is this cache manager correct?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from kvproof.conformance.backends.interface import AdapterError, Backend
from kvproof.conformance.backends.targets import TargetError, open_subject
from kvproof.conformance.certification.account import run_of
from kvproof.conformance.certification.control import last_control, mutation_control
from kvproof.conformance.certification.digests import driven_files
from kvproof.conformance.certification.examine import examine
from kvproof.conformance.certification.known import KnownError, read_known
from kvproof.conformance.certification.output import OutputError, check_output, write_output
from kvproof.conformance.certification.profiles import DEEP, PROFILES, QUICK, STANDARD, Profile
from kvproof.conformance.certification.result import KnownDivergence, Run
from kvproof.conformance.certification.show import show_run
from kvproof.conformance.certification.verdict import ExitCode, exit_code, no_certificate
from kvproof.conformance.signals import ending_in_order
from kvproof.conformance.terminal import complain, say

BUDGET = 10


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
            help="How many times the random walks of standard --profile deep does, each with a seed of its own; once "
            "takes the reference about 55 CPU seconds, and all that is not random another 80.",
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

    Exit code 0: conformant. 1: not conformant; each failure is shown with its shortest trace. 2: wrong usage, or the
    output cannot be written. 3: the adapter broke. 4: inconclusive. 5: nothing ran.

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
    show_run(console, run, out)
    if out is not None:
        _write(console, run, out)
    raise typer.Exit(exit_code(run))


def _run(
    console: Console, backend: Backend, target: str, profile: Profile, seed: int, known: list[KnownDivergence] | None
) -> Run:
    try:
        with console.status("smoke") as status:
            driven = driven_files(backend.identify()[0])
            done = examine(backend, profile, seed, _Progress(console, status).tell, lambda: open_subject(target))
            control = last_control() if profile.name == QUICK.name else mutation_control(tell=status.update)
        return run_of(done, target, profile, seed, driven, control, known)
    except AdapterError as error:
        complain("certify", error)
        raise typer.Exit(ExitCode.ADAPTER_ERROR) from None
    except KeyboardInterrupt:
        complain("certify", "interrupted; nothing was written")
        raise typer.Exit(ExitCode.INCONCLUSIVE) from None
    finally:
        backend.close()


class _Progress:
    """What is being done: redrawn on a terminal; elsewhere a line whenever something else begins."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console, self._status = console, status
        self._told = ""

    def tell(self, text: str) -> None:
        """Take note of how far the run is."""
        self._status.update(text)
        what = text.partition(":")[0]
        if not self._console.is_terminal and what != self._told:
            self._told = what
            say(self._console, f"{what} ...")


def _write(console: Console, run: Run, out: Path) -> None:
    try:
        certified = write_output(run, out)
    except OutputError as error:
        complain("certify", error)
        raise typer.Exit(ExitCode.USAGE) from None
    parts = ["the certificate"] * certified + ["report.html", "junit.xml"]
    parts += ["failures"] * bool(run.failures)
    parts += ["crash"] * (run.crash is not None)
    say(console, f"written to {out}: {', '.join(parts)}")
    for reason in () if certified else no_certificate(run):
        say(console, f"no certificate: {reason}")
