"""The split as a loop: from every start to the end, for all small numbers; under the long profile for more of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from kvproof.reference.hybrid.split import Grid, split
from kvproof.spec.machine.chunks import chunk
from kvproof.spec.machine.theory import PythonTheory, State

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
MOST_TOKENS, LARGEST_BLOCK = (12, 6) if LONG else (7, 4)

Budget = Callable[[int, int], int]
"""(how many chunks there were, cap) -> what the step has left for the request"""

BUDGETS: dict[str, Budget] = {
    "all": lambda step, cap: cap,
    "one now and then": lambda step, cap: cap if step % 2 else 1,
    "less and less": lambda step, cap: max(1, cap - step % 4),
}


def grids() -> Iterator[Grid]:
    for size in range(1, LARGEST_BLOCK + 1):
        for h in (h for h in range(1, size + 1) if size % h == 0):
            for fine, checkpoints, drop in itertools.product((False, True), repeat=3):
                for lookahead in (0,) if drop else (0, 2):
                    yield Grid(size, h, fine, checkpoints, lookahead, drop)


GRIDS = list(grids())


def prompts() -> Iterator[tuple[int, int]]:
    return ((total, prompt) for total in range(1, MOST_TOKENS + 1) for prompt in range(total + 1))


def kept_stops(grid: Grid, total: int, prompt: int, junction: int) -> set[int]:
    """Straight from the clauses: C(T, B), C(P, h) and the junction's stop."""

    def last(n: int, unit: int) -> int:
        return max(0, (n // unit - 1) * unit if grid.has_drop else (n - max(1, grid.lookahead)) // unit * unit)

    block, hashes = last(total, grid.block_size), last(prompt, grid.hash_block_size)
    at_hash = grid.fine_grained and block < hashes < prompt
    whole = grid.checkpoints and junction <= prompt
    return {block, hashes if at_hash else 0, junction if whole else junction // grid.block_size * grid.block_size}


def chunks_to_the_end(
    grid: Grid,
    total: int,
    prompt: int,
    start: int,
    cap: int,
    junction: int,
    budget: Budget,
    rule: Callable[..., int] = split,
) -> list[int]:
    """Where the chunks end; after an empty one the request is offered all that it can get (SCHED-STARVE-1)."""
    ends, empty = [start], 0
    for step in itertools.count():
        if ends[-1] == total:
            return ends
        offered = cap if empty else min(cap, budget(step, cap))
        tokens = min(total - ends[-1], offered)
        end = rule(grid, total, prompt, ends[-1], tokens, cap, junction)
        assert ends[-1] <= end <= ends[-1] + tokens
        assert end > ends[-1] or not empty, f"stuck at {end}"
        empty = end == ends[-1]
        if not empty:
            ends.append(end)
    raise AssertionError("unreachable")


@pytest.mark.clause("SPLIT-PROGRESS-1", "SPLIT-RANGE-1", "SPLIT-STOP-2", "SPLIT-STOP-3", "SPLIT-STOP-4")
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_every_prefill_comes_to_its_end_and_stops_wherever_a_state_is_kept(budget: Budget) -> None:
    for grid in GRIDS:
        for total, prompt in prompts():
            decode = max(prompt, total - 1)
            for junction, cap in itertools.product(range(total + 1), range(1, total + 1)):
                ends = chunks_to_the_end(grid, total, prompt, 0, cap, junction, budget)
                stops = {stop for stop in kept_stops(grid, total, prompt, junction) if 0 < stop < decode}
                assert stops <= set(ends), (grid, total, prompt, junction, cap, ends)


@pytest.mark.clause("SPLIT-PROGRESS-1", "SPLIT-STOP-1", "SPLIT-ALIGN-1")
def test_from_every_start_a_prefill_reaches_the_next_block_and_then_its_end() -> None:
    for grid in GRIDS:
        for total, prompt in prompts():
            for start, cap in itertools.product(range(total), range(1, total + 1)):
                ends = chunks_to_the_end(grid, total, prompt, start, cap, 0, BUDGETS["one now and then"])
                following = start // grid.block_size * grid.block_size + grid.block_size
                if start % grid.block_size and following < max(prompt, total - 1):
                    assert following in ends


@pytest.mark.clause("SPLIT-NONE-1", "SPLIT-EARLIEST-1", "SPLIT-DECODE-1", "SPLIT-ALIGN-1", "SPLIT-STOP-1")
def test_the_split_is_that_of_the_machine_of_which_everything_is_proved() -> None:
    theory = PythonTheory({})
    compared = 0
    for grid in (None, *GRIDS):
        for total, prompt in prompts():
            for junction in {0, total - 1}:
                state = machine_state(grid or Grid(2, 1, True, False, 0, False), total, prompt, junction)
                for start, tokens in itertools.product(range(total), range(1, total + 1)):
                    if start + tokens > total:
                        continue
                    for cap in {tokens, total}:
                        s = state.but(start=always(start), has_recurrent=always(grid is not None))
                        allowed, after = chunk(theory, s, tokens, cap)
                        assert allowed
                        assert after.start() == split(grid, total, prompt, start, tokens, cap, junction)
                        compared += 1
    assert compared > 20_000


def always(value: int) -> Callable[[], int]:
    return lambda: value


def machine_state(grid: Grid, total: int, prompt: int, junction: int) -> State:
    constants = {
        "block_size": grid.block_size,
        "hash_size": grid.hash_block_size,
        "fine_grained": grid.fine_grained,
        "checkpoints": grid.checkpoints,
        "has_drop": grid.has_drop,
        "lookahead": max(1, grid.lookahead),
        "tokens": total,
        "prompt": prompt,
        "junction": junction,
    }
    return State(
        {
            **{name: always(value) for name, value in constants.items()},
            "floor_block": lambda n: n // grid.block_size * grid.block_size,
            "floor_hash": lambda n: n // grid.hash_block_size * grid.hash_block_size,
        }
    )


def test_a_loop_that_never_ends_is_noticed() -> None:
    """A split that believes in more than it will ever be offered waits for a block that never fits."""
    grid = Grid(4, 2, True, False, 0, False)

    def hopeful(grid: Grid, total: int, prompt: int, start: int, tokens: int, cap: int, junction: int) -> int:
        return split(grid, total, prompt, start, tokens, cap + 100, junction)

    with pytest.raises(AssertionError, match="stuck at 0"):
        chunks_to_the_end(grid, 7, 7, 0, 3, 0, BUDGETS["all"], hopeful)
