"""What is proved of every reachable state; theorem names are clause ids.

One function states one invariant. Those of the steps chapter that no user would miss exist to make others inductive.
"""

from __future__ import annotations

from collections.abc import Callable

from kvproof.spec.machine.theory import State, Term, Theory
from kvproof.spec.machine.transitions import fits, is_full

Invariant = Callable[[Theory, State], Term]


def initial(t: Theory, s: State) -> Term:
    """A new pool: everything free in ascending places, nothing cached, nothing known to the consumer (POOL-INIT-1)."""
    return t.all_of(
        s.done() == 0,
        s.now() == 0,
        s.front() < s.back(),
        t.no(t.any_of(s.removed_absent(), s.stored_resident(), s.stored_orphan())),
        t.every("B", lambda b: _is_unused(t, s, b)),
        t.every("B B", lambda a, b: _are_in_order(t, s, a, b)),
        t.every("K B", lambda k, b: t.no(t.any_of(s.entry(k, b), s.committed(k, b), s.listed(b, k)))),
        t.every("K", lambda k: t.all_of(t.no(s.resident(k)), s.believed_copies(k) == 0, s.copies(k) == 0)),
        t.every("R R", lambda r, w: s.depends(r, w) == 0),
        t.every("R", lambda r: s.hashed(r) == 0),
    )


def _is_unused(t: Theory, s: State, b: Term) -> Term:
    return t.all_of(
        s.ref_cnt(b) == 0,
        t.iff(s.is_free(b), b != s.null()),
        s.front() < s.place(b),
        s.place(b) < s.back(),
        t.no(s.kept_keys(b)),
        s.released_at(b) < s.clock(),
        t.no(s.placed(b)),
        s.born(b) == 0,
        s.filled(b) == 0,
        t.every("R", lambda r: t.all_of(t.no(s.holds(b, r)), t.no(s.writes(b, r)), s.attached(b, r) == 0)),
        t.every("R P", lambda r, p: t.no(s.served(b, r, p))),
    )


def _are_in_order(t: Theory, s: State, a: Term, b: Term) -> Term:
    return t.all_of(
        t.implies(t.all_of(a != b, a != s.null(), b != s.null()), s.place(a) != s.place(b)),
        t.implies(s.place(a) < s.place(b), s.released_at(b) < s.released_at(a)),
    )


# References and the queue


def partition(t: Theory, s: State) -> Term:
    """A block is in the queue exactly if nobody references it."""
    return t.every("B", lambda b: t.iff(s.is_free(b), t.all_of(s.ref_cnt(b) == 0, b != s.null())))


def counts_are_holders(t: Theory, s: State) -> Term:
    """A block's reference count is the number of its holders: they are numbered 0 .. ref_cnt - 1, each once."""

    def numbered(b: Term, r: Term) -> Term:
        i = s.holder_index(b, r)
        return t.all_of(i >= 0, i < s.ref_cnt(b), s.holder_at(b, i) == r)

    def named(b: Term, i: Term) -> Term:
        r = s.holder_at(b, i)
        return t.all_of(s.holds(b, r), s.holder_index(b, r) == i)

    return t.all_of(
        t.every("B", lambda b: s.ref_cnt(b) >= 0),
        t.every("B R", lambda b, r: t.implies(s.holds(b, r), numbered(b, r))),
        t.every("B Int", lambda b, i: t.implies(t.all_of(i >= 0, i < s.ref_cnt(b)), named(b, i))),
    )


def queue_without_duplicates(t: Theory, s: State) -> Term:
    """Free blocks have places of their own between front and back."""

    def same_place(a: Term, b: Term) -> Term:
        return t.all_of(s.is_free(a), s.is_free(b), s.place(a) == s.place(b))

    return t.all_of(
        s.front() < s.back(),
        t.every("B", lambda b: t.implies(s.is_free(b), t.all_of(s.front() < s.place(b), s.place(b) < s.back()))),
        t.every("B B", lambda a, b: t.implies(same_place(a, b), a == b)),
    )


