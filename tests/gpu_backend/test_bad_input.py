"""Whatever is given to a pool that is none of its values: a typed error, and the pool is as it was and goes on."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

from kvproof.gpu_backend import BlockPool, PrefixHasher, Request, StaleViews, _core
from kvproof.gpu_backend.arena import Views, check_arena
from kvproof.spec.errors import ConcurrentUse, InvalidArgument, OutOfRange, PoolError
from kvproof.spec.vocabulary import CommitMode, ExtraKey, ExtraKeySource, HashAlgorithm
from tests.gpu_backend.pools import config
from tests.gpu_backend.tools import script

CrampedPool = script("fuzz_core").CrampedPool

NO_INTEGERS = (True, 1.0, "1", b"1", None, [1], 1j, numpy.int32(1), torch.tensor(1))
BEYOND = (-1, -(2**31) - 1, -(2**70), 2**31, 2**63, 2**70)
NO_LISTS = (7, "12", b"12", None, {1: 2}, {1}, range(1, 3), iter([1]), numpy.array([1]), torch.tensor([1]))
NO_NAMES = (7, b"r1", "", None, ["r1"], True)
NO_KEYS = ("k", 7, None, b"", b"x" * 19, b"x" * 21, bytearray(20), memoryview(bytes(20)), ["k"])
NO_BOOLS: tuple[object, ...] = (1, 0, "True", None, [])

BLOCK = (*NO_INTEGERS, *BEYOND, 10**6)
BLOCKS = (*NO_LISTS, *([each] for each in BLOCK))
NAME = (*NO_NAMES, "copy:pool:1:2")
KEYS = (*NO_LISTS, *([each] for each in NO_KEYS))
REQUEST = ("r1", None, 7, b"r1", object())

ARGUMENTS: dict[str, list[tuple[object, tuple[object, ...]]]] = {
    "allocate": [(1, (*NO_INTEGERS, *BEYOND)), ("r1", NAME)],
    "touch": [(1, BLOCK), ("KEY", NO_KEYS), ("r2", NAME)],
    "touch_all": [([1], BLOCKS), (["KEY"], KEYS), ("r2", NAME)],
    "free": [([1], BLOCKS), ("r1", NAME)],
    "lookup": [(["KEY"], KEYS)],
    "lookup_longest": [(["KEY"], KEYS)],
    "find_matrix": [("REQUEST", REQUEST)],
    "uses": [([1], BLOCKS), ("r1", NAME)],
    "find": [(["KEY"], KEYS)],
    "contains": [("KEY", NO_KEYS), (1, BLOCK)],
    "full_key": [(1, BLOCK)],
    "cache_full_blocks": [
        ("REQUEST", REQUEST),
        ([1], BLOCKS),
        (0, (*NO_INTEGERS, *BEYOND)),
        (1, (*NO_INTEGERS, *BEYOND)),
        (0, (*NO_INTEGERS, *BEYOND)),
        ([True], (7, "1", {True}, [1], ["True"], [None], [True, True])),
        (False, NO_BOOLS),
    ],
    "cache_slots": [
        ("REQUEST", REQUEST),
        ([1], BLOCKS),
        (0, (*NO_INTEGERS, *BEYOND)),
        (0, (*NO_INTEGERS, *BEYOND)),
    ],
    "cache_partial_block": [
        ("REQUEST", REQUEST),
        (1, BLOCK),
        (2, (*NO_INTEGERS, *BEYOND, 0)),
        (0, (*NO_INTEGERS, *BEYOND)),
        (False, NO_BOOLS),
    ],
    "evict": [([1], BLOCKS)],
    "move": [(1, BLOCK), (3, BLOCK)],
    "copy": [(1, BLOCK), (2, BLOCK), ("r1", NAME)],
    "write": [("REQUEST", REQUEST), (2, BLOCK), (2, (*NO_INTEGERS, *BEYOND, 0)), (0, (*NO_INTEGERS, *BEYOND))],
    "read": [(1, BLOCK), ("r1", NAME)],
    "commit": [(1, (*NO_INTEGERS, *BEYOND, 0))],
    "attach": [(1, BLOCK), ("KEY", NO_KEYS), ("r2", NAME)],
    "rollback": [(["r1"], (*NO_LISTS, *([each] for each in NO_NAMES), ["copy:1"]))],
    "finish": [("r1", (*NAME, "copy:1")), ([1], BLOCKS)],
    "request": [
        ("r9", NO_NAMES),
        ([1], (*NO_LISTS, *([each] for each in (*NO_INTEGERS, -1, 2**32, 2**70)))),
        ([], (*NO_LISTS, ["salt"], [7])),
    ],
}
"""Each operation's arguments: one that is right, and what is wrong in its place."""


