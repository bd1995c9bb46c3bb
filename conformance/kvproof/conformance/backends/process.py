"""A backend in a process of its own, in whatever language: `exec:COMMAND`."""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn, TypeVar

import msgspec

from kvproof.conformance.backends.claims import check_claims
from kvproof.conformance.backends.interface import (
    AdapterError,
    Answers,
    Capabilities,
    ConcurrentBackend,
    Identity,
    Level,
)
from kvproof.conformance.backends.messages import (
    LONGEST_LINE,
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
    checked_result,
    encode,
    read_reply,
    shown,
)
from kvproof.conformance.backends.wire import IF_HYBRID, Step
from kvproof.conformance.operations import Operation, name_of
from kvproof.conformance.terminal import counted
from kvproof.spec.vocabulary import PoolConfig

ANSWER_TIMEOUT_S = 10.0
"""Seconds for the answer to a batch."""

HELLO_TIMEOUT_S = 60.0
"""Seconds for the first answer: an engine takes its time to load."""

GRACE_S = 1.0
"""Seconds for an adapter to end after it was asked to, or to leave its last words."""

KEPT_BYTES = 4000
"""Bytes of standard error that are kept for the text of an error."""

CHUNK = 2**16

NOTHING = memoryview(b"")

T = TypeVar("T", bound=Reply)


