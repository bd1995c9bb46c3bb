"""Rare situations of requests that run over all groups, counted as the reference meets them."""

from __future__ import annotations

from kvproof.conformance.operations import Admit, Advance, Fail, Match, Operation, Release, Rollback, Split, Truncate
from kvproof.reference.hybrid import Match as Found
from kvproof.reference.observation import PoolState, RunningState
from kvproof.spec.vocabulary import COPY_PREFIX, NULL_BLOCK, GroupKind

Tables = tuple[tuple[int, ...], ...]


def _hit(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return (found := _found(operation, result)) is not None and found.hit > 0


def _copied_at_the_hit(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Admit) and len(after.steps.copies) > len(before.steps.copies)


def _left_a_junction(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return (found := _found(operation, result)) is not None and found.junction > 0


def _shared_what_is_reserved(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    if not isinstance(operation, Admit):
        return False
    return any(name == operation.request for block in after.blocks for name, _ in block.attached)


def _could_hit_more(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Match) and isinstance(result, Found) and result.pending > result.hit


def _moved_a_state(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    if not isinstance(operation, Advance):
        return False
    new = after.steps.copies[len(before.steps.copies) :]
    return any(name.startswith(COPY_PREFIX) and name.endswith(f":{operation.request}") for _, _, _, name in new)


def _let_a_block_go(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    if not isinstance(operation, Advance):
        return False
    old, new = (_tables(state, operation.request) for state in (before, after))
    pairs = [pair for one, other in zip(old, new, strict=True) for pair in zip(one, other, strict=False)]
    return any(one != NULL_BLOCK and other == NULL_BLOCK for one, other in pairs)


def _not_now(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Split) and result == operation.start


def _stopped_early(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Split) and operation.start != result != operation.start + operation.tokens


def _went_back(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    if not isinstance(operation, Rollback | Release | Fail):
        return False
    return any(
        (now := _running(after, old.request)) is not None and now.computed < old.computed
        for old in before.running or ()
    )


def _failed_with_another(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    if not isinstance(operation, Release):
        return False
    return len(before.running or ()) - len(after.running or ()) > 1


def _failed_beside_others(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    """A later step is in flight that was not taken back whole."""
    if not isinstance(operation, Fail) or not result:
        return False
    return any(each.unsettled for each in after.running or ())


def _failed_to_move(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    if not isinstance(operation, Fail):
        return False
    return any(
        entry.ahead == 1 and entry.owner is None and entry.key not in [each.key for each in now.entries]
        for was, now in zip(before.blocks, after.blocks, strict=True)
        for entry in was.entries
    )


def _cut_within_a_slot(operation: Operation, before: PoolState, after: PoolState, result: object) -> bool:
    return isinstance(operation, Truncate) and len(after.steps.copies) > len(before.steps.copies)


def _found(operation: Operation, result: object) -> Found | None:
    """The match of an admission."""
    if isinstance(operation, Admit) and isinstance(result, tuple) and isinstance(result[0], Found):
        return result[0]
    return None


def _running(state: PoolState, name: str) -> RunningState | None:
    return next((each for each in state.running or () if each.request == name), None)


def _tables(state: PoolState, name: str) -> Tables:
    running = _running(state, name)
    return () if running is None else running.tables


MARKS_OF_RUNNING = {
    "an admission hit": _hit,
    "a hit ended inside a block": _copied_at_the_hit,
    "an admission had a junction": _left_a_junction,
    "an admission shared what was reserved": _shared_what_is_reserved,
    "a match saw that waiting would hit more": _could_hit_more,
    "a state was moved before it was overwritten": _moved_a_state,
    "a chunk let a block go": _let_a_block_go,
    "a split waited for room": _not_now,
    "a split stopped early": _stopped_early,
    "a failed chunk took a request back": _went_back,
    "a release ended another request too": _failed_with_another,
    "a step failed, and a later one went on": _failed_beside_others,
    "a key that moved in a failed step was evicted": _failed_to_move,
    "a truncation copied the slot of its cut": _cut_within_a_slot,
}
"""What to look for with level H."""

_ATTENTION, _RECURRENT = GroupKind.FULL_ATTENTION, GroupKind.RECURRENT

KINDS_OF_MARKS = {
    "an admission had a junction": (_ATTENTION, _RECURRENT),
    "an admission shared what was reserved": (_ATTENTION,),
    "a state was moved before it was overwritten": (_RECURRENT,),
    "a split waited for room": (_RECURRENT,),
    "a split stopped early": (_RECURRENT,),
    "a failed chunk took a request back": (_ATTENTION,),
    "a release ended another request too": (_ATTENTION, _RECURRENT),
    "a key that moved in a failed step was evicted": (_RECURRENT,),
    "a truncation copied the slot of its cut": (_ATTENTION,),
}
"""The kinds of groups without which a situation cannot be met."""
