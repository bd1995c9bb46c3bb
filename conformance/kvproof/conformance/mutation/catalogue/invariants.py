"""Mutants of chapter 95: the checks of the invariants. A check that is switched off lets every later fault through."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_INVARIANTS = "kvproof.reference.invariants"

_UNSEEN = "The checks pass in a state in which "

_REFERENCES = (
    Mutant(
        name="leaked_block_is_not_seen",
        clauses=("INV-PARTITION-1",),
        fault="F04",
        harm=_UNSEEN + "a block is neither free nor referenced.",
        patch=Patch(_INVARIANTS, "_require(free == expected,", "_require(free <= expected,"),
    ),
    Mutant(
        name="queued_block_in_use_is_not_seen",
        clauses=("INV-PARTITION-1",),
        fault="F03",
        harm=_UNSEEN + "a block is free and in use at once.",
        patch=Patch(_INVARIANTS, "_require(free == expected,", "_require(free >= expected,"),
    ),
    Mutant(
        name="block_queued_twice_is_not_seen",
        clauses=("INV-QUEUE-1",),
        fault="F03",
        harm=_UNSEEN + "two requests will be given the same block.",
        patch=Patch(_INVARIANTS, "max(queued.values(), default=1) == 1", "max(queued.values(), default=1) >= 1"),
    ),
    Mutant(
        name="wrong_free_count_is_not_seen",
        clauses=("INV-QUEUE-2",),
        fault="F03",
        harm=_UNSEEN + "the pool says that it has another number of free blocks than it has.",
        patch=Patch(_INVARIANTS, "_require(len(state.free_queue) == pool.num_free,", "_require(pool.num_free >= 0,"),
    ),
    Mutant(
        name="wrong_order_of_the_queue_is_not_seen",
        clauses=("INV-LRU-1",),
        fault="F16",
        harm=_UNSEEN + "what was used last is evicted first.",
        patch=Patch(_INVARIANTS, "in_order = list(state.free_queue) == expected", "in_order = True"),
    ),
    Mutant(
        name="negative_count_is_not_seen",
        clauses=("INV-COUNT-1",),
        fault="F03",
        harm=_UNSEEN + "a block was released more often than it was held, in a pool without holder names.",
        patch=Patch(_INVARIANTS, "_require(block.ref_cnt >= 0,", "_require(isinstance(block.ref_cnt, int),"),
    ),
    Mutant(
        name="unowned_reference_is_not_seen",
        clauses=("INV-COUNT-1",),
        fault="F04",
        harm=_UNSEEN + "a block is referenced by nobody who could ever free it.",
        patch=Patch(
            _INVARIANTS,
            "counted = block.ref_cnt == len(block.holders)",
            "counted = block.ref_cnt >= len(block.holders)",
        ),
    ),
    Mutant(
        name="absent_writer_is_not_seen",
        clauses=("INV-WRITER-1",),
        fault="F03",
        harm=_UNSEEN + "a request that freed its block still writes it.",
        patch=Patch(_INVARIANTS, "holds = block.writer is None or any(", "holds = block.writer is not None or any("),
    ),
    Mutant(
        name="used_null_block_is_not_seen",
        clauses=("INV-NULL-1",),
        fault="F03",
        harm=_UNSEEN + "the null block has a key, a holder or a slot.",
        patch=Patch(_INVARIANTS, "    _check_null_block,\n    _check_index,\n", "    _check_index,\n"),
    ),
)

_INDEX = (
    Mutant(
        name="one_way_entry_is_not_seen",
        clauses=("INV-INDEX-1",),
        fault="F01",
        harm=_UNSEEN + "a key is found on a block that does not know of it.",
        patch=Patch(_INVARIANTS, "_require(forward == reverse,", "_require(forward <= reverse,"),
    ),
    Mutant(
        name="unfindable_entry_is_not_seen",
        clauses=("INV-INDEX-1",),
        fault="F10",
        harm=_UNSEEN + "a block has a key that no lookup finds.",
        patch=Patch(_INVARIANTS, "_require(forward == reverse,", "_require(forward >= reverse,"),
    ),
    Mutant(
        name="empty_row_is_not_seen",
        clauses=("INV-INDEX-2",),
        fault="F04",
        harm=_UNSEEN + "the index keeps a row for a key that no block has.",
        patch=Patch(_INVARIANTS, "len(blocks) == len(set(blocks)) > 0", "len(blocks) == len(set(blocks))"),
    ),
    Mutant(
        name="block_listed_twice_is_not_seen",
        clauses=("INV-INDEX-2",),
        fault="F05",
        harm=_UNSEEN + "a key has one block twice, and one of the two entries survives it.",
        patch=Patch(_INVARIANTS, "len(blocks) == len(set(blocks)) > 0", "len(blocks) > 0"),
    ),
    Mutant(
        name="second_position_is_not_seen",
        clauses=("INV-INDEX-3",),
        fault="F07",
        harm=_UNSEEN + "one key stands for prefixes of two lengths.",
        patch=Patch(_INVARIANTS, "_require(len(positions) == 1,", "_require(len(positions) >= 0,"),
    ),
    Mutant(
        name="key_without_a_slot_is_not_seen",
        clauses=("INV-SLOT-1",),
        fault="F07",
        harm=_UNSEEN + "a block has keys of another slot than its own.",
        patch=Patch(_INVARIANTS, " and slot_of(position, group.block_size) == block.slot\n", "\n"),
    ),
    Mutant(
        name="key_of_another_group_is_not_seen",
        clauses=("INV-SLOT-1",),
        fault="F07",
        harm=_UNSEEN + "a block of one group has the key of another group.",
        patch=Patch(_INVARIANTS, "inside = split_key(key)[0] == block.group and ", "inside = "),
    ),
    Mutant(
        name="two_keys_at_one_position_are_not_seen",
        clauses=("INV-CHAIN-1",),
        fault="F01",
        harm=_UNSEEN + "a block claims to hold two different texts.",
        patch=Patch(
            _INVARIANTS,
            "distinct = len(set(positions)) == len(positions)",
            "distinct = len(set(positions)) <= len(positions)",
        ),
    ),
    Mutant(
        name="key_beside_a_full_one_is_not_seen",
        clauses=("INV-FULL-1",),
        fault="F01",
        harm=_UNSEEN + "a retired partial key stands beside the full one.",
        patch=Patch(
            _INVARIANTS,
            " and not _has_company(block, group.block_size)\n",
            "\n",
        ),
    ),
    Mutant(
        name="second_recurrent_key_is_not_seen",
        clauses=("INV-FULL-1",),
        fault="F09",
        harm=_UNSEEN + "one state is served for two prefixes.",
        patch=Patch(
            _INVARIANTS,
            "single = group.kind is not GroupKind.RECURRENT and not",
            "single = not",
        ),
    ),
)

_CONTENT = (
    Mutant(
        name="wrong_content_is_not_seen",
        clauses=("INV-SOUND-1",),
        fault="F01",
        harm=_UNSEEN + "a lookup returns another prompt's rows.",
        patch=Patch(
            _INVARIANTS,
            '_require(content is None, "INV-SOUND-1", ',
            '_require(True, "INV-SOUND-1", ',
        ),
    ),
    Mutant(
        name="overwritten_reader_is_not_seen",
        clauses=("INV-SERVED-1",),
        fault="F01",
        harm=_UNSEEN + "what a reader was served has been overwritten.",
        patch=Patch(
            _INVARIANTS,
            '_require(content is None, "INV-SERVED-1", ',
            '_require(True, "INV-SERVED-1", ',
        ),
    ),
    Mutant(
        name="drifted_consumer_is_not_seen",
        clauses=("INV-EVENTS-1",),
        fault="F13",
        harm=_UNSEEN + "a router's view is not what the pool holds.",
        patch=Patch(_INVARIANTS, "_require(mirror.resident == resident,", "_require(mirror.resident <= resident,"),
    ),
    Mutant(
        name="copies_are_not_counted",
        clauses=("INV-EVENTS-2",),
        fault="F13",
        harm="With one event per copy, the checks demand a stream that announces only the first copy.",
        patch=Patch(
            _INVARIANTS,
            "{key: 1 if logical else count for",
            "{key: 1 for",
        ),
    ),
    Mutant(
        name="stale_hash_is_not_seen",
        clauses=("INV-HASHES-1",),
        fault="F01",
        harm=_UNSEEN + "a request carries the hash of tokens that it no longer has.",
        patch=Patch(
            _INVARIANTS,
            "request.hasher.extend(digest, request.tokens[i * h : (i + 1) * h], i * h, request.extra_keys)",
            "request.hashes[i]",
        ),
    ),
    Mutant(
        name="missing_hash_is_not_seen",
        clauses=("INV-HASHES-1",),
        fault="F10",
        harm=_UNSEEN + "a request has fewer hashes than its tokens give.",
        patch=Patch(
            _INVARIANTS, "_require(count == request.num_tokens // h,", "_require(count <= request.num_tokens // h,"
        ),
    ),
)

_TABLES = "kvproof.reference.hybrid.invariants"

_RUNNING = (
    Mutant(
        name="rows_of_another_slot_are_not_seen",
        clauses=("INV-RUN-2",),
        fault="F06",
        harm=_UNSEEN + "a block of a table holds what the request would not have computed.",
        patch=Patch(
            _TABLES, "if content is None or not content.fits(Prefix(request, end), group, config):", "if False:"
        ),
    ),
    Mutant(
        name="first_group_is_not_looked_at",
        clauses=("INV-RUN-1",),
        fault="F06",
        harm=_UNSEEN + "a table has no block where its request needs one.",
        patch=Patch(
            _TABLES, "enumerate(running.groups if n else ())", "list(enumerate(running.groups if n else ()))[1:]"
        ),
    ),
    Mutant(
        name="block_that_stands_twice_is_not_seen",
        clauses=("INV-RUN-4",),
        fault="F04",
        harm=_UNSEEN + "a table names a block twice, and another one is never freed.",
        patch=Patch(_TABLES, "if sorted(running.blocks()) != held:", "if len(running.blocks()) != len(held):"),
    ),
    Mutant(
        name="shared_blocks_count_as_not_held",
        clauses=("INV-RUN-3",),
        fault="F04",
        harm="The checks fail in a state in which a request reads what another one wrote.",
        patch=Patch(_TABLES, "if name in dict(block.holders)]", "if name == block.writer]"),
    ),
)

MUTANTS = (*_REFERENCES, *_INDEX, *_CONTENT, *_RUNNING)
