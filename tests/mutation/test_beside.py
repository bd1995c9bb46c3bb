"""The layers that run the backend: they pass what is right, and notice a mutant on either side."""

from __future__ import annotations

from itertools import islice

import pytest

from kvproof.conformance.mutation import beside
from kvproof.conformance.mutation.jobs import Job
from kvproof.conformance.mutation.parts import Part
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


@pytest.mark.parametrize(
    ("target", "layer", "function", "text"),
    [
        ("hybrid", "lockstep", "match", "alone > hit"),
        ("hybrid-backend", "vectors", "match", "reach > hit"),
        ("hybrid-backend", "lockstep", "match", "reach > hit"),
    ],
)
def test_a_mutant_is_noticed_on_either_side(worker: Worker, target: str, layer: str, function: str, text: str) -> None:
    [mutant] = [m for m in TARGETS[target].mutants() if (m.function, m.text) == (function, text)]
    result = worker.run(Job(mutant.name, (layer,)))
    assert result.error == ""
    [found] = result.layers
    assert found.killed
    assert " differs in " in found.reason


def test_what_does_not_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def loop() -> Part:
        while True:
            pass

    monkeypatch.setattr(beside, "PART_SECONDS", 1)
    assert beside.in_time(loop) == Part(1, "it takes more than 1 s")
    assert beside.in_time(lambda: Part(7, None)) == Part(7, None)
