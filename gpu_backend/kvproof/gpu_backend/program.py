"""Step programs: operations that are gathered first, and run one after the other by one call.

On the CPU that saves little; it is how a device is to be asked for a whole step at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvproof.gpu_backend import _core
from kvproof.gpu_backend.checks import check_list, check_name
from kvproof.gpu_backend.refusals import out_of_range, refusal, shown
from kvproof.gpu_backend.request import Request
from kvproof.spec.errors import InvalidArgument
from kvproof.spec.vocabulary import COPY_PREFIX, GROUP_ID_BYTES, POOL_COPY_PREFIX, CommitMode, Holder, HolderMode, Key

if TYPE_CHECKING:
    from kvproof.gpu_backend.pool import BlockPool

OPCODES = _core.opcodes()

NONE, NOBODY, STRANGER = -1, 0, -2
"""How the core writes that there is no block, that references are anonymous, and who registers where they are."""

WORD_LIMIT = 2**31


@dataclass(frozen=True, slots=True)
class _Holder:
    """Stands in a program for the number that a holder will have when it is run."""

    name: Holder


@dataclass(frozen=True, slots=True, eq=False)
class _TextOf:
    """Stands in a program for the number of a request's text."""

    request: Request


Word = int | _Holder | _TextOf
Decode = Callable[["StepProgram", "_Answers"], object]


@dataclass(slots=True)
class _Answers:
    """The words that the core answered with; `take` reads them one after the other."""

    words: array[int]
    at: int = 0

    def take(self, count: int) -> list[int]:
        """The next words."""
        self.at += count
        return self.words[self.at - count : self.at].tolist()

    def blocks(self, count: int) -> list[int | None]:
        """The next words as blocks."""
        return [None if block == NONE else block for block in self.take(count)]


@dataclass(frozen=True, slots=True)
class _Operation:
    """`name` and `arguments` are those of the pool's call, for the text of an error."""

    name: str
    opcode: str
    arguments: tuple[object, ...]
    words: list[Word]
    decode: Decode


