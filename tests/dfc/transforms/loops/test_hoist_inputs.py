"""`split_inputs` and `hoist_inputs`: the input part of a recurrent cell is one product, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
from dfc.driver import pipeline
from dfc.ir import walk
from dfc.ir.graph import Block, Graph
from dfc.transforms.loops.hoist_inputs import hoist_inputs
from dfc.transforms.loops.split_inputs import split_inputs
from dfc_runtime import loads
from tests.support.agreeing import verified
from tests.support.building import graph_of, run
from tests.support.sweeping import few

HEAD = "entry f[N](xs: f64[N, 2, 3], w: f64[7, 4], h: f64[2, 4]) -> (y: f64[2, 4], es: f64[N, 2, 4]) {\n"
CELL = HEAD + " let y, es = loop y = h for x in xs {\n BODY\n emit y\n }\n return y, es\n}"
VECTOR = "entry f(xs: f64[9, 3], w: f64[3, 4]) -> f64[9, 4] {\n let es = for x in xs { emit sin(x @ w) }\n return es\n}"
CONCAT = "y = tanh(concat([x, y], axis = 1) @ w)"


def products(block: Block, *, inside: bool) -> list[tuple[str, ...]]:
    """The shapes of the left factors of products, in loops or outside of them."""
    outer = [node for node in block.nodes if node.op == "matmul"]
    found = [node for node in walk.nodes(block) if node.op == "matmul" and node not in outer] if inside else outer
    return [tuple(map(str, node.operands[0].tensor.shape)) for node in found]


def both(text: str) -> Graph:
    split = verified(split_inputs(graph_of(text)), "split_inputs")
    return verified(hoist_inputs(split), "hoist_inputs")


def shapes(text: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    block = both(text).entries["f"].block
    return products(block, inside=False), products(block, inside=True)


FEEDS = {
    "xs": np.random.default_rng(1).normal(size=(5, 2, 3)),
    "w": np.random.default_rng(2).normal(size=(7, 4)),
    "h": np.random.default_rng(3).normal(size=(2, 4)),
}


@pytest.mark.parametrize(
    ("body", "outside", "inside"),
    [
        (CONCAT, [("2 * N", "3")], [("2", "4")]),
        ("y = tanh(concat([y, x], axis = 1) @ w)", [("2 * N", "3")], [("2", "4")]),
        ("y = tanh(x @ w[:3] + y @ w[3:])", [], [("2", "3"), ("2", "4")]),  # slices made in the loop stay there
        ("let c = concat([x, y], axis = 1)\n y = tanh(c @ w) + sum(c)", [], [("2", "7")]),  # used twice
        ("y = tanh(concat([y, y], axis = 1)[:, :7] @ w)", [], [("2", "7")]),  # nothing of the input
        ("y = tanh(concat([x * 2, y], axis = 1) @ w)", [], [("2", "7")]),  # not the row itself
        ("y = tanh(concat([x[::-1], y], axis = 1) @ w)", [], [("2", "7")]),
    ],
)
def test_products_with_inputs_leave_the_loop(body: str, outside: list, inside: list) -> None:
    text = CELL.replace("BODY", body)
    assert shapes(text) == (outside, inside)
    for got, wanted in zip(
        run(both(text), "f", **FEEDS).results, run(graph_of(text), "f", **FEEDS).results, strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_vectors_become_rows() -> None:
    assert shapes(VECTOR) == ([("9", "3")], [])


@pytest.mark.parametrize(
    "text",
    [
        VECTOR.replace("for x in xs {", "for i in 0..8 { let x = xs[i]\n").replace("-> f64[9, 4]", "-> f64[8, 4]"),
        VECTOR.replace("for x in xs {", "for x in xs with recompute = 3 {").replace("sin(x @ w)", "sin(x[::-1] @ w)"),
        VECTOR.replace("9", "N").replace("f(", "f[N](").replace("x @ w", "w[0] * x[0]"),
    ],
)
def test_other_rows_stay(text: str) -> None:
    assert shapes(text)[0] == []


def test_many_rows_an_iteration_are_worth_a_product_of_their_own() -> None:
    text = VECTOR.replace("f64[9, 3]", "f64[9, ROWS, 3]").replace("-> f64[9, 4]", "-> f64[9, ROWS, 4]")
    assert shapes(text.replace("ROWS", "32"))[0] == [("288", "3")]
    assert shapes(text.replace("ROWS", "33"))[0] == []
    assert shapes(text.replace("ROWS", "B").replace("f(", "f[B]("))[0] == []
    emitted = text.replace("ROWS", "B").replace("f(", "f[B](").replace("emit sin(x @ w)", "let z = x @ w\n emit z")
    assert shapes(emitted)[0] == [("9 * B", "3")]


def test_a_loop_of_no_iterations_makes_a_product_of_no_rows() -> None:
    text = CELL.replace("BODY", CONCAT)
    y, es = loads(dfc.compile(text="dfg 1\n" + text).to_bytes()).entries["f"](FEEDS["xs"][:0], FEEDS["w"], FEEDS["h"])
    np.testing.assert_array_equal(y, FEEDS["h"])
    assert es.shape == (0, 2, 4)


def test_a_product_of_all_iterations_has_the_bits_of_those_of_each() -> None:
    """Rows that are read last one first are multiplied one iteration after the other."""
    rng = np.random.default_rng(0)
    for rows, inner, columns in few([(1, 5, 3), (2, 300, 17), (7, 33, 64), (1, 64, 100)], 2):
        xs = rng.normal(size=(21, rows, inner)).astype(np.float32)
        w = rng.normal(size=(inner, columns)).astype(np.float32)
        signature = f"xs: f32[N, {rows}, {inner}], w: f32[{inner}, {columns}]) -> f32[N, {rows}, {columns}]"
        forward = f"dfg 1\nentry f[N]({signature} {{\n let es = for x in xs {{ emit x @ w }}\n return es\n}}\n"
        backward = forward.replace("for x in xs {", "for i in 0..N { let x = xs[N - 1 - i]\n")
        assert shapes(forward[6:])[1] == []
        assert shapes(backward[6:])[0] == []
        once, each = (loads(dfc.compile(text=t).to_bytes()).entries["f"](xs, w) for t in (forward, backward))
        np.testing.assert_array_equal(once, each[::-1])


def test_the_gradient_does_not_compute_what_inputs_get_if_nobody_asks() -> None:
    text = CELL.replace("BODY", CONCAT).replace("return y, es", "return grad(sum(y), h), es")
    graph = pipeline.optimise(graph_of(text))
    widths = [node.result.tensor.shape[-1] for node in walk.nodes(graph.entries["f"].block) if node.op == "matmul"]
    assert 7 not in [w.constant for w in widths]
