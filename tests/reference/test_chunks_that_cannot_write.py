"""What is undefined, a request that was shortened behind the cache's back (GROUP-OWN-1), is refused before anything
changes where it can be seen at all."""

from __future__ import annotations

import pytest

from kvproof.spec.errors import ContentConflict, NotOwner, PoolError
from kvproof.spec.vocabulary import GroupConfig
from tests.clauses.hybrid_rig import HybridRig, full, named, state

TWENTY = tuple(range(1, 21))


@pytest.mark.parametrize("groups", [(full(2), full(4)), (full(4), full(2)), (state(2), full(4))], ids=named)
def test_a_request_that_was_shortened_by_itself_does_not_go_on_over_a_key(groups: tuple[GroupConfig, ...]) -> None:
    """It computed 10 tokens of a prompt of 11, and both groups have keys at 8 and 10."""
    rig = HybridRig(*groups)
    r1 = rig.request("r1", TWENTY[:11])
    rig.run(r1, 10)
    r1.truncate(9)
    r1.append([70, 71, 72])
    rig.begin()
    with rig.refused(ContentConflict):
        rig.cache.advance(r1, 12)


@pytest.mark.parametrize(("taken_over", "error"), [(False, ContentConflict), (True, NotOwner)])
def test_a_chunk_that_one_group_cannot_write_leaves_the_others_alone(taken_over: bool, error: type[PoolError]) -> None:
    """As if it had been settled inside the slot of the second group: the state after a fault of the cache's own."""
    rig = HybridRig(full(4), full(6))
    if taken_over:
        rig.serve("there", TWENTY[:13])
    r1 = rig.request("r1", TWENTY)
    rig.run(r1, 13)
    rig.begin()
    rig.cache.truncate(r1, 12)
    running = rig.cache.running["r1"]
    rig.cache._let_go("r1", running, running.beyond(4))
    running.go_back_to(4)
    with rig.refused(error):
        rig.cache.advance(r1, 5)
