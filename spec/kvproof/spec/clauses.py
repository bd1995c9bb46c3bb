"""Reads the clauses: the chapters are the one source, for people on a web page and for the tools.

A clause is a level-3 heading `### POOL-FREE-2 (MUST)` followed by one paragraph, its sentence. What follows until the
next heading is its reason and its worked examples.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources


class Level(Enum):
    """How binding a clause is, in the words of RFC 2119; UNDEFINED marks what no pool is held to."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"
    UNDEFINED = "UNDEFINED"


@dataclass(frozen=True, slots=True)
class Clause:
    """One numbered sentence; `notes` is its reason and its examples, as Markdown."""

    id: str
    level: Level
    sentence: str
    notes: str
    chapter: str


@dataclass(frozen=True, slots=True)
class Chapter:
    """One chapter: `name` is its file's name without the ending, `text` the Markdown."""

    name: str
    title: str
    text: str


class MalformedChapter(ValueError):
    """A chapter does not have the form that this module's docstring describes."""


_CLAUSE = re.compile(r"^### (?P<id>[A-Z0-9]+(?:-[A-Z0-9]+)*-[0-9]+) \((?P<level>[A-Z]+)\)$")


@cache
def chapters() -> tuple[Chapter, ...]:
    """All chapters in reading order."""
    folder = resources.files("kvproof.spec") / "chapters"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".md")), key=lambda file: file.name)
    return tuple(_chapter(file.name.removesuffix(".md"), file.read_text(encoding="utf-8")) for file in files)


@cache
def clauses() -> dict[str, Clause]:
    """All clauses by id, in reading order."""
    found: dict[str, Clause] = {}
    for chapter in chapters():
        for clause in parse_clauses(chapter):
            if clause.id in found:
                raise MalformedChapter(f"{chapter.name}: clause {clause.id} stands twice")
            found[clause.id] = clause
    return found


def parse_clauses(chapter: Chapter) -> list[Clause]:
    """The clauses of one chapter in order."""
    sections = re.split(r"^(?=#{2,3} )", chapter.text, flags=re.MULTILINE)
    return [_clause(chapter, section) for section in sections if section.startswith("### ")]


def _chapter(name: str, text: str) -> Chapter:
    title = text.splitlines()[0]
    if not title.startswith("# "):
        raise MalformedChapter(f"{name}: the first line must be the title, `# ...`")
    return Chapter(name, title.removeprefix("# "), text)


def _clause(chapter: Chapter, section: str) -> Clause:
    heading, _, body = section.partition("\n")
    match = _CLAUSE.match(heading)
    if match is None or match["level"] not in Level.__members__:
        raise MalformedChapter(f"{chapter.name}: {heading!r} is no clause heading such as `### POOL-FREE-2 (MUST)`")
    sentence, _, notes = body.strip().partition("\n\n")
    if not sentence or "\n" in sentence:
        raise MalformedChapter(f"{chapter.name}: {match['id']} must begin with its sentence in one line")
    return Clause(match["id"], Level[match["level"]], sentence, notes.strip(), chapter.name)
