"""Mutants of chapter 50: registration."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_CORE = "kvproof.reference.core"
_REGISTRATION = "kvproof.reference.registration"
_REMOVAL = "kvproof.reference.removal"

_RULES = (
    Mutant(
        name="key_is_registered_twice",
        clauses=("REG-DUPLICATE-1",),
        fault="F05",
        harm="A partial key that is registered every step stands on its block many times and survives its eviction.",
        patch=Patch(
            _REGISTRATION,
            "        if not replace and self._index.contains(key, block.block_id):\n            return None\n",
            "",
        ),
    ),
    Mutant(
        name="duplicate_needs_the_writer",
        clauses=("REG-DUPLICATE-1",),
        fault="F03",
        harm="A request that was served a block and walks its table as usual is refused.",
        patch=Patch(
            _REGISTRATION,
            "        if not replace and self._index.contains(key, block.block_id):\n"
            "            return None\n"
            "        self._check_writer(block, request.request_id)\n",
            "        self._check_writer(block, request.request_id)\n"
            "        if not replace and self._index.contains(key, block.block_id):\n"
            "            return None\n",
        ),
    ),
    Mutant(
        name="every_holder_is_a_writer",
        clauses=("REG-OWNER-1", "CONTENT-WRITE-3"),
        fault="F03",
        harm="A reader names, or overwrites, rows that their writer goes on changing.",
        patch=Patch(
            _REGISTRATION,
            "if self.config.holders is HolderMode.NAMED and block.writer != holder:",
            "if self.config.holders is HolderMode.NAMED and holder not in block.holders:",
        ),
    ),
    Mutant(
        name="free_block_is_registered",
        clauses=("REG-OWNER-2",),
        fault="F01",
        harm="A request that was preempted and freed still publishes a block that is about to be reused.",
        patch=Patch(
            _REGISTRATION,
            "if block.ref_cnt == 0:",
            "if block.ref_cnt < 0:",
        ),
    ),
    Mutant(
        name="slot_is_not_checked",
        clauses=("REG-SLOT-1", "CONTENT-WRITE-3"),
        fault="F07",
        harm="A block registered at the wrong index of a table serves the rows of another part of the prompt.",
        patch=Patch(
            _REGISTRATION,
            "(block.group, block.slot) != (group, slot):",
            "block.group != group:",
        ),
    ),
    Mutant(
        name="group_is_not_checked",
        clauses=("REG-SLOT-1",),
        fault="F07",
        harm="A block of attention rows gets the key of a recurrent state.",
        patch=Patch(_REGISTRATION, "(block.group, block.slot) != (group, slot):", "block.slot != slot:"),
    ),
    Mutant(
        name="eviction_forgets_the_slot",
        clauses=("REG-SLOT-1", "POOL-EVICT-2"),
        fault="F07",
        harm="A block whose key was evicted can be registered again as another part of the prompt.",
        patch=Patch(
            _REMOVAL,
            "        for block in blocks:\n            self._drop_keys(block.block_id)\n",
            "        for block in blocks:\n            self._drop_keys(block.block_id)\n"
            "            block.group = block.slot = None\n",
        ),
    ),
    Mutant(
        name="foreign_keys_are_overlooked",
        clauses=("REG-CONFLICT-1",),
        fault="F01",
        harm="One block serves two prompts that differ, and one of them is wrong.",
        patch=Patch(
            _REGISTRATION,
            "        self._check_own_keys(block, request)\n",
            "",
        ),
    ),
    Mutant(
        name="key_beyond_the_request_is_its_own",
        clauses=("REG-CONFLICT-1",),
        fault="F01",
        harm="After a truncation a shorter key joins one of the discarded text, and both are served.",
        patch=Patch(
            _REGISTRATION,
            "        if request.hash_at(position) != split_key(key)[1]:\n",
            "        if request.hash_at(position) not in (None, split_key(key)[1]):\n",
        ),
    ),
    Mutant(
        name="slots_are_registered_one_by_one",
        clauses=("REG-ATOMIC-1", "ERR-ATOMIC-1"),
        fault="F13",
        harm="A refused call has registered its first slots, and no event tells anybody.",
        patch=Patch(
            _REGISTRATION,
            "self._register(request, group, [self._plan(block, request, group, end, replace) for block, end in ends])",
            "[self._register(request, group, [self._plan(block, request, group, end, replace)]) for "
            "block, end in ends]",
        ),
    ),
)

_FULL = (
    Mutant(
        name="table_is_read_from_its_beginning",
        clauses=("REG-FULL-1",),
        fault="F07",
        harm="The second chunk of a prompt is registered on the blocks of the first.",
        patch=Patch(
            _REGISTRATION,
            "ends = [(blocks[slot], slot_end(slot, block_size)) for slot in slots]",
            "ends = [(blocks[slot - first], slot_end(slot, block_size)) for slot in slots]",
        ),
    ),
    Mutant(
        name="last_slot_is_left_out",
        clauses=("REG-FULL-1",),
        fault="F10",
        harm="The last full block of every prompt is never found.",
        patch=Patch(
            _REGISTRATION,
            "slots = [slot for slot in range(first, last) if",
            "slots = [slot for slot in range(first, last - 1) if",
        ),
    ),
    Mutant(
        name="mask_is_ignored",
        clauses=("REG-FULL-2",),
        fault="F09",
        harm="Slots whose state was not kept are registered all the same.",
        patch=Patch(
            _REGISTRATION, "if chosen[slot - first] and not blocks[slot].is_null]", "if not blocks[slot].is_null]"
        ),
    ),
    Mutant(
        name="null_slot_is_not_skipped",
        clauses=("REG-FULL-2",),
        fault="F03",
        harm="A window's table, null where the window has passed, can no longer be registered.",
        patch=Patch(_REGISTRATION, "if chosen[slot - first] and not blocks[slot].is_null]", "if chosen[slot - first]]"),
    ),
    Mutant(
        name="promotion_keeps_the_shorter_keys",
        clauses=("REG-FULL-3",),
        fault="F01",
        harm="Retired partial keys stay findable beside the full one and are announced as resident for ever.",
        patch=Patch(
            _CORE,
            "        keys = self._index.keys_of(block_id)\n        earlier",
            "        if registration.position % self.config.groups[registration.group].block_size == 0:\n"
            "            return\n"
            "        keys = self._index.keys_of(block_id)\n"
            "        earlier",
        ),
    ),
    Mutant(
        name="range_may_exceed_the_hashes",
        clauses=("REG-FULL-4",),
        fault="F07",
        harm="Registering a block that is not computed yet crashes the engine instead of being refused.",
        patch=Patch(_REGISTRATION, "min(len(blocks), request.hashed_length // block_size)", "len(blocks)"),
    ),
    Mutant(
        name="mask_may_have_any_length",
        clauses=("REG-FULL-4",),
        fault="F07",
        harm="A mask made for the whole table, not for the range, registers the wrong slots.",
        patch=Patch(_REGISTRATION, "if len(chosen) != length:", "if len(chosen) < length:"),
    ),
    Mutant(
        name="block_may_stand_in_two_slots",
        clauses=("REG-FULL-4",),
        fault="F07",
        harm="One block gets the keys of two parts of the prompt and serves one of them wrong.",
        patch=Patch(
            _REGISTRATION,
            "if len({blocks[slot].block_id for slot in slots}) != len(slots):",
            "if len({blocks[slot].block_id for slot in slots}) > len(slots):",
        ),
    ),
)

_PARTIAL = (
    Mutant(
        name="first_boundary_is_not_registered",
        clauses=("REG-PARTIAL-1",),
        fault="F10",
        harm="Prompts that share only their first few tokens never hit.",
        patch=Patch(
            _REGISTRATION,
            "        self._register(request, group, [self._plan(block, request, group, position, replace)])\n",
            "        if position > self.config.hash_block_size:\n"
            "            self._register(request, group, [self._plan(block, request, group, position, "
            "replace)])\n",
        ),
    ),
    Mutant(
        name="slot_end_is_no_partial_position",
        clauses=("REG-PARTIAL-2",),
        fault="F10",
        harm="A prompt whose tail fills its block exactly is never cached to its end.",
        patch=Patch(
            _REGISTRATION,
            "        self._register(request, group, [self._plan(block, request, group, position, replace)])\n",
            "        if not is_full(position, self.config.groups[group].block_size):\n"
            "            self._register(request, group, [self._plan(block, request, group, position, "
            "replace)])\n",
        ),
    ),
    Mutant(
        name="longer_partial_key_is_added",
        clauses=("REG-PARTIAL-3",),
        fault="F04",
        harm="A growing prompt leaves one key for every boundary that it passed.",
        patch=Patch(
            _CORE,
            "        keys = self._index.keys_of(block_id)\n        earlier",
            "        if registration.position % self.config.groups[registration.group].block_size:\n"
            "            return\n"
            "        keys = self._index.keys_of(block_id)\n"
            "        earlier",
        ),
    ),
    Mutant(
        name="shorter_partial_key_is_dropped",
        clauses=("REG-PARTIAL-4",),
        fault="F10",
        harm="The shared system prompt inside a longer one's block is never found.",
        patch=Patch(
            _REGISTRATION,
            "if is_full(longest, self.config.groups[group].block_size):",
            "if position < longest:",
        ),
    ),
    Mutant(
        name="shorter_partial_key_replaces_the_longer",
        clauses=("REG-PARTIAL-4",),
        fault="F10",
        harm="A short prompt takes the longer prefix out of the cache.",
        patch=Patch(
            _REGISTRATION,
            "return Plan(block, position, ())",
            "return Plan(block, position, present)",
        ),
    ),
    Mutant(
        name="retired_partial_key_comes_back",
        clauses=("REG-PARTIAL-5",),
        fault="F01",
        harm="The tail of a prompt, registered again after its block was filled, resurrects the old key.",
        patch=Patch(
            _REGISTRATION,
            "        if is_full(longest, self.config.groups[group].block_size):\n            return None\n",
            "",
        ),
    ),
)

_RECURRENT_AND_REPLACE = (
    Mutant(
        name="recurrent_block_takes_many_keys",
        clauses=("REG-RECURRENT-1",),
        fault="F09",
        harm="One state is served for two prefixes, and a reader goes on from the wrong one.",
        patch=Patch(
            _REGISTRATION,
            "if self.config.groups[group].kind is GroupKind.RECURRENT:",
            "if group < 0:",
        ),
    ),
    Mutant(
        name="full_recurrent_key_replaces_silently",
        clauses=("REG-RECURRENT-1",),
        fault="F09",
        harm="A checkpoint disappears although nobody moved or replaced it.",
        patch=Patch(
            _REGISTRATION,
            "        if self.config.groups[group].kind is GroupKind.RECURRENT:\n",
            "        is_full_key = is_full(position, self.config.groups[group].block_size)\n"
            "        if self.config.groups[group].kind is GroupKind.RECURRENT and not is_full_key:\n",
        ),
    ),
    Mutant(
        name="replace_keeps_the_same_key",
        clauses=("REG-REPLACE-1",),
        fault="F01",
        harm="A longer key outlives the overwrite that `replace` announced.",
        patch=Patch(
            _REGISTRATION,
            "if not replace and self._index.contains(key, block.block_id):",
            "if self._index.contains(key, block.block_id):",
        ),
    ),
    Mutant(
        name="replace_is_ignored",
        clauses=("REG-REPLACE-1",),
        fault="F09",
        harm="A recurrent state that is overwritten in place cannot be registered again.",
        patch=Patch(
            _REGISTRATION,
            "if replace or not present:",
            "if not present:",
        ),
    ),
    Mutant(
        name="replace_needs_no_writer",
        clauses=("REG-REPLACE-1",),
        fault="F03",
        harm="A reader takes the writer's keys off a block and puts its own there.",
        patch=Patch(
            _REGISTRATION,
            "        self._check_writer(block, request.request_id)\n",
            "        if not replace:\n            self._check_writer(block, request.request_id)\n",
        ),
    ),
)

MUTANTS = (*_RULES, *_FULL, *_PARTIAL, *_RECURRENT_AND_REPLACE)
