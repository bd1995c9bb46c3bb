"""What can happen: each transition returns its guard and the state after it.

A batch is a fold of these. `allocate(n)` takes one block n times. A batch `free` releases the blocks with a key in the
order given, then those without one in reverse order, so that they stand in front in the order given. `commit(s)` drops
what its keys supersede, publishes its keys, closes the step, then releases the ends of its copies. `immediate` has the
operations of a pool without steps.

Only the combinators of the theory may be used here; a lint checks it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvproof.spec.machine.theory import State, Term, Theory

Outcome = tuple[Term, State]
"""Guard and post-state."""

Run = Callable[..., Outcome]
"""(theory, state, arguments) -> guard and post-state"""


def is_open(t: Theory, s: State) -> Term:
    """A step is being built, or waits to be committed (STEP-OPEN-2)."""
    return s.done() < s.now()


def is_servable(t: Theory, s: State, k: Term, b: Term) -> Term:
    """The entry may be handed to a reader (STEP-SERVE-1)."""
    return t.all_of(s.entry(k, b), s.committed(k, b), s.ready(k, b) <= s.done())


def has_key(t: Theory, s: State, b: Term) -> Term:
    """The block has any key."""
    return t.some("K", lambda k: s.entry(k, b))


def fits(t: Theory, s: State, g: Term, p: Term, b: Term, step: Term) -> Term:
    """What block b holds after a step serves a reader of prefix p in group g (CONTENT-SOUND-1)."""
    held = s.content(b, step)
    same_slot = s.slot_start(g, s.length(p)) == s.slot_start(g, s.length(held))
    return t.all_of(
        s.content_group(b, step) == g, t.where(s.recurrent(g), p == held, t.all_of(s.is_prefix(p, held), same_slot))
    )


def is_full(t: Theory, s: State, g: Term, p: Term) -> Term:
    """A key of prefix p ends a slot of group g (POS-FULL-1)."""
    return s.length(p) == s.slot_start(g, s.length(p)) + s.block_size(g)


# Shared by the transitions


def drop(t: Theory, s: State, gone: Callable[[Term, Term], Term]) -> State:
    """The entries `gone(k, b)` leave the index, without a word to the consumer: they were never published."""
    return s.but(
        entry=lambda k, c: t.all_of(s.entry(k, c), t.no(gone(k, c))),
        listed=lambda c, k: t.all_of(s.listed(c, k), t.no(gone(k, c))),
        committed=lambda k, c: t.all_of(s.committed(k, c), t.no(gone(k, c))),
    )


def drop_keys(t: Theory, s: State, b: Term, chosen: Callable[[Term], Term]) -> State:
    """The chosen keys leave block b; a consumer hears of those that no other block has committed."""

    def published(k: Term) -> Term:
        return t.all_of(chosen(k), s.committed(k, b))

    def removed(k: Term) -> Term:
        return t.all_of(published(k), t.no(t.some("B", lambda c: t.all_of(c != b, s.committed(k, c)))))

    def last_copy(k: Term) -> Term:
        return s.copy_at(k, s.copies(k) - 1)

    return drop(t, s, lambda k, c: t.all_of(c == b, s.entry(k, c), chosen(k))).but(
        resident=lambda k: t.all_of(s.resident(k), t.no(removed(k))),
        removed_absent=lambda: t.any_of(
            s.removed_absent(), t.some("K", lambda k: t.all_of(removed(k), t.no(s.resident(k))))
        ),
        believed_copies=lambda k: t.where(published(k), s.believed_copies(k) - 1, s.believed_copies(k)),
        copies=lambda k: t.where(published(k), s.copies(k) - 1, s.copies(k)),
        copy_index=lambda k, c: t.where(
            t.all_of(published(k), c == last_copy(k)), s.copy_index(k, b), s.copy_index(k, c)
        ),
        copy_at=lambda k, i: t.where(t.all_of(published(k), i == s.copy_index(k, b)), last_copy(k), s.copy_at(k, i)),
    )


def acquire(t: Theory, s: State, b: Term, r: Term) -> State:
    """One more reference; a free block leaves the queue."""
    return s.but(
        ref_cnt=lambda c: t.where(c == b, s.ref_cnt(c) + 1, s.ref_cnt(c)),
        is_free=lambda c: t.all_of(s.is_free(c), c != b),
        holds=lambda c, q: t.any_of(s.holds(c, q), t.all_of(c == b, q == r)),
        holder_index=lambda c, q: t.where(t.all_of(c == b, q == r), s.ref_cnt(b), s.holder_index(c, q)),
        holder_at=lambda c, i: t.where(t.all_of(c == b, i == s.ref_cnt(b)), r, s.holder_at(c, i)),
    )


def serve(t: Theory, s: State, b: Term, r: Term, p: Term, step: Term) -> State:
    """Holder r reads prefix p from block b; `step` is that of the reserved key it attached, or 0."""
    return s.but(
        served=lambda c, q, x: t.any_of(s.served(c, q, x), t.all_of(c == b, q == r, x == p)),
        attached=lambda c, q: t.where(t.all_of(c == b, q == r), step, s.attached(c, q)),
    )


def hold_content(t: Theory, s: State, b: Term, p: Term, g: Term) -> State:
    """Block b holds prefix p of group g from the current step on."""
    return s.but(
        content=lambda c, i: t.where(t.all_of(c == b, i == s.now()), p, s.content(c, i)),
        content_group=lambda c, i: t.where(t.all_of(c == b, i == s.now()), g, s.content_group(c, i)),
    )


# Steps


def begin_step(t: Theory, s: State) -> Outcome:
    """The next step opens; blocks hold what they held (STEP-OPEN-1)."""
    opened = s.now() + 1
    return t.true(), s.but(
        now=lambda: opened,
        content=lambda c, i: t.where(i == opened, s.content(c, s.now()), s.content(c, i)),
        content_group=lambda c, i: t.where(i == opened, s.content_group(c, s.now()), s.content_group(c, i)),
    )


def is_due(t: Theory, s: State, k: Term, b: Term) -> Term:
    """The entry is reserved, and the step to be committed next is its own."""
    return t.all_of(is_open(t, s), s.entry(k, b), t.no(s.committed(k, b)), s.ready(k, b) == s.done() + 1)


def is_superseded(t: Theory, s: State, j: Term, k: Term, b: Term) -> Term:
    """Committed key j goes when k is published, which was longer than all keys of the block (STEP-UPGRADE-2)."""

    def is_shorter_if_older(i: Term) -> Term:
        older = t.all_of(s.entry(i, b), s.rank(i, b) < s.rank(k, b))
        return t.implies(older, s.length(s.key_prefix(i)) < s.length(s.key_prefix(k)))

    return t.all_of(s.committed(j, b), s.rank(j, b) < s.rank(k, b), t.every("K", is_shorter_if_older))


def supersede(t: Theory, s: State, k: Term, b: Term) -> Outcome:
    """The commit of a longer key drops the shorter committed ones of its block, before anything is published."""
    return is_due(t, s, k, b), drop_keys(t, s, b, lambda j: is_superseded(t, s, j, k, b))


def is_known(t: Theory, s: State, p: Term) -> Term:
    """Some block has a committed key of prefix p, in any group."""
    return t.some("G B", lambda g, b: s.committed(s.key(g, s.digest(p)), b))


def is_parent(t: Theory, s: State, q: Term, p: Term) -> Term:
    """Prefix q is the longest known proper prefix of p: what a Stored event names as its parent (EVENT-PARENT-1)."""

    def ancestor(x: Term) -> Term:
        return t.all_of(s.is_prefix(x, p), x != p, s.length(x) > 0, is_known(t, s, x))

    return t.all_of(ancestor(q), t.every("P", lambda x: t.implies(ancestor(x), s.is_prefix(x, q))))


def publish(t: Theory, s: State, k: Term, b: Term) -> Outcome:
    """An entry of the step becomes committed; its first copy is Stored (STEP-COMMIT-1)."""
    settled = t.every("K K B", lambda x, j, c: t.implies(is_due(t, s, x, c), t.no(is_superseded(t, s, j, x, c))))
    stored = t.no(t.some("B", lambda c: s.committed(k, c)))
    orphan = t.some(
        "P",
        lambda q: t.all_of(
            is_parent(t, s, q, s.key_prefix(k)), t.no(t.some("G", lambda g: s.resident(s.key(g, s.digest(q)))))
        ),
    )
    return t.all_of(is_due(t, s, k, b), settled), s.but(
        committed=lambda x, c: t.any_of(s.committed(x, c), t.all_of(x == k, c == b)),
        resident=lambda x: t.any_of(s.resident(x), x == k),
        stored_resident=lambda: t.any_of(s.stored_resident(), t.all_of(stored, s.resident(k))),
        stored_orphan=lambda: t.any_of(s.stored_orphan(), t.all_of(stored, orphan)),
        believed_copies=lambda x: t.where(x == k, s.believed_copies(x) + 1, s.believed_copies(x)),
        copies=lambda x: t.where(x == k, s.copies(x) + 1, s.copies(x)),
        copy_index=lambda x, c: t.where(t.all_of(x == k, c == b), s.copies(k), s.copy_index(x, c)),
        copy_at=lambda x, i: t.where(t.all_of(x == k, i == s.copies(k)), b, s.copy_at(x, i)),
    )


def close_step(t: Theory, s: State) -> Outcome:
    """With all its keys published, the step is committed."""
    published = t.no(t.some("K B", lambda k, b: is_due(t, s, k, b)))
    return t.all_of(is_open(t, s), published), s.but(done=lambda: s.done() + 1)


def rollback(t: Theory, s: State, chosen: Callable[[Term], Term]) -> Outcome:
    """The chosen requests, closed under "depends on", take back what is not committed (STEP-ROLLBACK-1 to 3)."""
    closed = t.every("R R", lambda w, r: t.implies(t.all_of(chosen(w), s.depends(r, w) > s.done()), chosen(r)))
    requests = t.every("R", lambda r: t.implies(chosen(r), s.is_request(r)))
    between_commits = t.every(
        "K B R",
        lambda k, b, r: t.implies(
            t.all_of(s.committed(k, b), s.ready(k, b) > s.done(), s.writes(b, r)), t.no(s.is_request(r))
        ),
    )
    dropped = drop(t, s, lambda k, c: t.all_of(s.entry(k, c), t.no(s.committed(k, c)), chosen(s.owner(k, c))))

    def undone(c: Term, i: Term) -> Term:
        failed = t.some("R", lambda r: t.all_of(s.writes(c, r), chosen(r)))
        return t.all_of(failed, s.done() < i, i <= s.now())

    def taken_back(c: Term, r: Term) -> Term:
        return t.all_of(chosen(r), s.attached(c, r) > s.done())

    return t.all_of(closed, requests, between_commits), dropped.but(
        content=lambda c, i: t.where(undone(c, i), _certain(t, s, c, i), s.content(c, i)),
        served=lambda c, r, p: t.all_of(s.served(c, r, p), t.no(taken_back(c, r))),
        attached=lambda c, r: t.where(taken_back(c, r), 0, s.attached(c, r)),
        depends=lambda r, w: t.where(chosen(r), 0, s.depends(r, w)),
    )


def _certain(t: Theory, s: State, b: Term, i: Term) -> Term:
    """What block b holds for certain when its writer's work since the last commit failed.

    Rows of different slots lie in the same places, so a write in another slot leaves none of those before it.
    """
    before, after, g = s.content(b, s.done()), s.content(b, i), s.content_group(b, i)
    same_group = s.content_group(b, s.done()) == g
    common = s.common(before, after)
    slots = [s.slot_start(g, s.length(p)) for p in (before, after, common)]
    same_slot = t.all_of(s.length(common) > 0, slots[0] == slots[1], slots[0] == slots[2])
    recurrent = t.where(before == after, after, s.empty())
    kept = t.where(s.recurrent(g), recurrent, t.where(same_slot, common, s.empty()))
    return t.where(t.all_of(same_group, s.born(b) <= s.done()), kept, s.empty())


# References


def allocate(t: Theory, s: State, b: Term, r: Term) -> Outcome:
    """The front block, without its keys, goes to r, its writer (POOL-ALLOC-1, POOL-ALLOC-2, POOL-ALLOC-4)."""
    first = t.every("B", lambda c: t.implies(s.is_free(c), s.place(b) <= s.place(c)))
    cleaned = drop_keys(t, s, b, lambda k: t.true())
    emptied = hold_content(t, acquire(t, cleaned, b, r), b, s.empty(), s.content_group(b, s.now()))
    return t.all_of(is_open(t, s), s.is_free(b), first), emptied.but(
        writes=lambda c, q: t.where(c == b, q == r, s.writes(c, q)),
        placed=lambda c: t.all_of(s.placed(c), c != b),
        born=lambda c: t.where(c == b, s.now(), s.born(c)),
        attached=lambda c, q: t.where(c == b, 0, s.attached(c, q)),
    )


def touch(t: Theory, s: State, b: Term, r: Term, k: Term) -> Outcome:
    """A reader takes a reference by a servable key (POOL-TOUCH-1, POOL-TOUCH-2, POOL-HOLDER-1)."""
    allowed = t.all_of(is_open(t, s), is_servable(t, s, k, b), t.no(s.holds(b, r)))
    return allowed, serve(t, acquire(t, s, b, r), b, r, s.key_prefix(k), 0)


def attach(t: Theory, s: State, b: Term, r: Term, k: Term) -> Outcome:
    """A reader takes a reference by a reserved full key and depends on its writer (STEP-ATTACH-1, STEP-ATTACH-2)."""
    w, step = s.owner(k, b), s.ready(k, b)
    allowed = t.all_of(
        is_open(t, s),
        s.entry(k, b),
        t.no(s.committed(k, b)),
        s.writes(b, w),
        s.full_attention(s.key_group(k)),
        is_full(t, s, s.key_group(k), s.key_prefix(k)),
        t.no(s.holds(b, r)),
        s.is_request(r),
    )
    served = serve(t, acquire(t, s, b, r), b, r, s.key_prefix(k), step)
    return allowed, served.but(
        depends=lambda x, y: t.where(t.all_of(x == r, y == w, s.depends(x, y) < step), step, s.depends(x, y))
    )


def retain(t: Theory, s: State, b: Term, c: Term) -> Outcome:
    """A copy takes a reference to one of its ends, so that both stay until it is done (STEP-COPY-2)."""
    return t.all_of(b != s.null(), t.no(s.is_request(c)), t.no(s.holds(b, c))), acquire(t, s, b, c).but(
        attached=lambda x, q: t.where(t.all_of(x == b, q == c), 0, s.attached(x, q))
    )


def free(t: Theory, s: State, b: Term, r: Term) -> Outcome:
    """A holder lets go of a block; the last one puts it into the queue (POOL-FREE-1 to 3, STEP-FREE-1)."""
    last = s.ref_cnt(b) == 1
    final = s.holder_at(b, s.ref_cnt(b) - 1)
    unfinished = t.some(
        "K",
        lambda k: t.all_of(
            s.entry(k, b),
            s.ready(k, b) > s.done(),
            t.any_of(last, t.all_of(t.no(s.committed(k, b)), s.owner(k, b) == r)),
        ),
    )
    keyed = has_key(t, s, b)

    def leaves(c: Term, q: Term) -> Term:
        return t.all_of(c == b, q == r)

    def freed(c: Term) -> Term:
        return t.all_of(c == b, last)

    return t.all_of(s.holds(b, r), t.no(unfinished)), s.but(
        ref_cnt=lambda c: t.where(c == b, s.ref_cnt(c) - 1, s.ref_cnt(c)),
        is_free=lambda c: t.any_of(s.is_free(c), freed(c)),
        place=lambda c: t.where(freed(c), t.where(keyed, s.back(), s.front()), s.place(c)),
        front=lambda: s.front() - 1,
        back=lambda: s.back() + 1,
        kept_keys=lambda c: t.where(freed(c), keyed, s.kept_keys(c)),
        released_at=lambda c: t.where(freed(c), s.clock(), s.released_at(c)),
        clock=lambda: s.clock() + 1,
        holds=lambda c, q: t.all_of(s.holds(c, q), t.no(leaves(c, q))),
        writes=lambda c, q: t.all_of(s.writes(c, q), t.no(leaves(c, q))),
        served=lambda c, q, p: t.all_of(s.served(c, q, p), t.no(leaves(c, q))),
        attached=lambda c, q: t.where(leaves(c, q), 0, s.attached(c, q)),
        holder_index=lambda c, q: t.where(t.all_of(c == b, q == final), s.holder_index(b, r), s.holder_index(c, q)),
        holder_at=lambda c, i: t.where(t.all_of(c == b, i == s.holder_index(b, r)), final, s.holder_at(c, i)),
    )


# Content


def write(t: Theory, s: State, b: Term, r: Term, p: Term, g: Term) -> Outcome:
    """The writer's forward pass leaves prefix p in the block (CONTENT-WRITE-1 to 3)."""
    keys_kept = t.every(
        "K",
        lambda k: t.implies(s.entry(k, b), t.all_of(t.no(s.recurrent(g)), s.is_prefix(s.key_prefix(k), p))),
    )
    readers_kept = t.every(
        "R P",
        lambda q, x: t.implies(t.all_of(q != r, s.served(b, q, x)), t.all_of(t.no(s.recurrent(g)), s.is_prefix(x, p))),
    )
    own_slot = t.implies(s.placed(b), t.all_of(s.group(b) == g, s.start(b) == s.slot_start(g, s.length(p))))
    own_text = t.all_of(s.length(p) > 0, s.is_prefix(p, s.text(r)))
    allowed = t.all_of(is_open(t, s), s.writes(b, r), own_text, own_slot, keys_kept, readers_kept)
    return allowed, hold_content(t, s, b, p, g)