def eviction_order(t: Theory, s: State) -> Term:
    """Blocks freed without a key are taken first, those freed last before others; then the rest, oldest first."""

    def released_in_order(a: Term, b: Term) -> Term:
        earlier, later = s.released_at(a) < s.released_at(b), s.released_at(b) < s.released_at(a)
        return t.where(s.kept_keys(a), earlier, later)

    def ordered(a: Term, b: Term) -> Term:
        return t.all_of(
            t.implies(s.kept_keys(a), s.kept_keys(b)),
            t.implies(t.iff(s.kept_keys(a), s.kept_keys(b)), released_in_order(a, b)),
        )

    def ahead(a: Term, b: Term) -> Term:
        return t.all_of(s.is_free(a), s.is_free(b), s.place(a) < s.place(b))

    return t.all_of(
        t.every("B", lambda b: t.implies(s.is_free(b), s.released_at(b) < s.clock())),
        t.every("B B", lambda a, b: t.implies(ahead(a, b), ordered(a, b))),
    )


def writers_hold(t: Theory, s: State) -> Term:
    """A block has one writer at most, and that holds it."""
    return t.all_of(
        t.every("B R", lambda b, r: t.implies(s.writes(b, r), s.holds(b, r))),
        t.every("B R R", lambda b, r, q: t.implies(t.all_of(s.writes(b, r), s.writes(b, q)), r == q)),
    )


def null_block_untouched(t: Theory, s: State) -> Term:
    """The null block has no reference, no slot and no key."""
    null = s.null()
    return t.all_of(s.ref_cnt(null) == 0, t.no(s.placed(null)), t.every("K", lambda k: t.no(s.entry(k, null))))


# The index


def index_is_two_way(t: Theory, s: State) -> Term:
    """Forward and reverse index are inverses."""
    return t.every("K B", lambda k, b: t.iff(s.entry(k, b), s.listed(b, k)))


def ranks_are_unique(t: Theory, s: State) -> Term:
    """No two blocks of a key have one rank."""

    def same_rank(k: Term, a: Term, b: Term) -> Term:
        return t.all_of(s.entry(k, a), s.entry(k, b), s.rank(k, a) == s.rank(k, b))

    return t.all_of(
        t.every("K B", lambda k, b: t.implies(s.entry(k, b), s.rank(k, b) < s.next_rank())),
        t.every("K B B", lambda k, a, b: t.implies(same_rank(k, a, b), a == b)),
    )


def keys_lie_in_their_slot(t: Theory, s: State) -> Term:
    """A block's keys name prefixes of its group that end in its slot."""

    def inside(k: Term, b: Term) -> Term:
        p, g = s.key_prefix(k), s.group(b)
        return t.all_of(
            s.placed(b),
            s.key_group(k) == g,
            k == s.key(g, s.digest(p)),
            s.length(p) > 0,
            s.start(b) == s.slot_start(g, s.length(p)),
        )

    return t.every("K B", lambda k, b: t.implies(s.entry(k, b), inside(k, b)))


def _two_keys(t: Theory, s: State, j: Term, k: Term, b: Term) -> Term:
    return t.all_of(s.entry(j, b), s.entry(k, b), j != k)


def keys_name_one_text(t: Theory, s: State) -> Term:
    """Two keys of a block are at different positions of one text."""

    def nested(p: Term, q: Term) -> Term:
        return t.all_of(s.length(p) != s.length(q), t.any_of(s.is_prefix(p, q), s.is_prefix(q, p)))

    return t.every(
        "K K B",
        lambda j, k, b: t.implies(_two_keys(t, s, j, k, b), nested(s.key_prefix(j), s.key_prefix(k))),
    )


def full_keys_stand_alone(t: Theory, s: State) -> Term:
    """Beside a full key there are only those that go with its commit; a recurrent block has one key."""

    def waits_to_go(j: Term, k: Term, b: Term) -> Term:
        return t.all_of(s.committed(j, b), t.no(s.committed(k, b)), s.rank(j, b) < s.rank(k, b))

    def allowed(j: Term, k: Term, b: Term) -> Term:
        full = is_full(t, s, s.group(b), s.key_prefix(k))
        return t.all_of(t.no(s.recurrent(s.group(b))), t.implies(full, waits_to_go(j, k, b)))

    return t.every("K K B", lambda j, k, b: t.implies(_two_keys(t, s, j, k, b), allowed(j, k, b)))


# Steps


def steps_in_order(t: Theory, s: State) -> Term:
    """Nothing belongs to a step that has not begun."""
    return t.all_of(
        s.done() >= 0,
        s.done() <= s.now(),
        t.every("R R", lambda r, w: t.all_of(s.depends(r, w) >= 0, s.depends(r, w) <= s.now())),
        t.every("B", lambda b: t.all_of(s.born(b) <= s.now(), s.filled(b) <= s.now())),
        t.every("B R", lambda b, r: t.all_of(s.attached(b, r) >= 0, s.attached(b, r) <= s.now())),
    )


