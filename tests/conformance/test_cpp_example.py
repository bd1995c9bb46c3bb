from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kvproof.conformance.backends.interface import AdapterError, Backend, Level
from kvproof.conformance.backends.names import NamedBackend
from kvproof.conformance.backends.targets import open_backend
from kvproof.conformance.backends.wire import IF_HYBRID, PARTS, StoredEvent
from kvproof.conformance.certification.digests import driven_files
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.settings import random_pool
from kvproof.conformance.commands.new_adapter import EXAMPLES
from kvproof.conformance.illegal import operations
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    CacheFullBlocks,
    Extra,
    KeyRef,
    Operation,
    Touch,
    operation_of,
)
from kvproof.conformance.proposals import Proposer
from kvproof.spec.vocabulary import CommitMode, GroupConfig, GroupKind, PoolConfig
from tests.backend_walks import drive

SOURCE = EXAMPLES / "cpp" / "pool_adapter.cpp"

CONFIG = PoolConfig(4, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 4),))

NAMES = ("r1", "r2", "r3")


def compiled(folder: Path, *options: str) -> Path:
    program = folder / "pool_adapter"
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *options]
    built = subprocess.run([*command, "-o", str(program), str(SOURCE)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return program


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("cpp"))


@pytest.fixture(scope="module")
def pool(program: Path) -> Iterator[Backend]:
    backend = NamedBackend(open_backend(f"exec:{program}"))
    yield backend
    backend.close()


def test_it_claims_the_pool_events_order_and_robustness(pool: Backend) -> None:
    _, claimed = pool.identify()
    assert claimed.levels == (Level.POOL, Level.EVENTS, Level.ORDER, Level.ROBUSTNESS)
    assert claimed.observes == tuple(part for part in PARTS if part != IF_HYBRID)


@pytest.mark.parametrize("seed", range(40))
def test_it_does_as_the_reference(pool: Backend, seed: int) -> None:
    assert drive(pool, seed, 300) is None


def as_sent(drawn: Iterable[Operation]) -> Iterator[Operation]:
    """The operations as JSON brings them, without those that it cannot hold."""
    for operation in drawn:
        try:
            line = msgspec.json.encode(operation)
        except (TypeError, UnicodeEncodeError):
            continue
        yield operation_of(msgspec.json.decode(line))


@settings(
    max_examples=60,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 40), data=st.data())
def test_it_refuses_what_is_illegal_and_changes_nothing(pool: Backend, seed: int, data: st.DataObject) -> None:
    _, claimed = pool.identify()
    random = Random(seed)
    config = random_pool(claimed, random)
    lockstep = Lockstep(pool, claimed, config)
    proposer = Proposer(lockstep.model.world, random)
    lockstep.run(drawn for _ in range(60) if (drawn := proposer.draw()) is not None)
    lockstep.run(as_sent(data.draw(st.lists(operations(config, NAMES), min_size=10, max_size=30))))
    found = lockstep.divergence
    assert found is None, (found.operations[-1], found.differences)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add_request", "request": "r", "tokens": [], "extra_keys": None},
        {
            "op": "add_request",
            "request": "r",
            "tokens": [],
            "extra_keys": [{"source": "salt", "value": "", "start": None}],
        },
        {"op": "add_request", "request": "r", "tokens": None},
        {"op": "cache_full_blocks", "request": "a", "blocks": [], "first": 0, "last": 0, "group": 0, "replace": None},
        {"op": "allocate", "holder": "r", "n": None},
    ],
)
def test_a_null_is_not_a_field_that_was_left_out(pool: Backend, operation: dict[str, object]) -> None:
    pool.start(CONFIG)
    _, step = pool.run((AddRequest("a", ()), operation_of(operation)), observe=False)
    assert step.answer.error == "InvalidArgument"


