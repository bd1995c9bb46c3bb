"""Requests that run: their block tables over all groups, and how far they are after every step that is not forgotten.

Admission, going on, copy-on-write, going back and the end of a request are compositions: the pool's transitions, which
are taken over here unchanged, and between them those of this module, which say what becomes of a table. So everything
that is proved of the pool holds through them. Where a transition here writes blocks itself, that is proved anew.

What a request needs of a group to go on from n tokens are rows, or the state, `first_row` to n: all, those of a window,
or the last one.
"""

from __future__ import annotations

from collections.abc import Callable

from kvproof.spec.machine import axioms as of_the_pool
from kvproof.spec.machine import invariants as pool
from kvproof.spec.machine import state
from kvproof.spec.machine.facts import Fact
from kvproof.spec.machine.invariants import Invariant
from kvproof.spec.machine.state import Signature
from kvproof.spec.machine.theory import State, Term, Theory
from kvproof.spec.machine.transitions import (
    TRANSITIONS as OF_THE_POOL,
)
from kvproof.spec.machine.transitions import Outcome, Transition, copy, fits, is_open

SIGNATURE: Signature = {
    **state.SIGNATURE,
    "runs": (("R",), "Bool"),
    "position": (("R", "Int"), "Int"),  # where the request is computed after a step
    "chunked": (("R",), "Int"),  # the step of its last chunk
    "since": (("R", "G"), "Int"),  # from which step on its table has the state of a recurrent group
    "table": (("R", "G", "Int"), "B"),  # the block of the slot that starts there; the null block for none
    "at_group": (("B", "R"), "G"),  # where in the table a block stands
    "at_start": (("B", "R"), "Int"),
    "reads": (("B", "R"), "P"),  # what a block was touched or attached for
    "first_row": (("G", "Int"), "Int"),
}


def axioms(t: Theory, s: State) -> dict[str, Term]:
    """Those of the pool, and what groups need."""
    row = s.first_row
    return {
        **of_the_pool.axioms(t, s),
        "what is needed lies before the position": t.every(
            "G Int", lambda g, n: t.implies(n > 0, t.all_of(row(g, n) >= 0, row(g, n) < n))
        ),
        "who goes on needs nothing older": t.every(
            "G Int Int", lambda g, n, m: t.implies(t.all_of(n > 0, n <= m), row(g, n) <= row(g, m))
        ),
        "a recurrent group needs its last state": t.every(
            "G Int", lambda g, n: t.implies(t.all_of(s.recurrent(g), n > 0), row(g, n) == n - 1)
        ),
        "full attention needs all rows": t.every(
            "G Int", lambda g, n: t.implies(t.all_of(s.full_attention(g), n > 0), row(g, n) == 0)
        ),
    }


def block_of(s: State, r: Term, g: Term, m: Term) -> Term:
    """The block in the table that has, or is to have, the row or state of the m-th token."""
    return s.table(r, g, s.slot_start(g, m))


def is_tabled(t: Theory, s: State, b: Term, r: Term) -> Term:
    """The block stands in the request's table."""
    return t.all_of(b != s.null(), s.table(r, s.at_group(b, r), s.at_start(b, r)) == b)


def is_needed(t: Theory, s: State, g: Term, m: Term, n: Term) -> Term:
    """Going on from n tokens takes the row or state of the m-th one."""
    return t.all_of(n > 0, s.first_row(g, n) < m, m <= n)


def is_computed(t: Theory, s: State, r: Term, x: Term, n: Term) -> Term:
    """Prefix x of the request's text ends within its first n tokens."""
    return t.all_of(s.is_prefix(x, s.text(r)), s.length(x) > 0, s.length(x) <= n)


def is_kept(t: Theory, s: State, r: Term, g: Term, x: Term, i: Term) -> Term:
    """The table is to have the last row of prefix x, or the state after it, after step i, if it has a block there."""
    n = s.position(r, i)
    of_a_state = t.all_of(s.length(x) == n, s.since(r, g) <= i)
    known = t.all_of(s.runs(r), s.done() <= i, i <= s.now())
    return t.all_of(known, is_computed(t, s, r, x, n), t.implies(s.recurrent(g), of_a_state))


