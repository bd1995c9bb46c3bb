"""Where the suite runs."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from kvproof.conformance.certification.result import Environment

PACKAGES = ("kvproof", "hypothesis", "msgspec", "xxhash", "jinja2", "torch", "vllm")
"""Whose versions a certificate names, where they are installed."""


def environment() -> Environment:
    """The environment of this process, now."""
    return Environment(
        f"{platform.python_implementation()} {platform.python_version()}",
        platform.platform(),
        os.cpu_count() or 1,
        tuple(round(load, 2) for load in os.getloadavg()),
        {name: found for name in PACKAGES if (found := _version(name)) is not None},
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