def begun() -> tuple[BlockPool, dict[str, object]]:
    """A pool with a step in flight, and what stands for the names in `ARGUMENTS`."""
    pool = BlockPool(config(commit=CommitMode.STEPS))
    request = pool.request("r1", list(range(8)))
    pool.begin_step()
    pool.cache_full_blocks(request, pool.allocate(2, "r1"), 0, 1, 0)
    return pool, {"KEY": request.key_at(0, 4), "REQUEST": request}


def goes_on(pool: BlockPool) -> None:
    """The pool does what it is for."""
    pool.check()
    pool.commit(1)
    request = pool.request("r5", [7] * 8)
    pool.begin_step()
    taken = pool.allocate(2, "r5")
    pool.cache_full_blocks(request, taken, 0, 2, 0)
    pool.commit(2)
    pool.free(taken, "r5")
    assert pool.lookup([request.key_at(0, 8) or b""]) == [taken[1]]
    pool.check()


@pytest.mark.clause("ERR-TYPE-1", "ERR-ATOMIC-1")
@pytest.mark.parametrize("operation", ARGUMENTS)
def test_each_wrong_argument_of_each_operation_is_refused_and_changes_nothing(operation: str) -> None:
    pool, known = begun()
    before, events = pool.observe(), pool.num_free

    def meant(value: object) -> object:
        if isinstance(value, list):
            return [meant(each) for each in value]
        return known.get(value, value) if isinstance(value, str) else value

    for at, (_, wrong) in enumerate(ARGUMENTS[operation]):
        for value in wrong:
            arguments = [meant(right) for right, _ in ARGUMENTS[operation]]
            arguments[at] = value
            with pytest.raises(PoolError) as refused:
                getattr(pool, operation)(*arguments)
            text = str(refused.value)
            assert " must be " in text or "; allowed is " in text or text.startswith(f"{operation}("), text
            assert pool.observe() == before, (operation, arguments)
    assert pool.num_free == events
    goes_on(pool)


@pytest.mark.parametrize("size", [0, 1, 7, 9])
def test_a_list_and_the_list_beside_it_have_the_same_length(size: int) -> None:
    pool, known = begun()
    before = pool.observe()
    with pytest.raises(PoolError):
        pool.touch_all(list(range(1, 9)), [known["KEY"]] * size, "r2")  # type: ignore[list-item]
    assert pool.observe() == before


@pytest.mark.parametrize(
    ("value", "start", "end"),
    [("text", 0, None), (b"v", -1, None), (b"v", 0.0, None), (b"v", 0, 0), (b"v", 0, 2**70), (b"v", 5, 4)],
)
def test_an_extra_key_that_covers_nothing_is_refused(value: Any, start: Any, end: Any) -> None:
    with pytest.raises(PoolError):
        BlockPool(config()).request("r1", [1, 2], [ExtraKey(ExtraKeySource.SALT, value, start, end)])


HASHER = PrefixHasher(4, 2, bytes(16))


@pytest.mark.parametrize(
    ("words", "size", "seed"),
    [
        *((words, 2, bytes(16)) for words in (3, 0, -4, 4.0, True, None, "4")),
        *((4, size, bytes(16)) for size in (0, -1, 2**70, 2.0, None, "2")),
        *((4, 2, seed) for seed in (b"short", bytes(32), "x" * 16, bytearray(16), None)),
        (8, 2, bytes(16)),
    ],
    ids=repr,
)
def test_a_hash_contract_that_cannot_be_is_refused(words: Any, size: Any, seed: Any) -> None:
    with pytest.raises(PoolError, match=r" must be |allowed is"):
        PrefixHasher(words, size, seed)


@pytest.mark.parametrize("name", ["num_prompt_tokens", "hasher", "request_id", "num_tokens"])
def test_what_a_request_is_cannot_be_set(name: str) -> None:
    request = Request("r1", [1, 2, 3], HASHER)
    before = getattr(request, name)
    for value in (None, -5, 2**70, HASHER):
        with pytest.raises(AttributeError):
            setattr(request, name, value)
    assert getattr(request, name) == before


