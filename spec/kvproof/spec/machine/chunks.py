"""Where a prefill chunk ends: chapter 87 as a function of numbers, whatever the block sizes are."""

from __future__ import annotations

from kvproof.spec.machine.facts import Fact
from kvproof.spec.machine.invariants import Invariant
from kvproof.spec.machine.state import Signature
from kvproof.spec.machine.theory import State, Term, Theory
from kvproof.spec.machine.transitions import Outcome, Transition

SIGNATURE: Signature = {
    "block_size": ((), "Int"),  # B, the least common multiple of the recurrent groups' block sizes
    "hash_size": ((), "Int"),  # h
    "floor_block": (("Int",), "Int"),  # the greatest multiple of B that is at most n
    "floor_hash": (("Int",), "Int"),
    "has_recurrent": ((), "Bool"),
    "fine_grained": ((), "Bool"),
    "checkpoints": ((), "Bool"),
    "has_drop": ((), "Bool"),
    "lookahead": ((), "Int"),  # max(1, L)
    "tokens": ((), "Int"),  # T
    "prompt": ((), "Int"),  # P
    "junction": ((), "Int"),  # J
    "start": ((), "Int"),  # where the request is
}


def axioms(t: Theory, s: State) -> dict[str, Term]:
    """What rounding down is, and the ranges that configuration and lookup guarantee."""
    block, hashes = (s.floor_block, s.block_size()), (s.floor_hash, s.hash_size())

    def both(law: Term) -> Term:
        return t.all_of(law(*block), law(*hashes))

    return {
        "block sizes are positive, B is not below h": t.all_of(s.hash_size() > 0, s.block_size() >= s.hash_size()),
        "0 is a multiple": both(lambda floor, unit: floor(0) == 0),
        "rounding down goes less than a unit down": both(
            lambda floor, unit: t.every(
                "Int", lambda n: t.implies(n >= 0, t.all_of(floor(n) >= 0, floor(n) <= n, n < floor(n) + unit))
            )
        ),
        "between a multiple and the next one there is none": both(
            lambda floor, unit: t.every(
                "Int Int",
                lambda n, m: t.implies(t.all_of(n >= 0, floor(n) <= m, m < floor(n) + unit), floor(m) == floor(n)),
            )
        ),
        "B is a multiple of h": t.every(
            "Int", lambda n: t.implies(n >= 0, s.floor_hash(s.floor_block(n)) == s.floor_block(n))
        ),
        "a prompt is part of the tokens": t.all_of(s.prompt() >= 0, s.prompt() <= s.tokens()),
        "a junction is at most at the last token": t.all_of(s.junction() >= 0, s.junction() <= s.tokens()),
        "one token is ahead at least": s.lookahead() >= 1,
    }


def last_block_state(t: Theory, s: State) -> Term:
    """C(T, B)."""
    dropped = s.floor_block(s.tokens()) - s.block_size()
    return t.where(s.has_drop(), _not_negative(t, dropped), _before(t, s, s.tokens(), s.floor_block))


def last_hash_state(t: Theory, s: State) -> Term:
    """C(P, h)."""
    dropped = s.floor_hash(s.prompt()) - s.hash_size()
    return t.where(s.has_drop(), _not_negative(t, dropped), _before(t, s, s.prompt(), s.floor_hash))


def _before(t: Theory, s: State, n: Term, floor: Term) -> Term:
    return t.where(n < s.lookahead(), 0, floor(n - s.lookahead()))


def _not_negative(t: Theory, n: Term) -> Term:
    return t.where(n < 0, 0, n)


def decode(t: Theory, s: State) -> Term:
    """E: from here on a chunk is decode."""
    return t.where(s.prompt() < s.tokens(), s.tokens() - 1, s.prompt())


def next_block(s: State, n: Term) -> Term:
    """The least multiple of B above n."""
    return s.floor_block(n) + s.block_size()


def is_stop(t: Theory, s: State, c: Term) -> Term:
    """A chunk that begins at `start` and would pass c ends there (SPLIT-STOP-1 to SPLIT-STOP-4)."""
    mid_block = t.no(s.start() == s.floor_block(s.start()))
    hashes, block = last_hash_state(t, s), last_block_state(t, s)
    at_junction = t.where(
        t.all_of(s.checkpoints(), s.junction() <= s.prompt()), s.junction(), s.floor_block(s.junction())
    )
    return t.any_of(
        t.all_of(mid_block, c == next_block(s, s.start())),
        c == block,
        t.all_of(s.fine_grained(), block < hashes, hashes < s.prompt(), c == hashes),
        c == at_junction,
    )


def chunk(t: Theory, s: State, tokens: Term, cap: Term) -> Outcome:
    """The request goes on to where the chunk ends (SPLIT-*)."""
    start, end = s.start(), s.start() + tokens
    aligned = s.floor_block(end)
    waits = t.all_of(aligned <= start, next_block(s, start) <= start + cap)
    down = t.where(aligned > start, aligned, t.where(waits, start, end))
    wanted = t.where(end < decode(t, s), down, end)

    mid_block = t.no(start == s.floor_block(start))
    hashes, block = last_hash_state(t, s), last_block_state(t, s)
    junction = t.where(t.all_of(s.checkpoints(), s.junction() <= s.prompt()), s.junction(), s.floor_block(s.junction()))
    found = wanted
    for applies, c in (
        (mid_block, next_block(s, start)),
        (t.true(), block),
        (t.all_of(s.fine_grained(), block < hashes, hashes < s.prompt()), hashes),
        (t.true(), junction),
    ):
        found = t.where(t.all_of(applies, start < c, c < found), c, found)
    ends = t.where(t.all_of(s.has_recurrent(), start < decode(t, s)), found, end)
    in_range = t.all_of(start >= 0, start < s.tokens(), tokens >= 1, end <= s.tokens(), tokens <= cap)
    return in_range, s.but(start=lambda: ends)


