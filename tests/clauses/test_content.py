from __future__ import annotations

import pytest

from kvproof.reference import InvariantViolation, Request
from kvproof.reference.ghost import Content
from kvproof.reference.request import Prefix
from kvproof.spec.errors import ContentConflict, InvalidBlock, NotOwner, NotReferenced, OutOfRange, PoolError
from kvproof.spec.vocabulary import ExtraKey, ExtraKeySource, GroupConfig, HolderMode
from tests.clauses.rig import ATTENTION_KINDS, EVERY_KIND, RECURRENT, TEN, WIDE, MakeRig, Rig, key


def held(rig: Rig, block: int, holder: str) -> list[int] | None:
    """The tokens that a holder reads from a block."""
    content = rig.pool.read(block, holder)
    return None if content is None else content.tokens[: content.length]


# Soundness


@pytest.mark.clause("CONTENT-SOUND-1")
@ATTENTION_KINDS
def test_an_attention_block_that_is_found_begins_with_the_prefix_that_was_asked_for(
    new_rig: MakeRig, group: GroupConfig
) -> None:
    rig = new_rig(group)
    r1, r2 = rig.request("r1"), rig.request("r2", [1, 2, 30, 40])
    rig.take(r1)
    rig.put(r1, 1, 2)
    rig.pool.write(r1, 1, 3, 0)
    assert rig.found(r2, 2) == 1
    rig.touch(r2, 1, 2)
    content = held(rig, 1, "r2")
    assert content is not None
    assert content[:2] == r2.tokens[:2]


@pytest.mark.clause("CONTENT-SOUND-1")
def test_a_recurrent_block_that_is_found_holds_the_state_of_exactly_that_prefix(new_rig: MakeRig) -> None:
    rig = new_rig(RECURRENT)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1)
    rig.put(r1, 1, 2)
    with rig.refused(ContentConflict):
        rig.pool.write(r1, 1, 3, 0)
    rig.touch(r2, 1, 2)
    assert held(rig, 1, "r2") == [1, 2]


@pytest.mark.clause("CONTENT-SOUND-1")
@EVERY_KIND
def test_a_reused_block_never_serves_its_former_prompt(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group, blocks=2)
    r1, r2, r3 = rig.request("r1"), rig.request("r2", range(50, 60)), rig.request("r3")
    rig.fill(r1, 1)
    rig.free(r1, 1)
    assert rig.found(r3, 4) == 1
    rig.take(r2)
    assert rig.found(r3, 4) is None
    rig.pool.write(r2, 1, 4, 0)
    rig.pool.cache_full_blocks(r2, [1], 0, 1, 0)
    assert (rig.found(r3, 4), rig.found(r2, 4)) == (None, 1)
    assert held(rig, 1, "r2") == [50, 51, 52, 53]


@pytest.mark.clause("CONTENT-SOUND-1")
@EVERY_KIND
def test_equal_tokens_under_another_image_are_not_served(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)

    def image(value: bytes) -> list[ExtraKey]:
        return [ExtraKey(ExtraKeySource.MEDIA, value, 1, 3)]

    r1, r2 = rig.request("r1", extra_keys=image(b"cat")), rig.request("r2", extra_keys=image(b"dog"))
    rig.fill(r1, 1)
    assert rig.found(r2, 4) is None
    assert rig.found(rig.request("r3", extra_keys=image(b"cat")), 4) == 1


# Write


def go_back(request: Request, kept: int, *more: int) -> None:
    """Truncate the request and let it go on differently."""
    request.truncate(kept)
    request.append(more)


@pytest.mark.clause("CONTENT-WRITE-1")
@ATTENTION_KINDS
def test_a_write_goes_on_behind_a_key_and_never_changes_what_the_key_covers(
    new_rig: MakeRig, group: GroupConfig
) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1", [1, 2])
    rig.take(r1)
    rig.put(r1, 1, 2)
    r1.append([3])
    rig.pool.write(r1, 1, 3, 0)
    assert held(rig, 1, "r1") == [1, 2, 3]
    go_back(r1, 1, 9)
    with rig.refused(ContentConflict):
        rig.pool.write(r1, 1, 2, 0)
    rig.pool.evict([1])
    rig.pool.write(r1, 1, 2, 0)
    assert held(rig, 1, "r1") == [1, 9]


@pytest.mark.clause("CONTENT-WRITE-1")
@ATTENTION_KINDS
def test_a_write_that_ends_before_a_key_is_refused_and_one_that_ends_at_it_is_not(
    new_rig: MakeRig, group: GroupConfig
) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    with rig.refused(ContentConflict):
        rig.pool.write(r1, 1, 3, 0)
    rig.pool.write(r1, 1, 4, 0)


