"""A second reference in this process, with a mutant in it, beside the one that is the oracle."""

from __future__ import annotations

import sys
from importlib import import_module

from kvproof.conformance.backends.interface import Backend
from kvproof.conformance.mutation.patch import SourceChange, installed

_IMPORTED_AGAIN = (
    "kvproof.reference",
    "kvproof.conformance.world",
    "kvproof.conformance.large",
    "kvproof.conformance.backends.reference",
    "kvproof.conformance.backends.views",
)
"""What a reference that runs as a backend is made of; everything else the two share."""


def mutated_reference(change: SourceChange) -> Backend:
    """The reference as a backend, with this change."""
    modules = sys.modules
    aside = {name: modules.pop(name) for name in list(modules) if name.startswith(_IMPORTED_AGAIN)}
    try:
        with installed(change):
            backend: Backend = import_module("kvproof.conformance.backends.reference").ReferenceBackend()
        return backend
    finally:
        for name in [name for name in modules if name.startswith(_IMPORTED_AGAIN)]:
            del modules[name]
        modules.update(aside)
        for name, module in aside.items():
            package, _, last = name.rpartition(".")
            setattr(modules[package], last, module)