class ProcessBackend(ConcurrentBackend):
    """See `Backend`. The command is split like a shell's, but no shell runs it; it gets a process group of its own.

    Errors name it by its command, or by how it is `called`. Raises `AdapterError` with the adapter's last words
    whenever the adapter does anything but answer. After that it is ended, and every further call says so.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        timeout_s: float = ANSWER_TIMEOUT_S,
        hello_timeout_s: float = HELLO_TIMEOUT_S,
        called: str = "",
    ) -> None:
        self._name = called or (command if isinstance(command, str) else shlex.join(command))
        self._timeout_s = timeout_s
        self._hello_timeout_s = hello_timeout_s
        self._introduction: Introduction | None = None
        self._broken = ""
        self._under_way: _Exchange | None = None
        try:
            self._pipes = _Pipes(shlex.split(command) if isinstance(command, str) else command)
        except (OSError, ValueError) as error:
            raise AdapterError(f"the adapter {self._name!r} cannot be started: {error}") from None
        weakref.finalize(self, self._pipes.kill)  # for whoever forgets to close it

    def identify(self) -> tuple[Identity, Capabilities]:
        """See `Backend`."""
        if self._introduction is None:
            hello = Hello(PROTOCOL_VERSION, _suite_version())
            answer = self._ask(hello, Introduction, self._hello_timeout_s)
            if answer.protocol != PROTOCOL_VERSION:
                self._fail(f"speaks version {answer.protocol} of the protocol; this is version {PROTOCOL_VERSION}")
            try:
                check_claims(answer.capabilities)
            except AdapterError as error:
                self._fail(f"introduced itself, but {error}")
            self._introduction = answer
        return self._introduction.identity, self._introduction.capabilities

    def start(self, config: PoolConfig) -> None:
        """See `Backend`; the process stays the same."""
        self.identify()
        self._ask(Start(config), Started, self._timeout_s)

    def begin(self, operations: Sequence[Operation], observe: bool) -> Answers:
        """See `ConcurrentBackend`; one line there and one back, however many operations. Raises `MessageError` for an
        operation that JSON cannot hold.
        """
        _, capabilities = self.identify()
        exchange = self._send(Run(tuple(operations), observe), self._timeout_s)

        def answers() -> list[Step]:
            steps = self._reply(exchange, Steps).steps
            if len(steps) != len(operations):
                asked, given = counted(len(operations), "operations"), counted(len(steps), "steps")
                self._fail(f"answered {asked} with {given}; each has one")
            try:
                return [
                    _checked(operation, step, observe, capabilities)
                    for operation, step in zip(operations, steps, strict=True)
                ]
            except MessageError as error:
                self._fail(f"gave a wrong answer: {error}")

        return answers

    def close(self) -> None:
        """Ask the adapter to end; what is left of it after a moment is killed."""
        try:
            if not self._broken:
                self._broken = "was closed"
                self._pipes.ask_to_end(encode(Stop()))
        finally:
            self._pipes.kill()

    def how_it_ended(self) -> tuple[int | None, str]:
        """The exit code of a process that has ended, and the end of its standard error."""
        return self._pipes.exit_code(), self._pipes.last_words()

    def _ask(self, request: Request, wanted: type[T], timeout_s: float) -> T:
        return self._reply(self._send(request, timeout_s), wanted)

    def _send(self, request: Request, timeout_s: float) -> _Exchange:
        """Send a request, once the line that answers the one before is here: an adapter gets them one at a time."""
        exchange, line = _Exchange(request, timeout_s), encode(request)
        if self._under_way is not None:
            self._fetch(self._under_way)
        self._check_lives()
        with self._whole(exchange):
            self._pipes.send(line)
        self._under_way = exchange
        return exchange

    def _fetch(self, exchange: _Exchange) -> bytes:
        """The line that answers a request."""
        if exchange.line is None:
            self._check_lives()
            with self._whole(exchange):
                exchange.line = self._pipes.receive(exchange.timeout_s)
            self._under_way = None
        return exchange.line

    def _reply(self, exchange: _Exchange, wanted: type[T]) -> T:
        line = self._fetch(exchange)
        with self._whole(exchange):
            answer = read_reply(line)
        name = _name(exchange.request)
        if isinstance(answer, Failed):
            self._fail(f"reports at {name}: {answer.reason}")
        if not isinstance(answer, wanted):
            self._fail(f"answered {name} with {_name(answer)}; the answer is {_name(wanted)}")
        return answer

    @contextmanager
    def _whole(self, exchange: _Exchange) -> Iterator[None]:
        """A part of an exchange; one that fails is the last one."""
        name = _name(exchange.request)
        try:
            yield
        except TimeoutError as error:
            self._fail(f"gave no answer to {name} in {exchange.timeout_s:g} s: {error}")
        except EOFError as error:
            self._fail(f"gave no answer to {name}: {error}")
        except MessageError as error:
            self._fail(f"answered {name} with what is no message of the protocol: {error}")
        except BaseException:  # interrupted: no later answer could be told from this one
            self._broken = "was interrupted"
            self._pipes.kill()
            raise

    def _check_lives(self) -> None:
        if self._broken:
            raise AdapterError(f"the adapter {self._name!r} {self._broken}, and is gone")

    def _fail(self, what: str) -> NoReturn:
        self._broken = what
        words = self._pipes.last_words()
        self._pipes.kill()
        said = f"its standard error ends with:\n{words}" if words else "it wrote nothing to its standard error"
        raise AdapterError(f"the adapter {self._name!r} {what}\n{said}")


@dataclass(slots=True)
class _Exchange:
    """A request, and the line that answers it, once that is here."""

    request: Request
    timeout_s: float
    line: bytes | None = None


class _Pipes:
    """A process and its three pipes; nothing here waits longer than it was told to."""

    def __init__(self, command: Sequence[str]) -> None:
        if not command:
            raise ValueError("the command is empty")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        self._stdin, self._stdout, self._stderr = (
            stream.fileno() for stream in (self._process.stdin, self._process.stdout, self._process.stderr) if stream
        )
        for file in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(file, False)
        self._size, self._unsent = 0, NOTHING
        self._is_deaf = False
        self._read = bytearray()
        self._words = b""
        self._open = {self._stdout, self._stderr}
        self._alive = True

    def send(self, line: bytes) -> None:
        """Write a line, or as much of it as the pipe takes; the rest is written while the answer is waited for.

        Raises `MessageError` if something is read before anything was asked.
        """
        self._pump(NOTHING, 0)
        if self._read:
            raise MessageError(f"a line that nobody asked for: {shown(bytes(self._read))}")
        self._size, self._unsent = len(line), self._write(memoryview(line))

    def receive(self, timeout_s: float) -> bytes:
        """Read a line, the answer to what was sent.

        Raises `TimeoutError`; `EOFError` if the process closed its output; `MessageError` for what no line may be.
        """
        deadline, searched = time.monotonic() + (GRACE_S if self._is_deaf else timeout_s), 0
        while (end := self._read.find(b"\n", searched)) < 0:
            searched = len(self._read)
            if searched > LONGEST_LINE:
                raise MessageError(f"a line of more than {LONGEST_LINE} bytes: {shown(bytes(self._read))}")
            if self._stdout not in self._open:
                raise EOFError(self._how_it_ended())
            if (left := deadline - time.monotonic()) <= 0:
                if self._is_deaf:
                    raise EOFError("it closed its standard input, but goes on running")
                raise TimeoutError(self._what_it_did())
            self._unsent = self._pump(self._unsent, left)
        if self._unsent:
            raise MessageError(f"a line before the request was read: {shown(bytes(self._read))}")
        answer, rest = bytes(self._read[:end]), bytes(self._read[end + 1 :])
        if rest:
            raise MessageError(f"more than one line: {shown(answer)} is followed by {shown(rest)}")
        self._read.clear()
        return answer

    def ask_to_end(self, line: bytes) -> None:
        """Write the last line, close the input, and give the process a moment to end."""
        with suppress(OSError):  # it may not listen; it is killed all the same
            os.write(self._stdin, line)
        self._close_input()
        self._wait(GRACE_S)

    def last_words(self) -> str:
        """The end of what the process wrote to its standard error."""
        deadline = time.monotonic() + GRACE_S
        ended = self._wait(0)
        if not self._alive:
            self._open.clear()  # its pipes are closed, and all that was read of them is here
        while self._stderr in self._open and (left := deadline - time.monotonic()) > 0:
            before = len(self._words)
            self._pump(NOTHING, left if ended else 0)
            if not ended and len(self._words) == before:
                break  # it lives and has nothing more to say
        return self._words.decode(errors="backslashreplace").strip()

    def exit_code(self) -> int | None:
        """The exit code, None while the process runs."""
        return self._process.returncode

    def kill(self) -> None:
        """End the process and all that it started, and forget it."""
        if not self._alive:
            return
        self._alive = False
        with suppress(OSError):  # nobody may be left
            os.killpg(self._process.pid, signal.SIGKILL)
        self._wait(GRACE_S)
        self._close_input()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _pump(self, unsent: memoryview, timeout_s: float) -> memoryview:
        """Wait until something can be read or written, and do so once; what is still unsent."""
        with selectors.PollSelector() as ready:
            for file in self._open:
                ready.register(file, selectors.EVENT_READ)
            if unsent:
                ready.register(self._stdin, selectors.EVENT_WRITE)
            for key, _ in ready.select(timeout_s):
                if key.fd == self._stdin:
                    unsent = self._write(unsent)
                elif not (chunk := os.read(key.fd, CHUNK)):
                    self._open.discard(key.fd)
                elif key.fd == self._stdout:
                    self._read += chunk
                else:
                    self._words = (self._words + chunk)[-KEPT_BYTES:]
        return unsent

    def _write(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(self._stdin, unsent) :]
        except BlockingIOError:
            return unsent
        except OSError:  # a closed pipe: whether it ended too is seen at its output
            self._is_deaf = True
            return unsent[:0]

    def _wait(self, timeout_s: float) -> bool:
        """Whether the process has ended, or ends in time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _how_it_ended(self) -> str:
        if not self._wait(GRACE_S):
            return "it closed its standard output, but goes on running"
        code, rest = self._process.returncode, f" after {shown(bytes(self._read))}" if self._read else ""
        return f"it ended with exit code {code}{rest}" if code >= 0 else f"it was killed by signal {-code}{rest}"

    def _what_it_did(self) -> str:
        if self._unsent:
            return f"it has read {self._size - len(self._unsent)} of the {self._size} bytes of the request at most"
        if self._read:
            return f"it began a line but did not end it (is the output flushed?): {shown(bytes(self._read))}"
        return "it has written nothing since (is the output flushed after each line?)"

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


def _checked(operation: Operation, step: Step, observe: bool, capabilities: Capabilities) -> Step:
    """A step whose result has the operation's own type. Raises `MessageError` for a step that was not asked for so."""
    name = name_of(operation)
    if (step.seen is not None or step.events is not None) and not observe:
        raise MessageError(f"{name} came with an observation, and none was asked for")
    if observe:
        parts = [part for part in capabilities.observes if part != IF_HYBRID]
        missing = [part for part in parts if step.seen is None or getattr(step.seen, part) is None]
        if missing:
            raise MessageError(f"{name} came without {', '.join(missing)}, which the capabilities claim to show")
        if step.events is None and Level.EVENTS in capabilities.levels:
            raise MessageError(f"{name} came without events, and level E is claimed; no event is an empty list")
    answer = step.answer
    result = None if answer.error is not None else checked_result(name, answer.result)
    return (
        step
        if result is answer.result
        else msgspec.structs.replace(step, answer=msgspec.structs.replace(answer, result=result))
    )


def _name(message: Request | Reply | type[msgspec.Struct]) -> str:
    return f"`{message.__struct_config__.tag}`"


def _suite_version() -> str:
    try:
        return version("kvproof")
    except PackageNotFoundError:  # run from its sources
        return "unknown"
