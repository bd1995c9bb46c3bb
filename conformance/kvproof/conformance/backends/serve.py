"""Makes a process of a backend in Python: `python -m kvproof.conformance.backends.serve TARGET` speaks the protocol.

So every `module:factory` is driven; an engine with an environment of its own, in which the suite is installed too, can
be driven so by `exec:`. Whatever the backend prints goes to standard error, so that it cannot end up between the
messages; and of what it raises the traceback.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterable
from typing import BinaryIO

from kvproof.conformance.backends.guarded import GuardedBackend
from kvproof.conformance.backends.interface import AdapterError, Backend
from kvproof.conformance.backends.json_values import no_json
from kvproof.conformance.backends.messages import (
    PROTOCOL_VERSION,
    Failed,
    Hello,
    Introduction,
    MessageError,
    Reply,
    Request,
    Run,
    Start,
    Started,
    Steps,
    Stop,
    encode,
    read_request,
)
from kvproof.conformance.backends.targets import NO_BACKEND, SAYS, TargetError, open_backend
from kvproof.conformance.operations import describe

BROKEN = 3
"""The exit code of a server whose backend breaks when it is made."""


_OF_THE_SUITE = (os.path.dirname(__file__), os.path.dirname(importlib.__file__), "<frozen importlib")
"""Where the code lies that calls the backend."""


def serve(backend: Backend, requests: Iterable[bytes], answers: BinaryIO) -> None:
    """Answer requests until one says stop, or until there are no more."""
    for line in requests:
        try:
            request = read_request(line)
        except MessageError as error:
            reply: Reply = Failed(f"no request of the protocol: {error}")
        else:
            if isinstance(request, Stop):
                return
            reply = answer(backend, request)
        answers.write(_line(request, reply))
        answers.flush()


def answer(backend: Backend, request: Request) -> Reply:
    """What the backend says to a request."""
    try:
        match request:
            case Hello(protocol=protocol):
                if protocol != PROTOCOL_VERSION:
                    return Failed(f"version {protocol} of the protocol is asked for; this is {PROTOCOL_VERSION}")
                return Introduction(PROTOCOL_VERSION, *backend.identify())
            case Start(config=config):
                backend.start(config)
                return Started()
            case Run(operations=operations, observe=observe):
                return Steps(tuple(backend.run(operations, observe)))
            case Stop():
                raise ValueError("a stop has no answer")
    except AdapterError as error:
        _show_cause(error)
        return Failed(str(error))


def _line(request: Request, reply: Reply) -> bytes:
    """The line of an answer; what JSON cannot hold is a fault of the adapter, at the first operation that has it."""
    try:
        return _encoded(reply)
    except MessageError as error:
        reason = f"the answer: {error}"
    if isinstance(request, Run) and isinstance(reply, Steps):
        for operation, step in zip(request.operations, reply.steps, strict=True):
            try:
                _encoded(Steps((step,)))
            except MessageError as error:
                reason = f"the answer to {describe(operation)}: {error}"
                break
    return encode(Failed(reason))


def _encoded(reply: Reply) -> bytes:
    """The line of an answer that says what was meant. Raises `MessageError`."""
    line = encode(reply)  # first, as it cannot be if the answer holds itself
    if what := no_json(reply):
        raise MessageError(f"it cannot be written as JSON: {what}")
    return line


def _show_cause(error: Exception) -> None:
    """The traceback of what the backend raised, on standard error, without what the suite did before."""
    if error.__cause__ is not None:
        shown = traceback.TracebackException.from_exception(error.__cause__)
        shown.stack[:] = [frame for frame in shown.stack if not frame.filename.startswith(_OF_THE_SUITE)]
        print("".join(shown.format()), file=sys.stderr, end="", flush=True)


def main(arguments: list[str]) -> int:
    """Serve the target that is named; the exit code."""
    if len(arguments) != 1:
        print("usage: python -m kvproof.conformance.backends.serve TARGET", file=sys.stderr)
        return NO_BACKEND
    requests, answers = _private(0, "rb"), _private(1, "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    try:
        backend = GuardedBackend(open_backend(arguments[0]))
    except (TargetError, AdapterError) as error:
        _show_cause(error)
        print(f"{SAYS}{error}", file=sys.stderr)
        return NO_BACKEND if isinstance(error, TargetError) else BROKEN
    try:
        serve(backend, requests, answers)
    finally:
        backend.close()
    return 0


def _private(standard: int, mode: str) -> BinaryIO:
    """A copy of a standard stream, which nothing that the backend does to the standard one can reach."""
    return open(os.dup(standard), mode)  # type: ignore[return-value] # its modes are known to be binary


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
