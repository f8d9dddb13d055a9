"""Gradients of programs against central differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.driver.gradcheck import Compared, gradcheck, widened
from dfc.elaborate import build
from dfc.ir.graph import Graph, Node, Value
from dfc.ir.walk import nodes
from dfc.ops import registry
from dfc.ops.builder import Builder
from dfc.ops.gradients import unbroadcast
from tests.support.command_line import command

PROGRAM = """dfg 1

param w: f32[3, 4] = glorot_uniform()
param b: f32[4] = 0.5
var steps: i64 = 0

entry train[B](x: f32[B, 3], labels: i32[B]) -> (loss: f32) {
  let h = tanh(x @ w + b)
  let loss = mean(cross_entropy(h, labels))
  let gw, gb = grad(loss, (w, b))
  let gh = grad(loss, h)
  w -= 0.1 * gw
  b -= 0.1 * gb + 0 * sum(gh)
  return loss
}

readonly entry slope(x: f32[5]) -> (g: f32[5]) {
  return grad(sum(exp(x) * x), x)
}

readonly entry inner(x: f32) -> (g: f32) {
  let g, _ = loop g = x, i: i64 = 0 while i < 3 {
    g = grad(square(g), g)
    i = i + 1
  }
  return g
}
"""


def graph(text: str = PROGRAM) -> Graph:
    return build.build(SourceFile("model.dfg", text))


def verdicts(found: list[Compared]) -> dict[tuple[str, str], bool]:
    return {(each.entry, each.target): each.is_wrong for each in found if each.error is not None}


def test_every_target_of_every_entry_is_compared() -> None:
    found = gradcheck(graph(), 0, {})
    assert verdicts(found) == {
        ("train", "w"): False,
        ("train", "b"): False,
        ("train", "train/h"): False,
        ("slope", "x"): False,
    }
    assert [(each.entry, each.reason) for each in found if each.error is None] == [
        ("inner", "is inside a loop or branch")
    ]
    assert {each.span.line for each in found} == {10, 11, 18, 23}


def test_a_wrong_gradient_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = registry.record("exp")
    wrong = replace(right, gradient=registry.record("square").gradient)
    find = registry.record
    monkeypatch.setattr(registry, "record", lambda name: wrong if name == "exp" else find(name))
    assert verdicts(gradcheck(graph(), 0, {}, "slope")) == {("slope", "x"): True}


def test_the_program_is_compared_in_double_precision() -> None:
    types = {str(v.tensor.dtype) for n in nodes(widened(graph()).entries["train"].block) for v in n.results
             if not v.is_token}  # fmt: skip
    assert "f64" in types
    assert "f32" not in types
    errors = [each.error for each in gradcheck(graph(), 3, {"B": 7}) if each.error is not None]
    assert max(errors) < 1e-6


def test_the_command_tells_the_seed_and_fails_on_a_wrong_gradient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dfc = command(monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)
    Path("model.dfg").write_text(PROGRAM)
    ended = dfc("gradcheck", "model.dfg", "--seed", "5", "--entry", "slope")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("seed 5, ")
    assert "right" in ended.out
    assert "slope: `x` (model.dfg:18:10)" in ended.out
    right, find = registry.record("exp"), registry.record
    wrong = replace(right, gradient=find("square").gradient)
    monkeypatch.setattr(registry, "record", lambda name: wrong if name == "exp" else find(name))
    ended = dfc("gradcheck", "model.dfg", "--entry", "slope")
    assert ended.code == 2
    assert "WRONG" in ended.out
    assert dfc("gradcheck", "model.dfg", "--entry", "slop").code == 2


LIMITS = """dfg 1

readonly entry limits[N](x: f32[N], low: f32, high: f32) -> (g: f32) {
  return grad(sum(clamp(x, 2.0 + low * 0.1, -2.0 + high * 0.1)), high)
}
"""


def test_a_row_that_is_right_on_one_side_of_a_choice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = registry.record("clamp")

    def by_x_alone(b: Builder, node: Node, cotangents: Sequence[Value | None]) -> Sequence[Value | None]:
        x, _, high = node.operands
        (dy,) = cotangents
        assert dy is not None
        above = b.apply("select", b.apply("greater", x, high), dy, b.scalar_like(0, dy))
        return None, None, unbroadcast(b, above, high.tensor.shape)

    wrong = replace(right, gradient=by_x_alone)
    find = registry.record
    assert verdicts(gradcheck(graph(LIMITS), 0, {"N": 20})) == {("limits", "high"): False}
    monkeypatch.setattr(registry, "record", lambda name: wrong if name == "clamp" else find(name))
    assert verdicts(gradcheck(graph(LIMITS), 0, {"N": 20})) == {("limits", "high"): True}
