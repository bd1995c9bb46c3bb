"""What is proved of single transitions: what they do, and what they leave alone. Names are clause ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvproof.spec.machine.immediate import COMMIT, IMMEDIATE, is_settled
from kvproof.spec.machine.theory import State, Term, Theory
from kvproof.spec.machine.transitions import has_key, is_due, is_full, is_servable, is_superseded

Statement = Callable[..., Term]
"""(theory, state before, state after, arguments of the transition) -> what holds"""


@dataclass(frozen=True, slots=True)
class Fact:
    """A theorem about one transition, in one sentence."""

    theorem: str
    transition: str
    sentence: str
    statement: Statement


def _same_references(t: Theory, s: State, u: State) -> Term:
    return t.all_of(
        t.every("B", lambda b: t.all_of(u.ref_cnt(b) == s.ref_cnt(b), t.iff(u.is_free(b), s.is_free(b)))),
        t.every("B", lambda b: u.place(b) == s.place(b)),
        t.every(
            "B R", lambda b, r: t.all_of(t.iff(u.holds(b, r), s.holds(b, r)), t.iff(u.writes(b, r), s.writes(b, r)))
        ),
    )


def _same_entries(t: Theory, s: State, u: State) -> Term:
    return t.every(
        "K B",
        lambda k, b: t.all_of(
            t.iff(u.entry(k, b), s.entry(k, b)),
            t.iff(u.committed(k, b), s.committed(k, b)),
            u.rank(k, b) == s.rank(k, b),
            u.ready(k, b) == s.ready(k, b),
        ),
    )


def _same_consumer(t: Theory, s: State, u: State) -> Term:
    return t.every(
        "K",
        lambda k: t.all_of(t.iff(u.resident(k), s.resident(k)), u.believed_copies(k) == s.believed_copies(k)),
    )


def _allocated_block_is_bare(t: Theory, s: State, u: State, b: Term, r: Term) -> Term:
    return t.all_of(t.no(has_key(t, u, b)), t.no(u.placed(b)), u.ref_cnt(b) == 1, u.writes(b, r))


def _first_in_the_queue(t: Theory, s: State, u: State, b: Term, r: Term) -> Term:
    return t.all_of(s.is_free(b), t.every("B", lambda c: t.implies(s.is_free(c), s.place(b) <= s.place(c))))


def _kept_for_a_copy(t: Theory, s: State, u: State, b: Term, c: Term) -> Term:
    return t.all_of(t.no(s.is_request(c)), u.holds(b, c), u.ref_cnt(b) == s.ref_cnt(b) + 1)


def _others_keep_their_entries(t: Theory, s: State, u: State, b: Term, *_: Term) -> Term:
    return t.every("K B", lambda k, c: t.implies(c != b, t.iff(u.entry(k, c), s.entry(k, c))))


def _touch_leaves_the_index(t: Theory, s: State, u: State, b: Term, r: Term, k: Term) -> Term:
    return t.all_of(_same_entries(t, s, u), _same_consumer(t, s, u), u.ref_cnt(b) == s.ref_cnt(b) + 1)


def _free_leaves_the_index(t: Theory, s: State, u: State, b: Term, r: Term) -> Term:
    return t.all_of(_same_entries(t, s, u), _same_consumer(t, s, u), u.ref_cnt(b) == s.ref_cnt(b) - 1)


def _freed_with_keys_goes_last(t: Theory, s: State, u: State, b: Term, r: Term) -> Term:
    return t.implies(
        t.all_of(u.is_free(b), has_key(t, u, b)),
        t.every("B", lambda c: t.implies(t.all_of(u.is_free(c), c != b), u.place(c) < u.place(b))),
    )


def _freed_without_key_goes_first(t: Theory, s: State, u: State, b: Term, r: Term) -> Term:
    return t.implies(
        t.all_of(u.is_free(b), t.no(has_key(t, u, b))),
        t.every("B", lambda c: t.implies(t.all_of(u.is_free(c), c != b), u.place(b) < u.place(c))),
    )


def _evicted_block_keeps_the_rest(t: Theory, s: State, u: State, b: Term) -> Term:
    return t.all_of(t.no(has_key(t, u, b)), _same_references(t, s, u), t.iff(u.placed(b), s.placed(b)))


def _registered_or_unchanged(t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term) -> Term:
    k = s.key(g, s.hash_at(r, n))
    return t.any_of(
        _same_entries(t, s, u),
        t.all_of(u.entry(k, b), t.no(u.committed(k, b)), u.ready(k, b) == s.now(), _same_references(t, s, u)),
    )


def _present_key_is_left_alone(
    t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term
) -> Term:
    there = s.entry(s.key(g, s.hash_at(r, n)), b)
    return t.implies(t.all_of(there, t.no(replace)), t.all_of(_same_entries(t, s, u), _same_consumer(t, s, u)))


def _no_shorter_key_below_a_full_one(
    t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term
) -> Term:
    """Stated on positions: n lies below a key at the end of the block's slot."""
    below = t.some(
        "K",
        lambda j: t.all_of(
            s.entry(j, b),
            s.length(s.key_prefix(j)) == s.start(b) + s.block_size(g),
            n < s.length(s.key_prefix(j)),
            t.no(s.recurrent(g)),
        ),
    )
    return t.implies(t.all_of(below, t.no(replace)), t.all_of(_same_entries(t, s, u), _same_consumer(t, s, u)))


