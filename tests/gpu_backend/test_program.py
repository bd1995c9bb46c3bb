"""A step program does what its operations do one by one, and stops where one of them is refused."""

from __future__ import annotations

import re
from array import array

import pytest

from kvproof.gpu_backend import BlockPool, StepProgram, _core
from kvproof.spec.errors import ContentConflict, InvalidArgument, NotReferenced, OutOfBlocks, OutOfRange, PoolError
from kvproof.spec.vocabulary import CommitMode, HolderMode
from tests.gpu_backend.pools import config
from tests.gpu_backend.tools import script

CrampedPool = script("fuzz_core").CrampedPool

REQUEST = BlockPool(config()).request("r1", list(range(8)))


@pytest.mark.parametrize("events", [True, False])
def test_a_program_does_what_its_operations_do(events: bool) -> None:
    pools = [BlockPool(config(commit=CommitMode.STEPS), events=events) for _ in range(2)]
    one_by_one, at_once = pools
    requests = [pool.request("r1", list(range(8))) for pool in pools]
    keys = [requests[0].key_at(0, n) or b"" for n in (4, 8)]

    begun, taken = one_by_one.begin_step(), one_by_one.allocate(2, "r1")
    one_by_one.cache_full_blocks(requests[0], taken, 0, 2, 0)
    one_by_one.attach(1, keys[0], "r2")
    rolled_back = one_by_one.rollback(["r2"])
    one_by_one.commit(1)
    one_by_one.begin_step()
    one_by_one.touch(2, keys[1], "r3")
    one_by_one.free(taken, "r1")
    found = one_by_one.lookup([*keys, bytes(20)])

    program = at_once.program()
    program.begin_step()
    program.allocate(2, "r1")
    program.cache_slots(requests[1], [1, 2], 0, 0)
    program.attach(1, keys[0], "r2")
    program.rollback(["r2"])
    program.commit(1)
    program.begin_step()
    program.touch_all([2], [keys[1]], "r3")
    program.free([1, 2], "r1")
    program.lookup([*keys, bytes(20)])
    expected = [begun, taken, None, None, rolled_back, None, 2, None, None, found]
    assert len(program) == len(expected)
    assert program.run() == program.results == expected
    assert at_once.observe() == one_by_one.observe()


@pytest.mark.parametrize("pool", [None, "pool", BlockPool.__new__(BlockPool)])
def test_a_program_is_one_of_a_pool(pool: object) -> None:
    with pytest.raises(InvalidArgument, match=r"BlockPool\(config\)"):
        StepProgram(pool)  # type: ignore[arg-type]


def test_a_part_of_a_table_is_registered_like_the_table() -> None:
    whole, part = BlockPool(config()), BlockPool(config())
    for pool in (whole, part):
        assert pool.allocate(5, "r1") == [1, 2, 3, 4, 5]
    request = whole.request("r1", list(range(20)))
    whole.cache_full_blocks(request, [1, 2, 3, 4, 5], 2, 4, 0)
    part.cache_slots(request, [3, 4], 2, 0)
    assert part.observe() == whole.observe()
    with pytest.raises(OutOfRange, match="cache_slots"):
        part.cache_slots(request, [5, 1], 4, 0)


def test_the_first_refusal_ends_a_program_and_keeps_what_was_done() -> None:
    pool = BlockPool(config(holders=HolderMode.CALLER))
    program = pool.program()
    program.allocate(3)
    program.allocate(99)
    program.free([1])
    with pytest.raises(OutOfBlocks, match="5 blocks are free") as refused:
        program.run()
    assert "operation 1" in refused.value.__notes__[0]
    assert program.results == [[1, 2, 3]]
    assert pool.num_free == 5


REFUSED: dict[str, tuple[object, ...]] = {
    "allocate": (99, "r1"),
    "touch_all": ([2, 1], [bytes(20), bytes(20)], "r2"),
    "free": ([1, 2, 8], "r1"),
    "cache_slots": (REQUEST, [1, 9], 0, 0),
    "cache_partial_block": (REQUEST, 8, 4, 0),
    "evict": ([1, 2, 99],),
    "move": (1, 99),
    "copy": (8, 7, "r1"),
    "reset": (),
    "commit": (7,),
    "attach": (1, bytes(20), "r2"),
    "finish": ("r1", [1, 8]),
}


@pytest.mark.clause("ERR-TEXT-1")
@pytest.mark.parametrize("operation", REFUSED)
def test_a_refusal_has_the_words_of_the_pools_call(operation: str) -> None:
    pool = BlockPool(config(commit=CommitMode.STEPS))
    pool.begin_step()
    pool.allocate(2, "r1")
    program = pool.program()
    getattr(program, operation)(*REFUSED[operation])
    with pytest.raises(PoolError) as by_program:
        program.run()
    with pytest.raises(PoolError) as by_call:
        getattr(pool, operation)(*REFUSED[operation])
    assert type(by_program.value) is type(by_call.value)
    assert str(by_program.value) == str(by_call.value)


