"""What is proved of every reachable state; theorem names are clause ids, a letter marks a part of one.

An invariant that exists only to make another one inductive says so.
"""

from __future__ import annotations

from kvproof.spec.machine.theory import State, Term, Theory
from kvproof.spec.machine.transitions import fits, is_full


def initial(t: Theory, s: State) -> Term:
    """A new pool: everything free in ascending places, nothing cached, nothing known to the consumer (POOL-INIT-1)."""
    return t.all_of(
        s.done() == 0,
        s.now() == 0,
        s.front() < s.back(),
        t.no(t.any_of(s.removed_absent(), s.stored_resident(), s.stored_orphan())),
        t.every("B", lambda b: _unused(t, s, b)),
        t.every(
            "B B",
            lambda a, b: t.all_of(
                t.implies(t.all_of(a != b, a != s.null(), b != s.null()), s.place(a) != s.place(b)),
                t.implies(s.place(a) < s.place(b), s.released_at(b) < s.released_at(a)),
            ),
        ),
        t.every("K B", lambda k, b: t.no(t.any_of(s.entry(k, b), s.committed(k, b), s.listed(b, k)))),
        t.every(
            "K", lambda k: t.all_of(t.no(s.resident(k)), s.believed_copies(k) == 0, s.copies(k) == 0)
        ),
        t.every("R R", lambda r, w: s.depends(r, w) == 0),
        t.every("R", lambda r: s.hashed(r) == 0),
    )


def _unused(t: Theory, s: State, b: Term) -> Term:
    return t.all_of(
        s.ref_cnt(b) == 0,
        t.iff(s.is_free(b), b != s.null()),
        s.front() < s.place(b),
        s.place(b) < s.back(),
        t.no(s.kept_keys(b)),
        s.released_at(b) < s.clock(),
        t.no(s.placed(b)),
        s.born(b) == 0,
        t.every("R", lambda r: t.all_of(t.no(s.holds(b, r)), t.no(s.writes(b, r)), s.attached(b, r) == 0)),
        t.every("R P", lambda r, p: t.no(s.served(b, r, p))),
    )


def invariants(t: Theory, s: State) -> dict[str, Term]:
    """Every invariant by name."""
    return {**_references(t, s), **_index(t, s), **_steps(t, s), **_soundness(t, s), **_consumer(t, s)}


def _references(t: Theory, s: State) -> dict[str, Term]:
    def later(a: Term, b: Term) -> Term:
        return t.where(s.kept_keys(a), s.released_at(a) < s.released_at(b), s.released_at(b) < s.released_at(a))

    return {
        "INV-PARTITION-1": t.every("B", lambda b: t.iff(s.is_free(b), t.all_of(s.ref_cnt(b) == 0, b != s.null()))),
        "INV-COUNT-1": t.all_of(
            t.every("B", lambda b: s.ref_cnt(b) >= 0),
            t.every(
                "B R",
                lambda b, r: t.implies(
                    s.holds(b, r),
                    t.all_of(
                        0 <= s.holder_index(b, r),
                        s.holder_index(b, r) < s.ref_cnt(b),
                        s.holder_at(b, s.holder_index(b, r)) == r,
                    ),
                ),
            ),
            t.every(
                "B Int",
                lambda b, i: t.implies(
                    t.all_of(0 <= i, i < s.ref_cnt(b)),
                    t.all_of(s.holds(b, s.holder_at(b, i)), s.holder_index(b, s.holder_at(b, i)) == i),
                ),
            ),
        ),
        "INV-QUEUE-1": t.all_of(
            s.front() < s.back(),
            t.every(
                "B", lambda b: t.implies(s.is_free(b), t.all_of(s.front() < s.place(b), s.place(b) < s.back()))
            ),
            t.every(
                "B B",
                lambda a, b: t.implies(t.all_of(s.is_free(a), s.is_free(b), s.place(a) == s.place(b)), a == b),
            ),
        ),
        "INV-LRU-1": t.all_of(
            t.every("B", lambda b: t.implies(s.is_free(b), s.released_at(b) < s.clock())),
            t.every(
                "B B",
                lambda a, b: t.implies(
                    t.all_of(s.is_free(a), s.is_free(b), s.place(a) < s.place(b)),
                    t.all_of(
                        t.implies(s.kept_keys(a), s.kept_keys(b)),
                        t.implies(t.iff(s.kept_keys(a), s.kept_keys(b)), later(a, b)),
                    ),
                ),
            ),
        ),
        "INV-WRITER-1": t.all_of(
            t.every("B R", lambda b, r: t.implies(s.writes(b, r), s.holds(b, r))),
            t.every("B R R", lambda b, r, q: t.implies(t.all_of(s.writes(b, r), s.writes(b, q)), r == q)),
        ),
        "INV-NULL-1": t.all_of(
            s.ref_cnt(s.null()) == 0, t.no(s.placed(s.null())), t.every("K", lambda k: t.no(s.entry(k, s.null())))
        ),
    }


