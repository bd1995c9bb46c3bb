"""Faults of the hybrid layer: the walks beside the reference find every one of them."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kvproof.gpu_backend import hybrid
from tests.gpu_backend.hybrid_walk import Mismatch, Walk

CATALOGUE: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("hybrid_mutants.toml").read_text(encoding="utf-8")
)

SOURCES = Path(hybrid.__file__).parent

MODULES = ("geometry", "hits", "stops", "running", "plans", "cache")
"""In an order in which they can be imported."""

MUTATED = "mutated_hybrid"

WALKS, CALLS = 100, 200


@contextmanager
def mutated(file: str, right: str, wrong: str) -> Iterator[ModuleType]:
    """The module `cache` of a copy of the layer in which one text of one file is replaced."""
    try:
        for name in MODULES:
            source = (SOURCES / f"{name}.py").read_text(encoding="utf-8")
            if file == f"{name}.py":
                assert source.count(right) == 1, f"{file} has {source.count(right)} times {right!r}"
                source = source.replace(right, wrong)
            module = sys.modules[f"{MUTATED}.{name}"] = ModuleType(f"{MUTATED}.{name}")
            exec(compile(source.replace(hybrid.__name__, MUTATED), f"mutated {name}.py", "exec"), module.__dict__)
        yield module
    finally:
        for name in MODULES:
            sys.modules.pop(f"{MUTATED}.{name}", None)


def is_found_out(cache: ModuleType, walks: Iterable[int], cuts: bool = False) -> bool:
    """Whether a walk notices that something is wrong: by a difference, or by an error that is none of the spec's."""
    for seed in walks:
        try:
            Walk(seed, cache.HybridCache, cuts).take(CALLS)
        except (Mismatch, LookupError, ValueError, TypeError):
            return True
    return False


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_mutant_is_killed(name: str) -> None:
    mutant = dict(CATALOGUE[name])
    assert mutant.pop("fault")
    first = mutant.pop("walk")
    cuts = mutant.pop("cuts", False)
    with mutated(**mutant) as cache:
        assert is_found_out(cache, (first, *range(WALKS)), cuts)


def test_an_unchanged_copy_survives() -> None:
    with mutated("stops.py", "class Stops:", "class Stops: ") as cache:
        assert not is_found_out(cache, range(3))
