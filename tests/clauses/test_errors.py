from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any, NoReturn, cast

import pytest

from kvproof.reference import BlockPool, Ghost, PoolState, PrefixHasher, Request
from kvproof.spec.errors import (
    AlreadyHeld,
    ConcurrentUse,
    ContentConflict,
    InvalidArgument,
    InvalidBlock,
    InvalidGroup,
    NotAligned,
    NotCached,
    NotOwner,
    NotReferenced,
    OutOfBlocks,
    OutOfOrder,
    OutOfRange,
    PoolError,
    StillReferenced,
)
from kvproof.spec.vocabulary import CommitMode, ExtraKey, ExtraKeySource, HashAlgorithm, HolderMode, PoolConfig
from tests.clauses.rig import ATTENTION, RECURRENT, WIDE, Rig, key

# Types and ranges: every argument of every public call, one bad value at a time, the others good.


def small_world() -> Rig:
    """r1 has the full block 1 and the fresh block 2, r2 the fresh block 3; block 4 is free."""
    rig = Rig(blocks=5)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.take(r1)
    rig.take(r2)
    return rig


def world_in_a_step() -> Rig:
    """The same as `small_world` in step 1, which is open: what r1 registered is reserved."""
    rig = Rig(blocks=5, commit=CommitMode.STEPS)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.pool.begin_step()
    rig.fill(r1, 1)
    rig.take(r1)
    rig.take(r2)
    return rig


def good_calls(rig: Rig) -> dict[str, dict[str, Any]]:
    r1 = rig.requests[0]
    h4 = key(r1, 4)
    return {
        "allocate": {"n": 1, "holder": "r1"},
        "touch": {"block_id": 1, "key": h4, "holder": "r2"},
        "free": {"block_ids": [1, 2], "holder": "r1"},
        "lookup": {"keys": [h4]},
        "contains": {"key": h4, "block_id": 1},
        "full_key": {"block_id": 1},
        "ref_cnt": {"block_id": 1},
        "covered": {"block_id": 1},
        "is_read": {"block_id": 1},
        "cache_full_blocks": {
            "request": r1,
            "block_ids": [1, 2],
            "first": 0,
            "last": 2,
            "group": 0,
            "mask": [True, True],
            "replace": False,
        },
        "cache_partial_block": {"request": r1, "block_id": 2, "position": 6, "group": 0, "replace": False},
        "evict": {"block_ids": [1, 2]},
        "move": {"src_id": 1, "dst_id": 2},
        "write": {"request": r1, "block_id": 2, "position": 7, "group": 0},
        "check_write": {"request": r1, "block_id": 2, "position": 7, "group": 0},
        "copy": {"src_id": 1, "dst_id": 2, "holder": "r1"},
        "read": {"block_id": 1, "holder": "r1"},
        "reset": {},
        "take_events": {},
        "observe": {},
        "clone": {},
        "begin_step": {},
        "commit": {"step": 1},
        "attach": {"block_id": 1, "key": h4, "holder": "r2"},
        "rollback": {"requests": ["r1"]},
        "finish": {"request_id": "r1", "block_ids": [1, 2]},
        "find": {"keys": [h4]},
    }


OF_STEPS = {"begin_step", "commit", "attach", "rollback"}


def world_for(method: str) -> Rig:
    """Where the method's good arguments are good."""
    return world_in_a_step() if method in OF_STEPS else small_world()


Bad = list[tuple[Any, type[PoolError]]]

NO_INT: Bad = [(value, InvalidArgument) for value in (True, False, None, 1.0, "1", b"1", [1], float("nan"))]
NO_NAME: Bad = [(value, InvalidArgument) for value in ("", None, 1, True, b"r1", ["r1"])]
NO_LIST: Bad = [(value, InvalidArgument) for value in (None, 1, True, "12", b"\x01\x02", {1, 2}, {1: 2})]
NO_BOOL: Bad = [(value, InvalidArgument) for value in (0, 1, None, "True")]
NO_REQUEST: Bad = [(value, InvalidArgument) for value in (None, "r1", 1, [1, 2, 3])]
NO_KEY: Bad = [
    (value, InvalidArgument) for value in (None, 1, True, "k" * 36, b"", b"k" * 35, b"k" * 37, bytearray(36))
]
NO_BLOCK: Bad = [*NO_INT, (-1, InvalidBlock), (5, InvalidBlock), (2**70, InvalidBlock)]
NO_BLOCKS: Bad = [*NO_LIST, *(([1, value], error) for value, error in NO_BLOCK)]
NO_GROUP: Bad = [*NO_INT, (-1, InvalidGroup), (1, InvalidGroup), (2**70, InvalidGroup)]
OUT_OF_RANGE: Bad = [(value, OutOfRange) for value in (-1, -(2**70), 2**70)]

