"""Gradients of gradients of gradients: those that grow with each are refused before they are made."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.ir import walk
from dfc.ir.graph import Graph
from dfc.ops.evaluate import evaluate
from dfc.transforms.autodiff.autodiff import autodiff
from dfc.transforms.autodiff.nesting import MOST_OPERATIONS, nesting
from tests.support.building import graph_of


def nested(formula: str, depth: int) -> Graph:
    lines = ["dfg 1", "", f"fn level0(x: f64) -> f64 = {formula}"]
    lines += [f"fn level{n}(x: f64) -> f64 = grad(level{n - 1}(x), x)" for n in range(1, depth + 1)]
    lines += ["", f"readonly entry e(x: f64) -> (y: f64) {{\n  return level{depth}(x)\n}}", ""]
    return graph_of("\n".join(lines))


def test_twenty_five_gradients_that_do_not_grow_are_computed() -> None:
    graph = autodiff(nested("sin(x)", 25))
    (y,) = evaluate(graph, "e", {"x": np.float64(0.3)}, {}).results
    assert math.isclose(y, math.cos(0.3), rel_tol=1e-12)


def test_those_that_grow_are_refused_with_what_was_counted() -> None:
    with pytest.raises(CompileError) as refused:
        autodiff(nested("tanh(x)", 25))
    (message,) = refused.value.diagnostics
    assert message.code == "E1001"
    assert message.title.startswith(f"gradients of gradients, 25 of them, would take more than {MOST_OPERATIONS:,}")
    assert "number 6" in message.labels[0].text and "operations" in message.labels[0].text
    assert "each of the 19" in message.notes[0]


def test_a_few_that_grow_are_computed() -> None:
    graph = autodiff(nested("tanh(x)", 7))
    assert 0 < sum(1 for _ in walk.nodes(graph.entries["e"].block)) < MOST_OPERATIONS


def test_gradients_beside_each_other_are_not_nested() -> None:
    graph = graph_of(
        "dfg 1\n\nreadonly entry e(x: f64) -> (y: f64) {\n"
        + "".join(f"  let g{n} = grad(tanh(x * {n}.0), x)\n" for n in range(4))
        + "  return g0 + g1 + grad(g2 * g3, x)\n}\n"
    )
    block = graph.entries["e"].block
    grads = [node for node in block.nodes if node.op == "grad"]
    known = nesting(block)
    assert [known.below[node] for node in grads] == [0, 0, 0, 0, 1]
    assert [known.above[node] for node in grads] == [0, 0, 1, 1, 0]
