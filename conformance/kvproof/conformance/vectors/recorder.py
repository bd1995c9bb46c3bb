"""Runs the clause tests, and records what they do to pools and requests.

Pools, requests and hashers that the tests make are of classes that tell the recorder what is called. The tests have to
be imported after `Recorder.install`, so this is for a process of its own.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kvproof.reference
import kvproof.reference.hybrid
from kvproof.conformance.large import MOST_OBSERVED
from kvproof.conformance.mutation.clause_tests import PYTEST_ARGUMENTS
from kvproof.conformance.operations import Admit, Advance, Fail, Match, Release, Split
from kvproof.conformance.vectors.not_shown import NOT_RECORDED
from kvproof.conformance.vectors.tape import Tape, Unsayable, request_change, request_operation
from kvproof.reference import BlockPool, PrefixHasher, Request
from kvproof.reference.ghost import Ghost
from kvproof.reference.hybrid import HybridCache
from kvproof.spec.errors import PoolError
from kvproof.spec.vocabulary import ExtraKey, GroupConfig, GroupKind, HashAlgorithm, PoolConfig

ABOUT_HASHES = ("POS-", "HASH-", "REQ-", "INV-HASHES-")
"""Clauses whose tests look at the hashes of requests."""

OF_DAMAGE = "test_a_damaged_pool_is_reported"
"""Tests that try the checks of the invariants on a pool that they damage, or its consumer; they show nothing else."""

MOST_TAPES = 4
"""A test that has so many tapes gets none for the pools that it clones; random runs go on cloning theirs."""

_METHODS = (
    *("allocate", "touch", "free", "lookup", "find", "contains", "full_key"),
    *("cache_full_blocks", "cache_partial_block", "evict", "move", "reset", "take_events", "write", "copy", "read"),
    *("begin_step", "commit", "attach", "rollback", "finish"),
)
_OVER_ALL_GROUPS = ("match", "split", "admit", "advance", "release", "rollback", "commit", "truncate", "fail")
"""Methods of the hybrid cache."""


class RecordingError(Exception):
    """The tests could not be run; the text says why."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One tape of a test: the test's name, the clauses that it carries, the tape."""

    test: str
    clauses: tuple[str, ...]
    tape: Tape


