from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kvproof.conformance.certification import output
from kvproof.conformance.certification.certificate import verify_certificate
from kvproof.conformance.certification.output import OutputError, check_output, write_output
from kvproof.conformance.operations import AddRequest
from tests.conformance import runs


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def failing_with(number: int) -> Callable[[Path, bytes], None]:
    """Write the first files, then fail as the system does."""

    def write(file: Path, data: bytes) -> None:
        if file.name == "certificate.json":
            file.write_bytes(data[: len(data) // 2])
            raise OSError(number, os.strerror(number))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    return write


def test_a_run_leaves_all_its_files_and_nothing_else(tmp_path: Path) -> None:
    assert write_output(runs.run([runs.failure()]), tmp_path / "deep/out")
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    failure = f"deep/out/failures/{runs.failure().id}"
    assert files == {
        "deep/out/certificate.json",
        "deep/out/junit.xml",
        "deep/out/report.html",
        f"{failure}/trace.jsonl",
        f"{failure}/failure.json",
    }


def test_a_run_with_an_open_end_leaves_its_report_and_no_certificate(tmp_path: Path) -> None:
    assert not write_output(runs.run([runs.failure()], unfinished="interrupted"), tmp_path / "out")
    assert left_in(tmp_path / "out") == ["failures", "junit.xml", "report.html"]
    assert "the run was not finished: interrupted" in (tmp_path / "out/report.html").read_text()


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert write_output(runs.run(), tmp_path / "out")
    assert verify_certificate(tmp_path / "out").problems == ()


def there_already(folder: Path) -> None:
    """What cannot become the folder of a run, under three names."""
    (folder / "out").mkdir()
    (folder / "out/notes").write_text("mine")
    (folder / "file").write_text("mine")
    (folder / "link").symlink_to(folder / "nowhere")


def test_what_is_there_already_is_refused_before_the_run(tmp_path: Path) -> None:
    there_already(tmp_path)
    for name in ("out", "file", "link"):
        with pytest.raises(OutputError, match=f"{name} cannot be written: it exists already. Name another folder"):
            check_output(tmp_path / name)
    with pytest.raises(OutputError, match="out cannot be written: a file is in the way"):
        check_output(tmp_path / "file/out")
    assert left_in(tmp_path) == ["file", "link", "out"]


@pytest.mark.parametrize("name", ["out", "file", "link"])
def test_what_came_there_during_the_run_is_left_alone_and_the_results_are_kept(tmp_path: Path, name: str) -> None:
    there_already(tmp_path)
    with pytest.raises(
        OutputError, match=rf"{name} cannot be written: .*\. The results are in .*\.partial\."
    ) as caught:
        write_output(runs.run(), tmp_path / name)
    kept = Path(str(caught.value).partition("The results are in ")[2].removesuffix("."))
    assert verify_certificate(kept).problems == ()
    assert left_in(tmp_path) == sorted([kept.name, "file", "link", "out"])
    assert left_in(tmp_path / "out") == ["notes"]


def test_a_device_in_the_way_is_called_that() -> None:
    with pytest.raises(OutputError, match="/dev/null/x cannot be written: a file is in the way"):
        check_output(Path("/dev/null/x"))


def test_the_current_folder_is_filled_if_it_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_output(Path("."))
    assert left_in(tmp_path) == []
    assert write_output(runs.run([runs.failure()]), Path("."))
    assert verify_certificate(tmp_path).problems == ()
    assert left_in(tmp_path) == ["certificate.json", "failures", "junit.xml", "report.html"]


@pytest.mark.parametrize(("error", "kept"), [(OSError(errno.EIO, "broken"), True), (KeyboardInterrupt(), False)])
def test_a_folder_that_cannot_be_filled_stays_empty_but_for_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, kept: bool
) -> None:
    rename = Path.rename

    def not_the_certificate(self: Path, target: Path) -> Path:
        if target == tmp_path / "certificate.json":
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", not_the_certificate)
    with pytest.raises(OutputError if kept else KeyboardInterrupt):
        write_output(runs.run(), tmp_path)
    left = list(tmp_path.iterdir())
    assert [verify_certificate(each).problems for each in left] == [()] * kept


def test_a_file_that_came_into_the_folder_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = output._write

    def meanwhile(file: Path, data: bytes) -> None:
        (tmp_path / "junit.xml").write_text("mine")
        write(file, data)

    monkeypatch.setattr(output, "_write", meanwhile)
    with pytest.raises(OutputError, match=r"it exists already\. The results are in"):
        write_output(runs.run(), tmp_path)
    assert (tmp_path / "junit.xml").read_text() == "mine"


def test_a_folder_that_may_not_be_written_is_known_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *args: object, **kwargs: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OutputError, match="it lies on a read-only file system"):
        check_output(tmp_path / "out")


@pytest.mark.skipif(not Path("/sys").is_dir(), reason="needs a folder in which not even root may write")
def test_a_folder_without_write_permission_is_known_before_the_run() -> None:
    with pytest.raises(OutputError, match=r"you may not write there|read-only file system"):
        check_output(Path("/sys/out"))


def test_looking_whether_it_can_be_written_leaves_nothing(tmp_path: Path) -> None:
    check_output(tmp_path / "out")
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EACCES, "you may not write there"),
        (errno.EROFS, "it lies on a read-only file system"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_a_write_that_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, text: str
) -> None:
    monkeypatch.setattr(output, "_write", failing_with(number))
    with pytest.raises(OutputError, match=f"out cannot be written: {text}"):
        write_output(runs.run([runs.failure()]), tmp_path / "out")
    assert left_in(tmp_path) == []


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(file: Path, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "_write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_output(runs.run(), tmp_path / "out")
    assert left_in(tmp_path) == []


def test_half_a_certificate_that_was_left_does_not_verify(tmp_path: Path) -> None:
    files = output.contents(runs.run())
    (tmp_path / "certificate.json").write_bytes(files["certificate.json"][:-200])
    assert "was cut or edited" in "".join(verify_certificate(tmp_path).problems)


def test_a_full_disk_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    monkeypatch.setattr(output, "_write", lambda file, data: full.write_bytes(data))
    with pytest.raises(OutputError, match="the disk is full"):
        write_output(runs.run(), tmp_path / "out")
    assert left_in(tmp_path) == []


def test_a_name_that_no_file_can_hold_is_a_clear_error(tmp_path: Path) -> None:
    failure = runs.failure()
    step = msgspec.structs.replace(failure.trace.steps[0], operation=AddRequest("\ud800", (7, 8)))
    trace = msgspec.structs.replace(failure.trace, steps=(step, *failure.trace.steps[1:]))
    with pytest.raises(OutputError, match="is no text that UTF-8 can hold"):
        write_output(runs.run([msgspec.structs.replace(failure, trace=trace)]), tmp_path / "out")
    assert left_in(tmp_path) == []
