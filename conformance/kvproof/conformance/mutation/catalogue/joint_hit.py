"""Mutants of chapter 86: groups, what is usable, the joint hit."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_CACHE = "kvproof.reference.hybrid.cache"
_GROUPS = "kvproof.reference.hybrid.groups"
_JOINT = "kvproof.reference.hybrid.joint_hit"
_VALIDATE = "kvproof.reference.validate"

_GROUPS_AND_SETTINGS = (
    Mutant(
        name="hybrid_pool_commits_at_once",
        clauses=("GROUP-CONFIG-1",),
        fault="F02",
        harm="Every hybrid hit may be one that nobody has computed yet.",
        patch=Patch(
            _VALIDATE,
            '    if config.commit is not CommitMode.STEPS:\n        raise InvalidArgument("hybrid',
            '    if config.commit is None:\n        raise InvalidArgument("hybrid',
        ),
    ),
    Mutant(
        name="recurrent_group_may_drop",
        clauses=("GROUP-CONFIG-1",),
        fault="F10",
        harm="A state is asked for a few tokens past the hit, where there never is one, and nothing is ever hit.",
        patch=Patch(
            _VALIDATE,
            "        if groups[group].kind is GroupKind.RECURRENT:\n"
            '            raise InvalidArgument(f"group {group} is',
            '        if groups[group].kind is None:\n            raise InvalidArgument(f"group {group} is',
        ),
    ),
    Mutant(
        name="interval_may_end_between_hashes",
        clauses=("GROUP-CONFIG-1",),
        fault="F07",
        harm="States are to be kept where no key can name them, and none is kept.",
        patch=Patch(
            _VALIDATE,
            'check_position("interval", hybrid.interval, config.hash_block_size), 1',
            "hybrid.interval, 1",
        ),
    ),
    Mutant(
        name="alignment_may_overflow",
        clauses=("GROUP-CONFIG-1",),
        fault="F07",
        harm="A native implementation computes boundaries that do not fit its integers.",
        patch=Patch(
            _VALIDATE,
            "    if common > MAX_POSITION:",
            "    if common > MAX_POSITION * MAX_POSITION:",
        ),
    ),
    Mutant(
        name="requests_run_over_a_pool_without_settings",
        clauses=("GROUP-CONFIG-2",),
        fault="F08",
        harm="Nobody has said how far groups may be apart, and requests run over them as if somebody had.",
        patch=Patch(
            _CACHE,
            "        if not isinstance(pool, BlockPool) or pool.config.hybrid is None:",
            "        if not isinstance(pool, BlockPool):",
        ),
    ),
    Mutant(
        name="alignment_is_the_largest_block",
        clauses=("GROUP-ALIGN-1",),
        fault="F07",
        harm="A hit ends inside a block of another group, whose state is that of another prefix.",
        patch=Patch(
            _GROUPS,
            "return math.lcm(*[group.block_size for group in config.groups])",
            "return max(group.block_size for group in config.groups)",
        ),
    ),
    Mutant(
        name="fine_grained_hits_end_with_common_blocks",
        clauses=("GROUP-ALIGN-1",),
        fault="F10",
        harm="A prompt shorter than the common multiple of all block sizes never hits.",
        patch=Patch(
            _GROUPS,
            "    if hybrid_of(config).fine_grained:\n",
            "    if hybrid_of(config).checkpoints:\n",
        ),
    ),
)

_USABLE = (
    Mutant(
        name="hole_in_the_rows_is_overlooked",
        clauses=("HIT-ATTENTION-1",),
        fault="F09",
        harm="A slot in the middle was evicted, and the reader's table has nothing there.",
        patch=Patch(
            _JOINT,
            "        for slot in range(first_needed_slot(config, n), n // config.block_size):\n"
            "            if not shared",
            "        for slot in range(max(0, n // config.block_size - 1), n // config.block_size):\n"
            "            if not shared",
        ),
    ),
    Mutant(
        name="source_is_reserved_only",
        clauses=(
            "HIT-ATTENTION-1",
            "HIT-DROP-1",
        ),
        fault="F02",
        harm=(
            "A reader copies rows in the step that computes them: the copy comes first and takes what was there before."
        ),
        patch=Patch(
            _JOINT,
            "        return any(served(self.hit(group, m))",
            "        return any(shared(self.hit(group, m))",
        ),
    ),
    Mutant(
        name="source_may_reach_the_last_token",
        clauses=("HIT-ATTENTION-1",),
        fault="F08",
        harm="Two engines with the same blocks begin the same request in different places.",
        patch=Patch(
            _JOINT,
            "return self._request.num_tokens - 1 + self._drop(group)",
            "return self._request.num_tokens + self._drop(group)",
        ),
    ),
    Mutant(
        name="window_is_one_row_short",
        clauses=("HIT-WINDOW-1",),
        fault="F09",
        harm="The first row of the window is not there, and attention reads what was left in its place.",
        patch=Patch(
            _GROUPS,
            "max(0, n - group.window + 1)",
            "max(0, n - group.window + 2)",
        ),
    ),
    Mutant(
        name="window_is_one_row_long",
        clauses=("HIT-WINDOW-1",),
        fault="F10",
        harm="At the end of a block a window asks for one block more than it reads, which may be gone.",
        patch=Patch(
            _GROUPS,
            "max(0, n - group.window + 1)",
            "max(0, n - group.window)",
        ),
    ),
    Mutant(
        name="later_state_will_do",
        clauses=("HIT-RECURRENT-1",),
        fault="F09",
        harm="A reader goes on from a state that has seen tokens past its prefix.",
        patch=Patch(
            _JOINT,
            "            return served(self.hit(group, n))",
            "            return any(served(self.hit(group, m)) for m in self._sources(group, n, self._limit(group)))",
        ),
    ),
    Mutant(
        name="state_of_the_slot_before_will_do",
        clauses=("HIT-RECURRENT-1",),
        fault="F09",
        harm="A reader skips tokens that its state has never seen.",
        patch=Patch(
            _JOINT,
            "            return served(self.hit(group, n))",
            "            return served(self.hit(group, floor_to(n, self.config.groups[group].block_size) or n))",
        ),
    ),
    Mutant(
        name="zero_has_to_be_usable_too",
        clauses=("HIT-ZERO-1", "HIT-JOINT-1"),
        fault="F11",
        harm="A request that hits nothing is never begun: there is no state at 0.",
        patch=Patch(
            _JOINT,
            "num_tokens - 1, unit), 0, -unit):",
            "num_tokens - 1, unit), -1, -unit):",
        ),
    ),
    Mutant(
        name="drop_is_ignored",
        clauses=("HIT-DROP-1",),
        fault="F09",
        harm="The draft model begins without the hidden states before the hit.",
        patch=Patch(
            _JOINT,
            "for at in {n, n + self._drop(group)})",
            "for at in {n})",
        ),
    ),
    Mutant(
        name="drop_looks_past_the_hit_alone",
        clauses=("HIT-DROP-1",),
        fault="F09",
        harm="The window reaches further back from the hit than from where it was looked up.",
        patch=Patch(
            _JOINT,
            "for at in {n, n + self._drop(group)})",
            "for at in {n + self._drop(group)})",
        ),
    ),
    Mutant(
        name="drop_is_applied_twice",
        clauses=("HIT-DROP-1",),
        fault="F10",
        harm="Every hit is a unit shorter than it has to be, and short prompts hit nothing.",
        patch=Patch(
            _JOINT,
            "for at in {n, n + self._drop(group)})",
            "for at in {n, n + 2 * self._drop(group)})",
        ),
    ),
    Mutant(
        name="drop_is_the_alignment",
        clauses=("HIT-DROP-1",),
        fault="F07",
        harm="A model with blocks of different sizes drops as much as all of them together.",
        patch=Patch(
            _JOINT,
            "return min(alignment(self.config), self.config.groups[group].block_size) if",
            "return alignment(self.config) if",
        ),
    ),
    Mutant(
        name="drop_of_one_group_is_one_of_all",
        clauses=("HIT-DROP-1",),
        fault="F08",
        harm="Groups that no draft model reads lose a unit of every hit.",
        patch=Patch(
            _GROUPS,
            "return group in hybrid_of(config).drop",
            "return bool(hybrid_of(config).drop)",
        ),
    ),
    Mutant(
        name="drop_may_not_use_the_last_block",
        clauses=("HIT-DROP-1",),
        fault="F10",
        harm="The same prompt again misses its last block, though what is dropped lies inside it.",
        patch=Patch(
            _JOINT,
            "return self._request.num_tokens - 1 + self._drop(group)",
            "return self._request.num_tokens - 1",
        ),
    ),
)

_HIT = (
    Mutant(
        name="hit_may_be_the_whole_prompt",
        clauses=("HIT-JOINT-1", "ADMIT-RANGE-1"),
        fault="F11",
        harm="A fully cached prompt has nothing left to compute, and nothing to sample from.",
        patch=Patch(
            _JOINT,
            "range(floor_to(self._request.num_tokens - 1, unit),",
            "range(floor_to(self._request.num_tokens, unit),",
        ),
    ),
    Mutant(
        name="one_usable_group_is_enough",
        clauses=("HIT-JOINT-1",),
        fault="F08",
        harm="Attention hits where the recurrent group has no state.",
        patch=Patch(
            _JOINT,
            "            if all(self._is_usable(",
            "            if any(self._is_usable(",
        ),
    ),
    Mutant(
        name="last_group_is_not_asked",
        clauses=("HIT-JOINT-1",),
        fault="F08",
        harm="The state of the last group is taken for granted.",
        patch=Patch(
            _JOINT,
            "self._is_usable(group, n, served, shared) for group in groups)",
            "self._is_usable(group, n, served, shared) for group in groups[:-1] or groups)",
        ),
    ),
    Mutant(
        name="junction_counts_windows",
        clauses=("HIT-JUNCTION-1",),
        fault="F08",
        harm=("A window that has let go of its rows hides how far the prompt is shared, and no state is kept there."),
        patch=Patch(
            _JOINT,
            "if self.config.groups[g].kind is GroupKind.FULL_ATTENTION]",
            "if self.config.groups[g].kind is not GroupKind.RECURRENT]",
        ),
    ),
    Mutant(
        name="junction_is_told_where_it_is_the_hit",
        clauses=("HIT-JUNCTION-1",),
        fault="F10",
        harm="Every hit looks like a prefix that somebody ought to keep a state for.",
        patch=Patch(
            _JOINT,
            "alone if alone > hit else 0",
            "alone if alone >= hit else 0",
        ),
    ),
    Mutant(
        name="junction_is_how_much_is_uncached",
        clauses=("HIT-JUNCTION-1",),
        fault="F07",
        harm="A length that counts from the hit is taken for a position, and the chunk stops in the wrong place.",
        patch=Patch(
            _JOINT,
            "alone if alone > hit else 0",
            "alone - hit if alone > hit else 0",
        ),
    ),
    Mutant(
        name="nothing_more_is_pending",
        clauses=("HIT-PENDING-1",),
        fault="F10",
        harm="Ten requests with one prompt arrive together, and each computes it for itself.",
        patch=Patch(
            _JOINT,
            "pending = self._greatest_boundary(everything, _will_have_block, _will_have_block)",
            "pending = hit",
        ),
    ),
    Mutant(
        name="replaced_key_is_pending",
        clauses=("HIT-PENDING-1",),
        fault="F11",
        harm="A request waits for a key that the commit it waits for takes away.",
        patch=Patch(
            _JOINT,
            "    return hit.pending is not None\n",
            "    return hit.pending is not None or hit.block is not None\n",
        ),
    ),
    Mutant(
        name="junction_of_another_request",
        clauses=("HIT-PURE-1",),
        fault="F09",
        harm=(
            "A request that shares nothing stops where another one left what it shared, and keeps a state for nobody."
        ),
        patch=Patch(
            _JOINT,
            "        return Match(hit, alone if alone > hit else 0, pending)",
            '        Chain.last = alone = max(alone, getattr(Chain, "last", 0))  # type: ignore[attr-defined]\n'
            "        return Match(hit, alone if alone > hit else 0, pending)",
        ),
    ),
    Mutant(
        name="copy_comes_from_the_longest_key",
        clauses=("HIT-SOURCE-1",),
        fault="F05",
        harm="Of several blocks that cover the hit the one that still grows is copied.",
        patch=Patch(
            _JOINT,
            "return next(m for m in self._sources(group, n, self._limit(group)) if",
            "return next(m for m in reversed(self._sources(group, n, self._limit(group))) if",
        ),
    ),
)

MUTANTS = (
    *_GROUPS_AND_SETTINGS,
    *_USABLE,
    *_HIT,
)
