"""`certificate.json`: what a whole run found out, bound to digests of everything that it speaks of.

The file is canonical JSON: it is valid only byte for byte as written. Its footer counts what the file lists and holds
the digest of the rest, so that a file that was cut or edited is known as one. It is not signed: whoever edits it can
renew the footer, and is found out only where the rows contradict each other, or a trace is run again.

`python -m kvproof.conformance.certification.certificate FILE` writes the schema of the file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kvproof.conformance.backends.interface import AdapterError, Backend
from kvproof.conformance.backends.wire import Wire
from kvproof.conformance.certification.digests import driven_files, sha256, spec_digest
from kvproof.conformance.certification.failure import FAILURES, read_failure, run_again
from kvproof.conformance.certification.result import Failure, Run, RunFacts
from kvproof.conformance.certification.trace import TraceError
from kvproof.conformance.certification.verdict import LevelRow, incoherences, levels_of, no_certificate, verdict

CERTIFICATE_VERSION = 1

CERTIFICATE_FILE, REPORT_FILE, JUNIT_FILE = "certificate.json", "report.html", "junit.xml"
"""What the folder of a run holds."""


class CertificateError(ValueError):
    """A file that is no certificate of this version, or no longer the one that was written; the text says why."""


class FailureLine(Wire, frozen=True):
    """A failure, whose folder has the rest."""

    id: str
    clause: str
    operation: str
    operations: int


class Body(Wire, frozen=True, kw_only=True):
    """All but the footer. `files` has the digest of every other file of the folder, by its path in it."""

    kvproof_certificate: int
    verdict: str
    run: RunFacts
    levels: tuple[LevelRow, ...]
    failures: tuple[FailureLine, ...]
    files: dict[str, str]


class Footer(Wire, frozen=True):
    """How many there are of everything that is listed, and the digest of the body."""

    stages: int
    clauses: int
    levels: int
    failures: int
    driven: int
    files: int
    sha256: str


class Certificate(Body, frozen=True, kw_only=True):
    """The whole file."""

    footer: Footer


def certificate_of(run: Run, files: Mapping[str, bytes]) -> Certificate:
    """The certificate of a run whose folder holds these files. Raises `CertificateError` if there can be none."""
    if reasons := no_certificate(run):
        raise CertificateError("; ".join(reasons))
    body = Body(
        kvproof_certificate=CERTIFICATE_VERSION,
        verdict=verdict(run),
        run=run.facts,
        levels=levels_of(run),
        failures=tuple(map(_line, run.failures)),
        files={name: sha256(data) for name, data in sorted(files.items())},
    )
    return Certificate(**{name: getattr(body, name) for name in Body.__struct_fields__}, footer=footer_of(body))


def footer_of(body: Body) -> Footer:
    """The only footer that fits a body."""
    return Footer(
        stages=len(body.run.stages),
        clauses=len(body.run.clauses),
        levels=len(body.levels),
        failures=len(body.failures),
        driven=len(body.run.driven),
        files=len(body.files),
        sha256=sha256(_canonical(body)),
    )


def encode(certificate: Certificate) -> bytes:
    """The bytes of the file."""
    return _canonical(certificate)


def decode(data: bytes, name: str = CERTIFICATE_FILE) -> Certificate:
    """Read the bytes of the file. Raises `CertificateError` if one of them is not as it was written."""
    try:
        certificate = msgspec.json.decode(data, type=Certificate)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CertificateError(f"{name} is no certificate, or was cut or edited: {error}") from None
    if certificate.kvproof_certificate != CERTIFICATE_VERSION:
        found = certificate.kvproof_certificate
        raise CertificateError(f"{name} has version {found} of certificates; this reads {CERTIFICATE_VERSION}")
    body = Body(**{field: getattr(certificate, field) for field in Body.__struct_fields__})
    if certificate.footer != footer_of(body):
        raise CertificateError(f"{name} was edited: its footer does not fit the rest")
    if data != encode(certificate):
        raise CertificateError(f"{name} was edited: it says the same, but not byte for byte as it was written")
    return certificate


def schema() -> bytes:
    """The JSON schema of the file."""
    return _pretty(msgspec.json.encode(msgspec.json.schema(Certificate)))


def _line(failure: Failure) -> FailureLine:
    return FailureLine(failure.id, failure.clause, failure.operation, failure.operations)


def _canonical(value: Body) -> bytes:
    return _pretty(msgspec.json.encode(value, order="deterministic"))


def _pretty(data: bytes) -> bytes:
    return msgspec.json.format(data, indent=1) + b"\n"


# Verification


class Verification(msgspec.Struct, frozen=True):
    """What is wrong with a folder, what could not be checked here, and how much was right."""

    certificate: Certificate | None
    problems: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    files: int = 0
    driven: int = 0
    replayed: int = 0


def verify_certificate(folder: Path, backend: Backend | None = None) -> Verification:
    """Recompute every digest and check every count and conclusion; with a backend, run each failure's trace again."""
    file = folder / CERTIFICATE_FILE
    try:
        certificate = decode(file.read_bytes(), str(file))
    except OSError as error:
        return Verification(None, (f"{file} cannot be read: {error.strerror}",))
    except CertificateError as error:
        return Verification(None, (str(error),))
    problems = _wrong_files(folder, certificate)
    right_files = len(certificate.files) - len(problems)
    problems += _unlisted_failures(folder, certificate)
    unchecked = _differences_of_versions(certificate)
    failures, broken = _failures(folder, certificate)
    problems += broken
    if not broken and not unchecked:
        problems += _wrong_conclusions(certificate, failures)
    changed, unfound, driven = _driven(certificate)
    again = [] if backend is None else _not_shown_again(failures, backend)
    return Verification(
        certificate,
        tuple(problems + changed + again),
        tuple(unchecked + unfound),
        right_files,
        driven,
        0 if backend is None else len(failures) - len(again),
    )


