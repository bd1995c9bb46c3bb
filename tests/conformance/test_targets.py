from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from kvproof.conformance.backends import targets
from kvproof.conformance.backends.interface import AdapterError
from kvproof.conformance.backends.process import ProcessBackend
from kvproof.conformance.backends.reference import ReferenceBackend
from kvproof.conformance.backends.targets import TargetError, named_backends, open_backend

MODULE = """
from kvproof.conformance.backends.interface import AdapterError
from kvproof.conformance.backends.reference import ReferenceBackend

class Mine(ReferenceBackend):
    class Inner(ReferenceBackend):
        pass

def make_mine():
    return Mine()

def make_nothing():
    return None

def fails():
    raise OSError("no device")

def breaks():
    raise AdapterError("the engine does not load")

LEVELS = ("P",)
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stranger.py").write_text(MODULE)
    (tmp_path / "broken_stranger.py").write_text("1 / 0")
    (tmp_path / "needy_stranger.py").write_text("import a_module_that_nobody_has")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "stranger", raising=False)


def test_the_reference_has_a_name() -> None:
    assert isinstance(open_backend("reference"), ReferenceBackend)


def test_an_installed_package_names_its_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = EntryPoints([EntryPoint("theirs", "stranger:Mine", targets.ENTRY_POINTS)])
    monkeypatch.setattr(targets, "entry_points", lambda group: offered.select(group=group))
    assert set(named_backends()) == {"reference", "theirs"}
    assert type(open_backend("theirs")).__name__ == "Mine"


@pytest.mark.parametrize("target", ["stranger:Mine", "stranger:make_mine", "stranger:Mine.Inner"])
def test_a_factory_of_the_current_folder_makes_a_backend(target: str) -> None:
    assert isinstance(open_backend(target), ReferenceBackend)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("referense", "did you mean reference?"),
        ("vllm", "known are gpu, reference; a target is a name"),
        ("", "known are gpu, reference"),
        (":make", "is no `module:factory`"),
        ("stranger:", "is no `module:factory`"),
        ("strangest:make", "there is no module 'strangest', neither installed nor in"),
        ("stranger.inner:make", "there is no module 'stranger.inner'"),
        ("..:make", "cannot be imported"),
        ("needy_stranger:make", "needs 'a_module_that_nobody_has', which is not installed"),
        ("broken_stranger:make", "cannot be imported: ZeroDivisionError: division by zero"),
        ("stranger:make_min", "there is no 'make_min'; did you mean make_mine"),
        ("stranger:Mine.Outer", "there is no 'Outer'"),
        ("stranger:LEVELS", "is a tuple and makes nothing"),
        ("stranger:fails", "stranger:fails() failed: OSError: no device"),
        ("stranger:make_nothing", "made a NoneType, which is no backend: it has no identify, start, run, close"),
        ("exec:", "needs a command"),
        ("exec:'open", "cannot be split into words: No closing quotation"),
        ("exec:./nothing --fast", "there is no program './nothing' that can be run; build it"),
        ("exec:./plain", "chmod +x ./plain"),
        ("exec:.", "it is a folder"),
        ("exec:runs", "did you mean ./runs?"),
    ],
)
def test_a_target_that_is_no_backend_is_refused_with_the_way_out(target: str, said: str) -> None:
    Path("plain").write_text("")
    Path("runs").write_text("")
    Path("runs").chmod(0o755)
    with pytest.raises(TargetError) as caught:
        open_backend(target)
    assert said in str(caught.value)


def test_an_adapter_that_breaks_when_it_is_made_is_an_adapter_error() -> None:
    with pytest.raises(AdapterError, match="the engine does not load"):
        open_backend("stranger:breaks")


def test_a_command_is_a_backend_in_a_process_of_its_own() -> None:
    backend = open_backend(f"exec:{sys.executable} -m kvproof.conformance.backends.serve stranger:Mine")
    assert isinstance(backend, ProcessBackend)
    assert backend.identify()[0].name == "kvproof-reference"
    backend.close()