def _serves(t: Theory, s: State, r: Term, g: Term, b: Term, x: Term) -> Term:
    """The request reads a block of the slot in which x ends, with its last row, or the state after it."""
    p = s.reads(b, r)
    own_slot = t.all_of(s.group(b) == g, s.start(b) == s.slot_start(g, s.length(x)))
    return t.all_of(s.served(b, r, p), own_slot, t.where(s.recurrent(g), x == p, s.is_prefix(x, p)))


def _has_state(t: Theory, s: State) -> Term:
    return t.some("G", lambda g: s.recurrent(g))


def _no_table(t: Theory, s: State, r: Term) -> Term:
    return t.every("G Int", lambda g, x: s.table(r, g, x) == s.null())


# The transitions of the pool, with what is asked of a request that runs


def _free(t: Theory, s: State, b: Term, r: Term) -> Term:
    return t.no(is_tabled(t, s, b, r))


def _write(t: Theory, s: State, b: Term, r: Term, p: Term, g: Term) -> Term:
    return t.no(t.all_of(s.runs(r), is_tabled(t, s, b, r)))


def _copy(t: Theory, s: State, a: Term, d: Term, r: Term, p: Term) -> Term:
    return t.no(t.all_of(s.runs(r), is_tabled(t, s, d, r)))


def _truncate(t: Theory, s: State, r: Term, p: Term, n: Term) -> Term:
    def inside(i: Term) -> Term:
        return t.implies(t.all_of(s.done() <= i, i <= s.now()), s.position(r, i) <= s.length(p))

    return t.implies(s.runs(r), t.every("Int", inside))


def _nothing(t: Theory, s: State, *_: Term) -> Term:
    return t.true()


ASKED: dict[str, Callable[..., Term]] = {"free": _free, "write": _write, "copy": _copy, "truncate": _truncate}
"""What is asked of requests that run, besides what the pool asks."""


def _begin_step(t: Theory, s: State, u: State) -> State:
    return u.but(position=lambda r, i: t.where(i == u.now(), s.position(r, s.now()), s.position(r, i)))


def _rollback(t: Theory, s: State, u: State, chosen: Callable[[Term], Term]) -> State:
    """Requests with a chunk that is not settled go back to where they are, or run no more (BACK-ROLLBACK-1)."""

    def unsettled(r: Term) -> Term:
        late = t.some("G", lambda g: t.all_of(s.recurrent(g), s.since(r, g) > s.done()))
        return t.all_of(chosen(r), t.any_of(s.position(r, s.now()) != s.position(r, s.done()), late))

    def ends(r: Term) -> Term:
        return t.all_of(unsettled(r), t.any_of(s.position(r, s.done()) == 0, _has_state(t, s)))

    return u.but(
        runs=lambda r: t.all_of(s.runs(r), t.no(ends(r))),
        position=lambda r, i: t.where(unsettled(r), s.position(r, s.done()), s.position(r, i)),
        chunked=lambda r: t.where(unsettled(r), 0, s.chunked(r)),
    )


def _read(t: Theory, s: State, u: State, b: Term, r: Term, k: Term) -> State:
    return u.but(reads=lambda c, q: t.where(t.all_of(c == b, q == r), s.key_prefix(k), s.reads(c, q)))


def _unchanged(t: Theory, s: State, u: State, *_: Term) -> State:
    return u


CHANGED: dict[str, Callable[..., State]] = {
    "begin_step": _begin_step,
    "rollback": _rollback,
    "touch": _read,
    "attach": _read,
}
"""What becomes of requests that run."""


def _taken_over(transition: Transition) -> Transition:
    asked, changed = ASKED.get(transition.name, _nothing), CHANGED.get(transition.name, _unchanged)

    def run(t: Theory, s: State, *arguments: Term) -> Outcome:
        guard, after = transition.run(t, s, *arguments)
        return t.all_of(guard, asked(t, s, *arguments)), changed(t, s, after, *arguments)

    return Transition(f"run {transition.name}", transition.sorts, run)


# Tables


