"""Mutants of chapter 88: admission, going on, what is kept, going back."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_CACHE = "kvproof.reference.hybrid.cache"
_REQUEST = "kvproof.reference.request"
_INVARIANTS = "kvproof.reference.hybrid.invariants"
_RETENTION = "kvproof.reference.hybrid.retention"
_RUNNING = "kvproof.reference.hybrid.running"

_ADMIT = (
    Mutant(
        name="empty_chunk_is_admitted",
        clauses=("ADMIT-RANGE-1",),
        fault="F11",
        harm="A request runs, holds its blocks and computes nothing.",
        patch=Patch(
            _CACHE,
            'check_int("end", end, match.hit + 1, request.num_tokens)',
            'check_int("end", end, match.hit, request.num_tokens)',
        ),
    ),
    Mutant(
        name="running_request_is_admitted_again",
        clauses=("ADMIT-RANGE-1",),
        fault="F04",
        harm="Its first table is forgotten, and its blocks are never freed.",
        patch=Patch(
            _CACHE,
            "        if name in self.running:\n            raise AlreadyAdmitted",
            "        if name in ():\n            raise AlreadyAdmitted",
        ),
    ),
    Mutant(
        name="hit_blocks_are_counted_as_free",
        clauses=("ADMIT-ATOMIC-1",),
        fault="F04",
        harm="The request runs out of blocks when it has touched its hits, which nobody frees.",
        patch=Patch(
            _CACHE,
            "self._check_room(len(slots), [use.block for use in (*shared, *copied)])",
            "self._check_room(len(slots), ())",
        ),
    ),
    Mutant(
        name="shared_blocks_are_counted_twice",
        clauses=("ADMIT-ATOMIC-1",),
        fault="F11",
        harm="Requests that share nearly everything are refused though there is room.",
        patch=Patch(
            _CACHE,
            "sum(self.pool.ref_cnt(block) == 0 for block in set(hit_blocks))",
            "len(set(hit_blocks))",
        ),
    ),
    Mutant(
        name="blocks_are_allocated_before_hits_are_touched",
        clauses=("ADMIT-ORDER-1",),
        fault="F01",
        harm="The block that was hit is the next one in the queue, and loses its key to the request that hit it.",
        patch=Patch(
            _CACHE,
            "        for use in sorted((*shared, *copied), key=lambda use: (use.group, use.slot)):\n"
            "            (self.pool.attach if use.reserved else self.pool.touch)(use.block, use.key, name)\n"
            "        for (group, slot), block in zip(slots, self.pool.allocate(len(slots), name), strict=True):\n"
            "            running.take(group, slot, block)\n",
            "        for (group, slot), block in zip(slots, self.pool.allocate(len(slots), name), strict=True):\n"
            "            running.take(group, slot, block)\n"
            "        for use in sorted((*shared, *copied), key=lambda use: (use.group, use.slot)):\n"
            "            (self.pool.attach if use.reserved else self.pool.touch)(use.block, use.key, name)\n",
        ),
    ),
    Mutant(
        name="source_is_released_before_it_is_copied",
        clauses=("ADMIT-ORDER-1",),
        fault="F03",
        harm="The source of a copy is free, and may be somebody else's before the copy runs.",
        patch=Patch(
            _CACHE,
            "        for use in copied:\n"
            "            self.pool.copy(use.block, running.tables[use.group][use.slot], name)\n"
            "        self.pool.free([use.block for use in copied], name)\n",
            "        self.pool.free([use.block for use in copied], name)\n"
            "        for use in copied:\n"
            "            self.pool.copy(use.block, running.tables[use.group][use.slot], name)\n",
        ),
    ),
    Mutant(
        name="source_of_a_copy_stays_held",
        clauses=("ADMIT-ORDER-1", "ADMIT-COPY-1"),
        fault="F04",
        harm="Every partial hit holds a block for ever.",
        patch=Patch(
            _CACHE,
            "        self.pool.free([use.block for use in copied], name)\n",
            "",
        ),
    ),
    Mutant(
        name="blocks_are_allocated_from_the_last_group_on",
        clauses=(
            "ADMIT-ORDER-1",
            "ADMIT-FRESH-1",
        ),
        fault="F16",
        harm="Two engines with the same history have different tables, and evict different blocks.",
        patch=Patch(
            _CACHE,
            "        return sorted(slots)\n",
            "        return sorted(slots, reverse=True)\n",
        ),
    ),
    Mutant(
        name="rows_before_the_window_are_shared",
        clauses=("ADMIT-SHARE-1",),
        fault="F04",
        harm="Blocks that nobody reads any more are held as long as the request runs.",
        patch=Patch(
            _CACHE,
            "            for slot in range(first_needed_slot(config, hit), hit // config.block_size):",
            "            first = 0 if config.window else first_needed_slot(config, hit)\n"
            "            for slot in range(first, hit // config.block_size):",
        ),
    ),
    Mutant(
        name="slot_with_the_hit_inside_is_shared",
        clauses=("ADMIT-COPY-1",),
        fault="F01",
        harm="Two requests write different rows to one block.",
        patch=Patch(
            _CACHE,
            "                copied.append(self._use(",
            "                shared.append(self._use(",
        ),
    ),
    Mutant(
        name="junction_is_kept_as_a_length",
        clauses=("ADMIT-JUNCTION-1",),
        fault="F07",
        harm="After a hit the chunk stops too early, and the state at the junction is not kept.",
        patch=Patch(
            _CACHE,
            "Running(request, groups, match.junction, match.hit, tables)",
            "Running(request, groups, match.uncached, match.hit, tables)",
        ),
    ),
)

_ADVANCE = (
    Mutant(
        name="another_request_of_its_name_goes_on",
        clauses=("ADVANCE-RANGE-1", "BACK-TRUNCATE-1"),
        fault="F09",
        harm="A state that was computed over one request's tokens and another's is served by the name of the latter.",
        patch=Patch(
            _CACHE,
            "        if running.request is not request:",
            "        if running.request.hasher != request.hasher:",
        ),
    ),
    Mutant(
        name="chunk_may_end_where_it_begins",
        clauses=("ADVANCE-RANGE-1",),
        fault="F11",
        harm="A chunk computes what is in flight already, and the request never gets further.",
        patch=Patch(
            _CACHE,
            'check_int("end", end, running.computed + 1, request.num_tokens)',
            'check_int("end", end, running.settled + 1, request.num_tokens)',
        ),
    ),
    Mutant(
        name="two_chunks_in_one_step",
        clauses=("ADVANCE-ONCE-1",),
        fault="F09",
        harm="The second chunk of a step begins with a state that the step has yet to compute.",
        patch=Patch(
            _CACHE,
            "        if running.scheduled == self.pool.current_step:",
            "        if running.scheduled > self.pool.current_step:",
        ),
    ),
    Mutant(
        name="what_a_step_in_flight_reads_is_let_go",
        clauses=("ADVANCE-LETGO-1",),
        fault="F01",
        harm="With two steps in flight the rows that the first one reads belong to another request.",
        patch=Patch(
            _RUNNING,
            "first_needed_slot(self.groups[group], self.settled)",
            "first_needed_slot(self.groups[group], self.computed)",
        ),
    ),
    Mutant(
        name="window_lets_go_of_nothing",
        clauses=("ADVANCE-LETGO-1",),
        fault="F04",
        harm="A window holds as many blocks as full attention.",
        patch=Patch(
            _CACHE,
            "let_go = {group: running.not_needed(group) for",
            "let_go = {group: running.not_needed(group)[:0] for",
        ),
    ),
    Mutant(
        name="first_slot_is_let_go_first",
        clauses=("ADVANCE-LETGO-1",),
        fault="F16",
        harm="The beginning of a prompt is evicted before its end, which is of no use without it.",
        patch=Patch(
            _RUNNING,
            "return [slot for slot in reversed(range(before)) if",
            "return [slot for slot in range(before) if",
        ),
    ),
    Mutant(
        name="rows_get_a_block_too_many",
        clauses=("ADVANCE-ATTENTION-1",),
        fault="F04",
        harm="Every request holds a block that it does not use.",
        patch=Patch(
            _RUNNING,
            "return list(range(known, slots_up_to(end, config.block_size)))",
            "return list(range(known, slots_up_to(end, config.block_size) + 1))",
        ),
    ),
    Mutant(
        name="states_get_a_block_for_every_slot",
        clauses=(
            "ADVANCE-STATE-1",
            "ADMIT-FRESH-1",
        ),
        fault="F04",
        harm="A recurrent group takes as many blocks as attention.",
        patch=Patch(
            _RUNNING,
            "            return [slot] if slot >= known else []",
            "            return list(range(known, slot + 1))",
        ),
    ),
    Mutant(
        name="every_chunk_gets_a_block_for_its_state",
        clauses=("ADVANCE-STATE-1",),
        fault="F04",
        harm="The block that held the state before is held by nobody's table and freed by nobody.",
        patch=Patch(
            _RUNNING,
            "            return [slot] if slot >= known else []",
            "            return [slot]",
        ),
    ),
    Mutant(
        name="state_is_advanced_under_its_key",
        clauses=("ADVANCE-MOVE-1",),
        fault="F01",
        harm="A key names a state that has gone on.",
        patch=Patch(
            _CACHE,
            "                elif self.pool.covered(block):\n                    moved.append(group)",
            "                elif self.pool.covered(block):\n                    pass",
        ),
    ),
    Mutant(
        name="keyed_state_is_left_behind",
        clauses=("ADVANCE-MOVE-1",),
        fault="F16",
        harm="The request loses the block that it wrote, and the key its place among those that were read last.",
        patch=Patch(
            _CACHE,
            "                elif self.pool.covered(block):\n                    moved.append(group)",
            "                elif self.pool.covered(block):\n                    copied.append(group)",
        ),
    ),
    Mutant(
        name="moves_of_two_groups_have_one_name",
        clauses=("ADVANCE-MOVE-1",),
        fault="F03",
        harm="Whoever releases one of them by its name releases both.",
        patch=Patch(
            _CACHE,
            'f"{COPY_PREFIX}{group}:{name}"',
            'f"{COPY_PREFIX}{name}"',
        ),
    ),
    Mutant(
        name="key_moves_away_from_its_reader",
        clauses=("ADVANCE-COPY-1",),
        fault="F01",
        harm="A reader's state goes on without it.",
        patch=Patch(
            _CACHE,
            "                if self.pool.is_read(block):\n                    copied.append(group)",
            "                if self.pool.is_read(block):\n                    moved.append(group)",
        ),
    ),
    Mutant(
        name="state_that_was_left_stays_held",
        clauses=("ADVANCE-COPY-1",),
        fault="F04",
        harm="A state that was left to its reader is never freed.",
        patch=Patch(
            _CACHE,
            "        self.pool.free(sources, name)\n        self._compute(request, running, end)",
            "        self._compute(request, running, end)",
        ),
    ),
    Mutant(
        name="moves_need_no_room",
        clauses=("ADVANCE-ATOMIC-1",),
        fault="F04",
        harm="The request runs out of blocks when its key has moved.",
        patch=Patch(
            _CACHE,
            "self._check_room(len(slots) + len(moved), (), self._freed(running, let_go))",
            "self._check_room(len(slots), (), self._freed(running, let_go))",
        ),
    ),
    Mutant(
        name="what_is_let_go_makes_no_room",
        clauses=("ADVANCE-ATOMIC-1",),
        fault="F11",
        harm="A window that only needs to slide on waits for ever.",
        patch=Patch(
            _CACHE,
            "self._check_room(len(slots) + len(moved), (), self._freed(running, let_go))",
            "self._check_room(len(slots) + len(moved), ())",
        ),
    ),
    Mutant(
        name="what_others_hold_makes_room",
        clauses=("ADVANCE-ATOMIC-1",),
        fault="F03",
        harm="The request counts on blocks that stay with others, and is left half scheduled.",
        patch=Patch(
            _CACHE,
            "return sum(self.pool.ref_cnt(block) == 1 for",
            "return sum(self.pool.ref_cnt(block) >= 1 for",
        ),
    ),
    Mutant(
        name="rows_of_the_slot_begun_are_not_written",
        clauses=("ADVANCE-WRITE-1",),
        fault="F09",
        harm="The key of a block that two chunks filled covers rows that nobody wrote.",
        patch=Patch(
            _CACHE,
            "        for slot in range(first, len(table)):\n            self.pool.write",
            "        for slot in range(-(-running.computed // size), len(table)):\n            self.pool.write",
        ),
    ),
    Mutant(
        name="last_full_slot_is_not_registered",
        clauses=("ADVANCE-FULL-1",),
        fault="F10",
        harm="The last whole block of every chunk is lost.",
        patch=Patch(
            _CACHE,
            "self.pool.cache_full_blocks(request, table, first, full, group)",
            "self.pool.cache_full_blocks(request, table, first, full - 1, group)",
        ),
    ),
    Mutant(
        name="tail_is_that_of_the_whole_prompt",
        clauses=("ADVANCE-TAIL-1",),
        fault="F10",
        harm="The tail's key is one that the same prompt again may not use: a token has to be left.",
        patch=Patch(
            _CACHE,
            "else request.num_prompt_tokens - 1",
            "else request.num_prompt_tokens",
        ),
    ),
    Mutant(
        name="tail_ignores_the_drop",
        clauses=("ADVANCE-TAIL-1",),
        fault="F10",
        harm="With a draft model the same prompt again loses its last hash unit.",
        patch=Patch(
            _CACHE,
            "prompt = request.num_prompt_tokens if drops(self.pool.config, group) else",
            "prompt = request.num_prompt_tokens if None else",
        ),
    ),
    Mutant(
        name="tail_is_registered_without_fine_grained_hits",
        clauses=("ADVANCE-TAIL-1",),
        fault="F12",
        harm="Routers hear of keys that no lookup asks for.",
        patch=Patch(
            _CACHE,
            "self.pool.config.hash_block_size) if self.hybrid.fine_grained else 0",
            "self.pool.config.hash_block_size)",
        ),
    ),
    Mutant(
        name="tail_is_registered_again_and_again",
        clauses=("ADVANCE-TAIL-1",),
        fault="F13",
        harm="Every step stores the prompt's tail anew.",
        patch=Patch(
            _CACHE,
            "        if max(running.computed, floor_to(end, size)) < tail <= end:",
            "        if floor_to(end, size) < tail <= end:",
        ),
    ),
    Mutant(
        name="state_is_registered_as_that_of_its_block_end",
        clauses=("ADVANCE-KEEP-1", "RETAIN-LAST-1"),
        fault="F09",
        harm="A chunk ends inside a block, and the key names the state at the block's end.",
        patch=Patch(
            _CACHE,
            "            self.pool.cache_partial_block(request, block, end, group)",
            "            end = min(slot_end(slot_of(end, size), size), tokens)\n"
            "            self.pool.cache_partial_block(request, block, end, group)",
        ),
    ),
    Mutant(
        name="state_is_published_before_it_is_computed",
        clauses=("ADVANCE-REGISTER-1",),
        fault="F02",
        harm="A lookup of the same step hits a state that nobody has computed.",
        patch=Patch(
            _CACHE,
            "            self.pool.cache_partial_block(request, block, end, group)\n",
            "            self.pool.cache_partial_block(request, block, end, group)\n"
            "            for key in self.pool._index.keys_of(block):\n"
            "                self.pool._index.set_ready(key, block)\n",
        ),
    ),
)

_RETAIN = (
    Mutant(
        name="last_hash_is_not_kept",
        clauses=("RETAIN-LAST-1",),
        fault="F10",
        harm="A chunk stops for a state that nobody keeps.",
        patch=Patch(
            _RETENTION,
            "    if n in (grid.last_block_state(tokens), grid.last_hash_state(tokens, prompt)):",
            "    if n == grid.last_block_state(tokens):",
        ),
    ),
    Mutant(
        name="last_block_is_not_kept",
        clauses=("RETAIN-LAST-1",),
        fault="F10",
        harm="A prompt leaves no state at the end of its last block.",
        patch=Patch(
            _RETENTION,
            "    if n in (grid.last_block_state(tokens), grid.last_hash_state(tokens, prompt)):",
            "    if n == grid.last_hash_state(tokens, prompt):",
        ),
    ),
    Mutant(
        name="junction_is_not_kept",
        clauses=("RETAIN-JUNCTION-1",),
        fault="F10",
        harm="A shared prefix is computed for every request, whatever the policy says.",
        patch=Patch(
            _RETENTION,
            "    at_junction = n == grid.junction_state(junction, prompt)",
            "    at_junction = n < 0",
        ),
    ),
    Mutant(
        name="thrifty_policy_keeps_the_junction",
        clauses=("RETAIN-JUNCTION-1",),
        fault="F16",
        harm="States that the policy was chosen to avoid push others out.",
        patch=Patch(
            _RETENTION,
            "        case Retention.LAST:\n            return False",
            "        case Retention.LAST:\n            return at_junction",
        ),
    ),
    Mutant(
        name="boundaries_are_those_of_the_grid",
        clauses=("RETAIN-BOUNDARIES-1",),
        fault="F07",
        harm="A group with small blocks keeps its states at the common multiples only.",
        patch=Patch(
            _RETENTION,
            "            return at_junction or n % block_size == 0\n",
            "            return at_junction or n % grid.block_size == 0\n",
        ),
    ),
    Mutant(
        name="interval_need_not_end_with_a_block",
        clauses=("RETAIN-INTERVAL-1",),
        fault="F07",
        harm="States are kept inside blocks, one for every interval.",
        patch=Patch(
            _RETENTION,
            "(n % block_size == 0 and at_interval)",
            "at_interval",
        ),
    ),
    Mutant(
        name="every_block_is_an_interval",
        clauses=("RETAIN-INTERVAL-1",),
        fault="F16",
        harm="States fill the pool though an interval was configured to prevent it.",
        patch=Patch(
            _RETENTION,
            "(n % block_size == 0 and at_interval)",
            "n % block_size == 0",
        ),
    ),
)

_BACK = (
    Mutant(
        name="aborted_request_is_only_freed",
        clauses=("RELEASE-1",),
        fault="F02",
        harm="An abort with a step in flight is refused, or publishes what was never computed.",
        patch=Patch(
            _CACHE,
            "        affected = self.pool.finish(request_id, running.blocks())",
            "        self.pool.free(running.blocks(), request_id)\n        affected = [request_id]",
        ),
    ),
    Mutant(
        name="first_slot_is_freed_first",
        clauses=("RELEASE-1",),
        fault="F16",
        harm="The beginning of a prompt is evicted before its end, which is of no use without it.",
        patch=Patch(
            _RUNNING,
            "for block in reversed(table) if block",
            "for block in table if block",
        ),
    ),
    Mutant(
        name="dependents_keep_their_tables",
        clauses=(
            "RELEASE-1",
            "SCHED-RESUME-1",
        ),
        fault="F01",
        harm="Requests go on from rows that their aborted writer never computed.",
        patch=Patch(
            _CACHE,
            "        del self.running[request_id]\n        self._go_back(affected)\n",
            "        del self.running[request_id]\n",
        ),
    ),
    Mutant(
        name="release_of_nobody_is_fine",
        clauses=("RELEASE-2",),
        fault="F03",
        harm="A request that is released twice by mistake is never noticed.",
        patch=Patch(
            _CACHE,
            "        running = self._running(request_id)\n        affected",
            "        running = self.running.get(request_id) if isinstance(request_id, str) else None\n"
            "        if running is None:\n"
            "            return []\n"
            "        affected",
        ),
    ),
    Mutant(
        name="request_with_a_state_goes_back",
        clauses=(
            "BACK-ROLLBACK-1",
            "BACK-TRUNCATE-1",
        ),
        fault="F09",
        harm="The request goes on from a state that has seen what was taken back.",
        patch=Patch(
            _RUNNING,
            "        if n == 0 or any(group.kind is GroupKind.RECURRENT for group in self.groups):",
            "        if n == 0:",
        ),
    ),
    Mutant(
        name="rollback_takes_what_is_settled",
        clauses=("BACK-ROLLBACK-1",),
        fault="F11",
        harm="Requests that had nothing in flight lose their work when somebody else fails.",
        patch=Patch(
            _CACHE,
            "            if running is None or not running.unsettled:\n                continue",
            "            if running is None:\n                continue",
        ),
    ),
    Mutant(
        name="rolled_back_requests_are_always_released",
        clauses=("BACK-ROLLBACK-1",),
        fault="F11",
        harm="A failed step costs its requests all that they have ever computed.",
        patch=Patch(
            _CACHE,
            "            if running.can_go_back_to(running.settled):\n                self._let_go",
            "            if running.can_go_back_to(0):\n                self._let_go",
        ),
    ),
    Mutant(
        name="prompt_outlives_its_truncation",
        clauses=("BACK-PROMPT-1",),
        fault="F09",
        harm="Tokens that are appended after a cut pass for the prompt, and its tail is kept inside them.",
        patch=Patch(
            _REQUEST,
            "        self.num_prompt_tokens = min(self.num_prompt_tokens, kept)\n",
            "",
        ),
    ),
    Mutant(
        name="first_slot_past_the_cut_is_freed_first",
        clauses=("BACK-SLOTS-1",),
        fault="F16",
        harm="Two engines with the same history allocate different blocks.",
        patch=Patch(
            _RUNNING,
            "group: [slot for slot in reversed(range(self._slots(group, n), len(table))) if",
            "group: [slot for slot in range(self._slots(group, n), len(table)) if",
        ),
    ),
    Mutant(
        name="slot_with_the_cut_is_freed",
        clauses=(
            "BACK-SLOTS-1",
            "BACK-ROLLBACK-1",
        ),
        fault="F01",
        harm="Rows before the cut are given away, and the request still reads them.",
        patch=Patch(
            _RUNNING,
            "        return slots_up_to(n, self.groups[group].block_size)\n",
            "        return n // self.groups[group].block_size\n",
        ),
    ),
    Mutant(
        name="truncation_forgets_steps_in_flight",
        clauses=("BACK-TRUNCATE-1",),
        fault="F02",
        harm="A step in flight is settled past the end of its request.",
        patch=Patch(
            _CACHE,
            "            if running.unsettled:\n                raise NotCommitted",
            "            if not running.settled:\n                raise NotCommitted",
        ),
    ),
    Mutant(
        name="truncation_trusts_rows_that_are_gone",
        clauses=("BACK-TRUNCATE-1",),
        fault="F09",
        harm="A window goes on from a place whose rows it has let go of.",
        patch=Patch(
            _RUNNING,
            "NULL_BLOCK not in table[first_needed_slot(group, n) : slots",
            "NULL_BLOCK not in table[(n - 1) // group.block_size : slots",
        ),
    ),
    Mutant(
        name="cut_block_with_a_key_is_written_on",
        clauses=("BACK-CUT-1",),
        fault="F01",
        harm="The key of a block covers rows that a truncated request has overwritten.",
        patch=Patch(
            _CACHE,
            "return self.pool.covered(running.tables[group][n // size]) > n",
            "return self.pool.covered(running.tables[group][n // size]) > n + size",
        ),
    ),
    Mutant(
        name="cut_at_a_key_is_copied",
        clauses=("BACK-CUT-1",),
        fault="F16",
        harm="A cut where a key ends costs a block that nothing needs.",
        patch=Patch(
            _CACHE,
            "return self.pool.covered(running.tables[group][n // size]) > n",
            "return self.pool.covered(running.tables[group][n // size]) >= n",
        ),
    ),
    Mutant(
        name="cut_is_settled_before_its_copy",
        clauses=("BACK-CUT-2",),
        fault="F02",
        harm="The step of the copy fails, and the request goes on from rows that were never copied.",
        patch=Patch(
            _CACHE,
            "        running.settled = self._last_certain(running, begins)",
            "        running.settled = n",
        ),
    ),
    Mutant(
        name="cut_is_settled_where_its_last_slot_begins",
        clauses=("BACK-CUT-2",),
        fault="F07",
        harm="A group with larger blocks has lost rows before that.",
        patch=Patch(
            _CACHE,
            "        begins = min(floor_to(n,",
            "        begins = max(floor_to(n,",
        ),
    ),
    Mutant(
        name="start_of_a_cut_slot_will_do",
        clauses=("BACK-CUT-2",),
        fault="F09",
        harm="The window has no rows there, and the request goes back to it.",
        patch=Patch(
            _CACHE,
            "            if running.can_go_back_to(end) and not is_cut:",
            "            if not is_cut:",
        ),
    ),
    Mutant(
        name="start_of_a_cut_slot_inside_a_needed_one_will_do",
        clauses=("BACK-CUT-2", "INV-TABLE-4"),
        fault="F09",
        harm="After a failed step the request cannot write on: a key of another group's slot is in its way.",
        patch=Patch(
            _CACHE,
            "            if running.can_go_back_to(end) and not is_cut:",
            "            if running.can_go_back_to(end):",
        ),
    ),
    Mutant(
        name="cut_is_settled_at_the_start_of_its_slot_or_nowhere",
        clauses=("BACK-CUT-2",),
        fault="F11",
        harm="A failed step costs a request all its rows, though there is an earlier place to go on from.",
        patch=Patch(
            _CACHE,
            "        for end in running.ends_of_slots(n):",
            "        for end in [n] if n else []:",
        ),
    ),
    Mutant(
        name="cut_is_settled_at_the_end_of_a_whole_slot",
        clauses=("BACK-CUT-2",),
        fault="F11",
        harm="Rows that nobody else relies on are computed again after a failure.",
        patch=Patch(
            _CACHE,
            "            is_cut = any(self._is_cut(running, group, end) for group in range(len(running.groups)))",
            "            is_cut = any(end % group.block_size for group in running.groups)",
        ),
    ),
    Mutant(
        name="cut_needs_no_step",
        clauses=("BACK-CUT-3",),
        fault="F04",
        harm="The slots past the cut are gone when the copy is refused.",
        patch=Patch(
            _CACHE,
            "            self._check_open_step()\n            self._check_room(len(groups)",
            "            self._check_room(len(groups)",
        ),
    ),
    Mutant(
        name="cut_needs_no_room",
        clauses=("BACK-CUT-3",),
        fault="F04",
        harm="The slots past the cut are gone when there is no block for the copy.",
        patch=Patch(
            _CACHE,
            "            self._check_room(len(groups), (), self._freed(running, beyond))\n",
            "",
        ),
    ),
    Mutant(
        name="cut_has_no_room_in_what_it_lets_go",
        clauses=("BACK-CUT-3",),
        fault="F11",
        harm="A full pool refuses to make requests shorter.",
        patch=Patch(
            _CACHE,
            "            self._check_room(len(groups), (), self._freed(running, beyond))\n",
            "            self._check_room(len(groups), ())\n",
        ),
    ),
)

_FAIL = (
    Mutant(
        name="any_open_step_may_fail",
        clauses=("BACK-FAIL-1",),
        fault="F02",
        harm="The step that is closed is not the one that was taken back, and what it was to compute is served.",
        patch=Patch(
            _CACHE,
            "        if not self.pool.last_committed_step + 1 == step <= self.pool.current_step:\n",
            "        if not self.pool.last_committed_step < step <= self.pool.current_step:\n",
        ),
    ),
    Mutant(
        name="truth_is_taken_for_a_step",
        clauses=("BACK-FAIL-1",),
        fault="F11",
        harm="A wrong argument fails the first step.",
        patch=Patch(
            _CACHE,
            '        check_int("step", step, 1)\n        if not',
            '        check_int("step", step if type(step) is not bool else int(step), 1)\n        if not',
        ),
    ),
    Mutant(
        name="failed_step_takes_everybody_back",
        clauses=("BACK-FAIL-2",),
        fault="F11",
        harm="Requests that had nothing in the failed step lose their work with it.",
        patch=Patch(
            _CACHE,
            "self.running.items() if step in each.unsettled))",
            "self.running.items() if each.unsettled))",
        ),
    ),
    Mutant(
        name="failed_step_takes_only_its_last_chunks_back",
        clauses=("BACK-FAIL-2",),
        fault="F02",
        harm="A request with a later chunk in flight goes on from rows that were never computed.",
        patch=Patch(
            _CACHE,
            "self.running.items() if step in each.unsettled))",
            "self.running.items() if step == each.scheduled))",
        ),
    ),
    Mutant(
        name="failed_step_takes_back_in_order_of_arrival",
        clauses=("BACK-FAIL-2",),
        fault="F16",
        harm="Two replicas that were told the same have other blocks next.",
        patch=Patch(
            _CACHE,
            "self.pool.rollback(sorted(name for",
            "self.pool.rollback(list(name for",
        ),
    ),
    Mutant(
        name="requests_of_a_failed_step_stay_where_they_were",
        clauses=("BACK-FAIL-2",),
        fault="F02",
        harm="Keys of the failed step are gone, and its requests go on from what it should have computed.",
        patch=Patch(
            _CACHE,
            "        self._go_back(affected)\n        self.pool.evict(",
            "        self.pool.evict(",
        ),
    ),
    Mutant(
        name="moved_key_survives_its_failed_step",
        clauses=("BACK-FAIL-3",),
        fault="F02",
        harm="A checkpoint is served from a block to which it was never copied.",
        patch=Patch(
            _CACHE,
            "        self.pool.evict(self._moved.get(step, []))\n",
            "",
        ),
    ),
    Mutant(
        name="moved_key_survives_if_its_request_is_gone",
        clauses=("BACK-FAIL-3",),
        fault="F02",
        harm="A request is aborted in a step that fails; its checkpoint is served from a block that was never filled.",
        patch=Patch(
            _CACHE,
            "        self.pool.evict(self._moved.get(step, []))\n",
            "        self.pool.evict(self._moved.get(step, []) if affected else [])\n",
        ),
    ),
    Mutant(
        name="failed_step_evicts_what_moves_later",
        clauses=("BACK-FAIL-3",),
        fault="F11",
        harm="Checkpoints of requests that had nothing in the failed step are lost with it.",
        patch=Patch(
            _CACHE,
            "        self.pool.evict(self._moved.get(step, []))\n",
            "        self.pool.evict([block for blocks in self._moved.values() for block in blocks])\n",
        ),
    ),
    Mutant(
        name="failed_step_stays_open",
        clauses=("BACK-FAIL-4",),
        fault="F11",
        harm="No later step can ever be committed.",
        patch=Patch(
            _CACHE,
            "        self.pool.evict(self._moved.get(step, []))\n        self._commit(step)\n",
            "        self.pool.evict(self._moved.get(step, []))\n",
        ),
    ),
    Mutant(
        name="failed_step_takes_back_what_others_reserved",
        clauses=("BACK-FAIL-4",),
        fault="F11",
        harm="What was loaded from elsewhere in the same step, and did not fail, is lost.",
        patch=Patch(
            _CACHE,
            "        self._go_back(affected)\n        self.pool.evict(",
            "        owners = {e.owner for b in self.pool.observe().blocks for e in b.entries if e.ahead == 1}\n"
            "        self.pool.rollback([owner for owner in owners if owner])\n"
            "        self._go_back(affected)\n        self.pool.evict(",
        ),
    ),
)

_TABLES = (
    Mutant(
        name="tables_are_not_checked_where_requests_are",
        clauses=("INV-TABLE-1",),
        fault="F09",
        harm="The checks pass in a state in which the next chunk reads the rows of another request.",
        patch=Patch(
            _INVARIANTS,
            "running.computed, pool.current_step,",
            "running.settled, pool.last_committed_step,",
        ),
    ),
    Mutant(
        name="tables_are_not_checked_where_requests_go_back_to",
        clauses=("INV-TABLE-2",),
        fault="F09",
        harm="The checks pass in a state in which a failed step leaves a request without its rows.",
        patch=Patch(
            _INVARIANTS,
            "running.settled, pool.last_committed_step,",
            "running.computed, pool.current_step,",
        ),
    ),
    Mutant(
        name="places_to_write_on_are_not_checked",
        clauses=("INV-TABLE-4",),
        fault="F09",
        harm="The checks pass in a state in which the next chunk writes rows that a key names.",
        patch=Patch(
            _INVARIANTS,
            "(running.computed, False), (running.settled if goes_back else 0, True)",
            "(running.settled if goes_back else 0, True),",
        ),
    ),
    Mutant(
        name="places_to_go_back_to_are_not_checked",
        clauses=("INV-TABLE-4",),
        fault="F09",
        harm="The checks pass in a state in which a failed step leaves a request where it cannot write on.",
        patch=Patch(
            _INVARIANTS,
            "(running.computed, False), (running.settled if goes_back else 0, True)",
            "(running.computed, False),",
        ),
    ),
    Mutant(
        name="writer_of_the_next_rows_is_not_checked",
        clauses=("INV-TABLE-4",),
        fault="F01",
        harm="The checks pass in a state in which the next chunk writes to a block of another request.",
        patch=Patch(
            _INVARIANTS,
            "            if block.writer != name or (not",
            "            if (not",
        ),
    ),
    Mutant(
        name="block_beside_the_tables_is_overlooked",
        clauses=("INV-TABLE-3",),
        fault="F04",
        harm="The checks pass in a state in which a request holds a block that nothing will ever free.",
        patch=Patch(
            _INVARIANTS,
            "    if sorted(running.blocks()) != held:",
            "    if not set(running.blocks()) <= set(held):",
        ),
    ),
)

MUTANTS = (
    *_ADMIT,
    *_ADVANCE,
    *_RETAIN,
    *_BACK,
    *_FAIL,
    *_TABLES,
)