TRANSITIONS = (Transition("split chunk", ("Int", "Int"), chunk),)


# What is proved


def initial(t: Theory, s: State) -> Term:
    """A request begins at its joint hit, before its last token."""
    return t.all_of(s.start() >= 0, s.start() < s.tokens())


def stays_in_its_tokens(t: Theory, s: State) -> Term:
    """A request is never past its tokens."""
    return t.all_of(s.start() >= 0, s.start() <= s.tokens())


INVARIANTS: dict[str, Invariant] = {"SPLIT-RANGE-1": stays_in_its_tokens}


def _ends_in_its_tokens(t: Theory, s: State, u: State, tokens: Term, cap: Term) -> Term:
    return t.all_of(s.start() <= u.start(), u.start() <= s.start() + tokens)


def _is_prefill(t: Theory, s: State) -> Term:
    return t.all_of(s.has_recurrent(), s.start() < decode(t, s))


def _full_offer_is_taken(t: Theory, s: State, u: State, tokens: Term, cap: Term) -> Term:
    left, block = s.tokens() - s.start(), next_block(s, s.start())
    in_reach = t.all_of(block <= s.start() + cap, s.start() + tokens < block, s.start() + tokens < decode(t, s))
    return t.all_of(
        t.implies(tokens == t.where(cap < left, cap, left), s.start() < u.start()),
        t.implies(u.start() == s.start(), t.all_of(_is_prefill(t, s), in_reach)),
    )


def _is_aligned(t: Theory, s: State, u: State, tokens: Term, cap: Term) -> Term:
    end = u.start()
    out_of_reach = t.all_of(end == s.start() + tokens, s.start() + cap < next_block(s, s.start()))
    early = t.all_of(_is_prefill(t, s), s.start() + tokens < decode(t, s), s.start() < end)
    return t.implies(early, t.any_of(end == s.floor_block(end), is_stop(t, s, end), out_of_reach))


def _no_stop_is_passed(t: Theory, s: State, u: State, tokens: Term, cap: Term) -> Term:
    passed = t.some("Int", lambda c: t.all_of(is_stop(t, s, c), s.start() < c, c < u.start()))
    return t.implies(_is_prefill(t, s), t.no(passed))


def _no_block_end_is_passed(t: Theory, s: State, u: State, tokens: Term, cap: Term) -> Term:
    inside = t.no(s.start() == s.floor_block(s.start()))
    return t.implies(t.all_of(_is_prefill(t, s), inside), u.start() <= next_block(s, s.start()))


def _passes_not(t: Theory, s: State, u: State, c: Term) -> Term:
    return t.implies(t.all_of(_is_prefill(t, s), s.start() < c), u.start() <= c)


def _block_state_is_kept(t: Theory, s: State, u: State, tokens: Term, cap: Term) -> Term:
    return _passes_not(t, s, u, last_block_state(t, s))


def _hash_state_is_kept(t: Theory, s: State, u: State, tokens: Term, cap: Term) -> Term:
    c = last_hash_state(t, s)
    wanted = t.all_of(s.fine_grained(), last_block_state(t, s) < c, c < s.prompt())
    return t.implies(wanted, _passes_not(t, s, u, c))


def _junction_is_kept(t: Theory, s: State, u: State, tokens: Term, cap: Term) -> Term:
    at_junction = t.all_of(s.checkpoints(), s.junction() <= s.prompt())
    return _passes_not(t, s, u, t.where(at_junction, s.junction(), s.floor_block(s.junction())))


def _decode_is_left_alone(t: Theory, s: State, u: State, tokens: Term, cap: Term) -> Term:
    return t.implies(s.start() >= decode(t, s), u.start() == s.start() + tokens)


def _all_is_left_alone(t: Theory, s: State, u: State, tokens: Term, cap: Term) -> Term:
    return t.implies(t.no(s.has_recurrent()), u.start() == s.start() + tokens)


FACTS = tuple(
    Fact(clause, "split chunk", sentence, statement)
    for clause, sentence, statement in (
        ("SPLIT-NONE-1", "Without recurrent groups a chunk ends where its tokens end.", _all_is_left_alone),
        ("SPLIT-DECODE-1", "A chunk of decode ends where its tokens end.", _decode_is_left_alone),
        ("SPLIT-RANGE-1", "A chunk ends from its start on up to where its tokens end.", _ends_in_its_tokens),
        (
            "SPLIT-ALIGN-1",
            "A chunk of prefill whose tokens end before E ends at a multiple of B, at a stop, or where its tokens end "
            "and the next multiple is never in reach.",
            _is_aligned,
        ),
        (
            "SPLIT-STOP-1",
            "A chunk of prefill that starts inside a block does not pass its end.",
            _no_block_end_is_passed,
        ),
        ("SPLIT-STOP-2", "No chunk of prefill passes C(T, B).", _block_state_is_kept),
        (
            "SPLIT-STOP-3",
            "With fine-grained hits no chunk of prefill passes C(P, h), if it is a stop.",
            _hash_state_is_kept,
        ),
        ("SPLIT-STOP-4", "No chunk of prefill passes the stop at the junction.", _junction_is_kept),
        ("SPLIT-EARLIEST-1", "No chunk of prefill passes any stop.", _no_stop_is_passed),
        (
            "SPLIT-PROGRESS-1",
            "A chunk that is offered all that its request could ever get is not empty; one that is empty waits for a "
            "multiple of B within reach of cap, and not of its tokens.",
            _full_offer_is_taken,
        ),
    )
)