def status_of_entries(t: Theory, s: State) -> Term:
    """Committed keys are entries, reserved ones wait for an open step, none is older than its block's life."""

    def reserved(k: Term, b: Term) -> Term:
        return t.all_of(s.entry(k, b), t.no(s.committed(k, b)))

    def dated(k: Term, b: Term) -> Term:
        return t.all_of(s.ready(k, b) <= s.now(), s.born(b) <= s.ready(k, b))

    return t.every(
        "K B",
        lambda k, b: t.all_of(
            t.implies(s.committed(k, b), s.entry(k, b)),
            t.implies(s.entry(k, b), dated(k, b)),
            t.implies(reserved(k, b), s.done() < s.ready(k, b)),
        ),
    )


def unready_entries_are_referenced(t: Theory, s: State) -> Term:
    """A block with an entry that is not ready is in use."""
    return t.every("K B", lambda k, b: t.implies(_is_unready(t, s, k, b), s.ref_cnt(b) > 0))


def _is_unready(t: Theory, s: State, k: Term, b: Term) -> Term:
    return t.all_of(s.entry(k, b), s.done() < s.ready(k, b))


def reserved_by_the_writer(t: Theory, s: State) -> Term:
    """A reserved entry's owner writes the block, unless no request does."""

    def owned(k: Term, b: Term) -> Term:
        unwritten = t.every("R", lambda r: t.no(t.all_of(s.writes(b, r), s.is_request(r))))
        return t.any_of(s.writes(b, s.owner(k, b)), unwritten)

    def reserved(k: Term, b: Term) -> Term:
        return t.all_of(s.entry(k, b), t.no(s.committed(k, b)))

    def both_reserved(j: Term, k: Term, b: Term) -> Term:
        return t.all_of(reserved(j, b), reserved(k, b))

    return t.all_of(
        t.every("K B", lambda k, b: t.implies(reserved(k, b), owned(k, b))),
        t.every("K K B", lambda j, k, b: t.implies(both_reserved(j, k, b), s.owner(j, b) == s.owner(k, b))),
    )


def reserved_below_a_longer_key(t: Theory, s: State) -> Term:
    """Of two reserved keys of a block, the later was registered below an older key, longer than itself."""

    def reserved_in_order(j: Term, k: Term, b: Term) -> Term:
        reserved = t.all_of(s.entry(j, b), s.entry(k, b), t.no(s.committed(j, b)), t.no(s.committed(k, b)))
        return t.all_of(reserved, s.rank(j, b) < s.rank(k, b))

    def below(k: Term, b: Term) -> Term:
        return t.some(
            "K",
            lambda i: t.all_of(
                s.entry(i, b), s.rank(i, b) < s.rank(k, b), s.length(s.key_prefix(k)) < s.length(s.key_prefix(i))
            ),
        )

    return t.every("K K B", lambda j, k, b: t.implies(reserved_in_order(j, k, b), below(k, b)))


# Soundness


def entries_are_sound(t: Theory, s: State) -> Term:
    """From its ready step on, an entry's block holds what its key names."""

    def due(k: Term, b: Term, i: Term) -> Term:
        return t.all_of(s.entry(k, b), i <= s.now(), s.done() <= i, s.ready(k, b) <= i)

    return t.every(
        "K B Int",
        lambda k, b, i: t.implies(due(k, b, i), fits(t, s, s.group(b), s.key_prefix(k), b, i)),
    )


def readers_are_served(t: Theory, s: State) -> Term:
    """What a reader was served stays in the block, in every step from the one on in which it may be read."""

    def reads(b: Term, r: Term, p: Term, i: Term) -> Term:
        return t.all_of(s.served(b, r, p), s.done() <= i, i <= s.now(), s.attached(b, r) <= i)

    return t.every("B R P Int", lambda b, r, p, i: t.implies(reads(b, r, p, i), fits(t, s, s.group(b), p, b, i)))


def readers_hold(t: Theory, s: State) -> Term:
    """A reader holds its block without writing it; what it reads is of the block's slot and present life."""

    def standing(b: Term, r: Term, p: Term) -> Term:
        a = s.attached(b, r)
        return t.all_of(
            s.holds(b, r),
            t.no(s.writes(b, r)),
            s.placed(b),
            s.length(p) > 0,
            s.start(b) == s.slot_start(s.group(b), s.length(p)),
            t.where(a <= s.done(), s.born(b) <= s.done(), s.born(b) <= a),
            t.implies(s.recurrent(s.group(b)), a == 0),
        )

    return t.every("B R P", lambda b, r, p: t.implies(s.served(b, r, p), standing(b, r, p)))


