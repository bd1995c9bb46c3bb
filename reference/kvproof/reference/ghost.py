"""Ghost state: what the blocks really hold (clauses CONTENT-*).

No decision of the pool depends on it. It exists so that soundness can be checked: whatever a lookup returns must hold
exactly the KV that the reader would have computed itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.reference.positions import slot_of
from kvproof.reference.request import Request
from kvproof.spec.errors import InvalidArgument
from kvproof.spec.vocabulary import GroupConfig, GroupKind, Holder, Key


class Prefix:
    """The first `length` tokens of a request, with the extra keys that cover them; O(1) to make, see `Request`."""

    __slots__ = ("extra_keys", "length", "tokens")

    def __init__(self, request: Request, length: int) -> None:
        self.tokens = request.tokens
        self.extra_keys = request.extra_keys
        self.length = length

    @property
    def spelled(self) -> tuple[int, ...]:
        """The tokens of the prefix."""
        return tuple(self.tokens[: self.length])

    def meaning(self, length: int) -> tuple[object, ...]:
        """What the KV of the first `length` tokens depends on: the tokens, and every extra key's part before it."""
        covering = [
            (extra.source, extra.value, extra.start, length if extra.end is None else min(extra.end, length))
            for extra in self.extra_keys
            if extra.start < length
        ]
        return (*self.tokens[:length], *sorted(covering))

    def begins_with(self, other: Prefix) -> bool:
        """Whether `other` is a prefix of this one."""
        return other.length <= self.length and self.meaning(other.length) == other.meaning(other.length)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prefix):
            return NotImplemented
        return self.length == other.length and self.begins_with(other)

    def __hash__(self) -> int:
        return hash(self.meaning(self.length))

    def __repr__(self) -> str:
        return f"Prefix{self.spelled}"


@dataclass(frozen=True, slots=True)
class Content:
    """What a block holds: the last rows of a prefix, or its state, in one group."""

    prefix: Prefix
    group: int


class Ghost:
    """What each block holds, which prefix each key stands for, what each reader was served."""

    def __init__(self) -> None:
        self.contents: dict[int, Content] = {}
        """block id -> what it holds."""
        self.prefixes: dict[Key, Prefix] = {}
        """cached key -> the prefix that it names."""
        self.served: dict[tuple[int, Holder], Prefix] = {}
        """(block id, holder) -> the prefix that the holder reads from the block."""
        self._claimed = False

    def claim(self) -> None:
        """One pool is going to keep this ghost, from its beginning; two would spoil each other's."""
        if self._claimed:
            raise InvalidArgument("this Ghost belongs to another pool; make a new one for each pool")
        self._claimed = True

    def fits(self, block_id: int, prefix: Prefix, group: int, config: GroupConfig) -> bool:
        """Whether the block's content serves a reader of `prefix`: its rows, or exactly its state (CONTENT-SOUND-1)."""
        content = self.contents.get(block_id)
        if content is None or content.group != group:
            return False
        if config.kind is GroupKind.RECURRENT:
            return content.prefix == prefix
        same_slot = slot_of(content.prefix.length, config.block_size) == slot_of(prefix.length, config.block_size)
        return same_slot and content.prefix.begins_with(prefix)

    def copy_content(self, src_id: int, dst_id: int, reader: Holder | None) -> None:
        """`dst` now holds what `reader` was served from `src`, or all of it if nobody in particular reads."""
        content = self.contents.get(src_id)
        if content is None:
            self.contents.pop(dst_id, None)
            return
        prefix = content.prefix if reader is None else self.served.get((src_id, reader), content.prefix)
        self.contents[dst_id] = Content(prefix, content.group)

    def clone(self) -> Ghost:
        """An independent copy; prefixes never change, so they are shared."""
        twin = Ghost()
        twin.contents = dict(self.contents)
        twin.prefixes = dict(self.prefixes)
        twin.served = dict(self.served)
        twin._claimed = self._claimed
        return twin
