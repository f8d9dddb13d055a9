"""Rows that are picked before a loop instead of in its iterations: which ones are, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.diagnostics.source import Span
from dfc.distribute.deployment.model import Shard
from dfc.distribute.shard import hoist_gathers
from dfc.distribute.shard.model import Division, Sharded
from dfc.ir import walk
from dfc.ir.graph import Graph
from tests.support.replicating import check, evaluate, initial_state, optimised

HEAD = """dfg 1
param table: f64[7, 3] = uniform(-1, 1)
param w: f64[3, 3] = uniform(-1, 1)
"""
IDS = np.array([[0, 6, 3], [-1, 2, 2], [5, -7, 4], [1, 1, 0]], np.int32)


def picked(text: str) -> tuple[Graph, Graph]:
    """The graph, and the graph with rows picked ahead."""
    before = optimised(HEAD + text)
    nowhere = Span.nowhere()
    statement = Shard("table", 0, "ps", "modulo", nowhere, nowhere, nowhere)
    after = hoist_gathers(before, {"table": Sharded(Division("ps", "modulo", 7, 2), 0, 2, statement)})
    check(after, "ahead")
    return before, after


def picks(graph: Graph) -> tuple[int, int]:
    """How often rows are picked from the table: outside of loops, and inside."""
    block = graph.entries["e"].block
    reads = {node for node in walk.nodes(block) if node.op == "read" and node.attributes.resource == "table"}
    found = [node for node in walk.nodes(block) if node.op == "gather" and node.operands[0].node in reads]
    top = sum(node in found for node in block.nodes)
    return top, len(found) - top


def same(before: Graph, after: Graph, **feeds: object) -> None:
    state = initial_state(before)
    one, other = (evaluate(graph, "e", feeds, state, {}) for graph in (before, after))
    for a, b in zip(one.results, other.results, strict=True):
        assert np.array_equal(a, b)
    for name, value in one.state.items():
        assert np.array_equal(value, other.state[name]), name


LOOP = """entry e[T, B](ids: i32[T, B]) -> f64[B, 3] {{
  return loop h: f64[B, 3] = zeros(f64[B, 3]) for t in {} {{ {} }}
}}"""
KNOWN = [
    ("0..T", "h = tanh(h @ w + table[ids[t]])"),
    ("0..T", "h = tanh(h @ w + table[ids[T - 1 - t]])"),
    ("0..T", "h = h * 0.5 + table[t]"),
    ("1..T", "h = h * 0.5 + table[(ids[t] + ids[t - 1]) % 7]"),
    ("2..4", "h = h * 0.5 + table[(ids[t, 0] * t as i32) % 7]"),
    ("0..3", "h = loop k = h for s in 0..2 { k = k * 0.5 + table[ids[t + s]] }"),
]


@pytest.mark.parametrize(("rounds", "body"), KNOWN)
def test_rows_by_known_numbers_are_picked_before_the_loop(rounds: str, body: str) -> None:
    before, after = picked(LOOP.format(rounds, body))
    assert picks(before)[0] == 0
    assert picks(after) == (1, 0)
    same(before, after, ids=IDS)


FOUND = [
    ("0..T", "h = tanh(h @ w + table[argmax(h, axis = 1)])"),
    ("0..2", "if sum(h) > 0.5 { h = h + table[ids[t]] } else { h = h + 1.0 }"),
    ("0..(ids[0, 1] % 4) as i64", "h = h + table[ids[t]]"),
    ("0..T", "table[ids[t]] += 1.0\n h = h + table[ids[t]]"),
]


@pytest.mark.parametrize(("rounds", "body"), FOUND)
def test_rows_that_only_iterations_know_are_picked_in_them(rounds: str, body: str) -> None:
    before, after = picked(LOOP.format(rounds, body))
    assert picks(after)[0] == 0
    assert picks(after)[1] >= 1
    same(before, after, ids=IDS)


def test_the_backward_pass_uses_the_rows_of_the_forward_pass() -> None:
    body = "entry e[T, B](ids: i32[T, B]) -> (loss: f64) {\n" + (
        "let h = loop h: f64[B, 3] = zeros(f64[B, 3]) for t in 0..T { h = tanh(h @ w + table[ids[t]]) }\n"
        "let loss = mean(square(h))\n table -= grad(loss, table)\n return loss\n}"
    )
    before, after = picked(body)
    assert picks(before) == (0, 2)
    assert picks(after) == (1, 0)
    same(before, after, ids=IDS)
    same(before, after, ids=IDS[:0])
