"""`kvproof new-adapter`: a commented adapter to start from."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kvproof.conformance.terminal import say

USAGE = 2

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
"""Each language's adapter is an example that works, and is tested as such."""


class Language(Enum):
    """The languages that there is an adapter in; the protocol can be spoken in any."""

    PYTHON = "python"
    CPP = "cpp"


NEXT = {
    Language.PYTHON: "cd {directory} && kvproof certify adapter:Adapter",
    Language.CPP: (
        "cd {directory} && g++ -std=c++17 -O2 -o pool_adapter pool_adapter.cpp && kvproof certify exec:./pool_adapter"
    ),
}


def new_adapter(
    directory: Annotated[Path, typer.Argument(help="Where to write it; made if it does not exist.")],
    language: Annotated[Language, typer.Option(help="What it is written in.")] = Language.PYTHON,
) -> None:
    """Write a commented adapter that works: a tiny pool, to be replaced by yours.

    It passes as it is, so that every later failure comes from what you changed. No file is overwritten. Exit code 2:
    there is such a file already, or it cannot be written.

    Examples:

      kvproof new-adapter my-adapter

      kvproof new-adapter my-adapter --language cpp
    """
    sources = sorted(file for file in (EXAMPLES / language.value).iterdir() if file.is_file())
    if there := [str(path) for source in sources if os.path.exists(path := directory / source.name)]:
        _refuse(f"{', '.join(there)} exists already and is not overwritten; name another folder")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for source in sources:
            with (directory / source.name).open("x", encoding="utf-8") as file:
                file.write(source.read_text(encoding="utf-8"))
    except OSError as error:
        _refuse(f"{error.filename or directory} cannot be written: {error.strerror}")
    console = Console()
    for source in sources:
        say(console, f"wrote {directory / source.name}")
    say(console, f"next: {NEXT[language].format(directory=directory)}")


def _refuse(why: str) -> None:
    typer.echo(f"kvproof new-adapter: {why}", err=True)
    raise typer.Exit(USAGE)
