"""The backend as the conformance suite drives it: `kvproof certify gpu`. Only the suite imports this module."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from kvproof.conformance.backends.interface import EVERY_POOL, AdapterError, Capabilities, Identity, Level
from kvproof.conformance.backends.wire import (
    PARTS,
    Admitted,
    Answer,
    ClearedEvent,
    Entry,
    Hit,
    Holders,
    Matched,
    Observation,
    PrefixName,
    RemovedEvent,
    Running,
    Step,
    StoredEvent,
    WireEvent,
)
from kvproof.conformance.operations import (
    AddRequest,
    Admit,
    Advance,
    Allocate,
    Append,
    Attach,
    BeginStep,
    CacheFullBlocks,
    CachePartialBlock,
    Commit,
    Contains,
    Copy,
    Evict,
    Extra,
    Fail,
    Find,
    Finish,
    Free,
    FullKey,
    Hashes,
    KeyRef,
    Lookup,
    Match,
    Move,
    Operation,
    Read,
    Release,
    Reset,
    Rollback,
    Split,
    TakeEvents,
    Touch,
    Truncate,
    Write,
    name_of,
    names_of_operations,
)
from kvproof.gpu_backend.data_plane import DataPlane
from kvproof.gpu_backend.hybrid import HybridCache
from kvproof.gpu_backend.hybrid import Running as RunningRequest
from kvproof.gpu_backend.observation import BlockState, PoolState
from kvproof.gpu_backend.pool import BlockPool
from kvproof.gpu_backend.refusals import shown
from kvproof.gpu_backend.request import Request
from kvproof.spec.errors import InvalidArgument, InvalidGroup, NotAligned, OutOfRange
from kvproof.spec.events import Cleared, Event, PrefixHash, Removed, Stored
from kvproof.spec.vocabulary import (
    GROUP_ID_BYTES,
    CommitMode,
    ExtraKey,
    ExtraKeySource,
    GroupKind,
    HashAlgorithm,
    HolderMode,
    Key,
    PoolConfig,
    Residency,
)

IDENTITY = Identity("kvproof-gpu-backend (on the CPU)", version("kvproof"), "C++", files=("kvproof.gpu_backend",))

CAPABILITIES = Capabilities(
    levels=tuple(Level),
    operations=tuple(name for name in names_of_operations() if name not in EVERY_POOL),
    observes=PARTS,
    commit=tuple(CommitMode),
    residency=tuple(Residency),
    holders=tuple(HolderMode),
    group_kinds=tuple(GroupKind),
    hashes=tuple(algorithm.value for algorithm in HashAlgorithm),
    most_groups=4,
)

SOURCES = {source.name.lower(): source for source in ExtraKeySource}


class GpuBackend:
    """See `kvproof.conformance.backends.interface.Backend`."""

    def identify(self) -> tuple[Identity, Capabilities]:
        """Who this is, and what it claims."""
        return IDENTITY, CAPABILITIES

    def start(self, config: PoolConfig) -> None:
        """Make a new pool; the old one is forgotten, with its requests."""
        self._pool = BlockPool(config)
        self._data = DataPlane(self._pool)
        self._cache = None if config.hybrid is None else HybridCache(self._pool)
        self._requests: dict[str, Request] = {}

    def run(self, operations: Sequence[Operation], observe: bool) -> list[Step]:
        """Run operations in order; with `observe`, show state and events after each."""
        return [self._step(operation, observe) for operation in operations]

    def close(self) -> None:
        """There are no more calls."""

    def _step(self, operation: Operation, observe: bool) -> Step:
        try:
            answer = Answer(self._apply(operation))
        except AdapterError:
            raise
        except Exception as error:  # a refusal; or a crash, which is an answer too, and a wrong one
            answer = Answer(error=type(error).__name__, message=str(error))
        if not observe:
            return Step(answer)
        seen = view(self._pool.observe(), self._cache)
        return Step(answer, seen, tuple(map(view_of_event, self._pool.take_events())))

    def _apply(self, operation: Operation) -> object:
        pool = self._pool
        match operation:
            case AddRequest() | Append() | Truncate():
                self._change_request(operation)
            case Lookup() | Find() | Contains() | FullKey() | Hashes() | TakeEvents():
                return self._ask(operation)
            case BeginStep() | Commit() | Attach() | Rollback() | Finish():
                return self._stepping(operation)
            case Match() | Split() | Admit() | Advance() | Release() | Fail():
                return self._run_request(operation)
            case Allocate(holder=holder, n=n):
                return pool.allocate(n, holder)
            case Touch(holder=holder, block=block, key=ref):
                pool.touch(block, self._key(ref), holder)
            case Free(holder=holder, blocks=blocks):
                pool.free(blocks, holder)
            case CacheFullBlocks():
                self._cache_full_blocks(operation)
            case CachePartialBlock(request=name, block=block, position=position, group=group, replace=replace):
                pool.cache_partial_block(self._request(name), block, position, group, replace)
            case Evict(blocks=blocks):
                pool.evict(blocks)
            case Reset():
                pool.reset()
            case Write() | Copy() | Move() | Read():
                return self._content(operation)
            case _:
                raise AdapterError(f"{name_of(operation)} is not claimed, so it should not be asked for")
        return None

    def _content(self, operation: Write | Copy | Move | Read) -> list[int] | None:
        """What blocks hold: the pool says whether it may be, then the memory is changed."""
        pool, data = self._pool, self._data
        match operation:
            case Write(request=name, block=block, position=position, group=group, rows=rows):
                pool.write(self._request(name), block, position, group)
                data.write(block, group, rows)
            case Copy(holder=holder, src=src, dst=dst):
                pool.copy(src, dst, holder)
                data.copy(src, dst)
            case Move(src=src, dst=dst):
                pool.move(src, dst)
                data.copy(src, dst)
            case Read(holder=holder, block=block):
                pool.read(block, holder)
                return data.read(block)
        return None

    def _stepping(self, operation: BeginStep | Commit | Attach | Rollback | Finish) -> object:
        pool = self._pool
        match operation:
            case BeginStep():
                self._data.do_step()
                begun = pool.begin_step()
                self._data.begin_step(begun)
                return begun
            case Commit(step=step):
                self._data.do_step()  # the copies that the pool has queued are forgotten then
                (self._cache or pool).commit(step)
                self._data.commit(step)
            case Attach(holder=holder, block=block, key=ref):
                pool.attach(block, self._key(ref), holder)
            case Rollback(requests=requests):
                return (self._cache or pool).rollback(requests)
            case Finish(request=request, blocks=blocks):
                return pool.finish(request, blocks)
        return None

    def _run_request(self, operation: Match | Split | Admit | Advance | Release | Fail) -> object:
        """A request that runs over all groups; the memory takes what its chunks compute."""
        cache = self._cache
        if cache is None:
            raise InvalidArgument("this pool has no hybrid settings; requests do not run over its groups")
        match operation:
            case Match(request=name):
                found = cache.match(self._request(name))
                return Matched(found.hit, found.junction, found.pending)
            case Split(request=name, start=start, tokens=tokens, cap=cap, junction=junction):
                return cache.split(self._request(name), start, tokens, cap, junction)
            case Admit(request=name, end=end, rows=rows):
                found = cache.admit(self._request(name), end)
                self._compute(cache.running[name], rows)
                return Admitted(found.hit, found.junction, found.pending, tables_of(cache.running[name]))
            case Advance(request=name, end=end, rows=rows):
                cache.advance(self._request(name), end)
                self._compute(cache.running[name], rows)
                return tables_of(cache.running[name])
            case Release(request=name):
                return cache.release(name)
            case Fail(step=step):
                self._data.do_step()  # the pool forgets the copies of the step, among them those of others
                affected = cache.fail(step)
                self._data.commit(step)
                return affected

    def _compute(self, running: RunningRequest, rows: Sequence[Sequence[int]] | None) -> None:
        """The forward pass of the request's last chunk leaves these numbers, group by group."""
        if rows is None:
            return
        for write in running.writes:
            group, numbers = self._pool.config.groups[write.group], rows[write.group]
            if group.kind is GroupKind.RECURRENT:
                self._data.write(write.block, write.group, numbers)
                continue
            start = running.computed - len(numbers)
            computed = numbers[write.first - start : write.end - start]
            self._data.write(write.block, write.group, computed, write.first % group.block_size)

    def _ask(self, operation: Lookup | Find | Contains | FullKey | Hashes | TakeEvents) -> object:
        pool = self._pool
        match operation:
            case Lookup(keys=refs):
                return pool.lookup(self._keys(refs))
            case Find(keys=refs):
                return [Hit(*hit) for hit in pool.find(self._keys(refs))]
            case Contains(key=ref, block=block):
                return pool.contains(self._key(ref), block)
            case FullKey(block=block):
                key = pool.full_key(block)
                return None if key is None else list(name_of_key(key))
            case Hashes(request=name):
                return [digest.hex() for digest in self._request(name).hashes]
            case TakeEvents():
                return [view_of_event(event) for event in pool.take_events()]

    def _cache_full_blocks(self, operation: CacheFullBlocks) -> None:
        self._pool.cache_full_blocks(
            self._request(operation.request),
            operation.blocks,
            operation.first,
            operation.last,
            operation.group,
            operation.mask,
            operation.replace,
        )

    def _change_request(self, operation: AddRequest | Append | Truncate) -> None:
        match operation:
            case AddRequest(request=name, tokens=tokens, extra_keys=extras):
                if isinstance(name, str) and name in self._requests:
                    raise InvalidArgument(f"there is a request {name!r} already")
                self._requests[name] = self._pool.request(name, tokens, _extra_keys(extras))
            case Append(request=name, tokens=tokens):
                self._request(name).append(tokens)
            case Truncate(request=name, num_tokens=num_tokens) if self._cache is not None:
                self._cache.truncate(self._request(name), num_tokens)
            case Truncate(request=name, num_tokens=num_tokens):
                self._request(name).truncate(num_tokens)

    # The language names requests and keys; the pool takes objects and digests.

    def _request(self, name: object) -> Request:
        found = self._requests.get(name) if isinstance(name, str) else None
        if found is None:
            raise InvalidArgument(f"there is no request {shown(name)}")
        return found

    def _keys(self, refs: object) -> list[Key]:
        if not isinstance(refs, list | tuple):
            raise InvalidArgument(f"keys must be a list or tuple, not {shown(refs)}")
        return [self._key(ref) for ref in refs]

    def _key(self, ref: object) -> Key:
        if not isinstance(ref, KeyRef):
            raise InvalidArgument(f"a key must be a KeyRef, not {shown(ref)}")
        request = self._request(ref.request)
        if type(ref.group) is not int or type(ref.position) is not int:
            raise InvalidArgument(f"group and position must be integers: {shown(ref)}")
        if not 0 <= ref.group < len(self._pool.config.groups):
            raise InvalidGroup(f"there is no group {ref.group}")
        if ref.position % self._pool.config.hash_block_size:
            raise NotAligned(f"position {ref.position} is no multiple of the hash block size")
        key = request.key_at(ref.group, ref.position)
        if key is None:
            raise OutOfRange(f"position {ref.position} is past the hashed tokens of {ref.request!r}")
        return key


