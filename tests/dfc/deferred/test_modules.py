"""Modules that are executed when they are used; each test has a module of its own on the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dfc.deferred.modules import defer, numpy_function

NAME = "deferred_example"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "__init__.py").write_text("import sys\nsys.executed.append(__name__)\nvalue = 7\n")
    (folder / "inner.py").write_text("from deferred_example import value\nmore = value + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "executed", [], raising=False)
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
        del sys.modules[name]


def executed() -> list[str]:
    return getattr(sys, "executed")  # noqa: B009 - it is there in these tests alone


def test_a_module_is_executed_at_its_first_use_and_once(package: Path) -> None:
    defer(NAME)
    module = import_module(NAME)
    assert import_module(NAME) is module and executed() == []
    assert module.value == 7
    assert executed() == [NAME]
    assert module.value == 7 and import_module(NAME) is module
    assert executed() == [NAME]
    assert Path(module.__file__ or "").parent == package


def test_a_module_inside_of_it_is_a_use(package: Path) -> None:
    defer(NAME)
    assert import_module(f"{NAME}.inner").more == 8
    assert executed() == [NAME]


def test_a_module_that_fails_may_be_imported_again(package: Path) -> None:
    (package / "__init__.py").write_text("raise ImportError('not today')\n")
    defer(NAME)
    module = import_module(NAME)
    with pytest.raises(ImportError, match="not today"):
        _ = module.value
    assert NAME not in sys.modules
    (package / "__init__.py").write_text("value = 'better, and of another length'\n")
    assert import_module(NAME).value == "better, and of another length"


def test_what_is_there_already_or_nowhere_is_left_alone() -> None:
    defer("numpy")
    assert sys.modules["numpy"] is np
    defer("no_such_module_anywhere")
    assert "no_such_module_anywhere" not in sys.modules


def test_functions_of_numpy_are_found_by_name() -> None:
    assert numpy_function("hypot")(3.0, 4.0) == 5.0
    assert list(numpy_function("maximum.accumulate")(np.array([1, 3, 2]), 0)) == [1, 3, 3]
    assert numpy_function("exp").__name__ == "exp"