def test_a_pool_whose_evicted_blocks_keep_their_keys_is_found(tmp_path: Path) -> None:
    broken = NamedBackend(open_backend(f"exec:{compiled(tmp_path, '-DBROKEN_EVICTION_KEEPS_KEYS')}"))
    found = [divergence for seed in range(10) if (divergence := drive(broken, seed, 300)) is not None]
    broken.close()
    assert found
    assert {difference.what for difference in found[0].differences} & {"keys", "index", "events"}


def test_a_configuration_that_it_cannot_make_is_reported(program: Path) -> None:
    backend = open_backend(f"exec:{program}")
    with pytest.raises(AdapterError, match="reports at `start`: commit can only be immediate"):
        backend.start(msgspec.convert({**msgspec.to_builtins(CONFIG), "commit": CommitMode.STEPS}, PoolConfig))
    backend.close()


def test_an_operation_that_it_does_not_offer_is_reported(program: Path) -> None:
    backend = open_backend(f"exec:{program}")
    backend.start(CONFIG)
    with pytest.raises(AdapterError, match="there is no operation begin_step here"):
        backend.run((operation_of({"op": "begin_step"}),), observe=False)
    backend.close()


ODD = 'é"\\\n\t\x01😀/'


def test_text_of_any_sort_comes_back_as_it_was(pool: Backend) -> None:
    pool.start(CONFIG)
    key = KeyRef(ODD, 0, 4)
    steps = pool.run(
        (
            AddRequest(ODD, (1, 2, 3, 4), (Extra("media", ODD, 1, 3),)),
            Allocate(ODD, 1),
            CacheFullBlocks(ODD, (1,), 0, 1, 0),
            Touch("copy", 1, key),
        ),
        observe=True,
    )
    assert [step.answer.error for step in steps] == [None] * 4
    [stored] = steps[2].events or ()
    assert isinstance(stored, StoredEvent)
    assert stored.extra_keys == (Extra("media", ODD, 1, 3),)
    assert steps[3].seen is not None
    assert steps[3].seen.holders == ((), ("copy", ODD), (), ())


def test_escapes_and_blanks_of_other_writers_are_read(program: Path) -> None:
    allocate = {"op": "allocate", "holder": ODD, "n": 1}
    start = {"message": "start", "config": {**msgspec.to_builtins(CONFIG)}}
    lines = [start, {"message": "run", "operations": [allocate, allocate], "observe": True}, {"message": "stop"}]
    text = "".join(json.dumps(line, ensure_ascii=True, separators=(" , ", " : ")) + "\n" for line in lines)
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0
    started, ran = map(json.loads, done.stdout.splitlines())
    assert started == {"message": "started"}
    assert ran["steps"][1]["seen"]["holders"] == [[], [ODD], [ODD], []]


@pytest.mark.parametrize("line", ["{", "nonsense", '{"message": "run"}', '{"message": "hello", "protocol": 2}', "{]}"])
def test_a_line_that_is_no_request_is_reported(program: Path, line: str) -> None:
    done = subprocess.run([str(program)], input=line + "\n", capture_output=True, text=True, timeout=20)
    assert json.loads(done.stdout)["message"] == "failed"


def test_the_session_in_the_documentation_is_what_it_says(program: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    session = page.split("```json\n")[1].split("```")[0].splitlines()
    requests, replies = session[::2], session[1::2]
    text = "\n".join(requests) + "\n"
    command = f"./{program.name}"
    done = subprocess.run([command], cwd=program.parent, input=text, capture_output=True, text=True, timeout=20)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [json.loads(line) for line in replies]


def test_the_program_names_itself_and_the_sources_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in SOURCE.parent.iterdir():
        shutil.copy(source, tmp_path)
    compiled(tmp_path)
    monkeypatch.chdir(tmp_path)
    backend = open_backend("exec:./pool_adapter")
    driven = {file.name for file in driven_files(backend.identify()[0])}
    backend.close()
    assert driven == {"./pool_adapter", "./pool_adapter.cpp", "./pool.hpp", "./json.hpp"}