BAD_ARGUMENTS: dict[tuple[str, str], Bad] = {
    ("allocate", "n"): [*NO_INT, (-1, OutOfRange), (2, OutOfBlocks), (2**70, OutOfBlocks)],
    ("allocate", "holder"): NO_NAME,
    ("touch", "block_id"): [*NO_BLOCK, (2, NotCached)],
    ("touch", "key"): [*NO_KEY, (b"k" * 36, NotCached)],
    ("touch", "holder"): [*NO_NAME, ("r1", AlreadyHeld)],
    ("free", "block_ids"): [*NO_BLOCKS, ([1, 1], NotReferenced), ([3], NotReferenced), ([4], NotReferenced)],
    ("free", "holder"): [*NO_NAME, ("r2", NotReferenced), ("nobody", NotReferenced)],
    ("lookup", "keys"): [*NO_LIST, *(([value], error) for value, error in NO_KEY)],
    ("contains", "key"): NO_KEY,
    ("contains", "block_id"): NO_BLOCK,
    ("full_key", "block_id"): NO_BLOCK,
    ("ref_cnt", "block_id"): NO_BLOCK,
    ("covered", "block_id"): NO_BLOCK,
    ("is_read", "block_id"): NO_BLOCK,
    ("cache_full_blocks", "request"): NO_REQUEST,
    ("cache_full_blocks", "block_ids"): [
        *NO_BLOCKS,
        ([1], OutOfRange),
        ([1, 1], InvalidBlock),
        ([1, 3], NotOwner),
        ([1, 4], NotReferenced),
    ],
    ("cache_full_blocks", "first"): [*NO_INT, *OUT_OF_RANGE, (3, OutOfRange)],
    ("cache_full_blocks", "last"): [*NO_INT, *OUT_OF_RANGE, (3, OutOfRange)],
    ("cache_full_blocks", "group"): NO_GROUP,
    ("cache_full_blocks", "mask"): [
        *(case for case in NO_LIST if case[0] is not None),
        *(([True, value], error) for value, error in NO_BOOL),
        ([True], OutOfRange),
        ([True] * 3, OutOfRange),
    ],
    ("cache_full_blocks", "replace"): NO_BOOL,
    ("cache_partial_block", "request"): NO_REQUEST,
    ("cache_partial_block", "block_id"): [*NO_BLOCK, (0, InvalidBlock), (3, NotOwner), (4, NotReferenced)],
    ("cache_partial_block", "position"): [*NO_INT, *OUT_OF_RANGE, (0, OutOfRange), (12, OutOfRange), (7, NotAligned)],
    ("cache_partial_block", "group"): NO_GROUP,
    ("cache_partial_block", "replace"): NO_BOOL,
    ("evict", "block_ids"): [*NO_BLOCKS, ([1, 0], InvalidBlock)],
    ("move", "src_id"): [*NO_BLOCK, (0, InvalidBlock), (2, InvalidBlock), (3, NotCached)],
    ("move", "dst_id"): [*NO_BLOCK, (0, InvalidBlock), (1, InvalidBlock), (4, NotReferenced)],
    ("write", "request"): NO_REQUEST,
    ("write", "block_id"): [*NO_BLOCK, (0, InvalidBlock), (3, NotOwner), (4, NotReferenced), (1, OutOfRange)],
    ("write", "position"): [*NO_INT, *OUT_OF_RANGE, (0, OutOfRange), (11, OutOfRange)],
    ("write", "group"): NO_GROUP,
    ("check_write", "request"): NO_REQUEST,
    ("check_write", "block_id"): [*NO_BLOCK, (0, InvalidBlock), (3, NotOwner), (4, NotReferenced), (1, OutOfRange)],
    ("check_write", "position"): [*NO_INT, *OUT_OF_RANGE, (0, OutOfRange), (11, OutOfRange)],
    ("check_write", "group"): NO_GROUP,
    ("copy", "src_id"): [*NO_BLOCK, (0, InvalidBlock), (2, InvalidBlock), (3, NotReferenced), (4, NotReferenced)],
    ("copy", "dst_id"): [*NO_BLOCK, (0, InvalidBlock), (1, InvalidBlock), (3, NotReferenced), (4, NotReferenced)],
    ("copy", "holder"): [*NO_NAME, ("r2", NotReferenced)],
    ("read", "block_id"): [*NO_BLOCK, (0, InvalidBlock), (3, NotReferenced), (4, NotReferenced)],
    ("read", "holder"): [*NO_NAME, ("r2", NotReferenced)],
    ("commit", "step"): [*NO_INT, (0, OutOfRange), (-1, OutOfRange), (2, OutOfOrder), (2**70, OutOfOrder)],
    ("attach", "block_id"): [*NO_BLOCK, (0, NotCached), (2, NotCached), (4, NotCached)],
    ("attach", "key"): [*NO_KEY, (b"k" * 36, NotCached)],
    ("attach", "holder"): [*NO_NAME, ("r1", AlreadyHeld), ("copy:1", InvalidArgument)],
    ("rollback", "requests"): [
        *NO_LIST,
        *((["r1", value], error) for value, error in NO_NAME),
        (["r1", "copy:1"], InvalidArgument),
    ],
    ("finish", "request_id"): [*NO_NAME, ("nobody", NotReferenced), ("copy:1", InvalidArgument)],
    ("finish", "block_ids"): [*NO_BLOCKS, ([1, 1], NotReferenced), ([1, 3], NotReferenced), ([4], NotReferenced)],
    ("find", "keys"): [*NO_LIST, *(([value], error) for value, error in NO_KEY)],
}