def enter(t: Theory, s: State, r: Term, g: Term, x: Term, b: Term) -> Outcome:
    """A block that the request holds takes an empty slot of its table."""
    allowed = t.all_of(
        b != s.null(),
        s.holds(b, r),
        t.no(is_tabled(t, s, b, r)),
        s.table(r, g, x) == s.null(),
        t.implies(s.runs(r), x >= s.position(r, s.now())),
    )
    return allowed, _with_entry(t, s, r, g, x, b)


def _with_entry(t: Theory, s: State, r: Term, g: Term, x: Term, b: Term) -> State:
    def here(q: Term, h: Term, y: Term) -> Term:
        return t.all_of(q == r, h == g, y == x)

    return s.but(
        table=lambda q, h, y: t.where(here(q, h, y), b, s.table(q, h, y)),
        at_group=lambda c, q: t.where(t.all_of(c == b, q == r), g, s.at_group(c, q)),
        at_start=lambda c, q: t.where(t.all_of(c == b, q == r), x, s.at_start(c, q)),
    )


def let_go(t: Theory, s: State, r: Term, g: Term, x: Term) -> Outcome:
    """A slot gets empty that is not needed at the settled position, or lies beyond (ADVANCE-LETGO-1, BACK-SLOTS-1)."""
    settled = s.position(r, s.done())
    before = t.all_of(settled > 0, x + s.block_size(g) <= s.first_row(g, settled))
    allowed = t.any_of(t.no(s.runs(r)), before, s.position(r, s.now()) <= x)
    return allowed, s.but(table=lambda q, h, y: t.where(t.all_of(q == r, h == g, y == x), s.null(), s.table(q, h, y)))


def admit(t: Theory, s: State, r: Term, n: Term) -> Outcome:
    """A request begins at its hit, n: its table has what it shares, and its private copies (ADMIT-*)."""

    def has(g: Term, x: Term) -> Term:
        b = block_of(s, r, g, s.length(x))
        private = t.all_of(s.writes(b, r), fits(t, s, g, x, b, s.now()))
        return t.implies(b != s.null(), t.any_of(_serves(t, s, r, g, b, x), private))

    def is_there(g: Term, x: Term) -> Term:
        state = t.implies(s.recurrent(g), s.length(x) == n)
        return t.implies(t.all_of(is_computed(t, s, r, x, n), state), has(g, x))

    begins = t.all_of(is_open(t, s), s.is_request(r), t.no(s.runs(r)), n >= 0, n <= s.length(s.text(r)))
    return t.all_of(begins, _can_go_on(t, s, r, n), t.every("G P", is_there)), s.but(
        runs=lambda q: t.any_of(s.runs(q), q == r),
        position=lambda q, i: t.where(q == r, t.where(i == s.now(), n, 0), s.position(q, i)),
        chunked=lambda q: t.where(q == r, 0, s.chunked(q)),
        since=lambda q, g: t.where(q == r, 0, s.since(q, g)),
    )