def test_a_request_of_another_contract_is_refused() -> None:
    pool, _ = begun()
    before = pool.observe()
    for other in (BlockPool(config(algorithm=HashAlgorithm.SHA256)), BlockPool(config())):
        same = other.hasher == pool.hasher
        request = other.request("r1", list(range(8)))
        if same:  # requests belong to no pool: the same contract gives the same hashes
            pool.cache_partial_block(request, 2, 6, 0)
            assert pool.contains(request.key_at(0, 6) or b"", 2)
            continue
        with pytest.raises(InvalidArgument, match="contract"):
            pool.cache_full_blocks(request, [2], 0, 1, 0)
        program = pool.program()
        program.cache_slots(request, [2], 0, 0)
        with pytest.raises(InvalidArgument, match="contract"):
            program.run()
        with pytest.raises(InvalidArgument, match="20 bytes"):
            pool.lookup([request.key_at(0, 4) or b""])
        assert pool.observe() == before


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "tpu", "", "CPU", None, 7, torch.device("cuda"), numpy.zeros(2)])
def test_a_device_that_there_is_not_is_refused_and_the_text_says_what_there_is(device: Any) -> None:
    with pytest.raises(InvalidArgument, match="this backend runs on 'cpu'"):
        BlockPool(config(), device)


@pytest.mark.parametrize("blocks", [2**30, 2**31 - 1])
def test_more_blocks_than_an_arena_can_number_are_refused(blocks: int) -> None:
    with pytest.raises(OutOfRange, match="at most 1073741824 rows"):
        BlockPool(config(blocks))


def no_arenas() -> list[object]:
    """Tensors and other things that no pool's state lies in."""
    right = BlockPool(config()).arena
    return [
        None,
        right.numpy(),
        right.tolist(),
        right.float(),
        right.long(),
        right.view(1, -1),
        right[::2],
        right[:-16],
        right[:8],
        torch.zeros(0, dtype=torch.int32),
        torch.zeros(10_000, dtype=torch.int32),
        torch.zeros(10_000, dtype=torch.int32, device="meta"),
    ]


@pytest.mark.parametrize("which", range(12))
def test_a_tensor_of_another_type_shape_or_device_is_no_arena(which: int) -> None:
    with pytest.raises(InvalidArgument, match="an arena must"):
        check_arena(no_arenas()[which])


@pytest.mark.parametrize(
    "change", ["float", "int64", "short", "long", "matrix", "strided", "read-only", "bytes", "none"]
)
def test_memory_of_another_type_or_shape_is_not_taken(change: str) -> None:
    pool = BlockPool(config())
    before = pool.observe()
    right = numpy.zeros(pool.arena.numel(), dtype=numpy.int32)
    read_only = right.copy()
    read_only.flags.writeable = False
    memory: dict[str, object] = {
        "float": right.astype(numpy.float32),
        "int64": right.astype(numpy.int64),
        "short": right[:-1],
        "long": numpy.zeros(right.size + 1, dtype=numpy.int32),
        "matrix": right.reshape(1, -1),
        "strided": numpy.zeros(2 * right.size, dtype=numpy.int32)[::2],
        "read-only": read_only,
        "bytes": bytearray(right.nbytes),
        "none": None,
    }
    with pytest.raises(InvalidArgument, match="32-bit integers"):
        pool._adopt(memory[change], pool._settings, 1, pool._rows())
    assert pool.observe() == before


def test_views_that_were_taken_before_the_pool_grew_are_refused() -> None:
    pool = CrampedPool(config())
    views = pool.views()
    assert int(views.header[0]) == 1
    pool.cache_full_blocks(pool.request("r1", list(range(32))), pool.allocate(8, "r1"), 0, 8, 0)
    for part in ("header", "groups", "blocks", "ring", "buckets", "entries", "readers", "pendings", "copies"):
        with pytest.raises(StaleViews, match=rf"{part} is not the pool's any more.* take pool.views\(\) again"):
            getattr(views, part)
    assert pool.views().blocks[1, 0] == 1
    assert isinstance(views, Views)


def test_the_arena_cannot_be_taken_away_from_the_pool() -> None:
    pool, _ = begun()
    before, arena = pool.observe(), pool.arena
    arena.set_(torch.zeros(1, dtype=torch.int32).untyped_storage())
    with pytest.raises(RuntimeError):
        pool.arena.untyped_storage().resize_(0)
    with pytest.raises(AttributeError):
        pool.arena = arena  # type: ignore[misc]
    assert pool.observe() == before
    goes_on(pool)


def test_a_pool_that_is_made_is_not_made_again() -> None:
    pool, _ = begun()
    before = pool.observe()
    with pytest.raises(InvalidArgument, match="made already"):
        pool.__init__(config(5))  # type: ignore[misc]
    assert pool.observe() == before
    goes_on(pool)


