"""Mutants of chapter 60: evict, move, reset."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_INDEX = "kvproof.reference.index"
_REMOVAL = "kvproof.reference.removal"

_EVICT_EACH = "        for block in blocks:\n            self._drop_keys(block.block_id)\n"

_EVICT = (
    Mutant(
        name="blocks_in_use_are_not_evicted",
        clauses=("POOL-EVICT-1",),
        fault="F15",
        harm="After an adapter was reloaded the running requests' blocks still answer with the old weights' rows.",
        patch=Patch(
            _REMOVAL,
            _EVICT_EACH,
            "        for block in blocks:\n            if block.ref_cnt == 0:\n"
            "                self._drop_keys(block.block_id)\n",
        ),
    ),
    Mutant(
        name="repeated_eviction_is_refused",
        clauses=("POOL-EVICT-1",),
        fault="F15",
        harm="A caller that names a block for each of its keys cannot evict it.",
        patch=Patch(
            _REMOVAL,
            "        if any(block.is_null for block in blocks):\n",
            "        if any(block.is_null for block in blocks) or len(set(blocks)) < len(blocks):\n",
        ),
    ),
    Mutant(
        name="blocks_are_evicted_in_id_order",
        clauses=("POOL-EVICT-1", "EVENT-REMOVED-2"),
        fault="F13",
        harm="A consumer hears of the head of a prompt before its tail and drops the whole chain.",
        patch=Patch(
            _REMOVAL,
            _EVICT_EACH,
            "        for block in sorted(blocks, key=lambda block: block.block_id):\n"
            "            self._drop_keys(block.block_id)\n",
        ),
    ),
    Mutant(
        name="evicted_block_goes_first",
        clauses=("POOL-EVICT-2",),
        fault="F16",
        harm="The queue that an engine and its model keep in step drifts apart at the first eviction.",
        patch=Patch(
            _REMOVAL,
            _EVICT_EACH,
            _EVICT_EACH + "            if block.ref_cnt == 0:\n                self._free.remove(block.block_id)\n"
            "                self._free.prepend([block.block_id])\n",
        ),
    ),
    Mutant(
        name="eviction_ends_the_writer",
        clauses=("POOL-EVICT-2",),
        fault="F10",
        harm="A running request whose blocks were evicted can never cache them again.",
        patch=Patch(_REMOVAL, _EVICT_EACH, _EVICT_EACH + "            block.writer = None\n"),
    ),
)

_MOVE = (
    Mutant(
        name="moved_keys_have_no_slot",
        clauses=("POOL-MOVE-1",),
        fault="F07",
        harm="The block that took the keys over can be registered as any other part of the prompt.",
        patch=Patch(_REMOVAL, "        dst.group, dst.slot = src.group, src.slot\n", ""),
    ),
    Mutant(
        name="only_the_first_key_moves",
        clauses=("POOL-MOVE-1",),
        fault="F01",
        harm="Keys stay on a block that its producer is about to overwrite.",
        patch=Patch(
            _INDEX,
            "        ranks = self._keys_of.pop(src)\n",
            "        moved, *others = self._keys_of.pop(src).items()\n"
            "        self._keys_of.update({src: dict(others)} if others else {})\n        ranks = dict([moved])\n",
        ),
    ),
    Mutant(
        name="move_is_announced_as_removal",
        clauses=("POOL-MOVE-1",),
        fault="F13",
        harm="A router that counts copies forgets a prompt that only changed its block.",
        patch=Patch(
            _REMOVAL,
            "        self._index.move_keys(src_id, dst_id, self._steps.current)\n",
            "        for key in self._index.keys_of(src_id):\n"
            "            self._log.note_drop(key, src_id)\n"
            "        self._index.move_keys(src_id, dst_id, self._steps.current)\n",
        ),
    ),
    Mutant(
        name="moved_key_loses_its_rank",
        clauses=("POOL-MOVE-2",),
        fault="F05",
        harm="After the move lookups jump to a sibling, whose block nobody kept referenced.",
        patch=Patch(
            _INDEX,
            "            self._blocks_of[key][rank] = dst\n",
            "            del self._blocks_of[key][rank]\n                self._blocks_of[key][rank] = dst\n",
        ),
    ),
    Mutant(
        name="moved_keys_are_reversed",
        clauses=("POOL-MOVE-2",),
        fault="F13",
        harm="The keys of a moved block are announced as removed in another order than they were registered in.",
        patch=Patch(
            _INDEX,
            "        self._keys_of[dst] = ranks\n",
            "        self._keys_of[dst] = dict(reversed(ranks.items()))\n",
        ),
    ),
    Mutant(
        name="move_overwrites_keys",
        clauses=("POOL-MOVE-3",),
        fault="F01",
        harm="The keys of the target are lost from one index and stay in the other, naming rows that are gone.",
        patch=Patch(
            _REMOVAL,
            "        self._check_overwritable(dst)\n",
            "",
        ),
    ),
    Mutant(
        name="move_to_a_free_block",
        clauses=("POOL-MOVE-3",),
        fault="F03",
        harm="The state moves to a block that the next allocation takes.",
        patch=Patch(
            _REMOVAL,
            "        if dst.ref_cnt == 0:\n"
            '            raise NotReferenced(f"block {dst_id} is free; allocate it first")\n',
            "",
        ),
    ),
    Mutant(
        name="move_to_another_slot",
        clauses=("POOL-MOVE-3",),
        fault="F07",
        harm="A block that a table names as one part of the prompt gets the rows of another part.",
        patch=Patch(
            _REMOVAL,
            "        self._check_identity(dst, src.group, src.slot)\n",
            "",
        ),
    ),
    Mutant(
        name="moved_from_block_goes_first",
        clauses=("POOL-MOVE-4",),
        fault="F16",
        harm="The order of reuse depends on moves, and a replayed trace diverges.",
        patch=Patch(
            _REMOVAL,
            "        self._index.move_keys(src_id, dst_id, self._steps.current)\n",
            "        self._index.move_keys(src_id, dst_id, self._steps.current)\n"
            "        if src.ref_cnt == 0:\n"
            "            self._free.remove(src_id)\n"
            "            self._free.prepend([src_id])\n",
        ),
    ),
    Mutant(
        name="move_ends_the_source",
        clauses=("POOL-MOVE-4",),
        fault="F03",
        harm="The producer that goes on writing its own block has lost it.",
        patch=Patch(
            _REMOVAL,
            "        dst.group, dst.slot = src.group, src.slot\n",
            "        dst.group, dst.slot = src.group, src.slot\n        if src.writer is not None:\n"
            "            src.remove_holder(src.writer)\n"
            "            self._free.prepend([src_id] if src.ref_cnt == 0 else [])\n",
        ),
    ),
)

_RESET = (
    Mutant(
        name="reset_does_nothing",
        clauses=("POOL-RESET-1",),
        fault="F15",
        harm="After a weight update the old model's rows are served, and everybody was told that they are gone.",
        patch=Patch(_REMOVAL, "        self._index.clear()\n", ""),
    ),
    Mutant(
        name="null_block_counts_as_used",
        clauses=("POOL-RESET-1",),
        fault="F15",
        harm="No reset ever succeeds, not even on an idle engine.",
        patch=Patch(
            _REMOVAL,
            "in_use = self.config.num_blocks - 1 - len(self._free)",
            "in_use = self.config.num_blocks - len(self._free)",
        ),
    ),
    Mutant(
        name="reset_ignores_the_last_reader",
        clauses=("POOL-RESET-2",),
        fault="F15",
        harm="A reset passes while a request still reads, and publishes again, rows of the old weights.",
        patch=Patch(_REMOVAL, "if in_use > 0:", "if in_use > 1:"),
    ),
    Mutant(
        name="refused_reset_is_announced",
        clauses=("POOL-RESET-2", "ERR-ATOMIC-1"),
        fault="F15",
        harm="Routers forget a cache that is still full.",
        patch=Patch(
            _REMOVAL, "        if in_use > 0:\n", "        if in_use > 0:\n            self._log.note_clear()\n"
        ),
    ),
    Mutant(
        name="reset_sorts_the_queue",
        clauses=("POOL-RESET-3",),
        fault="F16",
        harm="Which block comes next depends on how often the cache was reset.",
        patch=Patch(
            _REMOVAL,
            "        self._index.clear()\n",
            "        self._index.clear()\n        self._free = type(self._free)(sorted(self._free))\n",
        ),
    ),
)

MUTANTS = (*_EVICT, *_MOVE, *_RESET)
