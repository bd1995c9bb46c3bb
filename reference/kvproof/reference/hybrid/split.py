"""Where a prefill chunk ends (clauses SPLIT-*). Pure functions of numbers; the callers have checked their ranges."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.reference.hybrid.groups import floor_to, recurrent_block_size
from kvproof.spec.vocabulary import PoolConfig


@dataclass(frozen=True, slots=True)
class Grid:
    """Where states are kept; `block_size` is that of the split, all in tokens."""

    block_size: int
    hash_block_size: int
    fine_grained: bool
    checkpoints: bool
    lookahead: int
    has_drop: bool

    @staticmethod
    def of(config: PoolConfig) -> Grid | None:
        """The grid of a hybrid pool, None without recurrent groups: nothing has to stop anywhere (SPLIT-NONE-1)."""
        size, hybrid = recurrent_block_size(config), config.hybrid
        if size is None or hybrid is None:
            return None
        return Grid(
            size,
            config.hash_block_size,
            hybrid.fine_grained,
            hybrid.checkpoints,
            hybrid.lookahead,
            bool(hybrid.drop),
        )

    def last_state(self, n: int, unit: int) -> int:
        """C(n, unit): where the last state of n tokens is kept in units of `unit`."""
        if self.has_drop:
            return max(0, floor_to(n, unit) - unit)
        return max(0, floor_to(n - max(1, self.lookahead), unit))

    def last_block_state(self, num_tokens: int) -> int:
        """C(T, B) (SPLIT-STOP-2)."""
        return self.last_state(num_tokens, self.block_size)

    def last_hash_state(self, num_tokens: int, num_prompt: int) -> int:
        """C(P, h) where a chunk stops for it, else 0 (SPLIT-STOP-3)."""
        n = self.last_state(num_prompt, self.hash_block_size)
        return n if self.fine_grained and self.last_block_state(num_tokens) < n < num_prompt else 0

    def junction_state(self, junction: int, num_prompt: int) -> int:
        """Where a chunk stops for the junction, 0 if nowhere (SPLIT-STOP-4)."""
        if self.checkpoints and junction <= num_prompt:
            return junction
        return floor_to(junction, self.block_size)


def split(grid: Grid | None, num_tokens: int, num_prompt: int, start: int, tokens: int, cap: int, junction: int) -> int:
    """The end of the chunk that begins at `start`, when `tokens` tokens could be scheduled and `cap` at most ever.

    `start` itself means: not in this step.
    """
    end = start + tokens
    decode = max(num_prompt, num_tokens - 1)
    if grid is None or start >= decode:
        return end
    if end < decode:
        aligned = floor_to(end, grid.block_size)
        if aligned > start:
            end = aligned
        elif start + cap >= _next_block(start, grid.block_size):
            return start
    stops = (
        _next_block(start, grid.block_size) if start % grid.block_size else 0,
        grid.last_block_state(num_tokens),
        grid.last_hash_state(num_tokens, num_prompt),
        grid.junction_state(junction, num_prompt),
    )
    return min([stop for stop in stops if start < stop < end], default=end)


def _next_block(start: int, block_size: int) -> int:
    return floor_to(start, block_size) + block_size
