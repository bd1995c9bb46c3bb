"""Mutation testing: does the suite notice when reference, backend or a check is wrong?

`catalogue` holds the named mutants, each of which breaks clauses of the specification in the way of a publicly
reported bug; `statements` draws anonymous ones, a deleted statement or a negated condition, at random. `patch` applies
a mutant to a module that is about to be imported, `layers` are the parts of the suite that may notice, `run` and `one`
give each mutant a process of its own, `report` writes the pages.

Nothing here imports `kvproof.reference` or `kvproof.gpu_backend` before a mutant is in place.
"""
