"""The planted mutants of what runs over the pool: tables, the loop for the joint hit, the split."""

from __future__ import annotations

from kvproof.spec.proofs.mutants import MachineMutant

TABLE_MUTANTS = (
    MachineMutant(
        "let_go_by_where_it_is_computed",
        "run let_go",
        "INV-RUN-1",
        "settled = s.position(r, s.done())\n    before",
        "settled = s.position(r, s.now())\n    before",
    ),
    MachineMutant(
        "let_go_while_a_failed_step_returns_there",
        "run let_go",
        "ADVANCE-LETGO-1",
        "settled = s.position(r, s.done())\n    before",
        "settled = s.position(r, s.now())\n    before",
        fact=True,
    ),
    MachineMutant(
        "the_slot_that_a_chunk_begins_in_is_not_written",
        "run compute",
        "INV-RUN-2",
        "touched = t.all_of(x < end, x + s.block_size(g) > start)",
        "touched = t.all_of(x < end, x >= start)",
    ),
    MachineMutant(
        "a_request_goes_on_from_a_state_that_was_overwritten",
        "run rollback",
        "INV-RUN-2",
        "t.any_of(s.position(r, s.done()) == 0, _has_state(t, s)))",
        "s.position(r, s.done()) == 0)",
    ),
    MachineMutant(
        "rows_are_written_anew_beside_the_chunk",
        "run write",
        "INV-RUN-2",
        "return t.no(t.all_of(s.runs(r), is_tabled(t, s, b, r)))",
        "return t.true()",
    ),
    MachineMutant(
        "copied_before_the_step_is_done",
        "run make_private",
        "INV-RUN-2",
        "        untouched,\n",
        "",
    ),
    MachineMutant(
        "a_cut_is_settled_before_its_copy",
        "run make_private",
        "INV-RUN-2",
        "        t.implies(t.no(s.recurrent(g)), settled),\n",
        "",
    ),
    MachineMutant(
        "a_copied_state_counts_from_the_beginning",
        "run make_private",
        "INV-RUN-2",
        "since=lambda q, h: t.where(t.all_of(q == r, h == g), s.now(), s.since(q, h)),",
        "since=lambda q, h: s.since(q, h),",
    ),
    MachineMutant(
        "half_a_slot_is_copied",
        "run make_private",
        "INV-RUN-2",
        't.every("P", is_copied)',
        "t.true()",
    ),
    MachineMutant(
        "admitted_on_whatever_it_holds",
        "run admit",
        "INV-RUN-3",
        "t.any_of(_serves(t, s, r, g, b, x), private)",
        "t.any_of(s.holds(b, r), private)",
    ),
    MachineMutant(
        "admitted_with_a_block_missing",
        "run admit",
        "INV-RUN-1",
        "return t.all_of(begins, _can_go_on(t, s, r, n), ",
        "return t.all_of(begins, ",
    ),
    MachineMutant(
        "a_failed_step_leaves_the_reader_where_it_is",
        "run rollback",
        "INV-RUN-3",
        "position=lambda r, i: t.where(unsettled(r), s.position(r, s.done()), s.position(r, i)),",
        "position=lambda r, i: s.position(r, i),",
    ),
    MachineMutant(
        "a_failed_step_takes_all_back",
        "run rollback",
        "BACK-ROLLBACK-1",
        "position=lambda r, i: t.where(unsettled(r), s.position(r, s.done()), s.position(r, i)),",
        "position=lambda r, i: t.where(unsettled(r), 0, s.position(r, i)),",
        fact=True,
    ),
    MachineMutant(
        "a_block_of_the_table_is_freed",
        "run free",
        "INV-RUN-4",
        "return t.no(is_tabled(t, s, b, r))",
        "return t.true()",
    ),
    MachineMutant(
        "one_block_in_two_slots",
        "run enter",
        "INV-RUN-4",
        "        t.no(is_tabled(t, s, b, r)),\n        s.table(r, g, x) == s.null(),",
        "        s.table(r, g, x) == s.null(),",
    ),
    MachineMutant(
        "tokens_are_cut_and_the_request_stays",
        "run truncate",
        "INV-RUN-4",
        'return t.implies(s.runs(r), t.every("Int", inside))',
        "return t.true()",
    ),
    MachineMutant(
        "a_chunk_under_a_reader",
        "run compute",
        "INV-SERVED-1",
        "return t.all_of(s.writes(b, r), own_slot, keys_kept, readers_kept)",
        "return t.all_of(s.writes(b, r), own_slot, keys_kept)",
    ),
    MachineMutant(
        "a_state_is_advanced_under_its_key",
        "run compute",
        "INV-SOUND-1",
        "return t.all_of(s.writes(b, r), own_slot, keys_kept, readers_kept)",
        "return t.all_of(s.writes(b, r), own_slot, readers_kept)",
    ),
    MachineMutant(
        "a_chunk_outside_of_a_step",
        "run compute",
        "ADVANCE-WRITE-1",
        "        is_open(t, s),\n        s.runs(r),\n        s.chunked(r) < now,",
        "        s.runs(r),\n        s.chunked(r) < now,",
        fact=True,
    ),
    MachineMutant(
        "a_state_of_the_whole_slot",
        "run compute",
        "ADVANCE-STATE-1",
        "return t.where(end < stop, end, stop)",
        "return stop",
        fact=True,
    ),
    MachineMutant(
        "back_to_rows_that_were_let_go",
        "run go_back",
        "INV-RUN-1",
        "n <= s.position(r, s.now()), _can_go_on(t, s, r, n)",
        "n <= s.position(r, s.now())",
    ),
)

