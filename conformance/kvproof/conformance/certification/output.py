"""The folder of a run: written whole elsewhere and then renamed, so that no half of it is ever found in its place.

Elsewhere is beside it; where the folder is there already and empty, within it. For the current folder or a mounted one
cannot be replaced, and who made the folder may be allowed to write nowhere else.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from contextlib import suppress
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
    """The folder cannot be written. The text says why and what to do, and where the results are if they are kept."""


def check_output(folder: Path) -> None:
    """Whether the folder can be made or filled, before a long run; raises `OutputError`, and leaves nothing behind."""
    try:
        if (folder.exists() or folder.is_symlink()) and not _is_empty(folder):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        _begin(folder).rmdir()
    except OSError as error:
        raise _error(folder, error) from None


def write_output(run: Run, folder: Path) -> bool:
    """Write everything there is to say of a run; whether a certificate is part of it (see `no_certificate`).

    Raises `OutputError`; the folder is then not there, or as it was, and so it is if the user interrupts. Files that
    could be written and only not be put in their place are kept.
    """
    try:
        files = contents(run)
    except UnicodeEncodeError as error:  # a backend in Python can name things by text that no file can hold
        raise OutputError(f"{folder} cannot be written: {error.object!r} is no text that UTF-8 can hold.") from None
    try:
        partial = _begin(folder)
    except OSError as error:
        raise _error(folder, error) from None
    kept = False
    try:
        for name, data in files.items():
            _write(partial / name, data)
        try:
            _put_in_place(partial, folder, list(dict.fromkeys(name.partition("/")[0] for name in files)))
        except OSError as error:
            kept = True
            raise OutputError(f"{folder} cannot be written: {_reason(error)}. The results are in {partial}.") from None
    except OSError as error:
        raise _error(folder, error) from None
    finally:
        if not kept:
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
    """A new folder, within another that is there and empty, or else beside its place. Raises `OSError`."""
    if any(parent.exists() and not parent.is_dir() for parent in folder.parents):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    within = _is_empty(folder)
    place = folder if within else folder.parent
    place.mkdir(parents=True, exist_ok=True)
    partial = place / f".{'kvproof' if within else folder.name}.{secrets.token_hex(4)}.partial"
    partial.mkdir()
    return partial


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _put_in_place(partial: Path, folder: Path, names: list[str]) -> None:
    """Rename what was written, all of it or nothing, the last name last. Raises `OSError`."""
    if partial.parent != folder:
        partial.rename(folder)
        return
    moved: list[str] = []
    try:
        for name in names:
            if os.path.lexists(folder / name):  # since the run began
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            (partial / name).rename(folder / name)
            moved.append(name)
    except BaseException:
        for name in moved:
            with suppress(OSError):
                (folder / name).rename(partial / name)
        raise


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())  # a full disk may show only here


def _error(folder: Path, error: OSError) -> OutputError:
    return OutputError(f"{folder} cannot be written: {_reason(error)}. Name another folder with --out.")


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, error.strerror or str(error))
