"""`kvproof list`: what can be certified, and for what."""

from __future__ import annotations

from importlib.metadata import entry_points

from rich.console import Console

from kvproof.conformance.backends.interface import LEVELS
from kvproof.conformance.certification.levels import levels
from kvproof.conformance.terminal import say
from kvproof.spec.clauses import Level as Binding
from kvproof.spec.clauses import clauses

GROUP = "kvproof.backends"
"""The entry point group under which installed packages offer backends."""


def list_names() -> None:
    """List the backends that installed packages offer, and the levels with their clauses.

    Example:

      kvproof list
    """
    console = Console()
    say(console, f"Backends (entry points {GROUP})", "bold")
    found = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    for entry in found:
        say(console, f"  {entry.name:20}  {entry.value}")
    if not found:
        say(console, "  none installed")
    console.print()
    say(console, "Levels, and how many MUST clauses each has", "bold")
    must = [level for clause, level in levels().items() if clauses()[clause].level is Binding.MUST]
    for each, meaning in LEVELS.items():
        say(console, f"  {each.value}  {must.count(each):3}  {meaning}")
