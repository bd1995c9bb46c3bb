"""The layers for requests that run, in reference and backend: they pass what is right, and notice a mutant."""

from __future__ import annotations

from itertools import islice

import pytest

from kvproof.conformance.backends.targets import TargetError
from kvproof.conformance.mutation import beside
from kvproof.conformance.mutation.jobs import Job, LayerResult
from kvproof.conformance.mutation.parts import Part, until_the_first_finding
from kvproof.conformance.mutation.run import Worker
from kvproof.conformance.mutation.targets import TARGETS


def test_vectors_about_requests_find_nothing_wrong() -> None:
    parts = list(islice(beside.shipped_vectors(), 40))
    assert len(parts) == 40
    assert [part.finding for part in parts if part.finding] == []


def test_walks_of_both_kinds_find_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "WALKS", 2)
    parts = list(beside.backend_walks())
    assert len(parts) == 4
    assert all(part.steps > 50 for part in parts)
    assert [part.finding for part in parts if part.finding] == []


def run(worker: Worker, target: str, layer: str, function: str, text: str) -> LayerResult:
    [mutant] = [m for m in TARGETS[target].mutants() if m.function == function and m.text.startswith(text)]
    result = worker.run(Job(mutant.name, (layer,)))
    assert result.error == ""
    [found] = result.layers
    return found


@pytest.mark.parametrize(
    ("target", "layer", "function", "text", "reason"),
    [
        ("hybrid", "chapters", "match", "alone > hit", ".py::test_"),
        ("hybrid", "requests", "_compute", "running.scheduled = ", "legal, but refused"),
        ("hybrid", "lockstep", "match", "alone > hit", " differs in answer"),
        ("hybrid-backend", "vectors", "match", "reach > hit", " differs in answer"),
        ("hybrid-backend", "backend", "match", "reach > hit", "test_hybrid.py"),
        ("hybrid-backend", "lockstep", "match", "reach > hit", " differs in answer"),
    ],
)
def test_every_layer_notices_a_mutant(
    worker: Worker, target: str, layer: str, function: str, text: str, reason: str
) -> None:
    found = run(worker, target, layer, function, text)
    assert found.killed
    assert reason in found.reason


def test_a_mutant_that_changes_nothing_passes(worker: Worker) -> None:
    found = run(worker, "hybrid-backend", "backend", "_share", "if not any(shared.is_reserved): ")
    assert not found.killed
    assert found.steps > 50


def test_what_does_not_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def loop() -> Part:
        while True:
            pass

    monkeypatch.setattr(beside, "PART_SECONDS", 1)
    assert beside.in_time(loop) == Part(1, "it takes more than 1 s")
    assert beside.in_time(lambda: Part(7, None)) == Part(7, None)


def test_that_the_backend_is_not_installed_is_an_error_and_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "BACKEND", "nobody")
    with pytest.raises(TargetError, match="there is no backend 'nobody'"):
        until_the_first_finding("lockstep", beside.backend_walks)(None)