def readers_depend(t: Theory, s: State) -> Term:
    """Who reads what is not committed depends on the block's writer."""

    def early(b: Term, r: Term, w: Term, p: Term) -> Term:
        return t.all_of(s.served(b, r, p), s.done() < s.attached(b, r), s.writes(b, w))

    return t.every("B R R P", lambda b, r, w, p: t.implies(early(b, r, w, p), s.attached(b, r) <= s.depends(r, w)))


# What a consumer knows


def events_mirror_residency(t: Theory, s: State) -> Term:
    """A key is resident for the consumer exactly if a block has it committed."""
    return t.every("K", lambda k: t.iff(s.resident(k), t.some("B", lambda b: s.committed(k, b))))


def events_count_copies(t: Theory, s: State) -> Term:
    """With one event per copy, the consumer counts the blocks of a key, whose number is exact as that of holders is."""

    def numbered(k: Term, b: Term) -> Term:
        i = s.copy_index(k, b)
        return t.all_of(i >= 0, i < s.copies(k), s.copy_at(k, i) == b)

    def named(k: Term, i: Term) -> Term:
        b = s.copy_at(k, i)
        return t.all_of(s.committed(k, b), s.copy_index(k, b) == i)

    return t.all_of(
        t.every("K", lambda k: t.all_of(s.believed_copies(k) == s.copies(k), s.copies(k) >= 0)),
        t.every("K B", lambda k, b: t.implies(s.committed(k, b), numbered(k, b))),
        t.every("K Int", lambda k, i: t.implies(t.all_of(i >= 0, i < s.copies(k)), named(k, i))),
    )


def removed_were_resident(t: Theory, s: State) -> Term:
    """No Removed event named a key that was not resident."""
    return t.no(s.removed_absent())


def stored_were_absent(t: Theory, s: State) -> Term:
    """No Stored event named a key that was resident."""
    return t.no(s.stored_resident())


def parents_are_resident(t: Theory, s: State) -> Term:
    """No Stored event named a parent that was not resident."""
    return t.no(s.stored_orphan())


def hashes_are_those_of_the_text(t: Theory, s: State) -> Term:
    """Every hash of a request is that of its tokens up to there."""

    def hashed(r: Term, n: Term) -> Term:
        return s.hash_at(r, n) == s.digest(s.first(s.text(r), n))

    return t.all_of(
        t.every("R", lambda r: t.all_of(s.hashed(r) >= 0, s.hashed(r) <= s.length(s.text(r)))),
        t.every("R Int", lambda r, n: t.implies(t.all_of(n > 0, n <= s.hashed(r)), hashed(r, n))),
    )


INVARIANTS: dict[str, Invariant] = {
    "INV-PARTITION-1": partition,
    "INV-COUNT-1": counts_are_holders,
    "INV-QUEUE-1": queue_without_duplicates,
    "INV-LRU-1": eviction_order,
    "INV-WRITER-1": writers_hold,
    "INV-NULL-1": null_block_untouched,
    "INV-INDEX-1": index_is_two_way,
    "INV-INDEX-2": ranks_are_unique,
    "INV-SLOT-1": keys_lie_in_their_slot,
    "INV-CHAIN-1": keys_name_one_text,
    "INV-FULL-1": full_keys_stand_alone,
    "INV-STEPS-1": steps_in_order,
    "INV-STATUS-1": status_of_entries,
    "INV-RESERVED-1": unready_entries_are_referenced,
    "INV-RESERVED-2": reserved_by_the_writer,
    "STEP-UPGRADE-1": reserved_below_a_longer_key,
    "INV-SOUND-1": entries_are_sound,
    "INV-SERVED-1": readers_are_served,
    "INV-SERVED-2": readers_hold,
    "INV-DEPENDS-1": readers_depend,
    "INV-EVENTS-1": events_mirror_residency,
    "INV-EVENTS-2": events_count_copies,
    "EVENT-REMOVED-1": removed_were_resident,
    "EVENT-STORED-3": stored_were_absent,
    "EVENT-PARENT-1": parents_are_resident,
    "INV-HASHES-1": hashes_are_those_of_the_text,
}
