"""Mutants of chapter 87: where a prefill chunk ends."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_CACHE = "kvproof.reference.hybrid.cache"
_GROUPS = "kvproof.reference.hybrid.groups"
_SPLIT = "kvproof.reference.hybrid.split"

_GRID = (
    Mutant(
        name="grid_is_the_smallest_block_of_all",
        clauses=(
            "SPLIT-STOP-2",
            "SPLIT-ALIGN-1",
        ),
        fault="F07",
        harm=(
            "A chunk ends inside a block of the recurrent group, whose key then names a state that it does not hold."
        ),
        patch=Patch(
            _GROUPS,
            "    return math.lcm(*sizes) if sizes else None",
            "    return min(group.block_size for group in config.groups) if sizes else None",
        ),
    ),
    Mutant(
        name="grid_is_the_smallest_recurrent_block",
        clauses=(
            "SPLIT-STOP-2",
            "SPLIT-ALIGN-1",
        ),
        fault="F07",
        harm="Of two recurrent groups only one has its state at the end of the chunk.",
        patch=Patch(
            _GROUPS,
            "    return math.lcm(*sizes) if sizes else None",
            "    return min(sizes) if sizes else None",
        ),
    ),
    Mutant(
        name="attention_alone_is_split",
        clauses=("SPLIT-NONE-1",),
        fault="F11",
        harm="Models without states compute small chunks for nothing.",
        patch=Patch(
            _SPLIT,
            "size, hybrid = recurrent_block_size(config), config.hybrid",
            "size, hybrid = recurrent_block_size(config) or config.groups[0].block_size, config.hybrid",
        ),
    ),
    Mutant(
        name="tokens_that_are_not_there_are_split",
        clauses=("SPLIT-RANGE-1",),
        fault="F09",
        harm="A chunk passes the end of its request and computes what was left in the buffers.",
        patch=Patch(
            _CACHE,
            'check_int("tokens", tokens, 1, total - start)',
            'check_int("tokens", tokens, 1)',
        ),
    ),
    Mutant(
        name="chunk_may_be_larger_than_its_cap",
        clauses=("SPLIT-RANGE-1",),
        fault="F11",
        harm="Whoever mixes up both numbers waits for a block that never fits, and is not told.",
        patch=Patch(
            _CACHE,
            'check_int("cap", cap, tokens)',
            'check_int("cap", cap, 1)',
        ),
    ),
    Mutant(
        name="last_state_is_that_of_all_tokens",
        clauses=(
            "SPLIT-STOP-2",
            "SPLIT-STOP-3",
        ),
        fault="F10",
        harm="The same prompt again has to compute its last token, and the only state there is has seen it.",
        patch=Patch(
            _SPLIT,
            "floor_to(n - max(1, self.lookahead), unit)",
            "floor_to(n - self.lookahead, unit)",
        ),
    ),
    Mutant(
        name="last_state_ignores_the_drop",
        clauses=(
            "SPLIT-STOP-2",
            "SPLIT-STOP-3",
        ),
        fault="F10",
        harm="With a draft model the last state is kept where a hit is never taken.",
        patch=Patch(
            _SPLIT,
            "floor_to(n, unit) - unit",
            "floor_to(n, unit)",
        ),
    ),
)

_STOPS = (
    Mutant(
        name="decoding_waits_for_a_block",
        clauses=("SPLIT-DECODE-1", "SPLIT-ALIGN-1"),
        fault="F11",
        harm="A request that decodes a token a step stops at the first block that does not fit.",
        patch=Patch(
            _SPLIT,
            "    if grid is None or start >= decode:\n        return end\n    if end < decode:",
            "    if grid is None:\n        return end\n    if end < num_tokens:",
        ),
    ),
    Mutant(
        name="resumed_tokens_pass_for_decoded",
        clauses=(
            "SPLIT-DECODE-1",
            "SPLIT-ALIGN-1",
        ),
        fault="F10",
        harm="A preempted request computes its own answer again and keeps no state of it.",
        patch=Patch(
            _SPLIT,
            "decode = max(num_prompt, num_tokens - 1)",
            "decode = num_prompt",
        ),
    ),
    Mutant(
        name="chunk_ends_where_the_budget_ends",
        clauses=("SPLIT-ALIGN-1",),
        fault="F10",
        harm="With a budget that is no multiple of the block size no state is ever kept.",
        patch=Patch(
            _SPLIT,
            "    if end < decode:",
            "    if end < start:",
        ),
    ),
    Mutant(
        name="block_that_never_fits_is_waited_for",
        clauses=(
            "SPLIT-ALIGN-1",
            "SPLIT-PROGRESS-1",
        ),
        fault="F11",
        harm="A model whose blocks are larger than the budget computes nothing at all.",
        patch=Patch(
            _SPLIT,
            "        elif start + cap >= _next_block(start, grid.block_size):",
            "        else:",
        ),
    ),
    Mutant(
        name="chunk_never_waits_for_a_block",
        clauses=("SPLIT-ALIGN-1",),
        fault="F10",
        harm="Prefills beside decodes end inside blocks, and their states are lost.",
        patch=Patch(
            _SPLIT,
            "        elif start + cap >= _next_block(start, grid.block_size):",
            "        elif start + cap < start:",
        ),
    ),
    Mutant(
        name="waiting_looks_at_the_cap_alone",
        clauses=("SPLIT-ALIGN-1",),
        fault="F10",
        harm="A chunk that starts inside a block gives the state at its end away.",
        patch=Patch(
            _SPLIT,
            "        elif start + cap >= _next_block(start, grid.block_size):",
            "        elif cap >= grid.block_size:",
        ),
    ),
    Mutant(
        name="chunk_from_inside_a_block_passes_its_end",
        clauses=("SPLIT-STOP-1",),
        fault="F09",
        harm="After a partial hit the block's slot holds no state of its end, and the table says that it does.",
        patch=Patch(
            _SPLIT,
            "        _next_block(start, grid.block_size) if start % grid.block_size else 0,\n",
            "",
        ),
    ),
    Mutant(
        name="last_block_is_passed",
        clauses=("SPLIT-STOP-2",),
        fault="F10",
        harm="A prompt leaves no state, and the same prompt again begins at 0.",
        patch=Patch(
            _SPLIT,
            "        grid.last_block_state(num_tokens),\n",
            "",
        ),
    ),
    Mutant(
        name="last_hash_is_passed",
        clauses=("SPLIT-STOP-3",),
        fault="F10",
        harm="The same prompt again computes up to a block of thousands of tokens once more.",
        patch=Patch(
            _SPLIT,
            "        grid.last_hash_state(num_tokens, num_prompt),\n",
            "",
        ),
    ),
    Mutant(
        name="last_hash_stops_without_fine_grained_hits",
        clauses=("SPLIT-STOP-3",),
        fault="F11",
        harm="A chunk is cut for a key that is never registered.",
        patch=Patch(
            _SPLIT,
            "return n if self.fine_grained and self",
            "return n if self",
        ),
    ),
    Mutant(
        name="junction_is_passed",
        clauses=("SPLIT-STOP-4",),
        fault="F10",
        harm="The prefix that everybody shares is computed by everybody.",
        patch=Patch(
            _SPLIT,
            "        grid.junction_state(junction, num_prompt),\n",
            "",
        ),
    ),
    Mutant(
        name="junction_inside_a_block_is_a_stop",
        clauses=("SPLIT-STOP-4",),
        fault="F11",
        harm="Chunks are cut where no state is kept.",
        patch=Patch(
            _SPLIT,
            "        return floor_to(junction, self.block_size)",
            "        return junction",
        ),
    ),
    Mutant(
        name="junction_past_the_prompt_is_a_stop",
        clauses=("SPLIT-STOP-4",),
        fault="F09",
        harm="Among decoded tokens a state is kept as a checkpoint of a prompt.",
        patch=Patch(
            _SPLIT,
            "if self.checkpoints and junction <= num_prompt:",
            "if self.checkpoints:",
        ),
    ),
    Mutant(
        name="last_stop_counts",
        clauses=("SPLIT-EARLIEST-1", "SPLIT-STOP-4"),
        fault="F10",
        harm="A chunk passes the junction because the prompt's end comes later.",
        patch=Patch(
            _SPLIT,
            "    return min([stop for stop",
            "    return max([stop for stop",
        ),
    ),
)

MUTANTS = (
    *_GRID,
    *_STOPS,
)