def _changes(t: Theory, s: State, u: State, b: Term) -> Term:
    return t.some("K", lambda k: t.no(t.iff(u.entry(k, b), s.entry(k, b))))


def _slot_stays(t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term) -> Term:
    same = t.all_of(u.placed(b), u.group(b) == s.group(b), u.start(b) == s.start(b))
    return t.implies(s.placed(b), same)


def _keys_are_the_requests_own(
    t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term
) -> Term:
    own = t.every("K", lambda k: t.implies(u.entry(k, b), s.is_prefix(s.key_prefix(k), s.text(r))))
    return t.implies(_changes(t, s, u, b), own)


def _only_the_writer_changes_keys(
    t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term
) -> Term:
    return t.implies(_changes(t, s, u, b), s.writes(b, r))


def _recurrent_block_had_no_key(
    t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term
) -> Term:
    return t.implies(t.all_of(_changes(t, s, u, b), s.recurrent(g), t.no(replace)), t.no(has_key(t, s, b)))


def _names_what_is_there(t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term) -> Term:
    came = t.some("K", lambda k: t.all_of(u.entry(k, b), t.no(s.entry(k, b))))
    exactly = s.content(b, s.now()) == s.first(s.text(r), n)
    return t.implies(t.all_of(s.recurrent(g), came), exactly)


def _replaced_block_has_one_key(
    t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term
) -> Term:
    return t.implies(replace, t.every("K", lambda k: t.implies(u.entry(k, b), k == s.key(g, s.hash_at(r, n)))))


def _only_shorter_committed_keys_go(t: Theory, s: State, u: State, k: Term, b: Term) -> Term:
    def gone(j: Term, c: Term) -> Term:
        return t.all_of(s.entry(j, c), t.no(u.entry(j, c)))

    shorter = t.every(
        "K B",
        lambda j, c: t.implies(
            gone(j, c),
            t.all_of(c == b, s.committed(j, c), s.length(s.key_prefix(j)) < s.length(s.key_prefix(k))),
        ),
    )
    return t.all_of(shorter, _same_references(t, s, u))


def _reset_when_unused(t: Theory, s: State, u: State) -> Term:
    return t.every("B", lambda b: s.ref_cnt(b) == 0)


def _attention_registration_keeps_committed_keys(
    t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term
) -> Term:
    return t.implies(t.no(replace), t.every("K B", lambda k, c: t.implies(s.committed(k, c), u.committed(k, c))))


