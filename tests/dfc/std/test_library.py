"""Every module of the library: no remark of the checker, the canonical form, documented, and its own tests pass."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from dfc.driver import api
from dfc.ir.options import CompileOptions
from dfc.syntax.printer.formatter import format_source
from dfc.syntax.reader.reading import read_source
from dfc_runtime import loads
from tests.support.corpus import ROOT

MODULES = sorted((ROOT / "dfc" / "std").rglob("*.dfg"))
DECLARATION = re.compile(r"^(?:block|fn|proc|type) \w+")
modules = pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)


def test_the_library_is_found() -> None:
    names = "accumulators activations colours core images init lbfgs losses metrics nn optim schedules"
    assert set(names.split()) <= {path.stem for path in MODULES}


@modules
def test_a_module_is_accepted_without_a_remark_in_canonical_form(path: Path) -> None:
    source = read_source(path)
    assert api.check(source, {}) == []
    assert format_source(source) == path.read_text(encoding="utf-8")


@modules
def test_the_tests_of_a_module_pass(path: Path) -> None:
    model = loads(api.compile_source(read_source(path), CompileOptions(with_tests=True)).to_bytes(), threads=1)
    assert len(model.tests) == path.read_text(encoding="utf-8").count('\ntest "')
    for test in model.tests.values():
        model.init()
        test()


@modules
def test_each_public_declaration_is_documented(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    bare = [now for before, now in pairwise(lines) if is_bare(before, now)]
    assert bare == []


def is_bare(before: str, now: str) -> bool:
    return DECLARATION.match(now) is not None and not before.startswith("## ") and " _" not in now
