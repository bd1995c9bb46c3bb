"""Runs crosshair on a module of contracts and counts its verdicts.

Crosshair's exit code 0 means that it found no counterexample, which is also the case when it confirmed nothing,
could not meet a precondition or saw no contract at all. Only the counted verdicts say what was shown.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

CONDITION_TIMEOUT_S = 60
"""CPU seconds that one condition may take; the slowest confirmed one takes a fraction of it."""


class Verdict(Enum):
    """What crosshair said of one contract."""

    CONFIRMED = "confirmed over all paths"
    COUNTEREXAMPLE = "counterexample found"
    INCONCLUSIVE = "not confirmed"


@dataclass(frozen=True, slots=True)
class ContractReport:
    """The verdict on each contract of a module, and crosshair's own words."""

    verdicts: dict[str, Verdict]
    output: str

    @property
    def counts(self) -> Counter[Verdict]:
        """How often each verdict was given."""
        return Counter(self.verdicts.values())


def contract_names(module: str) -> list[str]:
    """The module's public functions: those are its contracts."""
    return [node.name for node in _functions(module)]


def check_contracts(module: str) -> ContractReport:
    """Run crosshair on the module; a contract about which it says nothing is inconclusive."""
    command = [sys.executable, "-m", "crosshair", "check", "--report_all", "--analysis_kind=asserts"]
    command += [f"--per_condition_timeout={CONDITION_TIMEOUT_S}", module]
    # Hash randomisation would make the explored program nondeterministic.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return ContractReport(_verdicts(_functions(module), run.stdout), run.stdout + run.stderr)


def _functions(module: str) -> list[ast.FunctionDef]:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no module {module!r}")
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [node for node in functions if not node.name.startswith("_") and _starts_with_assert(node)]


def _starts_with_assert(function: ast.FunctionDef) -> bool:
    return any(isinstance(statement, ast.Assert) for statement in function.body[:2])


def _verdicts(functions: list[ast.FunctionDef], output: str) -> dict[str, Verdict]:
    verdicts = {function.name: Verdict.INCONCLUSIVE for function in functions}
    for line in output.splitlines():
        match = re.search(r":(\d+): (info|error): (.*)", line)
        if match is None:
            continue
        for function in functions:
            if function.lineno <= int(match[1]) <= (function.end_lineno or 0):
                if match[2] == "error":
                    verdicts[function.name] = Verdict.COUNTEREXAMPLE
                elif match[3].startswith("Confirmed over all paths"):
                    verdicts[function.name] = Verdict.CONFIRMED
    return verdicts