@pytest.mark.clause("CONTENT-WRITE-1")
def test_every_key_of_the_block_is_looked_at(new_rig: MakeRig) -> None:
    rig = new_rig(WIDE)
    r1 = rig.request("r1", [1, 2, 3, 4, 5, 6])
    rig.take(r1)
    rig.put(r1, 1, 6)
    rig.pool.cache_partial_block(r1, 1, 2, 0)
    go_back(r1, 4, 50, 60)
    with rig.refused(ContentConflict):
        rig.pool.write(r1, 1, 6, 0)


@pytest.mark.clause("CONTENT-WRITE-1")
@ATTENTION_KINDS
def test_what_a_reader_was_served_is_covered_after_its_key_is_gone(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1, r2 = rig.request("r1", [1, 2, 3, 4]), rig.request("r2")
    rig.take(r1)
    rig.put(r1, 1, 2)
    rig.touch(r2, 1, 2)
    rig.pool.evict([1])
    with rig.refused(ContentConflict):
        rig.pool.write(r1, 1, 1, 0)
    rig.pool.write(r1, 1, 3, 0)
    go_back(r1, 2, 30)
    rig.pool.write(r1, 1, 3, 0)
    go_back(r1, 1, 20)
    with rig.refused(ContentConflict):
        rig.pool.write(r1, 1, 2, 0)
    rig.free(r2, 1)
    rig.pool.write(r1, 1, 2, 0)
    assert held(rig, 1, "r1") == [1, 20]


@pytest.mark.clause("CONTENT-WRITE-1")
def test_the_writers_own_rows_do_not_stand_in_its_way(rig: Rig) -> None:
    r1 = rig.request("r1", [1, 2, 3, 4])
    rig.take(r1)
    rig.pool.write(r1, 1, 4, 0)
    go_back(r1, 1, 9)
    rig.pool.write(r1, 1, 1, 0)
    assert held(rig, 1, "r1") == [1]


@pytest.mark.clause("CONTENT-WRITE-2")
def test_a_state_with_a_key_is_not_overwritten_and_one_without_is(new_rig: MakeRig) -> None:
    rig = new_rig(RECURRENT)
    r1 = rig.request("r1")
    rig.take(r1)
    rig.put(r1, 1, 2)
    for position in (1, 2, 3, 4):
        with rig.refused(ContentConflict):
            rig.pool.write(r1, 1, position, 0)
    rig.pool.evict([1])
    for position in (1, 4, 3):
        rig.pool.write(r1, 1, position, 0)
    assert held(rig, 1, "r1") == [1, 2, 3]


@pytest.mark.clause("CONTENT-WRITE-2")
def test_a_state_with_a_reader_is_not_overwritten_until_the_reader_goes(new_rig: MakeRig) -> None:
    rig = new_rig(RECURRENT)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1)
    rig.put(r1, 1, 2)
    rig.touch(r2, 1, 2)
    rig.pool.evict([1])
    with rig.refused(ContentConflict):
        rig.pool.write(r1, 1, 4, 0)
    rig.free(r2, 1)
    rig.pool.write(r1, 1, 4, 0)


@pytest.mark.clause("CONTENT-WRITE-2", "POOL-MOVE-1")
def test_a_producer_goes_on_after_its_key_moved_to_a_fresh_block(new_rig: MakeRig) -> None:
    rig = new_rig(RECURRENT)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1, 2)
    rig.put(r1, 1, 2)
    rig.pool.move(1, 2)
    rig.pool.write(r1, 1, 4, 0)
    rig.touch(r2, 2, 2)
    assert (held(rig, 1, "r1"), held(rig, 2, "r2")) == ([1, 2, 3, 4], [1, 2])


@pytest.mark.clause("CONTENT-WRITE-3")
@EVERY_KIND
@pytest.mark.parametrize(
    ("who", "block", "position", "error"),
    [
        ("reader", 1, 4, NotOwner),
        ("stranger", 1, 4, NotOwner),
        ("r1", 3, 4, NotReferenced),
        ("r1", 2, 0, OutOfRange),
        ("r1", 2, -1, OutOfRange),
        ("r1", 2, 11, OutOfRange),
        ("r1", 2, 2**70, OutOfRange),
        ("r1", 4, 4, OutOfRange),
        ("r1", 4, 9, OutOfRange),
    ],
)
def test_only_the_writer_writes_and_only_inside_its_tokens_and_the_blocks_slot(
    new_rig: MakeRig, group: GroupConfig, who: str, block: int, position: int, error: type[PoolError]
) -> None:
    rig = new_rig(group, blocks=5)
    requests = {name: rig.request(name) for name in ("r1", "reader", "stranger")}
    r1 = requests["r1"]
    rig.take(r1, 4)
    rig.put(r1, 1, 4)
    rig.touch(requests["reader"], 1, 4)
    rig.put(r1, 4, 6)
    rig.pool.evict([1, 4])
    rig.free(r1, 3)
    with rig.refused(error):
        rig.pool.write(requests[who], block, position, 0)