def short(value: object) -> str:
    return repr(value)[:24]


def cases(table: dict[tuple[str, str], Bad]) -> list[Any]:
    return [
        pytest.param(method, argument, value, error, id=f"{method}-{argument}-{short(value)}")
        for (method, argument), bad in table.items()
        for value, error in bad
    ]


@pytest.mark.clause("ERR-TYPE-1", "ERR-ATOMIC-1")
@pytest.mark.parametrize(("method", "argument", "value", "error"), cases(BAD_ARGUMENTS))
def test_a_bad_argument_of_the_pool_is_refused(
    method: str, argument: str, value: object, error: type[PoolError]
) -> None:
    rig = world_for(method)
    with rig.refused(error):
        getattr(rig.pool, method)(**{**good_calls(rig)[method], argument: value})


@pytest.mark.clause("ERR-TYPE-1", "ERR-ATOMIC-1")
@pytest.mark.parametrize("method", dict.fromkeys(method for method, _ in BAD_ARGUMENTS))
def test_a_bad_argument_is_refused_in_a_pool_with_steps_too(method: str) -> None:
    rig = world_in_a_step()
    for (name, argument), bad in BAD_ARGUMENTS.items():
        for value, _ in bad if name == method else ():
            before = rig.snapshot()
            with pytest.raises(PoolError):
                getattr(rig.pool, method)(**{**good_calls(rig)[method], argument: value})
            assert rig.snapshot() == before, (argument, value)


@pytest.mark.clause("ERR-TYPE-1")
@pytest.mark.parametrize("method", [*dict.fromkeys(m for m, _ in BAD_ARGUMENTS), "take_events", "begin_step"])
def test_the_good_arguments_are_accepted(method: str) -> None:
    rig = world_for(method)
    getattr(rig.pool, method)(**good_calls(rig)[method])


@pytest.mark.clause("ERR-TYPE-1")
def test_every_public_operation_and_argument_of_the_pool_is_in_the_table() -> None:
    rig = small_world()
    public = {name for name in dir(BlockPool) if not name.startswith("_") and callable(getattr(BlockPool, name))}
    assert set(good_calls(rig)) == public
    assert set(BAD_ARGUMENTS) == {(method, name) for method, good in good_calls(rig).items() for name in good}


@pytest.mark.clause("ERR-TYPE-1")
@pytest.mark.parametrize("ghost", [0, "ghost", {}, True])
def test_a_pools_ghost_is_a_ghost_or_none(ghost: Any) -> None:
    with pytest.raises(InvalidArgument):
        BlockPool(PoolConfig(4, 2, (ATTENTION,)), ghost)
    assert BlockPool(PoolConfig(4, 2, (ATTENTION,)), None).ghost is None


@pytest.mark.clause("ERR-TYPE-1")
@pytest.mark.parametrize(
    "hasher",
    [
        PrefixHasher(HashAlgorithm.SHA256, 4),
        PrefixHasher(HashAlgorithm.SHA256, 2, b"other"),
        PrefixHasher(HashAlgorithm.XXH3_128, 2, b""),
    ],
    ids=["size", "seed", "algorithm"],
)
def test_a_request_that_is_hashed_otherwise_than_the_pool_is_refused(hasher: PrefixHasher) -> None:
    rig = small_world()
    other = Request("r1", range_list(10), hasher)
    same = Request("r1", range_list(10), PrefixHasher(HashAlgorithm.SHA256, 2, b""))
    calls: list[Callable[[Request], None]] = [
        lambda r: rig.pool.write(r, 2, 4, 0),
        lambda r: rig.pool.cache_partial_block(r, 2, 4, 0),
        lambda r: rig.pool.cache_full_blocks(r, [2], 0, 1, 0),
    ]
    for call in calls:
        with rig.refused(InvalidArgument):
            call(other)
        call(same)


def range_list(n: int) -> list[int]:
    return list(range(n))