def _moved_keys_keep_rank_and_status(t: Theory, s: State, u: State, a: Term, d: Term) -> Term:
    return t.all_of(
        t.no(has_key(t, u, a)),
        t.every(
            "K",
            lambda k: t.all_of(
                t.iff(u.entry(k, d), s.entry(k, a)),
                t.implies(s.entry(k, a), t.all_of(u.rank(k, d) == s.rank(k, a), u.ready(k, d) == s.now())),
                t.iff(u.committed(k, d), s.committed(k, a)),
            ),
        ),
        _same_consumer(t, s, u),
        _same_references(t, s, u),
    )


def _rollback_leaves_no_trace(t: Theory, s: State, u: State, chosen: Callable[[Term], Term]) -> Term:
    """Nothing of the chosen requests' uncommitted work is left, and nothing else changed."""
    return t.all_of(
        t.every(
            "K B",
            lambda k, b: t.all_of(
                t.iff(
                    u.entry(k, b),
                    t.all_of(s.entry(k, b), t.any_of(s.committed(k, b), t.no(chosen(s.owner(k, b))))),
                ),
                t.iff(u.committed(k, b), s.committed(k, b)),
            ),
        ),
        t.every("B R", lambda b, r: t.implies(chosen(r), u.attached(b, r) <= s.done())),
        t.every("R R", lambda r, w: t.implies(chosen(r), u.depends(r, w) <= s.done())),
        _same_references(t, s, u),
        _same_consumer(t, s, u),
    )


def _rollback_keeps_committed_content(t: Theory, s: State, u: State, chosen: Callable[[Term], Term]) -> Term:
    return t.every("B", lambda b: u.content(b, s.done()) == s.content(b, s.done()))


def _publishing_is_all_that_happens(t: Theory, s: State, u: State, k: Term, b: Term) -> Term:
    return t.all_of(
        s.ready(k, b) == s.done() + 1,
        t.every(
            "K B",
            lambda x, c: t.all_of(
                t.iff(u.entry(x, c), s.entry(x, c)),
                t.iff(u.committed(x, c), t.any_of(s.committed(x, c), t.all_of(x == k, c == b))),
            ),
        ),
        _same_references(t, s, u),
    )


def _closing_serves_what_was_published(t: Theory, s: State, u: State) -> Term:
    return t.every(
        "K B",
        lambda k, b: t.implies(t.all_of(s.committed(k, b), s.ready(k, b) <= s.done() + 1), is_servable(t, u, k, b)),
    )


def _reset_leaves_nothing(t: Theory, s: State, u: State) -> Term:
    return t.all_of(
        t.every("K B", lambda k, b: t.no(u.entry(k, b))),
        t.every("K", lambda k: t.no(u.resident(k))),
        t.every("B", lambda b: u.place(b) == s.place(b)),
    )


def _dropping_comes_to_an_end(t: Theory, s: State, u: State, k: Term, b: Term) -> Term:
    return t.all_of(
        t.every("K B", lambda x, c: t.iff(is_due(t, u, x, c), is_due(t, s, x, c))),
        t.every("K", lambda j: t.no(is_superseded(t, u, j, k, b))),
    )


def _publishing_gives_nothing_to_drop(t: Theory, s: State, u: State, k: Term, b: Term) -> Term:
    def left(x: Term, c: Term) -> Term:
        return t.all_of(is_due(t, s, x, c), t.no(t.all_of(x == k, c == b)))

    return t.all_of(
        t.every("K B", lambda x, c: t.iff(is_due(t, u, x, c), left(x, c))),
        t.every("K K B", lambda j, x, c: t.implies(is_due(t, u, x, c), t.no(is_superseded(t, u, j, x, c)))),
    )


def _is_settled_unless_open(t: Theory, s: State, u: State) -> Term:
    return t.implies(u.done() == u.now(), is_settled(t, u))


def _is_settled(t: Theory, s: State, u: State) -> Term:
    return is_settled(t, u)


