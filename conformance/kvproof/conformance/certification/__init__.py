"""Certification: a backend is driven beside the reference, and every difference is a finding under a clause.

`trace` reads and writes operations as JSON lines, `model` says what is expected of them, `lockstep` runs them on both
sides up to the first difference. `examine` does that stage by stage (`smoke`, vectors, `stages`, workloads); `findings`
makes few failures of many differences, with the help of `attribution` and `shrink`. `account` says what that means for
each clause: the `result`, from which `verdict`, `certificate`, `junit`, `html` and `show` are made.
"""
