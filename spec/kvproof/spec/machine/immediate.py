"""Immediate mode: every operation of the pool stands between the beginning and the commit of a step of its own.

Its operations are compositions of the machine's transitions. Their guards are what the pool layer asks of its caller,
no more; `refused` in the state after them says whether one of the transitions was refused all the same. That this
never happens is proved in `facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kvproof.spec.machine.theory import State, Term, Theory
from kvproof.spec.machine.transitions import (
    PARTS,
    TRANSITIONS,
    Outcome,
    Run,
    Transition,
    is_due,
    is_open,
    is_overwritable,
    is_superseded,
)

Machine = Mapping[str, Run]
"""Every transition, and part of one, by name."""

Precondition = Callable[..., Term]
"""(theory, state, what the transition asks in a step that has just begun, its arguments) -> what the pool asks"""

IN_IMMEDIATE_MODE = "immediate "
"""How the names of the operations of immediate mode begin."""


def is_settled(t: Theory, s: State) -> Term:
    """No step is open, and every entry is committed and ready (STEP-IMMEDIATE-1)."""
    return t.all_of(
        s.done() == s.now(),
        t.every("K B", lambda k, b: t.implies(s.entry(k, b), t.all_of(s.committed(k, b), s.ready(k, b) <= s.done()))),
    )


def compositions(transitions: Collection[Transition], parts: Collection[Transition]) -> tuple[Transition, ...]:
    """The commit of a step, then the operations of immediate mode, made of these transitions and parts of them."""
    machine = {transition.name: transition.run for transition in (*transitions, *parts)}
    sorts = {transition.name: transition.sorts for transition in (*transitions, *parts)}
    return (
        Transition("commit", (), _commit(machine), composed=True),
        *(
            Transition(IN_IMMEDIATE_MODE + name, sorts[name], _in_its_own_step(machine, name, asked), composed=True)
            for name, asked in _ASKED.items()
        ),
        Transition(IN_IMMEDIATE_MODE + "register", sorts["register"], _register(machine), composed=True),
        # A request may write the destination here, so this one is made of more than what is proved already.
        Transition(IN_IMMEDIATE_MODE + "move", sorts["move_keys"], _in_its_own_step(machine, "move_keys", _the_same)),
    )


def _commit(machine: Machine) -> Run:
    """A step waits to be committed; `refused` says that there is nothing to drop, to publish or to close."""

    def run(t: Theory, s: State) -> Outcome:
        def can_drop(j: Term, k: Term, b: Term) -> Term:
            allowed, _ = machine["supersede"](t, s, k, b)
            return t.all_of(allowed, is_superseded(t, s, j, k, b))

        def can_publish(k: Term, b: Term) -> Term:
            allowed, _ = machine["publish"](t, s, k, b)
            return allowed

        def stuck() -> Term:
            closable, _ = machine["close_step"](t, s)
            return t.no(t.any_of(t.some("K K B", can_drop), t.some("K B", can_publish), closable))

        return is_open(t, s), s.but(refused=stuck)

    return run


def _in_its_own_step(machine: Machine, name: str, asked: Precondition) -> Run:
    """Begin a step, do the operation, close the step: for operations that leave nothing to be published."""

    def run(t: Theory, s: State, *arguments: Term) -> Outcome:
        _, opened = machine["begin_step"](t, s)
        allowed, changed = machine[name](t, opened, *arguments)
        closable, closed = machine["close_step"](t, changed)
        refused = t.no(t.all_of(allowed, closable))
        return t.all_of(is_settled(t, s), asked(t, s, allowed, *arguments)), closed.but(refused=lambda: refused)

    return run


def _register(machine: Machine) -> Run:
    """Begin a step, register, commit: the key is published if it came."""

    def run(t: Theory, s: State, b: Term, r: Term, n: Term, g: Term, replace: Term) -> Outcome:
        k = s.key(g, s.hash_at(r, n))
        _, opened = machine["begin_step"](t, s)
        allowed, registered = machine["register"](t, opened, b, r, n, g, replace)
        came = is_due(t, registered, k, b)
        droppable, dropped = machine["supersede"](t, registered, k, b)
        publishable, published = machine["publish"](t, dropped, k, b)
        committed = _either(t, came, published, registered)
        closable, closed = machine["close_step"](t, committed)
        done = t.all_of(t.implies(came, t.all_of(droppable, publishable)), closable)
        return t.all_of(is_settled(t, s), allowed), closed.but(refused=lambda: t.no(done))

    return run


def _either(t: Theory, condition: Term, u: State, v: State) -> State:
    """State u if the condition holds, else v."""

    def choose(f: Callable[..., Term], g: Callable[..., Term]) -> Callable[..., Term]:
        return lambda *arguments: t.where(condition, f(*arguments), g(*arguments))

    return State({name: choose(getattr(u, name), getattr(v, name)) for name in vars(v)})


def _the_same(t: Theory, s: State, allowed: Term, *arguments: Term) -> Term:
    return allowed


def _touch_asks(t: Theory, s: State, allowed: Term, b: Term, r: Term, k: Term) -> Term:
    """The block has the key, the holder not the block (POOL-TOUCH-2, POOL-HOLDER-1)."""
    return t.all_of(s.entry(k, b), t.no(s.holds(b, r)))


def _free_asks(t: Theory, s: State, allowed: Term, b: Term, r: Term) -> Term:
    """The holder has the block (POOL-FREE-4)."""
    return s.holds(b, r)


def _copy_asks(t: Theory, s: State, allowed: Term, a: Term, d: Term, r: Term, p: Term) -> Term:
    """The holder reads the source, or wrote it, and writes the other block (CONTENT-COPY-1, CONTENT-COPY-2)."""
    wrote = t.all_of(s.writes(a, r), p == s.content(a, s.now()), s.length(p) > 0)
    return t.all_of(a != d, s.holds(a, r), s.writes(d, r), is_overwritable(t, s, d), t.any_of(s.served(a, r, p), wrote))


_ASKED: dict[str, Precondition] = {
    "allocate": _the_same,
    "touch": _touch_asks,
    "free": _free_asks,
    "write": _the_same,
    "copy": _copy_asks,
    "evict": _the_same,
    "reset": _the_same,
    "append": _the_same,
    "truncate": _the_same,
}


COMPOSITIONS = compositions(TRANSITIONS, PARTS)
COMMIT, *IMMEDIATE = COMPOSITIONS