def is_overwritable(t: Theory, s: State, b: Term) -> Term:
    """No key and no reader has anything to lose when the block's content is overwritten as a whole."""
    return t.all_of(t.no(has_key(t, s, b)), t.no(t.some("R P", lambda r, p: s.served(b, r, p))))


def is_as_the_step_found_it(t: Theory, s: State, b: Term) -> Term:
    """Nothing was copied to the block in this step and nothing written: copies come before the step's writes."""
    same = t.all_of(
        s.content(b, s.now()) == s.content(b, s.now() - 1),
        s.content_group(b, s.now()) == s.content_group(b, s.now() - 1),
    )
    untouched = t.where(s.born(b) == s.now(), s.content(b, s.now()) == s.empty(), same)
    return t.all_of(s.filled(b) < s.now(), untouched)


def fill(t: Theory, s: State, b: Term) -> State:
    """The block is the destination of a copy of this step."""
    return s.but(filled=lambda c: t.where(c == b, s.now(), s.filled(c)))


def copy(t: Theory, s: State, a: Term, d: Term, r: Term, p: Term) -> Outcome:
    """Block d gets what r may read of block a as the last step left it (CONTENT-COPY-1, STEP-COPY-1)."""
    source = s.now() - 1
    read = t.all_of(s.served(a, r, p), s.attached(a, r) <= s.done())
    written = t.all_of(s.writes(a, r), s.born(a) <= source, p == s.content(a, source), s.length(p) > 0)
    allowed = t.all_of(
        is_open(t, s), a != d, s.holds(a, r), s.writes(d, r), is_overwritable(t, s, d), t.any_of(read, written)
    )
    after = hold_content(t, s, d, p, s.content_group(a, source))
    return t.all_of(allowed, is_as_the_step_found_it(t, s, d)), fill(t, after, d)


