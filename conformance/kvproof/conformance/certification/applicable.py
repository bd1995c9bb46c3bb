"""Which vectors a backend can be asked, and why not the others."""

from __future__ import annotations

from kvproof.conformance.backends.forms import unsayable
from kvproof.conformance.backends.interface import OWN_HASHES, Capabilities, Level
from kvproof.conformance.certification.levels import level_of
from kvproof.conformance.certification.model import is_of_content, offered
from kvproof.conformance.certification.modes import is_of_a_mode
from kvproof.conformance.certification.trace import Trace
from kvproof.conformance.operations import name_of
from kvproof.spec.vocabulary import CommitMode


def why_not(vector: Trace, capabilities: Capabilities) -> str:
    """Why a vector is not for a backend with these claims; empty if it is."""
    config = vector.header.config
    if config.commit not in capabilities.commit or (
        config.commit is CommitMode.STEPS and Level.STEPS not in capabilities.levels
    ):
        return f"commit={config.commit.value} is not claimed"
    if config.hybrid is not None and Level.HYBRID not in capabilities.levels:
        return "level H is not claimed"
    if mode := is_of_a_mode(vector.header.clauses, capabilities):
        return f"it is about {mode}, which is not claimed"
    if missing := {group.kind for group in config.groups} - set(capabilities.group_kinds):
        return f"groups of kind {', '.join(sorted(kind.value for kind in missing))} are not claimed"
    if len(config.groups) > capabilities.most_groups:
        return f"{len(config.groups)} groups are more than are claimed"
    if capabilities.hashes != (OWN_HASHES,) and config.hash_algorithm.value not in capabilities.hashes:
        return f"hashes by {config.hash_algorithm.value} are not claimed"
    if not any(level_of(clause) in capabilities.levels for clause in vector.header.clauses):
        return "its level is not claimed"
    if Level.ROBUSTNESS not in capabilities.levels and any(step.expect.errors for step in vector.steps):
        return f"it has something to be refused, and level {Level.ROBUSTNESS} is not claimed"
    names = offered(capabilities)
    for operation in vector.operations:
        if name_of(operation) not in names and not is_of_content(operation, config):
            return f"operation {name_of(operation)} is not offered"
        if form := unsayable(operation, capabilities):
            return f"{form} cannot be asked"
    return ""
