"""`report.html`: one page that needs nothing but itself; everything from outside is escaped.

The timelines lie in the page as JSON, in an element that no browser runs; its script builds text from them, never HTML.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from kvproof.conformance.backends.interface import LEVELS
from kvproof.conformance.certification.pages import HEADINGS, page_of
from kvproof.conformance.certification.result import Run, Status
from kvproof.conformance.certification.timeline import Timeline, pool_in_words
from kvproof.conformance.certification.verdict import exit_code, expired, levels_of, no_certificate, stale, verdict
from kvproof.conformance.mutation.mutant import FAULT_KINDS
from kvproof.conformance.terminal import counted, printable
from kvproof.spec.clauses import clauses


def report(run: Run) -> str:
    """The page."""
    return (
        _environment()
        .get_template("report.html")
        .render(
            run=run,
            verdict=verdict(run),
            code=exit_code(run),
            levels=levels_of(run),
            level_names=LEVELS,
            clauses=clauses(),
            pages=[page_of(failure) for failure in run.failures],
            reasons=no_certificate(run),
            stale=stale(run),
            expired=expired(run),
            faults=FAULT_KINDS,
            headings=HEADINGS,
            Status=Status,
            counted=counted,
            pool_in_words=pool_in_words,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kvproof.conformance.certification"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": _prose, "data": _data}
    return environment


def _shown(value: object) -> object:
    """A value as the page shows it: controls that came from outside are spelled out."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _data(timeline: Timeline) -> Markup:
    """The moments as JSON that cannot end the element it lies in."""
    text = msgspec.json.encode(timeline.moments).decode()
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _prose(text: str) -> Markup:
    """A clause's sentence: what stands in backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(printable(text)))))
