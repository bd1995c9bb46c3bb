"""A trace run again: watched, and if it takes the events itself also by answers alone, as the stages do both."""

from __future__ import annotations

from kvproof.conformance.backends.interface import Backend, Capabilities
from kvproof.conformance.certification.lockstep import Divergence, Lockstep
from kvproof.conformance.certification.trace import Trace
from kvproof.conformance.operations import TakeEvents


def ways_to_run(trace: Trace) -> tuple[bool, ...]:
    """Whether to watch, for each time that the trace is to be run: events that are watched wait for nobody."""
    return (True, False) if any(isinstance(each, TakeEvents) for each in trace.operations) else (True,)


def divergence_of(trace: Trace, backend: Backend, capabilities: Capabilities) -> Divergence | None:
    """Where a backend differs on a trace; None if it does not. Raises `AdapterError` if the adapter breaks."""
    for watch in ways_to_run(trace):
        lockstep = Lockstep(backend, capabilities, trace.header.config, watch)
        lockstep.replay(trace.operations)
        lockstep.compare_state()
        if lockstep.divergence is not None:
            return lockstep.divergence
    return None
