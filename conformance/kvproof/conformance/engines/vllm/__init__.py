"""vLLM's block pool as a backend: `make vllm` builds its environment, `exec:python -m kvproof.conformance.engines.vllm`
is the target.
"""
