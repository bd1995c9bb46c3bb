"""The program `kvproof`, around its commands: however it ends, its exit code is one that means that.

The commands say what they found by their exit codes, and 1 says that something is wrong with what was examined. So
nothing that a command did not expect may end with it. The commands are loaded within, as that takes a moment in which
the user may have enough.
"""

from __future__ import annotations

import signal
import sys
import traceback

from kvproof.conformance.streams import NotWritten, discard_output, guard_streams

NOT_WRITTEN = 2
"""As for any other output that cannot be written."""

ERROR_OF_KVPROOF = 70
"""What `sysexits.h` has for an internal software error."""

INTERRUPTED, NOBODY_READS = 128 + signal.SIGINT, 128 + signal.SIGPIPE
"""As shells have it for what a signal ends."""

FRAMES = 40
"""An endless recursion has a thousand."""


def main() -> int | str | None:
    """Run the command line; the exit code, as `sys.exit` takes it."""
    guard_streams()
    try:
        code = _run_commands()
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except NotWritten as error:
        discard_output()
        if error.nobody_reads:  # `kvproof spec | head`
            return NOBODY_READS
        _say(f"standard output cannot be written: {error.reason}")
        return NOT_WRITTEN
    except Exception as error:
        _report(error)
        return ERROR_OF_KVPROOF
    return code


def _run_commands() -> int | str | None:
    from kvproof.conformance.cli import app

    try:
        app(prog_name="kvproof")
    except SystemExit as end:
        if end.code == INTERRUPTED:  # so typer ends at Ctrl-C, without a word
            raise KeyboardInterrupt from None
        return end.code
    return 0


def _report(error: Exception) -> None:
    from kvproof.conformance.terminal import printable

    _tell(printable("".join(traceback.format_exception(error, limit=-FRAMES))).rstrip())
    _say("this is an error of kvproof itself, and says nothing about what was to be examined; please report it")


def _say(text: str) -> None:
    _tell(f"kvproof: {text}")


def _tell(text: str) -> None:
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
