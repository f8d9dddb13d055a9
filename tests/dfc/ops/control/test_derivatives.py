"""Views of `grad` and `custom`: each part stands for what the program wrote."""

from __future__ import annotations

import pytest

from dfc.ir import walk
from dfc.ir.graph import Node
from dfc.ops.control.derivatives import custom_view, grad_view, is_custom, is_grad
from tests.support.building import graph_of

PROGRAM = """
fn divided(a: f32[3], b: f32[4]) -> (f32[3], f32[4]) {
  return (a * 2.0, b * 3.0)
} gradient (first, second) {
  return (first * 5.0, second * 7.0)
}

entry f(loss: f32, u: f32[3], v: f32[4]) -> (f32, f32[3]) {
  let p, q = divided(u, v)
  let total = loss + sum(p) + sum(q)
  let du, dloss = grad(total, [u, loss])
  return (dloss, du)
}
"""


@pytest.fixture(scope="module")
def nodes() -> list[Node]:
    return list(walk.nodes(graph_of(PROGRAM).entries["f"].block))


def test_a_grad_is_of_its_loss_for_its_targets(nodes: list[Node]) -> None:
    (node,) = filter(is_grad, nodes)
    request = grad_view(node)
    assert request.loss.name == "f/total"
    assert [value.name for value in request.targets] == ["u", "loss"]
    assert [(value.node, str(value.type)) for value in request.gradients] == [(node, "f32[3]"), (node, "f32")]


def test_a_grad_is_seen_with_the_operands_that_it_is_about_to_have(nodes: list[Node]) -> None:
    (node,) = filter(is_grad, nodes)
    loss, u, scalar = node.operands
    request = grad_view(node, (scalar, u, loss))
    assert (request.loss, request.targets, request.gradients) == (scalar, (u, loss), node.results)


def test_a_custom_call_has_a_gradient_for_each_parameter_and_a_cotangent_for_each_result(nodes: list[Node]) -> None:
    (node,) = filter(is_custom, nodes)
    call = custom_view(node)
    assert [value.name for value in call.parameters] == ["u", "v"]
    assert [value.node.op for value in call.cotangents if value.node] == ["cotangent", "cotangent"]
    of_cotangents = [[operand.node for operand in value.node.operands] for value in call.gradients if value.node]
    assert [value.node in inside for value, inside in zip(call.cotangents, of_cotangents, strict=True)] == [True, True]
    assert [value.type for value in call.results] == [value.type for value in call.computed]
    parts = (*call.computed, *call.parameters, *call.cotangents, *call.gradients)
    assert (parts, call.results) == (node.operands, node.results)
