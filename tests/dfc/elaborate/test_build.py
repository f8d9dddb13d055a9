"""Whole programs: they build, verify, print and build again to the same graph, and compute what NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.equality import difference
from dfc.ops.evaluate import evaluate, initial_state
from dfc.ops.spelling import show
from dfc.transforms.autodiff.autodiff import autodiff
from tests.support.building import graph_of
from tests.support.corpus import ROOT

EXAMPLES = ("01_mlp_digits", "06_newton_and_power", "08_heat_equation")


def example(name: str) -> str:
    return (ROOT / "samples" / "language" / f"{name}.dfg").read_text()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_well_formed_and_survives_printing(name: str) -> None:
    graph = graph_of(example(name))
    assert difference(graph, graph_of(show(graph))) is None


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_tests_of_an_example_pass(name: str) -> None:
    graph = autodiff(graph_of(example(name)))
    for test in graph.tests.values():
        evaluate(graph, test, {}, initial_state(graph))


def test_a_training_step_equals_numpy() -> None:
    graph = autodiff(graph_of(example("01_mlp_digits")))
    state = initial_state(graph)
    rng = np.random.default_rng(1)
    images = rng.random((5, 784)).astype(np.float32)
    labels = rng.integers(0, 10, 5).astype(np.int32)
    after = evaluate(graph, "train", {"images": images, "labels": labels, "rate": np.float32(0.5)}, state)
    w1, b1, w2, b2 = (state[name].astype(np.float64) for name in ("w1", "b1", "w2", "b2"))
    hidden = np.maximum(images @ w1 + b1, 0)
    logits = hidden @ w2 + b2
    chances = np.exp(logits - logits.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    slope = (chances - np.eye(10)[labels]) / 5
    np.testing.assert_allclose(after.results[0], -np.log(chances[np.arange(5), labels]).mean(), rtol=1e-5)
    np.testing.assert_allclose(after.state["w2"], w2 - 0.5 * hidden.T @ slope, atol=1e-5)
    inner = (slope @ w2.T) * (hidden > 0)
    np.testing.assert_allclose(after.state["w1"], w1 - 0.5 * images.T @ inner, atol=1e-5)
    assert after.state["steps"] == 1


def test_an_entry_hides_no_function_and_its_feeds_keep_their_names() -> None:
    graph = graph_of("entry sum(x: f32[3], f: f32) -> f32 { return sum(x) * f }\nentry f(k: f32) -> f32 { return k }")
    assert evaluate(graph, "sum", {"x": np.ones(3, np.float32), "f": np.float32(2)}).result == 6
    assert difference(graph, graph_of(show(graph))) is None


def test_newton_finds_the_root() -> None:
    graph = autodiff(graph_of(example("06_newton_and_power")))
    root, steps = evaluate(graph, "newton", {"guess": 2.0, "tolerance": 1e-12}).results
    np.testing.assert_allclose(root, 2.0945514815423265, rtol=1e-12)
    assert steps.dtype == np.int32


def test_the_dominant_direction_equals_numpy() -> None:
    graph = graph_of(example("06_newton_and_power"))
    a = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
    value, vector, _ = evaluate(graph, "dominant", {"a": a, "start": np.ones(3), "tolerance": 1e-12}).results
    values, vectors = np.linalg.eigh(a)
    np.testing.assert_allclose(value, values[-1], rtol=1e-9)
    np.testing.assert_allclose(np.abs(vector), np.abs(vectors[:, -1]), atol=1e-6)


def test_the_heat_equation_equals_numpy() -> None:
    graph = graph_of(example("08_heat_equation").replace("const N = 512", "const N = 9"))
    state = initial_state(graph)
    rim = {"top": 300.0, "bottom": 280.0, "left": 310.0, "right": 290.0}
    state = evaluate(graph, "set_rim", rim, state).state
    plate = state["plate"].copy()
    after = evaluate(graph, "advance", {"steps": np.int32(4), "ratio": 0.2, "dt": 0.5}, state)
    for _ in range(4):
        inner = plate[2:, 1:-1] + plate[:-2, 1:-1] + plate[1:-1, 2:] + plate[1:-1, :-2] - 4 * plate[1:-1, 1:-1]
        plate[1:-1, 1:-1] += 0.2 * inner
    np.testing.assert_allclose(after.state["plate"], plate, rtol=1e-13)
    assert after.results[0] == 2.0
    assert state["plate"][0, 1] == 300 and state["plate"][1, 0] == 310
