"""The conformance suite: what drives an implementation, and what compares it with the specification.

`operations` is the language in which every driver speaks; `world` runs it on the reference; `preconditions` says which
operations are legal, judged from the observed state alone. `scope` and `explore` visit every state of a small pool,
`walk` visits a large one at random, `stateful` is the same as a hypothesis state machine. `cli` is the command line.
"""
