"""Names of a program: what belongs to what."""

from __future__ import annotations

from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.globs import Glob
from dfc.distribute.deployment.names import Names
from dfc.elaborate import build

PROGRAM = """dfg 1

var center: f32[3] = 0

entry shifted(x: f32[3]) -> (y: f32[3]) {
  let middle = center
  let y = (x - middle) * 2
  return y
}
"""


def test_a_read_that_is_named_by_its_own_statement_belongs_to_itself_once() -> None:
    names = Names(build.build(SourceFile("shift.dfg", PROGRAM)))
    for thing in names.matching(Glob("**")):
        parts = [part.name for part in names.with_parts(thing)]
        assert len(parts) == len(set(parts)) <= len(names.things)
    (whole,) = names.matching(Glob("shifted/y"))
    assert {part.name for part in names.with_parts(whole)} >= {whole.name, "shifted/y/sub"}