def _extra_keys(extras: object) -> list[ExtraKey]:
    if not isinstance(extras, list | tuple):
        raise InvalidArgument(f"extra_keys must be a list or tuple, not {shown(extras)}")
    return [_extra_key(extra) for extra in extras]


def _extra_key(extra: object) -> ExtraKey:
    if not isinstance(extra, Extra) or not isinstance(extra.value, str):
        raise InvalidArgument(f"an extra key must be an Extra with a text, not {shown(extra)}")
    source = SOURCES.get(extra.source) if isinstance(extra.source, str) else None
    if source is None:
        raise InvalidArgument(f"an extra key's source must be one of {', '.join(SOURCES)}, not {shown(extra.source)}")
    return ExtraKey(source, extra.value.encode(errors="surrogatepass"), extra.start, extra.end)


# The pool's values as values of the wire.


def name_of_key(key: Key) -> tuple[int, str]:
    """A key's group and the name of its hash."""
    return int.from_bytes(key[-GROUP_ID_BYTES:], "big"), key[:-GROUP_ID_BYTES].hex()


def view_of_event(event: Event) -> WireEvent:
    """An event of the pool."""
    match event:
        case Stored():
            return StoredEvent(
                event.group,
                tuple(map(_prefix, event.hashes)),
                None if event.parent is None else _prefix(event.parent),
                event.tokens,
                tuple(map(_extra, event.extra_keys)),
            )
        case Removed(group=group, digest=digest):
            return RemovedEvent(group, digest.hex())
        case Cleared():
            return ClearedEvent()


