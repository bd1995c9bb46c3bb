"""Standard output and standard error, so that what becomes of the one is known and of the other does not matter.

Libraries that write have ends of their own for a stream that fails: an exit code 1, a traceback, silence. Here the
failure is kept out of their hands. Nothing but the standard library is loaded.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class NotWritten(BaseException):
    """Standard output did not take what was written. No `Exception`: whoever writes cannot go on."""

    def __init__(self, error: OSError) -> None:
        self.reason = error.strerror or str(error)
        self.nobody_reads = error.errno == errno.EPIPE
        super().__init__(self.reason)


class _Output(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise NotWritten(error) from None


class _Errors(io.FileIO):
    """Where complaints go: if nobody can hear them, the exit code still says what happened."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def guard_streams() -> None:
    """From now on, raise `NotWritten` when standard output cannot be written, and nothing for standard error."""
    sys.stdout, sys.stderr = _over(sys.stdout, _Output), _over(sys.stderr, _Errors)


def discard_output() -> None:
    """What is still to be written to standard output goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _over(stream: TextIO, kind: type[io.FileIO]) -> TextIO:
    """A stream like this one that writes through a file of this kind; a closed stream, or one of no file, as it is."""
    if not isinstance(stream, io.TextIOWrapper):  # None where the program was started without it
        return stream
    at_once = stream.line_buffering or stream.write_through
    file = io.BufferedWriter(kind(stream.fileno(), "wb", closefd=False))
    return io.TextIOWrapper(file, stream.encoding, errors="backslashreplace", line_buffering=at_once)