# Keys


def register(t: Theory, s: State, b: Term, r: Term, n: Term, g: Term, replace: Term) -> Outcome:
    """The writer names the block by its prefix of n tokens (REG-*, STEP-RESERVE-1, STEP-UPGRADE-1)."""
    k, p = s.key(g, s.hash_at(r, n)), s.first(s.text(r), n)
    hashed = t.all_of(s.is_request(r), n > 0, n <= s.hashed(r))
    there = t.all_of(s.entry(k, b), t.no(replace))
    below_full = t.all_of(
        t.no(replace),
        t.no(s.recurrent(g)),
        t.some(
            "K",
            lambda j: t.all_of(s.entry(j, b), is_full(t, s, g, s.key_prefix(j)), n < s.length(s.key_prefix(j))),
        ),
    )
    allowed = t.all_of(_may_register(t, s, b, r, n, g, replace), t.any_of(below_full, fits(t, s, g, p, b, s.now())))
    changes = t.all_of(t.no(there), t.no(below_full))
    longest = t.every("K", lambda j: t.implies(s.entry(j, b), s.length(s.key_prefix(j)) < n))

    def leaves(j: Term) -> Term:
        return t.all_of(changes, t.any_of(replace, t.all_of(longest, t.no(s.committed(j, b)))))

    left = drop_keys(t, s, b, leaves)

    def added(x: Term, c: Term) -> Term:
        return t.all_of(changes, x == k, c == b)

    return t.all_of(is_open(t, s), hashed, t.any_of(there, allowed)), left.but(
        entry=lambda x, c: t.any_of(left.entry(x, c), added(x, c)),
        listed=lambda c, x: t.any_of(left.listed(c, x), added(x, c)),
        rank=lambda x, c: t.where(added(x, c), s.next_rank(), s.rank(x, c)),
        next_rank=lambda: t.where(changes, s.next_rank() + 1, s.next_rank()),
        ready=lambda x, c: t.where(added(x, c), s.now(), s.ready(x, c)),
        owner=lambda x, c: t.where(added(x, c), r, s.owner(x, c)),
        placed=lambda c: t.any_of(s.placed(c), t.all_of(changes, c == b)),
        group=lambda c: t.where(t.all_of(changes, c == b), g, s.group(c)),
        start=lambda c: t.where(t.all_of(changes, c == b), s.slot_start(g, n), s.start(c)),
    )


