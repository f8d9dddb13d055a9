"""The layers of `std.nn` compute what their descriptions say."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import dfc
from dfc.ops.evaluate import evaluate, initial_state
from tests.support.building import graph_of

RNG = np.random.default_rng(3)


def state_of(graph: object) -> dict[str, np.ndarray]:
    """First values with something other than zeros and ones in them."""
    state = initial_state(graph)  # type: ignore[arg-type]
    return {n: v if v.dtype == np.uint64 else RNG.random(v.shape).astype(v.dtype) for n, v in state.items()}


def test_layer_norm_normalises_rows() -> None:
    graph = graph_of(
        "from std.nn import LayerNorm\nvar norm = LayerNorm[4]()\n"
        "entry f[B](x: f32[B, 4]) -> (y: f32[B, 4]) { return norm(x) }\n"
        "entry g(x: f32[4]) -> (y: f32[4]) { return norm(x) }\n"
    )
    state, x = state_of(graph), RNG.random((5, 4)).astype(np.float32)
    center, spread = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    expected = (x - center) / np.sqrt(spread + 1e-5) * state["norm.scale"] + state["norm.shift"]
    np.testing.assert_allclose(evaluate(graph, "f", {"x": x}, state).result, expected, rtol=1e-5)
    np.testing.assert_allclose(evaluate(graph, "g", {"x": x[0]}, state).result, expected[0], rtol=1e-5)


def test_batch_norm_uses_the_batch_while_training_and_the_long_run_otherwise() -> None:
    graph = graph_of(
        "from std.nn import BatchNorm\nvar norm = BatchNorm[3](momentum = 0.9)\n"
        "entry train[B](x: f32[B, 2, 3]) -> (y: f32[B, 2, 3]) {\n let y = norm(x, training = true)\n return y\n}\n"
        "readonly entry use[B](x: f32[B, 2, 3]) -> (y: f32[B, 2, 3]) { return norm(x, training = false) }\n"
    )
    state, x = state_of(graph), RNG.random((5, 2, 3)).astype(np.float32)
    mean, spread = x.mean((0, 1)), x.var((0, 1))
    trained = evaluate(graph, "train", {"x": x}, state)
    scale, shift = state["norm.scale"], state["norm.shift"]
    np.testing.assert_allclose(trained.result, (x - mean) / np.sqrt(spread + 1e-3) * scale + shift, rtol=1e-4)
    usual = state["norm.running_mean"]
    np.testing.assert_allclose(trained.state["norm.running_mean"], usual + 0.1 * (mean - usual), rtol=1e-5)
    used = evaluate(graph, "use", {"x": x}, state)
    expected = (x - usual) / np.sqrt(state["norm.running_variance"] + 1e-3) * scale + shift
    np.testing.assert_allclose(used.result, expected, rtol=1e-4)


def test_an_lstm_cell_takes_one_step() -> None:
    graph = graph_of(
        "from std.nn import LstmCell\nvar cell = LstmCell[2, 3]()\n"
        "entry f[B](x: f32[B, 2], h: f32[B, 3], c: f32[B, 3]) -> (h: f32[B, 3], c: f32[B, 3]) {\n"
        "  return cell(x, h, c)\n}\n"
    )
    state = state_of(graph)
    x, h, c = (RNG.random((4, n)).astype(np.float32) for n in (2, 3, 3))
    gates = np.concatenate([x, h], 1) @ state["cell.w"] + state["cell.b"]
    enter, forget, value, leave = np.split(gates, 4, axis=1)
    memory = _sigmoid(forget + 1) * c + _sigmoid(enter) * np.tanh(value)
    got = evaluate(graph, "f", {"x": x, "h": h, "c": c}, state).results
    np.testing.assert_allclose(got[0], _sigmoid(leave) * np.tanh(memory), rtol=1e-5)
    np.testing.assert_allclose(got[1], memory, rtol=1e-5)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_dropout_zeroes_a_share_and_keeps_the_mean() -> None:
    graph = graph_of(
        "from std.nn import dropout\nvar dice: rng = philox(seed = 5)\n"
        "entry f(x: f32[4000]) -> f32[4000] {\n let y = dropout(x, 0.25, dice, training = true)\n return y\n}\n"
        "readonly entry g(x: f32[4000]) -> f32[4000] { return dropout(x, 0.25, dice, training = false) }\n"
    )
    x = np.ones(4000, np.float32)
    y = evaluate(graph, "f", {"x": x}, initial_state(graph)).result
    assert abs((y == 0).mean() - 0.25) < 0.03
    np.testing.assert_allclose(y[y != 0], 1 / 0.75, rtol=1e-6)
    np.testing.assert_array_equal(evaluate(graph, "g", {"x": x}, initial_state(graph)).result, x)


def test_a_batch_of_nothing_leaves_the_long_run_statistics_alone() -> None:
    graph = graph_of(
        "from std.nn import BatchNorm\nfrom std.metrics import RunningMean\n"
        "var norm = BatchNorm[3](momentum = 0.9)\nvar seen = RunningMean()\n"
        "entry train[B](x: f32[B, 2, 3]) -> (y: f32[B, 2, 3], m: f64) {\n"
        "  let y = norm(x, training = true)\n  seen.add(x)\n  return y, seen.value()\n}\n"
    )
    state = initial_state(graph)
    state["norm.running_mean"] = RNG.random(3).astype(np.float32)
    after = evaluate(graph, "train", {"x": np.zeros((0, 2, 3), np.float32)}, state)
    assert after.results[0].shape == (0, 2, 3)
    for name, value in state.items():
        np.testing.assert_array_equal(after.state[name], value)
    x = RNG.random((4, 2, 3)).astype(np.float32)
    once = evaluate(graph, "train", {"x": x}, after.state)
    np.testing.assert_allclose(once.results[1], x.astype(np.float64).mean())


def test_a_batch_of_nothing_trains_nothing_through_normalised_layers(tmp_path: Path) -> None:
    text = (
        "dfg 1\n\nfrom std.nn import BatchNorm, Dense\nfrom std.optim import Adam\n\n"
        "var dense = Dense[4, 3]()\nvar norm = BatchNorm[3]()\nvar adam = Adam(params(program))\n\n"
        "entry train[B](x: f32[B, 4]) {\n  let y = norm(dense(x), training = true)\n"
        "  adam.step(mean(square(y)))\n}\n"
    )
    bundle = tmp_path / "p.bundle"
    dfc.compile(text=text).save(bundle)
    model = dfc.load(bundle)
    before = {name: np.array(model.state[name]) for name in model.state}
    model.train(x=np.zeros((0, 4), np.float32))
    for name, value in before.items():
        after = np.array(model.state[name])
        assert np.all(np.isfinite(after.astype(np.float64))), name
        if name.startswith("norm.usual"):
            np.testing.assert_array_equal(after, value)
