"""What the native core tells of its arguments when it runs is what its stub says, and what it takes."""

from __future__ import annotations

import ast
import inspect
import io
from contextlib import redirect_stdout
from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest

from kvproof.gpu_backend import BlockPool, _core, build
from kvproof.spec.errors import InvalidArgument
from kvproof.spec.vocabulary import CommitMode
from tests.gpu_backend.pools import config

STUB = ast.parse(Path(build.__file__).with_name("_core.pyi").read_text(encoding="utf-8"))

OWNERS: dict[str, tuple[str, ...]] = {
    "Text": ("Text",),
    "RequestBase": ("RequestBase",),
    "Hand": ("Hand", "_Operations"),
    "PoolBase": ("PoolBase", "_Operations"),
}
"""Each class with those of the stub that have its methods."""


def functions_of(body: list[ast.stmt]) -> dict[str, ast.FunctionDef]:
    """The functions of a part of the stub, without properties, and without what Python calls itself."""
    functions = [each for each in body if isinstance(each, ast.FunctionDef)]
    return {each.name: each for each in functions if not each.decorator_list and not each.name.startswith("__")}


def methods_of(owner: str) -> dict[str, ast.FunctionDef]:
    classes = {each.name: each for each in STUB.body if isinstance(each, ast.ClassDef)}
    return {name: method for part in OWNERS[owner] for name, method in functions_of(classes[part].body).items()}


def is_method(member: object) -> bool:
    return inspect.ismethoddescriptor(member) and not str(getattr(member, "__name__", "__")).startswith("__")


STUBBED: dict[tuple[str | None, str], ast.FunctionDef] = {
    **{(None, name): function for name, function in functions_of(STUB.body).items()},
    **{(owner, name): method for owner in OWNERS for name, method in methods_of(owner).items()},
}


def written(function: ast.FunctionDef) -> list[tuple[str, object, object]]:
    """Name, kind and default of each argument in the stub, but for the first one of a method."""
    given = function.args
    kinds = [Parameter.POSITIONAL_ONLY] * len(given.posonlyargs) + [Parameter.POSITIONAL_OR_KEYWORD] * len(given.args)
    names = [argument.arg for argument in (*given.posonlyargs, *given.args)]
    defaults = [ast.literal_eval(default) for default in given.defaults]
    all_defaults = [Parameter.empty] * (len(names) - len(defaults)) + defaults
    return [each for each in zip(names, kinds, all_defaults, strict=True) if each[0] != "self"]


def told(owner: str | None, name: str) -> list[tuple[str, object, object]]:
    """The same, as the core tells it."""
    found = getattr(_core if owner is None else getattr(_core, owner), name)
    parameters = inspect.signature(found).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters if each.name != "self"]


@pytest.mark.parametrize(("owner", "name"), STUBBED, ids=lambda part: part or "module")
def test_a_signature_is_that_of_the_stub(owner: str | None, name: str) -> None:
    assert told(owner, name) == written(STUBBED[owner, name])


@pytest.mark.parametrize("owner", OWNERS)
def test_every_method_is_in_the_stub(owner: str) -> None:
    native = {name for name, member in vars(getattr(_core, owner)).items() if is_method(member)}
    assert native == set(methods_of(owner))
    assert len(native) > 1


def test_every_function_is_in_the_stub() -> None:
    assert {name for name, each in vars(_core).items() if inspect.isbuiltin(each)} == set(functions_of(STUB.body))


@pytest.mark.parametrize("name", methods_of("Hand"))
def test_an_operation_takes_the_arguments_that_it_tells(name: str) -> None:
    pool = BlockPool(config(commit=CommitMode.STEPS))
    call: Any = getattr(_core.PoolBase, name)
    names = [argument for argument, _, _ in told("PoolBase", name)]
    needed = [argument for argument, _, default in told("PoolBase", name) if default is Parameter.empty]
    with pytest.raises(TypeError, match=rf"{name}\(\) takes {len(names)} arguments, not {len(names) + 1}"):
        call(pool, *[object()] * (len(names) + 1))
    for left_out in needed:
        with pytest.raises(TypeError, match=rf"{name}\(\) needs the argument '{left_out}'"):
            call(pool, **{argument: object() for argument in names if argument != left_out})
    if names:
        with pytest.raises(InvalidArgument):  # all of them are known
            call(pool, **{argument: object() for argument in names})


def test_help_shows_the_arguments() -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        help(BlockPool.cache_full_blocks)
    shown = printed.getvalue()
    assert "cache_full_blocks(self, /, request, block_ids, first, last, group, mask=None, replace=False)" in shown
    assert "Register the full keys of the slots" in shown
