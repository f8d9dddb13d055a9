"""Runs two graphs that should mean the same, and compares what they return and leave behind."""

from __future__ import annotations

import numpy as np

from dfc.ir.graph import Graph
from dfc.ir.verify import verify
from dfc.ops.check import check_node
from dfc.ops.evaluate import Outcome, evaluate
from dfc.ops.spelling import show
from tests.support.cases import Case


def reference(case: Case, graph: Graph | None = None) -> Outcome:
    return evaluate(graph if graph is not None else case.graph, "e", case.feeds(), case.state())


def assert_same(before: Outcome, after: Outcome, rtol: float = 1e-9) -> None:
    """Equal results and state: exact for whole numbers, close for floats, NaN and infinities in the same places."""
    assert len(before.results) == len(after.results)
    for number, (expected, got) in enumerate(zip(before.results, after.results, strict=True)):
        _assert_close(got, expected, rtol, f"result {number}")
    assert before.state.keys() == after.state.keys()
    for name, expected in before.state.items():
        _assert_close(after.state[name], expected, rtol, name)


def _assert_close(got: np.ndarray, expected: np.ndarray, rtol: float, what: str) -> None:
    assert got.dtype == expected.dtype, what
    assert got.shape == expected.shape, what
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol, err_msg=what)
    else:
        np.testing.assert_array_equal(got, expected, err_msg=what)


def verified(graph: Graph, phase: str) -> Graph:
    verify(graph, phase, check_node, show)
    return graph
