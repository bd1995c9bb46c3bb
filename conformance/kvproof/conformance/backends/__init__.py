"""Backends: what is certified, and how it is reached.

`wire` has the values that cross the border to a backend, `interface` what a backend has to offer, `reference` offers it
for the reference, `messages` and `process` reach a backend that runs in a process of its own, `serve` makes such a
process of any backend in Python, `targets` finds a backend by the name that a user gives.
"""
