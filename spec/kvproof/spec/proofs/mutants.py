"""Broken transitions that the proofs must refute: each is a small change of one transition, and the theorem it breaks.

A theorem that no mutant breaks might hold of anything.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from kvproof.spec.machine.transitions import Transition

TRANSITIONS_MODULE = "kvproof.spec.machine.transitions"


@dataclass(frozen=True, slots=True)
class MachineMutant:
    """`old` becomes `new` in the transitions; `transition` then breaks `theorem`. `fact` as in `Obligation`."""

    name: str
    transition: str
    theorem: str
    old: str
    new: str
    fact: bool = False


class MutantDoesNotApply(ValueError):
    """The text that a mutant replaces is not there exactly once."""


def mutated_transitions(mutant: MachineMutant) -> tuple[Transition, ...]:
    """The transitions with the mutant's change, compiled beside the real ones."""
    original = import_module(TRANSITIONS_MODULE)
    assert original.__file__ is not None, "the machine is a source file"
    source = Path(original.__file__).read_text(encoding="utf-8")
    if source.count(mutant.old) != 1:
        raise MutantDoesNotApply(f"{mutant.name}: {mutant.old!r} stands {source.count(mutant.old)} times")
    twin = ModuleType(f"{TRANSITIONS_MODULE}_with_{mutant.name}")
    twin.__file__ = original.__file__
    sys.modules[twin.__name__] = twin  # dataclasses look their module up
    try:
        exec(compile(source.replace(mutant.old, mutant.new), original.__file__, "exec"), vars(twin))
    finally:
        del sys.modules[twin.__name__]
    transitions: tuple[Transition, ...] = twin.TRANSITIONS
    return transitions


