"""The folder of a run: written whole beside its place and then renamed, so that no half of it is ever found there."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from pathlib import Path

from kvproof.conformance.certification import failure as failures
from kvproof.conformance.certification.certificate import (
    CERTIFICATE_FILE,
    JUNIT_FILE,
    REPORT_FILE,
    certificate_of,
    encode,
)
from kvproof.conformance.certification.html import report
from kvproof.conformance.certification.junit import junit
from kvproof.conformance.certification.result import Run
from kvproof.conformance.certification.verdict import no_certificate

_REASONS = {
    errno.EROFS: "it lies on a read-only file system",
    errno.EACCES: "you may not write there",
    errno.EPERM: "you may not write there",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your quota is used up",
    errno.EEXIST: "it exists already",
    errno.ENOTEMPTY: "it exists already",
    errno.ENOTDIR: "a file is in the way",
    errno.ENAMETOOLONG: "a name is too long",
}


class OutputError(Exception):
    """The folder cannot be written. The text says why and what to do; nothing is left behind."""


def check_output(folder: Path) -> None:
    """Whether the folder can be made, before a long run; raises `OutputError`."""
    partial = _begin(folder)
    partial.rmdir()


def write_output(run: Run, folder: Path) -> bool:
    """Write everything there is to say of a run; whether a certificate is part of it (see `no_certificate`).

    Raises `OutputError`. If that happens, or the user interrupts, the folder is not there.
    """
    try:
        files = contents(run)
    except UnicodeEncodeError as error:  # a backend in Python can name things by text that no file can hold
        raise OutputError(f"{folder} cannot be written: {error.object!r} is no text that UTF-8 can hold.") from None
    partial = _begin(folder)
    try:
        for name, data in files.items():
            _write(partial / name, data)
        partial.rename(folder)
    except OSError as error:
        raise _error(folder, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # gone if it was renamed
    return CERTIFICATE_FILE in files


def contents(run: Run) -> dict[str, bytes]:
    """The files of a run by their paths, the certificate last."""
    files = {REPORT_FILE: report(run).encode(), JUNIT_FILE: junit(run)}
    for failure in run.failures:
        files |= {f"{failures.FAILURES}/{failure.id}/{name}": data for name, data in failures.files_of(failure).items()}
    if run.crash is not None:
        files |= {f"{failures.CRASH}/{name}": data for name, data in failures.files_of_crash(run.crash).items()}
    if not no_certificate(run):
        files[CERTIFICATE_FILE] = encode(certificate_of(run, files))
    return files


def _begin(folder: Path) -> Path:
    """A new folder beside the place of another, which must not be there, or be empty."""
    try:
        if (folder.exists() or folder.is_symlink()) and not (folder.is_dir() and not any(folder.iterdir())):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        if any(parent.is_file() for parent in folder.parents):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.partial"
        partial.mkdir()
    except OSError as error:
        raise _error(folder, error) from None
    return partial


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())  # a full disk may show only here


def _error(folder: Path, error: OSError) -> OutputError:
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
    return OutputError(f"{folder} cannot be written: {reason}. Name another folder with --out.")
