from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvproof.spec.vocabulary import CommitMode
from tests.clauses.hybrid_rig import HybridRig, MakeHybrid
from tests.clauses.rig import MakeRig, Rig


@pytest.fixture
def new_rig() -> Iterator[MakeRig]:
    """Makes rigs; when the test is over, every rig's invariants are checked."""
    made: list[Rig] = []

    def make(*args: object, **kwargs: object) -> Rig:
        made.append(Rig(*args, **kwargs))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for rig in made:
        rig.check()


@pytest.fixture
def in_step(new_rig: MakeRig) -> MakeRig:
    """Makes rigs whose keys are published with the commit of their step; step 1 is open."""

    def make(*args: object, **kwargs: object) -> Rig:
        rig = new_rig(*args, commit=CommitMode.STEPS, **kwargs)
        assert rig.begin() == 1
        return rig

    return make


@pytest.fixture
def rig(new_rig: MakeRig) -> Rig:
    """The default rig: blocks 0 to 3, h = 2, one attention group with B = 4."""
    return new_rig()


@pytest.fixture
def hybrid() -> Iterator[MakeHybrid]:
    """Makes rigs whose requests run over groups; when the test is over, their invariants and tables are checked."""
    made: list[HybridRig] = []

    def make(*args: object, **kwargs: object) -> HybridRig:
        made.append(HybridRig(*args, **kwargs))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for rig in made:
        rig.check()
