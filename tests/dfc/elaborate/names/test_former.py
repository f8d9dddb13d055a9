"""Names of the library that have another one now still work, and W0203 says the new one."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.fixes import applied
from dfc.diagnostics.source import SourceFile
from dfc.driver import api
from dfc.elaborate.names.foreign import STD
from dfc.elaborate.names.former import FORMER

MEMBER = """dfg 1

from std.nn import BatchNorm

var norm = BatchNorm[2]()

entry init() { initialize(program) }
readonly entry spread() -> f32[2] {
  return norm.usual_spread
}
"""
IMPORTED = """dfg 1

from std.optim import clip_by_length

readonly entry clipped(x: f32[2]) -> f32[2] {
  let y, _ = clip_by_length([x, x], 1)
  return y
}
"""
QUALIFIED = IMPORTED.replace("from std.optim import clip_by_length", "import std.optim").replace(
    "= clip", "= std.optim.clip"
)


def warned(text: str) -> list[Diagnostic]:
    return [each for each in api.check(SourceFile("program.dfg", text), {}) if each.code == "W0203"]


@pytest.mark.parametrize(
    ("text", "former", "present"),
    [
        (MEMBER, "usual_spread", "running_variance"),
        (IMPORTED, "clip_by_length", "clip_by_global_norm"),
        (QUALIFIED, "clip_by_length", "clip_by_global_norm"),
    ],
)
def test_a_former_name_is_a_warning_at_its_use(text: str, former: str, present: str) -> None:
    (only,) = warned(text)
    assert (only.span.text, only.title) == (former, f"`{former}` is now called `{present}`")


def test_a_member_under_its_former_name_is_the_one_of_now() -> None:
    model = dfc_runtime.loads(dfc.compile(text=MEMBER).to_bytes(), threads=1)
    model.init()
    model.state["norm.running_variance"] = np.float32([2, 3])
    assert model.spread().tolist() == [2, 3]


def test_the_edit_ends_the_warning() -> None:
    (only,) = warned(MEMBER)
    (fix,) = only.fixes
    assert not warned(applied(MEMBER, fix.edits))


def test_no_edit_is_offered_where_the_new_function_takes_other_types() -> None:
    (only,) = warned(IMPORTED)
    assert not only.fixes and "its limit is f64" in only.notes[0]


def test_a_name_of_the_programs_own_is_no_former_one() -> None:
    own = (
        "dfg 1\n\nfn clip_by_length(x: f32) -> f32 = x\nreadonly entry f(x: f32) -> f32 { return clip_by_length(x) }\n"
    )
    assert not warned(own)


@pytest.mark.parametrize("file", FORMER)
def test_what_a_former_name_leads_to_is_in_the_library(file: str) -> None:
    text = (STD.parent / file).read_text()
    for former, present in FORMER[file].items():
        owner, _, member = former.rpartition(".")
        assert f"{'var ' if owner else 'fn '}{present.name}" in text
        assert not owner or f"var {member}" not in text
