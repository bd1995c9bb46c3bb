"""Contracts that crosshair confirms over all paths.

`arithmetic` states what the reference's pure functions on positions must satisfy, for all integers. `decisions` drives
one operation from a whole flat state, every part of it symbolic. `hybrid` states where chunks of a prefill end, and
what a group needs, for all numbers of tokens. The leading asserts of a function are its
preconditions, the others its postconditions. `planted` holds the same with a bug each, which crosshair must find.
`verdicts` runs crosshair and counts, since its exit code 0 also means "not confirmed".
"""
