"""What runners share with entries."""

from __future__ import annotations

from dfc.lower.background import background_state
from tests.support.building import graph_of

PROGRAM = """
queue q: f32[3] = fifo(capacity = 4)
var own: i64 = 0
var shared: i64 = 0
var read_only: f32[3] = 1
var trained: f32[3] = 1
runner work with copies = 2 {
  own += 1
  shared += 1
  q.put(read_only * trained)
}
entry step() -> (n: i64, total: f32) {
  let x = q.take()
  trained := x
  return shared, sum(x + read_only)
}
"""


def test_what_a_runner_writes_is_shared_and_what_it_reads_while_others_write_it() -> None:
    assert background_state(graph_of(PROGRAM)) == {"own", "shared", "trained"}


def test_a_program_without_runners_shares_nothing() -> None:
    text = "var n: i64 = 0\nentry step() {\n  n += 1\n}\nentry get() -> i64 {\n  return n\n}\n"
    assert background_state(graph_of(text)) == set()
