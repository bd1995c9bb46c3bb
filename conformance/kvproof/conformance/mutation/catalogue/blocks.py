"""Mutants of chapter 30: the pool, its blocks, its references."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_BLOCK = "kvproof.reference.block"
_CORE = "kvproof.reference.core"
_REFERENCES = "kvproof.reference.references"
_REGISTRATION = "kvproof.reference.registration"
_REMOVAL = "kvproof.reference.removal"
_STEPPING = "kvproof.reference.stepping"
_VALIDATE = "kvproof.reference.validate"

_THE_POOL = (
    Mutant(
        name="only_the_first_group_is_checked",
        clauses=("POOL-CONFIG-1",),
        fault="F07",
        harm="A second group whose block size is no multiple of h starts up, and its keys name parts of spans.",
        patch=Patch(_VALIDATE, "for group in config.groups:", "for group in config.groups[:1]:"),
    ),
    Mutant(
        name="pool_without_blocks_starts",
        clauses=("POOL-CONFIG-1",),
        fault="F03",
        harm="A pool that has not even the null block starts up and fails at the first request.",
        patch=Patch(_VALIDATE, "config.num_blocks, 1, MAX_BLOCKS)", "config.num_blocks, 0, MAX_BLOCKS)"),
    ),
    Mutant(
        name="new_queue_is_reversed",
        clauses=("POOL-INIT-1",),
        fault="F16",
        harm="Two engines fed the same requests use different blocks, and no recorded trace can be replayed.",
        patch=Patch(
            _CORE,
            "FreeBlockQueue(range(NULL_BLOCK + 1, config.num_blocks))",
            "FreeBlockQueue(range(config.num_blocks - 1, NULL_BLOCK, -1))",
        ),
    ),
    Mutant(
        name="null_block_is_queued",
        clauses=("POOL-INIT-1", "POOL-NULL-1"),
        fault="F03",
        harm="A request gets the null block, and every table entry that means 'nothing here' shows its rows.",
        patch=Patch(_CORE, "FreeBlockQueue(range(NULL_BLOCK + 1, config", "FreeBlockQueue(range(NULL_BLOCK, config"),
    ),
    Mutant(
        name="null_block_is_freed",
        clauses=("POOL-NULL-1",),
        fault="F03",
        harm="Freeing a table with skipped slots fails, or drives the null block's count below zero.",
        patch=Patch(
            _REFERENCES,
            "[block for block in self._block_list(block_ids) if not block.is_null]",
            "self._block_list(block_ids)",
        ),
    ),
    Mutant(
        name="null_block_is_touched",
        clauses=("POOL-NULL-1",),
        fault="F03",
        harm="Touching a table with skipped slots fails although there is nothing to touch.",
        patch=Patch(_REFERENCES, "        if block.is_null:\n            return\n", ""),
    ),
    Mutant(
        name="null_block_is_evicted",
        clauses=("POOL-NULL-1",),
        fault="F03",
        harm="A caller that evicts a table with skipped slots is not told about its mistake.",
        patch=Patch(
            _REMOVAL,
            "        if any(block.is_null for block in blocks):\n"
            '            raise InvalidBlock("block 0 is the null block; it has no keys to evict")\n',
            "",
        ),
    ),
    Mutant(
        name="holder_may_hold_a_block_twice",
        clauses=("POOL-HOLDER-1",),
        fault="F03",
        harm="A request that is scheduled twice counts twice and frees once: the block is never free again.",
        patch=Patch(
            _REFERENCES,
            "        if holder is not None and holder in block.holders:\n"
            '            raise AlreadyHeld(f"{holder!r} holds block {block.block_id} already; a holder '
            'holds a block at most once")\n',
            "",
        ),
    ),
    Mutant(
        name="anonymous_references_have_an_owner",
        clauses=("POOL-HOLDER-2",),
        fault="F10",
        harm="A pool without holder names refuses every registration and caches nothing.",
        patch=Patch(
            _REGISTRATION,
            "if self.config.holders is HolderMode.NAMED and block.writer != holder:",
            "if block.writer != holder:",
        ),
    ),
    Mutant(
        name="finish_names_a_holder_where_there_are_none",
        clauses=("POOL-HOLDER-2",),
        fault="F04",
        harm="A pool without holder names lets a request finish, and its blocks stay referenced.",
        patch=Patch(_STEPPING, "        self._check_holder(request_id)\n", ""),
    ),
    Mutant(
        name="writer_survives_its_free",
        clauses=("POOL-WRITER-1",),
        fault="F03",
        harm="A request that freed a block and found it again writes over rows that others read.",
        patch=Patch(_BLOCK, "            if self.writer == holder:\n                self.writer = None\n", ""),
    ),
)

_ALLOCATE = (
    Mutant(
        name="victim_comes_from_the_back_of_the_queue",
        clauses=("POOL-ALLOC-1",),
        fault="F16",
        harm="The prompt that was used last is evicted first.",
        patch=Patch(_BLOCK, "self._order.popitem(last=False)[0]", "self._order.popitem(last=True)[0]"),
    ),
    Mutant(
        name="allocated_ids_are_sorted",
        clauses=("POOL-ALLOC-1",),
        fault="F16",
        harm="The blocks come in another order than they were taken in, so a replay of the trace diverges.",
        patch=Patch(_REFERENCES, "        return taken\n", "        return sorted(taken)\n"),
    ),
    Mutant(
        name="reused_block_keeps_its_keys",
        clauses=("POOL-ALLOC-2", "CONTENT-SOUND-1"),
        fault="F01",
        harm="A reused block answers for its former prompt: another user's text is served.",
        patch=Patch(
            _REFERENCES, "            self._drop_keys(block_id)\n            self._blocks", "            self._blocks"
        ),
    ),
    Mutant(
        name="failed_allocation_leaks",
        clauses=("POOL-ALLOC-3", "ERR-ATOMIC-1"),
        fault="F04",
        harm="Every request that does not fit takes the last free blocks with it; in the end nothing fits.",
        patch=Patch(
            _REFERENCES,
            "        if n > len(self._free):\n"
            '            raise OutOfBlocks(f"{shown(n)} blocks asked for, {len(self._free)} are free")\n'
            "        taken = [self._free.popleft() for _ in range(n)]\n",
            "        taken = [self._free.popleft() for _ in range(min(n, len(self._free)))]\n"
            "        if n > len(taken):\n"
            '            raise OutOfBlocks(f"{n} blocks asked for, {len(taken)} are free")\n',
        ),
    ),
    Mutant(
        name="last_free_block_is_kept_back",
        clauses=("POOL-ALLOC-3",),
        fault="F03",
        harm="A request that needs exactly what is free is refused, for ever if nothing else runs.",
        patch=Patch(_REFERENCES, "if n > len(self._free):", "if n >= max(1, len(self._free)):"),
    ),
    Mutant(
        name="reused_block_keeps_its_slot",
        clauses=("POOL-ALLOC-4",),
        fault="F01",
        harm="A block that was slot 0 once can never be cached as any other slot.",
        patch=Patch(_BLOCK, "        self.group = self.slot = None\n        self.add", "        self.add"),
    ),
)

_TOUCH = (
    Mutant(
        name="touched_block_stays_queued",
        clauses=("POOL-TOUCH-1",),
        fault="F03",
        harm="A block in use is handed to the next request, which overwrites its rows.",
        patch=Patch(
            _REFERENCES,
            "        if block.ref_cnt == 0:\n            self._free.remove(block.block_id)\n",
            "",
        ),
    ),
    Mutant(
        name="touch_trusts_the_block_id",
        clauses=("POOL-TOUCH-2",),
        fault="F01",
        harm="A block that was evicted and reused between lookup and touch hands out another prompt's rows.",
        patch=Patch(
            _REFERENCES,
            "if not self._index.is_servable(key, block_id):",
            "if self._index.first_block(key, self._index.is_servable) is None:",
        ),
    ),
    Mutant(
        name="touch_knows_the_first_key_only",
        clauses=("POOL-TOUCH-3",),
        fault="F10",
        harm="A block with several partial keys can be found by each, but used by one.",
        patch=Patch(
            _REFERENCES,
            "if not self._index.is_servable(key, block_id):",
            "if key not in self._index.keys_of(block_id)[:1]:",
        ),
    ),
    Mutant(
        name="touch_makes_the_block_the_first_found",
        clauses=("POOL-TOUCH-3",),
        fault="F05",
        harm="Lookups jump to the copy that was touched last, and a replayed trace uses other blocks.",
        patch=Patch(
            _REFERENCES,
            "        if block.ref_cnt == 0:\n            self._free.remove(block.block_id)\n",
            "        if block.ref_cnt == 0:\n"
            "            self._free.remove(block.block_id)\n"
            "        rank = self._index._keys_of[block.block_id][key]\n"
            "        if key in self._index._blocks_of:\n"
            "            self._index._blocks_of[key] = {rank: block.block_id, **self._index._blocks_of[key]}\n",
        ),
    ),
)

_FREE = (
    Mutant(
        name="free_ends_all_references",
        clauses=("POOL-FREE-1",),
        fault="F03",
        harm="The first of two readers that ends takes the block away from the other one.",
        patch=Patch(_BLOCK, "self.ref_cnt -= 1", "self.ref_cnt = 0"),
    ),
    Mutant(
        name="freed_keyless_blocks_go_last",
        clauses=("POOL-FREE-2",),
        fault="F16",
        harm="Blocks without a key queue behind cached ones, which are evicted for nothing.",
        patch=Patch(
            _CORE,
            "        self._free.prepend(without_key)\n",
            "        for block_id in without_key:\n            self._free.append(block_id)\n",
        ),
    ),
    Mutant(
        name="freed_keyless_group_is_reversed",
        clauses=("POOL-FREE-2",),
        fault="F16",
        harm="With caching off, blocks are reused in another order than they were freed in.",
        patch=Patch(_BLOCK, "for block_id in reversed(block_ids):", "for block_id in block_ids:"),
    ),
    Mutant(
        name="freed_cached_blocks_go_first",
        clauses=("POOL-FREE-3",),
        fault="F16",
        harm="A finished prompt is evicted at once: the next turn of the conversation never hits.",
        patch=Patch(
            _CORE,
            "                    self._free.append(block.block_id)\n",
            "                    self._free.prepend([block.block_id])\n",
        ),
    ),
    Mutant(
        name="freed_cached_blocks_are_sorted",
        clauses=("POOL-FREE-3",),
        fault="F16",
        harm="The head of a prompt is evicted before its tail, which nobody can reach any more.",
        patch=Patch(
            _CORE,
            "        for block in blocks:\n            block.remove_holder(holder)\n",
            "        for block in sorted(blocks, key=lambda b: self._index.has_keys(b.block_id) and b.block_id):\n"
            "            block.remove_holder(holder)\n",
        ),
    ),
    Mutant(
        name="released_twice_counts_once",
        clauses=("POOL-FREE-4",),
        fault="F03",
        harm="A caller that frees a block on two paths is not told, until the pool counts wrong elsewhere.",
        patch=Patch(
            _REFERENCES,
            "[block for block in self._block_list(block_ids) if not block.is_null]",
            "[block for block in dict.fromkeys(self._block_list(block_ids)) if not block.is_null]",
        ),
    ),
    Mutant(
        name="free_checks_one_block_at_a_time",
        clauses=("POOL-FREE-4", "ERR-ATOMIC-1", "POOL-FREE-2"),
        fault="F04",
        harm="A refused free has freed half of the table, and the caller frees it again.",
        patch=Patch(
            _REFERENCES,
            "        self._check_releases(blocks, holder, taken_back=frozenset())\n"
            "        self._release(blocks, holder)\n",
            "        for block in blocks:\n"
            "            self._check_releases([block], holder, taken_back=frozenset())\n"
            "            self._release([block], holder)\n",
        ),
    ),
    Mutant(
        name="anonymous_id_is_released_once_a_call",
        clauses=("POOL-FREE-5", "POOL-HOLDER-2"),
        fault="F04",
        harm="A pool without holder names refuses to free a block for two requests in one call; both leak.",
        patch=Patch(_REFERENCES, "> (1 if holder is not None else block.ref_cnt):", "> 1:"),
    ),
    Mutant(
        name="freed_block_loses_its_keys",
        clauses=("POOL-FREE-6",),
        fault="F10",
        harm="Nothing outlives its request: the prefix cache never hits.",
        patch=Patch(
            _CORE,
            "            if block.ref_cnt == 0:\n                freed",
            "            if block.ref_cnt == 0:\n                self._drop_keys(block.block_id)\n"
            "                freed",
        ),
    ),
)

MUTANTS = (*_THE_POOL, *_ALLOCATE, *_TOUCH, *_FREE)
