"""Processes that work for a command of kvproof."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """A process that is started meanwhile never hears of Ctrl-C, which a terminal sends to all of them.

    It is for the one that started it to end it then, without a traceback from each.
    """
    resource_tracker.ensure_running()  # comes with the first process, and would unblock them
    before = pthread_sigmask(SIG_BLOCK, {SIGINT})
    try:
        yield
    finally:
        pthread_sigmask(SIG_SETMASK, before)
