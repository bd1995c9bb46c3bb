"""Where the chunks of a prefill end, and which states are kept there (SPLIT-*, RETAIN-*)."""

from __future__ import annotations

from kvproof.gpu_backend.hybrid.geometry import Geometry, floor
from kvproof.spec.vocabulary import Retention


class Stops:
    """The stops of a hybrid model. `total` are a request's tokens, `prompt` how many of them are its prompt's."""

    def __init__(self, geometry: Geometry) -> None:
        self._geometry, self._hybrid = geometry, geometry.hybrid

    def split(self, start: int, tokens: int, cap: int, junction: int, total: int, prompt: int) -> int:
        """Where the chunk ends that begins at `start`, when so many tokens could be scheduled now and at most `cap`
        ever could (SPLIT-*). The arguments are in their ranges."""
        size, end, last = self._geometry.state_size, start + tokens, max(prompt, total - 1)
        if not size or start >= last:
            return end
        next_end = floor(start, size) + size
        if end < last:
            if floor(end, size) > start:
                end = floor(end, size)
            elif start + cap >= next_end:
                return start
        stops = [*self._last_states(total, prompt), self._junction_state(junction, prompt)]
        if start % size:
            stops.append(next_end)
        return min([stop for stop in stops if start < stop < end], default=end)

    def keeps(self, group: int, n: int, junction: int, total: int, prompt: int) -> bool:
        """Whether a recurrent group registers the state at the chunk end n (ADVANCE-KEEP-1, RETAIN-*)."""
        hybrid, size = self._hybrid, self._geometry.groups[group].block_size
        if n % (self._geometry.hash_block_size if hybrid.fine_grained else size):
            return False
        if n in self._last_states(total, prompt):
            return True
        if hybrid.retention is Retention.LAST:
            return False
        if n == self._junction_state(junction, prompt):
            return True
        at_interval = hybrid.interval is not None and n % hybrid.interval == 0
        return n % size == 0 and (hybrid.retention is Retention.BOUNDARIES or at_interval)

    def _last_states(self, total: int, prompt: int) -> tuple[int, ...]:
        """C(T, B), and C(P, h) where that is a stop too (SPLIT-STOP-2, SPLIT-STOP-3)."""
        last = self._last_state(total, self._geometry.state_size)
        tail = self._last_state(prompt, self._geometry.hash_block_size)
        return (last, tail) if self._hybrid.fine_grained and last < tail < prompt else (last,)

    def _last_state(self, n: int, unit: int) -> int:
        """C(n, u)."""
        if self._hybrid.drop:
            return max(0, floor(n, unit) - unit)
        return max(0, floor(n - max(1, self._hybrid.lookahead), unit))

    def _junction_state(self, junction: int, prompt: int) -> int:
        """Where the state is kept with which the junction can be reached (SPLIT-STOP-4)."""
        if self._hybrid.checkpoints and junction <= prompt:
            return junction
        return floor(junction, self._geometry.state_size)
