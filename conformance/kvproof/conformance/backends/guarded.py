"""A backend written in Python, held to what the interface says: whatever else it does is the adapter's error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from kvproof.conformance.backends.interface import AdapterError, Backend, Capabilities, Identity
from kvproof.conformance.backends.wire import Step
from kvproof.conformance.operations import Operation
from kvproof.conformance.terminal import counted
from kvproof.spec.vocabulary import PoolConfig


class GuardedBackend:
    """See `Backend`; what the backend within raises, and what it returns instead of steps, is an `AdapterError`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def identify(self) -> tuple[Identity, Capabilities]:
        """See `Backend`. What is claimed is read as it would be from JSON, so that names will do for modes."""
        with _the_adapters_fault("identify"):
            identity, claimed = self._backend.identify()
            return (
                msgspec.convert(msgspec.to_builtins(identity), Identity),
                msgspec.convert(msgspec.to_builtins(claimed), Capabilities),
            )

    def start(self, config: PoolConfig) -> None:
        """See `Backend`."""
        with _the_adapters_fault("start"):
            self._backend.start(config)

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        """See `Backend`."""
        with _the_adapters_fault("run"):
            steps = list(self._backend.run(operations, observe))
        if len(steps) != len(operations):
            raise AdapterError(
                f"{counted(len(operations), 'operations')} sent, and {counted(len(steps), 'answers')} came back"
            )
        if wrong := [step for step in steps if not isinstance(step, Step)]:
            raise AdapterError(f"run() answers with objects of Step, not of {type(wrong[0]).__name__}")
        return steps

    def close(self) -> None:
        """See `Backend`."""
        with _the_adapters_fault("close"):
            self._backend.close()


@contextmanager
def _the_adapters_fault(method: str) -> Iterator[None]:
    try:
        yield
    except AdapterError:
        raise
    except (Exception, SystemExit) as error:
        raise AdapterError(f"{method}() raised {type(error).__name__}: {words_of(error)}") from error


def words_of(error: BaseException) -> str:
    """The text of an error that a stranger raised, who may also have written how it is shown."""
    try:
        return str(error)
    except Exception:
        return "(its text cannot be shown)"
