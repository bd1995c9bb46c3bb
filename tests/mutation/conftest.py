from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvproof.conformance.mutation.run import Worker


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """A process that runs mutants; each process of the test run has its own."""
    with Worker() as running:
        yield running