def compute(t: Theory, s: State, r: Term, end: Term) -> Outcome:
    """The forward pass of a chunk writes its rows, and the states at its end, into the table (ADVANCE-WRITE-1)."""
    start, now = s.position(r, s.now()), s.now()

    def last_row(b: Term) -> Term:
        stop = s.at_start(b, r) + s.block_size(s.at_group(b, r))
        return t.where(end < stop, end, stop)

    def text_of(b: Term) -> Term:
        return s.first(s.text(r), last_row(b))

    def is_written(b: Term) -> Term:
        g, x = s.at_group(b, r), s.at_start(b, r)
        touched = t.all_of(x < end, x + s.block_size(g) > start)
        return t.all_of(is_tabled(t, s, b, r), touched, t.implies(s.recurrent(g), end <= x + s.block_size(g)))

    def may_write(b: Term) -> Term:
        g, p = s.at_group(b, r), text_of(b)
        keys_kept = t.every(
            "K", lambda k: t.implies(s.entry(k, b), t.all_of(t.no(s.recurrent(g)), s.is_prefix(s.key_prefix(k), p)))
        )
        readers_kept = t.every(
            "R P",
            lambda q, x: t.implies(
                t.all_of(q != r, s.served(b, q, x)), t.all_of(t.no(s.recurrent(g)), s.is_prefix(x, p))
            ),
        )
        own_slot = t.implies(s.placed(b), t.all_of(s.group(b) == g, s.start(b) == s.at_start(b, r)))
        return t.all_of(s.writes(b, r), own_slot, keys_kept, readers_kept)

    def has_room(g: Term, m: Term) -> Term:
        chunk = t.all_of(start < m, m <= end, t.implies(s.recurrent(g), m == end))
        return t.implies(chunk, block_of(s, r, g, m) != s.null())

    allowed = t.all_of(
        is_open(t, s),
        s.runs(r),
        s.chunked(r) < now,
        start < end,
        end <= s.length(s.text(r)),
        t.every("G Int", has_room),
        t.every("B", lambda b: t.implies(is_written(b), may_write(b))),
    )

    def now_written(b: Term, i: Term) -> Term:
        return t.all_of(i == now, is_written(b))

    return allowed, s.but(
        content=lambda b, i: t.where(now_written(b, i), text_of(b), s.content(b, i)),
        content_group=lambda b, i: t.where(now_written(b, i), s.at_group(b, r), s.content_group(b, i)),
        position=lambda q, i: t.where(t.all_of(q == r, i == now), end, s.position(q, i)),
        chunked=lambda q: t.where(q == r, now, s.chunked(q)),
    )


def go_back(t: Theory, s: State, r: Term, n: Term) -> Outcome:
    """A settled request is computed up to n only, where its table still has what it needs (BACK-TRUNCATE-1)."""
    settled = s.position(r, s.done()) == s.position(r, s.now())
    allowed = t.all_of(
        s.runs(r), settled, t.no(_has_state(t, s)), n > 0, n <= s.position(r, s.now()), _can_go_on(t, s, r, n)
    )
    return allowed, s.but(
        position=lambda q, i: t.where(q == r, n, s.position(q, i)), chunked=lambda q: t.where(q == r, 0, s.chunked(q))
    )


def _can_go_on(t: Theory, s: State, r: Term, n: Term) -> Term:
    return t.every("G Int", lambda g, m: t.implies(is_needed(t, s, g, m, n), block_of(s, r, g, m) != s.null()))


def make_private(t: Theory, s: State, r: Term, g: Term, x: Term, d: Term, p: Term, c: Term) -> Outcome:
    """A copy takes the place of the slot's block, as the last step left it (ADVANCE-COPY-1, BACK-CUT-1, BACK-CUT-2).

    A request without states has no more than c settled until the step of the copy is committed.
    """
    a, last = s.table(r, g, x), s.now() - 1
    copied, after = copy(t, s, a, d, r, p)
    same = t.all_of(
        s.content(a, s.now()) == s.content(a, last), s.content_group(a, s.now()) == s.content_group(a, last)
    )
    untouched = t.all_of(s.chunked(r) < s.now(), t.implies(s.writes(a, r), same))
    settled = t.all_of(c >= 0, c <= x, c <= s.position(r, s.done()), _can_go_on(t, s, r, c), t.no(_has_state(t, s)))

    def is_copied(y: Term) -> Term:
        n, m = s.position(r, s.now()), s.length(y)
        there = t.all_of(is_computed(t, s, r, y, n), s.slot_start(g, m) == x)
        return t.implies(there, t.where(s.recurrent(g), t.implies(m == n, y == p), s.is_prefix(y, p)))

    allowed = t.all_of(
        copied,
        s.runs(r),
        a != s.null(),
        t.no(is_tabled(t, s, d, r)),
        untouched,
        t.every("P", is_copied),
        t.implies(t.no(s.recurrent(g)), settled),
    )

    def is_settled_less(q: Term, i: Term) -> Term:
        return t.all_of(q == r, i < s.now(), t.no(s.recurrent(g)), c < s.position(q, i))

    return allowed, _with_entry(t, after, r, g, x, d).but(
        since=lambda q, h: t.where(t.all_of(q == r, h == g), s.now(), s.since(q, h)),
        position=lambda q, i: t.where(is_settled_less(q, i), c, s.position(q, i)),
    )


