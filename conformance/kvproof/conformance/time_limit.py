"""An end to what may loop for ever."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class TooLong(BaseException):
    """The time is up; whoever catches every `Exception` does not catch this."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raises `TooLong` after so many seconds of the clock. In the main thread, one at a time."""

    def ring(number: int, frame: FrameType | None) -> NoReturn:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
