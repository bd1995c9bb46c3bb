"""Who may import whom, and what importing the reference must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

MAY_IMPORT = {
    "spec": {"spec"},
    "reference": {"reference", "spec"},
    # Never the reference: an oracle that shares code with its subject proves nothing.
    "gpu_backend": {"gpu_backend", "spec"},
    # Never a backend: the suite reaches those through the adapter protocol.
    "conformance": {"conformance", "reference", "spec"},
}

ADAPTERS = {"gpu_backend/kvproof/gpu_backend/adapter.py": {"conformance.backends", "conformance.operations"}}
"""Adapters live with their backend and speak the suite's language; only the suite imports them."""

HEAVY = ("torch", "numpy", "z3", "crosshair", "hypothesis")


def imported_modules(source: str, package: str) -> Iterator[str]:
    """Yield the full names that a module of `package` imports, wherever in its text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            kept = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*kept, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def forbidden_imports(source: str, package: str) -> list[str]:
    """Return the modules of kvproof that a module of `package` imports and may not."""
    allowed = MAY_IMPORT[package.split(".")[1]]
    ours = [name.split(".") for name in imported_modules(source, package)]
    return [".".join(name) for name in ours if name[0] == "kvproof" and (len(name) < 2 or name[1] not in allowed)]


def is_of_the_adapter(path: Path, module: str) -> bool:
    """Whether a module may import another one because it is an adapter."""
    allowed = ADAPTERS.get(str(path.relative_to(PROJECT)), set())
    return any(module.startswith(f"kvproof.{name}.") for name in allowed)


def modules() -> list[tuple[str, Path]]:
    """List every module of the four packages, each with the package that it lies in."""
    return [
        (".".join(path.relative_to(PROJECT / part).parent.parts), path)
        for part in MAY_IMPORT
        for path in sorted((PROJECT / part).rglob("*.py"))
    ]


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_package_imports_only_what_it_may(part: str) -> None:
    found = {
        str(path.relative_to(PROJECT)): forbidden
        for package, path in modules()
        if package.split(".")[1] == part
        and (
            forbidden := [
                module
                for module in forbidden_imports(path.read_text(encoding="utf-8"), package)
                if not is_of_the_adapter(path, module)
            ]
        )
    }
    assert not found


def test_an_adapter_reaches_nothing_but_the_language_of_the_suite() -> None:
    [adapter] = ADAPTERS
    assert is_of_the_adapter(PROJECT / adapter, "kvproof.conformance.backends.wire.Step")
    assert not is_of_the_adapter(PROJECT / adapter, "kvproof.conformance.world.World")
    assert not is_of_the_adapter(PROJECT / adapter, "kvproof.reference.BlockPool")
    assert not is_of_the_adapter(
        PROJECT / "gpu_backend/kvproof/gpu_backend/pool.py", "kvproof.conformance.operations.Free"
    )


def test_only_the_suite_imports_an_adapter() -> None:
    importers = [
        path.name
        for package, path in modules()
        for module in imported_modules(path.read_text(encoding="utf-8"), package)
        if module.startswith("kvproof.gpu_backend.adapter")
    ]
    assert importers == []


def test_every_package_has_modules_to_check() -> None:
    assert {package.split(".")[1] for package, _ in modules()} == set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("package", "planted"),
    [
        ("kvproof.spec", "import kvproof.reference"),
        ("kvproof.spec", "def later() -> None:\n    from kvproof.conformance import cli"),
        ("kvproof.reference", "from kvproof import gpu_backend"),
        ("kvproof.reference", "from ..conformance import cli"),
        ("kvproof.reference.inner", "from ...gpu_backend import pool"),
        ("kvproof.gpu_backend", "from kvproof.reference.index import Index"),
        ("kvproof.conformance", "import kvproof.gpu_backend.pool as pool"),
        ("kvproof.conformance", "import kvproof"),
    ],
)
def test_a_planted_forbidden_import_is_found(package: str, planted: str) -> None:
    assert forbidden_imports(planted, package)


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("kvproof.spec", "import json\nfrom . import errors\nfrom .errors import PoolError"),
        ("kvproof.reference", "from kvproof.spec.errors import PoolError"),
        ("kvproof.reference.inner", "from ..index import Index"),
        ("kvproof.conformance", "from kvproof import reference, spec"),
    ],
)
def test_an_allowed_import_is_left_alone(package: str, source: str) -> None:
    assert not forbidden_imports(source, package)


@pytest.mark.parametrize("module", ["kvproof.spec", "kvproof.reference"])
def test_importing_the_light_packages_loads_no_heavy_library(module: str) -> None:
    program = f"import sys, {module}; print(*sorted(sys.modules.keys() & {set(HEAVY)}))"
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []
