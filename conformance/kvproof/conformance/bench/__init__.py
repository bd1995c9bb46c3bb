"""`kvproof bench`: the native pool beside vLLM's, in one process, with answers compared one by one.

`sides` says what is measured, `speed`, `memory`, `calls` and `replay` are the measurements, `plan` says how much of
them; `worker` runs one of them in a process of its own, `run` all of them. `goals` judges, `show` and `page` show.
"""
