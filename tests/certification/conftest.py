from __future__ import annotations

import pytest

from kvproof.conformance.certification import examine
from kvproof.conformance.vectors import vectors


@pytest.fixture
def few_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has every tenth vector only, for tests of what is made of it; they are most of a short run."""
    monkeypatch.setattr(examine, "vectors", lambda: vectors()[::10])
