"""What a loss depends on is looked up once for all of its gradients."""

from __future__ import annotations

import pytest

from dfc.elaborate.expressions import gradients
from dfc.elaborate.expressions.dependencies import Dependencies
from dfc.ir.graph import Value
from tests.support.building import graph_of

PROGRAM = """dfg 1

param a: f32[4] = 1.0
param b: f32[4] = 2.0

entry train(x: f32[4]) -> (loss: f32) {
  let loss = sum(a * b * x)
  let other = sum(b * x)
  a -= 0.1 * grad(loss, a)
  b -= 0.1 * grad(loss, b) + grad(other, b)
  return loss
}
"""


def test_gradients_of_a_loss_share_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[Value] = []

    class Counted(Dependencies):
        def __init__(self, loss: Value, *, smooth: bool) -> None:
            walks.append(loss)
            super().__init__(loss, smooth=smooth)

    monkeypatch.setattr(gradients, "Dependencies", Counted)
    graph_of(PROGRAM)
    in_train = [each for each in walks if each.node is not None and each.node.name.startswith("train/")]
    assert len(in_train) == len(set(in_train)) == 2
