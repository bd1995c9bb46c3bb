"""The results of the proofs in a terminal and as JSON. Needs the extra `proofs`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib.metadata import version
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvproof.conformance.terminal import say
from kvproof.spec.machine.axioms import HASH_AXIOMS, IN_WORDS, OF_THE_ENGINE
from kvproof.spec.machine.system import System
from kvproof.spec.machine.systems import SYSTEMS, system_of
from kvproof.spec.machine.theorems import theorems
from kvproof.spec.proofs.counterexample import COLUMNS
from kvproof.spec.proofs.mutants import MachineMutant, patched, transitions_file
from kvproof.spec.proofs.obligations import Counterexample, Obligation, Proof, Row, Verdict
from kvproof.spec.proofs.run import Report
from kvproof.spec.proofs.vacuity import REGISTERING, SITUATIONS, unbroken

MARKS = {Verdict.PROVED: ("·", "green"), Verdict.REFUTED: ("X", "bold red"), Verdict.UNKNOWN: ("?", "bold yellow")}
LEGEND = "· proved   X refuted by a counterexample   ? z3 does not know"

CHANGED = "» "
"""Stands before what a transition changed."""


def show_report(console: Console, report: Report, timeout_s: float) -> None:
    """The grid, the facts, what they rest on, what shows that they say something, and the outcome."""
    for system in SYSTEMS:
        _show_grid(console, report.proofs, system)
    _show_facts(console, report.proofs)
    _show_assumptions(console)
    _show_vacuity(console, report)
    for proof in report.proofs:
        if proof.counterexample:
            show_counterexample(console, proof.counterexample)
    _show_outcome(console, report, timeout_s)


def sentence_of(obligation: Obligation) -> str:
    """What an obligation says, in words."""
    system = system_of(obligation.transition)
    if not obligation.fact:
        said = {**system.inherited, **system.invariants}[obligation.theorem].__doc__ or ""
        return said.strip().partition("\n")[0]
    named = (obligation.transition, obligation.theorem)
    return next(fact.sentence for fact in system.facts if (fact.transition, fact.theorem) == named)


def _head(console: Console, text: str) -> None:
    console.print()
    say(console, text, "bold")


# The proofs


TITLES = {
    "": "Invariants: they hold in a new pool, and every transition keeps them",
    "run": "Of requests that run over several groups, for whom all of the above holds too",
    "hit": "Of a loop that finds the joint hit",
    "split": "Of a request that is split into chunks",
}
"""What stands above the grid of a system."""


def _show_grid(console: Console, proofs: Sequence[Proof], system: System) -> None:
    """A line for each transition; in it a mark for each invariant, in fives."""
    invariants = [*system.invariants, *(system.inherited if system.own else ())]
    kept = [p for p in proofs if not p.obligation.fact and system_of(p.obligation.transition) is system]
    if not kept:
        return
    _head(console, TITLES[system.name])
    for number, theorem in enumerate(invariants, 1):
        if theorem in system.invariants:
            say(console, f"{number:2} {theorem:16} {sentence_of(Obligation(system.initial_row, theorem))}")
    if system.own:
        say(console, "   and those of the pool, of the transitions that write blocks themselves")
    console.print()
    table = Table(box=None, pad_edge=False)
    table.add_column("transition")
    table.add_column("".join(f"{number:<6}" for number in range(1, len(invariants) + 1, 5)))
    table.add_column("seconds", justify="right")
    for row, of_row in groupby(kept, key=lambda proof: proof.obligation.transition):
        marked = {proof.obligation.theorem: proof for proof in of_row}
        marks = [_mark(marked.get(theorem)) for theorem in invariants]
        fives = [Text.assemble(*marks[i : i + 5]) for i in range(0, len(marks), 5)]
        table.add_row(row, Text(" ").join(fives), f"{sum(proof.seconds for proof in marked.values()):.2f}")
    console.print(table)
    say(console, LEGEND, "dim")


def _mark(proof: Proof | None) -> tuple[str, str]:
    return MARKS[proof.verdict] if proof else (" ", "")


def _show_facts(console: Console, proofs: Sequence[Proof]) -> None:
    """A line for each fact, but facts of several transitions that say the same share one."""
    _head(console, "Facts: what single transitions do, and what they leave alone")
    verdicts = {proof.obligation: proof.verdict for proof in proofs if proof.obligation.fact}
    for theorem in theorems():
        if not theorem.transitions:
            continue
        said_of: dict[Verdict, list[str]] = {}
        for transition in theorem.transitions:
            obligation = Obligation(transition, theorem.clause, fact=True)
            if obligation in verdicts:
                said_of.setdefault(verdicts[obligation], []).append(transition)
        for verdict, transitions in said_of.items():
            mark, style = MARKS[verdict]
            say(console, f"{mark}  {theorem.clause:16} {', '.join(transitions)}: {theorem.sentence}", style)


def _show_assumptions(console: Console) -> None:
    _head(console, "Assumed, not proved")
    for name, sentence in assumptions().items():
        say(console, f"  {name}: {sentence}")


def assumptions() -> dict[str, str]:
    """Everything that the proofs rest on, by name: the axioms, and what is taken for granted of the engine."""
    return {**IN_WORDS, **OF_THE_ENGINE}


# What shows that the proofs say something


def _show_vacuity(console: Console, report: Report) -> None:
    _head(console, "Not vacuous")
    for situation in SITUATIONS:
        of_situation = [witness for witness in report.witnesses if witness.situation == situation.name]
        found = sum(witness.found for witness in of_situation)
        say(console, f"  {found} of {len(of_situation)} transitions can happen in: {situation.name}")
    rest = [d for d in report.dependences if d.obligation.transition not in REGISTERING]
    proved = sum(dependence.verdict is Verdict.PROVED for dependence in rest)
    say(
        console,
        f"  {proved} of {len(rest)} obligations of transitions that register nothing need no axiom about hashes",
    )
    for axiom in HASH_AXIOMS:
        needed = ", ".join(map(str, report.needed(axiom))) or "nothing"
        say(console, f"  without {axiom!r} a counterexample breaks: {needed}")
    found = sum(refutation.found for refutation in report.refutations)
    say(console, f"  {found} of {len(report.refutations)} planted mutants are refuted by a counterexample")
    say(console, f"  {len(unbroken())} theorems are broken by no mutant")


# The outcome


def _show_outcome(console: Console, report: Report, timeout_s: float) -> None:
    console.print()
    complaints = report.complaints()
    for complaint in complaints:
        say(console, complaint)
    count = f"{report.proved} of {len(report.proofs)} obligations"
    if not complaints:
        say(console, f"Proved: {count}, and none of it vacuous. {report.seconds:.0f} s", "bold green")
        return
    also = f"and {len(complaints)} complaints are above"
    say(console, f"Not accepted: {count} are proved, {also}. {report.seconds:.0f} s", "bold red")
    if report.is_undecided():
        say(
            console,
            f"z3 left something undecided; it had {timeout_s:g} s for each question. That proves nothing either way. A "
            f"slow or busy machine may be the reason: try `kvproof prove --timeout {max(1, timeout_s) * 6:g}`.",
        )


def as_json(report: Report) -> dict[str, object]:
    """The results for other programs."""
    return {
        "obligations": len(report.proofs),
        "proved": report.proved,
        "complaints": report.complaints(),
        "seconds": round(report.seconds, 3),
        "z3": version("z3-solver"),
        "results": [
            {
                **_named(proof.obligation),
                "verdict": proof.verdict.value,
                "reason": proof.reason,
                "counterexample": proof.counterexample.call if proof.counterexample else None,
                "seconds": round(proof.seconds, 4),
            }
            for proof in report.proofs
        ],
        "assumptions": assumptions(),
        "vacuity": {
            "guards": [
                {"transition": witness.transition, "situation": witness.situation, "possible": witness.found}
                for witness in report.witnesses
            ],
            "without_axioms": [
                {**_named(d.obligation), "without": list(d.without), "verdict": d.verdict.value}
                for d in report.dependences
            ],
            "theorems_without_mutant": unbroken(),
        },
        "mutants": [
            {"name": refutation.mutant, **_named(refutation.obligation), "refuted": refutation.found}
            for refutation in report.refutations
        ],
    }


def _named(obligation: Obligation) -> dict[str, object]:
    kind = "fact" if obligation.fact else "invariant"
    return {"transition": obligation.transition, "theorem": obligation.theorem, "kind": kind}


# A mutant and its counterexample


def show_mutant(console: Console, mutant: MachineMutant, found: Counterexample | None) -> None:
    """What the mutant changes, what that breaks, and how."""
    say(console, f"Mutant {mutant.name}", "bold")
    console.print()
    file = transitions_file(system_of(mutant.transition).module)
    source = file.read_text(encoding="utf-8")
    for line in _difference(file.name, source, patched(mutant, source)):
        say(console, line, {"+": "green", "-": "red"}.get(line[0], "dim"))
    if found is None:
        say(console, "z3 finds no counterexample. If the machine is slow or busy, try a longer --timeout.", "bold red")
    else:
        show_counterexample(console, found)


def _difference(name: str, source: str, changed: str) -> list[str]:
    lines = difflib.unified_diff(source.splitlines(), changed.splitlines(), name, name, n=1, lineterm="")
    return [line or " " for line in lines]


def show_counterexample(console: Console, found: Counterexample) -> None:
    """The transition, and the state before and after it; what the transition changed is marked."""
    obligation = found.obligation
    _head(console, f"{obligation} does not hold: {sentence_of(obligation)}")
    wrong = "what the transition does breaks this" if obligation.fact else "the state after breaks this one"
    say(console, f"The state before satisfies every invariant, {wrong}.")
    console.print()
    say(console, found.call, "bold")
    if found.rows:
        _show_blocks(console, found.rows)
    for line in found.before:
        say(console, ("  " if line in found.after else "- ") + line)
    for line in found.after:
        if line not in found.before:
            say(console, "+ " + line)


def _show_blocks(console: Console, rows: Sequence[Row]) -> None:
    table = Table("block", "", *COLUMNS)
    for row in rows:
        table.add_row(row.block, "before", *row.before, end_section=not any(row.changed))
        if any(row.changed):
            table.add_row("", "after", *_marked(row), end_section=True)
    console.print(table)
    for line in KEY:
        say(console, line, "dim")
    console.print()


KEY = (
    f"{CHANGED}changed. H(ab)#3: the key of prefix ab, with rank 3; ?2: reserved in step 2; @2: committed, ready with",
    "step 2. a > ab: the block held a when the last step was committed, and holds ab after the next one.",
)


def _marked(row: Row) -> list[Text]:
    cells = zip(row.after, row.changed, strict=True)
    return [Text(CHANGED + cell.replace("\n", f"\n{CHANGED}") if changed else "", "bold") for cell, changed in cells]
