from __future__ import annotations

import os

import pytest
from hypothesis import settings

# "ci" runs the same examples everywhere and every time. "long" is for a machine that has an hour: new examples each
# time, --hypothesis-seed=N for the same ones again, and --timeout=0, as a machine then takes longer than a test may.
settings.register_profile(
    "ci", max_examples=120, stateful_step_count=50, derandomize=True, database=None, deadline=None, print_blob=True
)
settings.register_profile("long", max_examples=5000, stateful_step_count=80, deadline=None, print_blob=True)

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)


def pytest_report_header(config: pytest.Config) -> str:
    seed = "derandomized" if settings().derandomize else f"seed {config.getoption('hypothesis_seed', None) or 'random'}"
    return f"hypothesis examples: profile {PROFILE} ({seed}); choose another with HYPOTHESIS_PROFILE"
