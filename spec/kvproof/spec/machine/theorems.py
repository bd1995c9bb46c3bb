"""The theorems in words, and the page that lists them: `python -m kvproof.spec.machine.theorems` prints it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from kvproof.spec.clauses import clauses
from kvproof.spec.machine.system import System
from kvproof.spec.machine.systems import SYSTEMS


@dataclass(frozen=True, slots=True)
class Theorem:
    """What is proved under a clause's id: of every reachable state, or of the transitions that are named."""

    clause: str
    sentence: str
    transitions: tuple[str, ...] = ()


def theorems(systems: Collection[System] = SYSTEMS) -> Iterator[Theorem]:
    """All theorems; facts that say the same of several transitions are one."""
    for system in systems:
        for clause, invariant in system.invariants.items():
            yield Theorem(clause, (invariant.__doc__ or "").strip().partition("\n")[0])
        for clause, sentence in dict.fromkeys((fact.theorem, fact.sentence) for fact in system.facts):
            said_of = [fact.transition for fact in system.facts if (fact.theorem, fact.sentence) == (clause, sentence)]
            yield Theorem(clause, sentence, tuple(said_of))


HEADER = """# Verified properties

<!-- Generated: python -m kvproof.spec.machine.theorems > docs/verified-properties.md -->

Each is a theorem about the abstract machine, for any number of blocks, keys, requests, groups and steps in flight,
and is proved by `kvproof prove`. `run` stands before what a request that runs over several groups does, `hit` before
the steps of a loop that finds a joint hit, `split` before that of a prefill. A theorem's name is the clause that it
belongs to. [The proofs](proofs.md) says by what, under which assumptions, and what is not proved.
"""


def page() -> str:
    """The page `docs/verified-properties.md`."""
    found = list(theorems())
    always = [f"| {_link(theorem)} | {theorem.sentence} |" for theorem in found if not theorem.transitions]
    once = [
        f"| {_link(theorem)} | {', '.join(map(_plain, theorem.transitions))} | {theorem.sentence} |"
        for theorem in found
        if theorem.transitions
    ]
    return "\n".join(
        [
            HEADER,
            "## Of every reachable state\n",
            "| clause | what holds |",
            "|---|---|",
            *always,
            "",
            "## Of single transitions\n",
            "| clause | transition | what holds |",
            "|---|---|---|",
            *once,
            "",
        ]
    )


def _link(theorem: Theorem) -> str:
    clause = clauses()[theorem.clause]
    return f"[{clause.id}](spec/{clause.chapter}.md#{clause.id.lower()}-{clause.level.value.lower()})"


def _plain(transition: str) -> str:
    return f"`{transition}`"


if __name__ == "__main__":
    print(page(), end="")