def _index(t: Theory, s: State) -> dict[str, Term]:
    def length(k: Term) -> Term:
        return s.length(s.key_prefix(k))

    def both(j: Term, k: Term, b: Term) -> Term:
        return t.all_of(s.entry(j, b), s.entry(k, b), j != k)

    def waits_to_go(j: Term, k: Term, b: Term) -> Term:
        """Key j is superseded by k, and goes when k is committed."""
        return t.all_of(s.committed(j, b), t.no(s.committed(k, b)), s.rank(j, b) < s.rank(k, b))

    return {
        "INV-INDEX-1": t.every("K B", lambda k, b: t.iff(s.entry(k, b), s.listed(b, k))),
        "INV-INDEX-2": t.all_of(
            t.every("K B", lambda k, b: t.implies(s.entry(k, b), s.rank(k, b) < s.next_rank())),
            t.every(
                "K B B",
                lambda k, a, b: t.implies(
                    t.all_of(s.entry(k, a), s.entry(k, b), s.rank(k, a) == s.rank(k, b)), a == b
                ),
            ),
        ),
        "INV-SLOT-1": t.every(
            "K B",
            lambda k, b: t.implies(
                s.entry(k, b),
                t.all_of(
                    s.placed(b),
                    s.key_group(k) == s.group(b),
                    k == s.key(s.group(b), s.digest(s.key_prefix(k))),
                    length(k) > 0,
                    s.start(b) == s.slot_start(s.group(b), length(k)),
                ),
            ),
        ),
        "INV-CHAIN-1": t.every(
            "K K B",
            lambda j, k, b: t.implies(
                both(j, k, b),
                t.all_of(
                    length(j) != length(k),
                    t.any_of(
                        s.is_prefix(s.key_prefix(j), s.key_prefix(k)), s.is_prefix(s.key_prefix(k), s.key_prefix(j))
                    ),
                ),
            ),
        ),
        "INV-FULL-1": t.every(
            "K K B",
            lambda j, k, b: t.implies(
                both(j, k, b),
                t.all_of(
                    t.no(s.recurrent(s.group(b))),
                    t.implies(is_full(t, s, s.group(b), s.key_prefix(k)), waits_to_go(j, k, b)),
                ),
            ),
        ),
    }


def _steps(t: Theory, s: State) -> dict[str, Term]:
    return {
        "INV-STEPS-1": t.all_of(
            0 <= s.done(),
            s.done() <= s.now(),
            t.every("R R", lambda r, w: t.all_of(0 <= s.depends(r, w), s.depends(r, w) <= s.now())),
            t.every("B", lambda b: s.born(b) <= s.now()),
            t.every("B R", lambda b, r: s.attached(b, r) <= s.now()),
        ),
        "INV-STATUS-1": t.every(
            "K B",
            lambda k, b: t.all_of(
                t.implies(s.committed(k, b), s.entry(k, b)),
                t.implies(s.entry(k, b), t.all_of(s.ready(k, b) <= s.now(), s.born(b) <= s.ready(k, b))),
                t.implies(t.all_of(s.entry(k, b), t.no(s.committed(k, b))), s.done() < s.ready(k, b)),
            ),
        ),
        "INV-RESERVED-1": t.every(
            "K B", lambda k, b: t.implies(t.all_of(s.entry(k, b), s.done() < s.ready(k, b)), s.ref_cnt(b) > 0)
        ),
        "INV-RESERVED-2": t.every(
            "K B R",
            lambda k, b, r: t.implies(
                t.all_of(s.entry(k, b), t.no(s.committed(k, b)), s.writes(b, r), s.is_request(r)), s.owner(k, b) == r
            ),
        ),
        "INV-RESERVED-3": t.every(
            "K B",
            lambda k, b: t.implies(
                t.all_of(s.entry(k, b), t.no(s.committed(k, b))),
                t.any_of(
                    s.writes(b, s.owner(k, b)),
                    t.every("R", lambda r: t.no(t.all_of(s.writes(b, r), s.is_request(r)))),
                ),
            ),
        ),
    }