def _goes_on(t: Theory, s: State, u: State) -> Term:
    return t.no(u.refused())


def _is_done_at_once(t: Theory, s: State, u: State, *arguments: Term) -> Term:
    return t.all_of(t.no(u.refused()), is_settled(t, u))


def _longest_key_is_the_only_one(
    t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term
) -> Term:
    longest = t.every("K", lambda j: t.implies(s.entry(j, b), s.length(s.key_prefix(j)) < n))
    return t.implies(longest, t.every("K", lambda j: t.iff(u.entry(j, b), j == s.key(g, s.hash_at(r, n)))))


def _shorter_key_is_added(t: Theory, s: State, u: State, b: Term, r: Term, n: Term, g: Term, replace: Term) -> Term:
    below = t.some("K", lambda j: t.all_of(s.entry(j, b), n < s.length(s.key_prefix(j))))
    full = t.some("K", lambda j: t.all_of(s.entry(j, b), is_full(t, s, g, s.key_prefix(j))))
    added = t.every("K", lambda j: t.iff(u.entry(j, b), t.any_of(s.entry(j, b), j == s.key(g, s.hash_at(r, n)))))
    return t.implies(t.all_of(t.no(replace), below, t.no(full)), added)


def _full_keys_are_alone_unless_open(t: Theory, s: State, u: State) -> Term:
    def alone(k: Term, c: Term) -> Term:
        return t.every("K", lambda j: t.implies(u.entry(j, c), j == k))

    def full(k: Term, c: Term) -> Term:
        return t.all_of(u.entry(k, c), is_full(t, u, u.group(c), u.key_prefix(k)))

    return t.implies(u.done() == u.now(), t.every("K B", lambda k, c: t.implies(full(k, c), alone(k, c))))


def _truncated_hashes_are_gone(t: Theory, s: State, u: State, r: Term, p: Term, n: Term) -> Term:
    return u.hashed(r) <= s.length(p)


