"""The proofs: z3 on the abstract machine. Needs the extra `proofs`; importing any other package does not load it."""