def release(t: Theory, s: State, r: Term) -> Outcome:
    """The request runs no more, and its table is empty (RELEASE-1)."""
    return t.true(), s.but(
        runs=lambda q: t.all_of(s.runs(q), q != r),
        table=lambda q, g, x: t.where(q == r, s.null(), s.table(q, g, x)),
    )


OWN = (
    Transition("run enter", ("R", "G", "Int", "B"), enter),
    Transition("run let_go", ("R", "G", "Int"), let_go),
    Transition("run admit", ("R", "Int"), admit),
    Transition("run compute", ("R", "Int"), compute),
    Transition("run go_back", ("R", "Int"), go_back),
    Transition("run make_private", ("R", "G", "Int", "B", "P", "Int"), make_private),
    Transition("run release", ("R",), release),
)

TRANSITIONS = (*map(_taken_over, OF_THE_POOL), *OWN)

REWRITTEN = frozenset({"run compute", "run make_private"})
"""What writes blocks, as no transition of the pool does."""


# What is proved


def initial(t: Theory, s: State) -> Term:
    """A new pool, in which nothing runs."""
    return t.all_of(pool.initial(t, s), t.every("R", lambda r: t.all_of(t.no(s.runs(r)), _no_table(t, s, r))))


def tables_are_complete(t: Theory, s: State) -> Term:
    """After every step not forgotten a request has a block in each slot that it needs to go on from where it was."""

    def needed(r: Term, g: Term, m: Term, i: Term) -> Term:
        known = t.all_of(s.runs(r), s.done() <= i, i <= s.now(), t.implies(s.recurrent(g), s.since(r, g) <= i))
        return t.all_of(known, is_needed(t, s, g, m, s.position(r, i)))

    return t.every("R G Int Int", lambda r, g, m, i: t.implies(needed(r, g, m, i), block_of(s, r, g, m) != s.null()))


def own_rows_stay(t: Theory, s: State) -> Term:
    """What a request wrote into its table is there after every step not forgotten, up to where it was then."""

    def stays(r: Term, g: Term, x: Term, i: Term) -> Term:
        b = block_of(s, r, g, s.length(x))
        return t.implies(t.all_of(b != s.null(), s.writes(b, r)), t.all_of(s.born(b) <= i, fits(t, s, g, x, b, i)))

    return t.every("R G P Int", lambda r, g, x, i: t.implies(is_kept(t, s, r, g, x, i), stays(r, g, x, i)))


def other_rows_are_read(t: Theory, s: State) -> Term:
    """What a request did not write into its table, it was served by that step, and still reads it there."""

    def reads(r: Term, g: Term, x: Term, i: Term) -> Term:
        b = block_of(s, r, g, s.length(x))
        served = t.all_of(s.attached(b, r) <= i, _serves(t, s, r, g, b, x))
        return t.implies(t.all_of(b != s.null(), t.no(s.writes(b, r))), served)

    return t.every("R G P Int", lambda r, g, x, i: t.implies(is_kept(t, s, r, g, x, i), reads(r, g, x, i)))


def tables_are_held(t: Theory, s: State) -> Term:
    """A request holds each block of its table, which stands there once; it is never behind an earlier step."""

    def listed(r: Term, g: Term, x: Term) -> Term:
        b = s.table(r, g, x)
        return t.all_of(s.holds(b, r), s.at_group(b, r) == g, s.at_start(b, r) == x)

    def in_order(r: Term, i: Term, j: Term) -> Term:
        known = t.all_of(s.runs(r), s.done() <= i, i <= j, j <= s.now())
        bounded = t.all_of(s.position(r, i) >= 0, s.position(r, j) <= s.length(s.text(r)))
        return t.implies(known, t.all_of(s.position(r, i) <= s.position(r, j), bounded))

    def begun(r: Term) -> Term:
        steps = t.every("G", lambda g: s.since(r, g) <= s.now())
        return t.implies(s.runs(r), t.all_of(s.is_request(r), s.chunked(r) <= s.now(), steps))

    return t.all_of(
        t.every("R G Int", lambda r, g, x: t.implies(s.table(r, g, x) != s.null(), listed(r, g, x))),
        t.every("R Int Int", in_order),
        t.every("R", begun),
    )


