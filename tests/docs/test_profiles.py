from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvproof.conformance.certification.profiles import DEEP, PROFILES, Profile
from kvproof.conformance.commands.certify import BUDGET

PAGE = Path(__file__).parents[2] / "docs/certify.md"


def told(page: str) -> dict[str, list[str]]:
    """The cells of the page's table of profiles, by the name in their first one."""
    rows = re.findall(r"^\| `(\w+)[^`]*` \|(.*)\|$", page, re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows if name in PROFILES}


def cells_of(profile: Profile) -> list[str]:
    times = "N times " if profile.name == DEEP.name else ""
    return [
        f"{times}{profile.walks}, {profile.illegal_walks}",
        f"{times}{profile.hybrid_walks}, {profile.hybrid_illegal_walks}",
        str(profile.operations),
        "yes" if profile.exhaustive and profile.workloads else "no",
    ]


def differences(page: str) -> list[str]:
    shown = told(page)
    return [name for name, profile in PROFILES.items() if shown.get(name, [])[:4] != cells_of(profile)]


def test_the_page_says_what_each_profile_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert differences(page) == []
    assert f"Without `--budget` it is {BUDGET}." in page


@pytest.mark.parametrize(("said", "instead", "name"), [("800, 400", "800, 300", "standard"), ("24, 6", "24", "quick")])
def test_a_page_that_says_something_else_is_noticed(said: str, instead: str, name: str) -> None:
    assert name in differences(PAGE.read_text(encoding="utf-8").replace(said, instead))


def test_a_certificate_names_every_number_of_its_profile() -> None:
    for profile in PROFILES.values():
        numbers = [getattr(profile, each) for each in Profile.__slots__]
        counts = [each for each in numbers if type(each) is int]
        assert sorted(profile.budgets.values()) == sorted(counts)
