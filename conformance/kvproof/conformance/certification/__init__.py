"""Certification: a backend is driven beside the reference, and every difference is a finding under a clause.

`trace` reads and writes operations as JSON lines, `lockstep` runs them on both sides.
"""
