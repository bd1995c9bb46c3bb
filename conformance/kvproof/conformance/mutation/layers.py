"""The parts of the suite that may notice a mutant, each run in this process on the reference as it is here.

A layer imports what it needs when it runs: by then the mutant is in place. The budgets are small, since most mutants
are noticed at once and every survivor costs all of them. What is random is seeded: a layer does the same every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from kvproof.conformance.mutation.beside import backend_walks, shipped_vectors
from kvproof.conformance.mutation.clause_tests import (
    ClauseRun,
    find_tests,
    run_backend_tests,
    run_clause_tests,
    run_request_tests,
)
from kvproof.conformance.mutation.jobs import LayerResult
from kvproof.conformance.mutation.parts import Layer, Part, until_the_first_finding

if TYPE_CHECKING:
    from hypothesis import settings

    from kvproof.conformance.scope import Scope

WALKS, STEPS_OF_A_WALK = 12, 400

REQUEST_WALKS, STEPS_OF_REQUESTS, DRAWS_OF_REQUESTS = 30, 200, 400

NEAR_MISS_STEPS, NEAR_MISSES_PER_STEP, NEAR_MISS_POOLS, NEAR_MISS_DRAWS = 150, 20, 20, 1500

JUNK_EXAMPLES, ATTEMPTS_OF_AN_EXAMPLE = 20, 20

STATEFUL_EXAMPLES, STEPS_OF_AN_EXAMPLE = 40, 40


class LayerError(Exception):
    """A layer broke in a way that is not the mutant's doing."""


def clause_layer(claimed: tuple[str, ...] | None) -> LayerResult:
    """The clause tests that carry the claimed clauses; `unnoticed` are the clauses of which no test failed."""
    found = run_clause_tests(find_tests(), claimed)
    if found.error:
        raise LayerError(found.error)
    unnoticed = tuple(clause_id for clause_id in claimed or () if clause_id not in found.broken)
    return LayerResult("clauses", bool(found.first_failure), found.tests, found.first_failure, unnoticed)


def _all_of_some_tests(name: str, run: Callable[[Path], ClauseRun]) -> Layer:
    """The layer that runs tests up to the first failure, whatever the mutant claims."""

    def layer(claimed: tuple[str, ...] | None) -> LayerResult:
        found = run(find_tests())
        if found.error:
            raise LayerError(found.error)
        return LayerResult(name, bool(found.first_failure), found.tests, found.first_failure)

    return layer


def explorations() -> Iterator[Part]:
    """All states of a few tiny scopes: both sorts of groups, nested keys, readers, slots, both residencies, steps."""
    from kvproof.conformance.explore import explore
    from kvproof.conformance.scope import Scope
    from kvproof.spec.vocabulary import CommitMode, GroupKind, Residency

    for scope in (
        Scope(2, ("a", "aa"), 1),
        Scope(2, ("a", "aa"), 1, GroupKind.RECURRENT),
        Scope(2, ("a", "aa"), 1, block_size=1),
        Scope(1, ("a", "aa"), 2),
        Scope(2, ("a", "aa"), 2, GroupKind.RECURRENT, residency=Residency.PER_COPY),
        Scope(1, ("a", "aa"), 2, commit=CommitMode.STEPS),
        Scope(2, ("a",), 1, commit=CommitMode.STEPS),
    ):
        found = explore(scope)
        yield Part(found.transitions, found.violation.reason if found.violation else None)


def walks() -> Iterator[Part]:
    """Seeded random walks through larger pools."""
    from kvproof.conformance.walk import walk

    for seed in range(WALKS):
        found = walk(seed, STEPS_OF_A_WALK)
        yield Part(found.steps, found.violation.reason if found.violation else None)


def near_misses() -> Iterator[Part]:
    """Random states, and in each of them operations that have to be refused and change nothing."""
    from kvproof.conformance.mutation.near_misses import attempts_in_a_large_pool, attempts_in_a_scope
    from kvproof.conformance.scope import Scope
    from kvproof.spec.vocabulary import CommitMode, GroupKind

    scopes = (
        Scope(3, ("a", "aa"), 2),
        Scope(3, ("a", "aa"), 2, GroupKind.RECURRENT),
        Scope(3, ("a", "aa", "b"), 2),
        Scope(3, ("a", "aa", "ab"), 2, block_size=1),
        Scope(3, ("a", "aa"), 2, commit=CommitMode.STEPS, in_flight=2),
        Scope(3, ("a", "aa"), 2, GroupKind.RECURRENT, commit=CommitMode.STEPS, in_flight=2),
    )
    for seed, scope in enumerate(scopes):
        tried = attempts_in_a_scope(scope, seed, NEAR_MISS_STEPS, NEAR_MISSES_PER_STEP)
        yield Part(tried.number, tried.finding)
    for seed in range(NEAR_MISS_POOLS):
        tried = attempts_in_a_large_pool(seed, NEAR_MISS_DRAWS)
        yield Part(tried.number, tried.finding)


