"""Makes a process of a backend in Python: `python -m kvproof.conformance.backends.serve TARGET` speaks the protocol.

For an engine with an environment of its own, in which the suite is installed too. Whatever the backend prints goes to
standard error, so that it cannot end up between the messages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import BinaryIO

from kvproof.conformance.backends.interface import AdapterError, Backend
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
from kvproof.conformance.backends.targets import TargetError, open_backend

USAGE = 2


def serve(backend: Backend, requests: Iterable[bytes], answers: BinaryIO) -> None:
    """Answer requests until one says stop, or until there are no more. What the backend raises comes through."""
    for line in requests:
        try:
            request = read_request(line)
        except MessageError as error:
            reply: Reply = Failed(f"no request of the protocol: {error}")
        else:
            if isinstance(request, Stop):
                return
            reply = answer(backend, request)
        answers.write(encode(reply))
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
        return Failed(str(error))


def main(arguments: list[str]) -> int:
    """Serve the target that is named; the exit code."""
    if len(arguments) != 1:
        print("usage: python -m kvproof.conformance.backends.serve TARGET", file=sys.stderr)
        return USAGE
    requests, answers = _private(0, "rb"), _private(1, "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    try:
        backend = open_backend(arguments[0])
    except (TargetError, AdapterError) as error:
        print(f"serve: {error}", file=sys.stderr)
        return USAGE
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