NO_TOKENS: Bad = [
    *NO_LIST,
    *(([1, value], InvalidArgument) for value in (None, True, 1.0, "1", b"1", [1])),
    *(([1, value], OutOfRange) for value in (-1, 2**32, 2**70)),
]
GOOD_EXTRA = ExtraKey(ExtraKeySource.SALT, b"a", 1, 2)
NO_EXTRA_KEYS: Bad = [
    *NO_LIST,
    *(
        ([value], InvalidArgument)
        for value in (
            None,
            b"a",
            (ExtraKeySource.SALT, b"a", 0, None),
            ExtraKey(2, b"a"),  # type: ignore[arg-type]
            ExtraKey("SALT", b"a"),  # type: ignore[arg-type]
            ExtraKey(ExtraKeySource.SALT, "a"),  # type: ignore[arg-type]
            ExtraKey(ExtraKeySource.SALT, bytearray(b"a")),  # type: ignore[arg-type]
            ExtraKey(ExtraKeySource.SALT, b"a", True),
            ExtraKey(ExtraKeySource.SALT, b"a", None),  # type: ignore[arg-type]
            ExtraKey(ExtraKeySource.SALT, b"a", 1.0),  # type: ignore[arg-type]
            ExtraKey(ExtraKeySource.SALT, b"a", 0, True),
            ExtraKey(ExtraKeySource.SALT, b"a", 0, "4"),  # type: ignore[arg-type]
        )
    ),
    *(
        ([value], OutOfRange)
        for value in (
            ExtraKey(ExtraKeySource.SALT, b"a", -1),
            ExtraKey(ExtraKeySource.SALT, b"a", 2**64),
            ExtraKey(ExtraKeySource.SALT, b"a", 3, 3),
            ExtraKey(ExtraKeySource.SALT, b"a", 3, 2),
            ExtraKey(ExtraKeySource.SALT, b"a", 3, 2**70),
        )
    ),
    ([GOOD_EXTRA, GOOD_EXTRA], InvalidArgument),
]

BAD_REQUESTS: dict[tuple[str, str], Bad] = {
    ("Request", "request_id"): NO_NAME,
    ("Request", "tokens"): NO_TOKENS,
    ("Request", "hasher"): [(value, InvalidArgument) for value in (None, HashAlgorithm.SHA256, "sha256", hash)],
    ("Request", "extra_keys"): NO_EXTRA_KEYS,
}
GOOD_REQUEST: dict[str, Any] = {
    "request_id": "r1",
    "tokens": [1, 2],
    "hasher": PrefixHasher(HashAlgorithm.SHA256, 2),
    "extra_keys": [GOOD_EXTRA],
}


@pytest.mark.clause("ERR-TYPE-1")
@pytest.mark.parametrize(("method", "argument", "value", "error"), cases(BAD_REQUESTS))
def test_a_bad_argument_makes_no_request(method: str, argument: str, value: object, error: type[PoolError]) -> None:
    assert Request(**GOOD_REQUEST).num_tokens == 2
    with pytest.raises(PoolError) as caught:
        Request(**{**GOOD_REQUEST, argument: value})
    assert caught.type is error


GOOD_REQUEST_CALLS: dict[str, dict[str, Any]] = {
    "append": {"tokens": [11, 12]},
    "truncate": {"num_tokens": 3},
    "hash_at": {"position": 4},
    "key_at": {"group": 0, "position": 4},
    "view": {"block_size": 4},
}
NO_POSITION: Bad = [*NO_INT, (0, OutOfRange), (-2, OutOfRange), (3, NotAligned), (2**70 + 1, NotAligned)]
BAD_REQUEST_CALLS: dict[tuple[str, str], Bad] = {
    ("append", "tokens"): NO_TOKENS,
    ("truncate", "num_tokens"): [*NO_INT, *OUT_OF_RANGE, (11, OutOfRange)],
    ("hash_at", "position"): NO_POSITION,
    ("key_at", "group"): [*NO_INT, *OUT_OF_RANGE],
    ("key_at", "position"): NO_POSITION,
    ("view", "block_size"): NO_POSITION,
}


@pytest.mark.clause("ERR-TYPE-1", "ERR-ATOMIC-1")
@pytest.mark.parametrize(("method", "argument", "value", "error"), cases(BAD_REQUEST_CALLS))
def test_a_bad_argument_of_a_request_is_refused(
    method: str, argument: str, value: object, error: type[PoolError]
) -> None:
    rig = small_world()
    with rig.refused(error):
        getattr(rig.requests[0], method)(**{**GOOD_REQUEST_CALLS[method], argument: value})
    getattr(rig.requests[0], method)(**GOOD_REQUEST_CALLS[method])


@pytest.mark.clause("ERR-TYPE-1")
@pytest.mark.parametrize("group", [value for value, _ in NO_INT])
def test_a_bad_group_is_refused_beyond_the_hashed_tokens_too(group: Any) -> None:
    r1 = small_world().requests[0]
    assert r1.key_at(0, 12) is None
    with pytest.raises(InvalidArgument):
        r1.key_at(group, 12)


@pytest.mark.clause("ERR-TYPE-1")
def test_every_public_call_of_a_request_is_in_the_table() -> None:
    public = {name for name in dir(Request) if not name.startswith("_") and callable(getattr(Request, name))}
    data = {"extra_keys", "hasher", "hashes", "num_prompt_tokens", "request_id", "tokens"}
    assert set(GOOD_REQUEST_CALLS) == {name for name in public if name not in data}
    assert set(BAD_REQUEST_CALLS) == {(m, name) for m, good in GOOD_REQUEST_CALLS.items() for name in good}


@pytest.mark.clause("ERR-TYPE-1")
@pytest.mark.parametrize("slot", [value for value, _ in NO_INT])
def test_a_view_takes_whole_numbers_only(slot: Any) -> None:
    view = small_world().requests[0].view(4)
    with pytest.raises(InvalidArgument):
        view[slot]


# Atomicity beyond single arguments


