"""Where chunks of a prefill end, and what groups need, for all numbers of tokens (SPLIT-*, RETAIN-*, ADVANCE-LETGO-1).

Block sizes are fixed, as they are in a pool: B = 6 and h = 2. z3 proves the split for all of them; here it is the
reference's own code that is run.
"""

from __future__ import annotations

from kvproof.reference.hybrid.groups import first_needed_row, first_needed_slot, floor_to, slots_up_to
from kvproof.reference.hybrid.retention import keeps
from kvproof.reference.hybrid.split import Grid, split
from kvproof.spec.vocabulary import GroupConfig, GroupKind, HybridConfig, Retention

FINE = Grid(6, 2, True, False, 0, False)
COARSE_WITH_DROP = Grid(6, 2, False, False, 0, True)
WINDOW = GroupConfig(GroupKind.SLIDING_WINDOW, 6, 5)
RECURRENT = GroupConfig(GroupKind.RECURRENT, 6)


def the_end_is_in_the_last_slot(n: int) -> None:
    """POS-SLOT-1, B = 6: the first n tokens lie in so many slots, the last of which they begin."""
    assert n >= 0
    assert floor_to(n, 6) <= n < floor_to(n, 6) + 6
    assert 6 * slots_up_to(n, 6) - 6 < n <= 6 * slots_up_to(n, 6) or n == slots_up_to(n, 6) == 0


def a_full_offer_is_never_empty(start: int, prompt: int, total: int, cap: int, junction: int) -> None:
    """SPLIT-RANGE-1, SPLIT-PROGRESS-1."""
    assert 0 <= start < total
    assert 0 <= prompt <= total
    assert 0 <= junction <= total
    assert cap >= 1
    tokens = cap if cap < total - start else total - start
    end = split(FINE, total, prompt, start, tokens, cap, junction)
    assert start < end <= start + tokens


def a_full_offer_is_never_empty_with_a_drop(start: int, prompt: int, total: int, cap: int, junction: int) -> None:
    """SPLIT-RANGE-1, SPLIT-PROGRESS-1."""
    assert 0 <= start < total
    assert 0 <= prompt <= total
    assert 0 <= junction <= total
    assert cap >= 1
    tokens = cap if cap < total - start else total - start
    end = split(COARSE_WITH_DROP, total, prompt, start, tokens, cap, junction)
    assert start < end <= start + tokens


def a_chunk_passes_no_kept_state(start: int, prompt: int, total: int, tokens: int, cap: int) -> None:
    """SPLIT-STOP-2, SPLIT-STOP-3."""
    assert 0 <= start < prompt <= total
    assert 1 <= tokens <= total - start
    assert tokens <= cap
    end = split(FINE, total, prompt, start, tokens, cap, 0)
    assert not start < FINE.last_block_state(total) < end
    assert not start < FINE.last_hash_state(total, prompt) < end


def a_chunk_passes_no_junction(start: int, prompt: int, total: int, tokens: int, junction: int) -> None:
    """SPLIT-STOP-4, in an empty batch."""
    assert 0 <= start < prompt <= total
    assert 1 <= tokens <= total - start
    assert 0 <= junction <= total
    end = split(FINE, total, prompt, start, tokens, tokens, junction)
    assert not start < floor_to(junction, 6) < end


def what_is_kept_can_have_a_key(n: int, prompt: int, total: int, junction: int) -> None:
    """ADVANCE-KEEP-1, RETAIN-BOUNDARIES-1: a state at a multiple of h at least, and at every multiple of B."""
    assert 0 < n <= total
    assert 0 <= prompt <= total
    assert 0 <= junction <= total
    hybrid = HybridConfig(fine_grained=True, retention=Retention.BOUNDARIES)
    kept = keeps(hybrid, FINE, 6, n, total, prompt, junction)
    assert n % 2 == 0 or not kept
    assert n % 6 != 0 or kept


def a_window_has_what_is_needed_and_no_slot_more(n: int) -> None:
    """HIT-WINDOW-1, w = 5 and B = 6: the slot of the first row that is read is the first one that is needed."""
    assert n > 0
    slot = first_needed_slot(WINDOW, n)
    assert 6 * slot <= first_needed_row(WINDOW, n) < 6 * slot + 6
    assert n - 5 < first_needed_row(WINDOW, n) + 1 <= n


def a_state_lies_in_the_slot_in_which_its_prefix_ends(n: int) -> None:
    """HIT-RECURRENT-1, ADVANCE-LETGO-1."""
    assert n > 0
    slot = first_needed_slot(RECURRENT, n)
    assert 6 * slot < n <= 6 * slot + 6
