"""The command line `kvproof`."""

from __future__ import annotations

import io
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from kvproof.conformance.commands.bench import bench
from kvproof.conformance.commands.certify import certify
from kvproof.conformance.commands.certify_mutants import certify_mutants
from kvproof.conformance.commands.explain import explain
from kvproof.conformance.commands.explore import explore
from kvproof.conformance.commands.list_names import list_names
from kvproof.conformance.commands.mutants import mutants
from kvproof.conformance.commands.new_adapter import new_adapter
from kvproof.conformance.commands.prove import prove
from kvproof.conformance.commands.replay import replay
from kvproof.conformance.commands.shrink import shrink
from kvproof.conformance.commands.spec import spec
from kvproof.conformance.commands.tie import tie
from kvproof.conformance.commands.verify_certificate import verify_certificate

app = typer.Typer(
    name="kvproof",
    help="Prove and certify the block pool under an LLM engine's prefix cache.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,  # a traceback for whoever mends it, not a poster
)


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            print(f"kvproof {version('kvproof')}")
        except PackageNotFoundError:
            print("kvproof, run from its sources")
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Prove and certify the block pool under an LLM engine's prefix cache."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character still gets the rest


app.command()(certify)
app.command()(spec)
app.command()(prove)
app.command()(tie)
app.command()(explore)
app.command()(mutants)
app.command("certify-mutants")(certify_mutants)
app.command()(explain)
app.command("list")(list_names)
app.command()(verify_certificate)
app.command("new-adapter")(new_adapter)
app.command()(replay)
app.command()(shrink)
app.command()(bench)
