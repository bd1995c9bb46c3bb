"""Mutants of chapter 40: the index and lookup."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_INDEX = "kvproof.reference.index"
_LOOKUP = "kvproof.reference.lookup"

MUTANTS = (
    Mutant(
        name="empty_rows_stay",
        clauses=("INDEX-TWOWAY-1",),
        fault="F04",
        harm="The map of keys grows with every prompt ever seen, until the process is out of memory.",
        patch=Patch(
            _INDEX,
            "            del self._block_of[key], self._position_of[key]\n",
            "            del self._block_of[key]\n",
        ),
    ),
    Mutant(
        name="entry_is_removed_by_the_wrong_number",
        clauses=("INDEX-TWOWAY-1", "INDEX-SIBLING-1"),
        fault="F05",
        harm="A key is found on a block that was reused for another prompt, while the block that has it is forgotten.",
        patch=Patch(
            _INDEX,
            "        self._unlist(key, keys.pop(key))\n",
            "        self._unlist(key, min([*self._blocks_of.get(key, ()), keys[key]]))\n        del keys[key]\n",
        ),
    ),
    Mutant(
        name="sibling_is_removed_too",
        clauses=("INDEX-SIBLING-1",),
        fault="F05",
        harm="When one of two copies of a prompt is evicted, the other one can no longer be found.",
        patch=Patch(
            _INDEX,
            "        del blocks[rank]\n        if len(blocks) == 1:\n"
            "            [self._block_of[key]] = self._blocks_of.pop(key).values()\n",
            "        del self._blocks_of[key]\n",
        ),
    ),
    Mutant(
        name="keys_of_a_block_are_sorted",
        clauses=("INDEX-ORDER-1",),
        fault="F13",
        harm="The order in which a block's keys are announced as removed depends on their bytes.",
        patch=Patch(
            _INDEX, "return list(self._keys_of.get(block_id, ()))", "return sorted(self._keys_of.get(block_id, ()))"
        ),
    ),
    Mutant(
        name="blocks_of_a_key_are_sorted",
        clauses=("INDEX-ORDER-1", "POOL-EVICT-3"),
        fault="F05",
        harm="An evicted block that is registered again takes its old place, and lookups jump between the copies.",
        patch=Patch(
            _INDEX,
            "self._blocks_of[key] = {self._keys_of[first][key]: first, rank: block_id}",
            "self._blocks_of[key] = dict(sorted({self._keys_of[first][key]: first, rank: block_id}.items(), "
            "key=lambda entry: entry[1]))",
        ),
    ),
    Mutant(
        name="last_registered_block_is_found",
        clauses=("POOL-LOOKUP-1",),
        fault="F05",
        harm="Every duplicate draws the readers to itself, so that all the copies stay hot and none is evicted.",
        patch=Patch(
            _INDEX,
            "(block for block in self._in_order(key) if",
            "(block for block in reversed(list(self._in_order(key))) if",
        ),
    ),
    Mutant(
        name="lookup_refreshes_the_block",
        clauses=("POOL-LOOKUP-2",),
        fault="F16",
        harm="A monitoring client that only looks changes what is evicted next.",
        patch=Patch(
            _LOOKUP,
            "        return [self._index.first_block(key, self._index.is_servable) for key in checked]\n",
            "        found = [self._index.first_block(key, self._index.is_servable) for key in checked]\n"
            "        for block_id in [block_id for block_id in found if block_id in self._free._order]:\n"
            "            self._free._order.move_to_end(block_id)\n"
            "        return found\n",
        ),
    ),
    Mutant(
        name="contains_asks_for_any_block",
        clauses=("POOL-CONTAINS-1",),
        fault="F05",
        harm="A block is taken for cached because its sibling is, and is never registered itself.",
        patch=Patch(
            _LOOKUP,
            "return self._index.contains(key, self._block(block_id).block_id)",
            "return self._block(block_id) is not None and bool(self._index.blocks_of(key))",
        ),
    ),
    Mutant(
        name="contains_knows_the_first_key_only",
        clauses=("POOL-CONTAINS-1",),
        fault="F10",
        harm="The shorter prefixes that a block also serves are reported as absent.",
        patch=Patch(
            _LOOKUP,
            "return self._index.contains(key, self._block(block_id).block_id)",
            "return key in self._index.keys_of(self._block(block_id).block_id)[:1]",
        ),
    ),
    Mutant(
        name="any_key_passes_for_full",
        clauses=("POOL-CONTAINS-2", "POS-FULL-1"),
        fault="F09",
        harm="The offload tier stores half-empty blocks and gives them back as full ones.",
        patch=Patch(
            _LOOKUP,
            "if self._index.is_servable(key, block_id) and self._is_full_key(key, block):",
            "if self._index.is_servable(key, block_id):",
        ),
    ),
)
