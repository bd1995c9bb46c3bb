"""What a transition meets: the branches of the machine that the tie has to have seen, by transition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvproof.conformance.tie.abstraction import Prefix, Universe
from kvproof.spec.machine.theory import State, Term

SITUATIONS: dict[str, tuple[str, ...]] = {
    "begin_step": ("first", "further"),
    "supersede": ("drops a shorter key", "nothing to drop"),
    "publish": ("first copy, no parent", "first copy, known parent", "another copy"),
    "close_step": ("only step", "more in flight"),
    "rollback": ("nothing reserved", "reserved keys", "dependents too", "dependents of dependents"),
    "allocate": ("no key", "last copy of a key", "a sibling lives", "several keys"),
    "touch": ("free block", "referenced block"),
    "attach": ("first reader", "further reader", "a key of an earlier step", "an older key of the same writer"),
    "retain": ("held",),
    "free": ("last holder, no key", "last holder, keys", "not the last holder"),
    "write": ("nothing there", "its own beginning", "something else"),
    "copy": ("what it reads", "what it wrote"),
    "register": (
        "there already",
        "below a full key",
        "the first key",
        "replaces shorter ones",
        "below a longer one",
        "replace",
    ),
    "evict": ("no key", "last copy of a key", "a sibling lives", "several keys"),
    "move": ("a key", "several keys"),
    "move_keys": ("a key", "several keys"),
    "reset": ("empty", "keys"),
    "append": ("more tokens",),
    "truncate": ("fewer tokens",),
}
"""Every situation that a transition can meet; a tie that has not met them all has not compared them all."""


def situation(name: str, s: State, universe: Universe, arguments: Sequence[Term]) -> str:
    """Which of its situations the transition is in."""
    return _CLASSIFIERS[name](s, universe, *arguments)


def _keys(s: State, universe: Universe, b: int) -> list[bytes]:
    return [k for k in universe.keys if s.entry(k, b)]


def _begin(s: State, u: Universe) -> str:
    return "first" if s.now() == s.done() else "further"


def _supersede(s: State, u: Universe, k: bytes, b: int) -> str:
    longer = [j for j in _keys(s, u, b) if s.rank(j, b) < s.rank(k, b)]
    shorter = longer and all(s.length(s.key_prefix(j)) < s.length(s.key_prefix(k)) for j in longer)
    return "drops a shorter key" if shorter else "nothing to drop"


def _publish(s: State, u: Universe, k: bytes, b: int) -> str:
    if s.resident(k):
        return "another copy"
    prefix = s.key_prefix(k)
    ancestors = [s.key(g, s.digest(prefix[:n])) for g in u.groups for n in range(1, len(prefix))]
    known = any(s.resident(key) for key in ancestors if key)
    return "first copy, known parent" if known else "first copy, no parent"


def _close(s: State, u: Universe) -> str:
    return "only step" if s.done() + 1 == s.now() else "more in flight"


def _rollback(s: State, u: Universe, chosen: Callable[[str], bool]) -> str:
    needed = {r: [w for w in u.holders if s.depends(r, w) > s.done()] for r in u.holders if chosen(r)}
    if any(needed.get(w) for writers in needed.values() for w in writers):
        return "dependents of dependents"
    if any(needed.values()):
        return "dependents too"
    blocks = range(u.config.num_blocks)
    reserved = [k for b in blocks for k in _keys(s, u, b) if not s.committed(k, b) and chosen(s.owner(k, b))]
    return "reserved keys" if reserved else "nothing reserved"


def _dropping(s: State, u: Universe, b: int, *_: Term) -> str:
    keys = _keys(s, u, b)
    if not keys:
        return "no key"
    if len(keys) > 1:
        return "several keys"
    return "a sibling lives" if s.copies(keys[0]) > 1 else "last copy of a key"


def _touch(s: State, u: Universe, b: int, *_: Term) -> str:
    return "free block" if s.is_free(b) else "referenced block"


def _attach(s: State, u: Universe, b: int, r: str, k: bytes) -> str:
    if s.depends(r, s.owner(k, b)) > s.ready(k, b):
        return "an older key of the same writer"
    if s.ready(k, b) < s.now():
        return "a key of an earlier step"
    return "further reader" if any(s.attached(b, r) > s.done() for r in u.holders) else "first reader"


def _free(s: State, u: Universe, b: int, r: str) -> str:
    if s.ref_cnt(b) > 1:
        return "not the last holder"
    return "last holder, keys" if _keys(s, u, b) else "last holder, no key"


def _write(s: State, u: Universe, b: int, r: str, p: Prefix, g: int) -> str:
    held = s.content(b, s.now())
    if not held:
        return "nothing there"
    return "its own beginning" if p[: len(held)] == held else "something else"


def _copy(s: State, u: Universe, a: int, d: int, r: str, p: Prefix) -> str:
    return "what it reads" if s.served(a, r, p) else "what it wrote"


def _register(s: State, u: Universe, b: int, r: str, n: int, g: int, replace: bool) -> str:
    if replace:
        return "replace"
    if s.entry(s.key(g, s.hash_at(r, n)), b):
        return "there already"
    lengths = [s.length(s.key_prefix(k)) for k in _keys(s, u, b)]
    if not lengths:
        return "the first key"
    if n > max(lengths):
        return "replaces shorter ones"
    return "below a full key" if max(lengths) == s.start(b) + s.block_size(g) else "below a longer one"


def _move(s: State, u: Universe, a: int, d: int) -> str:
    return "several keys" if len(_keys(s, u, a)) > 1 else "a key"


def _reset(s: State, u: Universe) -> str:
    return "keys" if any(_keys(s, u, b) for b in range(u.config.num_blocks)) else "empty"


_CLASSIFIERS: dict[str, Callable[..., str]] = {
    "begin_step": _begin,
    "supersede": _supersede,
    "publish": _publish,
    "close_step": _close,
    "rollback": _rollback,
    "allocate": _dropping,
    "touch": _touch,
    "attach": _attach,
    "retain": lambda s, u, *_: "held",
    "free": _free,
    "write": _write,
    "copy": _copy,
    "register": _register,
    "evict": _dropping,
    "move": _move,
    "move_keys": _move,
    "reset": _reset,
    "append": lambda s, u, *_: "more tokens",
    "truncate": lambda s, u, *_: "fewer tokens",
}
