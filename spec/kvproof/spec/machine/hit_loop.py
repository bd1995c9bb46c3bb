"""Loops that find the joint hit: they ask one group after the other, in any order, until no answer is lower.

A group's answer to x is the greatest boundary up to x at which it is usable. A loop that keeps a group's first answer,
and cuts it instead of asking again, is right for groups that are usable at every boundary below one where they are.
"""

from __future__ import annotations

from kvproof.spec.machine.facts import Fact
from kvproof.spec.machine.invariants import Invariant
from kvproof.spec.machine.state import Signature
from kvproof.spec.machine.theory import State, Term, Theory
from kvproof.spec.machine.transitions import Outcome, Transition

SIGNATURE: Signature = {
    "is_boundary": (("Int",), "Bool"),
    "usable": (("G", "Int"), "Bool"),
    "answer": (("G", "Int"), "Int"),  # what a group finds up to a position
    "joint": ((), "Int"),  # the joint hit
    "most": ((), "Int"),  # T - 1
    "bound": ((), "Int"),  # what the loop has come down to
    "asked": (("G",), "Bool"),
    "first": (("G",), "Int"),  # what a group answered when it was asked first
    "more": (("G", "Int"), "Bool"),  # usable once everything reserved is committed
    "later": ((), "Int"),  # the joint hit then
    "attention": (("G",), "Bool"),  # full attention
    "alone": ((), "Int"),  # the joint hit of the full-attention groups
    "junction": ((), "Int"),  # what a match says, besides the hit
    "pending": ((), "Int"),
}


def axioms(t: Theory, s: State) -> dict[str, Term]:
    """What HIT-JOINT-1 declares, what a group's answer is, and what a boundary is; all greatest ones exist."""

    def declared(hit: Term, at: Term) -> Term:
        greatest = t.every("Int", lambda n: t.implies(t.all_of(_in_range(t, s, n), at(n)), n <= hit))
        return t.all_of(_in_range(t, s, hit), at(hit), greatest)

    def is_answer(g: Term, x: Term) -> Term:
        a = s.answer(g, x)
        return t.all_of(a >= 0, a <= x, s.is_boundary(a), s.usable(g, a))

    return {
        "0 is a boundary at which every group is usable": t.all_of(
            s.most() >= 0,
            s.is_boundary(0),
            t.every("G", lambda g: t.all_of(s.usable(g, 0), s.more(g, 0))),
        ),
        "the joint hit is the greatest boundary at which every group is usable": declared(
            s.joint(), lambda n: all_usable(t, s, n)
        ),
        "so it is once everything reserved is committed": declared(
            s.later(), lambda n: t.every("G", lambda g: s.more(g, n))
        ),
        "so it is of the full-attention groups alone": declared(
            s.alone(), lambda n: t.every("G", lambda g: t.implies(s.attention(g), s.usable(g, n)))
        ),
        "an answer is a boundary at which the group is usable": t.every(
            "G Int", lambda g, x: t.implies(x >= 0, is_answer(g, x))
        ),
        "an answer is the greatest one": t.every(
            "G Int Int",
            lambda g, x, n: t.implies(t.all_of(n >= 0, n <= x, s.is_boundary(n), s.usable(g, n)), n <= s.answer(g, x)),
        ),
    }


def _in_range(t: Theory, s: State, n: Term) -> Term:
    return t.all_of(n >= 0, n <= s.most(), s.is_boundary(n))


def all_usable(t: Theory, s: State, n: Term) -> Term:
    """Every group is usable at n."""
    return t.every("G", lambda g: s.usable(g, n))


def goes_down(t: Theory, s: State, g: Term) -> Term:
    """The group is usable at every boundary below one at which it is usable."""
    return t.every(
        "Int Int",
        lambda n, m: t.implies(
            t.all_of(s.usable(g, n), s.is_boundary(n), s.is_boundary(m), m >= 0, m <= n), s.usable(g, m)
        ),
    )


def initial(t: Theory, s: State) -> Term:
    """The loop begins at the greatest boundary up to T - 1, and has asked nobody."""
    above = t.every("Int", lambda n: t.implies(_in_range(t, s, n), n <= s.bound()))
    return t.all_of(_in_range(t, s, s.bound()), above, t.every("G", lambda g: t.no(s.asked(g))))


# Transitions


def ask(t: Theory, s: State, g: Term) -> Outcome:
    """A group is asked; the bound is its answer."""
    found = s.answer(g, s.bound())
    return t.true(), _answered(t, s, g, found)


