"""Replays what the core did here on another machine: the same programs have to leave the same arenas, byte for byte.

    python tools/replay_core.py [--arm64] [--pools N] [--calls N] [--seed N]

Random pools are driven through step programs and recorded: programs, growth, texts, and a digest of the arena after
each. `replay_core.cpp` runs them again without Python. Built for arm64 it runs under qemu-user, which takes the Debian
packages g++-aarch64-linux-gnu and qemu-user. Hashes are compared with those of xxhash and hashlib at every class of
lengths.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import shutil
import struct
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import xxhash

from kvproof.gpu_backend import BlockPool, build
from kvproof.gpu_backend.arena import HEADER
from kvproof.gpu_backend.program import OPCODES
from kvproof.spec.vocabulary import GROUP_ID_BYTES, Holder, Key

SOURCE = Path(__file__).with_suffix(".cpp")

OPEN, ADOPT, PATCH, TEXT, RUN, HASH = range(1, 7)
"""The commands of a recording."""

NATIVE = ("c++",)
ARM64 = ("aarch64-linux-gnu-g++", "-static")
EMULATOR = ("qemu-aarch64",)

PACKAGES = {"c++": "g++", "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}
"""Where Debian has the tools."""

LENGTHS = (*range(300), 511, 512, 513, 1023, 1024, 1025, 2048, 5000)
"""Every class of lengths of XXH3 and SHA-256."""

Program = Any


def _fuzz() -> Any:
    spec = importlib.util.spec_from_file_location("fuzz_core", Path(__file__).with_name("fuzz_core.py"))
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = sys.modules.setdefault("fuzz_core", importlib.util.module_from_spec(spec))
    if not hasattr(module, "Pair"):
        spec.loader.exec_module(module)
    return module


fuzz = _fuzz()


class Recording:
    """The numbers that the other machine reads, and the lines that it has to answer with."""

    def __init__(self) -> None:
        self.numbers = array("q")
        self.expected: list[str] = []

    def add(self, *numbers: int) -> None:
        """Numbers of a command."""
        self.numbers.extend(numbers)

    def hash_everything(self, random: Random) -> None:
        """Hash texts of every class of lengths."""
        for length in LENGTHS:
            data = random.randbytes(length)
            self.add(HASH, length, *data)
            self.expected.append(f"{xxhash.xxh3_128_hexdigest(data)} {_digest(data)}")


class RecordedPool(BlockPool):
    """A pool that does everything by programs, and records them."""

    recording: Recording

    def _begin(self, *arguments: Any) -> None:
        super()._begin(*arguments)
        header = self.views().header.tolist()
        seed = header[HEADER["seed"] : HEADER["offset"]]
        groups = [word for kind, size in self._groups() for word in (kind, size)]
        self.recording.add(OPEN, *map(int, self._settings), *seed, len(self.config.groups), *groups, *self._rows())
        self._known, self._running = self._words(), False

    def _groups(self) -> list[tuple[int, int]]:
        """Kind and block size of each group, as the arena has them."""
        rows = self.views().groups.tolist()
        return [(kind, struct.unpack("<q", struct.pack("<ii", low, high))[0]) for low, high, kind, _ in rows]

    def _words(self) -> list[int]:
        words: list[int] = self.arena.tolist()
        return words

    def _patch(self) -> None:
        """Record what the host changed since the last program: names, and events that were taken."""
        words = self._words()
        changed = [(at, word) for at, (word, was) in enumerate(zip(words, self._known, strict=True)) if word != was]
        self.recording.add(PATCH, len(changed), *[number for pair in changed for number in pair])

    def _grow(self, region: int, wanted: int) -> None:
        if not self._running:
            self._patch()
        super()._grow(region, wanted)
        self.recording.add(ADOPT, *self._rows())
        self._known = self._words()

    def _keep(self, requests: list[Any]) -> list[int]:
        numbers = super()._keep(requests)
        for number, request in zip(numbers, requests, strict=True):
            digests = array("I", b"".join(request.hashes))
            self.recording.add(TEXT, number, request.num_hashes, *digests)
        return numbers

    def _run(self, words: array[int]) -> tuple[bytes, int, str, int]:
        self._patch()
        self.recording.add(RUN, len(words), *words)
        self._running = True
        results, refused, error, detail = super()._run(words)
        self._running, self._known = False, self._words()
        arena = _digest(self.arena.numpy().tobytes())
        self.recording.expected.append(f"{refused} {detail if refused >= 0 else 0} {_digest(results)} {arena}")
        return results, refused, error, detail

    def _do(self, add: Callable[[Program], None]) -> Any:
        program = self.program()
        add(program)
        return program.run()[0]

    def _ask(self, operation: str, *words: int) -> None:
        with self._hold(operation):
            self._run(array("i", [OPCODES[operation], *words]))

    def _key(self, key: Key) -> tuple[int, ...]:
        return (int.from_bytes(key[-GROUP_ID_BYTES:], "big", signed=True), *array("i", key[:-GROUP_ID_BYTES]))

    def allocate(self, n: int, holder: Holder | None = None) -> list[int]:
        """By a program, like everything that follows."""
        blocks: list[int] = self._do(lambda program: program.allocate(n, holder))
        return blocks

    def touch(self, block_id: int, key: Key, holder: Holder | None = None) -> None:
        """See above."""
        self._do(lambda program: program.touch_all([block_id], [key], holder))

    def free(self, block_ids: Sequence[int], holder: Holder | None = None) -> None:
        """See above."""
        self._do(lambda program: program.free(block_ids, holder))

    def lookup(self, keys: Sequence[Key]) -> list[int | None]:
        """See above; the longest chain is asked for too."""
        self._ask("lookup_longest", len(keys), *[word for key in keys for word in self._key(key)])
        found: list[int | None] = self._do(lambda program: program.lookup(keys))
        return found

    def find(self, keys: Sequence[Key]) -> Any:
        """Asked for twice: programs of Python have no such operation."""
        self._ask("find", len(keys), *[word for key in keys for word in self._key(key)])
        return super().find(keys)

    def contains(self, key: Key, block_id: int) -> bool:
        """See `find`."""
        self._ask("contains", block_id, *self._key(key))
        return super().contains(key, block_id)

    def full_key(self, block_id: int) -> Key | None:
        """See `find`."""
        self._ask("full_key", block_id)
        return super().full_key(block_id)

    def cache_full_blocks(  # a program takes the blocks of the range only
        self,
        request: Any,
        block_ids: Sequence[int],
        first: int,
        last: int,
        group: int,
        mask: Sequence[bool] | None = None,
        replace: bool = False,
    ) -> None:
        """By a program; a slot that is masked is null."""
        named = mask or [True] * (last - first)
        blocks = [block if is_named else 0 for block, is_named in zip(block_ids[first:last], named, strict=True)]
        self._do(lambda program: program.cache_slots(request, blocks, first, group, replace))

    def cache_partial_block(
        self, request: Any, block_id: int, position: int, group: int, replace: bool = False
    ) -> None:
        """By a program."""
        self._do(lambda program: program.cache_partial_block(request, block_id, position, group, replace))

    def evict(self, block_ids: Sequence[int]) -> None:
        """By a program."""
        self._do(lambda program: program.evict(block_ids))

    def move(self, src_id: int, dst_id: int) -> None:
        """By a program."""
        self._do(lambda program: program.move(src_id, dst_id))

    def copy(self, src_id: int, dst_id: int, holder: Holder | None = None) -> None:
        """By a program."""
        self._do(lambda program: program.copy(src_id, dst_id, holder))

    def reset(self) -> None:
        """By a program."""
        self._do(lambda program: program.reset())

    def begin_step(self) -> int:
        """By a program."""
        step: int = self._do(lambda program: program.begin_step())
        return step

    def commit(self, step: int) -> None:
        """By a program."""
        self._do(lambda program: program.commit(step))

    def attach(self, block_id: int, key: Key, holder: Holder) -> None:
        """By a program."""
        self._do(lambda program: program.attach(block_id, key, holder))

    def rollback(self, requests: Sequence[Holder]) -> list[Holder]:
        """By a program."""
        names: list[Holder] = self._do(lambda program: program.rollback(requests))
        return names

    def finish(self, request_id: Holder, block_ids: Sequence[int]) -> list[Holder]:
        """By a program."""
        names: list[Holder] = self._do(lambda program: program.finish(request_id, block_ids))
        return names


class RecordedCrampedPool(fuzz.CrampedPool, RecordedPool):  # type: ignore[misc, name-defined] # `fuzz` is loaded by path
    """The same, and every table of it has to grow."""


class RecordedPair(fuzz.Pair):  # type: ignore[misc, name-defined]
    """The reference beside a pool that is recorded."""

    pools = (RecordedPool, RecordedCrampedPool)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def record(seeds: Iterable[int], calls: int) -> Recording:
    """Drive a pool for each seed. The reference is compared too; raises `Mismatch` of the fuzz."""
    recording = RecordedPool.recording = Recording()
    for seed in seeds:
        pair = RecordedPair(seed)
        for _ in range(calls):
            pair.call()
    recording.hash_everything(Random(1))
    return recording


def lacking(tools: Iterable[str]) -> str | None:
    """What has to be installed, None if nothing has to."""
    missing = [PACKAGES[tool] for tool in tools if shutil.which(tool) is None]
    return f"apt-get install {' '.join(missing)}" if missing else None


def replay(recording: Recording, compiler: Sequence[str] = NATIVE, emulator: Sequence[str] = ()) -> list[str]:
    """The lines that the core answers with when it is built by this compiler."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "replay")
        flags = ("-O2", "-std=c++17", "-Wall", "-Wextra", f"-I{build.SOURCES}")
        subprocess.run([*compiler, *flags, str(SOURCE), "-o", str(program)], check=True)
        run = subprocess.run([*emulator, str(program)], input=recording.numbers.tobytes(), capture_output=True)
    if run.returncode:
        raise RuntimeError(f"the replay ended with {run.returncode}: {run.stderr.decode()}")
    return run.stdout.decode().splitlines()


def main() -> int:
    """Record, replay, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arm64", action="store_true", help="cross-compile, and run under qemu-user")
    parser.add_argument("--pools", type=int, default=60)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    compiler, emulator = (ARM64, EMULATOR) if chosen.arm64 else (NATIVE, ())
    if install := lacking([*compiler[:1], *emulator]):
        print(f"the core cannot be replayed: {install}", file=sys.stderr)
        return 2
    recording = record(range(chosen.seed, chosen.seed + chosen.pools), chosen.calls)
    answered = replay(recording, compiler, emulator)
    for at, (right, wrong) in enumerate(zip(recording.expected, answered, strict=False)):
        if right != wrong:
            print(f"answer {at} is {wrong}, not {right}", file=sys.stderr)
            return 1
    if len(answered) != len(recording.expected):
        print(f"there are {len(answered)} answers, not {len(recording.expected)}", file=sys.stderr)
        return 1
    programs = len(answered) - len(LENGTHS)
    print(f"{programs:,} programs on {chosen.pools} pools and {len(LENGTHS)} hashes: the same, byte for byte")
    return 0


if __name__ == "__main__":
    sys.exit(main())
