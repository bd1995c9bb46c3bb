"""The proofs: z3 on the abstract machine. Needs the extra `proofs`; nothing else of the project imports this package."""
