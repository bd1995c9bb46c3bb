"""Workloads: recorded requests, replayed as full-attention requests of an engine.

`arrivals` reads them, `traffic` makes operations of them, `play` runs those on a backend beside the reference,
`stage` is the fixed part of a certification. `data` has the workloads that are shipped, with their sources.
"""
