"""Known divergences: a file that the implementer owns, in which each clause has its reason.

    [[divergence]]
    clause = "POOL-FREE-2"
    reason = "Blocks without a key go last here; planned for 1.4."
    link = "https://example.org/issues/12"
    until = "2027-01-31"

They are still run, and stay failed clauses. What is not in the file is new; what is in it and passes, or does not
exist, is an error of the file.
"""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path

import msgspec

from kvproof.conformance.certification.levels import levels
from kvproof.conformance.certification.result import KnownDivergence


class KnownError(ValueError):
    """A file that lists no known divergences; the text says why."""


def read_known(file: Path) -> list[KnownDivergence]:
    """Read the file; raises `KnownError`."""
    try:
        if file.is_char_device():
            raise KnownError(f"{file} is a device, not a file")
        found = tomllib.loads(file.read_text(encoding="utf-8"))
        listed = msgspec.convert(found.pop("divergence", []), list[KnownDivergence])
    except OSError as error:
        raise KnownError(f"{file} cannot be read: {error.strerror}") from None
    except KnownError:
        raise
    except RecursionError:
        raise KnownError(f"{file} cannot be read: it is nested too deeply") from None
    except (ValueError, msgspec.ValidationError) as error:  # of UTF-8, of TOML, of a number that is too long
        raise KnownError(f"{file}: {error}") from None
    if found:
        raise KnownError(f"{file}: only [[divergence]] is known, not {', '.join(found)}")
    for each in listed:
        _check(each, file)
    names = [each.clause for each in listed]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise KnownError(f"{file}: listed twice: {', '.join(twice)}")
    return listed


def _check(each: KnownDivergence, file: Path) -> None:
    if each.clause not in levels():
        raise KnownError(f"{file}: there is no clause {each.clause} of a backend; kvproof spec lists all")
    if not each.reason.strip():
        raise KnownError(f"{file}: {each.clause} has no reason")
    if each.until:
        try:
            date.fromisoformat(each.until)
        except ValueError:
            raise KnownError(f"{file}: until = {each.until!r} of {each.clause} is no day such as 2027-01-31") from None