@pytest.mark.clause("ERR-ATOMIC-1")
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda rig, r1: rig.pool.free([1, 2, 3], "r1"), NotReferenced),
        (lambda rig, r1: rig.pool.evict([1, 2, 9]), InvalidBlock),
        (lambda rig, r1: rig.pool.cache_full_blocks(r1, [1, 2, 3], 0, 3, 0, replace=True), NotOwner),
        (lambda rig, r1: rig.pool.cache_full_blocks(r1, [2, 1], 0, 2, 0, replace=True), OutOfRange),
        (lambda rig, r1: rig.pool.allocate(5, "r1"), OutOfBlocks),
        (lambda rig, r1: rig.pool.reset(), StillReferenced),
        (lambda rig, r1: r1.append([11, 12, -1]), OutOfRange),
    ],
)
def test_a_refusal_late_in_a_batch_leaves_what_came_before_it_undone(
    call: Callable[..., object], error: type[PoolError]
) -> None:
    rig = small_world()
    r1 = rig.requests[0]
    r1.append([11, 12])
    rig.events()
    rig.pool.evict([1])
    rig.put(r1, 1, 4)
    with rig.refused(error):
        call(rig, r1)
    rig.check()


# Texts and choice


@pytest.mark.clause("ERR-TEXT-1")
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda rig, r1: rig.pool.allocate(9, "r1"), ["9", "1"]),
        (lambda rig, r1: rig.pool.allocate(-3, "r1"), ["-3", "at least 0"]),
        (lambda rig, r1: rig.pool.full_key(77), ["77", "0 to 4"]),
        (lambda rig, r1: rig.pool.write(r1, 2, 7, 6), ["6", "0 to 0"]),
        (lambda rig, r1: rig.pool.cache_partial_block(r1, 2, 7, 0), ["7", "multiple", "2"]),
        (lambda rig, r1: rig.pool.cache_partial_block(r1, 2, 12, 0), ["12", "1 to 10"]),
        (lambda rig, r1: rig.pool.write(r1, 3, 4, 0), ["3", "'r2'", "'r1'"]),
        (lambda rig, r1: rig.pool.write(r1, 1, 7, 0), ["1", "slot 0", "slot 1"]),
        (lambda rig, r1: rig.pool.read(1, "r9"), ["1", "'r9'", "'r1'"]),
        (lambda rig, r1: r1.append([2**32]), [str(2**32), str(2**32 - 1)]),
        (lambda rig, r1: rig.pool.allocate("1", "r1"), ["'1'", "integer"]),
        (lambda rig, r1: rig.pool.free(["1"], "r1"), ["'1'", "integer"]),
        (lambda rig, r1: rig.pool.evict("1"), ["'1'", "list"]),
        (lambda rig, r1: rig.pool.touch(2, key(r1, 4), "r2"), ["2", "has no key", "look it up again"]),
        (lambda rig, r1: rig.pool.reset(), ["3 blocks are referenced", "only when none is"]),
        (lambda rig, r1: rig.pool.cache_full_blocks(r1, [1, 2], 0, 2, 0, [True]), ["1", "2", "one for each"]),
    ],
)
def test_an_errors_text_says_what_was_wrong_and_what_is_allowed(call: Callable[..., object], says: list[str]) -> None:
    assert_says(small_world(), call, says)


@pytest.mark.clause("ERR-TEXT-1")
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda rig, r1: rig.pool.commit(3), ["step 3", "after 0", "up to 1"]),
        (lambda rig, r1: (rig.pool.commit(1), rig.pool.allocate(1, "r1")), ["allocate", "call begin_step first"]),
        (lambda rig, r1: rig.pool.attach(2, key(r1, 4), "r2"), ["2", "no full key", "look again"]),
        (lambda rig, r1: rig.pool.attach(1, key(r1, 4), "copy:1"), ["'copy:1'", "only requests attach"]),
        (lambda rig, r1: rig.pool.free([1], "r1"), ["1", "step 1", "commit the step, or roll the request back"]),
        (lambda rig, r1: rig.pool.rollback(["copy:1"]), ["'copy:1'", "only requests"]),
        (lambda rig, r1: rig.pool.touch(1, key(r1, 4), "r2"), ["1", "to serve", "look it up again"]),
        (lambda rig, r1: small_world().pool.begin_step(), ["commits immediately", "commit=steps"]),
    ],
)
def test_the_errors_of_steps_say_what_was_wrong_too(call: Callable[..., object], says: list[str]) -> None:
    assert_says(world_in_a_step(), call, says)


def assert_says(rig: Rig, call: Callable[..., object], says: list[str]) -> None:
    with pytest.raises(PoolError) as caught:
        call(rig, rig.requests[0])
    missing = [word for word in says if word not in str(caught.value)]
    assert not missing, str(caught.value)


@pytest.mark.clause("ERR-CHOICE-1")
def test_with_several_faults_one_of_their_errors_is_raised() -> None:
    rig = small_world()
    with rig.refused(NotReferenced, InvalidBlock):
        rig.pool.free([3, 9], "r1")
    with rig.refused(OutOfRange, NotOwner, ContentConflict):
        rig.pool.write(rig.requests[1], 1, 11, 0)


