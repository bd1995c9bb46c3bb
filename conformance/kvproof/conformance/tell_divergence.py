"""A divergence in a few lines: the operation, and what differs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from rich.console import Console

from kvproof.conformance.backends.wire import PARTS
from kvproof.conformance.certification.failure import text_of
from kvproof.conformance.certification.lockstep import Difference, Divergence
from kvproof.conformance.operations import Lookup, Operation, describe
from kvproof.conformance.terminal import say

MOST_SHOWN = 300
"""Characters of an operation or a value; in a large pool they can have thousands."""

MOST_PLACES = 3
"""Places of a list that are shown where two lists differ."""


def say_divergence(console: Console, divergence: Divergence) -> None:
    """Say which operation parted the backend from the reference, and in what."""
    say(console, f"Divergence: at operation {len(divergence.operations):,}", "bold red")
    if divergence.operations[-1] == Lookup(()):
        say(console, "in the whole state, which is compared only now and then in so large a pool")
    say_differences(console, divergence.operations[-1], divergence.differences, "expected", "got")


def say_differences(
    console: Console, operation: Operation, differences: tuple[Difference, ...], expected: str, got: str
) -> None:
    """Say what differs after an operation, and whose is which."""
    say(console, short(describe(operation)))
    for difference in differences:
        for what, wanted, found in _places(difference):
            say(console, f"  {what}")
            say(console, f"    {expected}: {wanted}")
            say(console, f"    {got}: {found}")


def short(text: str) -> str:
    """A text, cut if it is long."""
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text):,} characters)"


def _places(difference: Difference) -> Iterator[tuple[str, str, str]]:
    """What differs, whole; of a part of the state that is a list, only the first places where it does."""
    wanted, found = difference.expected, difference.got
    if difference.what not in PARTS or not isinstance(wanted, tuple) or not isinstance(found, tuple):
        yield difference.what, _text(wanted), _text(found)
        return
    pairs = enumerate(zip_longest(wanted, found, fillvalue="nothing"))
    differing = [(place, one, other) for place, (one, other) in pairs if one != other]
    for place, one, other in differing[:MOST_PLACES]:
        yield f"{difference.what}[{place}]", _text(one), _text(other)
    if len(differing) > MOST_PLACES:
        more = f"{len(differing) - MOST_PLACES:,} more places differ"
        yield difference.what, more, more


def _text(value: object) -> str:
    return short(text_of(value).replace("\n", ", "))
