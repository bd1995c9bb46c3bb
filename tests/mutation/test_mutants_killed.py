from __future__ import annotations

import pytest

from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.jobs import CLEAN, Job
from kvproof.conformance.mutation.run import Worker, complaints_about, run_jobs
from kvproof.conformance.mutation.targets import TESTS_OF_THE_REFERENCE

DYNAMIC = tuple(name for name in TESTS_OF_THE_REFERENCE if name != "clauses")


@pytest.mark.parametrize("name", [mutant.name for mutant in MUTANTS])
def test_the_tests_of_every_claimed_clause_notice_the_mutant(worker: Worker, name: str) -> None:
    assert complaints_about(worker.run(Job(name, ("clauses",)))) == []


def test_the_reference_as_it_is_passes_every_layer(worker: Worker) -> None:
    layers = (*TESTS_OF_THE_REFERENCE, "proofs")  # that the tie passes is a test of the tie
    result = worker.run(Job(CLEAN, layers, clauses=("POOL-FREE-2", "EVENT-PARENT-1", "INV-PARTITION-1")))
    assert result.error == ""
    assert [layer.layer for layer in result.layers] == list(layers)
    assert [layer.reason for layer in result.layers if layer.killed] == []
    assert all(layer.steps > 5 for layer in result.layers)


@pytest.mark.parametrize("layer", DYNAMIC)
def test_every_layer_notices_a_mutant(worker: Worker, layer: str) -> None:
    result = worker.run(
        Job("touched_block_stays_queued" if layer != "illegal" else "refused_touch_takes_the_block_out", (layer,))
    )
    assert result.error == ""
    assert result.layers[0].killed
    assert result.layers[0].reason


def test_a_mutant_under_a_clause_that_it_does_not_break_is_not_noticed(worker: Worker) -> None:
    result = worker.run(Job("any_key_passes_for_full", ("clauses",), clauses=("POOL-FREE-2",)))
    assert complaints_about(result) == ["no test of POOL-FREE-2 failed"]


def test_a_layer_that_takes_too_long_is_an_error_and_no_kill(worker: Worker) -> None:
    result = worker.run(Job(CLEAN, ("explore",), seconds=0.01))
    assert not result.killed
    assert result.error == "explore took more than 0 s"


def test_an_unknown_mutant_is_an_error_and_no_kill(worker: Worker) -> None:
    result = worker.run(Job("nobody", ("explore",)))
    assert not result.killed
    assert "there is no mutant nobody" in result.error


def test_results_come_in_the_order_of_the_jobs_whichever_ends_first() -> None:
    jobs = [Job("hash_covers_the_span_alone", ("clauses",)), Job("nobody", ()), Job("token_bytes_are_reversed", ())]
    heard: list[str] = []
    results = run_jobs(jobs, 2, lambda result: heard.append(result.mutant))
    assert [result.mutant for result in results] == [job.mutant for job in jobs]
    assert sorted(heard) == sorted(job.mutant for job in jobs)
