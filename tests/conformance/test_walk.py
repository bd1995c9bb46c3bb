from __future__ import annotations

from collections import Counter

import pytest

from kvproof.conformance.operations import name_of
from kvproof.conformance.walk import Walk, walk
from kvproof.conformance.world import replay
from kvproof.reference import BlockPool
from kvproof.spec.vocabulary import CommitMode, GroupKind, HolderMode, Residency
from tests.broken_pools import keep_the_last_key


@pytest.fixture(scope="module")
def walks() -> list[Walk]:
    return [walk(seed, 400) for seed in range(80)]


def test_walks_through_many_configurations_find_nothing(walks: list[Walk]) -> None:
    assert [(done.seed, done.violation) for done in walks if done.violation] == []
    assert all(done.steps == 400 for done in walks)


def test_the_walks_see_every_kind_of_group_and_every_mode(walks: list[Walk]) -> None:
    groups = [group for done in walks for group in done.world.config.groups]
    assert {group.kind for group in groups} == set(GroupKind)
    assert {done.world.config.residency for done in walks} == set(Residency)
    assert {done.world.config.holders for done in walks} == set(HolderMode)
    assert {done.world.config.commit for done in walks} == set(CommitMode)
    assert {len(done.world.config.groups) for done in walks} == {1, 2, 3}
    configs = [done.world.config for done in walks]
    assert any(group.block_size > config.hash_block_size for config in configs for group in config.groups)


def test_the_walks_run_every_operation_often(walks: list[Walk]) -> None:
    total: Counter[str] = Counter()
    for done in walks:
        total += done.coverage
    names = "add_request append truncate allocate touch free lookup contains full_key cache_full_blocks"
    names += " cache_partial_block evict move reset take_events write copy read"
    names += " begin_step commit attach rollback finish find"
    for name in [*names.split(), "free, several", "cache_full_blocks, replace", "cache_partial_block, replace"]:
        assert total[name] >= 50, name


def test_a_seed_gives_the_same_walk_every_time(walks: list[Walk]) -> None:
    again = walk(7, 400)
    assert again.world.config == walks[7].world.config
    assert again.coverage == walks[7].coverage
    assert again.world.state == walks[7].world.state


def test_a_broken_pool_is_found_and_the_trace_leads_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPool, "_drop_keys", keep_the_last_key)
    found = next(done for done in (walk(seed, 400) for seed in range(60)) if done.violation)
    assert found.violation is not None
    assert found.steps == len(found.violation.trace)
    before = replay(found.world.config, found.violation.trace[:-1])
    assert before.state == found.violation.before.state


def test_a_pool_that_refuses_what_is_legal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    check_held = BlockPool._check_held

    def refuse_readers(self: BlockPool, block: object, holder: str | None) -> None:
        check_held(self, block, holder and f"{holder}?")  # type: ignore[arg-type]

    monkeypatch.setattr(BlockPool, "_check_held", refuse_readers)
    found = next(done for done in (walk(seed, 200) for seed in range(60)) if done.violation)
    assert found.violation is not None
    assert found.violation.reason.startswith("legal, but refused: NotReferenced")
    assert name_of(found.violation.trace[-1]) in ("free", "copy", "read", "finish")