def _soundness(t: Theory, s: State) -> dict[str, Term]:
    def reads(b: Term, r: Term, p: Term, i: Term) -> Term:
        """Reader r, not the writer, reads p from b as it is after the step i that has not been committed yet."""
        return t.all_of(s.served(b, r, p), s.done() <= i, i <= s.now(), s.attached(b, r) <= i)

    return {
        "INV-SOUND-1": t.every(
            "K B Int",
            lambda k, b, i: t.implies(
                t.all_of(s.entry(k, b), i <= s.now(), s.done() <= i, s.ready(k, b) <= i),
                fits(t, s, s.group(b), s.key_prefix(k), b, i),
            ),
        ),
        "INV-SERVED-1": t.every(
            "B R P Int",
            lambda b, r, p, i: t.implies(reads(b, r, p, i), fits(t, s, s.group(b), p, b, i)),
        ),
        "INV-SERVED-2": t.every(
            "B R P",
            lambda b, r, p: t.implies(
                s.served(b, r, p),
                t.all_of(
                    s.holds(b, r),
                    t.no(s.writes(b, r)),
                    s.placed(b),
                    s.length(p) > 0,
                    s.start(b) == s.slot_start(s.group(b), s.length(p)),
                    t.where(s.attached(b, r) <= s.done(), s.born(b) <= s.done(), s.born(b) <= s.attached(b, r)),
                ),
            ),
        ),
        "INV-DEPENDS-1": t.every(
            "B R R P",
            lambda b, r, w, p: t.implies(
                t.all_of(s.served(b, r, p), s.done() < s.attached(b, r), s.writes(b, w)),
                s.attached(b, r) <= s.depends(r, w),
            ),
        ),
    }


def _consumer(t: Theory, s: State) -> dict[str, Term]:
    return {
        "INV-EVENTS-1": t.every("K", lambda k: t.iff(s.resident(k), t.some("B", lambda b: s.committed(k, b)))),
        "EVENT-RESIDENCY-2": t.all_of(
            t.every("K", lambda k: t.all_of(s.believed_copies(k) == s.copies(k), s.copies(k) >= 0)),
            t.every(
                "K B",
                lambda k, b: t.implies(
                    s.committed(k, b),
                    t.all_of(
                        0 <= s.copy_index(k, b),
                        s.copy_index(k, b) < s.copies(k),
                        s.copy_at(k, s.copy_index(k, b)) == b,
                    ),
                ),
            ),
            t.every(
                "K Int",
                lambda k, i: t.implies(
                    t.all_of(0 <= i, i < s.copies(k)),
                    t.all_of(s.committed(k, s.copy_at(k, i)), s.copy_index(k, s.copy_at(k, i)) == i),
                ),
            ),
        ),
        "EVENT-REMOVED-1": t.no(s.removed_absent()),
        "EVENT-STORED-3": t.no(s.stored_resident()),
        "EVENT-PARENT-1": t.no(s.stored_orphan()),
        "INV-HASHES-1": t.all_of(
            t.every("R", lambda r: t.all_of(0 <= s.hashed(r), s.hashed(r) <= s.length(s.text(r)))),
            t.every(
                "R Int",
                lambda r, n: t.implies(
                    t.all_of(0 < n, n <= s.hashed(r)), s.hash_at(r, n) == s.digest(s.first(s.text(r), n))
                ),
            ),
        ),
    }
