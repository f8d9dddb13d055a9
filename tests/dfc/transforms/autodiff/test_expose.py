"""What a loop hands out for the backward pass, besides what it started its iterations with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dfc.ir.regions import for_view
from dfc.ops import registry, table
from dfc.transforms.autodiff.expose import with_stacks
from tests.support.building import graph_of

LOOP = """dfg 1
entry f(w: f64[2, 2], x: f64[2, 2]) -> f64[2, 2] {
  let y = loop y = x for i in 0..3 { y = tanh(y @ w) }
  return y
}
"""


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_loop_emits_the_results_of_ops_whose_records_say_so(is_saved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    record = registry.record("matmul")
    changed = replace(record, family="another", rules=replace(record.rules, saved_for_backward=is_saved))
    monkeypatch.setitem(table.RECORDS, "matmul", changed)
    (loop,) = [node for node in graph_of(LOOP).entries["f"].block.nodes if node.op == "for"]
    emitted = for_view(with_stacks(loop)).after.emitted
    assert ("matmul" in [value.node.op for value in emitted if value.node is not None]) is is_saved
