"""Reductions that lost an axis which the next operation needs: what is offered gives NumPy's `keepdims`."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.fixes import applied
from dfc.diagnostics.source import SourceFile
from dfc.elaborate.build import check
from tests.support.building import codes, graph_of, run

HEAD = "readonly entry f[B, K](x: f32[B, K]) -> (y: f32[B, K]) {\n"
X = np.random.default_rng(18).normal(0, 1, (3, 5)).astype(np.float32)


def softmax(x: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


BODIES = {
    "softmax": (
        "  let e = exp(x - max(x, axis = 1))\n  return e / sum(e, axis = 1)\n}\n",
        softmax(X),
    ),
    "a named reduction": (
        "  let m = mean(x, axis = -1)\n  let s = x\n  return s - m\n}\n",
        X - X.mean(1, keepdims=True),
    ),
    "more than the reduction": (
        "  return x / sqrt(variance(x, axis = 1) + 1e-5)\n}\n",
        X / np.sqrt(X.var(1, keepdims=True) + np.float32(1e-5)),
    ),
    "two reductions": (
        "  return x - (max(x, axis = 1) + min(x, axis = 1)) / 2\n}\n",
        X - (X.max(1, keepdims=True) + X.min(1, keepdims=True)) / 2,
    ),
    "an op of the prelude": ("  return maximum(x, mean(x, axis = 1))\n}\n", np.maximum(X, X.mean(1, keepdims=True))),
    "a mask": ("  return select(any(x > 1, axis = 1), x, 0)\n}\n", np.where((X > 1).any(1, keepdims=True), X, 0)),
}


def first(text: str) -> Diagnostic:
    return next(each for each in check(SourceFile("program.dfg", text)) if each.is_error)


def follow(text: str, number: int) -> str:
    for _ in range(4):
        if not codes(text):
            return text
        assert first(text).code == "E0305"
        text = applied(text, first(text).fixes[number].edits)
    raise AssertionError(text)


@pytest.mark.parametrize("number", [0, 1], ids=["kept", "put back"])
@pytest.mark.parametrize("name", BODIES)
def test_what_is_offered_computes_what_was_meant(name: str, number: int) -> None:
    body, expected = BODIES[name]
    fixed = follow(HEAD + body, number)
    assert ("keep_dims = true" in fixed) == (number == 0)
    found = np.asarray(run(graph_of(fixed), "f", x=X).result, np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", BODIES)
def test_sizes_are_not_equated(name: str) -> None:
    assert not any("equal" in text or "where" in text for text in first(HEAD + BODIES[name][0]).helps)


def test_the_line_of_a_named_reduction_is_told() -> None:
    assert "in line 2" in first(HEAD + BODIES["a named reduction"][0]).helps[0]


def test_a_reduction_of_another_function_is_left_alone() -> None:
    text = "fn top[B, K](x: f32[B, K]) -> f32[B] = max(x, axis = 1)\n\n" + HEAD + "  return x - top(x)\n}\n"
    found = first(text)
    assert found.helps == ("to put the reduced axis back, write `top(x)[:, new]`",)
    assert codes(applied(text, found.fixes[0].edits)) == []


def test_the_value_of_an_assignment_keeps_its_axis() -> None:
    text = "var a: f32[3, 4] = 0\n\nentry f(x: f32[3, 4]) {\n  a -= mean(x, axis = 1)\n}\n"
    assert codes(applied(text, first(text).fixes[0].edits)) == []


def test_sizes_that_no_kept_axis_makes_fit_are_equated() -> None:
    found = first("fn f[B, K](x: f32[B, K], y: f32[K, B]) -> f32[K, B] = y - x * max(y)\n")
    assert any("use one name" in text for text in found.helps)


def test_a_vector_of_the_rows_is_put_along_the_columns() -> None:
    text = "fn f[B, K](x: f32[B, K], y: f32[B]) -> f32[B, K] = x - y\n"
    found = first(text)
    assert found.helps == ("to repeat it along the last axis, write `y[:, new]`",)
    assert codes(applied(text, found.fixes[0].edits)) == []