def view(state: PoolState, cache: HybridCache | None) -> Observation:
    """A state of the pool, and of the requests that run."""
    index = sorted((*name_of_key(key), blocks) for key, blocks in state.index.items())
    return Observation(
        num_free=len(state.free_queue),
        free_queue=tuple(state.free_queue),
        ref_cnt=tuple([block.ref_cnt for block in state.blocks]),
        holders=tuple([tuple([name for name, _ in block.holders]) for block in state.blocks]),
        writers=tuple([block.writer for block in state.blocks]),
        slots=tuple([_slot(block) for block in state.blocks]),
        keys=tuple([_entries(block) for block in state.blocks]),
        index=tuple([Holders(group, name, blocks) for group, name, blocks in index]),
        running=None if cache is None else tuple([_running(cache, name) for name in sorted(cache.running)]),
    )


def _running(cache: HybridCache, name: str) -> Running:
    request, committed = cache.running[name], cache.pool.last_committed_step
    return Running(
        name,
        request.computed,
        request.settled,
        request.junction,
        tables_of(request),
        tuple([(step - committed, settled) for step, settled in request.in_flight.items()]),
        max(0, request.last_step - committed),
    )


def tables_of(running: RunningRequest) -> tuple[tuple[int, ...], ...]:
    """The block tables of a request that runs."""
    return tuple(map(tuple, running.tables))


def _slot(block: BlockState) -> tuple[int, int] | None:
    return None if block.group is None or block.slot is None else (block.group, block.slot)


def _entries(block: BlockState) -> tuple[Entry, ...]:
    return tuple([Entry(*name_of_key(e.key), e.position, e.ahead, e.owner) for e in block.entries])


def _prefix(prefix: PrefixHash) -> PrefixName:
    return PrefixName(prefix.digest.hex(), prefix.position)


def _extra(extra: ExtraKey) -> Extra:
    value = extra.value.decode(errors="surrogatepass")
    return Extra(extra.source.name.lower(), value, extra.start, extra.end)  # type: ignore[arg-type] # it is one of them
