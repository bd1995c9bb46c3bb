"""Mutants of chapter 85: steps, what is reserved in them and published with them."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_CONTENT = "kvproof.reference.content"
_CORE = "kvproof.reference.core"
_GHOST = "kvproof.reference.ghost"
_INDEX = "kvproof.reference.index"
_INVARIANTS = "kvproof.reference.invariants"
_LOG = "kvproof.reference.event_log"
_LOOKUP = "kvproof.reference.lookup"
_REFERENCES = "kvproof.reference.references"
_REGISTRATION = "kvproof.reference.registration"
_REMOVAL = "kvproof.reference.removal"
_STEPPING = "kvproof.reference.stepping"
_STEPS = "kvproof.reference.steps"

_UNSEEN = "The checks pass in a state in which "

_PREMATURE = (
    Mutant(
        name="keys_are_published_when_scheduled",
        clauses=("STEP-SERVE-1", "STEP-RESERVE-1", "EVENT-RESIDENCY-1"),
        fault="F02",
        harm=(
            "A request is aborted between its schedule and its forward pass, and the next one reads "
            "blocks that nobody wrote."
        ),
        patch=Patch(
            _REGISTRATION,
            "            self._index.reserve(registration, block_id, self._steps.current)\n",
            "            self._index.reserve(registration, block_id, self._steps.current)\n"
            "            self._index.set_ready(registration.key, block_id)\n",
        ),
    ),
    Mutant(
        name="reserved_key_is_served",
        clauses=("STEP-SERVE-1",),
        fault="F02",
        harm="A lookup of the next step hits a block whose rows are still being computed.",
        patch=Patch(
            _INDEX,
            "return self.contains(key, block_id) and self.unready(key, block_id) is None",
            "return self.contains(key, block_id)",
        ),
    ),
    Mutant(
        name="touch_takes_a_reserved_key",
        clauses=("STEP-SERVE-1",),
        fault="F02",
        harm=(
            "A reader that saw the key reserved uses it as if it were there, and nothing takes it back "
            "when the writer fails."
        ),
        patch=Patch(
            _REFERENCES,
            "if not self._index.is_servable(key, block_id):",
            "if not self._index.contains(key, block_id):",
        ),
    ),
    Mutant(
        name="full_key_may_be_reserved",
        clauses=("STEP-SERVE-1",),
        fault="F02",
        harm="The offload tier copies a block out before its rows are computed.",
        patch=Patch(
            _LOOKUP,
            "if self._index.is_servable(key, block_id) and self._is_full_key(key, block):",
            "if self._is_full_key(key, block):",
        ),
    ),
    Mutant(
        name="moved_key_is_served_before_its_copy",
        clauses=(
            "STEP-SERVE-1",
            "STEP-MOVE-1",
        ),
        fault="F02",
        harm="A checkpoint that moved is read from its new block before the copy has run.",
        patch=Patch(
            _INDEX,
            "return self.contains(key, block_id) and self.unready(key, block_id) is None",
            "return self.is_committed(key, block_id)",
        ),
    ),
    Mutant(
        name="keys_belong_to_the_oldest_open_step",
        clauses=("STEP-RESERVE-1",),
        fault="F02",
        harm="With two steps in flight, the first one's end publishes what the second has not computed.",
        patch=Patch(
            _REGISTRATION,
            "self._index.reserve(registration, block_id, self._steps.current)",
            "self._index.reserve(registration, block_id, self._steps.committed + 1)",
        ),
    ),
    Mutant(
        name="commit_publishes_all_open_steps",
        clauses=("STEP-COMMIT-1",),
        fault="F02",
        harm="The first of two steps in flight publishes the keys of both.",
        patch=Patch(
            _CORE,
            "if status.step == step]",
            "if status.step >= step]",
        ),
    ),
    Mutant(
        name="abort_leaves_reserved_keys",
        clauses=("STEP-FINISH-1",),
        fault="F02",
        harm="An aborted request's keys are published with the step that it never finished.",
        patch=Patch(
            _STEPPING,
            "        self._roll_back([request_id])\n",
            "",
        ),
    ),
    Mutant(
        name="rollback_leaves_older_reservations",
        clauses=("STEP-ROLLBACK-2",),
        fault="F02",
        harm="A request that fails with two steps in flight is published with the older one.",
        patch=Patch(
            _STEPPING,
            "if status.reservation is not None and status.reservation.owner in affected:",
            "if status.reservation is not None and status.step == self._steps.current:",
        ),
    ),
    Mutant(
        name="events_tell_of_reserved_keys",
        clauses=("STEP-COMMIT-3", "STEP-COMMIT-4", "EVENT-STORED-3"),
        fault="F02",
        harm=(
            "Routers send requests to an engine for prefixes that it has only scheduled, and never "
            "hear that one was aborted."
        ),
        patch=Patch(
            _REGISTRATION,
            "            self._index.reserve(registration, block_id, self._steps.current)\n",
            "            self._log.note_publication(registration, block_id)\n"
            "            self._index.reserve(registration, block_id, self._steps.current)\n",
        ),
    ),
)

_LIFE = (
    Mutant(
        name="step_numbers_begin_at_zero",
        clauses=("STEP-OPEN-1",),
        fault="F07",
        harm="The engine commits step 0, is refused, and never publishes anything.",
        patch=Patch(
            _STEPS,
            "        self.current += 1\n        return self.current\n",
            "        self.current += 1\n        return self.current - 1\n",
        ),
    ),
    Mutant(
        name="operations_need_no_step",
        clauses=("STEP-OPEN-2",),
        fault="F02",
        harm="What is scheduled between two steps belongs to one that was committed long ago.",
        patch=Patch(
            _CORE,
            "if self._steps.current == self._steps.committed:",
            "if self._steps.current < self._steps.committed:",
        ),
    ),
    Mutant(
        name="again_is_a_later_step",
        clauses=("STEP-RESERVE-1",),
        fault="F10",
        harm="A tail that is registered every step is never published.",
        patch=Patch(
            _REGISTRATION,
            "        if not replace and self._index.contains(key, block.block_id):\n            return None\n",
            "        if not replace and self._index.contains(key, block.block_id):\n"
            "            if self._index.is_reserved(key, block.block_id):\n"
            "                status = self._index._unready[key][block.block_id]\n"
            "                later = type(status)(self._steps.current, status.reservation)\n"
            "                self._index._unready[key][block.block_id] = later\n"
            "            return None\n",
        ),
    ),
    Mutant(
        name="status_outlives_its_entry",
        clauses=(
            "STEP-COMMIT-1",
            "STEP-COMMIT-4",
        ),
        fault="F01",
        harm="The commit publishes a key that was evicted, on a block that now holds something else.",
        patch=Patch(
            _INDEX,
            "            del self._keys_of[block_id]\n        self._forget_status(key, block_id)\n",
            "            del self._keys_of[block_id]\n",
        ),
    ),
    Mutant(
        name="steps_are_committed_in_any_order",
        clauses=("STEP-COMMIT-2",),
        fault="F14",
        harm="A late step is published before the one that it builds on.",
        patch=Patch(
            _STEPPING,
            "if not self._steps.committed + 1 == step <= self._steps.current:",
            "if not self._steps.committed < step <= self._steps.current:",
        ),
    ),
    Mutant(
        name="step_to_come_is_committed",
        clauses=("STEP-COMMIT-2",),
        fault="F02",
        harm="A commit too many lets the next step's keys out as soon as they are scheduled.",
        patch=Patch(
            _STEPPING,
            "if not self._steps.committed + 1 == step <= self._steps.current:",
            "if self._steps.committed + 1 != step:",
        ),
    ),
    Mutant(
        name="commit_tells_in_order_of_reservation",
        clauses=("STEP-COMMIT-3",),
        fault="F14",
        harm="Two engines that schedule the same batch tell their routers different streams.",
        patch=Patch(
            _CORE,
            "        reserved.sort(key=turn)\n",
            "        assert callable(turn)\n",
        ),
    ),
    Mutant(
        name="commit_tells_in_order_of_names",
        clauses=("STEP-COMMIT-3",),
        fault="F14",
        harm="The stream depends on how requests are called, and a replayed trace diverges.",
        patch=Patch(
            _CORE,
            "        reserved.sort(key=turn)\n",
            "        reserved.sort(key=lambda entry: (entry[0].owner, *turn(entry)))\n",
        ),
    ),
    Mutant(
        name="commit_tells_groups_in_descending_order",
        clauses=("STEP-COMMIT-3",),
        fault="F14",
        harm="A consumer that files blocks by their first group files them under another one.",
        patch=Patch(
            _CORE,
            "return admission, new.group, new.position",
            "return admission, -new.group, new.position",
        ),
    ),
    Mutant(
        name="commit_tells_moved_entries_last",
        clauses=("STEP-COMMIT-3",),
        fault="F14",
        harm="Two engines that schedule the same batch tell their routers different streams.",
        patch=Patch(_CORE, "order.get(new.owner, -1)", "order.get(new.owner, len(order))"),
    ),
    Mutant(
        name="commit_tells_moved_entries_in_the_order_of_their_keys",
        clauses=("STEP-COMMIT-3",),
        fault="F14",
        harm="A replayed trace diverges where a key was registered, dropped and registered again.",
        patch=Patch(_CORE, ", self._index.rank_of(new.key, block_id)\n", ", self._index.position_of(new.key)\n"),
    ),
    Mutant(
        name="parent_is_stored_later_in_the_commit",
        clauses=("STEP-COMMIT-3",),
        fault="F12",
        harm="A router hangs a block under a parent that the same stream names only later.",
        patch=Patch(
            _LOG,
            "return self._index.is_resident(key) and key not in self._unannounced",
            "return self._index.is_resident(key)",
        ),
    ),
    Mutant(
        name="two_requests_of_a_batch_store_a_key_twice",
        clauses=("STEP-COMMIT-3",),
        fault="F13",
        harm="Two equal prompts in one batch: a router that counts copies keeps the key after it is gone.",
        patch=Patch(
            _LOG,
            "self._is_resident(resident)) or self._is_resident(resident):",
            "self._is_resident(resident)):",
        ),
    ),
    Mutant(
        name="removal_of_a_reserved_key_is_told",
        clauses=("STEP-COMMIT-4",),
        fault="F13",
        harm="A router hears of the removal of a key that it never had.",
        patch=Patch(
            _CORE,
            "            if self._index.is_committed(key, block_id):\n"
            "                self._log.note_drop(key, block_id)\n",
            "            self._log.note_drop(key, block_id)\n",
        ),
    ),
)

_READERS = (
    Mutant(
        name="partial_keys_are_attached",
        clauses=(
            "STEP-LOOKUP-1",
            "STEP-ATTACH-1",
        ),
        fault="F09",
        harm="A reader shares a partial block that its writer goes on filling.",
        patch=Patch(
            _LOOKUP,
            "full = group.kind is GroupKind.FULL_ATTENTION and is_full(status.reservation.position, group.block_size)",
            "full = group.kind is GroupKind.FULL_ATTENTION",
        ),
    ),
    Mutant(
        name="states_are_attached",
        clauses=(
            "STEP-LOOKUP-1",
            "STEP-ATTACH-1",
        ),
        fault="F09",
        harm="A reader starts from a recurrent state that its batch has yet to compute.",
        patch=Patch(
            _LOOKUP,
            "full = group.kind is GroupKind.FULL_ATTENTION and is_full(status.reservation.position, group.block_size)",
            "full = is_full(status.reservation.position, group.block_size)",
        ),
    ),
    Mutant(
        name="reserved_block_is_offered_beside_a_servable_one",
        clauses=("STEP-LOOKUP-1",),
        fault="F05",
        harm="A reader waits for, and fails with, a writer that it does not need.",
        patch=Patch(
            _LOOKUP,
            "        if block is None:\n            reserved",
            "        if pending is not None:\n            reserved",
        ),
    ),
    Mutant(
        name="lookup_does_not_name_the_writer",
        clauses=("STEP-LOOKUP-1",),
        fault="F10",
        harm="The scheduler cannot see on whom a reader would depend, and never attaches.",
        patch=Patch(
            _LOOKUP,
            "writer = None if reserved is None else self._blocks[reserved].writer",
            "writer = None",
        ),
    ),
    Mutant(
        name="nothing_is_pending",
        clauses=("STEP-LOOKUP-2",),
        fault="F10",
        harm="Ten requests with one prompt arrive together, and each computes it for itself.",
        patch=Patch(
            _LOOKUP,
            "pending = self._index.first_block(key, self._outlives_the_commits)",
            "pending = block",
        ),
    ),
    Mutant(
        name="superseded_key_is_pending",
        clauses=("STEP-LOOKUP-2",),
        fault="F01",
        harm="A request waits for a key that is dropped by the very commit that it waits for.",
        patch=Patch(
            _LOOKUP,
            "pending = self._index.first_block(key, self._outlives_the_commits)",
            "pending = self._index.first_block(key, self._index.contains)",
        ),
    ),
    Mutant(
        name="moved_key_is_attached",
        clauses=("STEP-ATTACH-1", "STEP-LOOKUP-1"),
        fault="F02",
        harm=("The reader of a copy of a failed write is not rolled back: it depends on the copy, not on the writer."),
        patch=Patch(
            _LOOKUP,
            "return full and self._blocks[block_id].writer == status.reservation.owner",
            "return full",
        ),
    ),
    Mutant(
        name="copies_attach",
        clauses=("STEP-ATTACH-1",),
        fault="F03",
        harm="A copy depends on a request, is never rolled back and reads what was taken back.",
        patch=Patch(
            _STEPPING,
            "        if holder.startswith(COPY_PREFIX):\n"
            '            raise InvalidArgument(f"{holder!r} is a copy; only requests attach")\n',
            "",
        ),
    ),
    Mutant(
        name="reader_depends_on_nobody",
        clauses=(
            "STEP-ATTACH-2",
            "STEP-ROLLBACK-1",
        ),
        fault="F02",
        harm="The writer fails, and its readers go on and publish what they computed from nothing.",
        patch=Patch(
            _STEPS,
            "        self.depends[reader, writer] = max(step, self.depends.get((reader, writer), 0))\n",
            "",
        ),
    ),
    Mutant(
        name="last_attached_key_decides",
        clauses=("STEP-ATTACH-2",),
        fault="F02",
        harm="A reader of two keys is let go with the earlier one, and survives the failure of the later.",
        patch=Patch(
            _STEPS,
            "self.depends[reader, writer] = max(step, self.depends.get((reader, writer), 0))",
            "self.depends[reader, writer] = step",
        ),
    ),
    Mutant(
        name="any_commit_ends_a_dependency",
        clauses=("STEP-ATTACH-2",),
        fault="F02",
        harm="With two steps in flight, the first commit frees a reader of the second from its writer.",
        patch=Patch(
            _STEPS,
            "self.depends = {pair: step for pair, step in self.depends.items() if step > self.committed}",
            "self.depends = {}",
        ),
    ),
    Mutant(
        name="dependency_outlives_the_commit",
        clauses=(
            "STEP-ATTACH-2",
            "STEP-ROLLBACK-1",
        ),
        fault="F04",
        harm="One failing request takes with it everyone who ever shared a batch with it.",
        patch=Patch(
            _STEPS,
            "        self.depends = {pair: step for pair, step in self.depends.items() if step > self.committed}\n",
            "",
        ),
    ),
)

_KEYS = (
    Mutant(
        name="upgrade_drops_committed_keys_at_once",
        clauses=("STEP-UPGRADE-1",),
        fault="F10",
        harm="A request that fails while it fills a block takes the shared prefix out of the cache.",
        patch=Patch(
            _REGISTRATION,
            "tuple(k for k in present if self._index.is_reserved(k, block.block_id))",
            "present",
        ),
    ),
    Mutant(
        name="upgrade_keeps_reserved_keys",
        clauses=("STEP-UPGRADE-1",),
        fault="F04",
        harm="A prompt that grows within the steps in flight publishes a key for every boundary that it passed.",
        patch=Patch(
            _REGISTRATION,
            "tuple(k for k in present if self._index.is_reserved(k, block.block_id))",
            "()",
        ),
    ),
    Mutant(
        name="superseded_keys_stay",
        clauses=("STEP-UPGRADE-2", "REG-FULL-3", "REG-PARTIAL-3"),
        fault="F01",
        harm="Retired partial keys stay beside the full one and are announced as resident for ever.",
        patch=Patch(
            _CORE,
            "        self._drop_keys(block_id, [key for key in earlier if self._index.is_committed(key, block_id)])\n",
            "",
        ),
    ),
    Mutant(
        name="key_below_a_longer_one_drops_the_others",
        clauses=("STEP-UPGRADE-2", "REG-PARTIAL-4"),
        fault="F10",
        harm="Caching a shorter prefix of a block takes the longer one out of the cache.",
        patch=Patch(
            _CORE,
            "        if any(self._index.position_of(key) > registration.position for key in earlier):\n"
            "            return\n",
            "",
        ),
    ),
    Mutant(
        name="replace_waits_for_the_commit",
        clauses=("STEP-REPLACE-1", "REG-REPLACE-1"),
        fault="F01",
        harm="The content is overwritten while the old key still serves it.",
        patch=Patch(
            _REGISTRATION,
            "        if replace or not present:\n            return Plan(block, position, present)\n",
            "        if replace or not present:\n"
            "            reserved = tuple(k for k in present if self._index.is_reserved(k, block.block_id))\n"
            "            return Plan(block, position, reserved)\n",
        ),
    ),
    Mutant(
        name="evicted_key_stays_until_the_commit",
        clauses=("STEP-REPLACE-1",),
        fault="F01",
        harm="A recurrent producer evicts its checkpoint and overwrites the state, and the key is still found.",
        patch=Patch(
            _REMOVAL,
            "        for block in blocks:\n            self._drop_keys(block.block_id)\n",
            "        for block in blocks:\n"
            "            if self._steps.current == self._steps.committed:\n"
            "                self._drop_keys(block.block_id)\n",
        ),
    ),
    Mutant(
        name="copy_reads_this_steps_writes",
        clauses=("STEP-COPY-1",),
        fault="F09",
        harm="The model of the copies disagrees with the device, where they come before the forward pass.",
        patch=Patch(
            _CONTENT,
            "content = self.ghost.content_after(src_id, self._steps.current - 1)",
            "content = self.ghost.content(src_id)",
        ),
    ),
    Mutant(
        name="copy_reads_what_is_not_committed",
        clauses=("STEP-COPY-1",),
        fault="F02",
        harm="A private copy of rows that were never computed outlives the rollback of their writer.",
        patch=Patch(
            _CONTENT,
            "if (block.block_id, holder) in self._steps.attached:",
            "if block.ref_cnt < 0:",
        ),
    ),
    Mutant(
        name="copy_reads_what_was_taken_back",
        clauses=("STEP-COPY-1",),
        fault="F02",
        harm="A request that was rolled back copies the rows of the writer that failed.",
        patch=Patch(
            _CONTENT,
            "if block.holders[holder] is None:",
            "if block.ref_cnt < 0:",
        ),
    ),
    Mutant(
        name="source_of_a_copy_is_let_go",
        clauses=("STEP-COPY-2",),
        fault="F03",
        harm="The source of a copy is reused before the device has read it.",
        patch=Patch(
            _CONTENT,
            "        for block in (src, dst):\n            if name not in",
            "        for block in (dst,):\n            if name not in",
        ),
    ),
    Mutant(
        name="ends_of_copies_stay_referenced",
        clauses=("STEP-COPY-2",),
        fault="F04",
        harm="Every partial hit leaks two blocks.",
        patch=Patch(
            _CORE,
            "        for block_id, holder in self._steps.close():\n"
            "            self._release([self._blocks[block_id]], holder)\n",
            "        self._steps.close()\n",
        ),
    ),
    Mutant(
        name="destination_is_released_first",
        clauses=("STEP-COPY-2",),
        fault="F16",
        harm="Two engines with the same history evict in another order.",
        patch=Patch(
            _STEPS,
            "return (self.src, self.holder), (self.dst, self.holder)",
            "return (self.dst, self.holder), (self.src, self.holder)",
        ),
    ),
    Mutant(
        name="source_of_a_move_is_let_go",
        clauses=("STEP-COPY-2",),
        fault="F03",
        harm="The moved checkpoint's old block is reused before its state is copied.",
        patch=Patch(
            _REMOVAL,
            "            self._retain_for_move(src, dst)\n",
            "",
        ),
    ),
    Mutant(
        name="copy_gives_up_its_end_early",
        clauses=("STEP-COPY-2",),
        fault="F03",
        harm=(
            "A copy's block is handed out while the device still writes to it, and released a second "
            "time with the step."
        ),
        patch=Patch(
            _REFERENCES,
            "if holder is not None and (block.block_id, holder) in self._steps.kept:",
            "if holder is None and self._steps.kept:",
        ),
    ),
    Mutant(
        name="anyone_speaks_for_the_pools_copies",
        clauses=("STEP-COPY-2", "STEP-NAME-1"),
        fault="F03",
        harm="A caller that picks an unlucky name releases the ends of a copy.",
        patch=Patch(
            _CORE,
            "if self.config.commit is CommitMode.STEPS and name.startswith(POOL_COPY_PREFIX):",
            "if not name:",
        ),
    ),
    Mutant(
        name="request_has_the_name_of_a_copy",
        clauses=("STEP-NAME-1",),
        fault="F02",
        harm="A request that happens to be named like a copy fails, and nothing can take back what it reserved.",
        patch=Patch(
            _CORE,
            "if self.config.commit is CommitMode.STEPS and request.request_id.startswith(COPY_PREFIX):",
            "if not request.request_id:",
        ),
    ),
    Mutant(
        name="moved_key_keeps_its_step",
        clauses=("STEP-MOVE-1",),
        fault="F02",
        harm="The moved checkpoint is served, or published, before its state has arrived.",
        patch=Patch(
            _INDEX,
            "rows[dst] = Unready(step, before.reservation if before else None)",
            "rows.update({dst: before} if before else {})",
        ),
    ),
    Mutant(
        name="moved_key_is_committed_on_the_way",
        clauses=("STEP-MOVE-1",),
        fault="F02",
        harm="A reserved checkpoint that moves can no longer be rolled back, and nobody is told of it.",
        patch=Patch(
            _INDEX,
            "rows[dst] = Unready(step, before.reservation if before else None)",
            "rows[dst] = Unready(step, None)",
        ),
    ),
    Mutant(
        name="key_of_this_step_moves",
        clauses=("STEP-MOVE-2",),
        fault="F09",
        harm="The copy reads the block before the forward pass that computes what the key names.",
        patch=Patch(
            _REMOVAL,
            "if status is not None and status.step == self._steps.current:",
            "if status is not None and status.step > self._steps.current:",
        ),
    ),
    Mutant(
        name="move_lands_on_a_requests_block",
        clauses=("STEP-MOVE-2",),
        fault="F01",
        harm="The request fails, its block is taken back, and with it a key that was committed.",
        patch=Patch(
            _REMOVAL,
            "if dst.writer is None or not dst.writer.startswith(COPY_PREFIX):",
            "if dst.writer is None:",
        ),
    ),
)

_ROLLBACK = (
    Mutant(
        name="rollback_stops_at_the_first_readers",
        clauses=("STEP-ROLLBACK-1",),
        fault="F02",
        harm="The reader of a reader goes on and publishes what it computed from nothing.",
        patch=Patch(
            _STEPS,
            "for writer in found:  # grows while it is walked",
            "for writer in list(found):",
        ),
    ),
    Mutant(
        name="rollback_takes_nobody_along",
        clauses=("STEP-ROLLBACK-1",),
        fault="F02",
        harm="The readers of a failed writer go on and publish what they computed from nothing.",
        patch=Patch(
            _STEPS,
            "if needed == writer and reader not in found]",
            "if needed == writer and reader in found[:0]]",
        ),
    ),
    Mutant(
        name="rollback_drops_the_whole_block",
        clauses=("STEP-ROLLBACK-2",),
        fault="F10",
        harm="One failed request takes the committed prefix of its block out of the cache.",
        patch=Patch(
            _STEPPING,
            "self._drop_keys(block_id, [key])",
            "self.evict.__wrapped__(self, [block_id])",
        ),
    ),
    Mutant(
        name="claims_stay_after_a_rollback",
        clauses=("STEP-ROLLBACK-2",),
        fault="F04",
        harm="The writer can never write its block again: a reader that was rolled back still claims it.",
        patch=Patch(
            _STEPPING,
            "            self._blocks[block_id].holders[reader] = None\n            if",
            "            if",
        ),
    ),
    Mutant(
        name="rollback_forgets_committed_rows",
        clauses=("STEP-ROLLBACK-3",),
        fault="F10",
        harm="The model takes back what was committed, and the checks report readers that are served well.",
        patch=Patch(
            _GHOST,
            "before = self.content_after(block_id, committed) if born <= committed else None",
            "before = None",
        ),
    ),
    Mutant(
        name="failed_rows_are_believed",
        clauses=("STEP-ROLLBACK-3",),
        fault="F02",
        harm="The model takes what a failed step should have written for written.",
        patch=Patch(
            _GHOST,
            "content if step <= committed else _certain(before, content, config)",
            "content",
        ),
    ),
    Mutant(
        name="failed_rows_of_another_slot_are_believed",
        clauses=("STEP-ROLLBACK-3",),
        fault="F02",
        harm="The model takes rows that a failed step overwrote with those of another slot for what they were.",
        patch=Patch(_GHOST, " or len({slot_of(length, group.block_size) for length in lengths}) > 1", ""),
    ),
    Mutant(
        name="failed_state_is_believed",
        clauses=("STEP-ROLLBACK-3",),
        fault="F09",
        harm="The model takes a state that a failed step has half advanced for the one that it should be.",
        patch=Patch(
            _GHOST,
            "return after if before.prefix == after.prefix else None",
            "return after",
        ),
    ),
    Mutant(
        name="content_of_a_former_life_is_believed",
        clauses=("STEP-ROLLBACK-3",),
        fault="F01",
        harm="The model takes a block that was reallocated for holding what its former owner left.",
        patch=Patch(
            _GHOST,
            "before = self.content_after(block_id, committed) if born <= committed else None",
            "before = self.content_after(block_id, committed)",
        ),
    ),
    Mutant(
        name="block_with_reserved_keys_is_released",
        clauses=("STEP-FREE-1",),
        fault="F02",
        harm="A block is freed with keys that its step publishes later, whoever has it then.",
        patch=Patch(
            _REFERENCES,
            "if owner not in taken_back and (is_last or (owner is not None and owner == holder)):",
            "if owner is None and is_last:",
        ),
    ),
    Mutant(
        name="writer_leaves_its_reserved_keys_to_readers",
        clauses=("STEP-FREE-1",),
        fault="F03",
        harm="Nobody writes the block any more, and its keys are published all the same.",
        patch=Patch(
            _REFERENCES,
            "(is_last or (owner is not None and owner == holder)):",
            "is_last:",
        ),
    ),
    Mutant(
        name="finish_releases_before_it_rolls_back",
        clauses=("STEP-FINISH-1",),
        fault="F16",
        harm="Blocks of an aborted request queue behind cached ones, which are evicted for nothing.",
        patch=Patch(
            _STEPPING,
            "        self._roll_back([request_id])\n        self._release(blocks, request_id)\n",
            "        self._release(blocks, request_id)\n        self._roll_back([request_id])\n",
        ),
    ),
    Mutant(
        name="finish_takes_no_dependents_back",
        clauses=("STEP-FINISH-1",),
        fault="F02",
        harm="An aborted writer's readers go on and publish what they computed from nothing.",
        patch=Patch(
            _STEPPING,
            "        self._roll_back([request_id])\n        self._release(blocks, request_id)\n",
            "        dependents = dict(self._steps.depends)\n"
            "        self._steps.depends.clear()\n"
            "        self._roll_back([request_id])\n"
            "        self._steps.depends.update(dependents)\n"
            "        self._release(blocks, request_id)\n",
        ),
    ),
    Mutant(
        name="immediate_pool_takes_steps",
        clauses=("STEP-IMMEDIATE-1",),
        fault="F02",
        harm="A caller believes that its keys are reserved, while they were published at once.",
        patch=Patch(
            _STEPPING,
            "if self.config.commit is not CommitMode.STEPS:",
            "if not self.config.commit:",
        ),
    ),
    Mutant(
        name="immediate_keys_wait_for_ever",
        clauses=("STEP-IMMEDIATE-1",),
        fault="F10",
        harm="A pool without steps caches nothing.",
        patch=Patch(
            _CORE,
            "        self._commit_next_step()\n        return result\n",
            "        return result\n",
        ),
    ),
)

_INVARIANTS_OF_STEPS = (
    Mutant(
        name="attaching_in_no_step_is_not_seen",
        clauses=("INV-STEPS-1",),
        fault="F04",
        harm=_UNSEEN + "a reader waits for a step that is not open.",
        patch=Patch(
            _INVARIANTS,
            '_require(0 < ahead <= state.steps.open, "INV-STEPS-1", ',
            '_require(True, "INV-STEPS-1", ',
        ),
    ),
    Mutant(
        name="dependency_on_no_step_is_not_seen",
        clauses=("INV-STEPS-1",),
        fault="F04",
        harm=_UNSEEN + "a request depends on another one for ever.",
        patch=Patch(
            _INVARIANTS,
            "known = 0 < ahead <= steps.open",
            "known = ahead <= steps.open",
        ),
    ),
    Mutant(
        name="birth_in_no_step_is_not_seen",
        clauses=("INV-STEPS-1",),
        fault="F01",
        harm=_UNSEEN + "a block belongs to a step to come.",
        patch=Patch(
            _INVARIANTS,
            '_require(block.age <= steps.open, "INV-STEPS-1", ',
            '_require(True, "INV-STEPS-1", ',
        ),
    ),
    Mutant(
        name="forgotten_reservation_is_not_seen",
        clauses=("INV-STATUS-1",),
        fault="F10",
        harm=_UNSEEN + "a key stays reserved though its step is committed.",
        patch=Patch(
            _INVARIANTS,
            '_require(entry.ahead > 0 or entry.owner is None, "INV-STATUS-1", ',
            '_require(True, "INV-STATUS-1", ',
        ),
    ),
    Mutant(
        name="key_of_a_former_life_is_not_seen",
        clauses=("INV-STATUS-1",),
        fault="F01",
        harm=_UNSEEN + "a key is older than what its block holds.",
        patch=Patch(
            _INVARIANTS,
            "born = block.age <= entry.ahead",
            "born = block.age <= open_steps",
        ),
    ),
    Mutant(
        name="free_block_with_a_reserved_key_is_not_seen",
        clauses=("INV-RESERVED-1",),
        fault="F02",
        harm=_UNSEEN + "a block is free whose key is published later.",
        patch=Patch(
            _INVARIANTS,
            '_require(block.ref_cnt > 0, "INV-RESERVED-1", ',
            '_require(True, "INV-RESERVED-1", ',
        ),
    ),
    Mutant(
        name="key_reserved_by_a_stranger_is_not_seen",
        clauses=("INV-RESERVED-2",),
        fault="F03",
        harm=_UNSEEN + "a key is taken back with a request that never wrote it.",
        patch=Patch(
            _INVARIANTS,
            "owned = by_copy or block.writer == entry.owner",
            "owned = by_copy or entry.owner is not None",
        ),
    ),
    Mutant(
        name="reserved_copies_are_counted",
        clauses=("INV-EVENTS-2",),
        fault="F02",
        harm="The checks demand a stream that tells of keys that nobody has computed.",
        patch=Patch(
            _INVARIANTS,
            "for entry in block.entries if entry.owner is None)",
            "for entry in block.entries)",
        ),
    ),
    Mutant(
        name="attaching_without_reading_is_not_seen",
        clauses=("INV-SERVED-2",),
        fault="F04",
        harm=_UNSEEN + "a request depends on a block that it does not read.",
        patch=Patch(
            _INVARIANTS,
            '_require(reads, "INV-SERVED-2", ',
            '_require(True, "INV-SERVED-2", ',
        ),
    ),
    Mutant(
        name="reader_that_writes_is_not_seen",
        clauses=("INV-SERVED-2",),
        fault="F03",
        harm=_UNSEEN + "a reader may overwrite what it shares.",
        patch=Patch(
            _INVARIANTS,
            '_require(block.writer != holder, "INV-SERVED-2", ',
            '_require(True, "INV-SERVED-2", ',
        ),
    ),
    Mutant(
        name="reader_of_another_slot_is_not_seen",
        clauses=("INV-SERVED-2",),
        fault="F07",
        harm=_UNSEEN + "a reader has the rows of another part of the prompt.",
        patch=Patch(
            _INVARIANTS,
            '_require(slot == block.slot, "INV-SERVED-2", ',
            '_require(True, "INV-SERVED-2", ',
        ),
    ),
    Mutant(
        name="reader_of_a_former_life_is_not_seen",
        clauses=("INV-SERVED-2",),
        fault="F01",
        harm=_UNSEEN + "a reader's block was reallocated under it.",
        patch=Patch(
            _INVARIANTS,
            '_require(alive, "INV-SERVED-2", ',
            '_require(True, "INV-SERVED-2", ',
        ),
    ),
    Mutant(
        name="reader_that_depends_on_nobody_is_not_seen",
        clauses=("INV-DEPENDS-1",),
        fault="F02",
        harm=_UNSEEN + "a reader survives the failure of its writer.",
        patch=Patch(
            _INVARIANTS,
            "depends = block.writer is None or any(until >= ahead for until in needs)",
            "depends = block.writer is None or ahead > 0",
        ),
    ),
    Mutant(
        name="short_dependency_is_not_seen",
        clauses=("INV-DEPENDS-1",),
        fault="F02",
        harm=_UNSEEN + "a reader is let go before the step of its key.",
        patch=Patch(
            _INVARIANTS,
            "any(until >= ahead for until in needs)",
            "any(until > 0 for until in needs)",
        ),
    ),
    Mutant(
        name="eviction_changes_the_place",
        clauses=("INV-LRU-1", "POOL-EVICT-2"),
        fault="F16",
        harm="What is evicted while free is not taken in its turn, and a replayed trace diverges.",
        patch=Patch(
            _REMOVAL,
            "        for block in blocks:\n            self._drop_keys(block.block_id)\n",
            "        for block in blocks:\n"
            "            self._drop_keys(block.block_id)\n"
            "            if block.ref_cnt == 0:\n"
            "                self._free.prepend([block.block_id])\n",
        ),
    ),
    Mutant(
        name="ends_of_copies_go_last",
        clauses=(
            "INV-LRU-1",
            "STEP-COPY-2",
        ),
        fault="F16",
        harm="Blocks without a key queue behind cached ones, which are evicted for nothing.",
        patch=Patch(
            _CORE,
            "            self._release([self._blocks[block_id]], holder)\n        if",
            "            self._release([self._blocks[block_id]], holder)\n"
            "            if block_id in self._free._order:\n"
            "                self._free._order.move_to_end(block_id)\n"
            "        if",
        ),
    ),
)

MUTANTS = (*_PREMATURE, *_LIFE, *_READERS, *_KEYS, *_ROLLBACK, *_INVARIANTS_OF_STEPS)