def _wrong_files(folder: Path, certificate: Certificate) -> list[str]:
    found = []
    for name, digest in certificate.files.items():
        file = folder / name
        if not file.resolve().is_relative_to(folder.resolve()):
            found.append(f"{name} lies outside the folder")
        elif not file.is_file():
            found.append(f"{name} is missing")
        elif sha256(file.read_bytes()) != digest:
            found.append(f"{name} was changed after it was written")
    return found


def _unlisted_failures(folder: Path, certificate: Certificate) -> list[str]:
    files = (file for file in (folder / FAILURES).rglob("*") if file.is_file())
    names = sorted(file.relative_to(folder).as_posix() for file in files)
    return [f"{name} is not of this run" for name in names if name not in certificate.files]


def _differences_of_versions(certificate: Certificate) -> list[str]:
    """Without the same clauses the conclusions cannot be drawn again."""
    if certificate.run.spec_digest == spec_digest():
        return []
    return [f"the conclusions: the clauses are not those of kvproof {certificate.run.suite_version}, which wrote this"]


def _failures(folder: Path, certificate: Certificate) -> tuple[list[Failure], list[str]]:
    read: list[Failure] = []
    problems = []
    for line in certificate.failures:
        try:
            failure = read_failure(folder / FAILURES / line.id)
        except TraceError as error:
            problems.append(str(error))
            continue
        read.append(failure)
        if _line(failure) != line:
            problems.append(f"failure {line.id} is another one in its folder")
    return read, problems


def _wrong_conclusions(certificate: Certificate, failures: list[Failure]) -> list[str]:
    """What does not follow from the rows, although the footer fits."""
    facts = certificate.run
    run = Run(**{name: getattr(facts, name) for name in RunFacts.__struct_fields__}, failures=tuple(failures))
    found = incoherences(run) or no_certificate(run)
    if certificate.verdict != verdict(run):
        found.append(f"the verdict is {certificate.verdict!r}, but the rows say {verdict(run)!r}")
    if certificate.levels != levels_of(run):
        found.append("the counts of the levels are not those of the rows")
    return found


def _driven(certificate: Certificate) -> tuple[list[str], list[str], int]:
    """The driven files that are others now, those that are not there, and how many are the same."""
    try:
        here = {each.name: each.sha256 for each in driven_files(certificate.run.identity)}
    except AdapterError as error:
        return [], [f"the driven files: {error}"], 0
    then = {each.name: each.sha256 for each in certificate.run.driven}
    changed = [f"driven file {name} is another one now" for name in then if here.get(name, then[name]) != then[name]]
    changed += [f"driven file {name} is gone" for name in then if name not in here]
    changed += [f"driven file {name} was not there" for name in here if name not in then]
    return changed, [], sum(here.get(name) == digest for name, digest in then.items())


def _not_shown_again(failures: list[Failure], backend: Backend) -> list[str]:
    found = []
    for failure in failures:
        try:
            instead = run_again(failure, backend)
        except AdapterError as error:
            instead = f"the adapter broke: {error}"
        if instead is not None:
            found.append(f"failure {failure.id} does not show again: {instead}")
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(schema())
