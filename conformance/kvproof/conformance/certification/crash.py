"""Where an adapter broke: the operations that led there, made short if it breaks there every time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

from kvproof.conformance.backends.interface import AdapterError, Backend
from kvproof.conformance.certification.candidates import plain_names
from kvproof.conformance.certification.lockstep import AdapterCrash, Lockstep
from kvproof.conformance.certification.reduce import reduced
from kvproof.conformance.certification.result import Crash
from kvproof.conformance.certification.settings import is_claimed
from kvproof.conformance.certification.shrink import PASSES
from kvproof.conformance.certification.trace import trace_of
from kvproof.conformance.operations import Operation
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import PoolConfig

Reopen = Callable[[], Backend]
"""Makes the backend anew, after its adapter broke. Raises `AdapterError`."""

SECONDS = 60.0
"""For so long a trace is made shorter: each time that it still breaks the adapter, that has to be started anew."""


def crash_of(broken: AdapterCrash, stage: str, reopen: Reopen) -> Crash:
    """What there is to say of a crash; its trace is the shortest that was found, if the adapter breaks there again."""
    small = _Reopened(reopen, broken).shortest()
    shown = broken if small is None else small
    return Crash(
        stage=stage,
        error=str(broken),
        found_operations=len(broken.operations),
        again=small is not None,
        trace=trace_of(shown.config, shown.operations),
    )


def kind_of(error: AdapterError) -> str:
    """What two errors of one kind have in common: the first line, but for names and numbers in it."""
    first = str(error).partition("\n")[0]
    raised = re.search(r"raised \w+", first)
    return first[: raised.end()] if raised else re.sub(r"'[^']*'|\d+", "_", first)


class _Reopened:
    """Runs candidates on a backend that is made anew whenever its adapter broke."""

    def __init__(self, reopen: Reopen, broken: AdapterCrash) -> None:
        self._reopen, self._broken = reopen, broken
        self._kind, self._watched = kind_of(broken), broken.watched
        self._backend: Backend | None = None
        self._ends = time.monotonic() + SECONDS

    def shortest(self) -> AdapterCrash | None:
        """The shortest trace that was found; None if the adapter does not break again on the one that broke it."""
        try:
            again = self._shows(self._broken.config, lambda world: iter(self._broken.operations))
            return None if again is None else reduced(again, self._shows, PASSES, plain_names)
        finally:
            self._close()

    def _shows(self, config: PoolConfig, operations: Callable[[World], Iterator[Operation]]) -> AdapterCrash | None:
        if time.monotonic() > self._ends:
            return None
        try:
            if self._backend is None:
                self._backend = self._reopen()
            _, capabilities = self._backend.identify()
            if not is_claimed(config, capabilities):
                return None
            lockstep = Lockstep(self._backend, capabilities, config, self._watched)
            lockstep.run(operations(lockstep.model.world))
            lockstep.compare_state()
        except AdapterError as error:
            self._close()
            return error if isinstance(error, AdapterCrash) and kind_of(error) == self._kind else None
        return None

    def _close(self) -> None:
        if self._backend is not None:
            self._backend.close()
            self._backend = None
