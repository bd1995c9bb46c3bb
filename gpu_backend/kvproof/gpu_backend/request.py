"""A request: its tokens and its prefix hashes in every block-size view (REQ-*)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, overload

from kvproof.gpu_backend import _core
from kvproof.gpu_backend.checks import MAX_POSITION, check_int, check_list, check_name
from kvproof.gpu_backend.hashing import PrefixHasher, make_key
from kvproof.gpu_backend.refusals import shown
from kvproof.spec.errors import InvalidArgument, NotAligned
from kvproof.spec.vocabulary import ExtraKey, ExtraKeySource, Key

NO_END = -1
"""How the core is told that an extra key covers every token from its start on."""


class Request(_core.RequestBase):
    """One request as the cache sees it; the native core keeps its tokens and hashes.

    Whoever keeps `text` keeps tokens and hashes as they were: appending leaves them alone, and a truncated request goes
    on with a text of its own.
    """

    __slots__ = ("_hasher", "_num_prompt_tokens")
    _hasher: PrefixHasher
    _num_prompt_tokens: int

    def __new__(
        cls, request_id: str, tokens: Sequence[int], hasher: PrefixHasher, extra_keys: Sequence[ExtraKey] = ()
    ) -> Self:
        """Hash the tokens. Raises InvalidArgument, and OutOfRange for a token beyond 32 bits."""
        if not isinstance(hasher, PrefixHasher):
            raise InvalidArgument(f"hasher must be a PrefixHasher, not {shown(hasher)}")
        extras = _check_extra_keys(extra_keys)
        fields = tuple([(int(e.source), e.value, e.start, NO_END if e.end is None else e.end) for e in extras])
        self = super().__new__(
            cls,
            check_name("request_id", request_id),
            tokens,
            hasher.digest_words,
            hasher.hash_block_size,
            hasher.seed_digest,
            extras,
            fields,
        )
        self._hasher = hasher
        self._num_prompt_tokens = self.num_tokens
        return self

    @property
    def hasher(self) -> PrefixHasher:
        """How its prefixes are hashed."""
        return self._hasher

    @property
    def num_prompt_tokens(self) -> int:
        """How many of its first tokens it came with, as far as they are left (BACK-PROMPT-1)."""
        return self._num_prompt_tokens

    @property
    def hashed_length(self) -> int:
        """The greatest position that has a hash; a multiple of h."""
        return self.num_hashes * self.hasher.hash_block_size

    @property
    def extra_keys(self) -> tuple[ExtraKey, ...]:
        """The extra keys, as they were given."""
        return self.text.extra_keys

    def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens; hashes past them go (REQ-TRUNCATE-1, BACK-PROMPT-1)."""
        self._truncate(check_int("num_tokens", num_tokens, 0, self.num_tokens))
        self._num_prompt_tokens = min(self._num_prompt_tokens, num_tokens)

    def hash_at(self, position: int) -> bytes | None:
        """H(position) for a positive multiple of h, None past the hashed length. Raises OutOfRange and NotAligned."""
        h = self.hasher.hash_block_size
        if check_int("position", position, 1, None) % h:
            raise NotAligned(f"position is {shown(position)}; it must be a multiple of the hash block size {h}")
        link = position // h - 1
        return self.text.digest(link) if link < self.num_hashes else None

    def key_at(self, group: int, position: int) -> Key | None:
        """The key (group, H(position)), None past the hashed length. Raises like `hash_at`."""
        digest = self.hash_at(position)
        return None if digest is None else make_key(group, digest)

    def view(self, block_size: int) -> HashView:
        """The hashes at the ends of slots of `block_size` tokens (REQ-VIEW-1)."""
        return HashView(self, block_size)


class HashView(Sequence[bytes]):
    """A request's hashes in slots of one block size: item i is H((i+1) * block_size); it keeps no copy (REQ-VIEW-1)."""

    __slots__ = ("_links", "_request")

    def __init__(self, request: Request, block_size: int) -> None:
        h = request.hasher.hash_block_size
        if check_int("block_size", block_size, 1, None) % h:
            raise NotAligned(f"block_size is {shown(block_size)}; it must be a multiple of the hash block size {h}")
        self._request, self._links = request, block_size // h

    def __len__(self) -> int:
        return self._request.num_hashes // self._links

    @overload
    def __getitem__(self, slot: int) -> bytes: ...
    @overload
    def __getitem__(self, slot: slice) -> list[bytes]: ...
    def __getitem__(self, slot: int | slice) -> bytes | list[bytes]:
        if isinstance(slot, slice):
            return [self[i] for i in range(*slot.indices(len(self)))]
        if type(slot) is not int:
            raise InvalidArgument(f"slot must be an integer, not {shown(slot)}")
        if not -len(self) <= slot < len(self):
            raise IndexError(f"slot {slot} of a view of {len(self)} slots")
        return self._request.text.digest((slot % len(self) + 1) * self._links - 1)


def _check_extra_keys(extra_keys: object) -> tuple[ExtraKey, ...]:
    """The extra keys as a tuple: well-formed, none twice (HASH-EXTRA-3)."""
    extras = tuple([_check_extra_key(extra) for extra in check_list("extra_keys", extra_keys)])
    if len(set(extras)) != len(extras):
        raise InvalidArgument("extra_keys holds the same extra key twice; each may stand once")
    return extras


def _check_extra_key(extra: object) -> ExtraKey:
    if not isinstance(extra, ExtraKey) or not isinstance(extra.source, ExtraKeySource):
        raise InvalidArgument(f"an extra key must be an ExtraKey with an ExtraKeySource, not {shown(extra)}")
    if type(extra.value) is not bytes:
        raise InvalidArgument(f"an extra key's value must be bytes, not {shown(extra.value)}")
    check_int("an extra key's start", extra.start, 0, MAX_POSITION)
    if extra.end is not None:
        check_int("an extra key's end", extra.end, extra.start + 1, MAX_POSITION)
    return extra