def requests() -> Iterator[Part]:
    """Walks in which requests run over all groups of small pools; then draws, of which the illegal ones are tried."""
    from kvproof.conformance.mutation.near_misses import attempts_in_a_large_pool
    from kvproof.conformance.walk import random_hybrid_config, walk

    configs = [random_hybrid_config(Random(seed)) for seed in range(REQUEST_WALKS)]
    for seed, config in enumerate(configs):
        found = walk(seed, STEPS_OF_REQUESTS, config)
        yield Part(found.steps, found.violation.reason if found.violation else None)
        tried = attempts_in_a_large_pool(seed, DRAWS_OF_REQUESTS, config)
        yield Part(tried.number, tried.finding)


def junk() -> Iterator[Part]:
    """The same with values that no argument can have, drawn by hypothesis."""
    from hypothesis import given
    from hypothesis import strategies as st

    from kvproof.conformance.stateful import PoolMachine

    attempts = 0

    @_settings(JUNK_EXAMPLES)
    @given(st.data(), st.randoms(use_true_random=False))
    def attempt_in_random_states(data: st.DataObject, random: Random) -> None:
        nonlocal attempts
        machine = PoolMachine()
        for _ in range(ATTEMPTS_OF_AN_EXAMPLE):
            try:
                machine.step(pick=random.randrange(2**16))
            except Exception:
                return  # that legal operations go wrong is for the other layers to notice
            attempts += 1
            machine.attempt(data=data)

    finding = _finding_of(attempt_in_random_states)
    yield Part(attempts, finding)


def state_machines() -> Iterator[Part]:
    """Hypothesis state machines: legal and illegal operations as hypothesis thinks best; a step is an example."""
    from kvproof.conformance.scope import Scope
    from kvproof.spec.vocabulary import CommitMode, GroupKind

    for kind in (GroupKind.FULL_ATTENTION, GroupKind.RECURRENT):
        yield _run_machine(Scope(2, ("a", "aa"), 2, kind))
        yield _run_machine(Scope(2, ("a", "aa"), 2, kind, commit=CommitMode.STEPS, in_flight=2))


def _run_machine(scope: Scope) -> Part:
    from hypothesis.stateful import run_state_machine_as_test

    from kvproof.conformance.stateful import PoolMachine, pool_machine

    examples = 0

    def start(machine: PoolMachine) -> None:
        nonlocal examples
        examples += 1
        PoolMachine.__init__(machine)

    counted = type("CountedMachine", (pool_machine(scope),), {"__init__": start})
    finding = _finding_of(lambda: run_state_machine_as_test(counted, settings=_settings(STATEFUL_EXAMPLES)))
    return Part(examples, finding)


def _settings(examples: int) -> settings:
    """The same examples every time, nothing stored, and no work on making a finding small."""
    from hypothesis import HealthCheck, Phase, settings

    return settings(
        max_examples=examples,
        stateful_step_count=STEPS_OF_AN_EXAMPLE,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


def _finding_of(test: Callable[[], None]) -> str | None:
    """What a hypothesis test raises is a finding, except hypothesis's own complaints."""
    from hypothesis.errors import HypothesisException

    try:
        test()
    except HypothesisException:
        raise
    except Exception as finding:
        return f"{type(finding).__name__}: {finding}"
    return None


def obligations() -> Iterator[Part]:
    """Every obligation about the pool's machine, as `kvproof prove` asks for it; a step is an obligation."""
    from kvproof.spec.machine.systems import POOL
    from kvproof.spec.proofs.obligations import Verdict, obligations
    from kvproof.spec.proofs.run import decide

    for obligation in obligations([POOL]):
        verdict = decide(obligation).verdict
        yield Part(1, None if verdict is Verdict.PROVED else f"{obligation} is {verdict.value}")


def ties() -> Iterator[Part]:
    """The reference against the abstract machine, as `kvproof tie` compares them; a step is an operation."""
    from kvproof.conformance.operations import describe
    from kvproof.conformance.tie.lockstep import TieReport
    from kvproof.conformance.tie.situations import SITUATIONS
    from kvproof.conformance.tie.standard import standard_ties

    total = TieReport()
    for what, report in standard_ties():
        total.add(report)
        found = report.disagreement
        yield Part(report.operations, f"{what}: {describe(found.operation)}: {found.reasons[0]}" if found else None)
    missing = total.missing(SITUATIONS)
    yield Part(0, f"never met: {', '.join(missing)}" if missing else None)


LAYERS: Mapping[str, Layer] = {
    "clauses": clause_layer,
    "explore": until_the_first_finding("explore", explorations),
    "walk": until_the_first_finding("walk", walks),
    "illegal": until_the_first_finding("illegal", lambda: chain(near_misses(), junk())),
    "stateful": until_the_first_finding("stateful", state_machines),
    "proofs": until_the_first_finding("proofs", obligations),
    "tie": until_the_first_finding("tie", ties),
    "chapters": _all_of_some_tests("chapters", run_request_tests),
    "requests": until_the_first_finding("requests", requests),
    "vectors": until_the_first_finding("vectors", shipped_vectors),
    "backend": _all_of_some_tests("backend", run_backend_tests),
    "lockstep": until_the_first_finding("lockstep", backend_walks),
}

LAYERS_OF_TESTS = frozenset({"clauses", "chapters", "backend"})
"""The layers that need the checkout's tests."""
