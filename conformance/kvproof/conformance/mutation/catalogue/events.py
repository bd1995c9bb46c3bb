"""Mutants of chapter 80: the event stream."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_LOG = "kvproof.reference.event_log"
_MIRROR = "kvproof.reference.mirror"
_REMOVAL = "kvproof.reference.removal"

_EMIT_REMOVED = (
    "        for resident in self._dropped:\n"
    "            if not self._is_resident(resident):\n"
    "                group, digest = split_key(resident if isinstance(resident, bytes) else resident[0])\n"
    "                self._pending.append(Removed(group, digest))\n"
)

_STREAM = (
    Mutant(
        name="every_drop_is_announced",
        clauses=("EVENT-NET-1", "EVENT-RESIDENCY-1"),
        fault="F13",
        harm="A key that is dropped and registered again in one operation, or has another copy, vanishes from routers.",
        patch=Patch(_LOG, "if not self._is_resident(resident):", "if self._was_resident[resident]:"),
    ),
    Mutant(
        name="stored_comes_before_removed",
        clauses=("EVENT-ORDER-1",),
        fault="F13",
        harm="A consumer with room for the resident keys and no more overflows, or takes the new key for removed.",
        patch=Patch(
            _LOG,
            "        self.discard()\n\n    def clone",
            "        self._pending.sort(key=lambda event: isinstance(event, Removed))\n"
            "        self.discard()\n\n    def clone",
        ),
    ),
    Mutant(
        name="events_are_delivered_again",
        clauses=("EVENT-DRAIN-1",),
        fault="F14",
        harm="A consumer that counts copies counts each one again at every drain.",
        patch=Patch(_LOG, "drained, self._pending = self._pending, []", "drained = list(self._pending)"),
    ),
    Mutant(
        name="events_of_the_last_operation_only",
        clauses=("EVENT-DRAIN-1",),
        fault="F14",
        harm="What happened between two drains is lost except for its end.",
        patch=Patch(_LOG, _EMIT_REMOVED, "        self._pending.clear()\n" + _EMIT_REMOVED),
    ),
    Mutant(
        name="newest_events_come_first",
        clauses=("EVENT-DRAIN-1",),
        fault="F14",
        harm="A key stored and then removed between two drains stays with the router for ever.",
        patch=Patch(_LOG, "        return drained\n", "        return drained[::-1]\n"),
    ),
    Mutant(
        name="each_copy_is_announced",
        clauses=("EVENT-RESIDENCY-1",),
        fault="F13",
        harm="The first of two copies that is evicted makes the router forget the key.",
        patch=Patch(
            _LOG,
            "return key if self._config.residency is Residency.LOGICAL else (key, block_id)",
            "return (key, block_id)",
        ),
    ),
    Mutant(
        name="copies_are_never_announced",
        clauses=("EVENT-RESIDENCY-2",),
        fault="F13",
        harm="A consumer that was promised one event per copy misses all but the first and the last.",
        patch=Patch(
            _LOG, "return key if self._config.residency is Residency.LOGICAL else (key, block_id)", "return key"
        ),
    ),
    Mutant(
        name="cleared_is_not_announced",
        clauses=("EVENT-CLEARED-1",),
        fault="F15",
        harm="Routers prefer an engine whose cache is empty.",
        patch=Patch(_REMOVAL, "        self._log.note_clear()\n", ""),
    ),
    Mutant(
        name="cleared_swallows_what_was_pending",
        clauses=("EVENT-CLEARED-1",),
        fault="F14",
        harm="An offload tier never hears of the blocks stored just before the reset.",
        patch=Patch(_LOG, "self._pending.append(Cleared())", "self._pending = [Cleared()]"),
    ),
    Mutant(
        name="reset_announces_every_removal_too",
        clauses=("EVENT-CLEARED-1",),
        fault="F13",
        harm="A reset of a large cache floods every consumer with events that Cleared already says.",
        patch=Patch(
            _REMOVAL,
            "        self._index.clear()\n",
            "        for block in self._blocks:\n            self._drop_keys(block.block_id)\n",
        ),
    ),
)

_REMOVED = (
    Mutant(
        name="removed_names_no_group",
        clauses=("EVENT-REMOVED-1",),
        fault="F12",
        harm="The removal of a window's block makes the router forget the full-attention block of the same tokens.",
        patch=Patch(_LOG, "self._pending.append(Removed(group, digest))", "self._pending.append(Removed(0, digest))"),
    ),
    Mutant(
        name="consumer_accepts_any_removal",
        clauses=("EVENT-REMOVED-1",),
        fault="F13",
        harm="The check no longer sees a stream that removes what was never there.",
        patch=Patch(
            _MIRROR, "if not self.resident[key]:\n            raise", "if self.resident[key] < 0:\n            raise"
        ),
    ),
    Mutant(
        name="removals_in_order_of_the_first_drop",
        clauses=("EVENT-REMOVED-2",),
        fault="F13",
        harm="Two engines with the same history send different streams, and their digests never agree.",
        patch=Patch(_LOG, "        self._dropped.pop(resident, None)\n", ""),
    ),
)

_STORED = (
    Mutant(
        name="hashes_stand_in_descending_order",
        clauses=("EVENT-STORED-1",),
        fault="F12",
        harm="A consumer that chains the hashes as they come attaches each block to its own child.",
        patch=Patch(_LOG, "for new in run),\n            parent", "for new in reversed(run)),\n            parent"),
    ),
    Mutant(
        name="consumer_accepts_hashes_in_any_order",
        clauses=("EVENT-STORED-1",),
        fault="F12",
        harm="The check no longer sees an event whose hashes do not ascend.",
        patch=Patch(_MIRROR, "if not positions or positions != sorted(set(positions)):", "if not positions:"),
    ),
    Mutant(
        name="stored_has_the_last_block_only",
        clauses=("EVENT-STORED-2",),
        fault="F12",
        harm="A router that computes the hashes itself gets tokens that do not give them.",
        patch=Patch(
            _LOG,
            "tokens=tuple(prefix.tokens[start:end])",
            "tokens=tuple(prefix.tokens[end - self._config.groups[run[0].group].block_size : end])",
        ),
    ),
    Mutant(
        name="stored_has_all_extra_keys",
        clauses=("EVENT-STORED-2",),
        fault="F12",
        harm="The event names an image that its tokens do not touch, and the consumer files it under that image.",
        patch=Patch(
            _LOG,
            " for extra in prefix.extra_keys if covers(extra, start, end)),",
            " for extra in prefix.extra_keys),",
        ),
    ),
    Mutant(
        name="stored_has_no_extra_keys",
        clauses=("EVENT-STORED-2",),
        fault="F12",
        harm="Nobody but the engine can compute the hashes of a request with an adapter.",
        patch=Patch(
            _LOG,
            "extra_keys=tuple(extra for extra in prefix.extra_keys if covers(extra, start, end)),",
            "extra_keys=(),",
        ),
    ),
    Mutant(
        name="consumer_recomputes_nothing",
        clauses=("EVENT-STORED-2",),
        fault="F12",
        harm="The check no longer sees tokens from which the hashes do not follow.",
        patch=Patch(
            _MIRROR,
            "if [prefix for prefix in chain if prefix.position in positions] != list(event.hashes):",
            "if not chain:",
        ),
    ),
    Mutant(
        name="consumer_accepts_foreign_extra_keys",
        clauses=("EVENT-STORED-2",),
        fault="F12",
        harm="The check no longer sees an extra key that covers none of the event's tokens.",
        patch=Patch(_MIRROR, "if not all(covers(", "if event.extra_keys and not any(covers("),
    ),
    Mutant(
        name="second_copy_is_stored_again",
        clauses=("EVENT-STORED-3", "EVENT-RESIDENCY-1"),
        fault="F13",
        harm="A consumer that counts Stored events keeps the key after it is gone.",
        patch=Patch(
            _LOG,
            "self._is_resident(resident)) or self._is_resident(resident):",
            "self._is_resident(resident)) and registration.position < 0:",
        ),
    ),
    Mutant(
        name="consumer_accepts_a_second_stored",
        clauses=("EVENT-STORED-3",),
        fault="F13",
        harm="The check no longer sees that a resident key is announced again.",
        patch=Patch(
            _MIRROR,
            "if self._config.residency is Residency.LOGICAL and self.resident[key]:",
            "if self._config.residency is Residency.LOGICAL and self.resident[key] < 0:",
        ),
    ),
    Mutant(
        name="runs_go_on_over_gaps",
        clauses=("EVENT-STORED-4",),
        fault="F12",
        harm="The tokens of skipped slots stand in an event whose hashes leave them out.",
        patch=Patch(
            _LOG,
            "return (new.call, new.position) == (last.call, next_slot)",
            "return new.call == last.call",
        ),
    ),
    Mutant(
        name="each_slot_is_an_event",
        clauses=("EVENT-STORED-4",),
        fault="F12",
        harm="A long prompt sends one event for every block, and the event queue overflows.",
        patch=Patch(
            _LOG,
            "return (new.call, new.position) == (last.call, next_slot)",
            "return (new.call, new.position) == (last.call, last.position)",
        ),
    ),
    Mutant(
        name="run_is_counted_in_hash_units",
        clauses=("EVENT-STORED-4",),
        fault="F07",
        harm="Where blocks are larger than the hash unit, no two slots are taken for neighbours.",
        patch=Patch(
            _LOG,
            "next_slot = last.position + self._config.groups[new.group].block_size",
            "next_slot = last.position + self._config.hash_block_size",
        ),
    ),
)

_PARENT = (
    Mutant(
        name="parent_was_never_announced",
        clauses=("EVENT-PARENT-1",),
        fault="F12",
        harm="The router hangs the block under a prefix that it does not know and never finds it.",
        patch=Patch(
            _LOG,
            "if any(self._is_known(make_key(group, digest)) for group in range(len(self._config.groups))):",
            "if digest:",
        ),
    ),
    Mutant(
        name="parent_is_of_the_first_group",
        clauses=("EVENT-PARENT-1",),
        fault="F12",
        harm="The blocks of the second group repeat the whole prompt in every event.",
        patch=Patch(_LOG, "for group in range(len(self._config.groups))):", "for group in range(1)):"),
    ),
    Mutant(
        name="parent_is_a_whole_block_before",
        clauses=("EVENT-PARENT-1",),
        fault="F12",
        harm="The partial key between two blocks is passed over, and its tokens are sent again.",
        patch=Patch(
            _LOG,
            "for ancestor in range(prefix.length - h, 0, -h):",
            "for ancestor in range(prefix.length - max(g.block_size for g in self._config.groups), 0, -h):",
        ),
    ),
    Mutant(
        name="consumer_accepts_any_parent",
        clauses=("EVENT-PARENT-1",),
        fault="F12",
        harm="The check no longer sees a parent that nobody announced.",
        patch=Patch(
            _MIRROR, "if event.parent is not None and not self._knows(event.parent):", "if event.parent is self:"
        ),
    ),
    Mutant(
        name="consumer_accepts_a_distant_parent",
        clauses=("EVENT-PARENT-1",),
        fault="F12",
        harm="The check no longer sees that a longer prefix than the parent was announced.",
        patch=Patch(
            _MIRROR, "if any(self._knows(prefix) for prefix in chain if", "if any(not prefix for prefix in chain if"
        ),
    ),
)

MUTANTS = (*_STREAM, *_REMOVED, *_STORED, *_PARENT)