def _may_register(t: Theory, s: State, b: Term, r: Term, n: Term, g: Term, replace: Term) -> Term:
    """The owner, slot and conflict rules (REG-OWNER-1, REG-SLOT-1, REG-CONFLICT-1, REG-RECURRENT-1)."""
    own_slot = t.implies(s.placed(b), t.all_of(s.group(b) == g, s.start(b) == s.slot_start(g, n)))
    own_keys = t.every(
        "K",
        lambda j: t.implies(
            s.entry(j, b),
            t.all_of(
                t.no(s.recurrent(g)),
                s.is_prefix(s.key_prefix(j), s.text(r)),
                s.length(s.key_prefix(j)) <= s.hashed(r),
            ),
        ),
    )
    return t.all_of(s.writes(b, r), own_slot, t.any_of(replace, own_keys))


def evict(t: Theory, s: State, b: Term) -> Outcome:
    """All keys leave the block (POOL-EVICT-1, POOL-EVICT-2)."""
    return b != s.null(), drop_keys(t, s, b, lambda k: t.true())


def move(t: Theory, s: State, a: Term, d: Term) -> Outcome:
    """All keys and the content of block a go to d, which belongs to a copy (POOL-MOVE-*, STEP-MOVE-1, STEP-MOVE-2)."""
    of_a_copy = t.every("R", lambda r: t.implies(s.writes(d, r), t.no(s.is_request(r))))
    settled = t.every("K", lambda k: t.implies(s.entry(k, a), s.ready(k, a) < s.now()))
    guard, post = move_keys(t, s, a, d)
    return t.all_of(is_open(t, s), guard, of_a_copy, settled), post