def unmade() -> list[BlockPool]:
    """Pools that no constructor has made."""
    failed = BlockPool.__new__(BlockPool)
    with pytest.raises(InvalidArgument):
        failed.__init__(config(), "cuda")  # type: ignore[misc]
    return [BlockPool.__new__(BlockPool), failed]


@pytest.mark.parametrize("which", range(2))
@pytest.mark.parametrize(
    "use",
    [
        lambda pool: pool.allocate(1, "r1"),
        lambda pool: pool.num_free,
        lambda pool: pool.last_committed_step,
        lambda pool: pool.observe(),
        lambda pool: pool.take_events(),
        lambda pool: pool.save(),
        lambda pool: pool.check(),
        lambda pool: pool.views(),
        lambda pool: pool.arena,
        lambda pool: pool.program().run(),
        lambda pool: pool._names,
        lambda pool: pool._rows(),
    ],
)
def test_a_pool_that_was_never_made_says_so(which: int, use: Callable[[BlockPool], object]) -> None:
    with pytest.raises(InvalidArgument, match=r"BlockPool\(config\)"):
        use(unmade()[which])


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_two_pools_never_share_an_arena(duplicate: Callable[[BlockPool], object]) -> None:
    with pytest.raises(TypeError, match="BlockPool"):
        duplicate(begun()[0])


@pytest.mark.clause("ERR-OWNER-1")
def test_an_argument_that_calls_the_pool_when_it_is_shown_does_no_harm() -> None:
    pool, _ = begun()
    before, refused = pool.observe(), []

    class Caller:
        def __repr__(self) -> str:
            try:
                pool.allocate(1, "r7")
            except ConcurrentUse as error:
                refused.append(error)
            return "a caller"

    with pytest.raises(InvalidArgument, match="a caller"):
        pool.free([Caller()], "r1")  # type: ignore[list-item]
    assert len(refused) == 1
    assert pool.observe() == before
    goes_on(pool)


def test_a_list_that_is_changed_while_the_pool_grows_is_the_list_that_was_given() -> None:
    class Emptying(CrampedPool):  # type: ignore[misc, valid-type]
        given: list[Any]

        def _grow(self, region: int, wanted: int) -> None:
            self.given.clear()
            super()._grow(region, wanted)

    pool = Emptying(config(commit=CommitMode.STEPS))
    pool.given = [f"nobody {number}" for number in range(100)]
    pool.begin_step()
    pool.rollback(pool.given)
    assert pool.given == []
    pool.check()


def test_a_hand_is_made_by_its_pool_and_good_for_one_operation() -> None:
    pool, _ = begun()
    with pytest.raises(TypeError):
        _core.Hand()
    with pool._hold("a test") as hand:
        assert hand.allocate(1, "r2") == [3]
        with pytest.raises(ConcurrentUse):
            pool.allocate(1, "r2")
        with pytest.raises(ConcurrentUse), pool._hold("another"):
            pass
        with pytest.raises(ConcurrentUse), hand:
            pass
        assert pool._hand is hand
    with pytest.raises(ConcurrentUse):
        hand.free([3], "r2")
    with pytest.raises(ConcurrentUse):
        pool._hand  # noqa: B018
    pool.free([3], "r2")
    goes_on(pool)


def test_a_core_class_refuses_what_its_caller_has_to_check() -> None:
    with pytest.raises(InvalidArgument, match="request_id"):
        _core.RequestBase(7, [1], 4, 2, bytes(16), (), ())  # type: ignore[arg-type]


class Odd(int):
    """A number that may compare as it likes."""


def test_an_error_says_of_which_type_a_value_is_that_looks_like_another_one() -> None:
    pool, _ = begun()
    with pytest.raises(InvalidArgument, match="not 1 of type Odd"):
        pool.allocate(Odd(1), "r2")
    with pytest.raises(InvalidArgument, match=r"not True$"):
        pool.allocate(True, "r2")
    with pytest.raises(PoolError, match="a value of type int that cannot be shown"):
        pool.commit(10**5000)
    goes_on(pool)


@pytest.mark.parametrize("keys", [-1, 2**30, 2**63])
def test_room_is_made_for_no_more_keys_than_there_can_be(keys: int) -> None:
    pool, _ = begun()
    with pytest.raises(OutOfRange, match=f"keys is {keys}; allowed is 0 to 1073741823"):
        pool.reserve(keys)
    goes_on(pool)