# One owner


class Held(list[Any]):
    """The blocks of a pool, which stop whoever looks at one of them until they are released."""

    def __init__(self, items: Sequence[Any]) -> None:
        super().__init__(items)
        self.entered, self.release = threading.Event(), threading.Event()

    def __getitem__(self, index: Any) -> Any:
        self.entered.set()
        assert self.release.wait(10)
        return super().__getitem__(index)


HOLDING: dict[str, Callable[[Rig], object]] = {
    "free": lambda rig: rig.pool.free([1, 2], "r1"),
    "evict": lambda rig: rig.pool.evict([1, 2]),
    "cache_full_blocks": lambda rig: rig.pool.cache_full_blocks(rig.requests[0], [1, 2], 0, 2, 0),
}


@pytest.mark.clause("ERR-OWNER-1")
@pytest.mark.parametrize("running", HOLDING)
def test_a_second_thread_is_refused_by_every_call_and_does_not_disturb_the_first(running: str) -> None:
    rig, undisturbed = small_world(), small_world()
    for world in (rig, undisturbed):
        world.pool.write(world.requests[0], 2, 8, 0)
    HOLDING[running](undisturbed)
    held = rig.pool._blocks = Held(rig.pool._blocks)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            HOLDING[running](rig)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert held.entered.wait(10)
        for method, arguments in good_calls(rig).items():
            with pytest.raises(ConcurrentUse, match=method):
                getattr(rig.pool, method)(**arguments)
    finally:
        held.release.set()
        thread.join(10)
    assert not failures
    assert rig.pool.observe() == undisturbed.pool.observe()
    rig.check()


@pytest.mark.clause("ERR-OWNER-1")
def test_a_second_thread_may_call_between_two_operations() -> None:
    rig = small_world()
    taken: list[int] = []
    thread = threading.Thread(target=lambda: taken.extend(rig.pool.allocate(1, "r2")))
    thread.start()
    thread.join(10)
    rig.pool.free(taken, "r2")
    assert taken == [4]


@pytest.mark.clause("ERR-OWNER-1", "ERR-ATOMIC-1")
def test_a_refused_operation_leaves_the_pool_usable() -> None:
    rig = small_world()
    for _ in range(2):
        with rig.refused(OutOfBlocks):
            rig.pool.allocate(2, "r1")
    assert rig.pool.allocate(1, "r1") == [4]


# Cost