@pytest.mark.clause("CONTENT-WRITE-3")
@EVERY_KIND
@pytest.mark.parametrize(("block", "position"), [(2, 1), (2, 10), (1, 5), (1, 8)])
def test_the_writer_writes_up_to_the_limits(new_rig: MakeRig, group: GroupConfig, block: int, position: int) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.put(r1, 1, 6)
    rig.pool.evict([1])
    rig.pool.write(r1, block, position, 0)
    assert held(rig, block, "r1") == list(TEN[:position])


# Copy


@pytest.mark.clause("CONTENT-COPY-1")
@EVERY_KIND
def test_the_writers_copy_holds_all_of_the_source(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.pool.write(r1, 1, 3, 0)
    before = rig.references_and_keys()
    rig.pool.copy(1, 2, "r1")
    assert held(rig, 2, "r1") == held(rig, 1, "r1") == [1, 2, 3]
    assert rig.references_and_keys() == before


@pytest.mark.clause("CONTENT-COPY-1")
@ATTENTION_KINDS
def test_a_readers_copy_holds_the_prefix_that_it_touched_the_source_by(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1, r2 = rig.request("r1"), rig.request("r2", [1, 2, 30, 40])
    rig.take(r1)
    rig.put(r1, 1, 2)
    rig.touch(r2, 1, 2)
    rig.pool.write(r1, 1, 4, 0)
    [own] = rig.take(r2)
    before = rig.references_and_keys()
    rig.pool.copy(1, own, "r2")
    assert held(rig, own, "r2") == [1, 2]
    assert held(rig, 1, "r1") == [1, 2, 3, 4]
    assert rig.references_and_keys() == before
    rig.put(r2, own, 4)
    assert (rig.found(r2, 4), rig.found(r1, 2)) == (own, 1)


@pytest.mark.clause("CONTENT-COPY-1")
def test_nothing_of_what_the_target_held_is_left_when_the_source_is_empty(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.take(r1, 2)
    rig.pool.write(r1, 2, 3, 0)
    rig.pool.copy(1, 2, "r1")
    assert held(rig, 2, "r1") is None


@pytest.mark.clause("CONTENT-COPY-1")
def test_keys_stay_on_the_source(rig: Rig) -> None:
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    rig.take(r1)
    rig.pool.copy(1, 2, "r1")
    assert (rig.keys_of(1), rig.keys_of(2)) == ([key(r1, 4)], [])


@pytest.mark.clause("CONTENT-COPY-2")
@pytest.mark.parametrize(
    ("src", "dst", "error"),
    [
        (1, 4, NotReferenced),
        (5, 2, NotReferenced),
        (4, 2, NotReferenced),
        (1, 3, NotOwner),
        (1, 1, InvalidBlock),
        (1, 6, ContentConflict),
        (1, 7, ContentConflict),
    ],
    ids=["free target", "source not held", "free source", "reads target", "itself", "target has a key", "has a reader"],
)
def test_a_copy_needs_both_blocks_held_and_a_target_that_nobody_relies_on(
    new_rig: MakeRig, src: int, dst: int, error: type[PoolError]
) -> None:
    rig = new_rig(blocks=8)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.pool.allocate(2, "r1")
    rig.pool.allocate(3, "r2")
    rig.pool.allocate(2, "r1")
    rig.free(r2, 4)
    rig.pool.write(r1, 1, 4, 0)
    rig.put(r2, 3, 4)
    rig.touch(r1, 3, 4)
    rig.put(r1, 6, 4)
    rig.put(r1, 7, 4)
    rig.touch(r2, 7, 4)
    rig.pool.evict([3, 7])
    with rig.refused(error):
        rig.pool.copy(src, dst, "r1")
    rig.pool.copy(3, 2, "r1")
    rig.pool.copy(7, 2, "r1")


@pytest.mark.clause("CONTENT-COPY-2")
def test_a_reader_may_copy_from_a_block_whose_key_is_gone(rig: Rig) -> None:
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.touch(r2, 1, 4)
    rig.free(r1, 1)
    rig.pool.evict([1])
    [own] = rig.take(r2)
    assert own != 1
    rig.pool.copy(1, own, "r2")
    assert held(rig, own, "r2") == [1, 2, 3, 4]


# Read and move


@pytest.mark.clause("CONTENT-READ-1")
def test_holders_read_what_the_block_holds_and_nobody_else_does(rig: Rig) -> None:
    r1, r2, r3 = rig.request("r1"), rig.request("r2"), rig.request("r3")
    rig.take(r1)
    assert held(rig, 1, "r1") is None
    rig.put(r1, 1, 2)
    rig.touch(r2, 1, 2)
    rig.pool.write(r1, 1, 3, 0)
    with rig.silent():
        assert held(rig, 1, "r1") == held(rig, 1, "r2") == [1, 2, 3]
    for stranger, block in ((r3, 1), (r1, 2)):
        with rig.refused(NotReferenced):
            rig.pool.read(block, stranger.request_id)
    rig.free(r2, 1)
    with rig.refused(NotReferenced):
        rig.pool.read(1, "r2")


@pytest.mark.clause("CONTENT-READ-1", "POOL-HOLDER-2")
def test_with_anonymous_references_a_block_in_use_is_read_by_anybody(new_rig: MakeRig) -> None:
    rig = new_rig(holders=HolderMode.CALLER)
    r1 = rig.request("r1")
    rig.fill(r1, 1)
    content = rig.pool.read(1)
    assert content is not None
    assert content.tokens[: content.length] == [1, 2, 3, 4]
    rig.free(r1, 1)
    with rig.refused(NotReferenced):
        rig.pool.read(1)


@pytest.mark.clause("CONTENT-READ-1")
def test_a_freshly_allocated_block_holds_nothing_of_its_former_life(new_rig: MakeRig) -> None:
    rig = new_rig(blocks=2)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.fill(r1, 1)
    rig.free(r1, 1)
    rig.take(r2)
    assert held(rig, 1, "r2") is None


@pytest.mark.clause("CONTENT-MOVE-1")
@EVERY_KIND
def test_a_move_takes_the_content_along(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1, r2 = rig.request("r1"), rig.request("r2", range(50, 60))
    rig.take(r1)
    rig.take(r2)
    rig.put(r1, 1, 2)
    rig.pool.write(r2, 2, 4, 0)
    rig.pool.move(1, 2)
    assert held(rig, 2, "r2") == held(rig, 1, "r1") == [1, 2]
    rig.free(r1, 1)
    rig.take(r1)
    assert rig.found(r1, 2) == 2
    r3 = rig.request("r3")
    rig.touch(r3, 2, 2)
    assert held(rig, 2, "r3") == [1, 2]


@pytest.mark.clause("CONTENT-MOVE-1")
@EVERY_KIND
def test_moved_content_is_read_where_its_keys_are_found(new_rig: MakeRig, group: GroupConfig) -> None:
    rig = new_rig(group)
    r1, r2 = rig.request("r1"), rig.request("r2")
    rig.take(r1)
    rig.take(r2)
    rig.put(r1, 1, 2)
    rig.pool.move(1, 2)
    assert held(rig, 2, "r2") == [1, 2]
    r3 = rig.request("r3")
    rig.touch(r3, 2, 2)
    assert held(rig, 2, "r3") == [1, 2]


@pytest.mark.clause("CONTENT-WRITE-3")
def test_tokens_that_have_no_hash_yet_are_written_too(rig: Rig) -> None:
    r1 = rig.request("r1", [1, 2, 3])
    [block] = rig.take(r1)
    rig.pool.write(r1, block, 3, 0)
    held = rig.pool.read(block, "r1")
    assert held is not None
    assert held.spelled == (1, 2, 3)
    with rig.refused(OutOfRange):
        rig.pool.write(r1, block, 4, 0)


@pytest.mark.clause("CONTENT-SOUND-1", "INV-SOUND-1")
def test_a_state_of_a_longer_prefix_does_not_serve_a_shorter_key(new_rig: MakeRig) -> None:
    rig = Rig(RECURRENT)
    r1 = rig.request("r1")
    [block] = rig.take(r1)
    rig.put(r1, block, 2)
    rig.check()
    rig.overwrite(block, Content(Prefix(r1, 3), 0))
    with pytest.raises(InvariantViolation, match="INV-SOUND-1"):
        rig.check()
