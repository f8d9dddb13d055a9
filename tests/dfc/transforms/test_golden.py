"""What each pass does to small programs, as text: `golden/PASS.cases`. `pytest --bless` writes what passes do now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.elaborate.build import build
from dfc.ir.graph import Graph
from dfc.ops.spelling import show
from dfc.transforms.autodiff.autodiff import autodiff
from dfc.transforms.expand import expand
from dfc.transforms.scalar.cse import cse
from dfc.transforms.scalar.dce import dce
from dfc.transforms.scalar.fold import fold
from dfc.transforms.scalar.prune import prune
from dfc.transforms.scalar.simplify import simplify
from dfc.transforms.sparse.sparse import sparse
from tests.support.agreeing import verified
from tests.support.golden import Case, check_case, read_cases

PASSES: dict[str, Callable[[Graph], Graph]] = {
    "prune": prune,
    "simplify": simplify,
    "fold": fold,
    "cse": cse,
    "dce": dce,
    "autodiff": autodiff,
    "expand": expand,
    "sparse": sparse,
}
FOLDER = Path(__file__).with_name("golden")
CASES = [case for name in PASSES for case in read_cases(FOLDER / f"{name}.cases")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path.stem}: {case.name}")
def test_a_pass_does_what_it_says(case: Case, bless: bool) -> None:
    name = case.path.stem
    before = verified(build(SourceFile("case.dfg", case.source)), "build")
    after = verified(PASSES[name](before), name)
    check_case(case, _entry(after), bless)


def _entry(graph: Graph) -> str:
    """The printed entry `e`, without what stands around it."""
    parts = show(graph).split("\n\n")
    return next(part for part in parts if part.startswith("entry e"))