FACTS = (
    Fact("POOL-ALLOC-1", "allocate", "No free block stands before the one that is allocated.", _first_in_the_queue),
    Fact(
        "POOL-ALLOC-2",
        "allocate",
        "An allocated block has no key, no slot, one holder and that as its writer.",
        _allocated_block_is_bare,
    ),
    Fact("INDEX-SIBLING-1", "allocate", "Allocating removes no entry of another block.", _others_keep_their_entries),
    Fact("INDEX-SIBLING-1", "evict", "Evicting removes no entry of another block.", _others_keep_their_entries),
    Fact("POOL-TOUCH-3", "touch", "Touching leaves keys, ranks and events alone.", _touch_leaves_the_index),
    Fact("STEP-COPY-2", "retain", "A reference that keeps an end of a copy is a copy's.", _kept_for_a_copy),
    Fact("POOL-FREE-6", "free", "Freeing leaves keys, ranks and events alone.", _free_leaves_the_index),
    Fact(
        "POOL-FREE-3", "free", "A block that is freed with a key is the last to be taken.", _freed_with_keys_goes_last
    ),
    Fact(
        "POOL-FREE-2",
        "free",
        "A block that is freed without a key is the next to be taken.",
        _freed_without_key_goes_first,
    ),
    Fact("POOL-EVICT-2", "evict", "Eviction leaves references, queue and slot alone.", _evicted_block_keeps_the_rest),
    Fact(
        "STEP-RESERVE-1",
        "register",
        "Registering reserves the key in this step, or changes nothing.",
        _registered_or_unchanged,
    ),
    Fact("REG-DUPLICATE-1", "register", "A key that is there is left alone.", _present_key_is_left_alone),
    Fact("REG-PARTIAL-5", "register", "A key below a full one changes nothing.", _no_shorter_key_below_a_full_one),
    Fact(
        "STEP-UPGRADE-1",
        "register",
        "Without replace, registering removes no committed key.",
        _attention_registration_keeps_committed_keys,
    ),
    Fact("REG-SLOT-1", "register", "A block keeps its group and slot.", _slot_stays),
    Fact("REG-OWNER-1", "register", "Only the writer changes a block's keys.", _only_the_writer_changes_keys),
    Fact(
        "REG-CONFLICT-1",
        "register",
        "A block whose keys change has keys of the request's own text only.",
        _keys_are_the_requests_own,
    ),
    Fact(
        "REG-RECURRENT-1",
        "register",
        "Without replace, a recurrent block gets a key only if it has none.",
        _recurrent_block_had_no_key,
    ),
    Fact(
        "ADVANCE-KEEP-1",
        "register",
        "A key that comes to a recurrent block at n finds the state after exactly its n tokens there.",
        _names_what_is_there,
    ),
    Fact("REG-REPLACE-1", "register", "After replace, the new key is the only one.", _replaced_block_has_one_key),
    Fact(
        "STEP-UPGRADE-2",
        "supersede",
        "The commit of a longer key drops shorter committed keys of its block only.",
        _only_shorter_committed_keys_go,
    ),
    Fact("POOL-RESET-2", "reset", "Nothing is referenced when the cache is reset.", _reset_when_unused),
    Fact(
        "POOL-MOVE-2",
        "move",
        "Moved keys keep rank and status; references and consumer stay.",
        _moved_keys_keep_rank_and_status,
    ),
    Fact(
        "STEP-ROLLBACK-2",
        "rollback",
        "Nothing of the chosen requests' uncommitted work is left, all else stays.",
        _rollback_leaves_no_trace,
    ),
    Fact(
        "STEP-ROLLBACK-3",
        "rollback",
        "What was committed is still what the blocks held.",
        _rollback_keeps_committed_content,
    ),
    Fact(
        "STEP-COMMIT-1",
        "publish",
        "Publishing commits one entry and changes no other.",
        _publishing_is_all_that_happens,
    ),
    Fact(
        "STEP-SERVE-1",
        "close_step",
        "What a step published is servable once the step is closed.",
        _closing_serves_what_was_published,
    ),
    Fact(
        "POOL-RESET-1",
        "reset",
        "Reset leaves no entry and no resident key, and the queue as it was.",
        _reset_leaves_nothing,
    ),
    Fact("REQ-TRUNCATE-1", "truncate", "No hash beyond the kept text is left.", _truncated_hashes_are_gone),
    Fact(
        "STEP-COMMIT-3",
        "supersede",
        "What a commit drops is no key of its step, and then nothing is left for this key to drop.",
        _dropping_comes_to_an_end,
    ),
    Fact(
        "STEP-COMMIT-3",
        "publish",
        "Publishing leaves the other keys of the step to be published, and nothing to be dropped.",
        _publishing_gives_nothing_to_drop,
    ),
    Fact(
        "STEP-COMMIT-2",
        COMMIT.name,
        "The commit of the next step never gets stuck: it drops, publishes or closes.",
        _goes_on,
    ),
    Fact("STEP-IMMEDIATE-1", "initial", "A new pool has no open step and no entry.", _is_settled),
    Fact(
        "STEP-IMMEDIATE-1",
        "close_step",
        "With the last open step closed, every entry is committed and ready.",
        _is_settled_unless_open,
    ),
    *(
        Fact(
            "STEP-IMMEDIATE-1",
            operation.name,
            "Done in a step of its own, it is never refused for that, and every entry is committed and ready again.",
            _is_done_at_once,
        )
        for operation in IMMEDIATE
    ),
    Fact(
        "REG-PARTIAL-3",
        "immediate register",
        "A key beyond the longest one replaces all keys.",
        _longest_key_is_the_only_one,
    ),
    Fact(
        "REG-PARTIAL-4",
        "immediate register",
        "A key below a longer partial one is added, and all stay.",
        _shorter_key_is_added,
    ),
    Fact(
        "INV-FULL-1",
        "close_step",
        "With the last open step closed, a full key is the only key of its block.",
        _full_keys_are_alone_unless_open,
    ),
)
