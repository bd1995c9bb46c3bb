"""The abstract machine: the clauses as functions over a small theory, run by z3 and by Python alike.

`theory` says what a transition may use, `state` what the machine knows, `axioms` what is assumed of prefixes, hashes
and slots, `transitions` what can happen, `immediate` what is left of it in a pool without steps. What is proved:
`invariants` of every reachable state, `facts` of single transitions.
"""
