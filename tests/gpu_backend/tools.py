"""Loads the scripts in `tools/` that the tests of the core share with its nightly run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

PROJECT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    """A script as a module."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, PROJECT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