class Recorder:
    """The tapes of the test that runs, and the recordings of those that are over; a plugin of pytest.

    `lost` has, for each pool or test that gave no tape, why.
    """

    def __init__(self) -> None:
        self.recordings: list[Recording] = []
        self.lost: list[str] = []
        self.tests = 0
        self._tapes: list[Tape] = []
        self._asks_hashes = False
        self._runs = False
        self._inside = False
        self._thread = threading.get_ident()

    def install(self) -> None:
        """From now on whoever imports the reference's classes gets those that tell this recorder."""
        classes = {"BlockPool": _recording_pool(self), "Request": _recording_request(self)}
        for name, kind in {**classes, "PrefixHasher": _RecordingHasher}.items():
            setattr(kvproof.reference, name, kind)
        kvproof.reference.hybrid.HybridCache = _recording_cache(self)  # type: ignore[misc]

    # What the recording classes tell

    def pool_made(self, pool: BlockPool) -> None:
        """A test made a pool."""
        config = pool.config
        if not self._runs:
            return
        if config.num_blocks > MOST_OBSERVED:
            self.lost.append("a pool too large to be observed")
        elif config.hash_algorithm is HashAlgorithm.XXH3_128 and config.hash_seed is None:
            self.lost.append("a random seed")
        else:
            tape = Tape(config, pool.hasher, pool, self._asks_hashes)
            tape.look()
            self._tapes.append(tape)

    def pool_cloned(self, pool: BlockPool, twin: BlockPool) -> None:
        """A test copied a pool."""
        tape = self._tape(pool) if self._runs else None
        if tape is not None and len(self._tapes) < MOST_TAPES:
            self._tapes.append(tape.twin(twin))

    def cache_made(self, cache: HybridCache) -> None:
        """A test runs requests over a pool."""
        tape = self._tape(cache.pool) if self._listens() else None
        if tape is not None and tape.cache is None:
            tape.cache = cache
            tape.look()

    def cache_refused(self, pool: object, error: PoolError) -> None:
        """A test asked for requests to run over a pool that has no settings for it.

        The language has no cache that could be made or refused: there each of its operations is refused.
        """
        tape = self._tape(pool) if self._listens() and isinstance(pool, BlockPool) else None
        if tape is None or tape.config.hybrid is not None:
            return
        for name in tape.requests:
            of_the_cache = Match(name), Split(name, 0, 1, 1, 0), Admit(name, 1), Advance(name, 1), Release(name)
            for operation in (*of_the_cache, Fail(1)):
                self._note(tape, operation, None, error)

    def call(
        self,
        subject: BlockPool | HybridCache,
        method: Callable[..., Any],
        arguments: Sequence[object],
        named: Any,
    ) -> Any:
        """Run a call of a test, and note it if it goes to a pool with a tape, or to what runs over one."""
        tape = self._tape(subject) if self._listens() else None
        if tape is None or tape.is_over:
            return method(subject, *arguments, **named)
        bound = _signature(method).bind(subject, *arguments, **named)
        bound.apply_defaults()
        said = dict(list(bound.arguments.items())[1:])
        name, operation, reason = method.__name__, None, ""
        try:
            operation = tape.sentence(name, said)
        except Unsayable as unsayable:
            reason = str(unsayable)
        self._inside = True
        try:
            result, error = method(subject, *arguments, **named), None
        except PoolError as refusal:
            result, error = None, refusal
        finally:
            self._inside = False
        if operation is None:
            tape.note_unsaid(name, reason, error is not None)
        else:
            self._note(tape, operation, result, error)
        if error is not None:
            raise error
        return result

    def request_made(self, request: Request) -> None:
        """A test made a request: of a pool with a tape, or one that stands alone."""
        if not self._listens():
            return
        for tape in self._tapes_of(request.hasher):
            try:
                tape.arrive(request)
            except Unsayable:
                tape.left_out += 1  # if it is used, the tape will find out

    def request_refused(self, error: PoolError, name: object, tokens: Any, hasher: object, extra_keys: Any) -> None:
        """A test asked for a request that there cannot be."""
        if not self._listens() or not isinstance(hasher, PrefixHasher):
            return
        for tape in self._tapes_of(hasher):
            try:
                tape.note(request_operation(name, tokens, extra_keys), error=type(error).__name__)
            except Unsayable:
                tape.left_out += 1

    def change_request(self, request: Request, method: Callable[..., None], argument: str, value: object) -> None:
        """Run a change of a request, and note it on every tape that knows it."""
        listening = [tape for tape in self._tapes if not tape.is_over] if self._listens() else []
        known = [(tape, name) for tape in listening if (name := tape.name_of(request)) is not None]
        said = [(tape, name, _change(method.__name__, name, argument, value)) for tape, name in known]
        error: PoolError | None = None
        try:
            method(request, value)
        except PoolError as refusal:
            error = refusal
        for tape, name, operation in said:
            if operation is None:
                tape.note_unsaid(method.__name__, "tokens that cannot be said", error is not None)
                continue
            self._note(tape, operation, None, error)
            if error is None:
                tape.ask_hashes(name)
        if error is not None:
            raise error

    def key_made(self, request: Request, key: bytes, group: int, position: int) -> None:
        """A test made a key."""
        if self._listens():
            for tape in self._tapes:
                tape.remember(request, key, group, position)

    def _listens(self) -> bool:
        if threading.get_ident() != self._thread:
            for tape in self._tapes:
                tape.trouble = tape.trouble or "several threads"
            return False
        return self._runs and not self._inside

    def _note(self, tape: Tape, operation: Any, result: object, error: PoolError | None) -> None:
        self._inside = True
        tape.note(operation, result, None if error is None else type(error).__name__)
        self._inside = False

    def _tape(self, subject: BlockPool | HybridCache) -> Tape | None:
        return next((tape for tape in self._tapes if subject is tape.pool or subject is tape.cache), None)

    def _tapes_of(self, hasher: PrefixHasher) -> list[Tape]:
        """The tapes of the pools with this very hasher; else the one for requests alone that are hashed so."""
        if of_pools := [tape for tape in self._tapes if tape.pool is not None and tape.hasher is hasher]:
            return [tape for tape in of_pools if not tape.is_over]
        if not isinstance(hasher, _RecordingHasher):
            return []
        alone = [tape for tape in self._tapes if tape.pool is None and tape.hasher == hasher]
        if not alone and hasher.config is not None:
            alone = [Tape(hasher.config, hasher, None, asks_hashes=True)]
            self._tapes += alone
        return alone

    # What pytest tells

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out tests of what no vector can show."""
        wanted = [item for item in items if not set(_clauses_of(item)) <= NOT_RECORDED]
        items[:] = [item for item in wanted if not item.name.startswith(OF_DAMAGE)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """A test begins."""
        self._tapes, self._inside, self._runs = [], False, True
        self._asks_hashes = any(clause_id.startswith(ABOUT_HASHES) for clause_id in _clauses_of(item))
        self.tests += 1
        try:
            return (yield)
        finally:
            self._runs = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """A test ran: if it passed, keep its tapes."""
        try:
            yield
        except BaseException:
            self.lost.append("a test that fails while it is recorded")
            raise
        finally:
            self._runs = False
        if not self._tapes:
            self.lost.append("a test without a pool")
        for tape in self._tapes:
            _check_end(tape)
            self.recordings.append(Recording(_name_of(item), _clauses_of(item), tape))


def record(folder: Path) -> Recorder:
    """Run the clause tests in this folder and record them; raises `RecordingError`."""
    recorder = Recorder()
    recorder.install()
    status = pytest.main([str(folder), *PYTEST_ARGUMENTS, "--assert=plain"], plugins=[recorder])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RecordingError(f"pytest ended with {pytest.ExitCode(status).name}")
    return recorder


@functools.cache
def _signature(method: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(method)


def _check_end(tape: Tape) -> None:
    """What the pool is at the end, the last call left; otherwise somebody changed it behind its back."""
    before = tape.whole
    tape.look()
    if before is not None and not tape.is_over and tape.whole != before:
        tape.trouble = tape.trouble or "the pool was changed behind its back"


def _change(method: str, name: str, argument: str, value: object) -> Any:
    try:
        return request_change(method, name, argument, value)
    except Unsayable:
        return None


def _clauses_of(item: pytest.Item) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for marker in item.iter_markers("clause") for name in marker.args))


def _name_of(item: pytest.Item) -> str:
    chapter = item.path.stem.removeprefix("test_")
    return f"{chapter}/{item.name.removeprefix('test_')}"


def _recording_pool(recorder: Recorder) -> type[BlockPool]:
    class RecordingPool(BlockPool):
        """A pool that tells the recorder what it is asked."""

        def __init__(self, config: PoolConfig, ghost: Ghost | None = None) -> None:
            super().__init__(config, ghost)
            recorder.pool_made(self)

        def clone(self) -> RecordingPool:
            """See `BlockPool`."""
            twin = super().clone()
            recorder.pool_cloned(self, twin)
            return twin

    for name in _METHODS:
        setattr(RecordingPool, name, _told(recorder, getattr(BlockPool, name)))
    return RecordingPool


def _recording_cache(recorder: Recorder) -> type[HybridCache]:
    class RecordingCache(HybridCache):
        """A hybrid cache that tells the recorder what it is asked."""

        def __init__(self, pool: BlockPool) -> None:
            try:
                super().__init__(pool)
            except PoolError as refusal:
                recorder.cache_refused(pool, refusal)
                raise
            recorder.cache_made(self)

        def clone(self, pool: BlockPool) -> HybridCache:
            """See `HybridCache`; a copy over the same pool is one to look at, and is not recorded."""
            twin = super().clone(pool)
            if pool is not self.pool:
                twin.__class__ = RecordingCache
                recorder.cache_made(twin)
            return twin

    for name in _OVER_ALL_GROUPS:
        setattr(RecordingCache, name, _told(recorder, getattr(HybridCache, name)))
    return RecordingCache


def _told(recorder: Recorder, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def told(self: BlockPool | HybridCache, /, *arguments: Any, **named: Any) -> Any:
        return recorder.call(self, method, arguments, named)

    return told


def _recording_request(recorder: Recorder) -> type[Request]:
    class RecordingRequest(Request):
        """A request that tells the recorder of itself, of its changes, and of keys that are made of it."""

        def __init__(
            self,
            request_id: str,
            tokens: Sequence[int],
            hasher: PrefixHasher,
            extra_keys: Sequence[ExtraKey] = (),
        ) -> None:
            try:
                super().__init__(request_id, tokens, hasher, extra_keys)
            except PoolError as refusal:
                recorder.request_refused(refusal, request_id, tokens, hasher, extra_keys)
                raise
            recorder.request_made(self)

        def append(self, tokens: Sequence[int]) -> None:
            """See `Request`."""
            recorder.change_request(self, Request.append, "tokens", tokens)

        def truncate(self, num_tokens: int) -> None:
            """See `Request`."""
            recorder.change_request(self, Request.truncate, "num_tokens", num_tokens)

        def key_at(self, group: int, position: int) -> bytes | None:
            """See `Request`."""
            key = super().key_at(group, position)
            if key is not None:
                recorder.key_made(self, key, group, position)
            return key

    return RecordingRequest


class _RecordingHasher(PrefixHasher):
    """A hasher that a test made itself; `config` is that of a pool which hashes so, None if its seed is random."""

    def __init__(self, algorithm: HashAlgorithm, hash_block_size: int, seed: bytes | None = None) -> None:
        super().__init__(algorithm, hash_block_size, seed)
        group = GroupConfig(GroupKind.FULL_ATTENTION, hash_block_size)
        is_fixed = seed is not None or algorithm is HashAlgorithm.SHA256
        self.config = PoolConfig(2, hash_block_size, (group,), algorithm, seed) if is_fixed else None
