"""Mutants that have the very fault of a public report, where no mutant of a chapter has it."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_BLOCK = "kvproof.reference.block"
_CORE = "kvproof.reference.core"
_CACHE = "kvproof.reference.hybrid.cache"
_HASHING = "kvproof.reference.hashing"
_INDEX = "kvproof.reference.index"
_JOINT = "kvproof.reference.hybrid.joint_hit"
_LOG = "kvproof.reference.event_log"
_LOOKUP = "kvproof.reference.lookup"
_REFERENCES = "kvproof.reference.references"
_REGISTRATION = "kvproof.reference.registration"
_REMOVAL = "kvproof.reference.removal"
_RUNNING = "kvproof.reference.hybrid.running"
_STEPPING = "kvproof.reference.stepping"

_KEYS = (
    Mutant(
        name="digest_is_the_languages_own_hash",
        clauses=("HASH-ALGORITHM-1", "HASH-CHAIN-1"),
        fault="F06",
        harm="Colliding prompts are made on purpose, and no other process computes the same key.",
        patch=Patch(
            _HASHING,
            "lambda data: hashlib.sha256(data).digest()",
            'lambda data: hash(data).to_bytes(32, "little", signed=True)',
        ),
    ),
    Mutant(
        name="reused_block_keeps_a_key_that_it_shares",
        clauses=("INDEX-TWOWAY-1", "INDEX-SIBLING-1", "REG-REPLACE-1"),
        fault="F01",
        harm="A reused block still says that it has a key, because another block has it.",
        patch=Patch(
            _INDEX,
            "        self._unlist(key, keys.pop(key))\n",
            "        self._unlist(key, keys.pop(key) if key in self._block_of else keys[key])\n",
        ),
    ),
    Mutant(
        name="rows_of_lost_keys_stay",
        clauses=("INDEX-TWOWAY-1",),
        fault="F04",
        harm="The map of keys keeps every prompt ever seen, and points at blocks that hold something else.",
        patch=Patch(_INDEX, "            del self._block_of[key], self._position_of[key]\n", "            pass\n"),
    ),
    Mutant(
        name="key_is_stamped_on_its_block_alone",
        clauses=("INDEX-TWOWAY-1",),
        fault="F10",
        harm="Blocks are stored and never found: they know their keys, and the map does not.",
        patch=Patch(_INDEX, "        self._list(key, rank, block_id)\n", ""),
    ),
    Mutant(
        name="child_of_a_shared_key_is_filed_under_it",
        clauses=("INDEX-TWOWAY-1",),
        fault="F10",
        harm="Once two prompts have parted, what comes behind is not found, and its eviction breaks the map.",
        patch=Patch(
            _INDEX,
            "        self._list(key, rank, block_id)\n",
            "        self._list(next(iter(self._blocks_of), key), rank, block_id)\n",
        ),
    ),
    Mutant(
        name="second_copy_gets_no_key",
        clauses=("REG-PARTIAL-1",),
        fault="F05",
        harm="Of two requests with one prompt one has blocks without keys, and what asks for them fails.",
        patch=Patch(
            _REGISTRATION,
            "if not replace and self._index.contains(key, block.block_id):",
            "if not replace and self._index.blocks_of(key):",
        ),
    ),
    Mutant(
        name="only_full_keys_are_registered",
        clauses=("REG-PARTIAL-1",),
        fault="F10",
        harm="Prompts shorter than one block never hit.",
        patch=Patch(
            _REGISTRATION,
            "        self._register(request, group, [self._plan(block, request, group, position, replace)])\n",
            "        if position % self.config.groups[group].block_size == 0:\n"
            "            self._register(request, group, [self._plan(block, request, group, position, replace)])\n",
        ),
    ),
    Mutant(
        name="no_block_is_smaller_than_the_first_groups",
        clauses=("REG-FULL-1",),
        fault="F07",
        harm="A group with small blocks is cached at the borders of large ones only, on the wrong blocks.",
        patch=Patch(
            _CORE,
            "        return self.config.groups[index].block_size\n",
            "        return max(self.config.groups[0].block_size, self.config.groups[index].block_size)\n",
        ),
    ),
    Mutant(
        name="full_blocks_are_named_in_hash_units",
        clauses=("REG-FULL-1",),
        fault="F07",
        harm="A block is named by the hash of its first few tokens, and served to prompts that differ in the others.",
        patch=Patch(
            _REGISTRATION, "slot_end(slot, block_size)) for", "slot_end(slot, self.config.hash_block_size)) for"
        ),
    ),
    Mutant(
        name="reset_leaves_the_checkpoints",
        clauses=("POOL-RESET-1",),
        fault="F01",
        harm="After a reset the next request goes on from a state of the run before.",
        patch=Patch(
            _REMOVAL,
            "        self._index.clear()\n",
            "        kinds = [group.kind.value for group in self.config.groups]\n"
            '        gone = [key for key in self._index.cached_keys() if kinds[key[-1]] != "recurrent"]\n'
            "        for key, block in [(key, block) for key in gone for block in self._index.blocks_of(key)]:\n"
            "            self._index.drop(key, block)\n",
        ),
    ),
)

_REFERENCE_COUNTS = (
    Mutant(
        name="lookup_holds_what_it_finds",
        clauses=("POOL-LOOKUP-2",),
        fault="F04",
        harm="Blocks that were looked up and not used are never free again.",
        patch=Patch(
            _LOOKUP,
            "        return [self._index.first_block(key, self._index.is_servable) for key in checked]\n",
            "        found = [self._index.first_block(key, self._index.is_servable) for key in checked]\n"
            "        for block_id in found:\n"
            "            self._blocks[block_id or 0].ref_cnt += block_id is not None\n"
            "        return found\n",
        ),
    ),
    Mutant(
        name="block_is_freed_by_its_writer_alone",
        clauses=("POOL-FREE-1",),
        fault="F04",
        harm="A block whose writer lets go before its last reader is never free again.",
        patch=Patch(
            _BLOCK,
            "        self.ref_cnt -= 1\n",
            "        self.ref_cnt -= self.ref_cnt > 1 or self.writer == holder\n",
        ),
    ),
    Mutant(
        name="free_block_counts_once_for_each_key",
        clauses=("POOL-ALLOC-3",),
        fault="F03",
        harm="More seems to be evictable than there is, and the engine dies when it takes what is missing.",
        patch=Patch(
            _REFERENCES,
            "        if n > len(self._free):\n",
            "        if n > sum(max(1, len(self._index.keys_of(block_id))) for block_id in self._free):\n",
        ),
    ),
    Mutant(
        name="copy_is_released_for_every_reader",
        clauses=("STEP-COPY-2",),
        fault="F03",
        harm="The source of a copy is evicted under other readers of its block.",
        patch=Patch(
            _CORE,
            "            self._release([self._blocks[block_id]], holder)\n",
            "            readers = [name for name, served in self._blocks[block_id].holders.items() if served]\n"
            "            for name in [holder, *readers]:\n"
            "                self._release([self._blocks[block_id]], name)\n",
        ),
    ),
    Mutant(
        name="last_block_of_a_request_is_freed_twice",
        clauses=("STEP-FINISH-1",),
        fault="F03",
        harm="Every generation ends with a block that is free once more than it was taken.",
        patch=Patch(
            _STEPPING,
            "        self._release(blocks, request_id)\n",
            "        self._release(blocks, request_id)\n"
            "        for block in blocks[-1:]:\n"
            "            block.ref_cnt -= 1\n",
        ),
    ),
    Mutant(
        name="reset_frees_blocks_in_use",
        clauses=("POOL-RESET-2",),
        fault="F03",
        harm="What a request or a transfer still holds is handed out again after a reset.",
        patch=Patch(
            _REMOVAL,
            "        if in_use > 0:\n"
            '            raise StillReferenced(f"{in_use} blocks are referenced; '
            'the cache is reset only when none is")\n',
            "        if in_use > 0:\n"
            "            self._free.prepend([block.block_id for block in self._blocks[1:] if block.ref_cnt])\n",
        ),
    ),
    Mutant(
        name="allocation_asserts_that_enough_is_free",
        clauses=("POOL-ALLOC-3",),
        fault="F16",
        harm="The engine dies where it could have waited, or gone on without caching.",
        patch=Patch(
            _REFERENCES,
            'raise OutOfBlocks(f"{shown(n)} blocks asked for, {len(self._free)} are free")',
            'raise AssertionError("there is nothing to evict")',
        ),
    ),
)

_EVENTS = (
    Mutant(
        name="parent_is_left_unset",
        clauses=("EVENT-PARENT-1",),
        fault="F12",
        harm="A router files every chunk of a prompt as a prompt of its own.",
        patch=Patch(_LOG, "parent = self._nearest_resident_ancestor(run[0].prefix)", "parent = None"),
    ),
    Mutant(
        name="stored_names_no_group",
        clauses=("EVENT-STORED-1",),
        fault="F12",
        harm="A router takes a window's blocks for blocks of full attention.",
        patch=Patch(_LOG, "            group=run[0].group,\n", "            group=0,\n"),
    ),
    Mutant(
        name="removals_are_flushed_last",
        clauses=("EVENT-DRAIN-1",),
        fault="F13",
        harm="A key that was evicted and stored again between two drains is forgotten by the router.",
        patch=Patch(
            _LOG,
            "        return drained\n",
            "        return sorted(drained, key=lambda event: isinstance(event, Removed))\n",
        ),
    ),
    Mutant(
        name="drain_hands_over_nothing",
        clauses=("EVENT-DRAIN-1",),
        fault="F13",
        harm="Routers see an empty cache.",
        patch=Patch(
            _LOG,
            "        drained, self._pending = self._pending, []\n        return drained\n",
            "        self._pending.clear()\n        return []\n",
        ),
    ),
    Mutant(
        name="orphans_leave_in_silence",
        clauses=("EVENT-RESIDENCY-1",),
        fault="F13",
        harm="Once the beginning of a prompt was evicted, routers keep the rest of it for ever.",
        patch=Patch(
            _LOG,
            "        resident = self._resident(key, block_id)\n        self._was_resident.setdefault(resident, True)\n",
            "        size = self._config.groups[split_key(key)[0]].block_size\n"
            "        if size < self._index.position_of(key) == min(map(self._index.position_of, "
            "self._index.cached_keys())):\n"
            "            return\n"
            "        resident = self._resident(key, block_id)\n        self._was_resident.setdefault(resident, True)\n",
        ),
    ),
)

_HYBRID = (
    Mutant(
        name="hit_is_remembered_with_its_request",
        clauses=("HIT-PURE-1",),
        fault="F01",
        harm="A request that was not scheduled begins later at a hit whose blocks are gone.",
        patch=Patch(
            _JOINT,
            "        return Match(hit, alone if alone > hit else 0, pending)\n",
            '        Chain.seen = getattr(Chain, "seen", {})  # type: ignore[attr-defined]\n'
            "        found = Match(hit, alone if alone > hit else 0, pending)\n"
            "        return Chain.seen.setdefault((self._pool, self._request.request_id), found)\n",
        ),
    ),
    Mutant(
        name="private_copy_is_taken_before_the_check",
        clauses=("ADMIT-ATOMIC-1",),
        fault="F04",
        harm="A request that does not fit has taken a block for its copy, which nobody frees.",
        patch=Patch(
            _CACHE,
            "        self._check_room(len(slots), [use.block for use in (*shared, *copied)])\n",
            "        own = self.pool.allocate(len(copied), name)\n"
            "        self._check_room(len(slots) - len(own), [use.block for use in (*shared, *copied)])\n"
            "        self.pool.free(own, name)\n",
        ),
    ),
    Mutant(
        name="hit_is_counted_in_attention_blocks",
        clauses=("ADMIT-SHARE-1",),
        fault="F07",
        harm="After a hit the column of the state is not where the next chunk looks for it.",
        patch=Patch(
            _CACHE,
            "[NULL_BLOCK] * (match.hit // group.block_size)",
            "[NULL_BLOCK] * (match.hit // groups[0].block_size)",
        ),
    ),
    Mutant(
        name="groups_are_asked_in_blocks_of_the_first",
        clauses=("HIT-ATTENTION-1", "HIT-JOINT-1"),
        fault="F07",
        harm="A group with larger blocks has no key where it is asked for one, and nothing is ever hit.",
        patch=Patch(
            _JOINT,
            "shared(self.hit(group, slot_end(slot, config.block_size))):",
            "shared(self.hit(group, slot_end(slot, self.config.groups[0].block_size))):",
        ),
    ),
    Mutant(
        name="states_are_registered_like_rows",
        clauses=("ADVANCE-KEEP-1",),
        fault="F09",
        harm="Chunks pass the end of a block, and its key names the state of where the chunk before ended.",
        patch=Patch(
            _CACHE,
            "        if keeps(self.hybrid, self.grid, size, end,",
            "        if end // size > (first := running.computed // size):\n"
            "            self.pool.cache_full_blocks(request, running.tables[group], first, end // size, group)\n"
            "        elif keeps(self.hybrid, self.grid, size, end,",
        ),
    ),
    Mutant(
        name="state_is_kept_as_that_of_a_point_passed_over",
        clauses=("ADVANCE-KEEP-1",),
        fault="F09",
        harm="A reader goes on from a state that has seen tokens past its prefix.",
        patch=Patch(
            _CACHE,
            "        if keeps(self.hybrid, self.grid, size, end, tokens,",
            "        stops = self.grid.last_hash_state(tokens, prompt), self.grid.last_block_state(tokens)\n"
            "        end = next((n for n in stops if running.computed < n < end), end)\n"
            "        if keeps(self.hybrid, self.grid, size, end, tokens,",
        ),
    ),
    Mutant(
        name="state_is_kept_in_the_place_of_rows",
        clauses=("ADVANCE-ATOMIC-1",),
        fault="F16",
        harm="When no block is free, a request loses its own first rows to the copy of its state.",
        patch=Patch(
            _CACHE,
            "        moved, copied = self._kept_states(request, running, end)\n",
            "        moved, copied = self._kept_states(request, running, end)\n"
            "        if moved and not self.pool.num_free:\n"
            "            let_go[0] = [0]\n",
        ),
    ),
    Mutant(
        name="no_block_is_taken_at_the_border",
        clauses=("ADVANCE-STATE-1",),
        fault="F09",
        harm="A request whose state stands at the end of a block has no block for the tokens behind it.",
        patch=Patch(
            _RUNNING,
            "            return [slot] if slot >= known else []",
            "            return [slot] if slot >= known and (not known or self.computed % config.block_size) else []",
        ),
    ),
    Mutant(
        name="running_state_is_pushed_out_at_the_border",
        clauses=("ADVANCE-STATE-1", "ADVANCE-LETGO-1"),
        fault="F09",
        harm="The state at the end of a block, which the step in flight begins with, is in no table any more.",
        patch=Patch(
            _RUNNING,
            "        table[slot] = block\n",
            "        if self.groups[group].kind is GroupKind.RECURRENT and slot:\n"
            "            table[slot - 1] = NULL_BLOCK\n"
            "        table[slot] = block\n",
        ),
    ),
    Mutant(
        name="window_needs_all_rows",
        clauses=("HIT-WINDOW-1",),
        fault="F16",
        harm="A session loses its hits as soon as one block before its window has been given away.",
        patch=Patch(
            _JOINT,
            "range(first_needed_slot(config, n), n // config.block_size)",
            "range(n // config.block_size)",
        ),
    ),
)

MUTANTS = (*_KEYS, *_REFERENCE_COUNTS, *_EVENTS, *_HYBRID)
