from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kvproof.conformance.backends.interface import AdapterError, Identity
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.certification.certificate import (
    Body,
    Certificate,
    CertificateError,
    certificate_of,
    decode,
    encode,
    footer_of,
    schema,
    verify_certificate,
)
from kvproof.conformance.certification.digests import driven_files, sha256
from kvproof.conformance.certification.environment import environment
from kvproof.conformance.certification.levels import levels
from kvproof.conformance.certification.output import write_output
from kvproof.conformance.certification.result import DrivenFile, Status
from tests.conformance import runs

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A certificate of a run with one failure."""
    place = tmp_path / "out"
    assert write_output(runs.run([runs.failure()]), place)
    return place


def forge(folder: Path, **changes: object) -> None:
    """Change a certificate and renew its footer, as somebody would who knows how."""
    file = folder / "certificate.json"
    was = decode(file.read_bytes())
    body = Body(**{name: getattr(was, name) for name in Body.__struct_fields__} | changes)
    fields = {name: getattr(body, name) for name in Body.__struct_fields__}
    file.write_bytes(encode(Certificate(**fields, footer=footer_of(body))))


def problems(folder: Path) -> str:
    return "\n".join(verify_certificate(folder).problems)


# What is written


def test_a_whole_certificate_verifies_and_says_how_much_was_checked(folder: Path) -> None:
    found = verify_certificate(folder)
    assert (found.problems, found.unchecked) == ((), ())
    assert found.files == 4
    assert found.driven == len(runs.run().driven) > 0
    assert found.certificate is not None
    assert found.certificate.verdict == "not conformant"


def test_it_reads_back_as_the_run_that_was_written(folder: Path) -> None:
    certificate = decode((folder / "certificate.json").read_bytes())
    run = runs.run([runs.failure()])
    assert certificate.run == run.facts
    assert [line.id for line in certificate.failures] == [failure.id for failure in run.failures]


def test_equal_runs_make_equal_bytes() -> None:
    run = runs.run([runs.failure()])
    assert encode(certificate_of(run, {"b": b"1", "a": b"2"})) == encode(certificate_of(run, {"a": b"2", "b": b"1"}))


def test_a_run_with_an_open_end_has_no_certificate() -> None:
    with pytest.raises(CertificateError, match="left out on request: stage traces"):
        certificate_of(runs.run(filters=("stage traces",)), {})


def test_the_published_schema_is_current() -> None:
    assert (PROJECT / "docs/certificate.schema.json").read_bytes() == schema(), (
        "run `python -m kvproof.conformance.certification.certificate docs/certificate.schema.json`"
    )


def test_the_schema_asks_for_everything_that_a_certificate_has(folder: Path) -> None:
    written = json.loads((folder / "certificate.json").read_text())
    asked = json.loads(schema())["$defs"]["Certificate"]
    assert set(asked["required"]) == set(written) == set(asked["properties"])
    assert asked["additionalProperties"] is False


# What is noticed


def test_every_byte_of_it_matters(folder: Path) -> None:
    data = (folder / "certificate.json").read_bytes()
    for place in range(0, len(data), 97):
        with pytest.raises(CertificateError):
            decode(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data + b"\n",
        lambda data: data.replace(b" ", b"", 1),
        lambda data: b"\n".join(line for number, line in enumerate(data.split(b"\n")) if number != 200),
        lambda data: data.replace(b'"clauses": %d' % len(levels()), b'"clauses": 1'),
        lambda data: data.replace(b'"not conformant"', b'"conformant"'),
        lambda data: data.replace(b'"status": "fail"', b'"status": "pass"'),
        lambda data: data.replace(b'"seed": 1', b'"seed": 2'),
        lambda data: data.replace(b'"status": "pass"', b'"status": "good"', 1),
        lambda data: b"",
        lambda data: b"\xff\xfe",
        lambda data: b"[]",
    ],
)
def test_a_certificate_that_was_cut_or_edited_is_refused(folder: Path, change: Callable[[bytes], bytes]) -> None:
    file = folder / "certificate.json"
    data = file.read_bytes()
    assert change(data) != data
    file.write_bytes(change(data))
    assert verify_certificate(folder).certificate is None
    assert "certificate.json" in problems(folder)


def test_another_version_of_certificates_is_named(folder: Path) -> None:
    forge(folder, kvproof_certificate=2)
    assert "has version 2 of certificates; this reads 1" in problems(folder)


@pytest.mark.parametrize("name", ["report.html", "junit.xml", "failures/{}/trace.jsonl", "failures/{}/failure.json"])
def test_a_changed_or_missing_file_is_noticed(folder: Path, name: str) -> None:
    file = folder / name.format(runs.failure().id)
    file.write_bytes(file.read_bytes().replace(b"1", b"2", 1))
    assert "was changed after it was written" in problems(folder)
    file.unlink()
    assert "is missing" in problems(folder)


def test_a_failure_that_was_put_in_is_noticed(folder: Path) -> None:
    (folder / "failures/other").mkdir()
    (folder / "failures/other/trace.jsonl").write_text("")
    assert problems(folder) == "failures/other/trace.jsonl is not of this run"


def test_a_file_outside_the_folder_is_not_read(folder: Path) -> None:
    forge(folder, files={"../secret": sha256(b"")})
    assert "../secret lies outside the folder" in problems(folder)


def test_a_better_verdict_with_a_renewed_footer_is_noticed(folder: Path) -> None:
    forge(folder, verdict="conformant")
    assert "the verdict is 'conformant', but the rows say 'not conformant'" in problems(folder)


def test_better_counts_with_a_renewed_footer_are_noticed(folder: Path) -> None:
    levels = decode((folder / "certificate.json").read_bytes()).levels
    forge(folder, levels=tuple(msgspec.structs.replace(row, passed=row.total) for row in levels))
    assert "the counts of the levels are not those of the rows" in problems(folder)


def test_a_better_row_with_a_renewed_footer_contradicts_its_failure(folder: Path) -> None:
    run = decode((folder / "certificate.json").read_bytes()).run
    forge(folder, run=runs.run([runs.failure()], {runs.FAILING: Status.PASS}).facts)
    assert run != decode((folder / "certificate.json").read_bytes()).run
    assert "its clause does not fail" in problems(folder)


def test_a_filtered_run_dressed_as_a_whole_one_is_noticed(folder: Path) -> None:
    forge(folder, run=runs.run([runs.failure()], filters=("stage traces",)).facts)
    assert "left out on request" in problems(folder)


def test_a_line_about_another_failure_is_noticed(folder: Path) -> None:
    (line,) = decode((folder / "certificate.json").read_bytes()).failures
    forge(folder, failures=(msgspec.structs.replace(line, clause="POOL-FREE-2"),))
    assert f"failure {line.id} is another one in its folder" in problems(folder)


def test_without_a_certificate_there_is_nothing_to_verify(tmp_path: Path) -> None:
    assert "cannot be read" in problems(tmp_path)


def test_conclusions_of_other_clauses_are_not_checked(folder: Path) -> None:
    forge(folder, run=runs.run([runs.failure()], spec_digest="another").facts, verdict="conformant")
    found = verify_certificate(folder)
    assert found.problems == ()
    assert any("the clauses are not those" in text for text in found.unchecked)


# The files that were driven


def test_a_driven_file_that_changed_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "pool.py"
    source.write_text("pool = 1\n")
    identity = Identity("double", "1", files=(str(source),))
    write_output(runs.run(identity=identity, driven=driven_files(identity)), tmp_path / "out")
    assert verify_certificate(tmp_path / "out").driven == 1
    source.write_text("pool = 2\n")
    assert problems(tmp_path / "out") == f"driven file {source} is another one now"
    source.unlink()
    found = verify_certificate(tmp_path / "out")
    assert found.problems == ()
    assert "which is no file" in found.unchecked[0]


def test_a_driven_folder_that_lost_or_got_a_file_is_noticed(tmp_path: Path) -> None:
    package = tmp_path / "engine"
    package.mkdir()
    (package / "pool.py").write_text("pool = 1\n")
    identity = Identity("double", "1", files=(str(package),))
    write_output(runs.run(identity=identity, driven=driven_files(identity)), tmp_path / "out")
    (package / "pool.py").rename(package / "other.py")
    assert "pool.py is gone" in problems(tmp_path / "out")
    assert "other.py was not there" in problems(tmp_path / "out")


def test_files_folders_modules_and_packages_can_be_driven(tmp_path: Path) -> None:
    (tmp_path / "pool.so").write_bytes(b"\x7fELF")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/pool.pyc").write_bytes(b"made anew each time")
    found = driven_files(
        Identity("double", "1", files=(str(tmp_path), "kvproof.spec.errors", "kvproof.spec", str(tmp_path / "pool.so")))
    )
    digests = {each.name: each.sha256 for each in found}
    errors = sha256((PROJECT / "spec/kvproof/spec/errors.py").read_bytes())
    assert digests["kvproof.spec.errors/errors.py"] == digests["kvproof.spec/errors.py"] == errors
    assert digests[f"{tmp_path}/pool.so"] == digests[str(tmp_path / "pool.so")] == sha256(b"\x7fELF")
    assert not any("__pycache__" in name for name in digests)
    assert "kvproof.spec/chapters/30-blocks.md" in digests


@pytest.mark.parametrize("name", ["no/such/file.py", "no_such_module", "kvproof.no_such", "json.decoder.x", "", "sys"])
def test_a_name_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(AdapterError, match="which is no file, no folder and no module"):
        driven_files(Identity("double", "1", files=(name,)))


def test_the_reference_drives_its_own_package() -> None:
    identity, _ = ReferenceBackend().identify()
    names = {each.name for each in driven_files(identity)}
    assert "kvproof.reference/pool.py" in names
    assert DrivenFile("kvproof.reference/pool.py", "0" * 64) not in driven_files(identity)


def test_the_environment_is_the_one_of_this_process() -> None:
    here = environment()
    assert here.processors >= 1
    assert len(here.load_average) == 3
    assert "msgspec" in here.packages
    assert "no-such-package" not in here.packages


# Traces, run again


def test_the_failures_show_again_on_the_backend_that_has_them(folder: Path) -> None:
    found = verify_certificate(folder, runs.FreesToTheFront())
    assert (found.problems, found.replayed) == ((), 1)


def test_a_failure_that_does_not_show_again_is_a_problem(folder: Path) -> None:
    found = verify_certificate(folder, ReferenceBackend())
    assert found.problems == (f"failure {runs.failure().id} does not show again: nothing differs",)
    assert found.replayed == 0


def test_an_adapter_that_breaks_on_the_way_is_told(folder: Path) -> None:
    class Broken(ReferenceBackend):
        def start(self, config: object) -> None:
            raise AdapterError("it ended")

    assert "the adapter broke: it ended" in "".join(verify_certificate(folder, Broken()).problems)