def move_keys(t: Theory, s: State, a: Term, d: Term) -> Outcome:
    """What is common to a move within a step and in immediate mode."""
    same_slot = t.implies(s.placed(d), t.all_of(s.group(d) == s.group(a), s.start(d) == s.start(a)))
    unwritten = s.content(d, s.now()) == s.empty()
    allowed = t.all_of(a != d, has_key(t, s, a), s.ref_cnt(d) > 0, same_slot, is_overwritable(t, s, d), unwritten)

    def at(f: Callable[..., Term]) -> Callable[..., Term]:
        return lambda k, c: t.where(c == d, f(k, a), f(k, c))

    def handed(f: Callable[..., Term]) -> Callable[..., Term]:
        return lambda k, c: t.where(c == d, f(k, a), t.all_of(f(k, c), c != a))

    moved = hold_content(t, s, d, s.content(a, s.now() - 1), s.content_group(a, s.now() - 1))
    return allowed, fill(t, moved, d).but(
        entry=handed(s.entry),
        committed=handed(s.committed),
        listed=lambda c, k: t.where(c == d, s.listed(a, k), t.all_of(s.listed(c, k), c != a)),
        rank=at(s.rank),
        owner=at(s.owner),
        ready=lambda k, c: t.where(c == d, s.now(), s.ready(k, c)),
        copy_index=lambda k, c: t.where(t.all_of(c == d, s.committed(k, a)), s.copy_index(k, a), s.copy_index(k, c)),
        copy_at=lambda k, i: t.where(t.all_of(s.committed(k, a), i == s.copy_index(k, a)), d, s.copy_at(k, i)),
        placed=lambda c: t.any_of(s.placed(c), c == d),
        group=lambda c: t.where(c == d, s.group(a), s.group(c)),
        start=lambda c: t.where(c == d, s.start(a), s.start(c)),
    )


