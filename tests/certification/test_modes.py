"""Backends that lack words, and vectors in the modes of a backend."""

from __future__ import annotations

import msgspec
import pytest

from kvproof.conformance.backends.claims import check_claims
from kvproof.conformance.backends.forms import FORMS, unsayable
from kvproof.conformance.backends.interface import AdapterError
from kvproof.conformance.backends.reference import CAPABILITIES, IDENTITY
from kvproof.conformance.certification.account import run_of
from kvproof.conformance.certification.applicable import why_not
from kvproof.conformance.certification.examine import Examination
from kvproof.conformance.certification.lockstep import Lockstep
from kvproof.conformance.certification.model import Model
from kvproof.conformance.certification.modes import OF_A_MODE, in_modes_of, is_of_a_mode
from kvproof.conformance.certification.profiles import QUICK
from kvproof.conformance.mutation.catalogue import MUTANTS
from kvproof.conformance.mutation.twin import mutated_reference
from kvproof.conformance.operations import (
    AddRequest,
    Allocate,
    CacheFullBlocks,
    CachePartialBlock,
    Extra,
    Free,
    Operation,
    Touch,
)
from kvproof.conformance.vectors import is_draining, vectors
from kvproof.spec.clauses import clauses
from kvproof.spec.vocabulary import CommitMode, HolderMode, Residency

ANONYMOUS = msgspec.structs.replace(
    CAPABILITIES, holders=(HolderMode.CALLER,), residency=(Residency.PER_COPY,), commit=(CommitMode.IMMEDIATE,)
)


def request(*extras: Extra) -> Operation:
    return AddRequest("r1", (1, 2, 3), extras)


HAVING: dict[str, Operation] = {
    "cache_full_blocks.replace": CacheFullBlocks("r1", (1,), 0, 1, 0, replace=True),
    "cache_partial_block.replace": CachePartialBlock("r1", 1, 2, 0, replace=True),
    "extra_keys.embedding": request(Extra("embedding", "e", 0, 1)),
    "extra_keys.part_of_request": request(Extra("salt", "a", 1)),
    "extra_keys.two_of_a_source": request(Extra("adapter", "a"), Extra("adapter", "b")),
    "extra_keys.endless_media": request(Extra("media", "a")),
    "extra_keys.overlapping_media": request(Extra("media", "a", 1, 3), Extra("media", "b", 0, 2)),
    "extra_keys.empty_value": request(Extra("salt", "")),
}

PLAIN = (
    CacheFullBlocks("r1", (1,), 0, 1, 0),
    CachePartialBlock("r1", 1, 2, 0),
    request(Extra("adapter", "a"), Extra("salt", "a"), Extra("media", "a", 0, 1), Extra("media", "b", 1, 2)),
)


def test_every_form_is_had_by_its_own_operation_and_by_no_plain_one() -> None:
    assert set(HAVING) == set(FORMS)
    for name, operation in HAVING.items():
        assert [form for form in FORMS if FORMS[form](operation)] == [name]
    assert not [form for form in FORMS for operation in PLAIN if FORMS[form](operation)]


@pytest.mark.parametrize("junk", [None, 1, (None,), ({"source": "media"},), (Extra("media", "x", None, "y"),)])  # type: ignore[arg-type]
def test_junk_has_a_form_or_none_and_breaks_nothing(junk: object) -> None:
    operation = AddRequest("r1", (), junk)  # type: ignore[arg-type]
    assert {FORMS[form](operation) for form in FORMS} <= {True, False}


def test_what_a_backend_has_no_words_for_is_not_asked() -> None:
    wordless = msgspec.structs.replace(CAPABILITIES, without=("extra_keys.embedding",))
    embedding, salt = HAVING["extra_keys.embedding"], request(Extra("salt", "a"))
    config = vectors()[0].header.config
    assert [Model(config, wordless).is_offered(each) for each in (embedding, salt)] == [False, True]
    assert (unsayable(embedding, wordless), unsayable(salt, wordless)) == ("extra_keys.embedding", "")
    left_out = {why_not(vector, wordless) for vector in vectors()} - {why_not(v, CAPABILITIES) for v in vectors()}
    assert left_out == {"extra_keys.embedding cannot be asked"}


def test_the_certificate_says_what_was_not_asked() -> None:
    wordless = msgspec.structs.replace(CAPABILITIES, without=("extra_keys.embedding", "cache_full_blocks.replace"))
    for capabilities, said in ((wordless, True), (CAPABILITIES, False)):
        run = run_of(Examination(IDENTITY, capabilities), "reference", QUICK, 1, ())
        sentence = "The backend was not asked for: extra_keys.embedding, cache_full_blocks.replace."
        assert (sentence in run.honesty) is said


def test_a_form_that_does_not_exist_cannot_be_meant() -> None:
    with pytest.raises(AdapterError, match=r"no form of an operation 'extra_keys.embeding', did you mean"):
        check_claims(msgspec.structs.replace(CAPABILITIES, without=("extra_keys.embeding",)))


def test_a_vector_is_asked_in_the_modes_that_the_backend_claims() -> None:
    named = [vector for vector in vectors() if vector.header.config.holders is HolderMode.NAMED]
    asked = [in_modes_of(vector, ANONYMOUS) for vector in named if not why_not(vector, ANONYMOUS)]
    assert {each.header.config.holders for each in asked} == {HolderMode.CALLER}
    assert {each.header.config.residency for each in asked} == {Residency.PER_COPY}
    holders = (Allocate, Touch, Free)
    assert {o.holder for each in asked for o in each.operations if isinstance(o, holders)} == {None}


def test_a_vector_whose_modes_are_claimed_stays_as_it_is() -> None:
    assert all(in_modes_of(vector, CAPABILITIES) is vector for vector in vectors())


def test_clauses_of_another_mode_are_not_put_to_the_test() -> None:
    assert set(OF_A_MODE) <= set(clauses())
    named = {"POOL-HOLDER-1", "POOL-WRITER-1", "REG-OWNER-1", "EVENT-RESIDENCY-1", "EVENT-STORED-3"}
    assert {clause for clause in clauses() if is_of_a_mode([clause], ANONYMOUS)} == named


@pytest.mark.parametrize("name", ["freed_keyless_blocks_go_last", "touch_makes_the_block_the_first_found"])
def test_vectors_in_another_mode_still_notice_a_broken_pool(name: str) -> None:
    [mutant] = [each for each in MUTANTS if each.name == name]
    backend = mutated_reference(mutant.patch)
    asked = [v for v in vectors() if not why_not(v, ANONYMOUS) and set(v.header.clauses) & set(mutant.clauses)]
    noticed = 0
    for vector in asked:
        as_asked = in_modes_of(vector, ANONYMOUS)
        lockstep = Lockstep(backend, ANONYMOUS, as_asked.header.config, watch=not is_draining(vector))
        lockstep.replay(as_asked.operations)
        noticed += lockstep.divergence is not None
    assert noticed