INVARIANTS: dict[str, Invariant] = {
    "INV-RUN-1": tables_are_complete,
    "INV-RUN-2": own_rows_stay,
    "INV-RUN-3": other_rows_are_read,
    "INV-RUN-4": tables_are_held,
}


def _has_what_it_needs(t: Theory, s: State, r: Term, i: Term) -> Term:
    """All rows and states to go on from where the request was after step i are in the blocks, after that step."""

    def there(g: Term, x: Term) -> Term:
        b = block_of(s, r, g, s.length(x))
        needed = t.all_of(is_kept(t, s, r, g, x, i), is_needed(t, s, g, s.length(x), s.position(r, i)))
        return t.implies(needed, t.all_of(b != s.null(), fits(t, s, g, x, b, i)))

    return t.every("G P", there)


def _nothing_needed_goes(t: Theory, s: State, u: State, r: Term, g: Term, x: Term) -> Term:
    return t.every("R Int", lambda q, i: _has_what_it_needs(t, u, q, i))


def _begins_with_what_it_needs(t: Theory, s: State, u: State, r: Term, end: Term) -> Term:
    """States are read at the start of the step: as the last one left them, if the table had them then."""
    n, last = s.position(r, s.now()), s.now() - 1

    def as_it_was(g: Term, x: Term) -> Term:
        b = block_of(s, r, g, s.length(x))
        known = t.all_of(s.recurrent(g), s.position(r, last) == n, s.since(r, g) <= last)
        state = t.all_of(is_computed(t, s, r, x, n), s.length(x) == n)
        return t.implies(t.all_of(known, state), t.all_of(b != s.null(), s.content(b, last) == x))

    return t.every("G P", as_it_was)


def _ends_with_its_state(t: Theory, s: State, u: State, r: Term, end: Term) -> Term:
    def state(g: Term) -> Term:
        b = block_of(u, r, g, end)
        exactly = u.content(b, u.now()) == u.first(u.text(r), end)
        return t.implies(s.recurrent(g), t.all_of(b != s.null(), u.writes(b, r), exactly))

    return t.every("G", state)


def _loses_nothing_settled(t: Theory, s: State, u: State, chosen: Callable[[Term], Term]) -> Term:
    def back(r: Term) -> Term:
        settled, before, after = s.position(r, s.done()), s.position(r, s.now()), u.position(r, u.now())
        stays = t.all_of(u.runs(r), after == before, t.any_of(t.no(chosen(r)), before == settled))
        returns = t.all_of(u.runs(r), chosen(r), after == settled, settled > 0, t.no(_has_state(t, s)))
        ends = t.all_of(t.no(u.runs(r)), chosen(r), t.any_of(settled == 0, _has_state(t, s)))
        return t.implies(s.runs(r), t.any_of(stays, returns, ends))

    def keeps_its_table(r: Term, g: Term, x: Term) -> Term:
        return u.table(r, g, x) == s.table(r, g, x)

    return t.all_of(t.every("R", back), t.every("R G Int", keeps_its_table))


FACTS = (
    Fact(
        "ADVANCE-WRITE-1",
        "run compute",
        "The state that a chunk begins with is in its table as the last step left it.",
        _begins_with_what_it_needs,
    ),
    Fact(
        "ADVANCE-STATE-1",
        "run compute",
        "After a chunk that ends at n, a block that the request writes holds the state after exactly n tokens.",
        _ends_with_its_state,
    ),
    Fact(
        "ADVANCE-LETGO-1",
        "run let_go",
        "Whatever a request lets go, all rows and states that it needs to go on from where it is settled, and from "
        "where it was after each open step, are in its tables.",
        _nothing_needed_goes,
    ),
    Fact(
        "BACK-ROLLBACK-1",
        "run rollback",
        "Who is rolled back with a chunk that is not settled goes back to where it is settled, or runs no more if that "
        "is 0 or a group is recurrent; all others stay where they are, and tables as they are.",
        _loses_nothing_settled,
    ),
)