def reset(t: Theory, s: State) -> Outcome:
    """With nothing referenced, every key goes and the consumer starts anew (POOL-RESET-1, EVENT-CLEARED-1)."""
    unused = t.every("B", lambda b: s.ref_cnt(b) == 0)
    nothing = t.no(t.true())
    return unused, s.but(
        entry=lambda k, b: nothing,
        listed=lambda b, k: nothing,
        committed=lambda k, b: nothing,
        resident=lambda k: nothing,
        believed_copies=lambda k: 0,
        copies=lambda k: 0,
    )


# Requests


def append(t: Theory, s: State, r: Term, p: Term, n: Term) -> Outcome:
    """The request's text grows to p, its hashes up to n tokens (REQ-APPEND-1)."""
    grown = t.all_of(s.is_prefix(s.text(r), p), s.hashed(r) <= n, n <= s.length(p))
    return grown, s.but(
        text=lambda q: t.where(q == r, p, s.text(q)),
        hashed=lambda q: t.where(q == r, n, s.hashed(q)),
        hash_at=lambda q, i: t.where(
            t.all_of(q == r, s.hashed(r) < i, i <= n), s.digest(s.first(p, i)), s.hash_at(q, i)
        ),
    )


def truncate(t: Theory, s: State, r: Term, p: Term, n: Term) -> Outcome:
    """The request keeps prefix p of its text, and no hash beyond it (REQ-TRUNCATE-1)."""
    shrunk = t.all_of(s.is_prefix(p, s.text(r)), n >= 0, n <= s.hashed(r), n <= s.length(p))
    return shrunk, s.but(text=lambda q: t.where(q == r, p, s.text(q)), hashed=lambda q: t.where(q == r, n, s.hashed(q)))


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition with the sorts of its arguments; the sort X is a set of requests.

    A composed one is made of other transitions and preserves what they preserve.
    """

    name: str
    sorts: tuple[str, ...]
    run: Run
    composed: bool = False


TRANSITIONS = (
    Transition("begin_step", (), begin_step),
    Transition("supersede", ("K", "B"), supersede),
    Transition("publish", ("K", "B"), publish),
    Transition("close_step", (), close_step),
    Transition("rollback", ("X",), rollback),
    Transition("allocate", ("B", "R"), allocate),
    Transition("touch", ("B", "R", "K"), touch),
    Transition("attach", ("B", "R", "K"), attach),
    Transition("retain", ("B", "R"), retain),
    Transition("free", ("B", "R"), free),
    Transition("write", ("B", "R", "P", "G"), write),
    Transition("copy", ("B", "B", "R", "P"), copy),
    Transition("register", ("B", "R", "Int", "G", "Bool"), register),
    Transition("evict", ("B",), evict),
    Transition("move", ("B", "B"), move),
    Transition("reset", (), reset),
    Transition("append", ("R", "P", "Int"), append),
    Transition("truncate", ("R", "P", "Int"), truncate),
)

PARTS = (Transition("move_keys", ("B", "B"), move_keys),)
"""What is no transition, but part of one in immediate mode."""
