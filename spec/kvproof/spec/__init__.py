"""The specification of the hybrid-model prefix cache.

`chapters/` holds the clauses, one numbered sentence each, with reasons and worked examples; `clauses` reads them.
`vocabulary`, `events` and `errors` are the words that the clauses use, as types: every implementation speaks them.
The package holds no behaviour: an oracle that shared code with its subject would prove nothing.
"""