MACHINE_MUTANTS = (
    MachineMutant(
        "serve_reserved",
        "touch",
        "INV-SERVED-2",
        "allowed = t.all_of(is_open(t, s), is_servable(t, s, k, b), t.no(s.holds(b, r)))",
        "allowed = t.all_of(is_open(t, s), s.entry(k, b), t.no(s.holds(b, r)))",
    ),
    MachineMutant(
        "serve_in_transit",
        "touch",
        "INV-SERVED-1",
        "allowed = t.all_of(is_open(t, s), is_servable(t, s, k, b), t.no(s.holds(b, r)))",
        "allowed = t.all_of(is_open(t, s), s.committed(k, b), t.no(s.holds(b, r)))",
    ),
    MachineMutant(
        "touch_a_held_block",
        "touch",
        "INV-COUNT-1",
        "allowed = t.all_of(is_open(t, s), is_servable(t, s, k, b), t.no(s.holds(b, r)))",
        "allowed = t.all_of(is_open(t, s), is_servable(t, s, k, b))",
    ),
    MachineMutant(
        "touched_block_stays_in_the_queue",
        "touch",
        "INV-PARTITION-1",
        "is_free=lambda c: t.all_of(s.is_free(c), c != b),\n        holds",
        "is_free=lambda c: s.is_free(c),\n        holds",
    ),
    MachineMutant(
        "allocation_keeps_keys",
        "allocate",
        "INV-SLOT-1",
        "cleaned = drop_keys(t, s, b, lambda k: t.true())\n    emptied",
        "cleaned = drop_keys(t, s, b, lambda k: t.no(t.true()))\n    emptied",
    ),
    MachineMutant(
        "allocate_a_block_in_use",
        "allocate",
        "INV-COUNT-1",
        "return t.all_of(is_open(t, s), s.is_free(b), first), emptied.but(",
        "return t.all_of(is_open(t, s), b != s.null()), emptied.but(",
    ),
    MachineMutant(
        "removed_although_a_sibling_lives",
        "evict",
        "INV-EVENTS-1",
        'return t.all_of(published(k), t.no(t.some("B", lambda c: t.all_of(c != b, s.committed(k, c)))))',
        "return published(k)",
    ),
    MachineMutant(
        "removed_for_a_reserved_key",
        "evict",
        "EVENT-REMOVED-1",
        "return t.all_of(chosen(k), s.committed(k, b))",
        "return t.all_of(chosen(k), s.entry(k, b))",
    ),
    MachineMutant(
        "removed_unless_anything_is_left",
        "evict",
        "INV-EVENTS-1",
        "lambda c: t.all_of(c != b, s.committed(k, c)))))",
        "lambda c: t.all_of(c != b, s.entry(k, c)))))",
    ),
    MachineMutant(
        "drop_forgets_the_reverse_index",
        "evict",
        "INV-INDEX-1",
        "listed=lambda c, k: t.all_of(s.listed(c, k), t.no(gone(k, c))),",
        "listed=lambda c, k: s.listed(c, k),",
    ),
    MachineMutant(
        "evict_keeps_reserved_keys",
        "evict",
        "POOL-EVICT-2",
        "return b != s.null(), drop_keys(t, s, b, lambda k: t.true())",
        "return b != s.null(), drop_keys(t, s, b, lambda k: s.committed(k, b))",
        fact=True,
    ),
    MachineMutant(
        "one_copy_too_many_believed",
        "evict",
        "INV-EVENTS-2",
        "believed_copies=lambda k: t.where(published(k), s.believed_copies(k) - 1, s.believed_copies(k)),",
        "believed_copies=lambda k: t.where(removed(k), s.believed_copies(k) - 1, s.believed_copies(k)),",
    ),
    MachineMutant(
        "commit_any_step",
        "publish",
        "STEP-COMMIT-1",
        "return t.all_of(is_open(t, s), s.entry(k, b), t.no(s.committed(k, b)), s.ready(k, b) == s.done() + 1)",
        "return t.all_of(is_open(t, s), s.entry(k, b), t.no(s.committed(k, b)))",
        fact=True,
    ),
    MachineMutant(
        "commit_a_dead_entry",
        "publish",
        "INV-STATUS-1",
        "return t.all_of(is_open(t, s), s.entry(k, b), t.no(s.committed(k, b)), s.ready(k, b) == s.done() + 1)",
        "return t.all_of(is_open(t, s), t.no(s.committed(k, b)), s.ready(k, b) == s.done() + 1)",
    ),
    MachineMutant(
        "stored_again",
        "publish",
        "EVENT-STORED-3",
        'stored = t.no(t.some("B", lambda c: s.committed(k, c)))',
        "stored = t.true()",
    ),
    MachineMutant(
        "publish_beside_what_it_supersedes",
        "publish",
        "INV-FULL-1",
        "return t.all_of(is_due(t, s, k, b), settled), s.but(",
        "return is_due(t, s, k, b), s.but(",
    ),
    MachineMutant(
        "parent_from_reserved_keys",
        "publish",
        "EVENT-PARENT-1",
        "lambda g, b: s.committed(s.key(g, s.digest(p)), b))",
        "lambda g, b: s.entry(s.key(g, s.digest(p)), b))",
    ),
    MachineMutant(
        "close_with_keys_left",
        "close_step",
        "INV-STATUS-1",
        "return t.all_of(is_open(t, s), published), s.but(done",
        "return is_open(t, s), s.but(done",
    ),
    MachineMutant(
        "commit_before_begin",
        "close_step",
        "INV-STEPS-1",
        "return t.all_of(is_open(t, s), published), s.but(done",
        "return published, s.but(done",
    ),
    MachineMutant(
        "attach_without_dependency",
        "attach",
        "INV-DEPENDS-1",
        "depends=lambda x, y: t.where(t.all_of(x == r, y == w, s.depends(x, y) < step), step, s.depends(x, y))",
        "depends=lambda x, y: s.depends(x, y)",
    ),
    MachineMutant(
        "attach_to_a_recurrent_state",
        "attach",
        "INV-SERVED-2",
        "        s.full_attention(s.key_group(k)),\n",
        "",
    ),
    MachineMutant(
        "free_with_reserved_keys",
        "free",
        "INV-RESERVED-1",
        "return t.all_of(s.holds(b, r), t.no(unfinished)), s.but(",
        "return s.holds(b, r), s.but(",
    ),
    MachineMutant(
        "free_twice",
        "free",
        "INV-COUNT-1",
        "return t.all_of(s.holds(b, r), t.no(unfinished)), s.but(",
        "return t.all_of(s.ref_cnt(b) > 0, t.no(unfinished)), s.but(",
    ),
    MachineMutant(
        "freed_blocks_with_keys_go_first",
        "free",
        "INV-LRU-1",
        "t.where(keyed, s.back(), s.front())",
        "t.where(keyed, s.front(), s.back())",
    ),
    MachineMutant(
        "the_former_writer_writes_on",
        "free",
        "INV-WRITER-1",
        "writes=lambda c, q: t.all_of(s.writes(c, q), t.no(leaves(c, q))),",
        "writes=lambda c, q: s.writes(c, q),",
    ),
    MachineMutant(
        "queue_places_are_used_twice",
        "free",
        "INV-QUEUE-1",
        "back=lambda: s.back() + 1,",
        "back=lambda: s.back(),",
    ),
    MachineMutant(
        "write_under_a_reserved_key",
        "write",
        "INV-SOUND-1",
        "lambda k: t.implies(s.entry(k, b), t.all_of(t.no(s.recurrent(g)), s.is_prefix(s.key_prefix(k), p))),",
        "lambda k: t.implies(s.committed(k, b), t.all_of(t.no(s.recurrent(g)), s.is_prefix(s.key_prefix(k), p))),",
    ),
    MachineMutant(
        "advance_a_registered_state_in_place",
        "write",
        "INV-SOUND-1",
        "lambda k: t.implies(s.entry(k, b), t.all_of(t.no(s.recurrent(g)), s.is_prefix(s.key_prefix(k), p))),",
        "lambda k: t.implies(s.entry(k, b), s.is_prefix(s.key_prefix(k), p)),",
    ),
    MachineMutant(
        "write_under_a_reader",
        "write",
        "INV-SERVED-1",
        "allowed = t.all_of(is_open(t, s), s.writes(b, r), own_text, own_slot, keys_kept, readers_kept)",
        "allowed = t.all_of(is_open(t, s), s.writes(b, r), own_text, own_slot, keys_kept)",
    ),
    MachineMutant(
        "a_reader_writes",
        "write",
        "INV-SERVED-1",
        "allowed = t.all_of(is_open(t, s), s.writes(b, r), own_text, own_slot, keys_kept, readers_kept)",
        "allowed = t.all_of(is_open(t, s), s.holds(b, r), own_text, own_slot, keys_kept, readers_kept)",
    ),
    MachineMutant(
        "copy_onto_a_block_with_a_key",
        "copy",
        "INV-SOUND-1",
        "is_open(t, s), a != d, s.holds(a, r), s.writes(d, r), is_overwritable(t, s, d), t.any_of(read, written)",
        "is_open(t, s), a != d, s.holds(a, r), s.writes(d, r), t.any_of(read, written)",
    ),
    MachineMutant(
        "register_before_writing",
        "register",
        "INV-SOUND-1",
        "t.any_of(below_full, fits(t, s, g, p, b, s.now())))",
        "t.true())",
    ),
    MachineMutant(
        "a_reader_registers",
        "register",
        "INV-RESERVED-2",
        "return t.all_of(s.writes(b, r), own_slot, t.any_of(replace, own_keys))",
        "return t.all_of(s.holds(b, r), own_slot, t.any_of(replace, own_keys))",
    ),
    MachineMutant(
        "a_prefix_of_a_state_is_registered",
        "register",
        "INV-SOUND-1",
        "t.any_of(below_full, fits(t, s, g, p, b, s.now())))",
        "t.any_of(below_full, s.is_prefix(p, s.content(b, s.now()))))",
    ),
    MachineMutant(
        "register_in_another_slot",
        "register",
        "REG-SLOT-1",
        "return t.all_of(s.writes(b, r), own_slot, t.any_of(replace, own_keys))",
        "return t.all_of(s.writes(b, r), t.any_of(replace, own_keys))",
        fact=True,
    ),
    MachineMutant(
        "resurrect_a_retired_partial_key",
        "register",
        "REG-PARTIAL-5",
        "changes = t.all_of(t.no(there), t.no(below_full))",
        "changes = t.no(there)",
        fact=True,
    ),
    MachineMutant(
        "upgrade_removes_committed_keys",
        "register",
        "STEP-UPGRADE-1",
        "t.all_of(longest, t.no(s.committed(j, b)))",
        "longest",
        fact=True,
    ),
    MachineMutant(
        "replace_keeps_the_other_keys",
        "register",
        "REG-REPLACE-1",
        "t.any_of(replace, t.all_of(longest, t.no(s.committed(j, b))))",
        "t.all_of(longest, t.no(s.committed(j, b)))",
        fact=True,
    ),
    MachineMutant(
        "ranks_are_given_twice",
        "register",
        "INV-INDEX-2",
        "next_rank=lambda: t.where(changes, s.next_rank() + 1, s.next_rank()),",
        "next_rank=lambda: s.next_rank(),",
    ),
    MachineMutant(
        "move_without_the_content",
        "move",
        "INV-SOUND-1",
        "moved = hold_content(t, s, d, s.content(a, s.now() - 1), s.content_group(a, s.now() - 1))",
        "moved = s",
    ),
    MachineMutant(
        "moved_keys_are_servable_at_once",
        "move",
        "INV-SOUND-1",
        "ready=lambda k, c: t.where(c == d, s.now(), s.ready(k, c)),",
        "ready=lambda k, c: t.where(c == d, s.ready(k, a), s.ready(k, c)),",
    ),
    MachineMutant(
        "move_a_key_of_this_step",
        "move",
        "INV-SOUND-1",
        "return t.all_of(is_open(t, s), guard, of_a_copy, settled), post",
        "return t.all_of(is_open(t, s), guard, of_a_copy), post",
    ),
    MachineMutant(
        "move_to_a_block_of_a_request",
        "move",
        "INV-RESERVED-2",
        "return t.all_of(is_open(t, s), guard, of_a_copy, settled), post",
        "return t.all_of(is_open(t, s), guard, settled), post",
    ),
    MachineMutant(
        "moved_keys_go_last",
        "move",
        "POOL-MOVE-2",
        "rank=at(s.rank),",
        "rank=lambda k, c: t.where(c == d, s.next_rank(), s.rank(k, c)),",
        fact=True,
    ),
    MachineMutant(
        "rollback_without_its_dependents",
        "rollback",
        "INV-SERVED-1",
        "return t.all_of(closed, requests, between_commits), dropped.but(",
        "return t.all_of(requests, between_commits), dropped.but(",
    ),
    MachineMutant(
        "rollback_keeps_reserved_keys",
        "rollback",
        "INV-SOUND-1",
        "t.all_of(s.entry(k, c), t.no(s.committed(k, c)), chosen(s.owner(k, c))))",
        "t.no(t.true()))",
    ),
    MachineMutant(
        "rollback_keeps_what_was_attached",
        "rollback",
        "STEP-ROLLBACK-2",
        "attached=lambda c, r: t.where(taken_back(c, r), 0, s.attached(c, r)),",
        "attached=lambda c, r: s.attached(c, r),",
        fact=True,
    ),
    MachineMutant(
        "reset_in_use",
        "reset",
        "POOL-RESET-2",
        "return unused, s.but(",
        "return t.true(), s.but(",
        fact=True,
    ),
    MachineMutant(
        "reset_without_the_consumer",
        "reset",
        "INV-EVENTS-1",
        "        resident=lambda k: nothing,\n",
        "",
    ),
    MachineMutant(
        "reset_keeps_the_reverse_index",
        "reset",
        "INV-INDEX-1",
        "        listed=lambda b, k: nothing,\n",
        "",
    ),
    MachineMutant(
        "hashes_of_the_old_text",
        "truncate",
        "INV-HASHES-1",
        "text=lambda q: t.where(q == r, p, s.text(q)), hashed=lambda q: t.where(q == r, n, s.hashed(q))",
        "text=lambda q: t.where(q == r, p, s.text(q))",
    ),
    MachineMutant(
        "appended_tokens_without_hashes",
        "append",
        "INV-HASHES-1",
        "t.all_of(q == r, s.hashed(r) < i, i <= n), s.digest(s.first(p, i)), s.hash_at(q, i)",
        "t.all_of(q == r, s.hashed(r) < i, i < n), s.digest(s.first(p, i)), s.hash_at(q, i)",
    ),
    MachineMutant(
        "retain_by_a_holder",
        "retain",
        "INV-COUNT-1",
        "return t.all_of(s.ref_cnt(b) > 0, t.no(s.is_request(c)), t.no(s.holds(b, c))), acquire(t, s, b, c).but(",
        "return t.all_of(s.ref_cnt(b) > 0, t.no(s.is_request(c))), acquire(t, s, b, c).but(",
    ),
    MachineMutant(
        "a_new_step_forgets_the_blocks",
        "begin_step",
        "INV-SOUND-1",
        "content=lambda c, i: t.where(i == opened, s.content(c, s.now()), s.content(c, i)),",
        "content=lambda c, i: t.where(i == opened, s.empty(), s.content(c, i)),",
    ),
    MachineMutant(
        "supersede_too_early",
        "supersede",
        "STEP-UPGRADE-2",
        "s.length(s.key_prefix(j)) < s.length(s.key_prefix(k)),\n        s.rank",
        "s.rank",
        fact=True,
    ),
)
