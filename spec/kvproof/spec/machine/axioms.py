"""What is assumed: of prefixes, of hashes, of slots. Everything else is proved."""

from __future__ import annotations

from kvproof.spec.machine.theory import State, Term, Theory

HASH_AXIOMS = ("a key tells its group", "a key tells its prefix")
"""The axioms that say that the hash is injective."""

IN_WORDS = {
    "prefix is reflexive": "Every text is a prefix of itself.",
    "prefix is antisymmetric": "Two texts that are prefixes of each other are the same.",
    "prefix is transitive": "A prefix of a prefix is a prefix.",
    "prefixes of one text are nested": "Of two prefixes of one text, one is a prefix of the other.",
    "the empty prefix": "The empty text has no token and is a prefix of every text.",
    "a proper prefix is shorter": "A prefix that is not the whole text has fewer tokens.",
    "the common prefix is a prefix": "Two texts have a common prefix,",
    "the common prefix is the longest": "and it is the longest one.",
    "first(p, n) has n tokens of p": "A text of at least n tokens has a prefix of n tokens,",
    "first(p, n) depends on n tokens": "which is the same for every text that begins alike.",
    "a key tells its group": "Keys of different groups are different.",
    "a key tells its prefix": "Keys of different prefixes are different: the hash has no collisions.",
    "block sizes are positive": "Every group has a positive block size.",
    "a recurrent group is not full attention": "A group is of one kind.",
    "a position lies in its slot": "Every position after 0 lies in the slot that it is said to lie in,",
    "slots do not overlap": "and so does every position of this slot.",
}
"""Every assumption in a sentence."""

OF_THE_ENGINE = {
    "operations are atomic": "One operation runs at a time, on one pool with one owner: what happens between the "
    "beginning and the end of an operation is seen by nobody.",
    "a write leaves what it says": "What the engine declares to write into a block is the KV of these tokens, and all "
    "of it; nothing else writes into blocks.",
    "steps run in order": "What the forward pass of a step writes is there when the step is committed, and a copy "
    "reads its source as it was before the step's forward pass.",
    "keys are taken from the request": "A block is registered under the request's own hashes, of the tokens that the "
    "request has; extra keys (adapter, salt, media) are part of the text.",
}
"""What the proofs take for granted of whoever uses the pool."""


def axioms(t: Theory, s: State) -> dict[str, Term]:
    """Every assumption by name."""
    return {**_prefixes(t, s), **_hashes(t, s), **_slots(t, s)}


def _prefixes(t: Theory, s: State) -> dict[str, Term]:
    le = s.is_prefix
    return {
        "prefix is reflexive": t.every("P", lambda p: le(p, p)),
        "prefix is antisymmetric": t.every("P P", lambda p, q: t.implies(t.all_of(le(p, q), le(q, p)), p == q)),
        "prefix is transitive": t.every("P P P", lambda p, q, r: t.implies(t.all_of(le(p, q), le(q, r)), le(p, r))),
        "prefixes of one text are nested": t.every(
            "P P P", lambda p, q, r: t.implies(t.all_of(le(p, r), le(q, r)), t.any_of(le(p, q), le(q, p)))
        ),
        "the empty prefix": t.all_of(
            s.length(s.empty()) == 0, t.every("P", lambda p: t.all_of(le(s.empty(), p), s.length(p) >= 0))
        ),
        "a proper prefix is shorter": t.every(
            "P P", lambda p, q: t.implies(t.all_of(le(p, q), p != q), s.length(p) < s.length(q))
        ),
        "the common prefix is a prefix": t.every(
            "P P", lambda p, q: t.all_of(le(s.common(p, q), p), le(s.common(p, q), q))
        ),
        "the common prefix is the longest": t.every(
            "P P P", lambda p, q, x: t.implies(t.all_of(le(x, p), le(x, q)), le(x, s.common(p, q)))
        ),
        "first(p, n) has n tokens of p": t.every(
            "P Int",
            lambda p, n: t.implies(
                t.all_of(n >= 0, n <= s.length(p)), t.all_of(le(s.first(p, n), p), s.length(s.first(p, n)) == n)
            ),
        ),
        "first(p, n) depends on n tokens": t.every(
            "P P Int",
            lambda p, q, n: t.implies(t.all_of(le(p, q), n >= 0, n <= s.length(p)), s.first(p, n) == s.first(q, n)),
        ),
    }


def _hashes(t: Theory, s: State) -> dict[str, Term]:
    return {
        "a key tells its group": t.every("G D", lambda g, d: s.key_group(s.key(g, d)) == g),
        "a key tells its prefix": t.every("G P", lambda g, p: s.key_prefix(s.key(g, s.digest(p))) == p),
    }


def _slots(t: Theory, s: State) -> dict[str, Term]:
    def inside(g: Term, n: Term, m: Term) -> Term:
        return t.all_of(s.slot_start(g, n) < m, m <= s.slot_start(g, n) + s.block_size(g))

    return {
        "block sizes are positive": t.every("G", lambda g: s.block_size(g) > 0),
        "a recurrent group is not full attention": t.every(
            "G", lambda g: t.no(t.all_of(s.recurrent(g), s.full_attention(g)))
        ),
        "a position lies in its slot": t.every("G Int", lambda g, n: t.implies(n > 0, inside(g, n, n))),
        "slots do not overlap": t.every(
            "G Int Int",
            lambda g, n, m: t.implies(t.all_of(n > 0, inside(g, n, m)), s.slot_start(g, m) == s.slot_start(g, n)),
        ),
    }
