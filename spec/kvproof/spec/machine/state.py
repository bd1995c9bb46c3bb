"""What the abstract machine knows: its sorts and its functions.

Sorts: B blocks, K keys, P prefixes (token sequences with their extra keys), R holders (requests and copies), G groups,
D digests, and integers. Nothing says how many of each there are.
"""

from __future__ import annotations

Signature = dict[str, tuple[tuple[str, ...], str]]
"""name -> (sorts of the arguments, sort of the value)"""

RIGID: Signature = {
    # prefixes
    "is_prefix": (("P", "P"), "Bool"),
    "length": (("P",), "Int"),
    "empty": ((), "P"),
    "common": (("P", "P"), "P"),  # the longest common prefix
    "first": (("P", "Int"), "P"),  # the first n tokens
    # hashes and keys
    "digest": (("P",), "D"),
    "key": (("G", "D"), "K"),
    "key_group": (("K",), "G"),
    "key_prefix": (("K",), "P"),  # what a key names; that it exists is the injectivity of the hash
    # groups and slots
    "recurrent": (("G",), "Bool"),
    "full_attention": (("G",), "Bool"),
    "block_size": (("G",), "Int"),
    "slot_start": (("G", "Int"), "Int"),  # where the slot starts in which a position ends
    # holders and the null block
    "is_request": (("R",), "Bool"),
    "null": ((), "B"),
}

REFERENCES: Signature = {
    "ref_cnt": (("B",), "Int"),
    "holds": (("B", "R"), "Bool"),
    "holder_index": (("B", "R"), "Int"),  # ghost: numbers the holders of a block 0 .. ref_cnt - 1,
    "holder_at": (("B", "Int"), "R"),  # and back, which makes ref_cnt their true number
    "writes": (("B", "R"), "Bool"),
    "is_free": (("B",), "Bool"),
    "place": (("B",), "Int"),  # position of a free block in the queue, between front and back
    "front": ((), "Int"),
    "back": ((), "Int"),
    "kept_keys": (("B",), "Bool"),  # ghost: whether the block had a key when it was released,
    "released_at": (("B",), "Int"),  # and when
    "clock": ((), "Int"),
    "placed": (("B",), "Bool"),  # whether the block has a group and a slot
    "group": (("B",), "G"),
    "start": (("B",), "Int"),
}

INDEX: Signature = {
    "entry": (("K", "B"), "Bool"),  # forward index
    "listed": (("B", "K"), "Bool"),  # reverse index
    "rank": (("K", "B"), "Int"),
    "next_rank": ((), "Int"),
}

STEPS: Signature = {
    "now": ((), "Int"),  # the step being built
    "done": ((), "Int"),  # the last committed step
    "committed": (("K", "B"), "Bool"),
    "ready": (("K", "B"), "Int"),
    "owner": (("K", "B"), "R"),  # who reserved the entry
    "depends": (("R", "R"), "Int"),  # reader, writer -> the latest step whose reserved key was attached, 0 for none
}

REQUESTS: Signature = {
    "text": (("R",), "P"),
    "hashed": (("R",), "Int"),
    "hash_at": (("R", "Int"), "D"),
}

GHOST: Signature = {
    "content": (("B", "Int"), "P"),  # what the block holds after a step
    "content_group": (("B", "Int"), "G"),  # for which group it was written
    "filled": (("B",), "Int"),  # the step of the last copy or move to the block
    "born": (("B",), "Int"),  # the step in which the block was allocated last
    "served": (("B", "R", "P"), "Bool"),  # the holder reads this prefix from the block
    "attached": (("B", "R"), "Int"),  # the step of the reserved key that it attached, 0 if it touched or allocated
}

CONSUMER: Signature = {
    "resident": (("K",), "Bool"),  # logical residency: what a consumer believes
    "believed_copies": (("K",), "Int"),  # one event per copy: how many a consumer counts
    "copies": (("K",), "Int"),  # how many blocks have the key committed, by a numbering
    "copy_index": (("K", "B"), "Int"),
    "copy_at": (("K", "Int"), "B"),
    "removed_absent": ((), "Bool"),  # a Removed event named a key that was not resident
    "stored_resident": ((), "Bool"),  # a Stored event named a key that was resident
    "stored_orphan": ((), "Bool"),  # a Stored event named a parent that was not resident
}

SIGNATURE: Signature = {**RIGID, **REFERENCES, **INDEX, **STEPS, **REQUESTS, **GHOST, **CONSUMER}
