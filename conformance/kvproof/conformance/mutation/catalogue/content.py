"""Mutants of chapter 70: what blocks hold, and who may change it."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_CONTENT = "kvproof.reference.content"
_CORE = "kvproof.reference.core"
_GHOST = "kvproof.reference.ghost"
_REMOVAL = "kvproof.reference.removal"

_WRITE = (
    Mutant(
        name="state_of_a_longer_prefix_will_do",
        clauses=("INV-SOUND-1",),
        fault="F09",
        harm="The check accepts a recurrent state that has already seen tokens after the key: answers go wrong unseen.",
        patch=Patch(
            _GHOST,
            "return self.prefix == prefix",
            "return self.prefix.begins_with(prefix)",
        ),
    ),
    Mutant(
        name="rows_of_another_slot_will_do",
        clauses=("INV-SOUND-1",),
        fault="F07",
        harm="The check accepts a block that holds the rows of a later part of the prompt.",
        patch=Patch(
            _GHOST,
            "return same_slot and self.prefix",
            "return self.prefix",
        ),
    ),
    Mutant(
        name="rows_of_another_group_will_do",
        clauses=("INV-SOUND-1",),
        fault="F07",
        harm="The check accepts attention rows under the key of a recurrent state.",
        patch=Patch(
            _GHOST,
            "        if self.group != group:\n            return False\n",
            "",
        ),
    ),
    Mutant(
        name="shorter_write_is_allowed",
        clauses=("CONTENT-WRITE-1",),
        fault="F09",
        harm="A preempted request that starts over leaves a cached block with rows that are not computed yet.",
        patch=Patch(_CONTENT, "if recurrent or covered_position > position or ", "if recurrent or "),
    ),
    Mutant(
        name="write_of_another_text_is_allowed",
        clauses=("CONTENT-WRITE-1",),
        fault="F01",
        harm="After a truncation the new tokens overwrite rows that the old key still promises.",
        patch=Patch(
            _CONTENT,
            "covered_position > position or request.hash_at(covered_position) != digest:",
            "covered_position > position:",
        ),
    ),
    Mutant(
        name="readers_do_not_stop_a_write",
        clauses=("CONTENT-WRITE-1",),
        fault="F01",
        harm="Once the key of a block is evicted, its writer overwrites what a reader is reading.",
        patch=Patch(
            _CONTENT,
            "for served in block.holders.values() if served is not None]\n        recurrent",
            "for served in () if served is not None]\n        recurrent",
        ),
    ),
    Mutant(
        name="state_with_a_key_is_overwritten",
        clauses=("CONTENT-WRITE-2",),
        fault="F09",
        harm="A checkpoint's state runs on past the boundary that its key names.",
        patch=Patch(_CONTENT, "if recurrent or covered_position > position", "if covered_position > position"),
    ),
    Mutant(
        name="free_block_is_written",
        clauses=("CONTENT-WRITE-3", "POOL-NULL-1"),
        fault="F03",
        harm="A request whose blocks were freed under it writes into the next owner's block.",
        patch=Patch(
            _CONTENT,
            "        self._check_writer(block, request.request_id)\n",
            "",
        ),
    ),
    Mutant(
        name="write_ignores_the_slot",
        clauses=("CONTENT-WRITE-3",),
        fault="F07",
        harm="The rows of one part of the prompt land in the block of another part.",
        patch=Patch(
            _CONTENT,
            "        self._check_identity(block, group, slot_of(position, block_size))\n",
            "",
        ),
    ),
    Mutant(
        name="only_hashed_tokens_are_written",
        clauses=("CONTENT-WRITE-3",),
        fault="F07",
        harm="The last few tokens of a prompt cannot be computed: their position has no hash.",
        patch=Patch(
            _CONTENT,
            'check_int("position", position, 1, request.num_tokens)',
            'check_int("position", position, 1, request.hashed_length)',
        ),
    ),
)

_COPY = (
    Mutant(
        name="copy_takes_more_than_was_served",
        clauses=("CONTENT-COPY-1",),
        fault="F09",
        harm="The private copy holds rows of the other request's continuation as if they were the reader's own.",
        patch=Patch(
            _CONTENT,
            "            if content is not None and served is not None:\n"
            "                content = Content(served, content.group)\n",
            "",
        ),
    ),
    Mutant(
        name="copy_takes_the_source_out_of_use",
        clauses=("CONTENT-COPY-1",),
        fault="F03",
        harm="The source is reused while the copy is still being made.",
        patch=Patch(
            _CONTENT,
            "            self.ghost.hold(dst_id, content, self._steps.current)\n",
            "            self.ghost.hold(dst_id, content, self._steps.current)\n"
            "        src.remove_holder(holder)\n"
            "        self._free.prepend([src_id] if src.ref_cnt == 0 else [])\n",
        ),
    ),
    Mutant(
        name="copy_source_need_not_be_held",
        clauses=("CONTENT-COPY-2",),
        fault="F09",
        harm="The source of a partial hit is evicted and reused before it is copied.",
        patch=Patch(_CONTENT, "        self._check_held(src, holder)\n", ""),
    ),
    Mutant(
        name="copy_target_may_be_another_writers",
        clauses=("CONTENT-COPY-2",),
        fault="F03",
        harm="A reader's copy overwrites the block of the request that is writing it.",
        patch=Patch(
            _CONTENT, "if holder is not None and dst.writer != holder:", "if holder is not None and dst.ref_cnt < 0:"
        ),
    ),
    Mutant(
        name="copy_overwrites_a_cached_block",
        clauses=("CONTENT-COPY-2",),
        fault="F01",
        harm="A copy lands on a block whose keys go on naming what it held before.",
        patch=Patch(
            _CONTENT,
            "        self._check_overwritable(dst)\n",
            "",
        ),
    ),
    Mutant(
        name="move_onto_itself",
        clauses=("POOL-MOVE-3", "CONTENT-COPY-2"),
        fault="F03",
        harm="A move whose target was chosen wrong passes, and the state is overwritten in place.",
        patch=Patch(
            _CORE,
            "        if src is dst:\n"
            '            raise InvalidBlock(f"block {src_id} cannot be copied or moved onto itself")\n',
            "",
        ),
    ),
    Mutant(
        name="anyone_reads_a_block",
        clauses=("CONTENT-READ-1",),
        fault="F03",
        harm="A request reads a block that it does not hold and that is reused under its hands.",
        patch=Patch(
            _CONTENT,
            "        self._check_held(block, holder)\n        content = self.ghost",
            "        content = self.ghost",
        ),
    ),
    Mutant(
        name="keys_move_without_their_content",
        clauses=("CONTENT-MOVE-1",),
        fault="F02",
        harm="The checkpoint's key is found on a fresh block before, or without ever, its state arriving there.",
        patch=Patch(
            _REMOVAL,
            "        if self.ghost is not None:\n"
            "            moved = self.ghost.content_after(src_id, self._steps.current - 1)\n"
            "            self.ghost.hold(dst_id, moved, self._steps.current)\n",
            "",
        ),
    ),
)

MUTANTS = (*_WRITE, *_COPY)
