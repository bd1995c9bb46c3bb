"""The tie: a reason to believe that the proved machine is the running one.

`abstraction` reads a world of the reference as a state of the abstract machine, `folding` says which transitions of the
machine an operation of the pool is, `comparison` says when two states are the same, `lockstep` runs both sides and
compares whether they allow an operation and what it leaves behind.
"""
