"""`kvproof verify-certificate`: is a certificate whole, and still about what it was about?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kvproof.conformance.backends.interface import AdapterError
from kvproof.conformance.backends.targets import TargetError, open_subject
from kvproof.conformance.certification import certificate as certificates
from kvproof.conformance.certification.verdict import ExitCode
from kvproof.conformance.signals import ending_in_order
from kvproof.conformance.terminal import complain, counted, say


@ending_in_order("verify-certificate")
def verify_certificate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `kvproof certify --out` wrote.")],
    target: Annotated[str | None, typer.Option(help="Run the trace of each failure again, on this backend.")] = None,
) -> None:
    """Check a certificate: every digest, every count, and that its conclusions follow from its rows.

    The digests of the driven files are compared with the files of this machine, where they are here. A certificate is
    not signed: this finds what was damaged or carelessly edited, not what was forged with care.

    Exit code 0: whole, and about the files that are here. 1: something was cut, edited or changed. 2: there is no
    certificate. 4: whole, but something could not be checked here.

    Examples:

      kvproof verify-certificate out

      kvproof verify-certificate out --target exec:./my_pool
    """
    if not os.path.isfile(folder / certificates.CERTIFICATE_FILE):
        complain("verify-certificate", f"there is no {folder / certificates.CERTIFICATE_FILE}")
        raise typer.Exit(ExitCode.USAGE)
    console = Console()
    found = _verified(folder, target)
    for problem in found.problems:
        say(console, problem, "red")
    for text in found.unchecked:
        say(console, f"not checked: {text}", "yellow")
    if found.problems or found.certificate is None:
        say(console, f"Not valid: {counted(len(found.problems), 'problems')}", "bold red")
        raise typer.Exit(ExitCode.NOT_CONFORMANT)
    run = found.certificate.run
    files = f"{counted(found.files, 'files')} and {counted(found.driven, 'driven files')}"
    say(console, f"{files} are as they were on {run.date}")
    outcome = f"Whole: {run.identity.name} {run.identity.version} is {found.certificate.verdict}"
    say(console, f"{outcome}, says kvproof {run.suite_version}", "bold yellow" if found.unchecked else "bold green")
    if found.unchecked:
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _verified(folder: Path, target: str | None) -> certificates.Verification:
    if target is None:
        return certificates.verify_certificate(folder)
    try:
        backend = open_subject(target)
        try:
            return certificates.verify_certificate(folder, backend)
        finally:
            backend.close()
    except TargetError as error:
        complain("verify-certificate", error)
        raise typer.Exit(ExitCode.USAGE) from None
    except AdapterError as error:
        complain("verify-certificate", f"the adapter failed: {error}")
        raise typer.Exit(ExitCode.ADAPTER_ERROR) from None