@dataclass(slots=True)
class StepProgram:
    """Operations on one pool, in the order in which they were added; `run` runs them once, and can be called again.

    Those that change a pool are here, under its names and with its arguments, and `lookup`. Not here are `touch` and
    `cache_full_blocks`, in whose place are `touch_all` and `cache_slots`; other questions; and `write` and `read`.
    The first operation that is refused ends the run with the typed error that its call would raise, in the same words.
    Those before it were done, and `results` has what they answered.
    """

    pool: BlockPool
    results: list[object] = field(default_factory=list)
    _operations: list[_Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not isinstance(self.pool, _core.PoolBase) or not self.pool._is_made:
            raise InvalidArgument(
                f"pool must be one that BlockPool(config) or restore has made, not {shown(self.pool)}"
            )

    def __len__(self) -> int:
        return len(self._operations)

    # References

    def allocate(self, n: int, holder: Holder | None = None) -> None:
        """See `BlockPool.allocate`."""
        count = _word("n", n)
        self._add("allocate", (n, holder), [self._holder(holder), count], lambda _, answers: answers.take(count))

    def touch_all(self, block_ids: Sequence[int], keys: Sequence[Key], holder: Holder | None = None) -> None:
        """See `BlockPool.touch_all`."""
        blocks, names = list(check_list("block_ids", block_ids)), list(check_list("keys", keys))
        if len(blocks) != len(names):
            raise out_of_range("keys", keys, "one key for each block")
        items = [
            word
            for block, key in zip(blocks, names, strict=True)
            for word in (_word("a block id", block), *self._key(key))
        ]
        self._add("touch_all", (blocks, names, holder), [self._holder(holder), len(blocks), *items], opcode="touch")

    def free(self, block_ids: Sequence[int], holder: Holder | None = None) -> None:
        """See `BlockPool.free`."""
        blocks = _blocks(block_ids)
        self._add("free", (blocks, holder), [self._holder(holder), len(blocks), *blocks])

    def lookup(self, keys: Sequence[Key]) -> None:
        """See `BlockPool.lookup`."""
        names = list(check_list("keys", keys))
        words = [word for key in names for word in self._key(key)]
        self._add("lookup", (names,), [len(names), *words], lambda _, answers: answers.blocks(len(names)))

    # Registration and removal

    def cache_slots(
        self, request: Request, block_ids: Sequence[int], first: int, group: int, replace: bool = False
    ) -> None:
        """See `BlockPool.cache_slots`."""
        blocks = _blocks(block_ids)
        words = [*self._naming(request, group, replace), _word("first", first), len(blocks), *blocks]
        self._add("cache_slots", (request, blocks, first, group, replace or None), words, opcode="cache_full_blocks")

    def cache_partial_block(
        self, request: Request, block_id: int, position: int, group: int, replace: bool = False
    ) -> None:
        """See `BlockPool.cache_partial_block`."""
        words = [*self._naming(request, group, replace), _word("a block id", block_id), _word("position", position)]
        self._add("cache_partial_block", (request, block_id, position, group, replace or None), words)

    def evict(self, block_ids: Sequence[int]) -> None:
        """See `BlockPool.evict`."""
        blocks = _blocks(block_ids)
        self._add("evict", (blocks,), [len(blocks), *blocks])

    def move(self, src_id: int, dst_id: int) -> None:
        """See `BlockPool.move`."""
        self._add("move", (src_id, dst_id), [_word("a block id", src_id), _word("a block id", dst_id)])

    def copy(self, src_id: int, dst_id: int, holder: Holder | None = None) -> None:
        """See `BlockPool.copy`."""
        src, dst = _word("a block id", src_id), _word("a block id", dst_id)
        steps = self.pool.config.commit is CommitMode.STEPS
        keeper = _Holder(f"{POOL_COPY_PREFIX}{src}:{dst}") if steps else NOBODY
        self._add("copy", (src_id, dst_id, holder), [self._holder(holder), keeper, src, dst])

    def reset(self) -> None:
        """See `BlockPool.reset`."""
        self._add("reset", (), [])

    # Steps

    def begin_step(self) -> None:
        """See `BlockPool.begin_step`."""
        self._add("begin_step", (), [], lambda _, answers: answers.take(1)[0])

    def commit(self, step: int) -> None:
        """See `BlockPool.commit`."""
        self._add("commit", (step,), [_word("step", step)])

    def attach(self, block_id: int, key: Key, holder: Holder) -> None:
        """See `BlockPool.attach`."""
        words = [self._holder(check_name("holder", holder)), _word("a block id", block_id), *self._key(key)]
        self._add("attach", (block_id, key, holder), words)

    def rollback(self, requests: Sequence[Holder]) -> None:
        """See `BlockPool.rollback`."""
        names = list(check_list("requests", requests))
        words = [self._request_name(name) for name in names]
        self._add("rollback", (names,), [len(words), *words], StepProgram._names)

    def finish(self, request_id: Holder, block_ids: Sequence[int]) -> None:
        """See `BlockPool.finish`."""
        blocks = _blocks(block_ids)
        words = [self._request_name(request_id), len(blocks), *blocks]
        self._add("finish", (request_id, blocks), words, StepProgram._names)

    # Running

    def run(self) -> list[object]:
        """Run it: what each operation answers. Raises like the operation that is refused."""
        with self.pool._hold("run"):
            return self._run()

    def _run(self) -> list[object]:
        words = self._numbered([word for each in self._operations for word in (OPCODES[each.opcode], *each.words)])
        answered, refused, error, detail = self.pool._run(array("i", words))
        answers = _Answers(array("i", answered))
        done = self._operations if refused < 0 else self._operations[:refused]
        self.results = [operation.decode(self, answers) for operation in done]
        if refused >= 0:
            operation = self._operations[refused]
            raised = refusal(self.pool, error, operation.name, detail, operation.arguments)
            raised.add_note(f"it is operation {refused} of a program; those before it were done")
            raise raised
        return self.results

    def _numbered(self, words: list[Word]) -> list[int]:
        """The words with the numbers that holders and texts have now."""
        names = list({word.name: None for word in words if isinstance(word, _Holder)})
        requests = list({id(word.request): word.request for word in words if isinstance(word, _TextOf)}.values())
        holders = dict(zip(names, self.pool._numbers(names), strict=True))
        texts = {id(r): number for r, number in zip(requests, self.pool._keep(list(requests)), strict=True)}
        numbers = []
        for word in words:
            match word:
                case _Holder(name=name):
                    numbers.append(holders[name])
                case _TextOf(request=request):
                    numbers.append(texts[id(request)])
                case _:
                    numbers.append(word)
        return numbers

    def _names(self, answers: _Answers) -> object:
        [count] = answers.take(1)
        names = self.pool._names
        return [names[holder // 2] for holder in answers.take(count)]

    def _add(
        self,
        name: str,
        arguments: tuple[object, ...],
        words: Sequence[Word],
        decode: Decode = lambda program, answers: None,
        opcode: str | None = None,
    ) -> None:
        self._operations.append(_Operation(name, opcode or name, arguments, list(words), decode))

    # Arguments

    def _holder(self, holder: Holder | None) -> Word:
        if self.pool.config.holders is not HolderMode.NAMED:
            if holder is not None:
                raise InvalidArgument(f"the pool's references are anonymous; holder must be None, not {shown(holder)}")
            return NOBODY
        name = check_name("holder", holder)
        if self.pool.config.commit is CommitMode.STEPS and name.startswith(POOL_COPY_PREFIX):
            raise InvalidArgument(f"holder is {name!r}; names that begin with {POOL_COPY_PREFIX} are the pool's own")
        return _Holder(name)

    def _request_name(self, name: object) -> Word:
        checked = check_name("a request", name)
        if checked.startswith(COPY_PREFIX):
            raise InvalidArgument(f"{checked!r} is a copy, not a request")
        return self._holder(checked)

    def _naming(self, request: Request, group: int, replace: bool) -> list[Word]:
        if not isinstance(request, Request):
            raise InvalidArgument(f"request must be a Request, not {shown(request)}")
        if not isinstance(replace, bool):
            raise InvalidArgument(f"replace must be True or False, not {shown(replace)}")
        named = self.pool.config.holders is HolderMode.NAMED
        owner: Word = _Holder(request.request_id) if named else STRANGER
        return [owner, _TextOf(request), _word("group", group), int(replace)]

    def _key(self, key: object) -> list[int]:
        size = self.pool.hasher.digest_size + GROUP_ID_BYTES
        if type(key) is not bytes or len(key) != size:
            raise InvalidArgument(f"a key must be {size} bytes (digest, then group), not {shown(key)}")
        group = int.from_bytes(key[-GROUP_ID_BYTES:], "big", signed=True)
        return [group, *array("i", key[:-GROUP_ID_BYTES])]


def _word(what: str, value: object) -> int:
    """A plain integer; one that does not fit becomes the least or the greatest word, which every operation refuses."""
    if type(value) is not int:
        raise InvalidArgument(f"{what} must be an integer, not {shown(value)}")
    return max(-WORD_LIMIT, min(value, WORD_LIMIT - 1))


def _blocks(block_ids: object) -> list[int]:
    return [_word("a block id", block) for block in check_list("block_ids", block_ids)]
