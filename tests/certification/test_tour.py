from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

import pytest

from kvproof.conformance.canonical import Canonicalizer
from kvproof.conformance.certification.tour import LONGEST, Tour
from kvproof.conformance.enabled import EnabledOperations
from kvproof.conformance.operations import Operation, Touch, name_of
from kvproof.conformance.preconditions import violations
from kvproof.conformance.scope import Scope
from kvproof.conformance.world import World
from kvproof.spec.vocabulary import CommitMode, GroupKind

SCOPES = {
    "blocks": Scope(2, ("a", "aa"), 1),
    "requests": Scope(1, ("a", "aa"), 2),
    "partial": Scope(1, ("a", "aa"), 1, block_size=3),
    "anonymous": Scope(1, ("a", "aa"), 2, anonymous=True),
    "steps": Scope(1, ("a",), 2, GroupKind.SLIDING_WINDOW, commit=CommitMode.STEPS),
}


def everything(operation: Operation) -> bool:
    return True


def is_no_touch(operation: Operation) -> bool:
    return not isinstance(operation, Touch)


def walked(scope: Scope, tour: Tour) -> Iterator[tuple[World, Operation]]:
    """Each operation of the next path with the world that it is run in."""
    world = scope.start()
    for operation in tour.path(world):
        yield world, operation
        if not violations(world.situation, operation):
            world.apply(operation)
            world.drain()


def whole(scope: Scope, tour: Tour) -> Iterator[list[tuple[World, Operation]]]:
    while not tour.is_over:
        yield list(walked(scope, tour))


def number_of_operations(scope: Scope) -> tuple[int, Counter[bool]]:
    """How many states a scope has, and how many operations that are legal in one, or illegal; found without a tour."""
    canonical, enabled, found = Canonicalizer(scope), EnabledOperations(scope), Counter[bool]()
    start = scope.start()
    seen, queue = {canonical.form(start)}, deque([start])
    while queue:
        world = queue.popleft()
        world.drain()
        legal = enabled.of(world)
        found[True] += len(legal)
        found[False] += sum(bool(violations(world.situation, each)) for each in enabled.vocabulary())
        for operation in legal:
            after = world.clone()
            after.apply(operation)
            if (form := canonical.form(after)) not in seen:
                seen.add(form)
                queue.append(after)
    return len(seen), found


@pytest.mark.parametrize("name", SCOPES)
def test_a_tour_runs_every_operation_in_every_state(name: str) -> None:
    scope = SCOPES[name]
    states, expected = number_of_operations(scope)
    canonical, ran, found = Canonicalizer(scope), set[object](), Counter[bool]()
    tour = Tour(scope, everything)
    while not tour.is_over:
        before = tour.left
        for world, operation in walked(scope, tour):
            ran.add(canonical.form(world))
            if tour.left < before:
                found[not violations(world.situation, operation)] += 1
            before = tour.left
    assert found == expected
    assert tour.left == 0
    assert len(ran) == states


@pytest.mark.parametrize("name", SCOPES)
def test_a_tour_does_little_again(name: str) -> None:
    scope = SCOPES[name]
    tour = Tour(scope, everything)
    wanted = tour.left
    paths = list(whole(scope, tour))
    assert sum(map(len, paths)) < 2 * wanted
    assert max(map(len, paths)) <= LONGEST


def test_a_tour_is_the_same_every_time() -> None:
    scope = SCOPES["steps"]
    first, again = ([[o for _, o in path] for path in whole(scope, Tour(scope, everything))] for _ in range(2))
    assert first == again


def test_what_is_not_offered_or_need_not_be_refused_is_left_out() -> None:
    scope = SCOPES["blocks"]
    names = {name_of(o) for path in whole(scope, Tour(scope, is_no_touch)) for _, o in path}
    assert "touch" not in names
    assert "allocate" in names
    legal = [not violations(world.situation, o) for world, o in walked(scope, Tour(scope, everything, refused=False))]
    assert all(legal)


def test_what_came_after_a_difference_is_run_later_and_what_differed_is_not() -> None:
    scope = SCOPES["partial"]
    tour, twin = Tour(scope, everything), Tour(scope, everything)
    every_run = Counter(o for path in whole(scope, twin) for _, o in path)
    total = tour.left
    first = [o for _, o in walked(scope, tour)]
    tour.break_off(10)
    assert tour.left == total - 10
    later = Counter(o for path in whole(scope, tour) for _, o in path)
    assert tour.left == 0
    assert set(every_run) == {*first[:10], *later}
    assert later[first[9]] < every_run[first[9]]


def test_a_tour_whose_beginning_is_wrong_is_over() -> None:
    scope = SCOPES["partial"]
    tour = Tour(scope, everything)
    list(walked(scope, tour))
    tour.break_off(0)
    assert tour.is_over
    assert tour.left > 0