HIT_MUTANTS = (
    MachineMutant(
        "asked_for_less",
        "hit ask",
        "HIT-JOINT-1",
        "found = s.answer(g, s.bound())",
        "found = s.answer(g, s.bound() - 1)",
    ),
    MachineMutant(
        "the_answer_is_not_taken",
        "hit ask",
        "HIT-JOINT-1",
        "found = s.answer(g, s.bound())",
        "found = s.bound()",
        fact=True,
    ),
    MachineMutant(
        "cut_though_it_does_not_go_down",
        "hit cut",
        "HIT-JOINT-1",
        "return t.all_of(s.asked(g), goes_down(t, s, g)), _answered",
        "return s.asked(g), _answered",
        fact=True,
    ),
    MachineMutant(
        "first_answers_are_cut_instead_of_asking_again",
        "hit stop",
        "HIT-JOINT-1",
        'done = t.every("G", lambda g: s.answer(g, s.bound()) == s.bound())',
        'done = t.every("G", lambda g: t.any_of(s.asked(g), s.answer(g, s.bound()) == s.bound()))',
        fact=True,
    ),
    MachineMutant(
        "a_junction_at_the_hit",
        "hit stop",
        "HIT-JUNCTION-1",
        "t.all_of(there_is_one, s.alone() > s.bound())",
        "there_is_one",
        fact=True,
    ),
    MachineMutant(
        "a_junction_without_attention",
        "hit stop",
        "HIT-JUNCTION-1",
        "t.all_of(there_is_one, s.alone() > s.bound())",
        "s.alone() > s.bound()",
        fact=True,
    ),
    MachineMutant(
        "pending_only_where_it_is_more",
        "hit stop",
        "HIT-PENDING-1",
        "pending=lambda: s.later())",
        "pending=lambda: t.where(s.later() > s.bound(), s.later(), 0))",
        fact=True,
    ),
)


def _of_the_split(name: str, theorem: str, old: str, new: str, fact: bool = True) -> MachineMutant:
    return MachineMutant(name, "split chunk", theorem, old, new, fact)


SPLIT_MUTANTS = (
    _of_the_split(
        "split_without_states",
        "SPLIT-NONE-1",
        "t.all_of(s.has_recurrent(), start < decode(t, s)), found",
        "start < decode(t, s), found",
    ),
    _of_the_split(
        "decode_is_aligned",
        "SPLIT-DECODE-1",
        "t.all_of(s.has_recurrent(), start < decode(t, s)), found, end)",
        "t.all_of(s.has_recurrent(), start < decode(t, s)), found, down)",
    ),
    _of_the_split(
        "stopped_before_the_start",
        "SPLIT-RANGE-1",
        "t.all_of(applies, start < c, c < found)",
        "t.all_of(applies, c < found)",
    ),
    _of_the_split(
        "a_chunk_past_the_tokens",
        "SPLIT-RANGE-1",
        "tokens >= 1, end <= s.tokens(), tokens <= cap",
        "tokens >= 1, tokens <= cap",
        fact=False,
    ),
    _of_the_split(
        "ends_inside_a_block",
        "SPLIT-ALIGN-1",
        "down = t.where(aligned > start, aligned,",
        "down = t.where(aligned > start, end,",
    ),
    _of_the_split("passes_the_end_of_its_block", "SPLIT-STOP-1", "        (mid_block, next_block(s, start)),\n", ""),
    _of_the_split("passes_the_last_block_state", "SPLIT-STOP-2", "(t.true(), block),", "(s.fine_grained(), block),"),
    _of_the_split(
        "passes_the_last_hash_state",
        "SPLIT-STOP-3",
        "        (t.all_of(s.fine_grained(), block < hashes, hashes < s.prompt()), hashes),\n",
        "",
    ),
    _of_the_split(
        "passes_the_junction",
        "SPLIT-STOP-4",
        "        (t.true(), junction),\n",
        "        (s.checkpoints(), junction),\n",
    ),
    _of_the_split(
        "the_last_stop_counts",
        "SPLIT-EARLIEST-1",
        "start < c, c < found), c, found)",
        "start < c, c < wanted), c, found)",
    ),
    _of_the_split(
        "waits_for_what_never_comes",
        "SPLIT-PROGRESS-1",
        "waits = t.all_of(aligned <= start, next_block(s, start) <= start + cap)",
        "waits = aligned <= start",
    ),
)

HYBRID_MUTANTS = (*TABLE_MUTANTS, *HIT_MUTANTS, *SPLIT_MUTANTS)
