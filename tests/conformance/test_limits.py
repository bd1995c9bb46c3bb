from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace

import pytest

from kvproof.conformance.certification.trace import Trace, TraceStep
from kvproof.conformance.operations import Allocate, Append, Read
from kvproof.conformance.vectors import vectors
from kvproof.conformance.vectors.limits import LIMITS, WrongLimit, tape_of
from kvproof.conformance.vectors.limits.kinds import Limit, Turn
from kvproof.conformance.vectors.limits.no_limit import NO_LIMIT
from kvproof.conformance.vectors.not_shown import NOT_SHOWN
from kvproof.conformance.vectors.tape import Tape
from kvproof.spec.clauses import Level, clauses

REFUSALS = [limit for limit in LIMITS if isinstance(limit, Limit)]
TURNS = [limit for limit in LIMITS if isinstance(limit, Turn)]


def steps_of(limit: Limit | Turn) -> list[TraceStep]:
    [vector] = [vector for vector in vectors() if vector.header.name == limit.name]
    assert set(limit.clauses) <= set(vector.header.clauses)
    return without_reads(vector, tape_of(limit))


def without_reads(vector: Trace, tape: Tape) -> list[TraceStep]:
    """The steps of a limit's vector that were said; reads follow by themselves."""
    said, steps = deque(each.operation for each in tape.said), list[TraceStep]()
    for step in vector.steps:
        if said and step.operation == said[0]:
            steps.append(step)
            said.popleft()
        else:
            assert isinstance(step.operation, Read)
    assert not said
    return steps


def answer(step: TraceStep) -> tuple[object, object]:
    return step.expect.result, step.expect.events


def test_every_clause_of_level_must_names_limits_or_none_or_is_not_shown() -> None:
    with_limits = {clause_id for limit in LIMITS for clause_id in limit.clauses}
    places = Counter([*with_limits, *(clause_id for ids in NO_LIMIT.values() for clause_id in ids), *NOT_SHOWN])
    musts = [clause.id for clause in clauses().values() if clause.level is Level.MUST]
    assert [clause_id for clause_id in musts if places[clause_id] != 1] == []
    assert places.keys() == set(musts)


def test_limits_have_names_of_their_own() -> None:
    assert [name for name, times in Counter(limit.name for limit in LIMITS).items() if times > 1] == []
    assert len(REFUSALS) > len(TURNS) > 10


@pytest.mark.parametrize("limit", REFUSALS, ids=lambda limit: limit.what)
def test_just_outside_a_limit_is_refused_and_just_inside_accepted(limit: Limit) -> None:
    steps = steps_of(limit)
    assert [step.operation for step in steps if step.expect.errors] == list(limit.outside)
    assert [step.operation for step in steps if not step.expect.errors] == [*limit.before, *limit.inside]
    kinds = {type(operation) for operation in limit.inside}
    assert any(type(operation) in kinds for operation in limit.outside)


@pytest.mark.parametrize("limit", TURNS, ids=lambda limit: limit.what)
def test_where_nothing_is_refused_the_answer_turns(limit: Turn) -> None:
    steps = steps_of(limit)
    assert [step.operation for step in steps] == [*limit.before, *limit.one, *limit.other]
    assert not any(step.expect.errors for step in steps)
    one, other = steps[len(limit.before) + len(limit.one) - 1], steps[-1]
    assert type(one.operation) is type(other.operation)
    assert answer(one) != answer(other)


def test_a_limit_without_one_of_its_sides_is_none() -> None:
    limit, turn = REFUSALS[0], TURNS[0]
    tape_of(limit)
    tape_of(turn)
    for half in (replace(limit, outside=()), replace(limit, inside=()), replace(turn, one=()), replace(turn, other=())):
        with pytest.raises(WrongLimit, match="one side only"):
            tape_of(half)


def test_a_limit_drawn_elsewhere_is_noticed() -> None:
    limit = next(limit for limit in REFUSALS if limit.what == "how_many_blocks_are_free")
    with pytest.raises(WrongLimit, match="should be refused"):
        tape_of(replace(limit, outside=(Allocate("r1", 4),)))
    with pytest.raises(WrongLimit, match="should be accepted"):
        tape_of(replace(limit, inside=(Allocate("r1", 5),)))


def test_a_turn_whose_answers_are_alike_or_no_answers_to_one_question_is_noticed() -> None:
    turn = next(limit for limit in TURNS if limit.what == "tokens_that_a_hash_covers")
    with pytest.raises(WrongLimit, match="answered differently"):
        tape_of(replace(turn, other=turn.one))
    with pytest.raises(WrongLimit, match="answered differently"):
        tape_of(replace(turn, other=(Append("r1", (4,)),)))
