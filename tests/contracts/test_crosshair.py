import importlib
import re

import pytest

from kvproof.conformance.contracts.verdicts import Verdict, check_contracts, contract_names

EXPECTED = {"arithmetic": 9, "decisions": 7, "hybrid": 8}
PACKAGE = "kvproof.conformance.contracts"


@pytest.mark.clause("POS-SLOT-1", "POS-FULL-1", "POS-ALIGN-1", "POS-UNIT-1")
def test_the_arithmetic_of_positions_is_confirmed_for_all_integers() -> None:
    report = check_contracts(f"{PACKAGE}.arithmetic")

    assert len(report.verdicts) == EXPECTED["arithmetic"]
    assert report.counts == {Verdict.CONFIRMED: EXPECTED["arithmetic"]}, report.output


def test_every_decision_of_registering_and_freeing_is_confirmed_over_all_paths() -> None:
    report = check_contracts(f"{PACKAGE}.decisions")

    assert len(report.verdicts) == EXPECTED["decisions"]
    assert report.counts == {Verdict.CONFIRMED: EXPECTED["decisions"]}, report.output


@pytest.mark.clause("SPLIT-RANGE-1", "SPLIT-PROGRESS-1", "SPLIT-STOP-2", "SPLIT-STOP-3", "SPLIT-STOP-4")
def test_where_chunks_end_is_confirmed_for_all_numbers_of_tokens() -> None:
    report = check_contracts(f"{PACKAGE}.hybrid")

    assert len(report.verdicts) == EXPECTED["hybrid"]
    assert report.counts == {Verdict.CONFIRMED: EXPECTED["hybrid"]}, report.output


def test_crosshair_finds_every_planted_bug_and_each_counterexample_fails_in_plain_python() -> None:
    report = check_contracts(f"{PACKAGE}.planted")
    planted = importlib.import_module(f"{PACKAGE}.planted")
    counterexamples = re.findall(r"when calling (\w+\(.*\))", report.output)

    assert report.counts == {Verdict.COUNTEREXAMPLE: len(contract_names(f"{PACKAGE}.planted"))}, report.output
    assert len(counterexamples) == len(report.verdicts)
    for call in counterexamples:
        with pytest.raises(AssertionError):
            eval(call, vars(planted))