def cut(t: Theory, s: State, g: Term) -> Outcome:
    """The first answer of a group that goes down is cut to the bound, instead of asking it again."""
    found = t.where(s.first(g) < s.bound(), s.first(g), s.bound())
    return t.all_of(s.asked(g), goes_down(t, s, g)), _answered(t, s, g, found)


def _answered(t: Theory, s: State, g: Term, found: Term) -> State:
    return s.but(
        bound=lambda: found,
        asked=lambda x: t.any_of(s.asked(x), x == g),
        first=lambda x: t.where(t.all_of(x == g, t.no(s.asked(x))), found, s.first(x)),
    )


def stop(t: Theory, s: State) -> Outcome:
    """No group has a lower answer: the match is made (HIT-JUNCTION-1, HIT-PENDING-1)."""
    there_is_one = t.some("G", lambda g: s.attention(g))
    found = t.where(t.all_of(there_is_one, s.alone() > s.bound()), s.alone(), 0)
    done = t.every("G", lambda g: s.answer(g, s.bound()) == s.bound())
    return done, s.but(junction=lambda: found, pending=lambda: s.later())


TRANSITIONS = (
    Transition("hit ask", ("G",), ask),
    Transition("hit cut", ("G",), cut),
    Transition("hit stop", (), stop),
)


# What is proved


def bound_is_not_below(t: Theory, s: State) -> Term:
    """The bound of the loop is a boundary up to T - 1, never below the joint hit and never above a first answer."""

    def remembered(g: Term) -> Term:
        return t.all_of(s.usable(g, s.first(g)), s.is_boundary(s.first(g)), s.bound() <= s.first(g))

    return t.all_of(
        _in_range(t, s, s.bound()),
        s.joint() <= s.bound(),
        t.every("G", lambda g: t.implies(s.asked(g), remembered(g))),
    )


INVARIANTS: dict[str, Invariant] = {"HIT-JOINT-1": bound_is_not_below}


def _comes_down(t: Theory, s: State, u: State, g: Term) -> Term:
    return t.where(s.usable(g, s.bound()), u.bound() == s.bound(), t.all_of(u.bound() < s.bound(), u.bound() >= 0))


def _is_the_answer(t: Theory, s: State, u: State, g: Term) -> Term:
    return u.bound() == s.answer(g, s.bound())


def _is_the_joint_hit(t: Theory, s: State, u: State) -> Term:
    return t.all_of(u.bound() == s.joint(), all_usable(t, s, u.bound()))


def _junction_facts(t: Theory, s: State, u: State) -> Term:
    j = u.junction()
    usable = t.every("G", lambda g: t.implies(s.attention(g), s.usable(g, j)))
    return t.all_of(
        t.any_of(j == 0, j > s.joint()),
        _in_range(t, s, j),
        usable,
        t.implies(t.no(t.some("G", lambda g: s.attention(g))), j == 0),
        t.implies(t.every("G", lambda g: s.attention(g)), j == 0),
        # so uncached = max(0, J - hit) is J - hit or 0
        t.where(j == 0, j - s.joint() <= 0, j - s.joint() > 0),
    )


def _pending_is_not_below(t: Theory, s: State, u: State) -> Term:
    keeps = t.every("G Int", lambda g, n: t.implies(s.usable(g, n), s.more(g, n)))
    return t.implies(keeps, u.bound() <= u.pending())


FACTS = (
    Fact(
        "HIT-JOINT-1",
        "hit ask",
        "Asking a group that is usable at the bound leaves it, asking another one lowers it.",
        _comes_down,
    ),
    Fact(
        "HIT-JOINT-1",
        "hit cut",
        "Of a group that is usable at all boundaries below one, the first answer, cut, is its answer.",
        _is_the_answer,
    ),
    Fact(
        "HIT-JOINT-1",
        "hit stop",
        "Where no group has a lower answer, whatever the order in which they were asked, the loop is at the joint hit.",
        _is_the_joint_hit,
    ),
    Fact(
        "HIT-JUNCTION-1",
        "hit stop",
        "The junction is 0 or above the joint hit, a boundary up to T - 1 at which all full-attention groups are "
        "usable, and 0 without such groups or with no others.",
        _junction_facts,
    ),
    Fact(
        "HIT-PENDING-1",
        "hit stop",
        "Where committing what is reserved takes no boundary from any group, pending is at least the joint hit.",
        _pending_is_not_below,
    ),
)
