"""Ghost state: what the blocks really hold (clauses CONTENT-*), and how each was released.

No decision of the pool depends on it. It exists so that soundness can be checked: whatever a lookup returns must hold
exactly the KV that the reader would have computed itself. With steps in flight a block's content after each of them is
kept, since a step that fails takes its writes back. And the order of the queue follows from how blocks were released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvproof.reference.positions import slot_of
from kvproof.reference.request import Prefix
from kvproof.spec.errors import InvalidArgument
from kvproof.spec.vocabulary import GroupConfig, GroupKind, Holder, Key, PoolConfig


@dataclass(frozen=True, slots=True)
class Content:
    """What a block holds: the last rows of a prefix, or its state, in one group."""

    prefix: Prefix
    group: int

    def fits(self, prefix: Prefix, group: int, config: GroupConfig) -> bool:
        """Whether it serves a reader of `prefix` in `group`: its rows, or exactly its state (CONTENT-SOUND-1)."""
        if self.group != group:
            return False
        if config.kind is GroupKind.RECURRENT:
            return self.prefix == prefix
        same_slot = slot_of(self.prefix.length, config.block_size) == slot_of(prefix.length, config.block_size)
        return same_slot and self.prefix.begins_with(prefix)


@dataclass(frozen=True, slots=True)
class Release:
    """The last time that nobody referenced a block any more: in which call, and in which place among its blocks."""

    had_keys: bool
    call: int
    place: int

    @property
    def turn(self) -> tuple[bool, int, int]:
        """Ascending in the order in which free blocks are to be taken (INV-LRU-1, POOL-FREE-2)."""
        return self.had_keys, self.call if self.had_keys else -self.call, self.place


class Ghost:
    """What each block holds, which prefix each key stands for, what each reader was served, how blocks were freed."""

    def __init__(self) -> None:
        self._history: dict[int, tuple[tuple[int, Content | None], ...]] = {}
        """block id -> (step, what the block holds from then on), steps ascending."""
        self._changed: dict[int, dict[int, None]] = {}
        """open step -> the blocks that hold something else since it."""
        self.prefixes: dict[Key, Prefix] = {}
        """cached key -> the prefix that it names."""
        self.served: dict[tuple[int, Holder], Prefix] = {}
        """(block id, holder) -> the prefix that the holder reads from the block."""
        self._releases: dict[int, Release] = {}
        self._calls = 0
        self._claimed = False

    def claim(self) -> None:
        """One pool is going to keep this ghost, from its beginning; two would spoil each other's."""
        if self._claimed:
            raise InvalidArgument("this Ghost belongs to another pool; make a new one for each pool")
        self._claimed = True

    @property
    def contents(self) -> dict[int, Content]:
        """What each block holds after the current step; blocks that hold nothing are left out."""
        latest = {block: past[-1][1] for block, past in self._history.items()}
        return {block: content for block, content in latest.items() if content is not None}

    def content(self, block_id: int) -> Content | None:
        """What a block holds after the current step."""
        past = self._history.get(block_id)
        return past[-1][1] if past else None

    def content_after(self, block_id: int, step: int) -> Content | None:
        """What a block holds after a step that is open, or was committed last."""
        for since, content in reversed(self._history.get(block_id, ())):
            if since <= step:
                return content
        return None

    def history(self, block_id: int) -> list[Content]:
        """Everything that the block has held since the last committed step."""
        return [content for _, content in self._history.get(block_id, []) if content is not None]

    def hold(self, block_id: int, content: Content | None, step: int) -> None:
        """From this step on, the current one, the block holds something else."""
        past = self._history.get(block_id, ())
        if past and past[-1][0] == step:
            past = past[:-1]
        self._history[block_id] = (*past, (step, content))
        self._changed.setdefault(step, {})[block_id] = None

    def changed_since(self, step: int) -> list[int]:
        """The blocks that hold something else since a later step."""
        return sorted({block_id for since, blocks in self._changed.items() if since > step for block_id in blocks})

    def commit(self, step: int) -> None:
        """Nobody asks any more what blocks held before this step."""
        for block_id in self._changed.pop(step, ()):
            past = self._history[block_id]
            while len(past) > 1 and past[1][0] <= step:
                past = past[1:]
            self._history[block_id] = past

    def take_back(self, block_id: int, committed: int, born: int, config: PoolConfig) -> None:
        """The writer's work since the last committed step failed: what is left is what the block held for certain."""
        past = self._history.get(block_id, ())
        before = self.content_after(block_id, committed) if born <= committed else None
        self._history[block_id] = tuple(
            (step, content if step <= committed else _certain(before, content, config)) for step, content in past
        )

    def release(self, freed: Sequence[tuple[int, bool]]) -> None:
        """One call has freed these blocks, in this order; each with whether it had keys then."""
        self._calls += 1
        for place, (block_id, had_keys) in enumerate(freed):
            self._releases[block_id] = Release(had_keys, self._calls, place)

    def release_of(self, block_id: int) -> Release:
        """The last one of a free block. Blocks of a new pool were freed together (POOL-INIT-1)."""
        return self._releases.get(block_id, Release(False, 0, block_id))

    def clone(self) -> Ghost:
        """An independent copy; prefixes never change, so they are shared."""
        twin = Ghost.__new__(Ghost)
        twin._history = dict(self._history)
        twin._changed = {step: dict(blocks) for step, blocks in self._changed.items()}
        twin.prefixes = dict(self.prefixes)
        twin.served = dict(self.served)
        twin._releases, twin._calls = dict(self._releases), self._calls
        twin._claimed = self._claimed
        return twin


def _certain(before: Content | None, after: Content | None, config: PoolConfig) -> Content | None:
    """What both have in common: rows of different slots lie in the same places of a block, so they share none."""
    if before is None or after is None or before.group != after.group:
        return None
    group = config.groups[after.group]
    if group.kind is GroupKind.RECURRENT:
        return after if before.prefix == after.prefix else None
    common = before.prefix.common(after.prefix)
    lengths = (before.prefix.length, after.prefix.length, common.length)
    if common.length == 0 or len({slot_of(length, group.block_size) for length in lengths}) > 1:
        return None
    return Content(common, after.group)
