"""How much is done: three profiles, each decided by counts alone, so that the same seed gives the same run."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Profile:
    """So many random walks, and walks of spoiled operations, of so many `operations` each.

    The `hybrid_` ones come on top with level H, in pools over which requests run.
    `exhaustive`: tiny pools are visited in full. `workloads`: the first requests of real traces are replayed.
    """

    name: str
    walks: int
    illegal_walks: int
    operations: int
    exhaustive: bool
    workloads: bool
    hybrid_walks: int = 0
    hybrid_illegal_walks: int = 0

    def times(self, budget: int) -> Profile:
        """The same with so many times the random walks."""
        return replace(
            self,
            walks=self.walks * budget,
            illegal_walks=self.illegal_walks * budget,
            hybrid_walks=self.hybrid_walks * budget,
            hybrid_illegal_walks=self.hybrid_illegal_walks * budget,
        )

    @property
    def budgets(self) -> dict[str, int]:
        """What a certificate says of it."""
        return {
            "walks": self.walks,
            "illegal walks": self.illegal_walks,
            "hybrid walks": self.hybrid_walks,
            "illegal hybrid walks": self.hybrid_illegal_walks,
            "operations": self.operations,
        }


QUICK = Profile(
    "quick",
    walks=60,
    illegal_walks=40,
    operations=460,
    exhaustive=False,
    workloads=False,
    hybrid_walks=24,
    hybrid_illegal_walks=6,
)
STANDARD = Profile(
    "standard",
    walks=800,
    illegal_walks=400,
    operations=460,
    exhaustive=True,
    workloads=True,
    hybrid_walks=110,
    hybrid_illegal_walks=50,
)
DEEP = replace(STANDARD, name="deep")

PROFILES = {profile.name: profile for profile in (QUICK, STANDARD, DEEP)}
"""By name; `deep` takes a budget, which multiplies what is random."""