def test_the_operations_of_a_program_are_those_of_the_pool() -> None:
    own = {"run", "pool", "results"}
    names = {name for name in dir(StepProgram) if not name.startswith("_")} - own
    questions = {"lookup_longest", "find", "find_matrix", "uses", "num_held", "contains", "full_key"}
    left_out = {"touch", "cache_full_blocks", "write", "read"}
    assert names == {name for name in vars(_core.Hand) if not name.startswith("_")} - questions - left_out - {
        "num_free"
    }


def test_a_key_too_few_is_refused_alike_by_a_program_and_its_pool() -> None:
    pool = BlockPool(config())
    for each in (pool, pool.program()):
        with pytest.raises(OutOfRange, match=r"keys is .* one key for each block"):
            each.touch_all([1, 2], [bytes(20)], "r1")


def test_a_program_registers_anew_where_the_pool_does() -> None:
    pools = [BlockPool(config(commit=CommitMode.IMMEDIATE)) for _ in range(2)]
    for pool in pools:
        taken = pool.allocate(2, "r1")
        for tokens, replace in (([1] * 8, False), ([2] * 8, True)):
            if pool is pools[0]:
                pool.cache_slots(pool.request("r1", tokens), taken, 0, 0, replace)
            else:
                program = pool.program()
                program.cache_slots(pool.request("r1", tokens), taken, 0, 0, replace)
                program.run()
    assert pools[0].observe() == pools[1].observe()
    with pytest.raises(ContentConflict):
        pools[0].cache_slots(pools[0].request("r1", [3] * 8), taken, 0, 0)


def test_a_refusal_tells_what_was_given_when_the_operation_was_added() -> None:
    pool = BlockPool(config())
    program, given = pool.program(), [1, 2]
    program.free(given, "r1")
    given.clear()
    with pytest.raises(NotReferenced, match=re.escape("free([1, 2], 'r1'), item 0: a block is used")):
        program.run()


def test_a_program_makes_room_in_its_middle() -> None:
    pools = [kind(config(40)) for kind in (CrampedPool, BlockPool)]
    done = []
    for pool in pools:
        program = pool.program()
        for turn in range(3):
            name, blocks = f"r{turn}", list(range(1 + 10 * turn, 11 + 10 * turn))
            request = pool.request(name, [turn] * 40)
            program.allocate(10, name)
            program.cache_slots(request, blocks, 0, 0)
            program.lookup([request.key_at(0, 4 * (i + 1)) or b"" for i in range(10)] * 20)
            program.free(blocks, name)
        done.append(program.run())
        pool.check()
    assert done[0] == done[1]
    assert [len(answer) for answer in done[0] if isinstance(answer, list)] == [10, 200] * 3
    assert pools[0].observe() == pools[1].observe()


@pytest.mark.parametrize(
    "words",
    [
        [99],
        [0],
        [1],
        [1, 5000, 3],
        [1, 0, 3],
        [3, 0, -1],
        [4, 2**31 - 1],
        [6, 2**31 - 1, 2**31 - 1],
        [6, 1000, 1, 0],
        [10, -2, 77, 0, 0, 0, 0],
        [10, -2, -1, 0, 0, 0, 0],
        [2, 5001, 0],
        [14, 5001, 7, 1, 2],
        [21, 1, 5000],
        [23],
        [23, 77],
        [23, 0],
        [24, 5001, 0],
        [24, -2, 1, 5000],
        [24, -2, 2**31 - 1],
    ],
)
def test_words_that_are_no_program_are_refused_and_change_nothing(words: list[int]) -> None:
    for commit in CommitMode:
        pool = BlockPool(config(commit=commit))
        before = pool.observe()
        _, refused, error, _ = pool._run(array("i", words))
        assert refused == 0
        assert error in ("InvalidArgument", "NoOpenStep", "InvalidBlock")
        assert pool.observe() == before


@pytest.mark.parametrize(
    "add",
    [
        lambda program: program.allocate(True, "r1"),
        lambda program: program.allocate(1, None),
        lambda program: program.allocate(1, "copy:pool:1:2"),
        lambda program: program.free("12", "r1"),
        lambda program: program.touch_all([1], [b"short"], "r1"),
        lambda program: program.rollback(["copy:1"]),
        lambda program: program.cache_slots("r1", [1], 0, 0),
    ],
)
def test_bad_arguments_are_refused_when_they_are_added(add: object) -> None:
    program = BlockPool(config(commit=CommitMode.STEPS)).program()
    with pytest.raises(InvalidArgument):
        add(program)  # type: ignore[operator]
    assert len(program) == 0