def executed_lines(call: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def lines_per_operation(pool: BlockPool) -> dict[str, int]:
    """How many lines each kind of operation executes; afterwards nobody holds what it took."""
    r1, r2 = (Request(name, range_list(20), pool.hasher) for name in ("r1", "r2"))
    table: list[int] = []
    lines: dict[str, int] = {}

    def step(name: str, call: Callable[[], object]) -> None:
        lines[name] = executed_lines(call)

    step("allocate", lambda: table.extend(pool.allocate(6, "r1")))
    step("write", lambda: pool.write(r1, table[0], 4, 0))
    step("cache_full_blocks", lambda: pool.cache_full_blocks(r1, table, 0, 3, 0))
    step("cache_partial_block", lambda: pool.cache_partial_block(r1, table[3], 14, 0))
    step("upgrade", lambda: pool.cache_full_blocks(r1, table, 3, 4, 0))
    step("lookup", lambda: pool.lookup([key(r1, 4), key(r1, 8), key(r1, 20)]))
    step("contains", lambda: pool.contains(key(r1, 4), table[0]))
    step("full_key", lambda: pool.full_key(table[0]))
    step("touch in use", lambda: pool.touch(table[0], key(r2, 4), "r2"))
    step("read", lambda: pool.read(table[0], "r2"))
    step("copy", lambda: pool.copy(table[0], table[5], "r1"))
    step("move", lambda: pool.move(table[3], table[4]))
    step("evict", lambda: pool.evict([table[4]]))
    step("free", lambda: pool.free(table[1:], "r1"))
    step("touch free", lambda: pool.touch(table[2], key(r2, 12), "r2"))
    step("take_events", lambda: pool.take_events())
    pool.free([table[0]], "r1")
    pool.free([table[0], table[2]], "r2")
    return lines


@pytest.mark.clause("COST-1")
def test_no_operation_executes_more_lines_in_a_pool_of_a_million_blocks() -> None:
    in_pools_of: dict[int, list[dict[str, int]]] = {}
    for num_blocks in (1_000, 1_000_000):
        pool = BlockPool(PoolConfig(num_blocks, 2, (ATTENTION,)))
        mostly_free = lines_per_operation(pool)
        pool.allocate(pool.num_free - 10, "others")
        mostly_used = lines_per_operation(pool)
        reallocate = {"reallocate": executed_lines(partial(pool.allocate, 10, "r1"))}
        in_pools_of[num_blocks] = [mostly_free, mostly_used, reallocate]
    assert in_pools_of[1_000] == in_pools_of[1_000_000]


def lines_per_count(pool: BlockPool, request: Request, n: int) -> dict[str, int]:
    """How many lines each kind of operation executes for n blocks."""
    table: list[int] = []
    keys = [key(request, 4 * (slot + 1)) for slot in range(n)]
    return {
        "allocate": executed_lines(lambda: table.extend(pool.allocate(n, "r1"))),
        "register": executed_lines(lambda: pool.cache_full_blocks(request, table, 0, n, 0)),
        "lookup": executed_lines(lambda: pool.lookup(keys)),
        "free": executed_lines(lambda: pool.free(table, "r1")),
        "evict": executed_lines(lambda: pool.evict(table)),
    }


@pytest.mark.clause("COST-1")
def test_the_cost_grows_evenly_with_the_arguments() -> None:
    pool = BlockPool(PoolConfig(100, 2, (ATTENTION,)))
    request = Request("r1", range_list(200), pool.hasher)
    small, middle, large = (lines_per_count(pool, request, n) for n in (4, 8, 12))
    for kind in small:
        assert 0 < middle[kind] - small[kind] == large[kind] - middle[kind], kind


class NeverWalked(list[Any]):
    def __iter__(self) -> NoReturn:
        raise AssertionError("an operation walks over all blocks")


class NeverWalkedQueue(OrderedDict[int, None]):
    def __iter__(self) -> NoReturn:
        raise AssertionError("an operation walks over the queue")

    keys = items = values = __reversed__ = __iter__


@pytest.mark.clause("COST-1")
def test_no_operation_walks_over_all_blocks_or_over_the_queue() -> None:
    rig = Rig(blocks=9)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.pool._blocks = NeverWalked(rig.pool._blocks)
    rig.pool._free._order = NeverWalkedQueue(rig.pool._free._order)
    table = rig.fill(r1, 2)
    rig.take(r1, 2)
    rig.put(r1, 3, 10)
    rig.touch(r2, 1, 4)
    rig.pool.copy(1, 4, "r1")
    rig.pool.move(3, 4)
    assert rig.found(r2, 10) == 4
    assert rig.pool.full_key(1) is not None
    rig.pool.evict([4])
    rig.free(r1, *reversed(table), 3, 4)
    rig.free(r2, 1)
    rig.touch(r2, 2, 8)
    rig.free(r2, 2)
    assert rig.pool.num_free == 8
    rig.pool.reset()
    rig.take(r2, 8)
    rig.events()
    with pytest.raises(AssertionError):
        rig.pool.observe()


# Observe


def observed(prepare: Callable[[Rig], object], *groups: Any, **config: Any) -> PoolState:
    rig = Rig(*groups, **config)
    rig.request("r1")
    rig.request("r2")
    prepare(rig)
    return rig.pool.observe()


def nothing(rig: Rig) -> None:
    pass


def shared(rig: Rig, first: str, second: str, position: int = 4) -> None:
    """Blocks 1 of r1 and 2 of r2 get the same key, one after the other."""
    blocks = {"r1": 1, "r2": 2}
    requests = {request.request_id: request for request in rig.requests}
    for name in ("r1", "r2"):
        rig.take(requests[name])
    for name in (first, second):
        rig.put(requests[name], blocks[name], position)
    rig.events()


def two_keys(rig: Rig, *shorter: int) -> None:
    r1 = rig.requests[0]
    rig.take(r1)
    rig.put(r1, 1, 6)
    for position in shorter:
        rig.pool.cache_partial_block(r1, 1, position, 0)
    rig.events()


def two_references(rig: Rig) -> None:
    rig.fill(rig.requests[0], 1)
    rig.touch(rig.requests[0], 1, 4)


def served(rig: Rig, position: int) -> None:
    two_keys(rig, 4)
    rig.touch(rig.requests[1], 1, position)
    rig.pool.evict([1])
    rig.events()


def evicted_at(rig: Rig, position: int) -> None:
    [block] = rig.take(rig.requests[0])
    rig.put(rig.requests[0], block, position)
    rig.pool.evict([block])
    rig.pool.take_events()


DIFFERENT: dict[str, tuple[Callable[[], PoolState], Callable[[], PoolState]]] = {
    "who holds": (
        lambda: observed(lambda rig: rig.take(rig.requests[0])),
        lambda: observed(lambda rig: rig.take(rig.requests[1])),
    ),
    "order of the queue": (
        lambda: observed(lambda rig: rig.free(rig.requests[0], *rig.take(rig.requests[0], 2))),
        lambda: observed(lambda rig: rig.free(rig.requests[0], *reversed(rig.take(rig.requests[0], 2)))),
    ),
    "who registered first": (
        lambda: observed(lambda rig: shared(rig, "r1", "r2")),
        lambda: observed(lambda rig: shared(rig, "r2", "r1")),
    ),
    "order of a block's keys": (
        lambda: observed(lambda rig: two_keys(rig, 2, 4), WIDE),
        lambda: observed(lambda rig: two_keys(rig, 4, 2), WIDE),
    ),
    "pending events": (
        lambda: observed(lambda rig: rig.fill(rig.requests[0], 1)),
        lambda: observed(lambda rig: (rig.fill(rig.requests[0], 1), rig.events())),
    ),
    "the slot of an evicted block": (
        lambda: observed(lambda rig: (rig.fill(rig.requests[0], 1), rig.pool.evict([1]), rig.events())),
        lambda: observed(lambda rig: (rig.take(rig.requests[0]), rig.pool.write(rig.requests[0], 1, 4, 0))),
    ),
    "which slot an evicted block is": (
        lambda: observed(lambda rig: evicted_at(rig, 4)),
        lambda: observed(lambda rig: evicted_at(rig, 8)),
    ),
    "what a reader was served": (
        lambda: observed(lambda rig: served(rig, 4), WIDE),
        lambda: observed(lambda rig: served(rig, 6), WIDE),
    ),
    "number of anonymous references": (
        lambda: observed(lambda rig: rig.fill(rig.requests[0], 1), holders=HolderMode.CALLER),
        lambda: observed(two_references, holders=HolderMode.CALLER),
    ),
    "number of blocks": (lambda: observed(nothing, blocks=4), lambda: observed(nothing, blocks=5)),
}


@pytest.mark.clause("OBSERVE-1")
@pytest.mark.parametrize("what", DIFFERENT)
def test_pools_that_could_answer_differently_do_not_compare_equal(what: str) -> None:
    one, other = DIFFERENT[what]
    assert one() == one()
    assert other() == other()
    assert one() != other()


@pytest.mark.clause("OBSERVE-1")
@pytest.mark.parametrize("group", [ATTENTION, RECURRENT])
def test_pools_with_the_same_history_compare_equal(group: Any) -> None:
    assert observed(lambda rig: shared(rig, "r1", "r2"), group) == observed(lambda rig: shared(rig, "r1", "r2"), group)


@pytest.mark.clause("OBSERVE-1")
def test_observing_changes_nothing_and_what_was_observed_does_not_change_later() -> None:
    rig = small_world()
    first = rig.pool.observe()
    second = rig.pool.observe()
    assert first == second
    h4 = key(rig.requests[0], 4)
    rig.pool.evict([1])
    rig.take(rig.requests[0])
    assert first == second != rig.pool.observe()
    assert (first.index, first.free_queue) == ({h4: (1,)}, (4,))


@pytest.mark.clause("OBSERVE-1")
def test_an_observed_state_is_a_value_apart_from_the_pool() -> None:
    rig = small_world()
    state = rig.pool.observe()
    try:
        state.index.clear()
    except (AttributeError, TypeError):
        return
    assert rig.found(rig.requests[0], 4) == 1
    assert rig.pool.observe() != state


class Liar(int):
    """An integer that compares as it likes."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return False


def nest(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


ODD_VALUES: dict[str, object] = {
    "a subclass": Liar(-1),
    "more digits than Python shows": 10**5000,
    "a nest": nest(100_000),
}


@pytest.mark.clause("ERR-TYPE-1", "ERR-ATOMIC-1")
@pytest.mark.parametrize("odd", ODD_VALUES)
def test_a_value_that_lies_or_cannot_be_shown_is_refused_like_any_other(odd: str) -> None:
    rig, value = small_world(), cast("int", ODD_VALUES[odd])
    r1 = rig.requests[0]
    for call in (
        lambda: rig.pool.allocate(value, "r1"),
        lambda: rig.pool.free([value], "r1"),
        lambda: rig.pool.cache_partial_block(r1, 1, value, 0),
        lambda: r1.append([value]),
        lambda: r1.truncate(value),
        lambda: rig.pool.touch(1, key(r1, 4), cast("str", value)),
    ):
        with rig.refused(InvalidArgument, OutOfRange, OutOfBlocks, InvalidBlock):
            call()


@pytest.mark.clause("ERR-TYPE-1")
def test_an_error_says_of_which_type_a_value_is_that_looks_like_another_one() -> None:
    rig = small_world()
    for value, said in ((Liar(-1), "not -1 of type Liar"), (True, r"not True$"), (10**5000, "of type int that cannot")):
        with pytest.raises(PoolError, match=said):
            rig.pool.allocate(value, "r1")


@pytest.mark.clause("ERR-TYPE-1")
def test_a_hasher_refuses_what_makes_no_hash() -> None:
    for arguments in (
        ("sha256", 2),
        (HashAlgorithm.SHA256, 0),
        (HashAlgorithm.SHA256, -2),
        (HashAlgorithm.SHA256, True),
        (HashAlgorithm.SHA256, 2, "seed"),
    ):
        with pytest.raises((InvalidArgument, OutOfRange)):
            PrefixHasher(*cast("tuple[Any, ...]", arguments))
    assert PrefixHasher(HashAlgorithm.SHA256, 2, b"seed").hash_block_size == 2


@pytest.mark.clause("ERR-TYPE-1")
def test_a_ghost_serves_one_pool() -> None:
    rig = small_world()
    with pytest.raises(InvalidArgument, match="belongs to another pool"):
        BlockPool(rig.config, rig.ghost)
    assert BlockPool(rig.config, Ghost()).num_free == rig.config.num_blocks - 1
