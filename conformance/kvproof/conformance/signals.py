"""What ends a command from outside: the signals that a shell, a CI job or a batch system sends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import typer

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Those that end a process unless it does something about it; Ctrl-C is a `KeyboardInterrupt` already."""

OF_SIGNALS = 128
"""The exit code of a command that a signal ended is this and the number of the signal, as shells have it."""


@contextmanager
def ending_in_order(command: str) -> Iterator[None]:
    """While this lasts, a signal that ends the process is a `SystemExit`: backends are closed, half a folder removed.

    A signal that is ignored, as `nohup` has it, stays ignored. Signals after the first one change nothing.
    """
    if threading.current_thread() is not threading.main_thread():  # only there can a signal be handled
        yield
        return
    caught = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> NoReturn:
        for each in caught:
            signal.signal(each, signal.SIG_IGN)
        typer.echo(f"kvproof {command}: ended by {signal.Signals(number).name}", err=True)
        raise SystemExit(OF_SIGNALS + number)

    for number in caught:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
